"""Noise shares and votes with weights: ε against exact divergences of all neighbours in a small world, and the noise.

Faults are planted in the limit of weights, the sensitivity and the noise.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.accounting.oracles import gaussian_delta, hockey_stick, renyi, sum_of_gaussians
from tests.refusals import refuses

from patebench.accounting import discrete_gaussian
from patebench.accounting import votes as votes_module
from patebench.accounting.accountant import RenyiAccountant
from patebench.accounting.sparse import weighted_distance
from patebench.accounting.votes import UNIT, Votes, WeightedVotes
from patebench.core.bound import Bound, Kind
from patebench.core.entropy import Entropy
from patebench.core.seeds import Source, generator
from patebench.mechanisms import sparse_argmax
from patebench.mechanisms.noise_shares import DistributedSparseGNMax, NoiseShares
from patebench.mechanisms.sparse_argmax import SparseArgmax, SparseGNMax

#: In the small world, two of five teachers never send their noise, and a vote has four units.
SMALL, SENT, TEACHERS, TOLERANCE, QUERIES, CLASSES = 4, 3, 5, 2, 2, 2

CELLS, ORDERS = QUERIES * CLASSES, np.array([1.1, 2.0, 4.0, 8.0])

Record = tuple[tuple[int, ...], int]

#: Records: weights in units, some of them too long, and a label.
RECORDS: list[Record] = [
    (vector, label) for vector in product((-5, -4, 0, 3, 4), repeat=QUERIES) for label in range(CLASSES)
]
#: Teachers with two records of different labels.
SEVERAL = [((one, 0), (other, 1)) for one, other in product(product((-4, 0, 4), repeat=QUERIES), repeat=2)]
SHARDS: list[tuple[Record, ...]] = [(), *((record,) for record in RECORDS), *SEVERAL]
ONE: tuple[Record, ...] = (((UNIT, 0), 0),)
OTHERS: list[tuple[Record, ...]] = [(((4, -1), 0),), (((0, 9), 1),), (), ()]


def votes_of(*teachers: tuple[Record, ...], classes: int = CLASSES) -> Votes:
    rows = [(*record, teacher) for teacher, records in enumerate(teachers) for record in records]
    weights = np.array([vector for vector, *_ in rows], dtype=np.int64).reshape(len(rows), -1)
    labels, owners = (np.array([row[place] for row in rows], dtype=np.int64) for place in (1, 2))
    return Votes.from_weights(WeightedVotes.of(weights, labels, owners, classes), len(teachers), classes)


def small(k: int, share: float) -> DistributedSparseGNMax:
    """Return the mechanism in which a share has the scale `share`, in units of the small world."""
    return DistributedSparseGNMax(k, share * SENT**0.5 / SMALL, TOLERANCE)


def distances(k: int) -> np.ndarray:
    """Return the absolute differences of all pairs of tables that one teacher can cause: (shards, shards, cells)."""
    mechanism = small(k, 1.0)
    tables = np.stack([mechanism.counts(votes_of(shard, *OTHERS)).ravel() for shard in SHARDS])
    return np.abs(tables[:, None] - tables)


def exact_divergences(share: float, changes: np.ndarray) -> np.ndarray:
    """Return the Rényi divergences (…, orders) of tables with the noise of `SENT` shares that differ by `changes`."""
    log_p = np.log(law(share, 1e-280))
    each = [renyi(log_p[size:], log_p[: len(log_p) - size], ORDERS) for size in range(changes.max() + 1)]
    return np.asarray(np.stack(each)[changes].sum(axis=-2))


def law(share: float, least: float) -> np.ndarray:
    noise = sum_of_gaussians(share, SENT)
    return np.asarray(noise[noise > least])


def stated_curve(mechanism: DistributedSparseGNMax) -> np.ndarray:
    accountants = mechanism.accountants(votes_of(SHARDS[1], *OTHERS))
    (stated,) = (each for each in accountants if isinstance(each, RenyiAccountant))
    return np.asarray(stated.totals([QUERIES], ORDERS)[0])


def excess(k: int, share: float) -> float:
    """Return the largest ratio of an exact divergence to the stated one, over all neighbours and orders."""
    changes, mechanism = np.unique(np.sort(distances(k).reshape(-1, CELLS)), axis=0), small(k, share)
    drawn = mechanism.in_units(SMALL).share_scale(TEACHERS)
    return float((exact_divergences(drawn, changes) / stated_curve(mechanism)).max())


@pytest.fixture
def few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes_module, "UNIT", SMALL)


@pytest.mark.usefixtures("few_units")
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize(("share", "least"), [(0.5, 0.5), (0.6, 0.8), (1.8, 0.999)])
def test_all_neighbours_cost_at_most_what_is_stated_and_one_nearly_as_much(k: int, share: float, least: float) -> None:
    assert least < excess(k, share) <= 1 + 1e-9


@pytest.mark.usefixtures("few_units")
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("share", [0.5, 1.8])
def test_neighbours_with_another_label_cost_less(k: int, share: float) -> None:
    number = len(RECORDS) // CLASSES
    changes = distances(k)[1 : 1 + len(RECORDS), 1 : 1 + len(RECORDS)].reshape(number, CLASSES, number, CLASSES, -1)
    labels = exact_divergences(share, changes[np.arange(number), :, np.arange(number)])
    squared = weighted_distance(k, labels=True) * SMALL**2
    bound = discrete_gaussian.shared_counts(share * SENT**0.5, SENT, ORDERS, squared_distance=squared, cells=CELLS)
    assert (0.999 if share > 1 else 0.4) < (labels / bound).max() <= 1 + 1e-9
    assert (bound < stated_curve(small(k, share))).all()


@pytest.mark.usefixtures("few_units")
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("share", [0.6, 1.8])
@pytest.mark.parametrize("delta", [0.1, 1e-3])
def test_every_stated_epsilon_holds_for_the_farthest_neighbours(k: int, share: float, delta: float) -> None:
    changes = np.unique(np.sort(distances(k).reshape(-1, CELLS)), axis=0)
    noise = law(share, 1e-13 if share > 1 else 1e-30)  # the smaller the noise, the larger the stated ε
    bounds = small(k, share).bounds(votes_of(SHARDS[1], *OTHERS), [QUERIES], delta)
    assert {bound.accountant for bound in bounds} == {"gdp", "rdp"}
    check_farthest(changes, np.square(changes).sum(axis=1), noise, bounds)


def check_farthest(changes: np.ndarray, distances: np.ndarray, noise: np.ndarray, bounds: list[Bound]) -> None:
    """Check `bounds` against exact divergences, for the farthest pair of tables with each number of changed cells.

    `changes` (pairs, cells) are the changes of cells, `distances` (pairs,) those of tables, and `noise` the
    probabilities of the noise on a cell.
    """
    cells = (changes > 0).sum(axis=1)
    for number in range(1, CELLS + 1):
        moved, p, q = changes[cells == number][np.argmax(distances[cells == number])], np.ones(1), np.ones(1)
        for size in moved[moved > 0]:
            p = np.multiply.outer(p, np.pad(noise, (0, size))).ravel()
            q = np.multiply.outer(q, np.pad(noise, (size, 0))).ravel()
        assert all(hockey_stick(p, q, bound.epsilon) <= bound.delta + 1e-6 for bound in bounds)


@pytest.mark.usefixtures("few_units")
@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [
        (WeightedVotes, "limited", lambda votes, most: votes),
        (WeightedVotes, "limited", lambda votes, most: replace(votes, weights=np.clip(votes.weights, -SMALL, SMALL))),
        (sparse_argmax, "weighted_distance", lambda k, rounds, labels: weighted_distance(k, rounds, labels=True)),
        (sparse_argmax, "weighted_distance", lambda k, rounds, labels: k),
        (NoiseShares, "needed", lambda mechanism, teachers: teachers),
    ],
    ids=["not clipped", "each weight clipped", "sensitivity √2 too small", "sensitivity of added votes", "tolerance 0"],
)
def test_planted_faults_show(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, fault: Callable[..., Any]) -> None:
    monkeypatch.setattr(where, name, fault)
    assert excess(2, 1.8) > 1.2


def named(mechanism: SparseArgmax, votes: Votes, **how: bool) -> dict[tuple[str, str], Bound]:
    return {(each.accountant, str(each.conversion)): each for each in mechanism.bounds(votes, [2], 1e-5, **how)}


def test_the_bound_is_that_of_one_gaussian_table() -> None:
    mechanism, votes = DistributedSparseGNMax(1, 72.5, 100), votes_of(ONE, *[()] * 49_999, classes=10)
    bounds, sparse = named(mechanism, votes), named(SparseGNMax(1, 72.5), votes)
    gdp = bounds["gdp", "none"].epsilon
    assert gaussian_delta(2 / 72.5, gdp) <= 1e-5 < gaussian_delta(2 / 72.5, gdp * (1 - 1e-6))
    for key, bound in bounds.items():
        assert bound.epsilon == pytest.approx(sparse[key].epsilon, rel=1e-8)
        assert (bound.kind, bound.publishable, bound.add_or_remove) == (Kind.WORST_CASE, True, None)
    released = named(mechanism, votes_of((((5, -3 * UNIT), 1),), *[()] * 49_999, classes=10), discrete=True)
    assert {key: each.epsilon for key, each in released.items()} == {key: each.epsilon for key, each in bounds.items()}
    twice = named(mechanism, replace(votes, rounds=(1, 1)))["gdp", "none"].epsilon
    assert gaussian_delta(8**0.5 / 72.5, twice) <= 1e-5 < gaussian_delta(8**0.5 / 72.5, twice * (1 - 1e-6))


def test_it_fails_closed() -> None:
    """Without noise, with shares below half a unit, and for labels, for which it states no theorem."""
    votes = votes_of(ONE, *[()] * 99)
    for sigma in (0.0, 0.49 / UNIT * 10):
        assert all(np.isinf(each.epsilon) for each in DistributedSparseGNMax(1, sigma, 0).bounds(votes, [2], 1e-5))
    with refuses("labels"):
        DistributedSparseGNMax(1, 5.0, 0).bounds(replace(votes, labels_only=True), [2], 1e-5)


def test_labels_are_as_likely_as_with_continuous_noise() -> None:
    votes = votes_of(ONE, (((UNIT // 2, -UNIT), 1),), *[()] * 4)
    expected = SparseGNMax(1, 0.7 * 1.5**0.5).log_outcome_probabilities(votes)
    np.testing.assert_allclose(DistributedSparseGNMax(1, 0.7, 2).log_outcome_probabilities(votes), expected, rtol=1e-9)


def residuals(source: Source) -> np.ndarray:
    """Release a table with the noise of 30 teachers, of which 10 vote; return released minus true counts in units."""
    mechanism, rows = DistributedSparseGNMax(1, 6.0, 5), np.random.default_rng(0).integers(-UNIT, UNIT, (10, 60))
    votes = votes_of(*(((tuple(row), i % 4),) for i, row in enumerate(rows)), *[()] * 20, classes=4)
    table = mechanism.released(votes, source)["noisy_counts"] * UNIT
    assert np.array_equal(table, np.rint(table))
    return np.asarray(table - mechanism.counts(votes)).ravel()


def ignoring_units(mechanism: NoiseShares, counts: Any, teachers: int, rng: Source, unit: int = 1) -> Any:
    noisy = counts.copy()
    for source in rng.spawn(teachers):
        noisy += mechanism.share(teachers, counts.shape, source)
    return noisy


def without_shares_of_abstaining(mechanism: NoiseShares, counts: Any, teachers: int, rng: Source, unit: int) -> Any:
    noisy = counts.copy()
    for source in rng.spawn(teachers)[:10]:
        noisy += mechanism.in_units(unit).share(teachers, counts.shape, source)
    return noisy


@pytest.mark.parametrize("source", [generator(0, "s"), Entropy()], ids=["seeded", "entropy"])
@pytest.mark.parametrize("fault", [None, ignoring_units, without_shares_of_abstaining])
def test_each_cell_has_the_noise_of_all_teachers_in_units(
    monkeypatch: pytest.MonkeyPatch, source: Source, fault: Callable[..., Any] | None
) -> None:
    """Of 240 cells, the variance has a standard error of 9 %; a third of the shares has a third of it."""
    if fault is not None:
        monkeypatch.setattr(NoiseShares, "noisy", fault)
    ratio = float(np.var(residuals(source))) / (36 * 30 / 25 * UNIT**2)
    assert (ratio == pytest.approx(1, abs=0.4)) == (fault is None)
    assert DistributedSparseGNMax(1, 6.0, 5).noise_of(30).variance == pytest.approx(36 * 30 / 25)
