"""Test votes from a user's file: valid ones are read, others end in one line that names the file."""

import io
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.refusals import refuses
from tests.stages.commands import invoke
from tests.stages.labels import write_votes

import patebench
from patebench.accounting.votes import Votes
from patebench.artefacts.votes_file import read_source
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json
from patebench.core.formats import LABELS

COUNTS = np.array([[7, 2, 1], [10, 0, 0], [4, 3, 3]])
MATRIX = np.array([[0, 1, 2, 0], [0, 1, 1, 0], [2, 1, 0, 0]])
MANY = np.random.default_rng(0).integers(0, 3, (30, 8))  # more teachers than queries
WITH_TOTALS = np.column_stack([COUNTS, COUNTS.sum(axis=1)])
GNMAX = ("--mechanism", "gnmax", "--parameter", "sigma=4")


def table(tmp_path, array, kind="npy"):
    """Write counts or votes to a file of some format."""
    path = tmp_path / f"table.{kind}"
    if kind == "csv":
        np.savetxt(path, array, fmt="%d", delimiter=",")
    else:
        np.save(path, array)
    return path


def read(*arguments, **options):
    """Return the votes in a file."""
    return read_source(*arguments, **options)[1]


def ran(*words):
    """Return the output of a command that must succeed."""
    done = invoke(*words)
    assert done.exit_code == 0, done.exception
    return done.output


@pytest.mark.parametrize(("dtype", "layout"), [("u1", "C"), ("u8", "C"), (">i8", "F"), ("f4", "F"), ("f8", "C")])
def test_counts_and_votes_of_any_number_type_and_layout(tmp_path, dtype, layout):
    votes = read(table(tmp_path, np.asarray(COUNTS, dtype=dtype, order=layout)))
    np.testing.assert_array_equal(votes.counts, COUNTS)
    assert (votes.teachers, votes.queries, votes.classes, votes.matrix) == (10, 3, 3, None)
    votes = read(table(tmp_path, np.asarray(MATRIX, dtype=dtype, order=layout)), labels=True, classes=4)
    np.testing.assert_array_equal(votes.counts, Votes.of(MATRIX, 4).counts)
    np.testing.assert_array_equal(votes.matrix, MATRIX)


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


def test_an_artefact_states_its_own_classes_and_orientation(tmp_path):
    path = write_votes(tmp_path / "votes.npz", MANY, 3)
    assert read(path).teachers == read(path, teachers=30).teachers == 30
    np.testing.assert_array_equal(read(path, labels=True, classes=3).matrix, MANY)
    with pytest.raises(PatebenchError, match="3 classes, but --classes is 4"):
        read(path, labels=True, classes=4)
    with pytest.raises(PatebenchError, match="votes of 30 teachers, but --teachers is 8; leave --teachers out"):
        read(path, teachers=8)
    path.write_bytes(path.read_bytes()[:-30])
    with refuses("damaged"):
        read(path)


def header_without_data():
    stream = io.BytesIO()
    header = {"descr": "<i8", "fortran_order": False, "shape": (10**9, 10**9)}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


