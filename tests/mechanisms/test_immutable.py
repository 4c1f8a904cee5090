"""The immutable noisy argmax: the claims of NZC, its releases, and their cost."""

import math

import mpmath as mp
import numpy as np
import pytest
from tests.accounting.exact_reference import probabilities
from tests.accounting.oracles import histograms, moved

from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms.base import NO_ANSWER
from patebench.mechanisms.immutable import ImmutableGNMax, ImmutableLNMax

DELTA = 1e-5
PUBLISHED = [ImmutableLNMax(1e100, 1e-10, 0), ImmutableGNMax(1e100, 1e10, 0)]
GATED = [ImmutableLNMax(1e100, 1e-10, 3), ImmutableGNMax(1e100, 1e10, 3)]


def of(*rows):
    return Votes.from_counts(np.array(rows))


def bounds(mechanism, votes, queries=(1,)):
    return {(b.kind, b.accountant, b.conversion, b.queries): b for b in mechanism.bounds(votes, queries, DELTA)}


def worst_case(mechanism, votes, queries=1):
    (found,) = (b for b in mechanism.bounds(votes, [queries], DELTA) if b.kind is Kind.WORST_CASE)
    return found


# What is released.


@pytest.mark.parametrize("mechanism", PUBLISHED, ids=str)
def test_as_published_the_noise_is_lost_to_rounding(mechanism):
    draws = mechanism.noise.draw((1000,), np.random.default_rng(0))
    assert np.abs(draws).max() > 1e10
    assert np.all(1e100 + draws == 1e100)
    votes = Votes.of(np.random.default_rng(1).integers(0, 4, size=(51, 500)), 4)
    labels = mechanism.release(votes, np.random.default_rng(2))
    rows = np.arange(500)
    assert np.all(votes.counts[rows, labels] == votes.counts.max(axis=1)), "a plurality, always"
    ties = (votes.counts == votes.counts.max(axis=1, keepdims=True)).sum(axis=1)
    log_p = mechanism.log_outcome_probabilities(votes)
    np.testing.assert_array_equal(log_p[rows, labels], -np.log(ties))
    assert np.all(np.isneginf(log_p).sum(axis=1) == 5 - ties), "nothing else is possible"


@pytest.mark.parametrize("mechanism", GATED, ids=str)
def test_the_gate_opens_at_its_distance(mechanism):
    votes = of([6, 3, 0], [5, 4, 0], [3, 6, 0], [3, 3, 3], [2, 5, 2])
    labels = mechanism.release(votes, np.random.default_rng(0))
    assert labels.tolist() == [0, NO_ANSWER, 1, NO_ANSWER, 1]
    assert np.all(mechanism.log_outcome_probabilities(votes)[np.arange(5), labels] == 0)


# How likely each outcome is.


@pytest.mark.parametrize("c", [0.0, 0.5, 30.0, 1e3, 1e5, 1e9])
@pytest.mark.parametrize(("top", "other"), [(125, 124), (130, 120), (250, 0)])
def test_two_classes_have_closed_forms(c, top, other):
    """Pr[Lap(1/γ) + Lap(1/γ) > d] = (2 + γd)/(4 exp(γd)); Pr[N(0, 2σ²) > d] = ½ erfc(d/(2σ)). The rest: the top."""
    votes, gamma, sigma = of([other, top]), 0.05, 40.0
    with mp.workdps(60):
        d = mp.mpf(c) + top - other
        laplace_tail = mp.log((2 + gamma * d) / 4) - gamma * d
        gaussian_tail = mp.log(mp.erfc(d / (2 * sigma)) / 2) if d < 1e4 else mp.ninf
    for mechanism, tail in ((ImmutableLNMax(c, gamma, 0), laplace_tail), (ImmutableGNMax(c, sigma, 0), gaussian_tail)):
        got = mechanism.log_outcome_probabilities(votes)[0]
        if mp.isfinite(tail):
            with mp.workdps(60):
                likely = float(mp.log1p(-mp.exp(tail)))
            np.testing.assert_allclose(got[:2], [float(tail), likely], rtol=1e-12)
        else:
            x = float(d) / (2 * sigma)
            assert got[0] == pytest.approx(-x * x - math.log(2 * x * math.sqrt(math.pi)), rel=1e-12)
        assert np.isneginf(got[2])


@pytest.mark.slow
@pytest.mark.parametrize("counts", [[7, 5, 2], [6, 6, 2], [5, 5, 5]], ids=str)
@pytest.mark.parametrize("c", [0.0, 1.5, 8.0])
@pytest.mark.parametrize(("kind", "scale"), [("laplace", 2.0), ("gaussian", 3.0)])
def test_more_classes_and_ties_share_the_constant(counts, c, kind, scale):
    mechanism = ImmutableLNMax(c, 1 / scale, 0) if kind == "laplace" else ImmutableGNMax(c, scale, 0)
    tied = [j for j, count in enumerate(counts) if count == max(counts)]
    boosted = [[count + c * (j == top) for j, count in enumerate(counts)] for top in tied]
    with mp.workdps(25):
        expected = np.array([probabilities(kind, scale, scores) for scores in boosted], float).mean(axis=0)
    got = np.exp(mechanism.log_outcome_probabilities(of(counts))[0])
    np.testing.assert_allclose(got, [*expected, 0], rtol=1e-9)


# What the paper claims.


