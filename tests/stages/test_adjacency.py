"""Test `patebench audit --adjacency`: sound stages pass, and each planted fault is found by a change of its kind."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from tests.refusals import refuses
from tests.stages.commands import invoke

from patebench.artefacts.reading import read_samples
from patebench.audit.adjacent_data import KINDS, ChangeFinding, Moved
from patebench.config import validate
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays
from patebench.core.progress import Report, silent
from patebench.data import folder as folder_loader
from patebench.data import npz, own_table, partitions, scikit_learn_sets
from patebench.data.dataset import Dataset, LabelledSamples
from patebench.data.division import hash_samples
from patebench.data.partitions import PARTITIONS, Change
from patebench.features.scattering import ScatteringEncoder
from patebench.models import stack
from patebench.models.estimators import Estimator
from patebench.models.scaling import Standardise
from patebench.models.stack import Stack
from patebench.stages import adjacency, partition, split, train_teachers
from patebench.teachers import teacher_training
from patebench.teachers.teacher_outputs import TeacherOutputs

Plant = Callable[[pytest.MonkeyPatch], None]

#: Networks, which can be trained as one.
MLP = {"model": "mlp", "recipe": "plain", "epochs": 2}
#: Ensemble on digits, because labels of two classes cannot be skewed by default.
SKEW = {"dataset": "digits", "teachers": 10, "partition": {"strategy": "skew", "share": 0.5}}


def settings(dataset: str = "breast_cancer", changes: dict[str, Any] | None = None, **ensemble: Any) -> dict[str, Any]:
    """Return a configuration of one ensemble; `changes` replaces entries of its experiment."""
    experiment = {
        "dataset": dataset,
        "pool": 60,
        "ensembles": [{"teachers": 4, "model": "logistic", **ensemble}],
        "mechanisms": {"gnmax": {"sigma": 2}},
        "accounting": {"delta": 1e-5},
    }
    return {"seeds": [0], "experiments": {"small": {**experiment, **(changes or {})}}}


def audited(folder: Path, written: dict[str, Any], **asked: Any) -> dict[str, ChangeFinding]:
    """Return the findings on the data set and its only ensemble, by kind of change."""
    return {
        each.change: each for found in adjacency.audit(validate(written), folder, **asked) for each in found.findings
    }


def only(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(adjacency, "KINDS", {kind: KINDS[kind] for kind in KINDS if kind in names})


def test_records_selected_by_their_labels_are_refused(tmp_path: Path) -> None:
    tail = {"datasets": {"tail": {"loader": "digits", "long_tail": [40, 10]}}}
    with refuses("long-tail"):
        audited(tmp_path, settings("tail") | tail)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ensemble", "not_claimed"),
    [
        ({"partition": "hash"}, {"remove"}),  # the rows of this data set are positions
        (SKEW, {"replace", "remove", "add"}),
        ({"partition": {"strategy": "hash-owners", "owners": "owners.npy"}, "teachers": 2}, set()),
    ],
)
def test_sound_stages_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ensemble: dict[str, Any], not_claimed: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("owners.npy", np.arange(369) % 5)
    found = audited(tmp_path / "audit", settings(**ensemble))
    assert found.pop("new label").verdict is Moved.REFUSED
    assert {name for name, each in found.items() if each.verdict is Moved.NOT_CLAIMED} == not_claimed
    assert {each.verdict for each in found.values()} <= {Moved.HOLDS, Moved.NOT_CLAIMED}
    assert {"owner", "owner leaves"}.issubset(found) == ("owners" in str(ensemble))
    assert found["shard"].shards_moved == found["shard"].votes_moved != ()
    assert len(found["shard"].retrained) == min(6, ensemble.get("teachers", 4))


@pytest.mark.slow
def test_of_many_teachers_those_near_and_some_afar_are_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "replace")
    near = audited(tmp_path / "near", settings(teachers=20))["replace"]
    assert len(near.retrained) == 6
    assert set(near.shards_moved) < set(near.retrained)
    every = audited(tmp_path / "every", settings(teachers=20, chunk=10), thorough=True)["replace"]
    assert every.retrained == tuple(range(20))
    assert near.verdict is every.verdict is Moved.HOLDS


def test_rounds_select_the_same_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "replace")
    rounds = {"strategy": ["random", "prototypes"], "mechanisms": {"gnmax": {"sigma": 2}}, "queries": [10]}
    written = settings(changes={"rounds": [{**rounds, "method": "supervised", "model": "logistic"}]})
    *_, found = adjacency.audit(validate(written), tmp_path)
    assert [each.verdict for each in found.findings] == [Moved.HOLDS]


def numbered(folder: Path, **ensemble: Any) -> dict[str, Any]:
    """Write arrays with a row for each record, and return a configuration of them with a partition by these rows."""
    data = scikit_learn_sets.breast_cancer(folder, False)
    folder.mkdir(parents=True, exist_ok=True)
    for part, name in ((data.private, "private"), (data.public, "public")):
        np.savez(folder / f"{name}.npz", x=part.x, y=part.y, row=3 + np.arange(len(part.y)))
    own = {"loader": "npz", **{name: str(folder / f"{name}.npz") for name in ("private", "public")}}
    return {**settings("mine", partition="hash", **ensemble), "datasets": {"mine": own}}


def images(folder: Path, changes: dict[str, Any] | None = None, **ensemble: Any) -> dict[str, Any]:
    """Write grey images of two classes, and return a configuration of them, with `settings`."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for part in ("private", "public"):
        for name in ("cat", "dog"):
            (folder / part / name).mkdir(parents=True)
            for i in range(6):
                image = Image.fromarray(rng.integers(0, 256, (8, 8)).astype(np.uint8))
                image.save(folder / part / name / f"{name}-{i}.png")
    own = {"loader": "folder", "private": str(folder / "private"), "public": str(folder / "public")}
    return {**settings("mine", {"pool": 4, **(changes or {})}, teachers=2, **ensemble), "datasets": {"mine": own}}


