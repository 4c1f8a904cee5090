"""Sizes and nearness of the clusters that queries stand for."""

import numpy as np
import pytest

from patebench.features.query_clusters import QueryClusters


def test_sizes_are_shares_of_the_pool_and_near_clusters_are_second_choices():
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [0.1, 0.0], [0.9, 0.0], [0.9, 0.1]])
    features = np.repeat(places, [10, 20, 30, 40], axis=0) + rng.uniform(-0.01, 0.01, size=(100, 2))
    known = QueryClusters.of(features, np.array([0, 10, 30, 60]))
    assert known.sizes == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert np.array_equal(known.nearness, np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]))


def test_a_later_round_takes_of_clusters_that_had_their_votes_before():
    """20 samples at 0, 30 near 1 and 50 around 0.9: the third query takes those from the second one's cluster."""
    features = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.9, 0.0]], [20, 30, 50], axis=0)
    known = QueryClusters.of(features, np.array([0, 20, 50]), rounds=[2, 1])
    assert known.sizes == pytest.approx([0.2, 0.3, 0.5])
    assert known.put == pytest.approx([0.2, 0.8, 0.5])
    assert QueryClusters.of(features, np.array([0, 20, 50])).put == pytest.approx(known.sizes)


def test_one_cluster_is_near_none():
    known = QueryClusters.of(np.zeros((5, 2)), np.array([2]))
    assert (known.sizes.tolist(), known.nearness.tolist()) == ([1.0], [[0.0]])
