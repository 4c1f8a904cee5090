"""Queries that are each ε-DP, against all outcomes of the worst such queries: randomised response, answer by answer."""

from itertools import product

import mpmath as mp
import pytest

from patebench.accounting.independent import pure_accountants
from patebench.core.bound import Conversion


def outcomes(epsilon: float, queries: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Return the probability of every sequence of truths and lies, on either of two neighbours."""
    truth = mp.exp(epsilon) / (1 + mp.exp(epsilon))

    def probability(told: tuple[bool, ...], right: mp.mpf) -> mp.mpf:
        return mp.fprod(right if each else 1 - right for each in told)

    every = product([True, False], repeat=queries)
    return [(probability(told, truth), probability(told, 1 - truth)) for told in every]


@pytest.mark.parametrize("queries", [1, 2, 6])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.0])
def test_bounds_are_those_of_the_worst_such_queries(epsilon: float, queries: int) -> None:
    delta, pairs = 1e-3, outcomes(epsilon, queries)
    pld, rdp = pure_accountants("a theorem", epsilon)
    (direct,) = pld.bounds([queries], delta)

    def failure(found: float) -> mp.mpf:
        return mp.fsum(max(p - mp.exp(found) * q, 0) for p, q in pairs)

    assert failure(direct.epsilon) <= delta * (1 + 1e-9)
    assert failure(direct.epsilon * (1 - 1e-3)) > delta, "dp-accounting adds less than a thousandth"
    (tight,) = (each for each in rdp.bounds([queries], delta) if each.conversion is Conversion.TIGHT)
    order = mp.mpf(tight.order)
    divergence = mp.log(mp.fsum(p**order * q ** (1 - order) for p, q in pairs)) / (order - 1)
    stated = divergence + mp.log(1 - 1 / order) - (mp.log(delta) + mp.log(order)) / (order - 1)
    assert tight.epsilon == pytest.approx(float(stated), rel=1e-9)
