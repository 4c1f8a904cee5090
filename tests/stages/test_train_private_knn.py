"""Test the stage `train_private_knn`: labels by the nearest private records, their ε, and a student."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import WithEncoder

from patebench.artefacts.reading import read_samples
from patebench.artefacts.records import private_model_records
from patebench.baselines.knn_accounting import claimed, sound
from patebench.config.parameters import PrivateKnnParameters
from patebench.core.bound import Bound, Kind
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import POOL, SAMPLES, TRUTH
from patebench.reporting.frames import RECORDS, check_record
from patebench.stages import train_private_knn

SETTINGS: dict[str, Any] = {
    **{"rate": 0.5, "neighbours": 20, "threshold": 11, "sigma1": 3, "sigma2": 1, "queries": 80},
    **{"student": "label-spreading", "delta": 1e-5},
}


Told = dict[str, Any]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> WithEncoder:
    return WithEncoder(tmp_path_factory.mktemp("private-knn"))


def _train(digits: WithEncoder, form: str = "sound", private: Path | None = None, **settings: Any) -> dict[str, Any]:
    files = {name: settings.pop(name, getattr(digits, name, None)) for name in ("pool", "truth", "test")}
    encoder = settings.pop("encoder", digits.encoder)
    out = digits.folder / "private_knn.json"
    train_private_knn.run(
        **files, private=private or digits.private, encoder=encoder, seed=0, stream="digits/private-knn", out=out,
        parameters=PrivateKnnParameters.checked({"form": form, **SETTINGS, **settings}),
    )  # fmt: skip
    return read_json(out, "train_private_knn")


@pytest.fixture(scope="module")
def default(digits: WithEncoder) -> Told:
    """Train once with the default settings."""
    return _train(digits)


@pytest.mark.slow
def test_the_sound_form_says_its_worst_case(digits: WithEncoder) -> None:
    told = _train(digits, answers=40)
    assert told["answered"] == 40
    assert told["label_accuracy"] > 0.7
    assert told["accuracy"] > 0.6
    (bound,) = (Bound.from_json(each) for each in told["bounds"])
    parameters = PrivateKnnParameters(form="sound", **SETTINGS, answers=40)
    assert bound == sound(parameters.settings, 1e-5)
    assert (bound.kind, bound.queries, bound.publishable) == (Kind.WORST_CASE, 120, False)
    assert "not a release" in told["statement"]


def test_the_published_form_says_what_its_authors_claim(digits: WithEncoder) -> None:
    told = _train(digits, "published")
    (bound,) = (Bound.from_json(each) for each in told["bounds"])
    assert bound == claimed(PrivateKnnParameters(form="published", **SETTINGS).settings, told["answered"], 1e-5)
    assert (bound.kind, bound.queries) == (Kind.CLAIMED, 80)
    assert told["label_accuracy"] > 0.7


@pytest.mark.slow
def test_the_same_seed_gives_the_same_student_and_its_record_is_sound(digits: WithEncoder, default: Told) -> None:
    first = _train(digits)
    assert {key for key in first if first[key] != default[key]} <= {"seconds"}
    path = digits.folder / "private_knn.json"
    (record,) = private_model_records(path, first)
    assert check_record(path, record)["label_accuracy"] == first["label_accuracy"]
    assert record["private_model"].startswith("sound_rate-0.5_neighbours-20_threshold-11_sigma1-3_sigma2-1_queries-80")
    assert set(RECORDS["private_model"]) <= set(record)


@pytest.mark.slow
def test_nobody_votes_who_is_public(digits: WithEncoder, default: Told) -> None:
    """Add pool and test set to the private data with other labels, which would cause wrong labels."""
    private, pool = read_samples(digits.private, "private"), read_arrays(digits.pool, POOL)
    test, truth = read_samples(digits.test, "test"), read_arrays(digits.truth, TRUTH)
    x = np.concatenate([private["x"], test["x"], pool["x"]])
    y = np.concatenate([private["y"], (test["y"] + 1) % 10, (truth["y"] + 1) % 10])
    mixed = digits.folder / "mixed.npz"
    write_arrays(mixed, SAMPLES, {"x": x, "y": y, "row": np.arange(len(x))}, private.meta)
    assert _train(digits, private=mixed)["label_accuracy"] == default["label_accuracy"]


@pytest.mark.slow
def test_one_private_record_changes_no_setting_and_no_bound(digits: WithEncoder, default: Told) -> None:
    private, fewer = read_samples(digits.private, "private"), digits.folder / "fewer.npz"
    left = {name: values[1:] for name, values in private.arrays.items()}
    write_arrays(fewer, SAMPLES, left, private.meta)
    told = _train(digits, private=fewer)
    assert (told["bounds"], told["parameters"]) == (default["bounds"], default["parameters"])


@pytest.mark.slow
def test_without_noise_there_is_no_finite_bound(digits: WithEncoder) -> None:
    for form in ("sound", "published"):
        assert _train(digits, form, sigma2=0)["bounds"][0]["epsilon"] == "inf"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"form": "soud"}, "unknown-name"),
        ({"queries": 400}, "bound"),
        ({"threshold": 1000}, "no-answer"),
        ({"student": "supervisd"}, "unknown-name"),
    ],
)
def test_refuses_what_can_not_be(digits: WithEncoder, settings: dict[str, Any], code: str) -> None:
    with refuses(code):
        _train(digits, **settings)
