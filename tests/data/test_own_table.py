"""Test tables of people: declarations, encoding, division by person, and proposals from public records."""

import shlex
from datetime import datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.refusals import refuses

from patebench.cli import cli
from patebench.config import load as load_configuration
from patebench.config import validate
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.data.dataset import Dataset
from patebench.data.declaration import TableDeclaration, plain_text
from patebench.data.own_table import encode, load, public_by_hash, read_frame
from patebench.data.proposal import configuration, propose

DECLARED: dict[str, Any] = {
    "label": {"column": "state", "classes": ["ill", "well"]},
    "owner": "person",
    "features": {
        "age": {"number": [0, 100]},
        "sex": {"category": ["f", "m"]},
        "day": {"date": ["2020-01-01", "2020-12-31"], "missing": "column"},
        "note": {"text": 8},
    },
    "drop": ["id"],
}
HEADER = "id,person,age,sex,day,note,state"
PRIVATE = ["1,Ä-1,20,f,2020-01-01,all well,well", "2,Ä-1,150,x,,pain,ill", "3,7,-3,m,2031-05-05,cough at night,ill"]
PUBLIC = ["4,8,50,f,2020-07-01,cough,ill", "5,9,60,m,2020-12-31,well,well"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return {"private": write(tmp_path / "ours.csv", PRIVATE), "public": write(tmp_path / "open.csv", PUBLIC)}


def write(path: Path, lines: list[str], header: str = HEADER) -> str:
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return str(path)


def read(files: dict[str, str], **changes: Any) -> Dataset:
    return load(Path("."), False, files["private"], {**DECLARED, **changes}, files.get("public"))


def test_records_are_encoded_by_their_declaration_alone(files: dict[str, str]) -> None:
    data = read(files)
    # age, sex: f, m or another, day, day missing
    np.testing.assert_allclose(data.private.x[:, :6], [[0.2, 1, 0, 0, 0, 0], [1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 1, 0]])
    assert np.linalg.norm(data.private.x[:, 6:], axis=1) == pytest.approx([1, 1, 1])
    assert data.private.y.tolist() == [1, 0, 0]
    assert data.private.owners is not None
    assert data.private.owners[0] == data.private.owners[1] != data.private.owners[2]


def test_a_pattern_means_the_columns_of_the_public_file(tmp_path: Path) -> None:
    """Read features of a public encoder from several columns; the private header must not decide which."""
    header = "v2,v10,v1,state,vx"
    files = {
        "public": write(tmp_path / "open.csv", ["1,0,-1,ill,9", "0,1,3,well,9"], header),
        "private": write(tmp_path / "ours.csv", ["-1,1,1,ill,9", "0,0,0,well,9"], header),
    }
    declared = {"label": DECLARED["label"], "features": {"v*": {"number": [-1, 1]}}, "drop": ["vx"]}
    data = load(Path("."), False, files["private"], declared, files["public"])
    assert data.private.x.tolist() == [[0, 1, 1], [0.5, 0.5, 0.5]]
    assert data.public.x.tolist() == [[1, 0.5, 0], [0.5, 1, 1]]
    write(tmp_path / "ours.csv", ["-1,1,1,ill,9"], "v2,v10,v3,state,vx")
    with refuses("missing-column", files["private"]):
        load(Path("."), False, files["private"], declared, files["public"])
    with refuses("missing-column", files["public"]):
        load(Path("."), False, files["private"], declared | {"features": {"w*": {"number": [0, 1]}}}, files["public"])


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        (["2020-01-01", "2020-01-02"], "2020-01-03 05:00:00"),
        (["2020-01-01 01:00:00", "2020-01-02 01:00:00"], "2020-01-03 01:00:00.000005"),
        (["1 days", "2 days"], "3 days 01:00:00"),
        (["20", "0"], ""),
        (["10000000000000000", "20000000000000000"], ""),
        (["0.5", "1.25"], "3.1255"),
    ],
)
def test_one_value_does_not_change_how_others_are_read(values: list[str], odd: str) -> None:
    """pandas writes a whole column in the form that its longest value needs."""
    kind = pd.to_timedelta if "days" in values[0] else pd.to_datetime if "-" in values[0] else pd.to_numeric
    alone = pd.DataFrame({"v": kind(pd.Series(values))})
    beside = pd.DataFrame({"v": pd.concat([kind(pd.Series(values)), kind(pd.Series([odd or None]))])})
    texts = [frame.to_csv(index=False).splitlines()[1 : len(values) + 1] for frame in (alone, beside)]
    assert [plain_text(text) for text in texts[0]] == [plain_text(text) for text in texts[1]]