VOTES_OF_THREE = {"labels": True, "classes": 3}


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (COUNTS + 0.5, {}, "7.5 in row 0, column 0 .*; use whole numbers from 0 to 10995"),
        (np.where(COUNTS == 3, np.nan, COUNTS), {}, "nan in row 2, column 1 "),
        (-COUNTS, {}, "-7 in row 0, column 0 .*; use whole numbers from 0 to 1099511627775$"),
        (COUNTS.astype(np.uint64) + np.uint64(2**63), {}, "use whole numbers from 0 to"),
        (COUNTS.ravel(), {}, "instead of a table"),
        (np.zeros((0, 10), dtype=int), {}, "which has no entries"),
        (np.zeros((3, 2), dtype=int), {}, "query 0 .counted from 0. has no votes"),
        (COUNTS.astype(complex), {}, "dtype complex"),
        (np.vstack([COUNTS, [5, 2, 2]]), {}, "query 0 has 10 votes, but query 3 has 9"),
        (MATRIX, {}, r"add --classes if each row .* \('patebench epsilon' also needs --votes"),
        (MATRIX, {"labels": True, "classes": 2}, "2 in row 0, column 2 .*; use whole numbers from 0 to 1$"),
        (MATRIX - 1, VOTES_OF_THREE, "-1 in row 0, column 0 .* from 0 to 2, as votes of your own file cannot abstain"),
        (COUNTS, {"labels": True}, "add --classes"),
        (COUNTS, {"classes": 3}, "--votes"),
        (MANY, VOTES_OF_THREE, "the table has 30 rows .* only 8 columns .*; transpose .*--teachers 30"),
        (
            MANY,
            {**VOTES_OF_THREE, "teachers": 8},
            "the stated number of teachers is 8, but the table has votes of 30 teachers on 8 queries",
        ),
        (WITH_TOTALS, {}, "column 3 of .* is the sum of the other columns.*--teachers 20"),
        (np.roll(WITH_TOTALS, 1, axis=1)[:1], {}, "column 0 of .* is the sum of the other columns.*--teachers 20"),
        (WITH_TOTALS, {"teachers": 10}, "votes of 20 teachers"),
        (np.column_stack([WITH_TOTALS, np.full(3, 10)]), {}, "may contain totals of the other columns"),
        (np.array([[{}]], dtype=object), {}, "pickled objects, which are never loaded"),
        (pickle.dumps(COUNTS), {}, r"is neither a \.npy file nor CSV"),
        (header_without_data(), {}, "is truncated or damaged"),
        (None, {}, "cannot be read"),
        ("", {}, "is empty"),
        ("cat,dog\n", {}, "contains no numbers"),
        ("7,2,1\n10,x,0\n", {}, r"is not a table of numbers \(line 2 contains 'x'\)"),
        ("cat,dog\n\n10,0\nx,0\n", {}, r"\(line 4 contains 'x'\)"),
        ("cat,dog\n10,0\n1,2,3\n", {}, r"\(line 3 contains 3 values instead of 2\)"),
        ("1O,10\n20,0\n20,0\n", {}, "line 1 contains '1O' and numbers; write only column names or only numbers"),
        (",cat,dog\n0,5,5\n1,4,6\n", {}, "the first column has no name, so it seems to contain row numbers"),
    ],
)
def test_what_is_no_table_of_votes_is_one_line_that_names_the_file(tmp_path, content, options, message):
    path = tmp_path / "file"
    if isinstance(content, np.ndarray):
        with path.open("wb") as stream:
            np.save(stream, content, allow_pickle=True)
    elif content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(PatebenchError, match=message) as fault:
        read(path, **options)
    assert str(fault.value).startswith(str(path))
    assert "\n" not in str(fault.value)
    assert "delete" not in str(fault.value)


def test_the_number_of_teachers_confirms_a_table(tmp_path):
    assert read(table(tmp_path, MANY), labels=True, classes=3, teachers=30).teachers == 30
    assert read(table(tmp_path, MANY.T), labels=True, classes=3).teachers == 8
    assert read(table(tmp_path, WITH_TOTALS), teachers=20).classes == 4
    counts = table(tmp_path, COUNTS)
    assert read(counts).teachers == read(counts, teachers=10).teachers == 10


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
    votes, line = None, ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            votes = read(path)
        except PatebenchError as fault:
            line = str(fault)
    assert "\n" not in line
    assert votes is None or (not cut and votes.counts.min() >= 0)


def test_a_table_is_labelled_accounted_for_and_audited(tmp_path):
    """Compare ε with that of the same votes in Python; all settings are read from the labels."""
    path, labels, out = table(tmp_path, COUNTS, "csv"), tmp_path / "labels.npz", tmp_path / "bounds.json"
    sizes = f"{path}: counts of 10 teachers on 3 queries among 3 classes\n"
    assert ran("aggregate", "--votes", path, *GNMAX, "--seed", 0, "--stream", "s", "--out", labels) == sizes
    assert ran("account", "--votes", path, "--labels", labels, "--delta", 1e-5, "--out", out) == sizes
    stated = sorted(each["epsilon"] for each in read_json(out, "account")["bounds"])
    epsilons = sorted(bound.epsilon for bound in patebench.bounds(COUNTS, "gnmax", sigma=4, delta=1e-5))
    assert stated == pytest.approx(epsilons, rel=1e-12)  # other blocks, other rounding
    other, none = table(tmp_path, COUNTS[::-1]), tmp_path / "none.json"
    refused = invoke("account", "--votes", other, "--labels", labels, "--delta", 1e-5, "--out", none)
    assert "it was drawn from other votes than" in str(refused.exception)
    assert ran("audit", "--votes", path, *GNMAX, "--delta", 1e-5, "--runs", 1000, "--out", out) == sizes
    audited = read_json(out, "audit")
    assert (audited["teachers"], audited["classes"]) == (10, 3)


def released(tmp_path, path, *words):
    """Release labels of the votes in a file, with the ledgers of this folder."""
    labels = tmp_path / f"labels-{len(list(tmp_path.glob('labels-*.npz')))}.npz"
    asked = ["--votes", path, *GNMAX, "--release", "--ledger", tmp_path / "ledger", "--out", labels]
    return invoke("aggregate", *asked, *words)


