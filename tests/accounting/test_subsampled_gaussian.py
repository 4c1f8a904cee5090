"""The Poisson-subsampled Gaussian mechanism: against closed forms, numerical integrals and Opacus."""

import math

import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from patebench.accounting.independent import gaussian_dp
from patebench.accounting.subsampled_gaussian import (
    LEAST_DELTA,
    SubsampledGaussian,
    bound_together,
    epsilon_together,
    least_noise,
)
from patebench.core.bound import Adjacency, Kind
from patebench.core.errors import PatebenchError

DELTA = 1e-5


def _tails(x: float, noise: float, rate: float) -> tuple[float, float]:
    """Return Pr[Z > x] without the record, and with the record, which is sampled with probability `rate`."""
    without = norm.sf(x / noise)
    return without, (1 - rate) * without + rate * norm.sf((x - 1) / noise)


def _where(loss: float, noise: float, rate: float) -> float:
    """Return the x at which ln(with/without) is `loss`; the ratio grows with x, from ln(1 − rate)."""
    grown = (math.exp(loss) - (1 - rate)) / rate
    return noise**2 * math.log(grown) + 0.5 if grown > 0 else -math.inf


def _one_step_delta(noise: float, rate: float, epsilon: float) -> float:
    """Return δ(ε) of one step, computed from tails: the larger one of both directions."""
    without, with_it = _tails(_where(epsilon, noise, rate), noise, rate)
    removed = with_it - math.exp(epsilon) * without
    if -epsilon <= math.log1p(-rate):
        return removed
    without, with_it = (1 - tail for tail in _tails(_where(-epsilon, noise, rate), noise, rate))
    return max(removed, without - math.exp(epsilon) * with_it)


@pytest.mark.parametrize(("noise", "rate"), [(0.8, 0.1), (1.5, 0.5), (0.6, 0.01), (3.0, 0.9)])
def test_one_step_is_that_of_its_tails(noise: float, rate: float) -> None:
    found = SubsampledGaussian(noise, rate, 1).epsilon(DELTA)
    exact = brentq(lambda epsilon: _one_step_delta(noise, rate, epsilon) - DELTA, 1e-3, 20, xtol=1e-9)
    assert exact <= found <= exact * 1.002 + 2e-3


@pytest.mark.parametrize("noise", [0.29, 0.2])
def test_a_tiny_noise_is_accounted_without_sampling(noise: float) -> None:
    bound = SubsampledGaussian(noise, 0.1, 1).bound(DELTA)
    assert (bound.epsilon, bound.accountant) == (gaussian_dp(1 / noise, DELTA), "gdp")
    assert _one_step_delta(noise, 0.1, bound.epsilon) <= DELTA, "an upper bound also with sampling"


@pytest.mark.parametrize("steps", [1, 100, 5000])
@pytest.mark.parametrize("delta", [DELTA, LEAST_DELTA])
def test_a_rate_of_one_is_gaussian_dp_and_rates_near_it_are_near_it(steps: int, delta: float) -> None:
    noise = 2.0 * math.sqrt(steps)
    whole = SubsampledGaussian(noise, 1.0, steps).epsilon(delta)
    assert whole == gaussian_dp(0.5, delta)
    nearly = SubsampledGaussian(noise, 1 - 1e-9, steps).epsilon(delta)
    assert whole <= nearly <= whole * 1.01, "composed by the library, of which this is an oracle"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Optimal order")
@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.01, 300), (4.0, 0.1, 200), (20.0, 0.25, 200)])
def test_opacus_finds_the_same(noise: float, rate: float, steps: int) -> None:
    """Its accountant (Gopi, Lee, Wutschitz 2021) says how wrong it may be."""
    from opacus.accountants import PRVAccountant, RDPAccountant

    prv, rdp = PRVAccountant(), RDPAccountant()
    for accountant in (prv, rdp):
        accountant.history = [(noise, rate, steps)]
    found = SubsampledGaussian(noise, rate, steps).epsilon(DELTA)
    error = 0.01
    upper = prv.get_epsilon(DELTA, eps_error=error)
    assert upper - 2 * error - 1e-3 * upper <= found <= upper + 0.002 * upper
    orders = [1 + x / 10 for x in range(1, 100)] + list(range(11, 400))
    assert found < rdp.get_epsilon(DELTA, alphas=orders), "Rényi accountants are never tighter"


