"""Laplace noise and votes with weights: ε against exact divergences of all neighbours in a small world, and the noise.

Faults are planted in the limit of weights, the sensitivity and the noise.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.accounting.oracles import renyi
from tests.mechanisms.test_distributed_weights import (
    CELLS,
    CLASSES,
    ONE,
    OTHERS,
    QUERIES,
    SHARDS,
    SMALL,
    check_farthest,
    votes_of,
)

from patebench.accounting import votes as votes_module
from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.sparse import weighted_distance
from patebench.accounting.votes import UNIT, Votes, WeightedVotes
from patebench.audit.runs import AuditSetting
from patebench.audit.table_audit import TableAudit
from patebench.core import seeds
from patebench.core.bound import Adjacency, Bound
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source, generator
from patebench.mechanisms import sparse_argmax
from patebench.mechanisms.noise import Gaussian, Laplace
from patebench.mechanisms.sparse_argmax import SparseArgmax, SparseGNMax, SparseLNMax

ORDERS = np.array([1.01, 2.0, 8.0, 1e3])

#: Teachers that vote on all queries for all classes, as far as they may.
EVERYWHERE = [
    tuple((vector, label) for label in range(CLASSES))
    for size in (2, -2)
    for vector in product((size, -size), repeat=QUERIES)
]
TEACHERS = [*SHARDS, *EVERYWHERE]


@pytest.fixture
def few_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(votes_module, "UNIT", SMALL)


def tables(mechanism: SparseLNMax) -> np.ndarray:
    """Return the tables (teachers, cells), in units, for each of `TEACHERS` as the first teacher."""
    return np.stack([mechanism.counts(votes_of(teacher, *OTHERS)).ravel() for teacher in TEACHERS])


def changes(mechanism: SparseLNMax) -> np.ndarray:
    """Return the absolute differences (pairs, cells) of the tables of all neighbours."""
    found = tables(mechanism)
    return np.unique(np.sort(np.abs(found[:, None] - found).reshape(-1, CELLS)), axis=0)


def law(gamma: float) -> np.ndarray:
    """Return the probabilities of discrete Laplace noise, which decrease by e^(−γ/SMALL) per unit."""
    reach = int(600 * SMALL / gamma)
    weights = np.exp(-gamma / SMALL * np.abs(np.arange(-reach, reach + 1)))
    return weights / weights.sum()


def divergences(gamma: float, moved: np.ndarray) -> np.ndarray:
    """Return the exact Rényi divergences (…, orders) of tables that differ by `moved` (…, cells) units."""
    log_p = np.log(law(gamma))
    each = [renyi(log_p[size:], log_p[: len(log_p) - size], ORDERS) for size in range(moved.max() + 1)]
    return np.asarray(np.stack(each)[moved].sum(axis=-2))


def stated_curve(mechanism: SparseLNMax, *, labels_only: bool = False, added: bool = False) -> np.ndarray:
    votes = replace(votes_of(ONE, *OTHERS), labels_only=labels_only)
    (stated,) = (each for each in mechanism.accountants(votes) if isinstance(each, RenyiAccountant))
    curve = stated.added if added else stated
    assert isinstance(curve, RenyiAccountant)
    return np.asarray(curve.totals([QUERIES], ORDERS)[0])


def excess(mechanism: SparseLNMax) -> float:
    """Return the largest ratio of an exact cost to the stated one, over all neighbours, of Rényi and of pure DP."""
    moved = changes(mechanism)
    pure = named(mechanism, votes_of(ONE, *OTHERS))["basic", "none"].epsilon
    renyi_ratio = (divergences(mechanism.gamma, moved) / stated_curve(mechanism)).max()
    return max(float(renyi_ratio), float(moved.sum(axis=1).max()) * mechanism.gamma / SMALL / pure)


def named(mechanism: SparseLNMax, votes: Votes, delta: float = 1e-5, **how: bool) -> dict[tuple[str, str], Bound]:
    bounds = mechanism.bounds(votes, [QUERIES], delta, **how)
    return {(each.accountant, str(each.conversion)): each for each in bounds}


@pytest.mark.usefixtures("few_units")
@pytest.mark.parametrize(("k", "least"), [(1, 0.999), (2, 0.79), (4, 0.999)])  # k = 2: √2 is no number of units
@pytest.mark.parametrize("gamma", [0.05, 0.5, 3.0])
def test_all_neighbours_cost_at_most_what_is_stated_and_one_nearly_as_much(k: int, least: float, gamma: float) -> None:
    assert least < excess(SparseLNMax(k, gamma)) <= 1 + 1e-9


@pytest.mark.usefixtures("few_units")
@pytest.mark.parametrize("gamma", [0.05, 0.5])
def test_an_added_teacher_costs_half_as_far_and_another_label_less_than_another_record(gamma: float) -> None:
    mechanism = SparseLNMax(1, gamma)
    found = tables(mechanism)
    added = divergences(gamma, np.abs(found - found[0]))
    curves = [stated_curve(mechanism, labels_only=True), stated_curve(mechanism, added=True)]
    assert 0.98 < (added / curves[1]).max() <= 1 + 1e-9
    records = [place for place, teacher in enumerate(TEACHERS) if len(teacher) == 1]
    labelled = found[records].reshape(-1, CLASSES, CELLS)
    labels = divergences(gamma, np.abs(labelled[:, 0] - labelled[:, 1]))
    assert 0.88 < (labels / curves[0]).max() <= 1 + 1e-9
    assert (curves[0] < stated_curve(mechanism)).all()
    bound = named(mechanism, replace(votes_of(ONE), labels_only=True))["basic", "none"]
    assert bound.adjacency == Adjacency.REPLACE_LABEL
    assert bound.epsilon == pytest.approx(gamma * (2 * CELLS) ** 0.5)


@pytest.mark.usefixtures("few_units")
@pytest.mark.parametrize("delta", [0.1, 1e-3])
def test_every_stated_epsilon_holds_for_the_farthest_neighbours(delta: float) -> None:
    mechanism = SparseLNMax(1, 4.0)
    moved, noise = changes(mechanism), law(4.0)
    bounds = mechanism.bounds(votes_of(ONE, *OTHERS), [QUERIES], delta)
    assert {bound.accountant for bound in bounds} == {"basic", "rdp"}
    check_farthest(moved, moved.sum(axis=1), noise[noise > 1e-11], bounds)


@pytest.mark.usefixtures("few_units")
@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [
        (WeightedVotes, "limited", lambda votes, most: votes),
        (WeightedVotes, "limited", lambda votes, most: replace(votes, weights=np.clip(votes.weights, -SMALL, SMALL))),
        (sparse_argmax, "weighted_distance", lambda k, rounds, labels: weighted_distance(k, rounds, labels=True)),
        (sparse_argmax, "weighted_distance", lambda k, rounds, labels: k),
        (SparseLNMax, "weighted_worst_case", lambda self, votes, squared: WORST_CASE(self, votes, squared // CLASSES)),
    ],
    ids=["not clipped", "each weight clipped", "sensitivity √2 too small", "sensitivity of added votes", "one label"],
)
def test_planted_faults_show(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, fault: Callable[..., Any]) -> None:
    monkeypatch.setattr(where, name, fault)
    assert excess(SparseLNMax(1, 0.5)) > 1.2


WORST_CASE = SparseLNMax.weighted_worst_case


def test_epsilon_of_a_release_is_that_of_experiments_and_adds_up_over_rounds() -> None:
    mechanism, votes = SparseLNMax(1, 0.02), votes_of(ONE, ())
    bounds, released = named(mechanism, votes), named(mechanism, votes, discrete=True)
    assert {key: each.epsilon for key, each in released.items()} == {key: each.epsilon for key, each in bounds.items()}
    assert bounds["basic", "none"].epsilon == pytest.approx(0.02 * 2 * CELLS**0.5)
    assert bounds["basic", "none"].add_or_remove == pytest.approx(0.02 * CELLS**0.5)
    orders = 1 + np.geomspace(1e-2, 1e8, 100_001)
    costs = 2 * 0.02**2 * orders + np.log(1e5) / (orders - 1)
    assert bounds["rdp", "classic"].epsilon == pytest.approx(min(costs.min(), 0.04 * CELLS**0.5), rel=0.01)
    twice = named(mechanism, replace(votes, rounds=(1, 1)))["basic", "none"].epsilon
    assert twice >= 2 * 0.02 * 2 * CLASSES**0.5  # two tables of one query each


@pytest.mark.parametrize("source", [generator(0, "s"), Entropy()], ids=["seeded", "release"])
def test_noise_of_each_cell_is_independent_and_has_the_stated_variance(source: Source) -> None:
    """2,000 releases of 4 cells: within 6 standard errors, the kurtosis of Laplace noise included."""
    mechanism, votes, runs = SparseLNMax(1, 0.5), votes_of((((2 * UNIT, -2 * UNIT), 1),)), 2000
    released = np.stack([mechanism.released(votes, source)["noisy_counts"].ravel() for _ in range(runs)])
    residuals = released - np.array([0, 0.5**0.5, 0, -(0.5**0.5)])
    assert np.abs(residuals.mean(axis=0)).max() < 6 * 8**0.5 / runs**0.5
    covariances = residuals.T @ residuals / runs
    assert np.abs(covariances - 8 * np.eye(CELLS)).max() < 6 * 8 * (5 / runs) ** 0.5


class HalfDistance(SparseLNMax):
    def weighted_worst_case(self, votes: Votes, squared_distance: int) -> list[Accountant]:
        return super().weighted_worst_case(votes, squared_distance // 4)


@pytest.mark.parametrize(("kind", "violated"), [(SparseLNMax, False), (HalfDistance, True)])
def test_the_exact_audit_comes_near_epsilon_and_shows_half_the_distance(
    kind: type[SparseLNMax], violated: bool
) -> None:
    streams = partial(seeds.generator, 0, "tables")
    setting = AuditSetting("sparse-lnmax", kind(1, 0.2), 4, 3, 1e-5, 1000, 0.99, streams)
    audit = TableAudit(**vars(setting)).with_weights()
    stated = min(each.epsilon for each in audit.mechanism.bounds(audit.vote_pairs(9)[0].padded(9), [9], 1e-5))
    audited = max(audit.exact(pair) for pair in audit.vote_pairs(9))
    assert (audited > stated) == violated
    assert audited > 0.6 * stated


class LessGaussian(SparseGNMax):
    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Gaussian:
        return Gaussian(self.sigma / 2)


class LessLaplace(SparseLNMax):
    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Laplace:
        return Laplace(0.5 / self.gamma)


@pytest.mark.parametrize("mechanism", [LessGaussian(1, 20.0), LessLaplace(1, 0.1)])
@pytest.mark.parametrize("votes", [votes_of(ONE, ()), Votes.of(np.zeros((2, QUERIES), int), CLASSES, abstentions=True)])
def test_classes_of_other_packages_inherit_no_bound_for_other_noise(mechanism: SparseArgmax, votes: Votes) -> None:
    with pytest.raises(PatebenchError, match="override the method 'accountants'"):
        mechanism.bounds(votes, [QUERIES], 1e-5)


def test_huge_gamma_is_a_huge_epsilon() -> None:
    bounds = named(SparseLNMax(1, 1e200), votes_of(ONE, ()))
    assert all(each.epsilon >= 1e200 for each in bounds.values())
