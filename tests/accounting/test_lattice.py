"""Composition on a lattice against sums over all outcomes, to 50 digits, and against dp-accounting."""

from collections import Counter
from itertools import product
from math import inf

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from patebench.accounting import independent

STEPS = {
    "binary": [0.62, 0.38],
    "response": [0.4, 0.35, 0.25],
    "four": [0.5, 0.2, 0.1, 0.2],
}


def top_of(step):
    """Return the largest loss for which these steps are possible: the neighbour's probabilities sum to 1."""
    places = np.linspace(1, -1, len(step))
    return float(
        mp.findroot(lambda top: mp.fsum(p * mp.exp(-top * x) for p, x in zip(step, places, strict=True)) - 1, 1)
    )


def brute_delta(step, top, queries, epsilon):
    """Return δ(ε) as the sum of (p − e^ε q)⁺ over all sequences of `queries` outcomes."""
    with mp.workdps(50):
        losses = [top * (1 - mp.mpf(2 * i) / (len(step) - 1)) for i in range(len(step))]
        total = mp.mpf(0)
        for kinds, times in Counter(tuple(sorted(each)) for each in product(range(len(step)), repeat=queries)).items():
            p, loss = mp.fprod(mp.mpf(step[i]) for i in kinds), mp.fsum(losses[i] for i in kinds)
            total += times * p * max(mp.mpf(0), 1 - mp.exp(epsilon - loss))
        return total


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("queries", [1, 2, 7])
@pytest.mark.parametrize("delta", [0.2, 1e-2, 1e-5])
def test_composition_solves_delta_of_epsilon(name, queries, delta):
    step, top = STEPS[name], top_of(STEPS[name])
    found = independent.lattice_composition(np.array(step), top, queries, delta)
    if found == 0:
        assert brute_delta(step, top, queries, 0) <= delta
        return
    assert brute_delta(step, top, queries, found) <= delta
    assert brute_delta(step, top, queries, found * (1 - 1e-6)) > delta or found == queries * top


@pytest.mark.parametrize("epsilon", [0.01, 0.2, 2.0])
@pytest.mark.parametrize("queries", [10, 1000, 20_000])
def test_two_losses_are_pure_composition(epsilon, queries):
    p = 1 / (1 + np.exp(-epsilon))
    found = independent.lattice_composition(np.array([p, 1 - p]), epsilon, queries, 1e-5)
    assert found == pytest.approx(independent.pure_composition(epsilon, queries, 1e-5), rel=1e-4)
    assert found >= independent.pure_composition(epsilon, queries, 1e-5) * (1 - 1e-12)


def test_ten_losses_are_those_of_dp_accounting():
    step = np.exp(-0.05 * np.arange(10))
    top = top_of(list(step / step.sum()))
    step /= step.sum()
    log_p, grid = np.log(step), 1e-4
    log_q = log_p - np.linspace(top, -top, 10)
    losses = privacy_loss_distribution.from_two_probability_mass_functions(
        dict(enumerate(log_q)), dict(enumerate(log_p)), value_discretization_interval=grid
    )
    expected = losses.self_compose(500).get_epsilon_for_delta(1e-6)
    assert expected - 500 * grid <= independent.lattice_composition(step, top, 500, 1e-6) <= expected


def test_what_can_not_be_computed_is_the_sum_of_the_steps():
    step = np.array([0.6, 0.4])
    assert independent.lattice_composition(step, 0.4, 3, 1e-30) == pytest.approx(1.2)
    assert independent.lattice_composition(step, 0.4, 10**9, 1e-5) == pytest.approx(4e8)
    assert independent.lattice_composition(step, inf, 3, 1e-5) == inf
    assert independent.lattice_composition(step, 0.4, 0, 1e-5) == 0
