"""Test that inputs of different origin are refused by every layout and by every stage with several inputs."""

import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import briefly

from patebench.artefacts.reading import check_together
from patebench.config.parameters import (
    AccountParameters,
    DistilParameters,
    DpsgdParameters,
    FeatureMethodParameters,
    KeptOutputs,
    LearnerParameters,
    PartitionParameters,
    PetdlParameters,
    PrivateKnnParameters,
    SelectionParameters,
    SplitParameters,
    StudentParameters,
    TrainingParameters,
)
from patebench.core.files import Artefact, write_arrays
from patebench.core.formats import LAYOUTS, SAMPLES
from patebench.stages import (
    account,
    aggregate,
    distil,
    extract_features,
    join_votes,
    name_clusters,
    partition,
    secure_share,
    select_queries,
    split,
    train_baseline,
    train_dpsgd,
    train_on_features,
    train_petdl,
    train_private_knn,
    train_student,
    train_teachers,
)

DESCENT = [(kind, parent) for kind, layout in LAYOUTS.items() for parent in layout.parents]


def made_of(kind: str, digest: str = "own", **parents: str) -> Artefact:
    facts = dict.fromkeys(LAYOUTS[kind].parents, "origin") if kind in LAYOUTS else {}
    return Artefact(Path(f"{kind}.npz"), {}, {"kind": kind, **facts, **parents}, digest)


@pytest.mark.parametrize(("kind", "parent"), DESCENT)
def test_an_artefact_of_another_parent_is_refused(kind: str, parent: str) -> None:
    sound = made_of("samples", digest="origin")
    child = made_of(kind)
    check_together(**{parent: sound, "child": [child, child]})
    with refuses("mismatch", child.path):
        check_together(**{parent: made_of("samples", digest="other"), "child": child})
    with refuses("mismatch", child.path):  # two children whose parent is not given
        check_together(one=child, two=made_of(kind, **{parent: "other"}))


