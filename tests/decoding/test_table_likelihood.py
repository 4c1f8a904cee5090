"""Compare the likelihood of a released table with sampling, and test which labels are hidden."""

import numpy as np
import pytest
from scipy.stats import norm

from patebench.core.errors import PatebenchError
from patebench.decoding.table_likelihood import Shape, hidden, read, row_log_likelihood
from patebench.features.query_clusters import QueryClusters
from patebench.mechanisms.noise import Gaussian, Laplace

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
    with pytest.raises(PatebenchError, match="gnmax' releases no table"):
        read(TABLE, {"mechanism": "gnmax", "parameters": {"sigma": 3.0}})


@pytest.mark.slow
def test_together_more_labels_are_right_and_they_are_more_likely():
    """Use 20 clusters, two near ones per class, and noise that makes every third label wrong."""
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


# Rows of a table.


def posterior(log_p):
    return np.exp(log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True))


def test_a_shape_s_density_is_the_product_over_cells_and_the_mean_over_rivals():
    table, totals = np.array([[5.0, 2.5, -0.5], [1.0, 0.0, 3.0]]), np.array([6.0, 4.0])
    found = Shape(0.7, 0.3, 0.0).log_density(table, totals, Gaussian(1.0))
    for row, total in enumerate(totals):
        for label in range(3):
            rivals = [rival for rival in range(3) if rival != label]
            each = [
                norm.pdf(table[row], total * (0.7 * np.eye(3)[label] + 0.3 * np.eye(3)[rival])).prod()
                for rival in rivals
            ]
            assert found[row, label] == pytest.approx(np.log(np.mean(each)))
    even = Shape(0.8, 0.1, 0.1).log_density(table, totals, Laplace(1.0))
    cells = np.exp(-np.abs(table[0] - 6.0 * np.array([0.1, 0.8, 0.1]))) / 2
    assert even[0, 1] == pytest.approx(np.log(cells.prod()))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [Gaussian(60.0), Laplace(40.0)], ids=["gaussian", "laplace"])
def test_what_it_says_comes_true_as_often_as_it_says(noise):
    """In many tables of 250 teachers, of whom 90 % agree, labels are as often right as predicted."""
    rng, promised, right = np.random.default_rng(1), [], []
    for _ in range(30):
        truth = rng.integers(10, size=20)
        counts = np.full((20, 10), 250 * 0.1 / 9)
        counts[np.arange(20), truth] = 225
        table = np.round(counts) + noise.draw(counts.shape, rng)
        found = posterior(row_log_likelihood(table, noise, [np.ones(20)]))
        promised.append(found.max(axis=1))
        right.append(found.argmax(axis=1) == truth)
    assert np.mean(promised) == pytest.approx(np.mean(right), abs=0.04)


def test_the_guess_that_suits_the_table_is_taken():
    rng, sizes = np.random.default_rng(2), np.array([0.02, 0.3, 0.05, 0.4, 0.03, 0.2])
    table = 3000 * sizes[:, None] * np.eye(4)[[0, 1, 2, 3, 0, 1]] + rng.normal(scale=20.0, size=(6, 4))
    guesses = [np.ones(6), sizes]
    assert np.array_equal(
        row_log_likelihood(table, Gaussian(20.0), guesses), row_log_likelihood(table, Gaussian(20.0), guesses[1:])
    )


def test_rows_without_votes_are_doubtful_where_others_are_not():
    table = np.vstack([np.eye(4) * 500.0, [[12.0, 0.0, -3.0, 1.0]]])
    found = posterior(row_log_likelihood(table, Gaussian(10.0), [np.ones(5)]))
    assert found[:4].max(axis=1) == pytest.approx(1)
    assert found[4].max() < 0.5
