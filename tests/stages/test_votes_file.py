"""Votes from anybody's file: what is sound is read, what is not is one line that names the file."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patebench.accounting.votes import Votes
from patebench.core.errors import PatebenchError
from patebench.core.files import write_arrays
from patebench.core.formats import VOTES
from patebench.stages.votes_file import read

COUNTS = np.array([[7, 2, 1], [10, 0, 0], [4, 3, 3]])
MATRIX = np.array([[0, 1, 2, 0], [0, 1, 1, 0], [2, 1, 0, 0]])


@pytest.fixture
def saved(tmp_path):
    def save(array, name="file.npy"):
        np.save(tmp_path / name, array)
        return tmp_path / name

    return save


@pytest.mark.parametrize("dtype", ["u1", "i4", "<i8", ">i8", "f4", "f8"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_counts_of_any_number_type_and_layout(saved, dtype, layout):
    votes = read(saved(np.asarray(COUNTS, dtype=dtype, order=layout)))
    np.testing.assert_array_equal(votes.counts, COUNTS)
    assert (votes.teachers, votes.queries, votes.classes, votes.matrix) == (10, 3, 3, None)


@pytest.mark.parametrize("dtype", ["u1", "i8", "f8"])
def test_votes_keep_who_said_what(saved, dtype):
    votes = read(saved(MATRIX.astype(dtype)), labels=True, classes=4)
    np.testing.assert_array_equal(votes.counts, Votes.of(MATRIX, 4).counts)
    np.testing.assert_array_equal(votes.matrix, MATRIX)


def test_our_own_artefact(tmp_path):
    facts = {"partition": "p", "pool": "q", "test": "t", "classes": 3, "chunks": []}
    arrays = {"votes": MATRIX.astype(np.uint8), "test_votes": MATRIX.astype(np.uint8)}
    path = tmp_path / "votes.npz"
    write_arrays(path, VOTES, arrays, facts)
    np.testing.assert_array_equal(read(path).counts, Votes.of(MATRIX, 3).counts)
    assert read(path, labels=True, classes=3).matrix is not None
    with pytest.raises(PatebenchError, match="3 classes, not 4"):
        read(path, labels=True, classes=4)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(PatebenchError, match="truncated or damaged"):
        read(path)


def test_the_first_queries_alone(saved):
    votes = read(saved(MATRIX), labels=True, classes=3).at(slice(2))
    np.testing.assert_array_equal(votes.counts, Votes.of(MATRIX[:, :2], 3).counts)
    np.testing.assert_array_equal(votes.matrix, MATRIX[:, :2])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (COUNTS + 0.5, "fractions such as 7.5"),
        (np.where(COUNTS == 7, np.nan, COUNTS), "NaN"),
        (np.where(COUNTS == 7, np.inf, COUNTS), "infinite"),
        (-COUNTS, "no numbers of votes"),
        (COUNTS.astype(np.uint64) + np.uint64(2**63), "no numbers of votes"),
        (np.full((2, 2), 1e300), "no numbers of votes"),
        (COUNTS.ravel(), "two dimensions"),
        (COUNTS[None], "two dimensions"),
        (np.zeros((0, 10), dtype=int), "without a single vote"),
        (np.zeros((3, 2), dtype=int), "at least|non-negative"),
        (COUNTS[:, :1], "votes|classes"),
        (COUNTS > 2, "dtype bool"),
        (COUNTS.astype(complex), "dtype complex"),
        (COUNTS.astype(str), "dtype <U"),
        (np.zeros((2, 2), dtype=[("a", int)]), "dtype"),
        (np.vstack([COUNTS, [5, 2, 2]]), "query 0 has 10 votes and query 3 has 9"),
        (MATRIX, "--votes --classes"),
    ],
)
def test_counts_that_are_none(saved, array, message):
    path = saved(array)
    with pytest.raises(PatebenchError, match=message) as fault:
        read(path)
    assert str(fault.value).startswith(f"{path}: ")
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(("array", "classes"), [(MATRIX, 2), (MATRIX - 1, 3), (MATRIX[0], 3), (MATRIX * 0.5, 3)])
def test_votes_out_of_range(saved, array, classes):
    path = saved(array)
    with pytest.raises(PatebenchError) as fault:
        read(path, labels=True, classes=classes)
    assert str(fault.value).startswith(f"{path}: ")


@pytest.mark.parametrize(("options", "message"), [({"labels": True}, "add --classes"), ({"classes": 3}, "--votes")])
def test_votes_and_classes_go_together(saved, options, message):
    with pytest.raises(PatebenchError, match=message):
        read(saved(COUNTS), **options)


def test_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (print, ("sprung",))

    np.save(tmp_path / "objects.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
    with pytest.raises(PatebenchError, match="pickled objects, which are never loaded"):
        read(tmp_path / "objects.npy")
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps(COUNTS))
    with pytest.raises(PatebenchError, match=r"no \.npy file"):
        read(tmp_path / "plain.pkl")


def test_a_header_that_promises_the_moon_allocates_nothing(tmp_path):
    header = {"descr": "<i8", "fortran_order": False, "shape": (10**9, 10**9)}
    with open(tmp_path / "moon.npy", "wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
    with pytest.raises(PatebenchError, match="bytes"):
        read(tmp_path / "moon.npy")


@pytest.mark.parametrize("path", ["none.npy", "folder", "empty.npy", "text.npy"])
def test_what_is_no_array(tmp_path, path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npy").write_text("7,2,1\n10,0,0\n")
    with pytest.raises(PatebenchError) as fault:
        read(tmp_path / path)
    assert path in str(fault.value)


@settings(max_examples=150)
@given(st.data())
def test_damage_is_one_line_or_the_same_shape_of_numbers(tmp_path_factory, data):
    """A file cut short is always refused; one with a byte changed either is refused or still holds sound counts."""
    path = tmp_path_factory.mktemp("damage") / "file.npy"
    np.save(path, COUNTS)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    cut = data.draw(st.booleans())
    if cut:
        content = content[:at]
    else:
        content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        votes, fault = attempt(path)
    assert fault is None or "\n" not in fault
    assert fault is not None or not cut
    assert votes is None or votes.counts.min() >= 0


def attempt(path):
    """The votes and no fault, or no votes and the words of the fault."""
    try:
        return read(path), None
    except PatebenchError as fault:
        return None, str(fault)