@pytest.mark.parametrize("queries", [1, 100, 9000])
@pytest.mark.parametrize("distance", [0, 3])
def test_the_claims_are_the_papers_formulas_and_never_publishable(queries, distance):
    votes, log = of(*[[250, 0]] * queries), math.log(1 / DELTA)
    gamma, sigma = 1e-10, 1e10
    root = 2 * gamma * math.sqrt(2 * queries * log)
    by_name = {
        "strong-composition": 4 * queries * gamma**2 + root,
        "moments": 2 * queries * gamma**2 + root,  # the least over real λ of α(λ)/λ + ln(1/δ)/λ
        "rdp": queries / sigma**2 + 2 * math.sqrt(queries * log) / sigma,
    }
    found = [
        b
        for mechanism in (ImmutableLNMax(1e100, gamma, distance), ImmutableGNMax(1e100, sigma, distance))
        for b in mechanism.bounds(votes, [queries], DELTA)
        if b.kind is Kind.CLAIMED
    ]
    assert {b.accountant for b in found} == set(by_name)
    for b in found:
        assert b.epsilon == pytest.approx(by_name[b.accountant], rel=1e-6)
        assert not b.publishable
        assert "NZC" in b.source
    assert by_name["strong-composition"] < 1e-7, "what the paper's tables print as ≈ 0"


# What is true.


@pytest.mark.parametrize("mechanism", [*PUBLISHED, ImmutableLNMax(1e15, 0.05, 0), ImmutableGNMax(1, 0, 0)], ids=str)
def test_one_vote_decides_the_label(mechanism):
    """(125, 124) against (124, 125): two labels, each certain."""
    here, there = (mechanism.log_outcome_probabilities(of(row))[0] for row in ([125, 124], [124, 125]))
    assert here.tolist() == [0, -np.inf, -np.inf]
    assert there.tolist() == [-np.inf, 0, -np.inf]
    labels = [mechanism.release(of(*[row] * 100), np.random.default_rng(0)) for row in ([125, 124], [124, 125])]
    assert np.all(labels[0] == 0)
    assert np.all(labels[1] == 1)
    for (kind, *_), bound in bounds(mechanism, of([125, 124])).items():
        assert (bound.epsilon == math.inf) == (kind is not Kind.CLAIMED or mechanism == ImmutableGNMax(1, 0, 0))


@pytest.mark.parametrize("mechanism", [*GATED, ImmutableLNMax(5, 0.05, 3), ImmutableGNMax(5, 40, 3)], ids=str)
def test_one_vote_opens_the_gate(mechanism):
    """A gap of 3 is answered, and a neighbour's gap of 1 is not."""
    votes = of([126, 123])
    assert np.isneginf(mechanism.log_outcome_probabilities(votes)[0, NO_ANSWER])
    assert mechanism.log_outcome_probabilities(of([125, 124]))[0, NO_ANSWER] == 0
    found = bounds(mechanism, votes)
    assert all(b.epsilon == math.inf for b in found.values() if b.kind is not Kind.CLAIMED)
    assert all(b.epsilon == math.inf for b in bounds(mechanism, of([250, 0])).values() if b.kind is Kind.WORST_CASE)


@pytest.mark.parametrize("mechanism", PUBLISHED, ids=str)
def test_what_these_votes_allow_depends_on_them(mechanism):
    """Far from a tie, no vote changes the label: the data-dependent ε is 0 and must not be published."""
    epsilons = {
        gap: min(b.epsilon for b in mechanism.bounds(of([126 + gap, 126]), [1], DELTA) if b.kind is Kind.DATA_DEPENDENT)
        for gap in (1, 2, 3, 4)
    }
    assert epsilons == {1: math.inf, 2: math.inf, 3: 0, 4: 0}


@pytest.mark.parametrize("c", [0, 2, 7])
def test_the_worst_case_covers_every_small_ensemble_and_the_claim_does_not(c):
    """Return the largest change of ln P and δ(ε) by one vote, over all votes of seven teachers on three classes."""
    rows = list(map(tuple, histograms(7, 3).tolist()))
    votes = of(*rows)
    here, there = np.array([(i, rows.index(other)) for i, row in enumerate(rows) for other in moved(row)]).T
    gamma, sigma = 0.4, 5.0
    log_p = ImmutableLNMax(c, gamma, 0).log_outcome_probabilities(votes)[:, :3]
    truth = np.abs(log_p[here] - log_p[there]).max()
    assert truth <= 2 * (c + 1) * gamma * (1 + 1e-12)
    assert (truth > 2 * gamma) == (c > 0), "2γ per query, as claimed, holds for the plain noisy argmax alone"
    p = np.exp(ImmutableGNMax(c, sigma, 0).log_outcome_probabilities(votes)[:, :3])
    epsilon = worst_case(ImmutableGNMax(c, sigma, 0), votes).epsilon
    delta = np.maximum(p[here] - math.exp(epsilon) * p[there], 0).sum(axis=1).max()
    assert delta <= DELTA


@pytest.mark.parametrize("c", [0, 1.0, 1e100, 1e300])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e200])
@pytest.mark.parametrize("distance", [0, 3])
def test_extremes(c, scale, distance):
    votes = Votes.of(np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 1, 1, 2], [0, 1, 2, 3]]), 4)
    for mechanism in (ImmutableLNMax(c, 1 / scale, distance), ImmutableGNMax(c, scale, distance)):
        log_p = mechanism.log_outcome_probabilities(votes)
        np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-11)
        labels = mechanism.release(votes, np.random.default_rng(0))
        assert np.all(log_p[np.arange(4), labels] > -np.inf)
        for bound in mechanism.bounds(votes, [1, 4], DELTA):
            assert bound.epsilon >= 0
            assert bound.kind is not Kind.WORST_CASE or bound.epsilon == math.inf or not mechanism.certain
