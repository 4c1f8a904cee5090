"""Mechanisms on all small ensembles: exact divergences are the largest of all neighbours, and no theorem is below."""

import numpy as np
import pytest
from tests.accounting.oracles import ensembles, neighbours, renyi

from patebench.accounting import independent, rdp
from patebench.accounting.accountant import RenyiAccountant
from patebench.accounting.exact import ExactDivergence
from patebench.accounting.logspace import logsumexp
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.exponential import Exponential, PermuteAndFlip
from patebench.mechanisms.immutable import ImmutableGNMax, ImmutableLNMax
from patebench.mechanisms.local_mechanisms import RandomisedResponse, TruncatedGeometric
from patebench.mechanisms.noisy_argmax import GNMax, LNMax

ORDERS = np.array([1.05, 2.0, 4.0, 9.0, 20.0])
SMALL = [(1, 2), (7, 2), (30, 2), (5, 3), (12, 3), (4, 4), (6, 5)]
LARGE = [[60, 0, 0], [250, 0, 0, 0, 0, 0], [241, 5, 1, 1, 1, 1], [200, 30, 20, 0, 0, 0], [130, 120, 0, 0, 0, 0]]
ALL = [counts for shape in SMALL for counts in ensembles(*shape)]
MECHANISMS = [
    *(LNMax(0.2), LNMax(1.0), GNMax(1.5), GNMax(8.0)),
    *(ConfidentGNMax(3, 1, 2), ConfidentGNMax(2, 0.7, 0.8)),
    *(Exponential(0.2), Exponential(3.0), PermuteAndFlip(0.3), PermuteAndFlip(3.0)),
    *(ImmutableLNMax(0, 0.3, 0), ImmutableLNMax(6.5, 0.5, 0), ImmutableLNMax(2, 0.3, 2)),
    *(ImmutableGNMax(0, 4, 0), ImmutableGNMax(9, 5, 0), ImmutableGNMax(3, 4, 2)),
]


def log_outcomes(mechanism, *rows):
    return mechanism.log_outcome_probabilities(Votes.from_counts(np.array(rows)))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_every_bound_of_every_ensemble(mechanism):
    """Theorems for given votes are one-sided, as their papers state them."""
    for counts in ALL + LARGE:
        votes, own = Votes.from_counts(np.array([counts])), log_outcomes(mechanism, counts)
        others = log_outcomes(mechanism, *neighbours(counts))
        forward, back = renyi(own, others, ORDERS).max(axis=0), renyi(others, own, ORDERS).max(axis=0)
        exact = ExactDivergence(votes, mechanism.neighbours).directions([1], ORDERS)[0, 0]
        np.testing.assert_allclose(exact, [forward, back], rtol=1e-8, atol=1e-13)
        for accountant in mechanism.accountants(votes):
            if isinstance(accountant, RenyiAccountant) and accountant.kind is not Kind.CLAIMED:
                (stated,) = accountant.totals([1], ORDERS)
                truth = exact.max(axis=0) if accountant.kind is Kind.WORST_CASE else exact[0]
                assert np.all(truth <= stated * (1 + 1e-9) + 1e-299), accountant.source


@pytest.mark.parametrize("mechanism", [LNMax(0.2), LNMax(1.0), GNMax(1.5), GNMax(3.0), GNMax(8.0)], ids=str)
def test_q_is_above_the_probability_of_all_but_the_plurality_and_lowers_the_cost(mechanism):
    votes = Votes.from_counts(np.array([[60, 0, 0]]))
    given, any_votes = (
        [x.totals([1], ORDERS)[0] for x in mechanism.accountants(votes) if x.name == "rdp" and x.kind is kind]
        for kind in (Kind.DATA_DEPENDENT, Kind.WORST_CASE)
    )
    assert given[0][1] < any_votes[0][1] / 2
    for counts in ALL:
        table = np.array([counts])
        laplace = isinstance(mechanism, LNMax)
        log_q = rdp.laplace_log_q(table, mechanism.gamma) if laplace else rdp.gaussian_log_q(table, mechanism.sigma)
        assert logsumexp(log_outcomes(mechanism, counts)[0, 1:]) <= log_q[0] + 1e-11


@pytest.mark.parametrize(
    ("mechanism", "epsilon"),
    [
        (LNMax(0.7), 1.4),
        *((kind(epsilon), epsilon) for kind in (Exponential, PermuteAndFlip) for epsilon in (0.2, 1.0, 3.0)),
    ],
    ids=str,
)
def test_the_largest_privacy_loss_is_epsilon_and_its_range_is_bounded_where_that_is_used(mechanism, epsilon):
    largest, ranges, cost = 0.0, [], np.zeros(len(ORDERS))
    for counts in ALL:
        own, others = (log_outcomes(mechanism, *rows)[:, :-1] for rows in ([counts], neighbours(counts)))
        largest = max(largest, np.abs(own - others).max())
        ranges.extend(np.ptp(own - others, axis=1))
        cost = np.maximum(cost, renyi(own, others, ORDERS).max(axis=0))
    assert 0.8 * epsilon < largest <= epsilon * (1 + 1e-9)
    if isinstance(mechanism, Exponential):
        np.testing.assert_allclose(ranges, epsilon, rtol=1e-9)
    if isinstance(mechanism, PermuteAndFlip):
        assert max(ranges) > 1.3 * epsilon
        curve = independent.bounded_range_rdp(epsilon, ORDERS)
        assert np.all(cost > curve), "the theorems of bounded range would be wrong here"


LOCAL = [kind(np.inf, unbiased, 1, 1) for kind in (RandomisedResponse, TruncatedGeometric) for unbiased in (0, 1)]


@pytest.mark.parametrize(
    "mechanism", [LNMax(np.inf), GNMax(0.0), ConfidentGNMax(0, 0, 0), ConfidentGNMax(0, 1, 0), *LOCAL], ids=str
)
def test_without_noise_the_plurality_is_released(mechanism):
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, size=(9, 400)), classes=3)
    np.testing.assert_array_equal(mechanism.release(votes, np.random.default_rng(1)), votes.plurality)
    assert_no_privacy(mechanism, votes)


@pytest.mark.parametrize("mechanism", [ConfidentGNMax(9, 0, 1), ConfidentGNMax(9, 1, 0)], ids=str)
def test_a_test_or_an_answer_without_noise_is_not_private(mechanism):
    assert_no_privacy(mechanism, Votes.of(np.zeros((20, 400), dtype=int), 3))


def assert_no_privacy(mechanism, votes):
    """A theorem for given votes may know that no neighbour fails the test; exact accountants give no bound."""
    stated = mechanism.bounds(votes, [1, 400], 1e-5)
    bounds = [bound for bound in stated if bound.kind is Kind.WORST_CASE or bound.accountant.startswith("exact")]
    least = {"basic"} if mechanism in LOCAL else {"exact", "exact-per-teacher"}
    assert {bound.accountant for bound in bounds} >= least
    assert all(np.isposinf(bound.epsilon) for bound in bounds)
