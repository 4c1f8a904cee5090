"""Test votes from a user's file: valid ones are read, others end in one line that names the file."""

import pickle
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses

import patebench
from patebench.accounting.votes import Votes
from patebench.artefacts.votes_file import read
from patebench.cli import cli
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import LABELS, VOTES

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
    with refuses("damaged"):
        read(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (COUNTS + 0.5, "fractions such as 7.5"),
        (np.where(COUNTS == 7, np.nan, COUNTS), "NaN"),
        (-COUNTS, "use numbers from 0 to"),
        (COUNTS.astype(np.uint64) + np.uint64(2**63), "use numbers from 0 to"),
        (COUNTS.ravel(), "two dimensions"),
        (np.zeros((0, 10), dtype=int), "which has no votes"),
        (np.zeros((3, 2), dtype=int), "at least|non-negative"),
        (COUNTS[:, :1], "votes|classes"),
        (COUNTS.astype(complex), "dtype complex"),
        (np.vstack([COUNTS, [5, 2, 2]]), "query 0 has 10 votes and query 3 has 9"),
        (MATRIX, r"add --classes \(and --votes"),
    ],
)
def test_counts_that_are_none(saved, array, message):
    path = saved(array)
    with pytest.raises(PatebenchError, match=message) as fault:
        read(path)
    assert str(fault.value).startswith(str(path))
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(("array", "classes"), [(MATRIX, 2), (MATRIX - 1, 3), (MATRIX[0], 3), (MATRIX * 0.5, 3)])
def test_votes_out_of_range(saved, array, classes):
    path = saved(array)
    with pytest.raises(PatebenchError) as fault:
        read(path, labels=True, classes=classes)
    assert str(fault.value).startswith(str(path))


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
    with pytest.raises(PatebenchError, match=r"is neither a \.npy file nor CSV"):
        read(tmp_path / "plain.pkl")


def test_a_header_that_promises_the_moon_allocates_nothing(tmp_path):
    header = {"descr": "<i8", "fortran_order": False, "shape": (10**9, 10**9)}
    with open(tmp_path / "moon.npy", "wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
    with pytest.raises(PatebenchError, match="is truncated or damaged"):
        read(tmp_path / "moon.npy")


@pytest.mark.parametrize("path", ["none.npy", "folder", "empty.npy", "text.npy", "spaces.csv"])
def test_what_is_no_array(tmp_path, path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.npy").touch()
    (tmp_path / "text.npy").write_text("seven votes")
    (tmp_path / "spaces.csv").write_text("\n \n")
    with pytest.raises(PatebenchError) as fault:
        read(tmp_path / path)
    assert path in str(fault.value)


@settings(max_examples=150)
@given(st.data())
def test_damage_is_one_line_or_the_same_shape_of_numbers(tmp_path_factory, data):
    """Always refuse a truncated file; a file with a changed byte is refused or still has valid counts."""
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
    """Return the votes and no error, or no votes and the message of the error."""
    try:
        return read(path), None
    except PatebenchError as fault:
        return None, str(fault)


# --- tables other than .npy ---


@pytest.mark.parametrize(
    "text",
    [
        "7,2,1\n10,0,0\n4,3,3\n",
        "cat,dog,eel\r\n7,2,1\r\n10,0,0\r\n\r\n4,3,3",
        "\ufeff7,2,1\n10,0,0\n4,3,3\n",
        "7.0, 2.0, 1e0\n10, 0, 0\n4, 3, 3",
    ],
)
def test_counts_in_lines_of_text(tmp_path, text):
    (tmp_path / "counts.csv").write_text(text, newline="")
    np.testing.assert_array_equal(read(tmp_path / "counts.csv").counts, COUNTS)


def test_votes_in_lines_of_text(tmp_path):
    (tmp_path / "votes.csv").write_text("\n".join(",".join(map(str, row)) for row in MATRIX))
    np.testing.assert_array_equal(read(tmp_path / "votes.csv", labels=True, classes=4).matrix, MATRIX)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7,2,1\n10,0\n", "is not a table of numbers"),
        ("7,2,1\n10,x,0\n", "is not a table of numbers"),
        ("cat,dog\n", "contains no numbers"),
        ("7;2;1\n10;0;0\n", "no numbers|is not a table"),
        ("1O,10\n20,0\n20,0\n", "line 1 contains '1O' and numbers; write either names of columns or numbers"),
        ("=1+1,2\n2,1\n", "line 1 contains '=1\\+1' and numbers"),
        (",cat,dog\n0,5,5\n1,4,6\n", "its first column has no name, so it seems to contain row numbers"),
        ("7,2,1\n10,0,1\n", "query 0 has 10 votes and query 1 has 11"),
        ("7,2\0,1\n", "and numbers; write"),
    ],
)
def test_lines_of_text_that_are_no_counts(tmp_path, text, message):
    (tmp_path / "counts.csv").write_text(text)
    with pytest.raises(PatebenchError, match=message) as fault:
        read(tmp_path / "counts.csv")
    assert "\n" not in str(fault.value)
    assert "delete" not in str(fault.value)


