"""Votes with weights: sensitivity by enumeration of all neighbours in small worlds, and independent bounds."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.accounting.oracles import gaussian_delta

from patebench.accounting.sparse import weighted_distance
from patebench.accounting.votes import UNIT, Votes, WeightedVotes, quantised
from patebench.core.bound import Conversion
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.mechanisms.sparse_argmax import SparseGNMax

DELTA, CLASSES, QUERIES = 1e-5, 3, 2

#: Weights, in votes. Some vectors have the largest length allowed, others are longer and must be scaled down.
GRID = (-2.0, -1.0, -0.6, 0.0, 0.8, 1.0, 2.0)

#: Records: a vector and a label.
RECORDS = [(vector, label) for vector in product(GRID, repeat=QUERIES) for label in range(CLASSES)]

#: The same for teachers with several records, with fewer weights.
FEW = [(vector, label) for vector in product((-1.0, 0.0, 0.6, 1.0), repeat=QUERIES) for label in range(2)]

Record = tuple[tuple[float, ...], int]


def votes(*teachers: tuple[Record, ...], classes: int = CLASSES) -> Votes:
    """Return the votes of teachers that each have some records."""
    rows = [(*record, teacher) for teacher, records in enumerate(teachers) for record in records]
    weights = np.rint(UNIT * np.array([vector for vector, *_ in rows]).reshape(-1, QUERIES)).astype(np.int64)
    labels, owners = (np.array([row[place] for row in rows], dtype=np.int64) for place in (1, 2))
    return Votes.from_weights(WeightedVotes.of(weights, labels, owners, classes), len(teachers), classes)


def tables(k: int, changed: list[tuple[Record, ...]], others: tuple[tuple[Record, ...], ...] = ()) -> np.ndarray:
    """Return the sums (data sets, cells), in units of 1/UNIT, if each element of `changed` is the first teacher."""
    mechanism = SparseGNMax(k, 1.0)
    return np.stack([mechanism.counts(votes(first, *others)).ravel() for first in changed])


def squared_distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the exact squared distances (rows of `one`, rows of `other`), in squared units."""
    return np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1) - 2 * one @ other.T


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("others", [(), (((1.0, -2.0), 0),), (((0.8, -0.6), 1), ((-1.0, 0.0), 2))])
def test_one_record_moves_the_table_as_far_as_stated_and_no_further(k: int, others: tuple[Record, ...]) -> None:
    rest = tuple((record,) for record in others)
    with_record = tables(k, [(record,) for record in RECORDS], rest)
    without = tables(k, [()], rest)
    same_vector = np.arange(len(RECORDS))[:, None] // CLASSES == np.arange(len(RECORDS)) // CLASSES
    replaced = squared_distances(with_record, with_record)
    rounding = 1 if k in (1, 2, 5) else 1 - 4 / UNIT  # no vector of the grid has the squared norm 3
    for distances, limit in (
        (replaced, weighted_distance(k)),
        (squared_distances(with_record, without), k),
        (replaced[same_vector], weighted_distance(k, labels=True)),
    ):
        assert rounding * limit * UNIT**2 <= distances.max() <= limit * UNIT**2


@pytest.mark.parametrize("k", [1, 2])
def test_a_teacher_with_two_records_moves_the_table_no_further(k: int) -> None:
    shards = [(), *product(FEW), *product(FEW, repeat=2)]
    moved = tables(k, shards, (FEW[-1:],))
    squares = squared_distances(moved, moved)
    assert squares.max() == 4 * k * UNIT**2
    assert squares[0].max() == k * UNIT**2


def rows(seed: int, largest: int = 3 * UNIT) -> WeightedVotes:
    """Return up to 3 rows of each of 7 teachers with weights of any sign; norms are far below 1 to far above it."""
    rng = np.random.default_rng(seed)
    owners, labels = np.divmod(rng.permutation(21)[:15], CLASSES)
    weights = rng.integers(-largest, largest + 1, size=(15, 4)) // np.array([1, 2, 20, 1, 2, 20, 1])[owners, None]
    return WeightedVotes.of(weights, labels, owners, CLASSES)


def squared_norms(votes: WeightedVotes) -> dict[int, int]:
    """Return the squared norm of each teacher's votes, in squared units, as exact integers."""
    result: dict[int, int] = {}
    for teacher, weights in zip(votes.teachers.tolist(), votes.weights.tolist(), strict=True):
        result[teacher] = result.get(teacher, 0) + sum(weight**2 for weight in weights)
    return result


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("k", [1, 2, 7])
def test_teachers_are_scaled_down_to_the_limit_each_by_itself(seed: int, k: int) -> None:
    before = rows(seed)
    after = before.limited(k)
    norms, limit = squared_norms(before), k * UNIT**2
    assert min(norms.values()) <= limit < max(norms.values())
    for teacher, square in squared_norms(after).items():
        own = before.teachers == teacher
        if norms[teacher] <= limit:
            assert np.array_equal(after.weights[own], before.weights[own])
        else:
            assert 0.995 * limit < square <= limit
            exact = before.weights[own] * np.sqrt(limit / norms[teacher])
            assert (np.abs(after.weights[own]) <= np.abs(exact)).all()  # rounded towards 0
            assert (np.abs(after.weights[own] - exact) <= 1.001).all()
        alone = replace(before, weights=before.weights[own], labels=before.labels[own], teachers=before.teachers[own])
        assert np.array_equal(alone.limited(k).weights, after.weights[own])
    again = after.limited(k)
    assert np.array_equal(again.weights, after.weights)
    assert np.array_equal(after.labels, before.labels)
    assert np.array_equal(after.teachers, before.teachers)


