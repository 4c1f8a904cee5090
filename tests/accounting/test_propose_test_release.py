"""Propose-test-release: the recursion against mpmath, and k against its definition on all small data sets."""

import itertools

import mpmath as mp
import numpy as np
import pytest
from tests.accounting.oracles import histograms, moved

from patebench.accounting.propose_test_release import UNITS, Decision, steps
from patebench.accounting.votes import gaps

DECISIONS = [
    Decision(2.0, 0.01, 0.5, 1e-5),
    Decision(18.0, 0.26, 0.41, 1e-5),
    Decision(18.0, 0.26, 0.26, 1e-5),
    Decision(1.3, 2.0, 2.5, 1e-2),
    Decision(60.0, 0.05, 0.06, 1e-12),
]


def left(p, q, order, budget):
    """Compute the left side of (*) to forty digits from exact probabilities."""
    p, q, order, budget = mp.mpf(p), mp.mpf(q), mp.mpf(order), mp.mpf(budget)
    moment = (1 - p) ** order * (1 - q) ** (1 - order) + p**order * q ** (1 - order) * mp.exp((order - 1) * budget)
    return mp.log(moment) / (order - 1)


@pytest.mark.slow
@pytest.mark.parametrize("decision", DECISIONS, ids=str)
def test_each_step_is_as_large_as_both_inequalities_allow(decision):
    """Within what rounding may do: 10⁻¹¹ of the nearer end more would break one of them."""
    p = [decision.probability(k) for k in range(60)]
    assert decision.failure - 1 / UNITS < p[0] <= decision.failure
    with mp.workdps(60):
        for before, after in itertools.pairwise(p):
            total = mp.mpf(decision.total)
            assert before <= after < 1
            assert (after * UNITS).is_integer()
            for one, other in ((after, before), (before, after)):
                assert left(one, other, decision.order, decision.budget) <= total
            more = mp.mpf(after) + mp.mpf(1e-11) * min(after, 1 - after) + mp.mpf(2) / UNITS
            ways = (
                left(more, before, decision.order, decision.budget),
                left(before, more, decision.order, decision.budget),
            )
            assert more >= 1 or max(ways) > total


@pytest.mark.parametrize("budget", [0.05, 0.4, 1.0, 2.1, 5.9, 6.0])
def test_k_is_its_definition_and_neighbours_differ_by_one(budget):
    """All votes of six teachers on two queries of three classes, and all that one teacher can make of them."""
    cost = np.array([3.0, 1.5, 0.9, 0.3, 0.2, 0.04, 0.01])
    data = list(itertools.product(map(tuple, histograms(6, 3).tolist()), repeat=2))
    k = {pair: steps(gaps(np.array(pair)), cost, budget) for pair in data}

    def total(gap, lowered):
        return sum(cost[max(each - 2 * lowered, 0)] for each in gap)

    for pair in data:
        gap = [sorted(row)[-1] - sorted(row)[-2] for row in pair]
        least = next((j for j in range(10) if total(gap, j) > budget), None)
        assert k[pair] == least
        one, other = ([row, *moved(row)] for row in pair)
        for neighbour in itertools.product(one, other):
            there = k[neighbour]
            assert (least is None) == (there is None)
            assert least is None or abs(least - there) <= 1
    assert (budget >= 6) == (None in k.values())


def test_curves_of_given_votes_cover_all_that_a_neighbour_may_have():
    decision, orders = Decision(6.0, 0.5, 0.9, 1e-3), np.array([1.5, 6.0, 30.0])
    labels = np.array([[0.01, 0.1, 0.7]])
    for k in (0, 1, 7):
        got, near = decision.curve(k, labels, orders)[0], {max(k - 1, 0), k, k + 1}
        for order, spent, found in zip(orders, labels[0], got, strict=True):
            with mp.workdps(40):
                pairs = [(decision.probability(a), decision.probability(b)) for a, b in itertools.product(near, {k})]
                worst = max(float(left(*pair, order, spent)) for p, q in pairs for pair in ((p, q), (q, p)))
            assert worst <= found <= worst * (1 + 1e-9) + 1e-12
    np.testing.assert_array_equal(decision.curve(None, labels, orders), labels)
