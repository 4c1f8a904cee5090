"""Test that inputs of different origin are refused by every layout and by every stage with several inputs."""

import re
from collections.abc import Callable
from pathlib import Path
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
    same, other = ([(tmp_path / name).read_bytes() == (world.folder / name).read_bytes() for name in names]
                   for world in (worlds[0], worlds[1]))  # fmt: skip
    assert all(same)
    assert not any(other), again


KNN = {"rate": 0.5, "neighbours": 5, "threshold": 2, "sigma1": 1, "sigma2": 1, "queries": 5, "delta": 1e-5}
STUDENT = StudentParameters(method="supervised", model="logistic")

# Stage, names of its inputs (* for several files), inputs that are exchanged in turn, and settings.
STAGES: list[tuple[Callable[..., None], str, str, dict[str, Any]]] = [
    (
        train_teachers.run,
        "private partition pool test *selected",
        "private partition pool selected",
        {"teachers": (0, 3), "training": TrainingParameters(model="logistic")},
    ),
    (
        train_teachers.run,
        "private partition pool test *selected features encoder",
        "pool selected features encoder",
        {"teachers": (0, 3), "training": TrainingParameters(model="nearest-query")},
    ),
    (join_votes.run, "partition pool truth test *chunk", "partition pool truth test chunk", {"summary": Path("x")}),
    (
        select_queries.run,
        "pool labels predictions features",
        "pool labels predictions features",
        {"selection": SelectionParameters(strategy="unsure-prototypes", queries=1), "student": STUDENT},
    ),
    (
        train_student.run,
        "pool labels test features",
        "pool labels features",
        {"parameters": STUDENT, "queries": 20, "predictions": Path("x")},
    ),
    (distil.run, "votes pool test", "votes pool", {"parameters": DistilParameters(model="mlp", samples=(5,))}),
    (
        train_petdl.run,
        "ensemble votes *chunk pool test",
        "ensemble votes pool test",
        {"parameters": PetdlParameters(form="published", noise=1.0, delta=1e-5)},
    ),
    (
        train_baseline.run,
        "pool truth test",
        "pool truth",
        {"private": None, "true_labels": 5, "training": LearnerParameters(model="logistic")},
    ),
    (
        name_clusters.run,
        "pool truth test features encoder selected",
        "pool truth features encoder selected",
        {},
    ),
    (
        train_dpsgd.run,
        "private pool test encoder",
        "pool encoder",
        {"training": DpsgdParameters(form="linear", epsilon=1, delta=1e-5)},
    ),
    (
        train_private_knn.run,
        "private pool truth test encoder",
        "pool truth encoder",
        {"parameters": PrivateKnnParameters(form="sound", **KNN)},
    ),
    (
        train_on_features.run,
        "private pool truth test encoder",
        "pool truth encoder",
        {"parameters": FeatureMethodParameters(method="dppl-mean", epsilon=1, delta=1e-5)},
    ),
    (account.run, "votes labels", "votes labels", {"accounting": AccountParameters(delta=1e-5)}),
]
CASES = [
    pytest.param(run, inputs, other, settings, id=f"{run.__module__.rpartition('.')[2]}-{other}")
    for run, inputs, others, settings in STAGES
    for other in others.split()
]


def arguments(world: World, run: Callable[..., None], inputs: str, other: tuple[str, World] | None = None) -> Any:
    """Return the files of a stage, except the one named in `other`, which is of another world, and seed and stream."""
    files: dict[str, Any] = {}
    for name in inputs.split():
        key = name.removeprefix("*")
        path = (other[1] if other and other[0] == key else world)[key]
        files[key] = [path] if name.startswith("*") else path
    return files if run in (join_votes.run, name_clusters.run, account.run) else {**files, **world.named}


@pytest.mark.parametrize(("run", "inputs", "other", "settings"), CASES)
def test_a_stage_refuses_an_input_of_another_origin(
    worlds: tuple[World, World],
    tmp_path: Path,
    run: Callable[..., None],
    inputs: str,
    other: str,
    settings: dict[str, Any],
) -> None:
    given = arguments(worlds[0], run, inputs, (other, worlds[1]))
    with refuses("mismatch"):
        run(**given, **settings, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("run", [train_student.run, distil.run, train_baseline.run, name_clusters.run, account.run,
                                 train_dpsgd.run, train_teachers.run], ids=lambda run: run.__module__)  # fmt: skip
def test_a_stage_gives_the_same_output_again(
    worlds: tuple[World, World], tmp_path: Path, run: Callable[..., None]
) -> None:
    """Compare all but the seconds that a training took."""
    inputs, settings = next((inputs, settings) for stage, inputs, _, settings in STAGES if stage is run)
    outputs = []
    for name in "ab":
        more = {
            key: tmp_path / f"{name}-{key}" if isinstance(value, Path) else value for key, value in settings.items()
        }
        run(**arguments(worlds[0], run, inputs), **more, out=tmp_path / name)
        outputs.append(re.sub(rb'"(seconds|digest)": ?[^,}]+', b"", (tmp_path / name).read_bytes()))
    assert outputs[0] == outputs[1]