def table(tmp_path, kind, counts):
    """Write counts to a file of some format."""
    path = tmp_path / f"counts.{kind}"
    if kind == "csv":
        np.savetxt(path, counts, fmt="%d", delimiter=",")
    else:
        np.save(path, counts)
    return path


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_a_table_is_labelled_and_accounted_for(tmp_path, kind):
    """Compare ε with that of the same votes in Python; all settings are read from the labels."""
    path, labels, out = table(tmp_path, kind, COUNTS), tmp_path / "labels.npz", tmp_path / "bounds.json"
    noise = ["--mechanism", "gnmax", "--parameter", "sigma=4", "--seed", "0", "--stream", "s"]
    said = ran("aggregate", "--votes", path, *noise, "--out", labels)
    assert said == f"{path}: counts of 10 teachers on 3 queries among 3 classes\n"
    said = ran("account", "--votes", path, "--labels", labels, "--delta", "1e-5", "--out", out)
    assert said == f"{path}: counts of 10 teachers on 3 queries among 3 classes\n"
    stated = sorted(each["epsilon"] for each in read_json(out, "account")["bounds"])
    epsilons = sorted(bound.epsilon for bound in patebench.bounds(COUNTS, "gnmax", sigma=4, delta=1e-5))
    assert stated == pytest.approx(epsilons, rel=1e-12)  # other blocks, other rounding
    other = table(tmp_path, kind, COUNTS[::-1])
    done = CliRunner().invoke(cli, ["account", "--votes", str(other), "--labels", str(labels), "--delta", "1e-5",
                                    "--out", str(tmp_path / "none.json")])  # fmt: skip
    assert "it was made with another votes than" in str(done.exception)


def test_a_table_that_is_released_stands_in_a_ledger_and_tells_nothing_of_its_votes(tmp_path):
    releases = []
    for counts in (COUNTS, COUNTS + np.array([-1, 1, 0])):
        path, labels = table(tmp_path, "csv", counts), tmp_path / f"labels-{len(releases)}.npz"
        asked = ["--mechanism", "gnmax", "--parameter", "sigma=4", "--release", "--ledger", tmp_path / "ledger"]
        asked += ["--private", f"table-{len(releases)}"]
        ran("aggregate", "--votes", path, *asked, "--out", labels)
        stated = ["--ledger", tmp_path / "ledger", "--out", tmp_path / f"bounds-{len(releases)}.json"]
        ran("account", "--votes", path, "--labels", labels, "--delta", "1e-5", *stated)
        releases.append(read_arrays(labels, LABELS).meta)
    assert sorted(path.stem for path in (tmp_path / "ledger").glob("*.json")) == ["table-0", "table-1"]
    first, second = ({name: fact for name, fact in meta.items() if name != "entries"} for meta in releases)
    assert first == second


def released(tmp_path, path, *words):
    """Release labels of the votes in a file, with the ledgers of this folder."""
    number = len(list(tmp_path.glob("labels-*.npz")))
    asked = ["--mechanism", "gnmax", "--parameter", "sigma=4", "--release", "--ledger", tmp_path / "ledger"]
    asked += ["--votes", path, "--out", tmp_path / f"labels-{number}.npz", *words]
    return CliRunner().invoke(cli, ["aggregate", *map(str, asked)])