def test_a_proposal_names_each_value_once(tmp_path: Path) -> None:
    """A declaration that repeats a value would be refused."""
    lines = [f"{i % 7},{site},{label}" for i in range(40) for site, label in (("1.0", "0"), ("1", "1.0"), ("2", "1"))]
    (tmp_path / "mixed.csv").write_text("\n".join(["age,site,state", *lines]), encoding="utf-8")
    proposal = "\n".join(propose(tmp_path / "mixed.csv").lines)
    assert "classes: ['0', '1']" in proposal
    assert "category: ['1', '2']" in proposal


def test_other_spellings_stay_apart() -> None:
    texts = ["1", "01", "+1", "1,000", "1000", "1.5", "1.05", "12e4", "120000", "José", "Jose"]
    texts += ["2020-01-01", "2020-01-01 00:00:00+00:00"]
    assert len({plain_text(text) for text in texts}) == len(texts)
    assert [plain_text(value) for value in ("-0.0", 0, 1e16, -2.50)] == ["0", "0", str(10**16), "-2.5"]
    assert plain_text("Jose\u0301") == plain_text("Jos\u00e9") == "Jos\u00e9"


def test_a_parquet_file_reads_as_the_same_table_in_text(tmp_path: Path) -> None:
    """Compare all typed columns: numbers, dates, times, decimals, booleans, dictionaries and missing values."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    times = [datetime(2020, 1, 2), datetime(2020, 5, 1), None, datetime(2020, 12, 31)]
    year = {"date": ["2020-01-01", "2020-12-31"]}
    typed: dict[str, tuple[list[Any], Any, dict[str, Any]]] = {
        "age": ([20, 30, 101, 0], pyarrow.int8(), {"number": [0, 100]}),
        "mass": ([Decimal("60.5"), None, Decimal("71.25"), Decimal("80.00")], None, {"number": [50, 100]}),
        "ratio": ([0.25, float("nan"), None, 1.5], pyarrow.float32(), {"number": [0, 1]}),
        "day": ([time and time.date() for time in times], pyarrow.date32(), year),
        "seen": (times, pyarrow.timestamp("ms", tz="UTC"), year),
        "smoker": ([True, False, None, True], None, {"category": ["True", "False"]}),
        "site": (["Köln", "Bonn", None, "Köln"], None, {"category": ["Köln", "Bonn"]}),
    }
    columns = {name: pyarrow.array(3 * values, kind) for name, (values, kind, _) in typed.items()}
    columns["site"] = columns["site"].dictionary_encode()
    columns["person"] = pyarrow.array([0, 1, 2, 3, 4, 5] * 2, pyarrow.int32())
    columns["state"] = pyarrow.array([0, 1, 1, 0] * 3, pyarrow.uint8())
    parquet.write_table(pyarrow.table(columns), tmp_path / "visits.parquet")
    texts = {name: ["" if value is None or value != value else str(value) for value in column.to_pylist()]
             for name, column in columns.items()}  # fmt: skip
    pd.DataFrame(texts).to_csv(tmp_path / "visits.csv", index=False)
    features = {
        name: {**how, "missing": "refuse" if name == "age" else "column"} for name, (_, _, how) in typed.items()
    }
    declared = {
        "label": {"column": "state", "classes": [0, 1]}, "owner": "person", "public_share": 0.5, "features": features,
    }  # fmt: skip
    one, other = (load(Path("."), False, str(tmp_path / f"visits.{kind}"), declared) for kind in ("parquet", "csv"))
    for role, name in product(("private", "public"), ("x", "y", "owners")):
        np.testing.assert_array_equal(*(getattr(getattr(data, role), name) for data in (one, other)))
    assert len(one.private.x) + len(one.public.x) == 12
    (tmp_path / "visits.parquet").write_bytes((tmp_path / "visits.parquet").read_bytes()[:-30])
    with refuses("artefact", tmp_path / "visits.parquet"):
        load(Path("."), False, str(tmp_path / "visits.parquet"), declared)


@given(st.data())
def test_no_record_changes_another(data: st.DataObject) -> None:
    """Compare the encoding of the other records byte for byte."""
    values = st.one_of(st.floats(allow_nan=False).map(str), st.text(max_size=5), st.sampled_from(["1e999", "-0", "∞"]))
    frame = pd.DataFrame([line.split(",") for line in PUBLIC], columns=HEADER.split(","))
    declared = TableDeclaration.checked(DECLARED)
    before = encode(frame, declared, Path("t.csv"))
    changed = frame.copy()
    changed.loc[0, "age"] = str(data.draw(st.floats(allow_nan=False, allow_infinity=False)))
    changed.loc[0, "sex"], changed.loc[0, "note"] = data.draw(values), data.draw(values)
    after = encode(changed, declared, Path("t.csv"))
    assert np.array_equal(before[1], after[1])
    assert np.isfinite(after).all()


@pytest.mark.parametrize(
    ("line", "code", "place"),
    [
        ("6,7,abc,f,2020-01-01,x,ill", "table-value", "record 4, column 'age': 'abc' is not a finite number"),
        ("6,7,,f,2020-01-01,x,ill", "missing-value", "record 4, column 'age': the value is missing"),
        ("6,7,5,f,yesterday,x,ill", "table-value", "record 4, column 'day': 'yesterday' is not a date"),
        ("6,7,5,f,2020-01-01,x,dead", "undeclared-label", "record 4, column 'state': 'dead' is not a declared class"),
        ("6,7,5,f,2020-01-01,x,ill,more", "artefact", "cannot be read as a table"),
    ],
)
def test_a_wrong_value_is_named_with_file_record_and_column(
    files: dict[str, str], line: str, code: str, place: str
) -> None:
    write(Path(files["private"]), [*PRIVATE, line])
    with refuses(code, files["private"]) as caught:
        read(files)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"features": {}}, "at least one feature"),
        ({"drop": []}, "not declared: id"),
        ({"drop": ["id", "age"]}, "'age' occurs twice"),
        ({"owner": "nobody"}, "column 'nobody' is not in the file"),
        ({"label": {"column": "state", "classes": [True, False]}}, "put such values in quotes"),
        ({"features": {**DECLARED["features"], "age": {"number": [5, 5]}}}, "bounds of 'number' are invalid"),
        ({"features": {**DECLARED["features"], "age": {"number": [0, 1], "text": 3}}}, "one of 'number"),
        ({"public_share": 0.5}, "give either 'public'"),
        ({"people": "move"}, "people: 'move' is not valid: it should be 'refuse' or 'leave-out'"),
    ],
)
def test_a_wrong_declaration_is_one_line(files: dict[str, str], changes: dict[str, Any], part: str) -> None:
    with pytest.raises(PatebenchError, match=part):
        read(files, **changes)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_one_missing_value_changes_no_other_record_of_a_column_of_whole_numbers(tmp_path: Path, suffix: str) -> None:
    """Pandas turns such a column into floating-point numbers, which it writes as 1.0 instead of 1."""
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    declared = {"label": {"column": "state", "classes": ["0", "1"]}, "owner": "person"}
    declared["features"] = {"ward": {"category": ["1", "2", "3"], "missing": "column"}}
    numbers = np.arange(30)
    table = pd.DataFrame({"person": numbers % 10, "ward": 1 + numbers % 3, "state": numbers % 2})
    holes = table.assign(ward=table["ward"].where(numbers != 7), person=table["person"].astype(float))
    public = str(tmp_path / "open.csv")
    table.assign(person=numbers + 100).to_csv(public, index=False)
    parts = []
    for name, frame in (("whole", table), ("holes", holes)):
        path = tmp_path / f"{name}{suffix}"
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path, index=False)
        parts.append(load(Path("."), False, str(path), declared, public).private)
    assert np.flatnonzero((parts[0].x != parts[1].x).any(axis=1)).tolist() == [7]
    assert np.array_equal(parts[0].owners, parts[1].owners)
    shared = {**declared, "public_share": 0.3, "owner": None, "drop": ["person"]}
    divided = [load(Path("."), False, str(tmp_path / f"{name}{suffix}"), shared) for name in ("whole", "holes")]
    assert len(divided[0].public) == len(divided[1].public)


def test_a_person_in_both_parts_is_refused_or_left_out(files: dict[str, str]) -> None:
    write(Path(files["public"]), [*PUBLIC, "6,Ä-1,5,f,2020-01-01,x,ill"])
    with refuses("person-in-both-parts"):
        read(files)
    data = read(files, people="leave-out")
    assert len(data.public.x) == 3
    assert data.private.y.tolist() == [0]
    assert "left out 2 records of 1 person who also have public records" in data.notes[0]


def test_one_file_is_divided_by_person_and_nobody_moves_when_others_come_or_go(tmp_path: Path) -> None:
    people = [f"{i},p{i % 40},{i % 90},f,2020-03-03,hello,{'ill' if i % 3 else 'well'}" for i in range(200)]
    whole = {"private": write(tmp_path / "all.csv", people)}
    data = read(whole, public_share=0.4)
    assert data.private.owners is not None
    assert data.public.owners is not None
    assert not np.isin(data.private.owners, data.public.owners).any()
    assert 40 <= len(data.public.x) <= 120
    write(tmp_path / "all.csv", people[:-40])
    less = read(whole, public_share=0.4)
    assert less.public.owners is not None
    assert set(less.public.owners) <= set(data.public.owners)
    without = {key: value for key, value in DECLARED.items() if key != "owner"} | {"drop": ["id", "person"]}
    write(tmp_path / "all.csv", [people[0].replace("2020-03-03", ""), *people[1:-40]])  # a missing value
    by_record = load(tmp_path, False, whole["private"], {**without, "public_share": 0.5})
    assert by_record.private.owners is None
    assert len(by_record.private.x) + len(by_record.public.x) == 160
    write(tmp_path / "all.csv", [people[0].replace(",p0,", ",,"), *people[1:]])
    with refuses("missing-value"):  # an owner
        read(whole, public_share=0.4)


def test_values_of_a_record_do_not_decide_whether_it_is_public(tmp_path: Path) -> None:
    """Otherwise, whoever knows the other values of a private record could exclude labels."""
    path, lines = visits(tmp_path, 60)
    before = public_by_hash(read_frame(path, ("",)), None, 0.4)
    write(path, [line[: line.rindex(",")] + ",unheard-of" for line in lines])
    assert np.array_equal(public_by_hash(read_frame(path, ("",)), None, 0.4), before)
    assert 0.25 < before.mean() < 0.55


def test_order_of_public_records_does_not_tell_their_positions(tmp_path: Path) -> None:
    """In a file sorted by label, a private record between two public ones of a class would be of that class."""
    path, lines = visits(tmp_path, 60)
    lines = [line.replace(",,", ",none,") for line in lines]
    write(path, lines)
    declared = {key: value for key, value in DECLARED.items() if key != "owner"} | {"drop": ["id", "person"]}
    before = load(tmp_path, False, str(path), {**declared, "public_share": 0.4}).public
    positions = np.flatnonzero(public_by_hash(read_frame(path, ("",)), None, 0.4))
    moved = list(lines)
    for here, there in zip(positions, positions[::-1], strict=True):
        moved[here] = lines[there]
    write(path, moved)
    after = load(tmp_path, False, str(path), {**declared, "public_share": 0.4}).public
    assert moved != lines
    assert after.rows is None
    assert np.array_equal(before.x, after.x)
    assert np.array_equal(before.y, after.y)


def visits(tmp_path: Path, people: int) -> tuple[Path, list[str]]:
    """Write the 240 visits of `people` people; return the file and its lines."""
    lines = [
        f"{i},p{i % people},{18 + i % 70},{'fm'[i % 2]},2020-0{1 + i % 9}-03,{('cough', 'pain', '')[i % 3]},"
        f"{'ill' if i % 5 else 'well'}"
        for i in range(240)
    ]
    write(tmp_path / "patients.csv", lines)
    return tmp_path / "patients.csv", lines


def test_a_proposal_sees_public_records_alone(tmp_path: Path) -> None:
    path, lines = visits(tmp_path, 60)
    before = propose(path, public_share=0.4)
    frame = read_frame(path, ("",))
    private = int(np.flatnonzero(~public_by_hash(frame, "person", 0.4))[0])
    number, person, *_ = lines[private].split(",")
    lines[private] = f"{number},{person},119,secret,1900-01-01,q,unheard-of"
    write(path, lines)
    assert propose(path, public_share=0.4) == before


def test_a_proposed_configuration_reads_its_table(tmp_path: Path) -> None:
    path, _ = visits(tmp_path, 80)
    proposal = propose(path, label="state", public_share=0.3)
    text = "\n".join(configuration(path, None, proposal, 80))
    table = yaml.safe_load(text)["datasets"]["patients"]["table"]
    assert table["owner"] == "person"
    assert table["drop"] == ["id"]
    assert table["features"]["note"] == {"category": ["cough", "pain"], "missing": "column"}
    assert len(load(tmp_path, False, str(path), table).public.x) == proposal.public_records
    assert text.count("decide") >= 5
    assert len(text.splitlines()) <= 32


@pytest.mark.parametrize("name", ["patients", "2024", "null", "A b'c", "größe²", "данные", "x" * 120])
def test_init_writes_a_sound_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    visits(tmp_path, 80)[0].rename(tmp_path / f"{name}.csv")
    done = CliRunner().invoke(cli, ["init", f"{name}.csv"])
    assert done.exit_code == 0, done.exception
    run = validate(load_configuration(f"{name}.yaml"))
    assert run.pages != run.results, "the report of another run stays"
    assert f"{run.pages}/report.html" in Path(f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("in_repository", [True, False])
def test_the_command_that_init_prints_runs_in_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_repository: bool
) -> None:
    place, repository = tmp_path / "my data", tmp_path if in_repository else tmp_path / "repository"
    place.mkdir()
    repository.mkdir(exist_ok=True)
    (repository / "Snakefile").touch()
    table, _ = visits(place, 80)
    monkeypatch.chdir(tmp_path if in_repository else place)
    words = ["init", table.relative_to(Path.cwd()), "--public", table.relative_to(Path.cwd()), "--out", "it's.yaml"]
    said, command = CliRunner().invoke(cli, list(map(str, words))).output.strip().split(": ")
    assert said.endswith("then" if in_repository else "then in the repository")
    monkeypatch.chdir(repository)
    *start, file = shlex.split(command)
    assert start == ["snakemake", "--cores", "all", "--configfile"]
    written = load_configuration(file)["datasets"]["patients"]
    for key in ("private", "public"):
        assert Path(written[key]).samefile(table)
        assert Path(written[key]).is_absolute() != in_repository


@pytest.mark.parametrize(("name", "fault"), [("{b}", "braces"), ("digits", "choose another name")])
def test_init_writes_nothing_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, fault: str
) -> None:
    monkeypatch.chdir(tmp_path)
    visits(tmp_path, 80)[0].rename(tmp_path / f"{name}.csv")
    done = CliRunner().invoke(cli, ["init", f"{name}.csv"])
    assert str(done.exception).startswith(f"{name}.csv: ")
    assert fault in str(done.exception)
    assert [path.suffix for path in tmp_path.iterdir()] == [".csv"]


def test_tab_separated_values_and_unreadable_files(tmp_path: Path) -> None:
    path = tmp_path / "open.tsv"
    path.write_text("\n".join(line.replace(",", "\t") for line in [HEADER, *PUBLIC]), encoding="utf-8-sig")
    assert read_frame(path, ("",)).shape == (2, 7)
    for name, text in (("a.csv", ""), ("b.csv", HEADER + "\n"), ("c.xls", "x"), ("d.csv", 'a,b\n"1,2\n')):
        (tmp_path / name).write_text(text)
        with pytest.raises(ArtefactError):
            load(tmp_path, False, str(tmp_path / name), DECLARED, str(path))
    write(tmp_path / "unnamed.csv", PUBLIC, HEADER.removeprefix("id,"))  # as R writes tables with names of rows
    with pytest.raises(ArtefactError, match="more values than its header has names"):
        read_frame(tmp_path / "unnamed.csv", ("",))
    write(tmp_path / "twice.csv", PUBLIC, HEADER.replace("sex", " age"))  # the space is skipped
    with refuses("repeated-column", tmp_path / "twice.csv"):
        read_frame(tmp_path / "twice.csv", ("",))
    (tmp_path / "e.csv").write_bytes(b"\xff\xfe\x00id")
    with pytest.raises(ArtefactError, match="cannot be read as a table"):
        read_frame(tmp_path / "e.csv", ("",))
