"""ε of labels alone is never mixed with ε of records or shards, and everything that shows it names the unit."""

import pytest
from tests.reporting import made
from tests.reporting.made import PRINTED

from patebench.core.bound import Adjacency
from patebench.reporting.rows import rows
from patebench.reporting.verdicts import verdicts

OF_LABELS = {"setting": "pool-9000_labels", "split": "seed-0_pool-9000_labels", "beside_pool": "labels"}


@pytest.fixture
def of_labels(tmp_path):
    records = [{**record, **OF_LABELS} for record in made.records()]
    bounds = [record for record in records if record["record"] == "bound"]
    for bound in bounds:
        bound["adjacency"] = str(Adjacency.REPLACE_LABEL)
    return made.write_collected(tmp_path / "labels.json", records)


@pytest.fixture
def of_shards(tmp_path):
    return made.write_collected(tmp_path / "shards.json", made.records())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["equal-epsilon", "frontier"])
def test_each_unit_has_its_own_panel_without_numbers_printed_for_another(name, of_labels, of_shards):
    figure = made.draw(name, [of_labels, of_shards])
    by_unit = {"label" in axis.get_title(): axis for axis in figure.axes}
    assert len(by_unit) == 2
    printed = {
        unit: [label for label in axis.get_legend_handles_labels()[1] if label.startswith(("published", "printed"))]
        for unit, axis in by_unit.items()
    }
    assert printed[True] == []
    assert printed[False] or name == "equal-epsilon"
    (alone,) = made.draw(name, [of_labels]).axes
    assert "label" in alone.get_title()


@pytest.mark.slow
def test_tables_name_the_unit(of_labels, of_shards):
    frame = made.table("equal-epsilon", [of_labels, of_shards])
    measured = frame[frame["system"] == "PATE"].dropna(subset="teachers")
    units = measured.groupby("setting")["adjacency"].unique().map(list).to_dict()
    assert units == {"pool-9000": ["replace_teacher"], "pool-9000_labels": ["replace_label"]}
    for name in ("equal-epsilon", "utility-privacy", "bounds", "accountants"):
        assert "ε per label" in made.forms(name, [of_labels])[1], name
        assert "ε per label" not in made.forms(name, [of_shards])[1], name


def test_rows_state_the_unit_and_no_number_of_another(of_labels, of_shards):
    found = rows(made.load_records([of_labels, of_shards]), PRINTED).rows
    of_unit = {row.protects: row for row in found if row.variant == "gnmax" and row.queries == 1000}
    assert set(of_unit) == {"replace_label", "replace_teacher"}
    assert of_unit["replace_label"].epsilon.reported == []


def test_printed_numbers_are_not_measured_by_labels(of_labels, of_shards):
    assert len(verdicts(made.load_records([of_shards]), PRINTED)) > 0
    assert len(verdicts(made.load_records([of_labels]), PRINTED)) == 0
