"""One table with few votes of each teacher: the change that a row makes, ε against integrals, rounds, and releases."""

import itertools
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from tests.accounting.oracles import gaussian_delta, hockey_stick

from patebench.accounting import rdp
from patebench.accounting.sparse import most_votes, participations
from patebench.accounting.votes import Votes
from patebench.calculator.calculations import worst_case
from patebench.core.bound import Kind
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import check_adaptive
from patebench.mechanisms.noise_shares import DistributedSparseGNMax
from patebench.mechanisms.noisy_argmax import GNMax, LNMax
from patebench.mechanisms.sparse_argmax import SparseGNMax, SparseLNMax

DELTA = 1e-5
ROWS = np.array(list(itertools.product([-1, 0, 1], repeat=3)), np.int8)
OTHERS = np.array([[0, -1, 1], [-1, -1, 0]], np.int8)


def world(row, rounds=(), others=OTHERS):
    return replace(Votes.of(np.vstack([row, others]), 2, abstentions=True), rounds=rounds)


def named(bounds, name, kind=Kind.WORST_CASE):
    return min(bound.epsilon for bound in bounds if (bound.accountant, bound.kind) == (name, kind))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("rounds", [(), (1, 2)])
def test_every_change_of_a_row_keeps_the_distance_that_is_stated_and_one_reaches_it(k, rounds):
    mechanism, farthest = SparseGNMax(k, 1.0), 0
    tables = [mechanism.counts(world(row, rounds)) for row in ROWS]
    cells = 2 * participations(k, 3, rounds)
    for one, other in itertools.combinations(tables, 2):
        assert np.abs(one - other).sum() <= cells
        assert np.square(one - other).sum() <= cells
        farthest = max(farthest, np.square(one - other).sum())
    assert farthest == cells


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
def test_what_is_exact_for_these_votes_is_the_worst_of_all_neighbours(k):
    mechanism, every = SparseGNMax(k, 2.0), [np.vstack(rows) for rows in itertools.product(ROWS[::2], OTHERS, OTHERS)]
    for matrix in every[::7]:
        votes = Votes.of(matrix, 2, abstentions=True)
        here, farthest = mechanism.counts(votes), 0
        for teacher, row in itertools.product(range(3), ROWS):
            there = matrix.copy()
            there[teacher] = row
            moved = here - mechanism.counts(Votes.of(there, 2, abstentions=True))
            farthest = max(farthest, int(np.square(moved).sum()))
        stated = named(mechanism.bounds(votes, [3], DELTA), "exact-per-teacher", Kind.DATA_DEPENDENT)
        mu = np.sqrt(farthest) / 2.0
        assert gaussian_delta(mu, stated) <= DELTA < gaussian_delta(mu, stated * (1 - 1e-6))


@pytest.mark.parametrize(
    ("sigma", "epsilon"), [(10, 0.497), (20, 0.234), (50, 0.086), (100, 0.040), (200, 0.01848), (400, 0.00844)]
)
def test_the_table_costs_what_the_integral_says_however_many_queries_there_are(sigma, epsilon):
    for queries in (1, 50, 10**6):
        stated = named(worst_case(SparseGNMax(1, sigma), queries, DELTA), "gdp")
        assert stated == pytest.approx(epsilon, abs=6e-4)
        assert gaussian_delta(np.sqrt(2) / sigma, stated) <= DELTA < gaussian_delta(np.sqrt(2) / sigma, stated * 0.9999)


@pytest.mark.parametrize("gamma", [1e-4, 0.05, 0.7, 5.0])
@pytest.mark.parametrize("order", [1.01, 2.0, 9.0, 200.0])
def test_the_divergence_of_a_laplace_cell_is_the_integral(gamma, order):
    with mpmath.workdps(40):
        g, a = mpmath.mpf(gamma), mpmath.mpf(order)
        shares = a / (2 * a - 1) * mpmath.exp((a - 1) * g), (a - 1) / (2 * a - 1) * mpmath.exp(-a * g)
        piece = lambda x: g / 2 * mpmath.exp(-a * g * abs(x) + (a - 1) * g * abs(x - 1))  # noqa: E731
        inside = mpmath.quad(piece, [0, 1])
        whole = inside + mpmath.exp((a - 1) * g) / 2 + mpmath.exp(-a * g) / 2
        assert mpmath.almosteq(whole, sum(shares), rel_eps=1e-25)
        expected = float(mpmath.log(whole) / (a - 1))
    found = float(rdp.laplace_cell(gamma, [order])[0])
    assert expected <= found <= expected * (1 + 1e-9)
    assert found <= rdp.pure(gamma, [order])[0]


