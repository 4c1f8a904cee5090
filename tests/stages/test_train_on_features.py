"""Test the stage `train_on_features`: a classifier of public features, its ε, and a student."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import WithEncoder, change_record

from patebench.artefacts.reading import read_samples
from patebench.artefacts.records import private_model_records
from patebench.baselines.on_features import FEATURE_METHODS
from patebench.baselines.on_features.prototypes import ClassMeans
from patebench.config.parameters import FeatureMethodParameters
from patebench.core.bound import Adjacency, Bound, Kind
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import POOL, SAMPLES, TRUTH
from patebench.reporting.frames import RECORDS, check_record
from patebench.stages import train_on_features

#: Methods that protect whole records.
OF_RECORDS = [name for name in FEATURE_METHODS if not FEATURE_METHODS.fact(name, "labels_only")]

Told = dict[str, Any]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> WithEncoder:
    return WithEncoder(tmp_path_factory.mktemp("on-features"))


def _train(digits: WithEncoder, method: str = "dppl-mean", private: Path | None = None, **settings: Any) -> Told:
    out = digits.folder / "on_features.json"
    train_on_features.run(
        private=private or digits.private, pool=digits.pool, truth=digits.truth, test=digits.test,
        encoder=digits.encoder, seed=0, stream="digits/on-features", out=out,
        parameters=FeatureMethodParameters.checked({"method": method, "epsilon": 2, "delta": 1e-5, **settings}),
    )  # fmt: skip
    return read_json(out, "train_on_features")


@pytest.mark.slow
@pytest.mark.parametrize("method", OF_RECORDS)
def test_the_classifier_states_its_worst_case_for_both_changes(digits: WithEncoder, method: str) -> None:
    settings: Told = {"least-squares-private": {"dimensions": 20, "epsilon": 8}}.get(method, {})
    told = _train(digits, method, **settings)
    (bound,) = (Bound.from_json(each) for each in told["bounds"])
    assert (bound.kind, bound.adjacency, bound.publishable) == (Kind.WORST_CASE, Adjacency.REPLACE_RECORD, False)
    assert bound.epsilon == pytest.approx(told["parameters"]["epsilon"])
    assert 0 < (bound.add_or_remove or 0) < bound.epsilon
    assert told["accuracy"] > 0.5
    assert told["label_accuracy"] > 0.5
    assert "not a release" in told["statement"]
    path = digits.folder / "on_features.json"
    (record,) = private_model_records(path, told)
    assert check_record(path, record)["accuracy"] == told["accuracy"]
    assert set(RECORDS["private_model"]) <= set(record)


def test_the_target_may_be_for_a_record_that_is_added_or_removed(digits: WithEncoder) -> None:
    (bound,) = _train(digits, change="added-or-removed")["bounds"]
    assert bound["add_or_remove"] == pytest.approx(2)
    assert bound["epsilon"] > 4


@pytest.mark.slow
def test_a_student_learns_the_labels_and_the_same_seed_gives_the_same_result(digits: WithEncoder) -> None:
    first, again = (_train(digits, student="label-spreading") for _ in range(2))
    assert {key for key in first if first[key] != again[key]} <= {"seconds"}
    assert first["classifier_accuracy"] == _train(digits)["accuracy"]
    assert first["model"].startswith("label-spreading")
    assert first["public_use"] == "features, student"


def test_public_samples_among_the_private_ones_have_no_influence(digits: WithEncoder) -> None:
    """Add pool and test set to the private data with other labels, which would cause wrong sums."""
    private, pool = read_samples(digits.private, "private"), read_arrays(digits.pool, POOL)
    test, truth = read_samples(digits.test, "test"), read_arrays(digits.truth, TRUTH)
    x = np.concatenate([private["x"], test["x"], pool["x"]])
    y = np.concatenate([private["y"], (test["y"] + 1) % 10, (truth["y"] + 1) % 10])
    mixed = digits.folder / "mixed.npz"
    write_arrays(mixed, SAMPLES, {"x": x, "y": y, "row": np.arange(len(x))}, private.meta)
    assert _train(digits, private=mixed)["accuracy"] == _train(digits)["accuracy"]


class _OfBatch:
    """Encoder whose features of a sample depend on the whole batch."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder

    def features(self, x: np.ndarray) -> np.ndarray:
        features: np.ndarray = self.encoder.features(x)
        return features - 0.1 * features.mean(axis=0)

    def features_alone(self, x: np.ndarray, report: Any = None) -> np.ndarray:
        return np.concatenate([self.features(record[None]) for record in x])


def _changed_features(digits: WithEncoder, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Return for which records the features that the method reads change if the first record is replaced."""
    seen: list[np.ndarray] = []
    fit, read = ClassMeans.fit, train_on_features.read_encoder
    monkeypatch.setattr(
        ClassMeans, "fit", lambda self, private, *given: seen.append(private.features) or fit(self, private, *given)
    )
    monkeypatch.setattr(train_on_features, "read_encoder", lambda *given: _OfBatch(read(*given)))
    private, other = read_samples(digits.private, "private"), digits.folder / "other.npz"
    write_arrays(other, SAMPLES, {name: values[:40] for name, values in private.arrays.items()}, private.meta)
    _train(digits, private=other)
    change_record(other, 0)
    _train(digits, private=other)
    return np.asarray((seen[0] != seen[1]).any(axis=1))


def test_each_private_record_is_encoded_alone(digits: WithEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.flatnonzero(_changed_features(digits, monkeypatch)).tolist() == [0]
    monkeypatch.setattr(train_on_features, "private_features", lambda encoder, x: encoder.features(x))
    assert _changed_features(digits, monkeypatch).all()  # the fault would be found


def test_one_private_record_changes_no_setting_and_no_bound(digits: WithEncoder) -> None:
    private, fewer = read_samples(digits.private, "private"), digits.folder / "fewer.npz"
    write_arrays(fewer, SAMPLES, {name: values[1:] for name, values in private.arrays.items()}, private.meta)
    one, other = _train(digits), _train(digits, private=fewer)
    assert (one["bounds"], one["parameters"], one["model"]) == (other["bounds"], other["parameters"], other["model"])


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"method": "dppl-meen"}, "unknown-name"),
        ({"change": "swapped"}, "unknown-name"),
        ({"prototypes": 3}, "value"),
        ({"rounds": 2}, "value"),
        ({"epsilon": 0}, "bound"),
        ({"student": "supervisd"}, "unknown-name"),
    ],
)
def test_refuses_unknown_and_unused_settings(digits: WithEncoder, settings: Told, code: str) -> None:
    with refuses(code):
        _train(digits, **settings)