@pytest.mark.parametrize(
    ("first", "p", "second", "q"), [(0.9, 0.2, 2.0, 0.5), (0.9, 0.2, 0.9, 0.2), (2.0, 0.5, 2.0, 0.5)]
)
def test_two_steps_are_those_of_the_integral(first: float, p: float, second: float, q: float) -> None:
    """Over the first, with the tails of the second; in the direction in which a record is removed."""

    def delta(epsilon: float) -> float:
        def density(x: float) -> float:
            loss = math.log1p(p * math.expm1((2 * x - 1) / (2 * first**2)))
            without, with_it = _tails(_where(epsilon - loss, second, q), second, q)
            return float(norm.pdf(x, 0, first) * (math.exp(loss) * with_it - math.exp(epsilon) * without))

        return quad(density, -9 * first, 1 + 9 * first, epsabs=1e-12, limit=400)[0]

    kinds = [SubsampledGaussian(first, p, 1), SubsampledGaussian(second, q, 1)]
    found = epsilon_together(kinds, 1e-3)
    assert delta(found + 1e-9) <= 1e-3 < delta(found - 0.005)
    assert epsilon_together(kinds[::-1], 1e-3) == pytest.approx(found, abs=1e-6)
    if kinds[0] == kinds[1]:
        assert SubsampledGaussian(first, p, 2).epsilon(1e-3) == pytest.approx(found, abs=1e-6)


def test_kinds_together() -> None:
    some, none = SubsampledGaussian(2.0, 0.1, 30), SubsampledGaussian(0.0, 0.1, 0)
    assert epsilon_together([some, none], DELTA) == some.epsilon(DELTA)
    assert epsilon_together([], DELTA) == none.epsilon(DELTA) == 0
    assert SubsampledGaussian(0.0, 0.1, 1).epsilon(DELTA) == math.inf
    assert epsilon_together([some, SubsampledGaussian(0.0, 0.1, 1)], DELTA) == math.inf
    half = SubsampledGaussian(2.0, 0.1, 15)
    assert epsilon_together([half, half], DELTA) == pytest.approx(some.epsilon(DELTA), rel=1e-3)
    whole = [SubsampledGaussian(3.0, 1.0, 9), SubsampledGaussian(4.0, 1.0, 16)]
    assert epsilon_together(whole, DELTA) == gaussian_dp(math.sqrt(2), DELTA)
    bound = bound_together([some, half], DELTA)
    assert (bound.queries, bound.accountant, bound.kind) == (45, "pld", Kind.WORST_CASE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "rate", "steps"), [(0.5, 0.05, 300), (1.0, 1.0, 100), (2.0, 0.02, 1000), (8.0, 0.3, 40)]
)
def test_the_least_noise_keeps_the_target_and_hardly_less_would(epsilon: float, rate: float, steps: int) -> None:
    noise = least_noise(epsilon, DELTA, rate, steps)
    assert SubsampledGaussian(noise, rate, steps).epsilon(DELTA) <= epsilon
    assert SubsampledGaussian(noise / 1.001, rate, steps).epsilon(DELTA) > epsilon


def test_the_record_says_whom_it_protects() -> None:
    bound = SubsampledGaussian(2.0, 0.1, 50).bound(DELTA)
    assert (bound.adjacency, bound.kind) == (Adjacency.ADD_OR_REMOVE_RECORD, Kind.WORST_CASE)
    assert (bound.queries, bound.publishable, bound.accountant) == (50, False, "pld")
    assert SubsampledGaussian(2.0, 1.0, 50).bound(DELTA).accountant == "gdp"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: SubsampledGaussian(-1.0, 0.1, 5), "noise = -1"),
        (lambda: SubsampledGaussian(math.nan, 0.1, 5), "noise = nan"),
        (lambda: SubsampledGaussian(1.0, 0.0, 5), "rate = 0"),
        (lambda: SubsampledGaussian(1.0, 1.5, 5), "rate = 1.5"),
        (lambda: SubsampledGaussian(1.0, 0.1, -1), "steps = -1"),
        (lambda: SubsampledGaussian(1.0, 0.1, 5).epsilon(1e-12), "too small for the accountant"),
        (lambda: least_noise(0.0, DELTA, 0.1, 5), "the target ε = 0.0 is out of range; give an ε above 0"),
        (lambda: least_noise(1e-9, DELTA, 1.0, 10**6), "cost more than ε"),
    ],
)
def test_what_has_no_bound_is_refused(wrong, words: str) -> None:
    with pytest.raises(PatebenchError, match=words):
        wrong()