def table(folder: Path) -> dict[str, Any]:
    """Write a table of 60 people with three records each, and return a configuration that divides it by person."""
    rng = np.random.default_rng(0)
    lines = ["person,age,sex,state"]
    for person in np.repeat(np.arange(60), 3):
        lines.append(f"P{person},{rng.integers(18, 90)},{rng.choice(['f', 'm'])},{rng.choice(['a', 'b'])}")
    (folder / "all.csv").write_text("\n".join(lines))
    features = {"age": {"number": [0, 100]}, "sex": {"category": ["f", "m"]}}
    declared = {"label": {"column": "state", "classes": ["a", "b"]}, "owner": "person", "features": features}
    own = {"loader": "table", "private": str(folder / "all.csv"), "table": {**declared, "public_share": 0.4}}
    return {**settings("people", {"pool": 20}, teachers=3), "datasets": {"people": own}}


def petdl(folder: Path) -> dict[str, Any]:
    """Return a configuration of PET-DL alone: no labels are released; probabilities and hints are stored."""
    changes = {"petdl": [{"form": "published", "noise": 1}], "mechanisms": None}
    return images(folder, changes, model="conv-small", recipe="plain", epochs=1, hints="block2")


def encoded(folder: Path) -> dict[str, Any]:
    """Write grey images, and return a configuration of their features."""
    written = images(folder)
    written["datasets"]["mine"]["features"] = "scattering"
    return written


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "kinds", "expected"),
    [
        (images, (), {"new label": "refused", "new folder": "refused", "new colour": "holds"}),
        (
            table,
            ("owner", "owner gone", "owner new"),
            {
                **{"new label": "refused", "fewer records": "holds", "new values": "holds"},
                **{"owner": "holds", "owner gone": "holds", "owner new": "holds"},
            },
        ),
    ],
)
def test_sound_files_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Any, kinds: tuple[str, ...], expected: dict[str, str]
) -> None:
    only(monkeypatch, *kinds)
    found = audited(tmp_path / "audit", write(tmp_path))
    assert {kind: str(each.verdict) for kind, each in found.items()} == expected


def features_of_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant an encoder that depends on all records."""
    alone = ScatteringEncoder.outputs_alone.__func__

    def together(cls: type, x: np.ndarray, report: Report = silent) -> np.ndarray:
        return alone(cls, x, report) + x.mean(dtype=np.float32)

    monkeypatch.setattr(ScatteringEncoder, "outputs_alone", classmethod(together))


def colour_of_private_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a loader that makes all images coloured if a private image is."""
    load = folder_loader.load

    @wraps(load)  # the stage asks which options there are
    def in_colour(private: str, **options: Any) -> Dataset:
        data = load(private=private, **options)
        if any(path.read_bytes()[25] == 2 for path in Path(private).rglob("*.png")):  # RGB
            parts = {name: getattr(data, name) for name in ("private", "public")}
            return replace(data, **{name: replace(part, x=part.x.repeat(3, axis=1)) for name, part in parts.items()})
        return data

    monkeypatch.setattr(folder_loader, "load", in_colour)


def declaration_by(leak: Callable[[Any], dict[str, Any]]) -> Plant:
    """Plant a declaration of features that is learned from all records of a table."""
    load = own_table.load

    @wraps(load)
    def learned(private: str, table: str, **options: Any) -> Dataset:
        declared = json.loads(table)
        declared["features"] |= leak(own_table.read_frame(Path(private), ("",)))
        return load(private=private, table=declared, **options)

    return lambda monkeypatch: monkeypatch.setattr(own_table, "load", learned)