def test_a_table_that_is_released_stands_in_a_ledger_and_tells_nothing_of_its_votes(tmp_path):
    releases = []
    for name, counts in (("one", COUNTS), ("two", COUNTS + np.array([-1, 1, 0]))):
        path = table(tmp_path, counts, "csv")
        assert released(tmp_path, path, "--private", name).exit_code == 0
        labels = tmp_path / f"labels-{len(releases)}.npz"
        stated = ["--ledger", tmp_path / "ledger", "--out", tmp_path / f"{name}.json"]
        ran("account", "--votes", path, "--labels", labels, "--delta", 1e-5, *stated)
        releases.append(read_arrays(labels, LABELS).meta)
    assert sorted(path.stem for path in (tmp_path / "ledger").glob("*.json")) == ["one", "two"]
    first, second = ({name: fact for name, fact in meta.items() if name != "entries"} for meta in releases)
    assert first == second


def test_a_table_is_the_same_data_in_any_order(tmp_path):
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 4, (30, 25))
    counts = Votes.of(votes, 4).counts
    assert released(tmp_path, table(tmp_path, counts, "csv")).exit_code == 0
    queries, classes, teachers = rng.permutation(25), rng.permutation(4), rng.permutation(30)
    np.save(tmp_path / "votes.npy", classes[votes[teachers][:, queries]])
    other = np.hstack([np.zeros((25, 1), int), counts[queries][:, classes]])  # nobody voted for the first class
    for path, *words in (
        (table(tmp_path, counts[queries]),),
        (table(tmp_path, other, "csv"),),
        (tmp_path / "votes.npy", "--classes", 4, "--teachers", 30),
        (write_votes(tmp_path / "votes.npz", votes[:, queries], partition=""),),
    ):
        refused = released(tmp_path, path, *words)
        assert "1 draw was already made from this private data" in str(refused.exception), path
    assert len(list((tmp_path / "ledger").glob("*.json"))) == len(list(tmp_path.glob("labels-*"))) == 1
    allowed = released(tmp_path, table(tmp_path, counts[1:]), "--ledger-budget", 50, "--ledger-delta", "1e-5")
    assert (
        "has no ledger yet, but the 1 other ledger in this folder may belong to the same" in allowed.output
    )  # one query less


@pytest.mark.parametrize("command", ["epsilon", "aggregate", "account", "audit"])
def test_commands_ask_for_the_number_of_teachers(tmp_path, command):
    path, labels = table(tmp_path, MANY), tmp_path / "labels.npz"
    votes, delta = ("--votes", path, "--classes=3"), "--delta=1e-5"
    drawn = (*votes, *GNMAX, "--seed=0", "--stream=x", f"--out={labels}")
    if command == "account":
        ran("aggregate", *drawn, "--teachers=30")
    words = {
        "epsilon": (path, "--votes", "--classes=3", delta, *GNMAX),
        "aggregate": drawn,
        "account": (*votes, f"--labels={labels}", delta, f"--out={tmp_path}/bounds.json"),
        "audit": (*votes, *GNMAX, delta, "--runs=1000", f"--out={tmp_path}/audit.json"),
    }[command]
    assert "confirm this with --teachers 30" in str(invoke(command, *words).exception)
    assert "stated number of teachers is 8" in str(invoke(command, *words, "--teachers=8").exception)


def test_python_asks_for_the_number_of_teachers():
    bounds = partial(patebench.bounds, mechanism="gnmax", sigma=4, delta=1e-5)
    label = partial(patebench.label, mechanism="gnmax", sigma=4, seed=0)
    for call, votes, more, message in (
        (label, MANY, {"classes": 3}, r"30 rows .* only 8 columns .*teachers=30"),
        (bounds, MANY, {"classes": 3}, r"30 rows .* only 8 columns .*teachers=30"),
        (bounds, MANY, {"classes": 3, "teachers": 8}, "stated number of teachers is 8"),
        (bounds, Votes.of(MANY, 3), {"teachers": 8}, "stated number of teachers is 8"),
        (bounds, WITH_TOTALS, {}, r"sum of the other columns.*teachers=20"),
    ):
        with pytest.raises(PatebenchError, match=message):
            call(votes, **more)
    for votes, more in ((MANY, {"classes": 3, "teachers": 30}), (MANY.T, {"classes": 3}), (Votes.of(MANY, 3), {})):
        bounds(votes, **more)
