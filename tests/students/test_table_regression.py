"""Compare the regression of a noisy table with dense matrices, and test its accuracy on simple data."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits

from patebench.accounting.votes import UNIT
from patebench.core.errors import PatebenchError
from patebench.features.cells import Directions
from patebench.students import table_regression
from patebench.students.interface import NoisyTable, StudentConfig, StudentData
from patebench.students.student_training import train
from patebench.students.table_regression import regression

CLASSES = 3


def world(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return unit vectors (samples, 8), and their classes: the largest of the first three coordinates."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, 8))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, x[:, :CLASSES].argmax(axis=1)


def voted(pool: np.ndarray, queries: np.ndarray, sigma: float, neighbours: int = 15, labels: Any = None) -> NoisyTable:
    """Return the noisy table of 4,000 records, computed by loops over their nearest queries."""
    x, y = world(4000, seed=1)
    table = np.random.default_rng(5).normal(scale=sigma, size=(len(queries), CLASSES))
    for record, label in zip(x, y if labels is None else labels, strict=True):
        near = np.argsort(np.square(pool[queries] - record).sum(axis=1))[:neighbours]
        table[near, label] += 1
    return NoisyTable(counts=table, queries=queries, variance=sigma**2, records=4000, neighbours=neighbours)


@pytest.fixture(scope="module")
def pool() -> np.ndarray:
    return world(600, seed=0)[0]


@pytest.mark.parametrize(("error", "power", "variance"), [(0.0, 0.0, 0.0), (2.0, 0.5, -3.0), (8.0, 1.0, 2.0)])
def test_weights_are_the_mean_given_the_table_by_dense_matrices(
    pool: np.ndarray, error: float, power: float, variance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_ERRORS", (error,)), ("_POWERS", (power,)), ("_VARIANCES", np.array([variance]))):
        monkeypatch.setattr(table_regression, name, value)
    queries = np.arange(3, 43)
    table = voted(pool, queries, 6.0)
    expected, _ = dense(pool, table, error, power, variance)
    np.testing.assert_allclose(regression(pool, table)[0], expected, rtol=1e-6, atol=1e-9)


def dense(pool: np.ndarray, table: NoisyTable, error: float, power: float, variance: float) -> tuple[np.ndarray, float]:
    """Return W as a conditional mean of normal vectors, and the log-density of the centred table."""
    queries = table.queries
    votes, together = np.zeros((len(pool), len(queries))), np.zeros((len(queries), pool.shape[1]))
    for sample, vector in enumerate(pool):
        near = np.argsort(np.square(pool[queries] - vector).sum(axis=1))[: table.neighbours]
        votes[sample, near] = 1
        for q in near:
            together[q] += vector * (sample != queries[q])
    design = together * table.records / len(pool)
    noise = table.variance * np.eye(len(queries)) + error * table.records / CLASSES * np.cov(votes.T, bias=True)
    before = np.exp(variance) * np.diag(pool.std(axis=0) ** (2 * power))
    whole = design @ before @ design.T + noise
    shares = table.counts.sum(axis=0) / table.counts.sum()
    expected = (votes.sum(axis=0) - 1) * table.records / len(pool)  # each query is its own nearest
    rest = table.counts - np.outer(expected, shares)
    centred = rest - rest.mean(axis=1, keepdims=True)
    # The centred counts of a row have two directions: those of an orthonormal basis.
    basis = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    density = sum(multivariate_normal.logpdf(centred @ axis, cov=whole) for axis in basis)
    return before @ design.T @ np.linalg.solve(whole, centred), density


def test_what_is_chosen_makes_the_table_most_likely(pool: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = {"_ERRORS": (0.0, 2.0, 8.0), "_POWERS": (0.0, 1.0), "_VARIANCES": np.array([-6.0, -2.0, 2.0])}
    for name, value in grid.items():
        monkeypatch.setattr(table_regression, name, value)
    table = voted(pool, np.arange(40), 6.0)
    tried = [dense(pool, table, c, p, t) for c in grid["_ERRORS"] for p in grid["_POWERS"] for t in grid["_VARIANCES"]]
    best = max(tried, key=lambda found: found[1])[0]
    np.testing.assert_allclose(regression(pool, table)[0], best, rtol=1e-6, atol=1e-9)


def seen(pool: np.ndarray, table: NoisyTable | None) -> StudentData:
    labels = np.full(len(pool), -1)
    labels[:40] = 0
    return StudentData(pool=pool.astype(np.float32), labels=labels, classes=CLASSES, features=np.asarray, table=table)


def test_a_class_that_most_samples_have_is_not_taken_for_as_frequent_as_others(pool: np.ndarray) -> None:
    """Four of five records have class 0 and the others class 2, independent of features: accuracy is about 0.8."""
    x, _ = world(4000, seed=1)
    labels = (np.random.default_rng(2).random(len(x)) > 0.8) * 2
    table = voted(pool, np.arange(40), 20.0, labels=labels)
    student, _ = train(seen(pool, table), StudentConfig(method="table-regression"), seed=0)
    assert np.mean(student.log_probabilities(x).argmax(axis=1) == labels) > 0.78


@pytest.mark.parametrize("method", ["table-regression", "table-network"])
def test_no_table_and_a_network_for_other_data_than_images_are_refused(pool: np.ndarray, method: str) -> None:
    image = np.zeros((50, 3, 8, 8), np.uint8)
    data = StudentData(pool=image, labels=np.zeros(50, np.int64), classes=3, features=lambda x: x)
    with pytest.raises(PatebenchError, match=f"the method '{method}' needs noisy counts of votes"):
        train(data, StudentConfig(method=method), seed=0)
    with pytest.raises(PatebenchError, match="use 'table-regression'"):
        train(seen(pool, voted(pool, np.arange(5), 1.0, 2)), StudentConfig(method="table-network"), seed=0)


@pytest.mark.parametrize("sigma", [3.0, 10.0])
def test_a_weighted_table_of_few_records_does_not_pass_as_error_alone(sigma: float) -> None:
    """1,197 digits vote. Before c had a bound, the most likely W was 0, so one class was always predicted."""
    x, y = load_digits(return_X_y=True)
    vectors, rng = x / np.linalg.norm(x, axis=1, keepdims=True), np.random.default_rng(0)
    pool, records, unseen = np.split(rng.permutation(len(x)), [400, 1597])
    queries = rng.choice(400, 20, replace=False)
    weights = Directions.of(vectors[pool], queries).weights(vectors[records]) / UNIT
    counts = weights.T @ np.eye(10)[y[records]] + rng.normal(scale=sigma, size=(20, 10))
    table = NoisyTable(counts=counts, queries=queries, variance=sigma**2, records=len(records), weighted=True)
    data = replace(seen(vectors[pool], table), classes=10)
    student, _ = train(data, StudentConfig(method="table-regression"), seed=0)
    assert np.mean(student.log_probabilities(vectors[unseen]).argmax(axis=1) == y[unseen]) > 0.7


def test_a_table_without_noise_gives_least_squares_on_the_axes_of_its_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression on all features fits the table equally well, but was up to 8 points less accurate on MNIST."""
    for name, value in (("_ERRORS", (0.0,)), ("_POWERS_OF_AXES", (0.0,)), ("_VARIANCES", np.array([14.0]))):
        monkeypatch.setattr(table_regression, name, value)
    x, y = load_digits(return_X_y=True)
    pool = x[:600] / np.linalg.norm(x[:600], axis=1, keepdims=True)
    queries, classes = np.arange(20), np.eye(10)[y[:600]]
    directions = Directions.of(pool, queries)
    counts = directions.weights(pool).T / UNIT @ classes
    table = NoisyTable(counts=counts, queries=queries, variance=1e-9, records=600, weighted=True)
    student, _ = train(replace(seen(pool, table), classes=10), StudentConfig(method="table-regression"), seed=0)
    along = directions.along(pool)
    expected = along @ np.linalg.lstsq(along, classes, rcond=None)[0]
    measured = student.log_probabilities(pool) / 10
    measured, expected = (shares - shares.mean(axis=1, keepdims=True) for shares in (measured, expected))
    np.testing.assert_allclose(measured, expected, atol=0.01)
