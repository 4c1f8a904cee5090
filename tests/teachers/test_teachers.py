"""Chunks of teachers and the vote matrix that joins them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays
from patebench.core.formats import CHUNK, VOTES
from patebench.data.stage import make_data, partition, split
from patebench.teachers.chunk import teach
from patebench.teachers.votes import describe, join

STREAM = "digits/seed-0_pool-100_test-100/teachers-6_iid_logistic_modern"


class World:
    """Six logistic teachers on the embedded digits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.private, self.public = folder / "private.npz", folder / "public.npz"
        self.pool, self.truth, self.test = folder / "pool.npz", folder / "truth.npz", folder / "test.npz"
        self.partition = folder / "partition.npz"
        make_data("digits", folder, {}, False, self.private, self.public)
        split(self.private, self.public, 100, 100, 0, STREAM, self.pool, self.truth, self.test)
        partition(self.private, 6, "iid", None, None, 0, STREAM, self.partition)

    def teach(self, first: int, last: int, **changes: object) -> Path:
        out = self.folder / f"{first}-{last}{'-'.join(map(str, changes.values()))}.npz"
        arguments = {
            "private": self.private, "partition": self.partition, "pool": self.pool, "test": self.test,
            "first": first, "last": last, "model": "logistic", "recipe": "modern", "epochs": None,
            "seed": 0, "stream": STREAM, "out": out,
        }  # fmt: skip
        teach(**{**arguments, **changes})  # type: ignore[arg-type]
        return out

    def join(self, *chunks: Path, **changes: Path) -> tuple[Path, Path]:
        out, summary = self.folder / "votes.npz", self.folder / "ensemble.json"
        inputs = {"partition": self.partition, "pool": self.pool, "truth": self.truth, "test": self.test, **changes}
        join(**inputs, chunks=chunks, out=out, summary=summary)
        return out, summary


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def halves(world: World) -> tuple[Path, Path]:
    return world.teach(0, 2), world.teach(3, 5)


def test_votes_do_not_depend_on_how_teachers_are_chunked(world: World, halves: tuple[Path, Path]) -> None:
    whole = read_arrays(world.teach(0, 5, model="random-forest"), CHUNK)
    parts = [read_arrays(world.teach(a, b, model="random-forest"), CHUNK) for a, b in ((0, 0), (1, 3), (4, 5))]
    assert np.array_equal(whole["votes"], np.concatenate([part["votes"] for part in parts]))
    assert np.array_equal(whole["test_votes"], np.concatenate([part["test_votes"] for part in parts]))


def test_networks_too_do_not_depend_on_chunks(world: World) -> None:
    pair = read_arrays(world.teach(0, 1, model="mlp", epochs=2), CHUNK)
    second = read_arrays(world.teach(1, 1, model="mlp", epochs=2), CHUNK)
    assert np.array_equal(pair["votes"][1:], second["votes"])


def test_joined_votes_are_in_order_whatever_the_order_of_chunks(world: World, halves: tuple[Path, Path]) -> None:
    forth, _ = world.join(*halves)
    votes = read_arrays(forth, VOTES)["votes"]
    back, summary = world.join(*reversed(halves))
    assert np.array_equal(read_arrays(back, VOTES)["votes"], votes)
    assert np.array_equal(votes[3:], read_arrays(halves[1], CHUNK)["votes"])
    facts = read_json(summary, "ensemble")
    assert facts["teachers"] == len(facts["teacher_accuracies"]) == 6
    assert np.mean(facts["teacher_accuracies"]) > 0.7
    assert sum(facts["gap_histogram"]) == 100


def test_description_by_hand() -> None:
    votes = np.array([[0, 1, 2], [0, 1, 1], [0, 2, 0], [1, 1, 2]])
    told = describe(votes, votes, np.array([0, 1, 0]), np.array([0, 1, 2]), classes=3)
    # Counts: (3,1,0), (0,3,1), (1,1,2): gaps 2, 2, 1; the plurality 0, 1, 2 is right on two queries of three.
    assert told["gap_histogram"] == [0, 1, 2, 0, 0]
    assert told["gap_mean"] == pytest.approx(5 / 12)
    assert told["plurality_accuracy_pool"] == pytest.approx(2 / 3)
    assert told["plurality_accuracy_test"] == 1.0
    assert told["teacher_accuracies"] == pytest.approx([1.0, 2 / 3, 1 / 3, 2 / 3])


def rewritten(path: Path, change: Callable[[dict, dict], None]) -> Path:
    """A copy of a chunk with changed arrays or facts and a right checksum: a fault of origin, not of storage."""
    chunk = read_arrays(path, CHUNK)
    arrays, meta = {name: array.copy() for name, array in chunk.arrays.items()}, dict(chunk.meta)
    change(arrays, meta)
    out = path.with_name("changed.npz")
    write_arrays(out, CHUNK, arrays, meta)
    return out


@pytest.mark.parametrize("fact", ["partition", "pool", "test", "model", "recipe", "epochs", "seed"])
def test_a_chunk_of_another_origin_is_refused(world: World, halves: tuple[Path, Path], fact: str) -> None:
    foreign = rewritten(halves[1], lambda arrays, meta: meta.update({fact: "another"}))
    with pytest.raises(ArtefactError, match=f"changed.npz: it was made with another {fact} than"):
        world.join(halves[0], foreign)


def test_missing_doubled_and_foreign_teachers_are_refused(world: World, halves: tuple[Path, Path]) -> None:
    with pytest.raises(ArtefactError, match=r"no chunk holds its teacher 3 \(3 of 6 are missing\)"):
        world.join(halves[0])
    with pytest.raises(ArtefactError, match=r"its teacher 0 is also in"):
        world.join(halves[0], *halves)
    strange = rewritten(halves[1], lambda arrays, meta: arrays["teachers"].__setitem__(2, 77))
    with pytest.raises(ArtefactError, match=r"teacher 5"):
        world.join(halves[0], strange)


def test_teachers_outside_the_partition_are_refused(world: World) -> None:
    with pytest.raises(PatebenchError, match="teachers 4:6 are not among the 6"):
        world.teach(4, 6)


def test_another_private_set_than_the_partitions_is_refused(world: World, tmp_path: Path) -> None:
    make_data("breast_cancer", tmp_path, {}, False, tmp_path / "private.npz", tmp_path / "public.npz")
    with pytest.raises(ArtefactError, match="it was made with another private than"):
        world.teach(0, 1, private=tmp_path / "private.npz")


def test_weights_are_kept_on_demand(world: World) -> None:
    world.teach(0, 1, model="mlp", epochs=1, weights=world.folder / "weights")
    assert sorted(path.name for path in (world.folder / "weights").iterdir()) == ["0.pt", "1.pt"]
    with pytest.raises(PatebenchError, match="keep_weights: false"):
        world.teach(0, 0, weights=world.folder / "weights")
