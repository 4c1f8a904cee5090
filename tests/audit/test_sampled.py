"""The sampled audit: its arithmetic against closed forms, and its results against the true ε."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.special import betaincinv, ndtr
from scipy.stats import beta, binom, norm

from patebench.audit import sampled
from patebench.audit.estimates import Rates, lower_limit, upper_limit, weight
from patebench.audit.sampled import SampledAudit, max_labels
from patebench.audit.worst_pairs import Search
from patebench.core import seeds
from patebench.mechanisms.base import make_mechanism

DELTA = 1e-5


def streams(name):
    return seeds.generator(0, "test", name)


def audit(mechanism, runs, queries=(1,), teachers=50, classes=10, confidence=0.95):
    search = Search(mechanism, teachers, classes, DELTA)
    pairs = [search.worst(T)[0] for T in queries]
    pairs += [search.measurable(max_labels(runs), confidence)[0], *search.most_distinguishable()]
    largest, _ = SampledAudit("planted", mechanism, teachers, classes, DELTA, runs, confidence, streams)(pairs, queries)
    return largest, search


def test_the_worked_example():
    """1000 + 1000 runs, 500 true and 10 false positives, α/2 = .025 each, δ = 1e-5; by themselves 3.24200, 2.01099."""
    low, high = beta.ppf(0.025, 500, 501), beta.ppf(0.975, 11, 990)
    assert math.log((low - 1e-5) / high) == pytest.approx(3.24200, abs=5e-6)
    rates = Rates(500, 10, 1000, 0.95, weight(0.5, 0.01))
    assert 3.242 < rates.epsilon(1e-5) < 3.3
    assert 1.9 < rates.mu() < 2.1


@pytest.mark.parametrize(("successes", "others"), [(700, 250), (90, 40), (4, 1), (1000, 0), (0, 3)])
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_the_line_of_equal_evidence(successes, others, share):
    """By hand: the least ratio among all P and Q that the evidence allows, on a fine grid of the evidence of P."""
    found = Rates(successes, others, 1000, 0.99, share).epsilon(1e-300)
    if share < 0.05 or share > 0.95:
        part = 0.05 if share < 0.05 else 0.95
        of_p, of_q = np.array([norm.isf(0.01 * part)]), np.array([norm.isf(0.01 * (1 - part))])
    else:
        of_p = np.linspace(-14, 4, 9001)
        of_q = (norm.isf(0.0098) - math.sqrt(share) * of_p) / math.sqrt(1 - share)
        kept = np.maximum(of_p, of_q) <= norm.isf(0.0001)
        of_p, of_q = of_p[kept], of_q[kept]
    low = betaincinv(successes, 1001 - successes, ndtr(-of_p)) if successes else np.zeros(len(of_p))
    high = betaincinv(others + 1, 1000 - others, ndtr(of_q))
    with np.errstate(divide="ignore"):
        truth = max(0.0, np.min(np.log(low / high)))
    assert found <= truth + 1e-9
    assert found >= truth - 0.05 * max(1.0, truth)


@pytest.mark.parametrize(("successes", "runs"), [(0, 10), (10, 10), (3, 40), (499, 1000)])
@pytest.mark.parametrize("alpha", [0.025, 1e-6])
def test_clopper_pearson_limits_have_the_binomial_tails_that_define_them(successes, runs, alpha):
    low, high = (limit(successes, runs, alpha) for limit in (lower_limit, upper_limit))
    assert low == 0 if not successes else binom.sf(successes - 1, runs, low) == pytest.approx(alpha, rel=1e-6)
    assert high == 1 if successes == runs else binom.cdf(successes, runs, high) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.slow
def test_bounds_fail_as_rarely_as_stated():
    """Exactly, by summing over what a fair experiment shows: ε of a mechanism with P = .3, Q = .2 is ln 1.5."""
    runs, k = 200, np.arange(201)
    p, q = binom.pmf(k, runs, 0.3), binom.pmf(k, runs, 0.2)
    too_large = [
        p[i] * q[j]
        for i in k[35:90]
        for j in k[18:65]
        if p[i] * q[j] > 1e-7 and Rates(i, j, runs, 0.9, weight(0.3, 0.2)).epsilon(1e-300) > math.log(1.5)
    ]
    assert 0.01 < sum(too_large) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "one"),
    [
        ("lnmax", {"gamma": 0.5}, 0.85),
        ("gnmax", {"sigma": 4.0}, 0.75),
        ("confident-gnmax", {"threshold": 30.0, "sigma1": 5.0, "sigma2": 4.0}, 0.7),
    ],
)
def test_many_runs_come_close_to_what_is_true(name, parameters, one):
    """Of ten queries within 5 %; of one, no event with these probabilities would show more than a few % nearer."""
    found, search = audit(make_mechanism(name, parameters), 100_000, (1, 10), confidence=0.95)
    for queries, least in ((1, one), (10, 0.95)):
        truth = max(each.epsilon(queries, DELTA) for each in (*search.worst(queries), found[queries].pair))
        assert least * truth < found[queries].epsilon <= truth


def test_the_same_streams_give_the_same_audit_and_both_sides_have_their_own():
    names = []

    def noted(name):
        names.append(name)
        return streams(name)

    mechanism = make_mechanism("gnmax", {"sigma": 5.0})
    pairs = Search(mechanism, 20, 3, DELTA).worst(1)[:1]
    first, again = (
        SampledAudit("planted", mechanism, 20, 3, DELTA, 2000, 0.95, noted)(pairs, [1])[0][1] for _ in range(2)
    )
    assert first.rates == again.rates
    once = names[: len(names) // 2]
    assert len(set(once)) == len(once), "no stream is used twice"
    assert {name.replace("/here", "/there") for name in once} == set(once) - {n for n in once if n.endswith("/here")}


@pytest.mark.slow
def test_coverage_holds_over_many_audits(monkeypatch):
    """Few of 40 audits at 80% confidence, each with its own choice of pair and event, exceed the true ε."""
    monkeypatch.setattr(sampled, "_USUAL_RUNS", 100)
    mechanism = make_mechanism("gnmax", {"sigma": 4.0})
    search = Search(mechanism, 20, 3, DELTA)
    pairs = [search.worst(1)[0], search.measurable(max_labels(400), 0.8)[0]]
    too_large = 0
    for seed in range(40):
        one = SampledAudit("planted", mechanism, 20, 3, DELTA, 400, 0.8, partial(seeds.generator, seed, "test"))
        largest, _ = one(pairs, [1])
        too_large += largest[1].epsilon > largest[1].pair.epsilon(1, DELTA)
    assert too_large <= binom.ppf(1 - 1e-4, 40, 0.2)
