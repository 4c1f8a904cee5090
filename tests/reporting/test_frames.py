"""Loading records: tidy frames from sound files, one line for anything else."""

import math

import pandas as pd
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import write_json
from patebench.reporting.frames import RECORDS, arrange, deviation, natural, over_seeds


def test_one_frame_per_kind(tmp_path):
    records = made.load_records(*made.files(tmp_path))
    assert [len(frame) for frame in (records.ensembles, records.label_sets, records.bounds)] == [4, 28, 48]
    assert [len(frame) for frame in (records.students, records.baselines)] == [16, 2]
    assert set(records.ensembles["setting"]) == {"pool-9000"}


def test_a_forest_has_no_recipe_and_no_epochs(tmp_path):
    models = ("small-cnn", "random-forest", "a-model-of-another-package-that-is-gone")
    written = [made.ensemble_record(made.ensemble(model=model)) for model in models]
    frame = made.load_records([made.write_collected(tmp_path / "c.json", written)]).ensembles
    assert frame["recipe"].tolist() == ["modern", "", "modern"]
    assert frame["epochs"].fillna(0).tolist() == [50, 0, 50]


def test_nothing_gives_empty_frames_with_all_columns():
    records = made.load_records([])
    assert list(records.bounds.columns) == list(RECORDS["bound"])
    assert records.bounds.empty


def test_an_infinite_epsilon_is_a_number(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    bound = made.bound_record(facts, 100, math.inf, "none", Kind.WORST_CASE)
    frame = made.load_records([made.write_collected(tmp_path / "c.json", [bound])]).bounds
    assert frame["epsilon"].tolist() == [math.inf]


def test_a_private_model_has_a_record_for_each_bound(tmp_path):
    content = made.private_model(epsilon=2.0)
    content["bounds"].append({**content["bounds"][0], "accountant": "rdp", "epsilon": "inf"})
    frame = made.load_records([], models=[made.write_private_model(tmp_path / "m.json", content)]).private_models
    assert frame["epsilon"].tolist() == [2.0, math.inf]
    assert frame["adjacency"].tolist() == ["add_or_remove_record"] * 2
    assert frame["setting"].tolist() == ["pool-9000"] * 2
    assert frame["teachers"].isna().all(), "DP-SGD has none"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda content: content.pop("system"), "lacks 'system'"),
        (lambda content: content.update(bounds=[]), "not a list of bounds"),
        (lambda content: content["bounds"][0].pop("adjacency"), "a bound record has the fields"),
        (lambda content: content.update(accuracy=None), "accuracy = None"),
        (lambda content: content.update(teachers="four"), "teachers = 'four'"),
    ],
)
def test_refuses_a_damaged_private_model_in_one_line(tmp_path, change, fault):
    content = made.private_model()
    change(content)
    path = made.write_private_model(tmp_path / "model.json", content)
    with pytest.raises(ArtefactError) as caught:
        made.load_records([], models=[path])
    assert fault in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_over_seeds_is_mean_and_sample_deviation_over_seeds():
    frame = pd.DataFrame({"n": [10, 10, 10, 250], "seed": [0, 1, 2, 0], "x": [1.0, 2.0, 6.0, 5.0]})
    found = over_seeds(frame, ["n"], ["x"])
    assert found["seeds"].tolist() == [3, 1]
    assert found["x_mean"].tolist() == [3.0, 5.0]
    assert found["x_std"][0] == pytest.approx(math.sqrt((4 + 1 + 9) / 2))
    assert math.isnan(found["x_std"][1])


def test_equal_values_deviate_by_nothing_though_rounding_parts_them():
    parted = pd.Series([5.8, math.nextafter(5.8, 6), 5.8])
    assert parted.std() > 0
    assert deviation(parted) == 0
    assert deviation(parted * 1e-9) == 0
    assert deviation(pd.Series([5.8, 5.8 + 1e-9])) > 0
    assert deviation(pd.Series([-1.0, 1.0])) == pytest.approx(math.sqrt(2)), "whose mean is 0"
    assert math.isnan(deviation(pd.Series([5.8])))


def test_order_is_that_of_people():
    noise = ["gamma-1", "gamma-0.05", "gamma-1e-05", "gamma-0.1", "sigma-40", "sigma-100"]
    frame = arrange(pd.DataFrame({"noise": sorted(noise)}), ["noise"])
    assert frame["noise"].tolist() == ["gamma-1e-05", "gamma-0.05", "gamma-0.1", "gamma-1", "sigma-40", "sigma-100"]
    assert natural(float("nan")) > natural(1e9)


def _change(good, **changes):
    return {key: value for key, value in {**good, **changes}.items() if value is not ...}


FACTS = made.ensemble()
GOOD = made.ensemble_record(FACTS)
DAMAGED = {
    "unknown kind": (_change(GOOD, record="ensembel"), "unknown kind 'ensembel'"),
    "missing column": (_change(GOOD, gap_mean=...), "lacks 'gap_mean'"),
    "text for a number": (_change(GOOD, gap_mean="0.9"), "gap_mean = '0.9', which is no float"),
    "truth for a number": (_change(GOOD, teachers=True), "teachers = True, which is no int"),
    "nothing for a number": (_change(GOOD, plurality_accuracy_pool=None), "which is no float"),
    "accuracy above one": (_change(GOOD, teacher_accuracy_mean=95.3), "outside [0, 1]"),
    "negative accuracy": (_change(GOOD, teacher_accuracy_min=-0.1), "outside [0, 1]"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_refuses_a_damaged_record_in_one_line(tmp_path, name):
    record, fault = DAMAGED[name]
    path = made.write_collected(tmp_path / "collected.json", [record])
    with pytest.raises(ArtefactError) as caught:
        made.load_records([path])
    assert fault in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda path: path.write_text(path.read_text()[:-40]), "truncated"),
        (lambda path: path.write_text(path.read_text().replace("0.9", "0.8", 1)), "checksum"),
        (lambda path: path.write_text(path.read_text().replace("0.9", "NaN", 1)), "NaN"),
        (lambda path: path.write_text(""), "empty"),
        (lambda path: path.unlink(), "no such file"),
        (lambda path: write_json(path, "student", {"records": []}), "kind 'student'"),
        (lambda path: write_json(path, "collect", {"records": {}}), "not a list"),
        (lambda path: write_json(path, "collect", {}), "not a list"),
    ],
)
def test_refuses_a_damaged_file_in_one_line(tmp_path, damage, fault):
    path = made.write_collected(tmp_path / "collected.json", [GOOD])
    damage(path)
    with pytest.raises(ArtefactError) as caught:
        made.load_records([path])
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refuses_the_same_thing_twice(tmp_path):
    path = made.write_collected(tmp_path / "collected.json", [GOOD])
    with pytest.raises(PatebenchError, match=r"ensemble mnist/seed-0_pool-9000/.* given twice"):
        made.load_records([path, path])