@pytest.mark.parametrize("largest", [2**31, 2**32, 2**62])
@pytest.mark.parametrize("k", [1, 2**29, 10**9])
def test_no_weight_is_so_large_that_the_limit_is_missed(largest: int, k: int) -> None:
    weights = np.full((2, 4), -largest) * np.array([[1], [0]])
    after = WeightedVotes.of(weights, np.zeros(2, int), np.arange(2), CLASSES).limited(k)
    assert squared_norms(after)[0] <= k * UNIT**2
    assert squared_norms(after)[1] == 0


def test_rows_of_a_teacher_and_a_label_are_added_before_they_are_limited() -> None:
    first, second = ((1.0, 0.0), 0), ((0.8, 0.0), 0)
    added = votes((first, second)).weighted
    assert added is not None
    assert added.weights.tolist() == [[round(1.8 * UNIT), 0]]
    assert added.limited(1).weights.tolist() == [[UNIT - 1, 0]]
    opposite = votes((first, ((-1.0, 0.0), 0)), (second,)).weighted
    assert opposite is not None
    assert opposite.limited(1).table(CLASSES)[0].tolist() == [round(0.8 * UNIT), 0, 0]


def test_rounding_makes_no_vector_longer() -> None:
    vectors = np.random.default_rng(0).normal(size=(500, 20))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert np.square(quantised(vectors), dtype=np.int64).sum(axis=1).max() <= UNIT**2


@pytest.mark.parametrize(
    ("weights", "labels", "teachers"),
    [
        (np.zeros((2, 3)), [0, 1], [0, 1]),
        (np.zeros((2, 3), np.uint8), [0, 1], [0, 1]),
        (np.zeros(2, int), [0, 1], [0, 1]),
        (np.zeros((2, 3), int), [0], [0, 1]),
        (np.zeros((2, 3), int), [0, 1], [0]),
        (np.zeros((2, 3), int), [0, 3], [0, 1]),
        (np.zeros((2, 3), int), [0, -1], [0, 1]),
        (np.zeros((2, 3), int), [0, 1], [0, 2]),
        (np.zeros((2, 3), int), [0, 1], [-1, 1]),
    ],
)
def test_rows_that_are_no_votes_of_these_teachers_are_refused(
    weights: np.ndarray, labels: list[int], teachers: list[int]
) -> None:
    with pytest.raises(PatebenchError):
        Votes.from_weights(WeightedVotes.of(weights, np.array(labels), np.array(teachers), CLASSES), 2, CLASSES)


def bounds(
    k: int, sigma: float, rounds: tuple[int, ...] = (), *, added: bool = False, discrete: bool = False
) -> dict[tuple[str, str], float]:
    """Return ε by accountant and conversion, which must not depend on the votes.

    If `added`, ε is for votes that are added or removed.
    """
    name, vectors = "add_or_remove" if added else "epsilon", [((1.0, 0.0), 0), ((-0.6, 0.8), 1)]
    stated = [
        {(bound.accountant, str(bound.conversion)): getattr(bound, name) for bound in bounds}
        for some in ([(vectors[0],), (vectors[1],)], [(), ()])
        for bounds in [
            SparseGNMax(k, sigma).bounds(replace(votes(*some), rounds=rounds), [QUERIES], DELTA, discrete=discrete)
        ]
    ]
    assert stated[0] == stated[1]
    return stated[0]


@pytest.mark.parametrize(("k", "sigma"), [(1, 50.0), (1, 400.0), (1, 2.0), (4, 25.0)])
@pytest.mark.parametrize("rounds", [(), (1, 1)])
def test_epsilon_is_that_of_two_gaussians_at_the_largest_distance(
    k: int, sigma: float, rounds: tuple[int, ...]
) -> None:
    for added, change in ((False, 4), (True, 1)):
        stated, squared = bounds(k, sigma, rounds, added=added), change * k * max(1, len(rounds)) / sigma**2
        gdp = stated["gdp", "none"]
        assert gaussian_delta(squared**0.5, gdp) <= DELTA < gaussian_delta(squared**0.5, gdp * (1 - 1e-6))
        orders = 1 + np.geomspace(1e-4, 1e8, 100_001)
        for way in (Conversion.CLASSIC, Conversion.TIGHT):
            costs = squared * orders / 2 + np.log(1 / DELTA) / (orders - 1)
            if way is Conversion.TIGHT:
                costs += np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
            assert costs.min() * (1 - 1e-6) <= stated["rdp", str(way)] <= costs.min() * 1.01
            assert gdp < stated["rdp", str(way)]


@pytest.mark.parametrize("added", [False, True])
def test_bounds_of_releases_are_those_of_renyi_dp(added: bool) -> None:
    stated = bounds(1, 50.0, (1, 1), added=added)
    released = bounds(1, 50.0, (1, 1), added=added, discrete=True)
    assert released == {key: value for key, value in stated.items() if key[0] == "rdp"}


@pytest.mark.parametrize("source", [np.random.default_rng(0), Entropy()], ids=["seeded", "release"])
def test_noise_of_each_cell_is_independent_and_has_the_stated_variance(source: np.random.Generator | Entropy) -> None:
    """2,000 releases of 6 cells around limited sums, of independent noise: within 6 standard errors."""
    mechanism, cast, runs = SparseGNMax(1, 3.0), votes((((2.0, -2.0), 1),), (((0.8, 0.0), 2),)), 2000
    released = np.stack([mechanism.released(cast, source)["noisy_counts"].ravel() for _ in range(runs)])
    residuals = released - np.array([0, 0.5**0.5, 0.8, 0, -(0.5**0.5), 0])
    assert np.abs(residuals.mean(axis=0)).max() < 6 * 3 / runs**0.5
    covariances = residuals.T @ residuals / runs
    assert np.abs(covariances - 9 * np.eye(6)).max() < 6 * 9 * (2 / runs) ** 0.5