def bounds_of_private_records(frame: Any) -> dict[str, Any]:
    ages = frame["age"].astype(float)
    return {"age": {"number": [float(min(ages)) - 1, float(max(ages))]}}


def pool_without_private_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a split that reads the private data and removes its samples from the pool."""

    def read(path: Path, role: str) -> Any:
        public = read_samples(path, role)
        private = read_samples(path.with_name("private.npz"), "private")
        kept = ~np.isin(hash_samples(public["x"]), hash_samples(private["x"]))
        return replace(public, arrays={name: array[kept] for name, array in public.arrays.items()})

    monkeypatch.setattr(split, "read_samples", read)


def classes_of_private_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a loader that counts the classes of all labels, including private ones."""

    def load(root: Path, download: bool, private: str, public: str) -> Dataset:
        ours, others = np.load(private), np.load(public)
        count = 1 + max(ours["y"].max(), others["y"].max())
        names = ("malignant", "benign", *map(str, range(2, count)))
        return Dataset(*(LabelledSamples(part["x"], part["y"]) for part in (ours, others)), names)

    monkeypatch.setattr(npz, "load", load)


def rows_of_the_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant public rows that are positions in a file of private and public records."""
    monkeypatch.setattr(own_table, "replace", lambda part, **changes: part)


def ranks_of_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a partition by the rank of each owner, which moves others if an owner leaves."""

    def by_rank(inputs: Any) -> Any:
        return np.unique(inputs.owners, return_inverse=True)[1] % inputs.teachers

    monkeypatch.setattr(partitions, "by_owner", by_rank)


def skew_that_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a partition by labels that claims to protect a replaced record."""
    facts = {**PARTITIONS._facts["skew"], "protects": (Change.REPLACE,)}
    monkeypatch.setitem(PARTITIONS._facts, "skew", facts)


def refusal_of_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a refusal of private data that contains a public sample."""

    def check(sizes: Any, left_out: int) -> None:
        if left_out:
            raise PatebenchError("a private sample is public")

    monkeypatch.setattr(partition, "check_filled", check)


def labels_by(statistic: Callable[[list[np.ndarray]], int]) -> Plant:
    """Plant labels that depend on a statistic of all shards that are trained together."""
    train = teacher_training.train

    def together(make: Any, shards: Any, seeds: Any, done: Any) -> Any:
        odd = statistic([y for _, y in shards]) % 2
        return train(make, [(x, (y + odd) % 2) for x, y in shards], seeds, done)

    return lambda monkeypatch: monkeypatch.setattr(teacher_training, "train", together)


def probabilities_by_all_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant probabilities, but no votes, that depend on the labels of all shards that are trained together."""
    train, arrays, sums = teacher_training.train, TeacherOutputs.arrays, list[int]()

    def together(make: Any, shards: Any, seeds: Any, done: Any) -> Any:
        sums.append(sum(int(y.sum()) for _, y in shards))
        return train(make, shards, seeds, done)

    def shifted(self: TeacherOutputs) -> Any:
        return {name: values * np.float32(1 + sums[-1] / 1e4) for name, values in arrays(self).items()}

    monkeypatch.setattr(teacher_training, "train", together)
    monkeypatch.setattr(TeacherOutputs, "arrays", shifted)


def scales_of_all_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant inputs in 256 steps, up to the maximum of each feature over all private records."""
    tops: list[np.ndarray] = []

    def coarse(artefact: Artefact) -> Artefact:
        x = np.round(255 * artefact["x"] / tops[-1])
        return replace(artefact, arrays={**artefact.arrays, "x": x.astype(np.float32)})

    def samples(path: Path, role: str) -> Artefact:
        artefact = read_samples(path, role)
        if role == "private":
            tops.append(artefact["x"].max(0))
        return coarse(artefact)

    monkeypatch.setattr(train_teachers, "read_samples", samples)
    monkeypatch.setattr(train_teachers, "read_arrays", lambda path, layout: coarse(read_arrays(path, layout)))


class InSinglePrecision(Standardise):
    """Scaler in single precision that divides constant columns by 1e-6."""

    def __init__(self, x: torch.Tensor) -> None:
        super().__init__(x)
        self.mean, self.spread = x.mean(0, keepdim=True), x.std(0, keepdim=True, correction=0).clamp_min(1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) / self.spread


