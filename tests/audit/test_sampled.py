"""The sampled audit: its arithmetic against closed forms, and its results against what is true."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from patebench.audit.sampled import Rates, SampledAudit, clopper_pearson
from patebench.audit.search import Search
from patebench.core import seeds
from patebench.mechanisms.base import make_mechanism

DELTA = 1e-5


def streams(name):
    return seeds.generator(0, "test", name)


def audit(mechanism, runs, queries=(1,), teachers=50, classes=10, confidence=0.95):
    search = Search(mechanism, teachers, classes, DELTA)
    pairs = [search.worst(T)[0] for T in queries]
    pairs += [search.measurable(runs // 2, confidence)[0], *search.most_distinguishable()]
    return SampledAudit(mechanism, runs, confidence, DELTA, streams)(pairs, queries), search


def test_the_worked_example():
    """1000 + 1000 runs, 500 true and 10 false positives, α/2 = .025 each, δ = 1e-5."""
    rates = Rates(500, 10, 1000, 0.95)
    assert rates.epsilon(1e-5) == pytest.approx(3.24200, abs=5e-6)
    assert rates.mu() == pytest.approx(2.01099, abs=5e-6)


@pytest.mark.parametrize(("successes", "runs"), [(0, 10), (10, 10), (3, 40), (499, 1000)])
@pytest.mark.parametrize("alpha", [0.025, 1e-6])
def test_clopper_pearson(successes, runs, alpha):
    """As quantiles of beta distributions, and as the tails of binomial ones that define them."""
    low, high = clopper_pearson(successes, runs, alpha)
    if successes:
        assert low == pytest.approx(beta.ppf(alpha, successes, runs - successes + 1), rel=1e-9)
        assert binom.sf(successes - 1, runs, low) == pytest.approx(alpha, rel=1e-6)
    else:
        assert low == 0
    if successes < runs:
        assert high == pytest.approx(beta.ppf(1 - alpha, successes + 1, runs - successes), rel=1e-9)
        assert binom.cdf(successes, runs, high) == pytest.approx(alpha, rel=1e-6)
    else:
        assert high == 1


def test_bounds_fail_as_rarely_as_stated():
    """Exactly, by summing over what a fair experiment shows: ε of a mechanism with P = .3, Q = .2 is ln 1.5."""
    runs, k = 200, np.arange(201)
    p, q = binom.pmf(k, runs, 0.3), binom.pmf(k, runs, 0.2)
    too_large = [
        p[i] * q[j] for i in k[20:120] for j in k[5:100] if Rates(i, j, runs, 0.9).epsilon(0.0 + 1e-300) > math.log(1.5)
    ]
    assert 0 < sum(too_large) < 0.1


def test_a_million_runs_come_close_to_lnmax():
    found, search = audit(make_mechanism("lnmax", {"gamma": 0.5}), 1_000_000, teachers=250)
    truth = search.worst(1)[0].epsilon(1, DELTA)
    assert truth / 2 < found[1].epsilon < truth


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("lnmax", {"gamma": 0.3}),
        ("gnmax", {"sigma": 3.0}),
        ("confident-gnmax", {"threshold": 30.0, "sigma1": 5.0, "sigma2": 4.0}),
    ],
)
def test_below_the_truth_and_not_far(name, parameters):
    found, search = audit(make_mechanism(name, parameters), 100_000, (1, 100))
    for queries, least in ((1, 0.2), (100, 0.6)):
        truth = search.worst(queries)[0].epsilon(queries, DELTA)
        assert least * truth < found[queries].epsilon < truth
        assert found[queries].fresh


def test_certain_outcomes_are_seen():
    found, _ = audit(make_mechanism("gnmax", {"sigma": 0.0}), 10_000)
    assert found[1].rates.positives == 5000
    assert found[1].rates.false_positives == 0
    assert found[1].epsilon > 6


def test_the_same_streams_give_the_same_audit_and_both_sides_have_their_own():
    names = []

    def noted(name):
        names.append(name)
        return streams(name)

    mechanism = make_mechanism("gnmax", {"sigma": 5.0})
    pairs = Search(mechanism, 20, 3, DELTA).worst(1)[:1]
    first, again = (SampledAudit(mechanism, 2000, 0.95, DELTA, noted)(pairs, [1])[1] for _ in range(2))
    assert first.rates == again.rates
    once = names[: len(names) // 2]
    assert len(set(once)) == len(once), "no stream is used twice"
    assert {name.replace("/here", "/there") for name in once} == set(once) - {n for n in once if n.endswith("/here")}
