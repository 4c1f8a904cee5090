"""Test all tables: formats, escapes, the same bytes for the same records, any subset of records."""

import csv
import io
import math

import pandas as pd
import pytest
from tests.reporting import made

from patebench.mechanisms import MECHANISMS
from patebench.reporting.tables import TABLES
from patebench.reporting.tables.table import Column, Table
from patebench.reporting.wording import parameters_in_words


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """Return the same records, read in two orders."""
    collected, baselines = made.files(tmp_path_factory.mktemp("records"), ("mnist", "digits"))
    return [made.load_records(collected[::step], baselines[::step]) for step in (1, -1)]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_all_formats_have_equal_rows_for_any_order_of_records(orders, name):
    table = TABLES.load(name)
    frame, other = (table.build(records, made.PRINTED.of("PATE 2017", "NZC 2020")) for records in orders)
    text, markdown, latex = forms = [table.csv(frame), table.markdown(frame), table.latex(frame)]
    assert forms == [table.csv(other), table.markdown(other), table.latex(other)]
    assert all("\r" not in form and form.endswith("\n") for form in forms)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(frame)
    for column in set(frame.select_dtypes("number")) & set(rows[0] if rows else ()):
        for row, wanted in zip(rows, frame[column], strict=True):
            assert (row[column] == "" and pd.isna(wanted)) or float(row[column]) == wanted
    lines, body = markdown.splitlines(), [line for line in latex.splitlines() if line.endswith(r" \\")]
    assert (len(lines), len(body)) == (len(frame) + 2, len(frame) + 1)
    assert len({line.count("|") for line in lines}) == 1
    assert {line.count("&") + 2 for line in body} == {lines[0].count("|")}
    assert latex.count(r"\toprule") == latex.count(r"\midrule") == latex.count(r"\bottomrule") == 1


def test_latex_is_escaped(tmp_path):
    record = made.ensemble_record({**made.ensemble(), "model": "a_B&c%d#e"})
    path = made.write_collected(tmp_path / "c.json", [record])
    latex = made.forms("ensembles", [path], [])[2]
    assert r"a, B\&c\%d\#e" in latex
    assert latex.replace(r"\%", "").count("%") == 1  # the comment about required packages


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [(), ("ensemble", "label_set"), ("student",)])
def test_any_subset_of_records_makes_every_table(tmp_path, kinds):
    chosen = [record for record in made.records() if record["record"] in kinds]
    records = made.load_records([made.write_collected(tmp_path / "c.json", chosen)])
    for table in map(TABLES.load, TABLES):
        frame = table.build(records, made.PRINTED.of("PATE 2017"))
        assert all((table.csv(frame), table.markdown(frame), table.latex(frame)))


def test_parameter_words_qualify_epsilon() -> None:
    for name in MECHANISMS:
        kind = MECHANISMS.load(name)
        words = parameters_in_words(name, kind.example)
        assert words.count("ε of a") == ("epsilon" in kind.parameter_names()), words


def test_rows_of_several_pools_state_the_split(tmp_path):
    table, written = TABLES.load("utility-privacy"), []
    for pool in (9000, 1000):
        facts = made.ensemble() | {"split": f"seed-0_pool-{pool}", "setting": f"pool-{pool}", "pool": pool}
        of = made.label_set(facts, "gnmax", 40.0)
        written += made.collected(tmp_path, *made.costing(of, 100, 0.95, 2.0, "rdp"))
    headings, *rows = table.rows(table.build(made.load_records(written), made.PRINTED))
    assert {row[headings.index("Split")] for row in rows} == {"pool 9000", "pool 1000"}
    assert "Split" not in table.rows(table.build(made.load_records(written[:1]), made.PRINTED))[0]


def test_columns_without_values_are_left_out_unless_the_table_is_empty():
    table = Table(
        "T", (Column("a", "A"), Column("b", "B", "percent", deviation=True), Column("c", "C")), lambda *_: None
    )
    frame = pd.DataFrame({"a": ["x", "y"], "b_mean": [math.nan] * 2, "b_std": [math.nan] * 2, "c": ["", None]})
    assert table.rows(frame) == [["A"], ["x"], ["y"]]
    assert table.rows(frame[:0]) == [["A", "B", "C"]]
