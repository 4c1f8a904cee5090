"""Compare features smoothed over a graph of neighbours with a dense matrix and plain loops."""

import numpy as np
import pytest
import torch

from patebench.core.errors import PatebenchError
from patebench.features import contrast, graph

rng = np.random.default_rng(0)
NEIGHBOURS = 10
POOL = rng.integers(0, 256, (60, 1, 8, 8), dtype=np.uint8)


@pytest.fixture(scope="module")
def encoder() -> graph.GraphEncoder:
    with pytest.MonkeyPatch.context() as few, torch.random.fork_rng(devices=[]):
        few.setattr(contrast, "STEPS", 3)
        few.setattr(contrast, "PASSES", 1)
        torch.manual_seed(0)
        return graph.GraphEncoder.learn(POOL)


def walked_by_hand(vectors: np.ndarray) -> np.ndarray:
    """Return the result of `walked`, computed with a dense matrix of all pairs of samples."""
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    order = np.argsort(apart, axis=1)[:, 1 : NEIGHBOURS + 1]
    reach = np.take_along_axis(apart, order, axis=1)[:, -1]
    edges = np.zeros_like(apart)
    for sample, near in enumerate(order):
        for other in near:
            edges[sample, other] = edges[other, sample] = np.exp(
                -(apart[sample, other] ** 2) / (reach[sample] * reach[other])
            )
    found = np.linalg.matrix_power(edges / edges.sum(axis=1, keepdims=True), graph.STEPS) @ vectors
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_a_walk_is_the_power_of_a_matrix() -> None:
    vectors = rng.normal(size=(70, 5))
    np.testing.assert_allclose(graph.walked(vectors, NEIGHBOURS), walked_by_hand(vectors), atol=1e-9)
    np.testing.assert_allclose(graph.walked(np.ones((30, 4)), NEIGHBOURS), 0.5, err_msg="equal samples")
    np.testing.assert_allclose(np.linalg.norm(graph.walked(np.eye(2), NEIGHBOURS), axis=1), 1, err_msg="a tiny pool")


def test_a_sample_is_the_mean_over_its_nearest_in_the_pool(encoder: graph.GraphEncoder) -> None:
    x = rng.integers(0, 256, (5, 1, 8, 8), dtype=np.uint8)
    found, base = encoder.features(x), encoder.base.features(x)
    for vector, due in zip(found, base, strict=True):
        near = np.argsort(np.linalg.norm(encoder.anchors - due, axis=1))[: encoder.neighbours]
        np.testing.assert_allclose(vector, encoder.smoothed[near].mean(axis=0), atol=1e-5)
    assert np.linalg.norm(encoder.features(POOL), axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize(
    "change", [{"shape": [1, 8, 8]}, {"shape": [1, 8, 8, 60, 33]}, {"shape": [60, 32]}, {"weights": [0.0]}]
)
def test_what_is_no_such_encoder_is_refused(encoder: graph.GraphEncoder, change: dict[str, list[float]]) -> None:
    arrays = encoder.arrays()
    changed = {name: np.array(values, arrays[name].dtype) for name, values in change.items()}
    with pytest.raises(PatebenchError, match="so it is damaged or another encoder made it"):
        graph.GraphEncoder.of(arrays | changed)


def test_a_pool_of_one_sample_is_refused() -> None:
    with pytest.raises(PatebenchError, match="has only one sample, so it has no neighbours"):
        graph.GraphEncoder.learn(POOL[:1])
