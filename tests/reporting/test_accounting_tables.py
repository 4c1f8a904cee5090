"""Test tables of bounds against values worked out by hand."""

import math

import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.tables import TABLES


def test_accountants_side_by_side_by_hand(tmp_path):
    collected, baselines = made.known_students(tmp_path, (0, 1, 2))
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    tight = made.bound_record(facts, 100, 0.4, "rdp", Kind.DATA_DEPENDENT) | {"conversion": "tight"}
    collected.append(made.write_collected(tmp_path / "tight.json", [tight]))
    frame = made.table("accountants", collected, baselines)
    first, later = frame.to_dict("records")
    assert (first["queries"], later["queries"]) == (100, 1000)
    assert first["worst_case: strong composition_mean"] == 5.8
    assert first["worst_case: Gaussian DP, PLD_mean"] == 4.31
    assert first["data_dependent: moments, l ≤ 8_mean"] == pytest.approx(2.0)
    assert first["data_dependent: moments, l ≤ 8_std"] == pytest.approx(1.0)
    assert first["data_dependent: Rényi, as published_mean"] == 0.5
    assert first["data_dependent: Rényi_mean"] == 0.4
    assert later["worst_case: Gaussian DP, PLD_mean"] == pytest.approx(0.1)
    assert math.isnan(later["worst_case: strong composition_mean"])
    titles = {column.title for column in TABLES.load("accountants").shown(frame)}
    assert {"strong composition", "Gaussian DP, PLD"} < titles
    assert "exact per teacher" not in titles, "a column without any value is left out"


def test_bounds_keep_all_that_makes_them_readable(tmp_path):
    frame = made.table("bounds", *made.known_students(tmp_path, (0, 1, 2)))
    assert len(frame) == 5
    moments = frame[frame["accountant"] == "moments"].iloc[0]
    assert (moments["kind"], moments["publishable"], moments["conversion"]) == ("data_dependent", False, "classic")
    assert (moments["epsilon_min"], moments["epsilon_max"], moments["order_min"]) == (1.0, 3.0, 5.0)
    assert set(frame["source"]) == {"made up"}
    assert set(frame["adjacency"]) == {"replace_teacher"}


def test_an_infinite_bound_is_shown_as_such(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    records = [
        made.student_record(facts, 100, 0.9),
        made.bound_record(facts, 100, math.inf, "pld", Kind.WORST_CASE),
    ]
    path = made.write_collected(tmp_path / "c.json", records)
    text, markdown, latex = made.forms("bounds", [path], [])
    assert ",inf," in text
    assert "∞" in markdown
    assert "∞" in latex
    made.forms("utility-privacy", [path], [])
