"""Test rows for other programs: by hand, against their schema, and as written by the stage."""

import json
import math
from pathlib import Path

import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.core.files import read_json, write_json
from patebench.reporting.rows import Row, rows, schema, schema_text

ROOT = Path(__file__).parents[2]
PUBLISHED = made.PRINTED


def _students(tmp_path, publishable=False):
    """Return records of a student of 100 LNMax queries for each of two seeds, with bounds of all kinds."""
    collected = []
    for seed, (accuracy, epsilon) in enumerate(((0.97, 1.4), (0.99, 1.6))):
        facts = made.label_set(made.ensemble(seed=seed), "lnmax", 0.05)
        kinds = (("moments", epsilon), ("exact", 0.3 + seed / 10))
        bounds = [made.bound_record(facts, 100, value, name, Kind.DATA_DEPENDENT) for name, value in kinds]
        worst = made.bound_record(facts, 100, 2.5, "label", Kind.WORST_CASE) | {"publishable": publishable}
        other = made.bound_record(facts, 100, 4.31, "pld", Kind.WORST_CASE) | {"publishable": False}
        collected += made.collected(tmp_path, made.student_record(facts, 100, accuracy), *bounds, worst, other)
    return made.load_records(collected)


@pytest.mark.parametrize("publishable", [False, True])
def test_a_student_by_hand(tmp_path, publishable):
    (row,) = rows(_students(tmp_path, publishable), PUBLISHED).rows
    assert (row.method, row.variant, row.parameters, row.queries) == ("PATE", "lnmax", {"gamma": 0.05}, 100)
    assert (row.student, row.model, row.rounds, row.teachers, row.epochs) == ("supervised", "small-cnn", [], 250, 50)
    assert row.accuracy.mean == pytest.approx(0.98)
    assert row.accuracy.std == pytest.approx(math.sqrt(2) / 100)
    assert row.accuracy.by_seed == {"0": 0.97, "1": 0.99}
    costs = row.epsilon
    assert (costs.recomputed, costs.worst_case, costs.exact, costs.audited) == (1.6, 2.5, 0.4, None)
    assert costs.publishable == (2.5 if publishable else None)
    assert {(each.paper, each.epsilon) for each in costs.reported} >= {("PATE 2017", 2.04), ("NZC 2020", 2.04)}
    assert (row.public_data.use, row.public_data.samples) == ("queries", 100), "it learns from nothing else"


def test_a_claim_without_proof_stands_beside_what_audits_found(tmp_path):
    broken = made.private_model(1.21, 0.99, "published") | {"system": "PET-DL", "audited": "inf"}
    broken["bounds"][0] |= {"kind": "claimed"}
    models = made.models(tmp_path, broken, made.private_model(0.998, 0.97))
    found = {row.method: row for row in rows(made.load_records(models=models), PUBLISHED).rows}
    costs = found["PET-DL"].epsilon
    assert (costs.recomputed, costs.worst_case, costs.audited) == (1.21, None, "inf")
    row = found["DP-SGD"]
    assert (row.variant, row.accuracy.std) == ("scratch", None)
    assert (row.epsilon.recomputed, row.epsilon.worst_case, row.epsilon.reported) == (None, 0.998, [])
    assert row.public_data.use == "not said", "and not what students use"


def test_the_file_of_a_run_keeps_its_schema_and_no_two_rows_are_of_one_setting(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    models = made.models(tmp_path / "models", made.private_model(math.inf, 0.97))
    out = tmp_path / "rows.json"
    found = rows(made.load_records(*made.files(tmp_path), models=models), PUBLISHED)
    write_json(out, "rows", found.model_dump(mode="json"))
    content = json.loads(out.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema())
    assert list(validator.iter_errors(content)) == []
    assert read_json(out, "rows")["rows"][-1]["epsilon"]["worst_case"] == "inf"
    for change in ({"accuracy": {"mean": 2, "std": None, "by_seed": {}}}, {"more": 1}, {"delta": 0}):
        wrong = content | {"rows": [content["rows"][0] | change]}
        assert list(validator.iter_errors(wrong)) != []
    setting = set(Row.model_fields) - {"accuracy", "label_accuracy", "epsilon"}
    keys = [row.model_dump_json(include=setting) for row in found.rows]
    assert len(set(keys)) == len(keys) > 5
    digits = made.collected(tmp_path, made.ensemble_record(made.ensemble("digits")))
    assert rows(made.load_records(digits), PUBLISHED).rows == []


def test_the_schema_is_that_of_the_code():
    """Compare with the output of `patebench config schema --of rows`."""
    assert schema_text() == (ROOT / "docs" / "reference" / "rows.schema.json").read_text(encoding="utf-8")
