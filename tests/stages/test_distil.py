"""Test the stage `distil`: every kind of label at every number of samples, and refused inputs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.labels import write_votes

from patebench.config.parameters import DistilParameters
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import POOL, SAMPLES, VOTES
from patebench.stages import distil


class World:
    """Two clusters of points and five teachers, which are confident on one half of the pool only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        y = np.arange(80) % 2
        x = (rng.normal(size=(80, 4)) + 3 * y[:, None]).astype(np.float32)
        self.pool, self.test = folder / "pool.npz", folder / "test.npz"
        facts = {"dataset": "made", "classes": 2, "class_names": ["a", "b"]}
        facts |= {"seed": 0, "split": {"pool": 80, "test": None}}
        rows = np.arange(80)
        digest = write_arrays(self.pool, POOL, {"x": x, "row": rows}, facts)
        write_arrays(self.test, SAMPLES, {"x": x, "y": y, "row": rows}, {**facts, "role": "test"})
        sure = np.stack([5.0 * (y == label) for label in (0, 1)], axis=1)
        said = np.tile(y, (5, 1))
        self.votes = write_votes(folder / "votes.npz", said, 2, [sure, sure], pool=digest, temperatures=[1, 5])

    def distil(self, votes: Path | None = None, **changes: Any) -> Path:
        out = self.folder / "distillation.json"
        settings = {"samples": [80, 20], "model": "mlp", "recipe": "plain", "epochs": 20, **changes}
        distil.run(
            votes=votes or self.votes, pool=self.pool, test=self.test, parameters=DistilParameters.checked(settings),
            seed=0, stream="made", out=out,
        )  # fmt: skip
        return out


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def test_every_kind_of_label_at_every_number_of_samples(world: World) -> None:
    learnt = read_json(world.distil(), "distil")["learnt"]
    kinds = [("plurality", 1.0), ("soft", 1.0), ("soft", 5.0)]
    found = [(each["samples"], each["labels"], each["temperature"]) for each in learnt]
    assert found == [(samples, *kind) for samples in (20, 80) for kind in kinds]
    assert min(each["accuracy"] for each in learnt) > 0.9
    sharp, soft = (each["accuracy"] for each in learnt[-3:-1])
    assert sharp == soft, "these teachers are certain, so the same labels come twice, and the same network with them"


def test_refusals(world: World, tmp_path: Path) -> None:
    held = read_arrays(world.votes, VOTES)
    hard = write_votes(tmp_path / "hard.npz", held["votes"], 2, pool=held.meta["pool"])
    with pytest.raises(ArtefactError, match=r"lacks the teachers' class probabilities; set temperatures"):
        world.distil(votes=hard)
    with pytest.raises(PatebenchError, match="--samples is 81"):
        world.distil(samples=[81])
    with refuses("value"):
        world.distil(model="logistic")
