"""Test rows for other programs: by hand, against their schema, and as written by the stage."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tests.reporting import made

from patebench.core.files import read_json, write_json
from patebench.reporting.rows import Row, rows, schema, schema_text

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("publishable", [False, True])
def test_a_student_by_hand(tmp_path, publishable):
    records = made.load_records(*made.known_students(tmp_path, (0, 1)))
    which = publishable & (records.bounds["accountant"] == "strong-composition")
    (row,) = rows(replace(records, bounds=records.bounds.assign(publishable=which)), made.PRINTED).rows
    assert (row.method, row.variant, row.parameters, row.queries) == ("PATE", "lnmax", {"gamma": 0.05}, 100)
    assert (row.student, row.model, row.rounds, row.teachers, row.epochs) == ("supervised", "small-cnn", [], 250, 50)
    assert row.accuracy.mean == pytest.approx(0.975)
    assert row.accuracy.std == pytest.approx(math.sqrt(2) / 200)
    assert row.accuracy.by_seed == {"0": 0.97, "1": 0.98}
    costs = row.epsilon
    assert (costs.recomputed, costs.worst_case, costs.exact, costs.audited) == (1.5, 4.31, 0.4, None)
    assert costs.publishable == (5.8 if publishable else None)
    assert {(each.paper, each.epsilon) for each in costs.reported} >= {("PATE 2017", 2.04), ("NZC 2020", 2.04)}
    assert (row.public_data.use, row.public_data.samples) == ("queries", 100), "it learns from nothing else"


def test_a_claimed_epsilon_is_no_worst_case_epsilon(tmp_path):
    broken = made.private_model(1.21, 0.99, "published") | {"system": "PET-DL", "audited": "inf"}
    broken["bounds"][0] |= {"kind": "claimed"}
    models = made.models(tmp_path, broken, made.private_model(0.998, 0.97))
    found = {row.method: row for row in rows(made.load_records(models=models), made.PRINTED).rows}
    costs = found["PET-DL"].epsilon
    assert (costs.recomputed, costs.worst_case, costs.audited) == (1.21, None, "inf")
    row = found["DP-SGD"]
    assert (row.variant, row.accuracy.std) == ("scratch", None)
    assert (row.epsilon.recomputed, row.epsilon.worst_case, row.epsilon.reported) == (None, 0.998, [])
    assert row.public_data.use == "not said", "private models have their own public data"


@pytest.mark.parametrize("ends", [None, [50, 5]])
def test_rows_state_a_selection_by_private_labels(tmp_path, ends):
    config = {"name": "", "datasets": {"mnist": {"loader": "mnist", "long_tail": ends}}}
    made.write_report(tmp_path, *made.known_students(tmp_path, (0,)), config=config)
    (row,) = read_json(tmp_path / "rows.json", "rows")["rows"]
    assert (row["dataset"], row["selected_by_labels"]) == ("mnist", ends is not None)


def test_rows_match_the_schema_and_have_different_settings(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    models = made.models(tmp_path / "models", made.private_model(math.inf, 0.97))
    out = tmp_path / "rows.json"
    found = rows(made.load_records(*made.files(tmp_path), models=models), made.PRINTED)
    write_json(out, "rows", found.model_dump(mode="json"))
    content = json.loads(out.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema())
    assert list(validator.iter_errors(content)) == []
    assert read_json(out, "rows")["rows"][-1]["epsilon"]["worst_case"] == "inf"
    assert list(validator.iter_errors(content | {"rows": [content["rows"][0] | {"more": 1}]})) != []
    setting = set(Row.model_fields) - {"accuracy", "label_accuracy", "epsilon"}
    keys = [row.model_dump_json(include=setting) for row in found.rows]
    assert len(set(keys)) == len(keys) > 5
    digits = made.collected(tmp_path, made.ensemble_record(made.ensemble("digits")))
    assert rows(made.load_records(digits), made.PRINTED).rows == []


def test_the_schema_is_that_of_the_code():
    """Compare with the output of `patebench config schema --of rows`."""
    assert schema_text() == (ROOT / "docs" / "reference" / "rows.schema.json").read_text(encoding="utf-8")