def without_partition(path, matrix):
    facts = {"partition": "", "pool": "q", "test": "t", "classes": 4, "chunks": []}
    write_arrays(path, VOTES, {"votes": matrix.astype(np.uint8)}, facts)
    return path


def test_a_table_is_the_same_data_in_any_order(tmp_path):
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 4, (30, 25))
    counts = Votes.of(votes, 4).counts
    assert released(tmp_path, table(tmp_path, "csv", counts)).exit_code == 0
    queries, classes, teachers = rng.permutation(25), rng.permutation(4), rng.permutation(30)
    np.save(tmp_path / "votes.npy", classes[votes[teachers][:, queries]])
    other = np.hstack([np.zeros((25, 1), int), counts[queries][:, classes]])  # nobody voted for the first class
    for path, *words in (
        (table(tmp_path, "npy", counts[queries]),),
        (table(tmp_path, "npy", counts[:, classes]),),
        (table(tmp_path, "csv", other),),
        (tmp_path / "votes.npy", "--classes", 4, "--teachers", 30),
        (without_partition(tmp_path / "votes.npz", votes[:, queries]),),
    ):
        refused = released(tmp_path, path, *words)
        assert "1 draw was made from this private data already" in str(refused.exception), path
    assert len(list((tmp_path / "ledger").glob("*.json"))) == 1


def test_votes_that_are_not_recognised_beside_other_ledgers_need_a_limit_or_a_name(tmp_path):
    """Leave out one query, which gives the table another digest."""
    votes = np.random.default_rng(0).integers(0, 4, (30, 25))
    counts = Votes.of(votes, 4).counts
    assert released(tmp_path, table(tmp_path, "csv", counts)).exit_code == 0
    fewer = table(tmp_path, "npy", counts[1:])
    for path in (fewer, without_partition(tmp_path / "votes.npz", votes[:, 1:])):
        refused = released(tmp_path, path)
        assert refused.exit_code == 1
        assert "has no ledger yet, and the 1 other ledger may be of the same data" in str(refused.exception)
        assert "--private" in str(refused.exception)
    assert len(list((tmp_path / "ledger").glob("*.json"))) == len(list(tmp_path.glob("labels-*"))) == 1
    allowed = released(tmp_path, fewer, "--ledger-budget", 50, "--ledger-delta", "1e-5")
    assert allowed.exit_code == 0
    assert "has no ledger yet, and the 1 other ledger may be of the same data" in allowed.output
    named = released(tmp_path, table(tmp_path, "csv", counts[2:]), "--private", "mine")
    assert "name the data of the others first" in str(named.exception)
    for number, path in enumerate((tmp_path / "ledger").glob("*.json")):
        assert ran("ledger", path, "--private", f"other-{number}")
    named = released(tmp_path, table(tmp_path, "csv", counts[2:]), "--private", "mine")
    assert named.exit_code == 0
    again = released(tmp_path, table(tmp_path, "csv", counts[3:]), "--private", "mine")
    assert "1 draw was made from this private data already" in str(again.exception)


def test_several_columns_that_are_no_votes_are_refused(tmp_path):
    """Add a total and the number of teachers to the columns of classes."""
    counts = np.array([[8, 1, 1], [4, 3, 3], [6, 2, 2]])
    both = np.column_stack([counts, counts.sum(axis=1), np.full(3, 10)])
    with pytest.raises(PatebenchError, match="may hold totals of the others"):
        read(table(tmp_path, "csv", both))
    assert read(table(tmp_path, "csv", counts)).teachers == 10


def test_an_audit_takes_its_sizes_from_votes(tmp_path):
    path = table(tmp_path, "csv", COUNTS)
    asked = ["--mechanism", "gnmax", "--parameter", "sigma=4", "--delta", "1e-5", "--runs", "1000"]
    out = tmp_path / "audit.json"
    said = ran("audit", "--votes", path, *asked, "--out", out)
    assert said == f"{path}: counts of 10 teachers on 3 queries among 3 classes\n"
    audited = read_json(out, "audit")
    assert (audited["teachers"], audited["classes"]) == (10, 3)


