"""What teachers think of the pool: sums worked out teacher by teacher, and votes that know nothing of it."""

import numpy as np
import pytest
from scipy.special import softmax
from tests.teachers.test_teachers import STREAM, World

from patebench.core.errors import ArtefactError
from patebench.core.files import read_arrays
from patebench.core.formats import CHUNK, VOTES
from patebench.core.seeds import derive
from patebench.models.learner import make


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("soft"))


@pytest.mark.parametrize(("model", "epochs"), [("logistic", None), ("mlp", 2)])
def test_probabilities_are_those_of_each_teacher_summed_and_change_no_vote(
    world: World, model: str, epochs: int | None
) -> None:
    chunk = read_arrays(world.teach(0, 1, model=model, epochs=epochs, soft=(1.0, 5.0)), CHUNK)
    plain = read_arrays(world.teach(0, 1, model=model, epochs=epochs), CHUNK)
    assert np.array_equal(chunk["votes"], plain["votes"])
    assert "soft" not in plain.arrays
    private, shards, pool = (np.load(path) for path in (world.private, world.partition, world.pool))
    expected = np.zeros((2, 100, 10))
    for teacher in (0, 1):
        start, stop = shards["offsets"][teacher : teacher + 2]
        rows = shards["indices"][start:stop]
        learner = make(model, "modern", classes=10, epochs=epochs)
        learner.fit(private["x"][rows], private["y"][rows], seed=derive(0, STREAM, "teacher", teacher))
        one = np.exp(learner.log_probabilities(pool["x"]))
        expected += [softmax(np.log(one) / temperature, axis=1) for temperature in (1, 5)]
    assert chunk["soft"] == pytest.approx(expected, abs=1e-5)
    assert chunk["soft"].sum(axis=2) == pytest.approx(2.0, abs=1e-5)


def test_chunks_are_summed_whatever_their_order(world: World) -> None:
    parts = world.teach(0, 1, soft=(2.0,)), world.teach(2, 5, soft=(2.0,))
    whole = read_arrays(world.teach(0, 5, soft=(2.0,)), CHUNK)
    for order in (parts, parts[::-1]):
        votes = read_arrays(world.join(*order)[0], VOTES)
        assert votes["soft"] == pytest.approx(whole["soft"], rel=1e-5)
        assert votes.meta["temperatures"] == [2.0]


@pytest.mark.parametrize("other", [(), (1.0, 5.0), (5.0,)])
def test_chunks_of_other_temperatures_are_refused(world: World, other: tuple[float, ...]) -> None:
    with pytest.raises(ArtefactError, match="another temperatures than"):
        world.join(world.teach(0, 2, soft=(1.0,)), world.teach(3, 5, soft=other))
