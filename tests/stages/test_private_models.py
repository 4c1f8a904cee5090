"""Test the stages that train on private samples without teachers: DP-SGD, Private-kNN, and classifiers of features."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.features.test_imagenet import installed
from tests.refusals import refuses
from tests.stages.digits import WithEncoder, change_record
from torch import nn

from patebench.artefacts.reading import read_samples
from patebench.artefacts.records import private_model_records
from patebench.baselines.knn_accounting import claimed, sound
from patebench.baselines.on_features import FEATURE_METHODS
from patebench.baselines.on_features.prototypes import ClassMeans
from patebench.config.parameters import DpsgdParameters, FeatureMethodParameters, PrivateKnnParameters
from patebench.core.bound import Adjacency, Bound, Kind
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import ENCODER, POOL, SAMPLES, TRUTH
from patebench.features.trained_networks import ImageNetEncoder
from patebench.models import architectures
from patebench.models.efficientnet_lite import pretrained
from patebench.reporting.frames import RECORDS, check_record
from patebench.stages import train_dpsgd, train_on_features, train_private_knn

Told = dict[str, Any]

KNN: Told = {
    **{"form": "sound", "rate": 0.5, "neighbours": 20, "threshold": 11, "sigma1": 3, "sigma2": 1, "queries": 80},
    **{"student": "label-spreading", "delta": 1e-5},
}
#: Stage → the name of its parameters, their type, and those of the tests.
STAGES: dict[ModuleType, tuple[str, Any, Told]] = {
    train_dpsgd: ("training", DpsgdParameters, {"form": "linear", "epsilon": 8.0, "delta": 1e-5}),
    train_private_knn: ("parameters", PrivateKnnParameters, KNN),
    train_on_features: ("parameters", FeatureMethodParameters, {"method": "dppl-mean", "epsilon": 2, "delta": 1e-5}),
}
#: Methods on features that protect whole records.
OF_RECORDS = [name for name in FEATURE_METHODS if not FEATURE_METHODS.fact(name, "labels_only")]
#: Settings of a short training; with rate 1, noise is found in closed form.
FEW = {"rate": 1, "steps": 2}


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> WithEncoder:
    return WithEncoder(tmp_path_factory.mktemp("private-models"))


def train(digits: WithEncoder, stage: ModuleType, settings: Told | None = None, **files: Path | None) -> Told:
    keyword, kind, default = STAGES[stage]
    names = ("private", "pool", "test", "encoder", *(() if stage is train_dpsgd else ("truth",)))
    given = {name: getattr(digits, name) for name in names} | files
    parameters = {keyword: kind.checked(default | (settings or {}))}
    stage.run(**given, **parameters, seed=0, stream="digits/model", out=digits.folder / "model.json")
    return read_json(digits.folder / "model.json", stage.__name__.rpartition(".")[2])


@pytest.fixture(scope="module")
def defaults(digits: WithEncoder) -> dict[ModuleType, Told]:
    return {stage: train(digits, stage) for stage in STAGES}


each_stage = pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.__name__.rpartition(".")[2])


@each_stage
@pytest.mark.slow
def test_the_same_seed_gives_the_same_model_and_its_record_is_sound(
    digits: WithEncoder, stage: ModuleType, defaults: dict[ModuleType, Told]
) -> None:
    again = train(digits, stage)
    assert {key for key in again if again[key] != defaults[stage][key]} <= {"seconds"}
    path = digits.folder / "model.json"
    (record,) = private_model_records(path, again)
    assert check_record(path, record)["accuracy"] == again["accuracy"]
    names = {
        train_dpsgd: "linear_epsilon-8_delta-1e-05",
        train_private_knn: "sound_rate-0.5_neighbours-20_threshold-11_sigma1-3_sigma2-1_queries-80",
        train_on_features: "dppl-mean_epsilon-2_delta-1e-05",
    }
    assert record["private_model"].startswith(names[stage])
    assert set(RECORDS["private_model"]) <= set(record)
    assert "not a release" in again["statement"]


@each_stage
@pytest.mark.slow
def test_public_samples_among_the_private_ones_have_no_influence(
    digits: WithEncoder, stage: ModuleType, defaults: dict[ModuleType, Told]
) -> None:
    """Add the test set, and the pool if its labels matter, with labels that would cause wrong predictions."""
    private, test, pool = read_samples(digits.private, "private"), read_samples(digits.test, "test"), {}
    if stage is not train_dpsgd:
        pool = {"x": read_arrays(digits.pool, POOL)["x"], "y": read_arrays(digits.truth, TRUTH)["y"]}
    added = {name: [part[name] for part in (test, pool) if part] for name in ("x", "y")}
    x = np.concatenate([private["x"], *added["x"]])
    y = np.concatenate([private["y"], *((labels + 1) % 10 for labels in added["y"])])
    mixed = digits.folder / "mixed.npz"
    write_arrays(mixed, SAMPLES, {"x": x, "y": y, "row": np.arange(len(x))}, private.meta)
    told = train(digits, stage, private=mixed)
    assert [told.get(name) for name in ("accuracy", "label_accuracy", "curve")] == [
        defaults[stage].get(name) for name in ("accuracy", "label_accuracy", "curve")
    ]


@each_stage
@pytest.mark.slow
def test_how_many_private_samples_there_are_changes_no_setting_and_no_bound(
    digits: WithEncoder, stage: ModuleType, defaults: dict[ModuleType, Told]
) -> None:
    private, half = read_samples(digits.private, "private"), digits.folder / "half.npz"
    write_arrays(half, SAMPLES, {name: values[::2] for name, values in private.arrays.items()}, private.meta)
    told = train(digits, stage, private=half)
    assert [told[name] for name in ("bounds", "parameters", "model")] == [
        defaults[stage][name] for name in ("bounds", "parameters", "model")
    ]


@pytest.mark.slow
def test_a_linear_model_of_public_features_learns_with_dpsgd(
    digits: WithEncoder, defaults: dict[ModuleType, Told]
) -> None:
    told = defaults[train_dpsgd]
    assert told["accuracy"] > 0.8
    assert told["encoder"] == read_arrays(digits.encoder, ENCODER).digest
    assert (told["model"], told["model_parameters"]) == ("linear", 33 * 10)
    (bound,) = (Bound.from_json(each) for each in told["bounds"])
    assert 7.9 < bound.epsilon <= 8.0
    assert (bound.delta, bound.queries, bound.kind) == (1e-5, 100, Kind.WORST_CASE)
    assert (bound.adjacency, bound.publishable) == (Adjacency.ADD_OR_REMOVE_RECORD, False)
    assert told["parameters"]["rate"] == 1
    assert len(told["curve"]) == 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "model"),
    [
        ({"form": "scratch", "views": 2, "rate": 0.3, "steps": 3}, "tanh-cnn"),
        ({"form": "fine-tuned", "views": 2, **FEW}, "encoder"),
        ({"form": "scratch", "model": "conv-small", "compression": 6.83, **FEW}, "conv-small"),
    ],
)
def test_a_network_takes_the_steps_that_are_accounted_for(digits: WithEncoder, settings: Told, model: str) -> None:
    fine_tuned = settings["form"] == "fine-tuned"
    told = train(digits, train_dpsgd, settings, encoder=digits.encoder if fine_tuned else None)
    assert told["model"] == model
    assert ("encoder" in told) == fine_tuned
    (bound,) = told["bounds"]
    assert bound["epsilon"] <= 8
    assert bound["queries"] == told["curve"][-1]["step"] == settings["steps"]
    if "compression" in settings:
        whole = architectures.parameters(architectures.SMALL, (1, 8, 8), 10)
        assert told["model_parameters"] == pytest.approx(whole / 6.83, rel=0.1)
    else:
        assert told["model_parameters"] > 4000


@pytest.mark.slow
@installed
def test_of_a_network_trained_on_imagenet_scales_shifts_and_a_classifier_are_trained(
    digits: WithEncoder, tmp_path: Path
) -> None:
    files = {name: tmp_path / f"{name}.npz" for name in ("private", "pool", "test", "encoder")}
    for name in ("private", "pool", "test"):
        kind = POOL if name == "pool" else SAMPLES
        known = read_arrays(getattr(digits, name), kind)
        more = {"split": {**known.meta["split"], "encoder": "imagenet"}} if name == "pool" else {}
        write_arrays(files[name], kind, {key: values[:12] for key, values in known.arrays.items()}, known.meta | more)
    pool, meta = read_arrays(files["pool"], POOL), read_arrays(digits.encoder, ENCODER).meta
    encoder = ImageNetEncoder.learn(pool["x"])
    write_arrays(files["encoder"], ENCODER, encoder.arrays(), {**meta, "encoder": "imagenet", "pool": pool.digest})
    told = train(digits, train_dpsgd, {"form": "fine-tuned", **FEW}, **files)
    axes = encoder.arrays()["weights"].size // len(encoder.arrays()["mean"])
    scales = 2 * sum(len(norm.weight) for norm in pretrained().modules() if isinstance(norm, nn.BatchNorm2d))
    assert told["model_parameters"] == scales + (axes + 1) * 10


@pytest.mark.slow
def test_dpsgd_refuses_what_can_not_be(digits: WithEncoder, tmp_path: Path) -> None:
    known, pool = read_arrays(digits.encoder, ENCODER), read_arrays(digits.pool, POOL)
    other, tables = tmp_path / "other.npz", tmp_path / "tables.npz"
    write_arrays(other, ENCODER, known.arrays, {**known.meta, "pool": "another"})
    write_arrays(tables, POOL, {"x": pool["x"].reshape(300, -1).astype(np.float32), "row": pool["row"]}, pool.meta)
    scratch, none = {"form": "scratch", **FEW}, {"encoder": None}
    refused: list[tuple[Told, dict[str, Any], str]] = [
        ({"form": "linaer"}, {}, r"form: 'linaer' is unknown \(did you mean 'linear'\?\)"),
        ({**scratch, "model": "logistic"}, none, "'logistic' is not a network"),
        ({**scratch, "model": "mlp", "compression": 2}, none, "for compression choose the model"),
        ({"epsilon": 1e-9}, {}, "cost more than ε"),
        ({**scratch, "views": 2}, {**none, "pool": tables}, "random views need images"),
        ({}, {"encoder": other}, "pool"),
        ({}, none, "give --encoder"),
        (scratch, {}, "leave out --encoder"),
    ]
    for settings, files, words in refused:
        with pytest.raises(PatebenchError, match=words):
            train(digits, train_dpsgd, settings, **files)


@pytest.mark.slow
def test_sound_private_knn_states_its_worst_case(digits: WithEncoder) -> None:
    told = train(digits, train_private_knn, {"answers": 40})
    assert told["answered"] == 40
    assert told["label_accuracy"] > 0.7
    assert told["accuracy"] > 0.6
    (bound,) = (Bound.from_json(each) for each in told["bounds"])
    assert bound == sound(PrivateKnnParameters(**KNN, answers=40).settings, 1e-5)
    assert (bound.kind, bound.queries, bound.publishable) == (Kind.WORST_CASE, 120, False)


@pytest.mark.slow
def test_published_private_knn_states_what_its_authors_claim(digits: WithEncoder) -> None:
    told = train(digits, train_private_knn, {"form": "published"})
    (bound,) = (Bound.from_json(each) for each in told["bounds"])
    assert bound == claimed(PrivateKnnParameters(**{**KNN, "form": "published"}).settings, told["answered"], 1e-5)
    assert (bound.kind, bound.queries) == (Kind.CLAIMED, 80)
    assert told["label_accuracy"] > 0.7


@pytest.mark.slow
def test_too_many_queries_labels_without_an_answer_and_an_epsilon_of_0_are_refused(digits: WithEncoder) -> None:
    for stage, settings, code in (
        (train_private_knn, {"queries": 400}, "bound"),
        (train_private_knn, {"threshold": 1000}, "no-answer"),
        (train_on_features, {"epsilon": 0}, "bound"),
    ):
        with refuses(code):
            train(digits, stage, settings)


@pytest.mark.slow
@pytest.mark.parametrize("method", OF_RECORDS)
def test_a_classifier_of_features_states_its_worst_case_for_both_changes(digits: WithEncoder, method: str) -> None:
    settings: Told = {"least-squares-private": {"dimensions": 20, "epsilon": 8}}.get(method, {})
    told = train(digits, train_on_features, {"method": method, **settings})
    (bound,) = (Bound.from_json(each) for each in told["bounds"])
    assert (bound.kind, bound.adjacency, bound.publishable) == (Kind.WORST_CASE, Adjacency.REPLACE_RECORD, False)
    assert bound.epsilon == pytest.approx(told["parameters"]["epsilon"])
    assert 0 < (bound.add_or_remove or 0) < bound.epsilon
    assert told["accuracy"] > 0.5
    assert told["label_accuracy"] > 0.5


@pytest.mark.slow
def test_the_target_may_be_for_a_record_that_is_added_or_removed(digits: WithEncoder) -> None:
    (bound,) = train(digits, train_on_features, {"change": "added-or-removed"})["bounds"]
    assert bound["add_or_remove"] == pytest.approx(2)
    assert bound["epsilon"] > 4


@pytest.mark.slow
@pytest.mark.parametrize("stage", [train_on_features, train_dpsgd])
def test_a_student_learns_the_labels_of_a_classifier(
    digits: WithEncoder, defaults: dict[ModuleType, Told], stage: ModuleType
) -> None:
    told = train(digits, stage, {"student": "label-spreading"})
    assert told["classifier_accuracy"] == defaults[stage]["accuracy"]
    assert told["model"].startswith("label-spreading")
    assert told["public_use"] == "features, student"


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
    """Return a mask of the records whose features, as the method reads them, change if the first is replaced."""
    seen: list[np.ndarray] = []
    fit, read = ClassMeans.fit, train_on_features.read_encoder
    monkeypatch.setattr(
        ClassMeans, "fit", lambda self, private, *given: seen.append(private.features) or fit(self, private, *given)
    )
    monkeypatch.setattr(train_on_features, "read_encoder", lambda *given: _OfBatch(read(*given)))
    private, other = read_samples(digits.private, "private"), digits.folder / "other.npz"
    write_arrays(other, SAMPLES, {name: values[:40] for name, values in private.arrays.items()}, private.meta)
    train(digits, train_on_features, private=other)
    change_record(other, 0)
    train(digits, train_on_features, private=other)
    return np.asarray((seen[0] != seen[1]).any(axis=1))


@pytest.mark.slow
def test_each_private_record_is_encoded_alone(digits: WithEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert np.flatnonzero(_changed_features(digits, monkeypatch)).tolist() == [0]
    monkeypatch.setattr(train_on_features, "private_features", lambda encoder, x: encoder.features(x))
    assert _changed_features(digits, monkeypatch).all()  # the fault would be found