def test_without_noise_nothing_is_hidden():
    assert np.isposinf(rdp.laplace_cell(np.inf, [1.5, 30.0])).all()
    assert all(np.isposinf(b.epsilon) for b in SparseGNMax(1, 0.0).bounds(world(ROWS[-1]), [3], DELTA))


@pytest.mark.parametrize("mechanism", [SparseGNMax(1, 0.8), SparseGNMax(1, 2.5), SparseLNMax(1, 0.4)], ids=str)
@pytest.mark.parametrize("delta", [0.2, 1e-2, 1e-4])
def test_every_bound_of_a_release_holds_for_all_tables_of_discrete_noise(mechanism, delta):
    """Two cells that move, one up and one down: all pairs of values."""
    x = np.arange(-60, 61)
    scale = mechanism.noise_of().scale
    weights = -(x**2) / (2 * scale**2) if isinstance(mechanism, SparseGNMax) else -np.abs(x) / scale
    log_p = weights - np.logaddexp.reduce(weights)
    one, moved = np.exp(log_p[1:]), np.exp(log_p[:-1])
    here, there = np.outer(one, moved).ravel(), np.outer(moved, one).ravel()
    votes = world(ROWS[-1])
    for bound in mechanism.bounds(votes, [3], delta, discrete=True):
        assert bound.kind is Kind.WORST_CASE
        assert max(hockey_stick(here, there, bound.epsilon), hockey_stick(there, here, bound.epsilon)) <= delta


@pytest.mark.parametrize("mechanism", [SparseGNMax(1, 5.0), DistributedSparseGNMax(1, 5.0, 0)], ids=str)
def test_rounds_are_tables_of_their_own(mechanism):
    votes, rounds = world(ROWS[-1]), replace(world(ROWS[-1]), rounds=(1, 2))
    check_adaptive("sparse", mechanism)
    with pytest.raises(PatebenchError, match="which these votes do not state"):
        mechanism.bounds(votes, [3], DELTA, adaptive=True)
    both, fixed = (
        [b for b in mechanism.bounds(rounds, [1, 3], DELTA, adaptive=adaptive) if b.kind is Kind.WORST_CASE]
        for adaptive in (True, False)
    )
    assert both == fixed
    name = "gdp" if isinstance(mechanism, SparseGNMax) else "pld"
    one, two = (named([b for b in both if b.queries == T], name) for T in (1, 3))
    assert one == named(mechanism.bounds(votes, [3], DELTA), name)
    if isinstance(mechanism, SparseGNMax):
        assert gaussian_delta(2 / 5, two) <= DELTA < gaussian_delta(2 / 5, two * 0.9999)
    assert mechanism.counts(rounds).sum() == 2 + 3
    assert mechanism.counts(votes).sum() == 1 + 2


@pytest.mark.parametrize(("sparse", "plain"), [(SparseGNMax(4, 3.0), GNMax(3.0)), (SparseLNMax(4, 0.3), LNMax(0.3))])
def test_with_all_votes_it_is_the_plain_mechanism(sparse, plain):
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, (30, 4)), 3)
    shown = sparse.released(votes, np.random.default_rng(1))
    np.testing.assert_array_equal(shown["labels"], plain.release(votes, np.random.default_rng(1)))
    np.testing.assert_array_equal(shown["labels"], shown["noisy_counts"].argmax(1))
    np.testing.assert_allclose(
        sparse.log_outcome_probabilities(votes), plain.log_outcome_probabilities(votes), rtol=1e-12
    )
    name = "gdp" if isinstance(plain, GNMax) else "pld"
    mine, theirs = (named(made.bounds(votes, [4], DELTA), name) for made in (sparse, plain))
    assert mine <= theirs * (1 + 1e-12)


@pytest.mark.parametrize("mechanism", [SparseGNMax(1, 2.0), SparseLNMax(2, 0.5)], ids=str)
def test_a_release_shows_whole_numbers(mechanism):
    shown = mechanism.released(world(ROWS[-1]), Entropy())
    assert shown["noisy_counts"].dtype == np.int64
    assert shown["noisy_counts"].shape == (3, 2)
    np.testing.assert_array_equal(shown["labels"], shown["noisy_counts"].argmax(1))


def test_participations_and_most_votes_by_hand():
    assert [participations(2, T) for T in (1, 2, 3, 100)] == [1, 2, 2, 2]
    assert [participations(2, T, (1, 5, 3)) for T in (1, 2, 3, 5, 7, 9)] == [1, 2, 3, 3, 4, 5]
    assert most_votes(ROWS).tolist() == [1, 2, 3]
    assert most_votes(np.array([[-1, 0, -1], [-1, -1, 0]])).tolist() == [0, 1, 1]
