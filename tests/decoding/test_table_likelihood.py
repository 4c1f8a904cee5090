"""What a released table says of each class, against sampling, and what a student is told of it."""

import numpy as np
import pytest

from patebench.core.errors import PatebenchError
from patebench.decoding.table_likelihood import hidden, read
from patebench.features.query_clusters import QueryClusters

GAUSSIAN = {"mechanism": "sparse-gnmax", "parameters": {"k": 1.0, "sigma": 3.0}}
LAPLACE = {"mechanism": "sparse-lnmax", "parameters": {"k": 1.0, "gamma": 0.5}}
TABLE = np.array([[4.2, 1.0, -3.0], [0.3, 0.1, 0.2], [90.0, 2.0, 1.0]])


@pytest.mark.parametrize("facts", [GAUSSIAN, LAPLACE], ids=lambda facts: facts["mechanism"])
def test_a_class_is_as_likely_as_it_has_most_votes_when_noise_is_taken_off(facts):
    rng, draws = np.random.default_rng(0), 200_000
    shape = (draws, *TABLE.shape)
    noise = rng.normal(scale=3.0, size=shape) if facts is GAUSSIAN else rng.laplace(scale=2.0, size=shape)
    winners = (TABLE - noise).argmax(axis=2)
    sampled = np.stack([(winners == label).mean(axis=0) for label in range(3)], axis=1)
    assert np.exp(read(TABLE, facts)[1]) == pytest.approx(sampled, abs=5e-3)


def test_labels_that_are_more_likely_wrong_than_right_are_hidden_where_their_class_has_enough_others():
    known = np.log([[0.9, 0.1, 0.0001]] * 3 + [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3]])
    assert hidden(known.argmax(axis=1), known).tolist() == [False, False, False, True, False]
    assert not hidden(known[1:].argmax(axis=1), known[1:]).any()


def test_a_table_without_noise_is_certain_and_other_mechanisms_release_none():
    _, known = read(np.round(TABLE), {"mechanism": "sparse-gnmax", "parameters": {"k": 1.0, "sigma": 0.0}})
    assert known[0].tolist() == [0, -30, -30]
    with pytest.raises(PatebenchError, match="gnmax releases no table"):
        read(TABLE, {"mechanism": "gnmax", "parameters": {"sigma": 3.0}})


@pytest.mark.slow
def test_together_more_labels_are_right_and_they_are_more_likely():
    """250 teachers of 20 clusters, two near ones of each class, and noise in which every third label drowns."""
    truth, facts = np.repeat(np.arange(10), 2), {"mechanism": "sparse-gnmax", "parameters": {"k": 20.0, "sigma": 130.0}}
    near = np.kron(np.eye(10), np.ones((2, 2))) - np.eye(20) + 0.1 * np.eye(20, k=2) + 0.1 * np.eye(20, k=-2)
    clusters, rng = QueryClusters(np.full(20, 0.05), near), np.random.default_rng(0)
    found = []
    for _ in range(2):
        table = 240 * np.eye(10)[truth] + rng.normal(scale=130.0, size=(20, 10))
        for labels, known in (read(table, facts), read(table, facts, clusters)):
            found.append([np.mean(labels == truth), np.mean(known[np.arange(20), truth])])
    alone, together = np.mean(found[::2], axis=0), np.mean(found[1::2], axis=0)
    assert alone[0] < 0.75
    assert together[0] >= 0.8
    assert together[1] > alone[1] / 2
