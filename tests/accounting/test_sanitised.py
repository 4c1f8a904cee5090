"""The private release of a bound: what it costs, how often it fails, and that nothing is published below its due."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patebench.accounting import conversion, plurality, rdp, sanitised, sanitised_accountant, smooth, votes
from patebench.accounting.sanitised import Design
from patebench.accounting.sanitised_accountant import accountants, fresh, seeded
from patebench.accounting.smooth import PerQuery, Steps
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind

DELTA = 1e-5


def gnmax(sigma):
    bound = PerQuery(
        lambda counts: plurality.gaussian_log_q(counts, sigma),
        lambda log_q, orders: rdp.gaussian_data_dependent(log_q, sigma, orders),
    )
    return bound, lambda orders: rdp.gaussian(sigma, orders)


def lnmax(gamma):
    bound = PerQuery(
        lambda counts: plurality.laplace_log_q(counts, gamma),
        lambda log_q, orders: rdp.laplace_data_dependent(log_q, gamma, orders),
    )
    return bound, lambda orders: rdp.laplace(gamma, orders)


def pair(table, mechanism, noise=fresh):
    return accountants(table, *mechanism, "a theorem", noise)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([60, 1, 1, 0.5, 0.5, 0.2, 0.2, 0.2, 0.2, 0.2], size=600)
    return Votes.from_counts(np.stack([rng.multinomial(250, share) for share in shares]))


def divergence(order, mean, scale, other_mean, other_scale):
    """Rényi divergence of two normal distributions by quadrature."""

    def density(x, m, s):
        return mp.exp(-(((x - m) / s) ** 2) / 2) / s / mp.sqrt(2 * mp.pi)

    variance = order * mp.mpf(other_scale) ** 2 + (1 - order) * mp.mpf(scale) ** 2
    centre = (order * mean * mp.mpf(other_scale) ** 2 + (1 - order) * other_mean * mp.mpf(scale) ** 2) / variance
    width = mp.mpf(scale) * other_scale / mp.sqrt(variance)
    points = [centre + width * k for k in (-12, -4, 0, 4, 12)]
    integral = mp.quad(
        lambda x: density(x, mean, scale) ** order * density(x, other_mean, other_scale) ** (1 - order), points
    )
    return float(mp.log(integral) / (order - 1))


CASES = [(10.0, 0.02, 30.0, 0.0), (10.0, 0.02, 30.0, 4.0), (3.0, 0.15, 2.0, 4.7), (40.0, 0.005, 8.0, 4.7)]


def published_cost(order, beta, noise):
    """Rényi cost of GNSS as Scalable PATE states it: αe^{2β}/σ² + (αβ − ½ ln(1−2αβ))/(α−1), for 1 < α < 1/(2β).

    With σ small and 2αβ near 1 it is below a divergence that it should bound, that of two
    Gaussians (α = 10, β = 0.045, σ = 1: 11.1 against 32.9); elsewhere it is several times what `cost` finds.
    """
    if not 1 < order < 1 / (2 * beta) or noise == 0:
        return np.inf
    shift = order * np.exp(2 * beta) / noise**2
    return float(shift + (order * beta - 0.5 * np.log1p(-2 * order * beta)) / (order - 1))


def test_published_cost_is_the_official_value():
    assert published_cost(10, 0.02, 30) == pytest.approx(0.0621659877, abs=1e-10)
    with mp.workdps(30):
        a, b, s = mp.mpf(7), mp.mpf("0.03"), mp.mpf(12)
        expected = a * mp.exp(2 * b) / s**2 + (a * b - mp.log(1 - 2 * a * b) / 2) / (a - 1)
    assert published_cost(7, 0.03, 12) == pytest.approx(float(expected), rel=1e-14)
    assert np.isinf(published_cost(10, 0.05, 30))
    assert np.isinf(published_cost(10, 0.02, 0))


def test_published_cost_fails_at_its_edge_and_ours_does_not():
    order, beta = 10.0, 0.045
    true = divergence(order, 0.0, 1.0, np.exp(-beta), np.exp(-beta))
    assert published_cost(order, beta, 1.0) < true / 2
    assert sanitised.cost(order, beta, 1.0) >= true * (1 - 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("order", "beta", "noise", "margin"), CASES)
def test_cost_is_the_largest_divergence_that_smoothness_allows(order, beta, noise, margin):
    cost = float(sanitised.cost(order, beta, noise, margin))
    found = []
    for ratio in np.exp(beta * np.linspace(-1, 1, 9)):
        for towards in (-1, 1):
            mean = towards * min(1.0, ratio) + margin * noise * (ratio - 1)
            found.append(divergence(order, 0.0, noise, mean, noise * ratio))
    assert max(found) <= cost * (1 + 1e-12)
    assert max(found) >= cost * (1 - 1e-9)


@given(st.floats(1.1, 500), st.floats(0.01, 0.99), st.floats(0.01, 1e4), st.floats(0, 8))
def test_cost_bounds_every_ratio_and_falls_with_more_noise(order, share, noise, margin):
    beta = -0.5 * np.log1p(-1 / order) * share
    cost = float(sanitised.cost(order, beta, noise, margin))
    ratio = np.exp(beta * np.linspace(-1, 1, 41))
    variance = 1 + order * (ratio**2 - 1)
    shift = np.minimum(1, ratio) / noise + margin * np.abs(ratio - 1)
    every = order * shift**2 / (2 * variance) + (order * np.log(ratio) - 0.5 * np.log(variance)) / (order - 1)
    assert np.all(every <= cost * (1 + 1e-9) + 1e-14)
    assert cost >= float(sanitised.cost(order, beta, 2 * noise, margin))
    assert np.isinf(sanitised.cost(order, beta / share * 1.001, noise, margin))


def test_too_low_as_often_as_paid_for():
    design = Design(order=5.0, beta=0.02, noise=3.0, failure=0.05)
    rng = np.random.default_rng(0)
    low = np.mean([design.release(10.0, 0.1, 100.0, rng) < 10.0 for _ in range(20_000)])
    assert low == pytest.approx(0.05, abs=0.006)
    assert sanitised.margin(1e-6) == pytest.approx(4.753424308822899, rel=1e-12)


@given(st.floats(0, 10), st.floats(0, 100), st.floats(0, 10), st.floats(-50, 50))
def test_released_bounds_stay_between_nothing_and_the_worst_case(value, sensitivity, extra, draw):
    design = Design(order=5.0, beta=0.02, noise=3.0, failure=1e-6)
    released = design.at(value, sensitivity, value + extra, draw)
    assert 0 <= released <= value + extra
    for how in (Conversion.CLASSIC, Conversion.TIGHT):
        least = conversion.convert(how, np.array([5.0]), np.array([design.cost]), DELTA - 1e-6)[0]
        assert design.epsilon(how, released, DELTA) >= least


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [gnmax(40.0), lnmax(0.05)], ids=["gnmax", "lnmax"])
def test_records_say_what_they_are(table, mechanism):
    release, hindsight = pair(table, mechanism, seeded(0, "a"))
    for accountant, kind in ((release, Kind.SANITISED), (hindsight, Kind.DATA_DEPENDENT)):
        bounds = accountant.bounds([600, 50], DELTA)
        assert [bound.queries for bound in bounds] == [600, 600, 50, 50]
        assert [bound.conversion for bound in bounds] == [Conversion.CLASSIC, Conversion.TIGHT] * 2
        assert {bound.kind for bound in bounds} == {kind}
        assert not any(bound.publishable for bound in bounds)
        assert all(bound.delta == DELTA and bound.order > 1 and "releasing" in bound.source for bound in bounds)
        assert bounds[1].epsilon < bounds[0].epsilon
        alone = [bound for queries in (600, 50) for bound in accountant.bounds([queries], DELTA)]
        assert [bound.source for bound in alone] == [bound.source for bound in bounds]
        np.testing.assert_allclose([bound.epsilon for bound in alone], [bound.epsilon for bound in bounds], rtol=1e-9)
    assert {release.name, hindsight.name} == {"rdp-sanitised", "rdp-sanitised-optimised"}


@pytest.mark.parametrize(("noise", "publishable"), [(fresh, True), (seeded(0, "a"), False)], ids=["fresh", "seeded"])
def test_only_a_draw_that_nobody_can_repeat_may_be_published(table, noise, publishable):
    release, hindsight = pair(table, gnmax(40.0), noise)
    for bound in release.bounds([50], DELTA):
        assert (bound.kind, bound.publishable) == (Kind.SANITISED, publishable)
        assert ("not for publishing" in bound.source) is not publishable
    assert not any(bound.publishable for bound in hindsight.bounds([50], DELTA))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [gnmax(40.0), lnmax(0.05)], ids=["gnmax", "lnmax"])
def test_never_below_the_bound_that_it_hides(table, mechanism):
    bound, worst = mechanism
    for seed in range(12):
        for published in pair(table, mechanism, seeded(seed))[0].bounds([50, 600], DELTA):
            order = np.array([published.order])
            queries, how = published.queries, published.conversion
            private = conversion.convert(how, order, bound(table.counts[:queries], order).sum(axis=0), DELTA)
            assert published.epsilon > private
            ceiling = conversion.convert(how, order, queries * worst(order), DELTA)
            assert published.epsilon < 2 * ceiling


def test_many_queries_to_a_strong_ensemble_cost_less_than_the_worst_case(table):
    for mechanism in (gnmax(40.0), lnmax(0.05)):
        worst = conversion.tight(conversion.ORDERS, 600 * mechanism[1](conversion.ORDERS), DELTA).min()
        release, hindsight = pair(table, mechanism, seeded(1))
        assert release.bounds([600], DELTA)[1].epsilon < worst
        assert hindsight.bounds([600], DELTA)[1].epsilon < worst


def test_the_design_does_not_look_at_the_votes(table):
    other = Votes.from_counts(np.tile([125, 125] + [0] * 8, (600, 1)))
    for mechanism in (gnmax(40.0), lnmax(0.05)):
        here, there = (pair(data, mechanism)[0].bounds([600], DELTA)[1] for data in (table, other))
        assert (here.order, here.source) == (there.order, there.source)
        first, second = (pair(data, mechanism)[1].bounds([600], DELTA)[1] for data in (table, other))
        assert first.source != second.source


def test_noise_is_fresh_unless_seeded(table):
    def epsilon(noise):
        return pair(table, lnmax(0.05), noise)[0].bounds([600], DELTA)[1].epsilon

    assert epsilon(fresh) != epsilon(fresh)
    assert epsilon(seeded(3, "a")) == epsilon(seeded(3, "a"))
    assert epsilon(seeded(3, "a")) != epsilon(seeded(3, "b"))
    draws = seeded(3, "a").generator
    assert draws(100).standard_normal() != draws(101).standard_normal()


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(2, 40), st.integers(2, 5), st.sampled_from([gnmax(4.0), lnmax(0.3)]))
def test_releases_of_adjacent_votes_differ_by_no_more_than_the_cost(seed, teachers, classes, mechanism):
    rng = np.random.default_rng(seed)
    here = np.where(rng.random((teachers, 30)) < 0.9, rng.integers(0, classes, 30), 0)
    there = here.copy()
    there[0] = rng.integers(0, classes, 30)
    bound, worst = mechanism
    design = _design(bound, worst, teachers, classes, 30)
    order = np.array([design.order])
    steps = Steps.of(bound, teachers, classes, order)
    normals = []
    for matrix in (here, there):
        counts = votes.counts(matrix, classes)
        scale = design.noise * smooth.smooth(smooth.local(steps, counts), design.beta)[0]
        normals.append((bound(counts, order).sum() + scale * sanitised.margin(design.failure), scale))
    (mean, scale), (other_mean, other_scale) = normals
    if scale == other_scale == 0:
        assert mean == other_mean, "the theorem applies to no votes, and there is nothing to hide"
        return
    variance = design.order * other_scale**2 + (1 - design.order) * scale**2
    assert variance > 0
    logs = np.log(other_scale / scale) + np.log(other_scale**2 / variance) / 2 / (design.order - 1)
    assert logs + design.order * (mean - other_mean) ** 2 / 2 / variance <= design.cost * (1 + 1e-9)


def _design(bound, worst, teachers, classes, queries):
    typical = sanitised.profile(teachers, classes)
    local = smooth.local(Steps.of(bound, teachers, classes, sanitised.ORDERS), typical) * queries / len(typical)
    curve = bound(typical, sanitised.ORDERS).mean(axis=0) * queries
    return sanitised.design(curve, local, queries * worst(sanitised.ORDERS), sanitised.ORDERS, DELTA)


def test_the_best_design_is_the_best(table):
    bound, worst = lnmax(0.05)
    steps = Steps.of(bound, 250, 10, sanitised.ORDERS)
    local, curve = smooth.local(steps, table.counts), bound(table.counts, sanitised.ORDERS).sum(axis=0)
    ceiling = 600 * worst(sanitised.ORDERS)
    best = sanitised.design(curve, local, ceiling, sanitised.ORDERS, DELTA)

    def epsilon(design):
        at = int(np.argmin(np.abs(sanitised.ORDERS - design.order)))
        sensitivity = smooth.smooth(local[:, [at]], design.beta)[0]
        return design.epsilon(Conversion.TIGHT, design.at(curve[at], sensitivity, ceiling[at]), DELTA)

    rng = np.random.default_rng(0)
    for _ in range(300):
        order = float(rng.choice(sanitised.ORDERS[:40]))
        beta = -0.5 * np.log1p(-1 / order) * rng.uniform(0.05, 0.95)
        other = Design(order=order, beta=beta, noise=float(np.exp(rng.uniform(-2, 5))), failure=best.failure)
        assert epsilon(other) >= epsilon(best) * 0.97


@pytest.mark.parametrize(("teachers", "classes"), [(1, 2), (2, 3), (10, 2), (250, 10), (5000, 1000)])
def test_profiles_are_votes(teachers, classes):
    profile = sanitised.profile(teachers, classes)
    assert profile.shape == (10, classes)
    assert profile.min() >= 0
    assert np.all(profile.sum(axis=1) == teachers)


@pytest.mark.slow
@pytest.mark.parametrize("row", [[1, 0], [1, 1, 0], [250] + [0] * 9, [125, 125]])
@pytest.mark.parametrize("mechanism", [gnmax(0.0), gnmax(1e-3), gnmax(1e9), lnmax(1e-9), lnmax(100.0), lnmax(np.inf)])
def test_extremes_give_a_bound(row, mechanism):
    found = Votes.from_counts(np.tile(row, (3, 1)))
    nothing_hidden = np.all(np.isinf(mechanism[1](sanitised.ORDERS)))
    for accountant in pair(found, mechanism):
        for bound in accountant.bounds([1, 3], DELTA):
            assert bound.epsilon >= 0
            assert np.isinf(bound.epsilon) == nothing_hidden
            assert (bound.order is None) == nothing_hidden


def test_what_would_take_hours_is_left_out_and_said(monkeypatch, caplog):
    """Public sizes decide."""
    votes_ = Votes.from_counts(np.tile([200, 50], (20, 1)))
    assert len(pair(votes_, gnmax(40.0))) == 2
    monkeypatch.setattr(sanitised_accountant, "_CELLS_PER_HOUR", 20 * 250 * 2 - 1)
    with caplog.at_level("WARNING", logger="patebench"):
        assert pair(votes_, gnmax(40.0)) == []
    assert "left out" in caplog.text