def ran(*words):
    """Return the output of a command that must succeed."""
    done = CliRunner().invoke(cli, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


# Orientation of a table.

MANY = np.random.default_rng(0).integers(0, 3, (30, 8))  # more teachers than queries


def test_more_teachers_than_queries_are_confirmed(saved):
    path = saved(MANY)
    with pytest.raises(
        PatebenchError, match=r"file\.npy: the table has 30 rows and 8 columns.*--teachers 30; else transpose"
    ):
        read(path, labels=True, classes=3)
    assert read(path, labels=True, classes=3, teachers=30).teachers == 30
    with pytest.raises(PatebenchError, match=r"votes of 30 teachers on 8 queries, not of 8"):
        read(path, labels=True, classes=3, teachers=8)
    assert read(saved(MANY.T), labels=True, classes=3).teachers == 8


def test_an_ensemble_of_the_workflow_is_not_asked(tmp_path):
    facts = {"partition": "p", "pool": "q", "test": "t", "classes": 3, "chunks": []}
    path = tmp_path / "votes.npz"
    write_arrays(path, VOTES, {"votes": MANY.astype(np.uint8)}, facts)
    assert read(path).teachers == read(path, teachers=30).teachers == 30
    with pytest.raises(PatebenchError, match="votes of 30 teachers, not of 8; leave --teachers out"):
        read(path, teachers=8)


def test_a_column_of_totals_is_refused(tmp_path):
    path = tmp_path / "counts.csv"
    for table in (np.column_stack([COUNTS, COUNTS.sum(axis=1)]), np.column_stack([COUNTS.sum(axis=1), COUNTS])[:1]):
        np.savetxt(path, table, fmt="%d", delimiter=",")
        with pytest.raises(PatebenchError, match=r"column [30] of .* is the sum of the others.*--teachers 20"):
            read(path)
        assert read(path, teachers=20).classes == 4
        with pytest.raises(PatebenchError, match="votes of 20 teachers"):
            read(path, teachers=10)
    np.savetxt(path, COUNTS, fmt="%d", delimiter=",")
    assert read(path).teachers == read(path, teachers=10).teachers == 10


@pytest.mark.parametrize("command", ["epsilon", "aggregate", "account", "audit"])
def test_commands_ask_for_the_number_of_teachers(tmp_path, saved, command):
    path = saved(MANY)
    mechanism = ["--mechanism=gnmax", "--sigma=4"]
    table = [f"--votes={path}", "--classes=3"]
    labels = ["aggregate", *table, *mechanism, "--seed=0", "--stream=x", f"--out={tmp_path}/labels.npz"]
    if command == "account":
        assert CliRunner().invoke(cli, [*labels, "--teachers=30"]).exit_code == 0
    words = {
        "epsilon": ["epsilon", str(path), "--votes", "--classes=3", "--delta=1e-5", *mechanism],
        "aggregate": labels,
        "account": ["account", *table, f"--labels={tmp_path}/labels.npz", "--delta=1e-5", f"--out={tmp_path}/b.json"],
        "audit": ["audit", *table, *mechanism, "--delta=1e-5", "--runs=1000", f"--out={tmp_path}/a.json"],
    }[command]
    result = CliRunner().invoke(cli, words)
    assert "confirm it with --teachers 30" in str(result.exception)
    assert CliRunner().invoke(cli, [*words, "--teachers=30"]).exit_code == 0
    assert "not of 8" in str(CliRunner().invoke(cli, [*words, "--teachers=8"]).exception)


def test_python_asks_too():
    for call in (
        lambda votes, **more: patebench.bounds(votes, "gnmax", sigma=4, delta=1e-5, **more),
        lambda votes, **more: patebench.label(votes, "gnmax", sigma=4, seed=0, **more),
    ):
        with pytest.raises(PatebenchError, match=r"30 rows and 8 columns.*teachers=30"):
            call(MANY, classes=3)
        with pytest.raises(PatebenchError, match="not of 8"):
            call(MANY, classes=3, teachers=8)
        with pytest.raises(PatebenchError, match="not of 8"):
            call(Votes.of(MANY, 3), teachers=8)
        with pytest.raises(PatebenchError, match=r"sum of the others.*teachers=20"):
            call(np.column_stack([COUNTS, COUNTS.sum(axis=1)]))
        for votes, more in ((MANY, {"classes": 3, "teachers": 30}), (MANY.T, {"classes": 3}), (Votes.of(MANY, 3), {})):
            call(votes, **more)