class World:
    """Folder with all artefacts of a small ensemble; another seed gives other artefacts of the same data."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.named = folder, {"seed": seed, "stream": "tiny"}
        rng = np.random.default_rng(seed)
        for role, samples in (("private", 60), ("public", 40)):
            y = np.arange(samples) % 3
            x = rng.integers(0, 100, (samples, 1, 8, 8)).astype(np.uint8)
            x[np.arange(samples), 0, y] += 120
            facts = {"dataset": "tiny", "role": role, "classes": 3, "class_names": ["a", "b", "c"]}
            write_arrays(self[role], SAMPLES, {"x": x, "y": y, "row": np.arange(samples)}, facts)
        outs = {f"{name}_out": self[name] for name in ("pool", "truth", "test")}
        split.run(public=self["public"], parameters=SplitParameters(pool=20), **self.named, **outs)
        dealt = {"teachers": 4, "parameters": PartitionParameters(), "out": self["partition"]}
        partition.run(**self.files("private", "public"), **dealt, **self.named)
        features = {"out": self["features"], "encoder": self["encoder"]}
        extract_features.run(pool=self["pool"], **self.named, **features)
        choice = {"selection": SelectionParameters(strategy="random", queries=5), "student": None}
        nothing = {"labels": None, "predictions": None, "features": None}
        select_queries.run(pool=self["pool"], **nothing, **choice, **self.named, out=self["selected"])
        training = TrainingParameters(model="logistic")
        inputs = self.files("private", "partition", "pool", "test")
        kept = KeptOutputs(soft=(1.0,), hints="probabilities")
        train_teachers.run(**inputs, teachers=(0, 3), training=training, kept=kept, **self.named, out=self["chunk"])
        inputs = self.files("partition", "pool", "truth", "test")
        join_votes.run(**inputs, chunk=[self["chunk"]], out=self["votes"], summary=self["ensemble"])
        noise = {"mechanism": "gnmax", "parameters": {"sigma": 1.0}}
        aggregate.run(votes=self["votes"], **noise, **self.named, out=self["labels"])
        learnt = {"parameters": StudentParameters(method="supervised", model="logistic"), "queries": 20}
        outs = {"out": folder / "student.json", "predictions": self["predictions"]}
        train_student.run(**self.files("pool", "labels", "test"), **learnt, **self.named, **outs)

    def __getitem__(self, name: str) -> Path:
        return self.folder / f"{name}.{'json' if name == 'ensemble' else 'npz'}"

    def same(self, other: "World", name: str) -> bool:
        return (self.folder / name).read_bytes() == (other.folder / name).read_bytes()

    def files(self, *names: str) -> dict[str, Path]:
        return {name: self[name] for name in names}


def make_world(folder: Path, seed: int) -> World:
    with briefly(2):
        return World(folder, seed)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, World]:
    return make_world(tmp_path_factory.mktemp("one"), 0), make_world(tmp_path_factory.mktemp("other"), 1)


def test_the_same_seed_gives_the_same_files_and_another_seed_gives_others(
    worlds: tuple[World, World], tmp_path: Path
) -> None:
    again = make_world(tmp_path, 0)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 15
    assert all(again.same(worlds[0], name) and not again.same(worlds[1], name) for name in names)


LOGISTIC, NEAREST = (
    {"teachers": (0, 3), "training": TrainingParameters(model=name)} for name in ("logistic", "nearest-query")
)
STUDENT = StudentParameters(method="supervised", model="logistic")
UNSURE = SelectionParameters(strategy="unsure-prototypes", queries=1)
PETDL = PetdlParameters(form="published", noise=1.0, delta=1e-5)
TRUE_LABELS = {"private": None, "true_labels": 5, "training": LearnerParameters(model="logistic")}
DPSGD = DpsgdParameters(form="linear", epsilon=1, delta=1e-5)
KNN = PrivateKnnParameters(form="sound", rate=0.5, neighbours=5, threshold=2, sigma1=1, sigma2=1, queries=5, delta=1e-5)
DELTA = AccountParameters(delta=1e-5)
MEAN = FeatureMethodParameters(method="dppl-mean", epsilon=1, delta=1e-5)

# Stage, inputs of any origin, inputs that are exchanged in turn (* for several files), and settings.
STAGES: list[tuple[ModuleType, str, str, dict[str, Any]]] = [
    (train_teachers, "test", "private partition pool *selected", LOGISTIC),
    (train_teachers, "private partition test", "pool *selected features encoder", NEAREST),
    (join_votes, "", "partition pool truth test *chunk", {"summary": Path("x")}),
    (select_queries, "", "pool labels predictions features", {"selection": UNSURE, "student": STUDENT}),
    (train_student, "test", "pool labels features", {"parameters": STUDENT, "queries": 20, "predictions": Path("x")}),
    (distil, "test", "votes pool", {"parameters": DistilParameters(model="mlp", samples=(5,))}),
    (train_petdl, "*chunk", "ensemble votes pool test", {"parameters": PETDL}),
    (train_baseline, "test", "pool truth", TRUE_LABELS),
    (name_clusters, "test", "pool truth features encoder selected", {}),
    (train_dpsgd, "private test", "pool encoder", {"training": DPSGD}),
    (train_private_knn, "private test", "pool truth encoder", {"parameters": KNN}),
    (train_on_features, "private test", "pool truth encoder", {"parameters": MEAN}),
    (account, "", "votes labels", {"accounting": DELTA}),
]
CASES = [
    pytest.param(stage, f"{others} {exchanged}", other.removeprefix("*"), settings, id=f"{stage.__name__}-{other}")
    for stage, others, exchanged, settings in STAGES
    for other in exchanged.split()
]


def run(world: World, stage: ModuleType, inputs: str, other: tuple[str, World] | None = None, **settings: Any) -> None:
    """Run a stage on files of a world, except the one named in `other`, which is of another world."""
    files: dict[str, Any] = {}
    for name in inputs.split():
        key = name.removeprefix("*")
        path = (other[1] if other and other[0] == key else world)[key]
        files[key] = [path] if name.startswith("*") else path
    named = {} if stage in (join_votes, name_clusters, account) else world.named
    stage.run(**files, **named, **settings)


@pytest.mark.parametrize(("stage", "inputs", "other", "settings"), CASES)
def test_a_stage_refuses_an_input_of_another_origin(
    worlds: tuple[World, World], tmp_path: Path, stage: ModuleType, inputs: str, other: str, settings: dict[str, Any]
) -> None:
    with refuses("mismatch"):
        run(worlds[0], stage, inputs, (other, worlds[1]), **settings, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("other", ["partition", "pool"])
def test_votes_that_were_copied_from_another_run_give_no_labels(
    worlds: tuple[World, World], tmp_path: Path, other: str
) -> None:
    """Copy the partition or the pool of the first run beside the votes of the second run."""
    folder, noise = tmp_path / "run", {"mechanism": "gnmax", "parameters": {"sigma": 1.0}}
    shutil.copytree(worlds[1].folder, folder)
    votes, ledger = folder / "ensemble" / "votes.npz", tmp_path / "ledger"
    votes.parent.mkdir()
    shutil.copy(worlds[1]["votes"], votes)
    aggregate.run(votes=votes, **noise, **worlds[1].named, out=tmp_path / "sound.npz")
    shutil.copy(worlds[0][other], folder)
    with refuses("mismatch", votes):
        aggregate.run(votes=votes, **noise, release=True, ledger=ledger, out=tmp_path / "out.npz")
    with refuses("mismatch", votes):
        account.run(votes=votes, labels=worlds[1]["labels"], accounting=DELTA, out=tmp_path / "out.npz")
    with refuses("mismatch", folder / "chunk.npz"):
        noise = {"mechanism": "distributed-gnmax", "parameters": {"sigma": 1.0, "tolerance": 0.0}, "teachers": 4}
        shares = [tmp_path / "out.npz", tmp_path / "other.npz"]
        secure_share.run(chunk=folder / "chunk.npz", **noise, **worlds[1].named, out=shares)
    assert not ledger.exists()
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.slow
@pytest.mark.parametrize("stage", [distil, train_baseline, name_clusters, account])
def test_a_stage_gives_the_same_output_again(worlds: tuple[World, World], tmp_path: Path, stage: ModuleType) -> None:
    """Compare all but the seconds that a training took."""
    inputs, settings = next((f"{others} {inputs}", more) for each, others, inputs, more in STAGES if each is stage)
    outputs = []
    for name in "ab":
        run(worlds[0], stage, inputs, **settings, out=tmp_path / name)
        outputs.append(re.sub(rb'"(seconds|digest)": ?[^,}]+', b"", (tmp_path / name).read_bytes()))
    assert outputs[0] == outputs[1]
