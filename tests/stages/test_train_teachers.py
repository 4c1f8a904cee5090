"""Test chunks of teachers: votes do not depend on the chunks, and their probabilities on the pool are summed."""

import numpy as np
import pytest
from scipy.special import softmax
from tests.refusals import refuses
from tests.stages.digits import ENSEMBLE_STREAM, Ensemble

from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays
from patebench.core.formats import CHUNK
from patebench.core.seeds import derive
from patebench.models import make_learner


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Ensemble:
    return Ensemble(tmp_path_factory.mktemp("ensemble"))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "epochs"), [("random-forest", None), ("mlp", 2)])
def test_votes_do_not_depend_on_how_teachers_are_chunked(ensemble: Ensemble, model: str, epochs: int | None) -> None:
    both, second = (read_arrays(ensemble.train(first, 1, model=model, epochs=epochs), CHUNK) for first in (0, 1))
    for name in ("votes", "test_votes"):
        assert np.array_equal(both[name][1:], second[name])


@pytest.mark.parametrize(("model", "epochs"), [("logistic", None), ("mlp", 2)])
def test_probabilities_are_those_of_each_teacher_summed_and_change_no_vote(
    ensemble: Ensemble, model: str, epochs: int | None
) -> None:
    chunk = read_arrays(ensemble.train(0, 1, model=model, epochs=epochs, soft=(1.0, 5.0)), CHUNK)
    plain = read_arrays(ensemble.train(0, 1, model=model, epochs=epochs), CHUNK)
    assert np.array_equal(chunk["votes"], plain["votes"])
    assert "soft" not in plain.arrays
    private, shards, pool = (np.load(path) for path in (ensemble.private, ensemble.partition, ensemble.pool))
    expected = np.zeros((2, 100, 10))
    for teacher in (0, 1):
        start, stop = shards["offsets"][teacher : teacher + 2]
        rows = shards["indices"][start:stop]
        learner = make_learner(model, "modern", classes=10, epochs=epochs)
        learner.fit(private["x"][rows], private["y"][rows], seed=derive(0, ENSEMBLE_STREAM, "teacher", teacher))
        one = np.exp(learner.log_probabilities(pool["x"]))
        expected += [softmax(np.log(one) / temperature, axis=1) for temperature in (1, 5)]
    assert chunk["soft"] == pytest.approx(expected, abs=1e-5)
    assert chunk["soft"].sum(axis=2) == pytest.approx(2.0, abs=1e-5)


@pytest.mark.slow
def test_what_each_teacher_says_is_kept_on_demand_and_changes_no_vote(ensemble: Ensemble) -> None:
    said = read_arrays(ensemble.train(0, 1, model="conv-small", epochs=1, hints="block2"), CHUNK)
    plain = read_arrays(ensemble.train(0, 1, model="conv-small", epochs=1), CHUNK)
    assert np.array_equal(said["votes"], plain["votes"])
    assert {"probabilities", "hints"} & set(plain.arrays) == set()
    assert np.array_equal(said["probabilities"].argmax(2), said["votes"])
    assert said["probabilities"].sum(2) == pytest.approx(1, abs=1e-5)
    assert said["hints"].shape == (2, 100, 4 * 64)
    assert not np.array_equal(said["hints"][0], said["hints"][1])


@pytest.mark.slow
def test_every_learner_has_probabilities_and_only_networks_with_blocks_have_hints(ensemble: Ensemble) -> None:
    said = read_arrays(ensemble.train(0, 1, hints="probabilities"), CHUNK)
    assert said["probabilities"].shape == (2, 100, 10)
    assert "hints" not in said.arrays
    for model, words in (("logistic", "no layer 'block2'"), ("mlp", "use the model conv-small or conv-middle")):
        with pytest.raises(PatebenchError, match=words):
            ensemble.train(0, 1, model=model, hints="block2")
    with refuses("teachers"):
        ensemble.train(4, 6)
