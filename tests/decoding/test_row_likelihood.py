"""What a row of a noisy table says of its class, where the likelihood can be computed otherwise."""

import numpy as np
import pytest
from scipy.stats import norm

from patebench.decoding.table_likelihood import Shape, row_log_likelihood
from patebench.mechanisms.noise import Gaussian, Laplace


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
    """Over many tables of 250 teachers, of whom 90 % agree: labels are right in the share that is promised."""
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
