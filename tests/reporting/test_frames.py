"""Test loading records: tidy frames from valid files, one line for invalid ones."""

import math
from functools import partial

import pandas as pd
import pytest
from tests.reporting import made

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import write_json
from patebench.reporting.frames import deviation, natural_key, sort_rows


def test_a_random_forest_has_no_recipe_and_no_epochs(tmp_path):
    models = ("small-cnn", "random-forest", "a-model-of-another-package-that-is-gone")
    written = [made.ensemble_record(made.ensemble(model=model)) for model in models]
    frame = made.load_records(made.collected(tmp_path, *written)).ensembles
    assert frame["recipe"].tolist() == ["modern", "", "modern"]
    assert frame["epochs"].fillna(0).tolist() == [50, 0, 50]


def test_a_private_model_has_a_record_for_each_bound(tmp_path):
    content = made.private_model(epsilon=2.0)
    content["bounds"].append({**content["bounds"][0], "accountant": "rdp", "epsilon": "inf"})
    frame = made.load_records(models=made.models(tmp_path, content)).private_models
    assert frame["epsilon"].tolist() == [2.0, math.inf]
    assert frame["adjacency"].tolist() == ["add_or_remove_record"] * 2
    assert frame["setting"].tolist() == ["pool-9000"] * 2
    assert frame["teachers"].isna().all(), "DP-SGD has none"


def test_deviation_is_zero_for_values_that_differ_by_rounding():
    parted = pd.Series([5.8, math.nextafter(5.8, 6), 5.8])
    assert parted.std() > 0
    assert deviation(parted) == 0
    assert deviation(parted * 1e-9) == 0
    assert deviation(pd.Series([5.8, 5.8 + 1e-9])) > 0
    assert deviation(pd.Series([-1.0, 1.0])) == pytest.approx(math.sqrt(2)), "whose mean is 0"
    assert math.isnan(deviation(pd.Series([5.8])))


def test_rows_are_in_natural_order():
    noise = ["gamma-1", "gamma-0.05", "gamma-1e-05", "gamma-0.1", "sigma-40", "sigma-100"]
    frame = sort_rows(pd.DataFrame({"noise": sorted(noise)}), ["noise"])
    assert frame["noise"].tolist() == ["gamma-1e-05", "gamma-0.05", "gamma-0.1", "gamma-1", "sigma-40", "sigma-100"]
    assert natural_key(float("nan")) > natural_key(1e9)


def _collected(path, **changes):
    record = {**made.ensemble_record(made.ensemble()), **changes}
    return made.write_collected(path, [{key: value for key, value in record.items() if value is not ...}])


def _private_model(path, **changes):
    content = {**made.private_model(), **changes}
    write_json(path, "train_dpsgd", {key: value for key, value in content.items() if value is not ...})


@pytest.mark.parametrize(
    ("write", "fault"),
    [
        (partial(_collected, record="ensembel"), "unknown kind 'ensembel'"),
        (partial(_collected, gap_mean=...), "lacks 'gap_mean'"),
        (partial(_collected, gap_mean="0.9"), "gap_mean = '0.9', which is not of type float"),
        (partial(_collected, teachers=True), "teachers = True, which is not of type int"),
        (partial(_collected, teacher_accuracy_mean=95.3), "outside [0, 1]"),
        (partial(_collected, teacher_accuracy_min=-0.1), "outside [0, 1]"),
        (partial(_private_model, bounds=[]), "not a list of bounds"),
        (partial(_private_model, bounds=[{"epsilon": 1.0}]), "a stored bound has the fields"),
        (partial(_private_model, accuracy=None), "accuracy = None"),
        (partial(_private_model, teachers="four"), "teachers = 'four'"),
        (partial(made.write_collected, made={}), "not a list"),
        (lambda path: write_json(path, "student", {"records": []}), "of kind 'student'"),
        (lambda path: path.write_text('{"kind": "collect", "records": []}'), "checksum"),
    ],
)
def test_refuses_a_damaged_file_or_record_in_one_line(tmp_path, write, fault):
    path = tmp_path / "records.json"
    write(path)
    with pytest.raises(ArtefactError) as caught:
        made.load_records([path])
    assert fault in str(caught.value)
    assert caught.value.path == path
    assert "\n" not in str(caught.value)


def test_refuses_duplicate_records(tmp_path):
    path = _collected(tmp_path / "collected.json")
    with pytest.raises(PatebenchError, match=r"contain the ensemble mnist/seed-0_pool-9000/"):
        made.load_records([path, path])
