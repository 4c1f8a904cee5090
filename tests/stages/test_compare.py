"""Test the comparison of two runs: differences by hand and their intervals, in pairs for common seeds."""

import json
import math
from statistics import fmean

import pytest
from tests.reporting import made
from tests.reporting.test_epsilon_figures import audit
from tests.stages.commands import invoke

from patebench.artefacts.records import PRIVATE_MODEL_KINDS
from patebench.core.bound import Kind
from patebench.core.files import write_json
from patebench.reporting.significance import difference_interval
from patebench.stages.compare import compare_records, differing_settings, unmatched


def _run(folder, accuracies, seeds=None, epsilon=1.0, queries=100):
    """Write a folder of results with one student and its ε per seed, and return its records."""
    for seed, accuracy in zip(seeds or range(len(accuracies)), accuracies, strict=True):
        facts = made.label_set(made.ensemble(seed=seed), "lnmax", 0.05)
        bound = made.bound_record(facts, queries, epsilon, "pld", Kind.WORST_CASE)
        folder.mkdir(exist_ok=True)
        made.write_collected(folder / f"{seed}.json", [made.student_record(facts, queries, accuracy), bound])
    return made.load_records(sorted(folder.glob("*.json")))


def _student(frame):
    return frame[frame["what"] == "student accuracy"].iloc[0]


@pytest.mark.parametrize(
    ("one", "other", "seeds", "used", "difference", "paired"),
    [
        ((0.90, 0.94, 0.95), (0.91, 0.96, 0.98), None, 3, 0.02, True),
        ((0.90, 0.80), (0.91, 0.82, 0.50), None, 2, 0.015, True),  # the third seed has no partner
        ((0.90, 0.94), (0.92, 0.98), (5, 6), 2, 0.03, False),
    ],
)
def test_common_seeds_are_compared_in_pairs_and_other_seeds_as_two_samples(
    tmp_path, one, other, seeds, used, difference, paired
):
    row = _student(compare_records(_run(tmp_path / "a", one), _run(tmp_path / "b", other, seeds)))
    assert (row["one"], row["other"]) == pytest.approx((fmean(one[:used]), fmean(other[:used])))
    assert (row["difference"], row["paired"]) == (pytest.approx(difference), paired)
    assert (row["seeds_one"], row["seeds_other"]) == (used, used)
    assert (row["low"], row["high"]) == difference_interval(one[:used], other[:used], paired=paired)


def test_one_seed_has_no_interval_and_infinite_bounds_do_not_differ(tmp_path):
    one, other = (_run(tmp_path / name, (0.9,), epsilon=math.inf) for name in "ab")
    frame = compare_records(one, other)
    assert math.isnan(_student(compare_records(one, _run(tmp_path / "c", (0.92,))))["low"])
    assert frame.set_index("what").loc["ε", "difference"] == 0


def test_rounding_is_no_difference_and_a_lost_bound_is_the_first(tmp_path):
    three = (0.90, 0.91, 0.92)
    one, other = _run(tmp_path / "a", three), _run(tmp_path / "b", three, epsilon=math.nextafter(1, 2))
    assert list(compare_records(one, other)["difference"]) == [0, 0]
    frame = compare_records(one, _run(tmp_path / "c", (0.91, 0.92, 0.935), epsilon=math.inf))
    assert (frame["what"].iloc[0], frame["low"].iloc[0]) == ("ε", math.inf)
    first = json.loads(invoke("compare", tmp_path / "a", tmp_path / "c", "--json").output)["compared"][0]
    assert (first["other"], first["difference"], first["low"]) == ("inf", "inf", "inf")
    done = invoke("compare", tmp_path / "a", tmp_path / "c")
    assert done.exit_code == 0, done.output
    assert "2 common numbers: 0 equal" in done.output


def test_what_only_one_has_is_named(tmp_path):
    runs = _run(tmp_path / "a", (0.9,)), _run(tmp_path / "b", (0.9,), queries=1000)
    assert compare_records(*runs).empty
    only = unmatched(*runs)
    assert [len(each) for each in only] == [2, 2]
    assert "T = 1000" in only[1][0]


def test_settings_of_manifests():
    one, other = ({"config": {"a": {"b": number}}, "versions": {"torch": "2"}} for number in (1, 2))
    assert differing_settings(one, other) == [("config.a.b", "1", "2")]


@pytest.mark.parametrize("kind", PRIVATE_MODEL_KINDS)
def test_private_models_namings_and_audits_are_compared(tmp_path, kind):
    for folder, accuracy, found in ((tmp_path / "one", 0.9, 0.5), (tmp_path / "other", 0.8, 0.75)):
        folder.mkdir()
        write_json(folder / "model.json", kind, made.private_model(accuracy=accuracy))
        write_json(folder / "naming.json", "name_clusters", made.naming(50, accuracy))
        audit(folder / "audit.json", "lnmax", {"gamma": 0.5}, {100: (None, 25.0, 20.0, found, found)})
    rows = json.loads(invoke("compare", tmp_path / "one", tmp_path / "other", "--json").output)["compared"]
    differences = {row["what"]: row["difference"] for row in rows}
    for what in ("accuracy of a private model", "accuracy of named clusters"):
        assert differences[what] == pytest.approx(-0.1)
    audited = {row["setting"]: row["difference"] for row in rows if row["what"] == "ε in an audit"}
    assert sorted(audited.values()) == pytest.approx([0, 0, 0, 0.25, 0.25])
    assert next(setting for setting in audited if "audit-exact" in setting).startswith("mnist, n = 250, classes = 10")


def test_a_damaged_file_is_left_out_with_a_word(tmp_path):
    write_json(tmp_path / "model.json", "train_dpsgd", made.private_model())
    (tmp_path / "collected.json").write_text("{", encoding="utf-8")
    said = invoke("compare", tmp_path, tmp_path).stderr
    assert f"{tmp_path}: skipped 1 file, foreign or damaged; see `patebench check`" in said


def test_a_folder_without_results_is_refused(tmp_path):
    assert "contains no results of a run" in str(invoke("compare", tmp_path, tmp_path / "none").exception)
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    fault = "contains the page of a run, not its results; give"
    assert fault in str(invoke("compare", tmp_path, tmp_path / "none").exception)
