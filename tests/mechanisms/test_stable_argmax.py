"""The stable argmax: its distance by brute force, its test, and its bounds against the release's own distribution."""

import math
from itertools import product

import numpy as np
import pytest
from tests.accounting.oracles import histograms, hockey_stick, neighbours

from patebench.accounting import independent
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms import stable_argmax
from patebench.mechanisms.stable_argmax import StableArgmax

ENSEMBLES = [(1, 2), (2, 2), (3, 2), (6, 2), (7, 2), (4, 3), (5, 3), (6, 3), (5, 4)]


@pytest.mark.parametrize(("teachers", "classes"), ENSEMBLES)
def test_so_many_teachers_must_change_before_the_plurality_can(teachers, classes):
    table = histograms(teachers, classes)
    winner, found = np.argmax(table, axis=1), stable_argmax.distance(table)
    changed = np.maximum(table[:, None] - table[None], 0).sum(axis=2)
    truth = np.where(winner[:, None] != winner[None], changed, teachers + 9).min(axis=1)
    assert np.all(found <= truth)
    assert np.all(truth <= np.maximum(found + 1, 1))
    tied = (table == table.max(axis=1, keepdims=True)).sum(axis=1) > 1
    np.testing.assert_array_equal(found == 0, tied)
    adjacent = changed == 1
    assert np.abs(found[:, None] - found[None])[adjacent].max(initial=0) <= 1
    differs = adjacent & (winner[:, None] != winner[None])
    assert np.all(np.broadcast_to(found[:, None], differs.shape)[differs] <= 1)


def test_the_threshold_is_passed_with_the_failure_probability_where_one_teacher_decides():
    mechanism = StableArgmax(0.3, 1e-4)
    counts = np.array([[5, 5, 0], [5, 4, 1], [6, 4, 0], [6, 3, 1], [7, 3, 0]])
    answered = -np.expm1(mechanism.log_outcome_probabilities(Votes.from_counts(counts))[:, -1])
    np.testing.assert_array_equal(stable_argmax.distance(counts), [0, 1, 1, 2, 2])
    rise = math.exp(0.3)
    np.testing.assert_allclose(answered, 1e-4 * np.array([1 / rise, 1, 1, rise, rise]), rtol=1e-12)


def releases(parts):
    """Return Pr of every list of answers to independent queries."""
    return np.prod(np.meshgrid(*parts), axis=0).ravel()


def worst_delta(mechanism, rows, epsilon):
    """Return the largest δ(ε) in either direction, over all changes of one teacher in these queries."""
    own = [np.exp(mechanism.log_outcome_probabilities(Votes.from_counts(np.array([row])))[0]) for row in rows]
    others = [
        np.exp(mechanism.log_outcome_probabilities(Votes.from_counts(np.vstack([row, neighbours(list(row))]))))
        for row in rows
    ]
    p, q = releases(own), np.stack([releases(parts) for parts in product(*others)])
    return max(hockey_stick(p, q, epsilon).max(), hockey_stick(q, p, epsilon).max())


def bounds(mechanism, rows, delta):
    votes = Votes.from_counts(np.array(rows))
    return {
        (bound.accountant, bound.kind, bound.conversion): bound.epsilon
        for bound in mechanism.bounds(votes, [len(rows)], delta)
    }


ROWS = [[5, 0, 0], [4, 1, 0], [3, 2, 0], [3, 1, 1], [2, 2, 1], [2, 1, 2], [0, 3, 2]]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [StableArgmax(0.5, 0.01), StableArgmax(2.0, 0.003)], ids=str)
def test_every_bound_holds_for_what_is_released(mechanism):
    for queries, delta in ((1, 0.02), (2, 0.03)):
        for rows in product(ROWS, repeat=queries):
            for (name, kind, _), epsilon in bounds(mechanism, rows, delta).items():
                if math.isfinite(epsilon):
                    assert worst_delta(mechanism, rows, epsilon) <= delta * (1 + 1e-9), (name, kind, rows)


def test_the_failure_can_not_be_left_out():
    """If one teacher decides, a release has δ ≥ failure at any ε in each of its queries."""
    mechanism = StableArgmax(0.5, 0.01)
    for queries in (1, 2):
        rows = [[3, 2, 0]] * queries
        total = worst_delta(mechanism, rows, 30.0)
        assert total == pytest.approx(1 - 0.99**queries, rel=1e-9)
        assert bounds(mechanism, rows, total * 0.99)["exact-split", Kind.DATA_DEPENDENT, "tight"] == math.inf


def test_bounds_fail_closed_and_what_these_votes_can_not_fail_costs_nothing():
    stable, close = [[9, 1, 0]] * 30, [[5, 4, 1]] * 3 + [[9, 1, 0]] * 27
    mechanism = StableArgmax(1.0, 1e-6)
    key = "exact-split", Kind.DATA_DEPENDENT, "tight"
    for name in ("basic", "pld"):
        assert bounds(mechanism, stable, 29e-6)[name, Kind.WORST_CASE, "none"] == math.inf
        assert math.isfinite(bounds(mechanism, stable, 31e-6)[name, Kind.WORST_CASE, "none"])
    assert math.isfinite(bounds(mechanism, stable, 29e-6)[key])
    assert math.isfinite(bounds(mechanism, close, 29e-6)[key])
    assert bounds(mechanism, close, 29e-6)["exact", Kind.DATA_DEPENDENT, "tight"] == math.inf
    assert bounds(mechanism, close, 2.9e-6)[key] == math.inf
    assert bounds(mechanism, stable, 1e-3)["pld", Kind.WORST_CASE, "none"] == pytest.approx(
        independent.pure_composition(1.0, 30, 1e-3 - 30e-6), rel=1e-12
    )
