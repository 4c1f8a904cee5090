"""Test the comparison of two runs: differences by hand and their intervals, in pairs for common seeds."""

import json
import math

import pytest
from click.testing import CliRunner
from tests.reporting import made
from tests.reporting.test_epsilon_figures import audit

from patebench.artefacts.records import PRIVATE_MODEL_KINDS
from patebench.cli import cli
from patebench.core.bound import Kind
from patebench.reporting.significance import difference_interval
from patebench.stages.compare import compare_records, differing_settings, unmatched


def _run(folder, accuracies, seeds=None, epsilon=1.0, queries=100):
    """Write a folder of results with one student and its ε per seed."""
    folder.mkdir()
    for seed, accuracy in zip(seeds or range(len(accuracies)), accuracies, strict=True):
        facts = made.label_set(made.ensemble(seed=seed), "lnmax", 0.05)
        records = [
            made.student_record(facts, queries, accuracy),
            made.bound_record(facts, queries, epsilon, "pld", Kind.WORST_CASE),
        ]
        made.write_collected(folder / f"{seed}.json", records)
    return folder


def _frames(*folders):
    return [made.load_records(sorted(folder.glob("*.json"))) for folder in folders]


def _student(frame):
    return frame[frame["what"] == "student accuracy"].iloc[0]


def test_common_seeds_are_compared_in_pairs(tmp_path):
    one, other = _run(tmp_path / "a", (0.90, 0.94, 0.95)), _run(tmp_path / "b", (0.91, 0.96, 0.98))
    row = _student(compare_records(*_frames(one, other)))
    assert row["difference"] == pytest.approx(0.02)
    assert (row["low"], row["high"]) == difference_interval((0.90, 0.94, 0.95), (0.91, 0.96, 0.98), paired=True)
    assert 0.0099 < row["low"] < 0.02 < row["high"] < 0.0301
    assert row["paired"]


def test_other_seeds_are_two_samples(tmp_path):
    one, other = _run(tmp_path / "a", (0.90, 0.94)), _run(tmp_path / "b", (0.92, 0.98), seeds=(5, 6))
    row = _student(compare_records(*_frames(one, other)))
    assert row["difference"] == pytest.approx(0.03)
    assert (row["low"], row["high"]) == pytest.approx((0.92 - 0.94, 0.98 - 0.90))
    assert not row["paired"]


def test_one_seed_has_no_interval_and_equal_bounds_do_not_differ(tmp_path):
    one, other = _run(tmp_path / "a", (0.90,), epsilon=math.inf), _run(tmp_path / "b", (0.92,), epsilon=math.inf)
    frame = compare_records(*_frames(one, other))
    assert math.isnan(_student(frame)["low"])
    assert frame.set_index("what").loc["ε", "difference"] == 0


def test_rounding_is_no_difference_and_a_lost_bound_is_the_first(tmp_path):
    three = (0.90, 0.91, 0.92)
    one, other = _run(tmp_path / "a", three), _run(tmp_path / "b", three, epsilon=math.nextafter(1, 2))
    assert list(compare_records(*_frames(one, other))["difference"]) == [0, 0]
    lost = _run(tmp_path / "c", (0.91, 0.92, 0.935), epsilon=math.inf)
    frame = compare_records(*_frames(one, lost))
    assert (frame["what"].iloc[0], frame["low"].iloc[0]) == ("ε", math.inf)
    said = json.loads(CliRunner().invoke(cli, ["compare", str(one), str(lost), "--json"]).output)["compared"][0]
    assert (said["other"], said["difference"], said["low"]) == ("inf", "inf", "inf")


def test_seeds_that_one_side_alone_has_do_not_count_beside_pairs(tmp_path):
    one, other = _run(tmp_path / "a", (0.90, 0.80)), _run(tmp_path / "b", (0.91, 0.82, 0.50))
    row = _student(compare_records(*_frames(one, other)))
    assert (row["one"], row["other"]) == pytest.approx((0.85, 0.865))
    assert row["difference"] == pytest.approx(row["other"] - row["one"])
    assert (row["seeds_one"], row["seeds_other"]) == (2, 2)


def test_what_only_one_has_is_named(tmp_path):
    one, other = _run(tmp_path / "a", (0.9,)), _run(tmp_path / "b", (0.9,), queries=1000)
    assert compare_records(*_frames(one, other)).empty
    only = unmatched(*_frames(one, other))
    assert [len(each) for each in only] == [2, 2]
    assert "T = 1000" in only[1][0]


def test_settings_of_manifests():
    one, other = ({"config": {"a": {"b": number}}, "versions": {"torch": "2"}} for number in (1, 2))
    assert differing_settings(one, other) == [("config.a.b", "1", "2")]


def test_the_command(tmp_path):
    one, other = _run(tmp_path / "a", (0.90, 0.94)), _run(tmp_path / "b", (0.91, 0.96))
    done = CliRunner().invoke(cli, ["compare", str(one), str(other)])
    assert done.exit_code == 0, done.output
    assert "2 common numbers: 1 equal" in done.output


def _compared(one, other):
    """Return the output of the command for two folders, by quantity and setting."""
    done = CliRunner().invoke(cli, ["compare", str(one), str(other), "--json"])
    return {(row["what"], row["setting"]): row["difference"] for row in json.loads(done.output)["compared"]}


@pytest.mark.parametrize("kind", PRIVATE_MODEL_KINDS)
def test_private_models_are_compared(tmp_path, kind):
    for folder, accuracy in (("one", 0.9), ("other", 0.8)):
        (tmp_path / folder).mkdir()
        made.write_private_model(tmp_path / folder / "model.json", made.private_model(accuracy=accuracy), kind)
    assert min(_compared(tmp_path / "one", tmp_path / "other").values()) == pytest.approx(-0.1)


def test_namings_and_audits_are_compared(tmp_path):
    for folder, accuracy, found in (("one", 0.96, 0.5), ("other", 0.97, 0.75)):
        (tmp_path / folder).mkdir()
        made.write_naming(tmp_path / folder / "naming.json", made.naming(50, accuracy))
        audit(tmp_path / folder / "audit.json", "lnmax", {"gamma": 0.5}, {100: (None, 25.0, 20.0, found, found)})
    rows = _compared(tmp_path / "one", tmp_path / "other")
    named = next(value for (what, _), value in rows.items() if what == "accuracy of named clusters")
    assert named == pytest.approx(0.01)
    audited = {setting: value for (what, setting), value in rows.items() if what == "ε in an audit"}
    assert sorted(audited.values()) == pytest.approx([0, 0, 0, 0.25, 0.25])
    assert next(setting for setting in audited if "audit-exact" in setting).startswith("mnist, n = 250, classes = 10")


def test_a_damaged_file_is_left_out_with_a_word(tmp_path):
    made.write_private_model(tmp_path / "model.json", made.private_model())
    (tmp_path / "collected.json").write_text("{", encoding="utf-8")
    done = CliRunner().invoke(cli, ["compare", str(tmp_path), str(tmp_path)])
    assert f"{tmp_path}: skipped 1 file, foreign or damaged; see `patebench check`" in done.stderr


def test_a_folder_without_results_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    asked = ["compare", str(tmp_path / "empty"), str(tmp_path / "none")]
    assert "contains no results of a run" in str(CliRunner().invoke(cli, asked).exception)
    (tmp_path / "empty" / "manifest.json").write_text("{}", encoding="utf-8")
    assert "contains the page of a run, not its results; give" in str(CliRunner().invoke(cli, asked).exception)