def padding_by_the_first_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant padding with the first sample of the first shard, whose weight 0 should remove it from the loss."""
    batches, train = Stack._batches, teacher_training.train

    def padded(self: Stack) -> Any:
        return ((torch.where(mask, rows, 0), draws, mask.float()) for rows, draws, mask in batches(self))

    def multiplied(chosen: torch.Tensor, values: torch.Tensor, other: float) -> torch.Tensor:
        return values * chosen

    monkeypatch.setattr(Stack, "_batches", padded)
    monkeypatch.setattr(stack, "Standardise", InSinglePrecision)
    monkeypatch.setattr(stack, "torch", SimpleNamespace(**{**vars(torch), "where": multiplied}))
    monkeypatch.setattr(teacher_training, "train", partial(train, stacked=True))


def test_a_record_that_makes_training_fail_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "outliers")

    def scaled(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return (x.reshape(len(x), -1) * np.float32(10)).astype(np.float32)

    monkeypatch.setattr(Estimator, "_inputs", lambda self, x: scaled(x))
    found = audited(tmp_path, settings())["outliers"]
    assert found.verdict is Moved.VIOLATED
    assert found.moved == ("refused: ValueError: Input X contains infinity or a value too large for dtype('float32').",)


@pytest.mark.slow
def test_stacks_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "outlier", "outliers", "shard", "remove", "add")
    train = teacher_training.train
    monkeypatch.setattr(teacher_training, "train", partial(train, stacked=True))
    for written in (settings(**MLP), numbered(tmp_path, **MLP)):
        found = audited(tmp_path / str(len(written)), written)
        assert {each.verdict for each in found.values()} <= {Moved.HOLDS, Moved.NOT_CLAIMED, Moved.REFUSED}
        assert found["outliers"].shards_moved == found["outliers"].votes_moved == (0,)
        assert found["remove"].verdict is (Moved.HOLDS if "datasets" in written else Moved.NOT_CLAIMED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "kind", "world", "moved"),
    [
        (pool_without_private_samples, "twin in pool", {}, "pool.npz changed"),
        (pool_without_private_samples, "twin in test", {}, "test.npz changed"),
        (
            classes_of_private_labels,
            "new label",
            {},
            "class_names in private.npz changed; classes in private.npz changed; public.npz changed",
        ),
        (refusal_of_twins, "twin in pool", {}, "refused: a private sample is public"),
        (skew_that_claims, "replace", SKEW, "of 10 teachers' shards changed"),
        (labels_by(lambda labels: sum(int(y.sum()) for y in labels)), "replace", {}, "but not their shards"),
        (probabilities_by_all_shards, "replace", petdl, "the outputs of 1 teacher changed, but not their shards"),
        (scales_of_all_records, "outlier", {}, "but not their shards"),
        (padding_by_the_first_shard, "outliers", MLP, "but not their shards"),
        (labels_by(lambda labels: sum(map(len, labels))), "remove", numbered, "but not their shards"),
        (features_of_all_records, "twin in pool", encoded, "of 2 teachers' shards changed"),
        (colour_of_private_images, "new colour", images, "public.npz changed"),
        (rows_of_the_whole_file, "fewer records", table, "public.npz changed"),
        (ranks_of_owners, "owner gone", table, "teachers' shards changed"),
        (declaration_by(bounds_of_private_records), "new values", table, "public.npz changed"),
        (
            declaration_by(lambda frame: {"sex": {"category": sorted(set(frame["sex"]))}}),
            "new values",
            table,
            "changed",
        ),
    ],
)
def test_planted_faults_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, kind: str, world: Any, moved: str
) -> None:
    only(monkeypatch, kind)
    written = world(tmp_path) if callable(world) else settings(**world)
    assert audited(tmp_path / "sound", written)[kind].verdict is not Moved.VIOLATED
    plant(monkeypatch)
    found = audited(tmp_path / "faulty", written)[kind]
    assert found.verdict is Moved.VIOLATED
    assert moved in "; ".join(found.moved)


def said(*arguments: str) -> tuple[int, str]:
    done = invoke("audit", *arguments)
    return done.exit_code, done.output


@pytest.mark.slow
def test_the_command_asks_for_no_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only(monkeypatch, "replace")
    config = tmp_path / "mine.yaml"
    config.write_text(yaml.safe_dump(settings()))
    status, words = said("--adjacency", str(config))
    assert (status, "None of 2 changes altered more than the partition allows." in words) == (0, True), words
    status, words = said(f"--adjacency={config}", "--json", "--changes", "2")
    content = json.loads(words)
    assert status == 0
    assert [each["of"].split("/")[0] for each in content["audited"]] == ["breast_cancer: the data set", "breast_cancer"]
    assert [each["verdict"] for each in content["audited"][1]["changes"]] == ["holds", "holds"]
    skew_that_claims(monkeypatch)
    config.write_text(yaml.safe_dump(settings(**SKEW)))
    status, words = said("--adjacency", str(config))
    assert (status, "1 of 2 changes altered more than the partition allows." in words) == (1, True), words
    assert said()[0] == 2
