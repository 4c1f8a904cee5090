"""The private release of a bound: its cost, its failure probability, and that no published value is too small."""

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.accounting.oracles import histograms
from tests.accounting.test_smooth import gnmax as bounds_of_gnmax
from tests.accounting.test_smooth import lnmax as bounds_of_lnmax

from patebench.accounting import conversion, exact, rdp, sanitised, smooth, votes
from patebench.accounting.conversion import convert
from patebench.accounting.sanitised import Design, SanitisingNoise, accountants, fresh, seeded
from patebench.accounting.smooth import Steps
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.mechanisms.noisy_argmax import GNMax, LNMax

DELTA = 1e-5


def gnmax(sigma):
    return bounds_of_gnmax(sigma), lambda orders: rdp.gaussian(sigma, orders)


def lnmax(gamma):
    return bounds_of_lnmax(gamma), lambda orders: rdp.laplace(gamma, orders)


def pair(table, mechanism, noise=fresh):
    return accountants(table, *mechanism, "a theorem", noise)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([60, 1, 1, 0.5, 0.5, 0.2, 0.2, 0.2, 0.2, 0.2], size=600)
    return Votes.from_counts(np.stack([rng.multinomial(250, share) for share in shares]))


def divergence(order, mean, scale, other_mean, other_scale):
    """Return the Rényi divergence of two normal distributions, by quadrature."""

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


def published_cost(order, beta, noise):
    """Return the Rényi cost of GNSS in Scalable PATE: αe^{2β}/σ² + (αβ − ½ ln(1−2αβ))/(α−1), for 1 < α < 1/(2β)."""
    shift = order * np.exp(2 * beta) / noise**2
    return float(shift + (order * beta - 0.5 * np.log1p(-2 * order * beta)) / (order - 1))


def test_published_cost_fails_at_its_edge_and_ours_does_not():
    assert published_cost(10, 0.02, 30) == pytest.approx(0.0621659877, abs=1e-10), "the official value"
    order, beta = 10.0, 0.045
    true = divergence(order, 0.0, 1.0, np.exp(-beta), np.exp(-beta))
    assert published_cost(order, beta, 1.0) == pytest.approx(11.1, abs=0.05)
    assert true == pytest.approx(32.9, abs=0.05)
    assert sanitised.cost(order, beta, 1.0) >= true


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "beta", "noise", "margin"),
    [(10.0, 0.02, 30.0, 0.0), (10.0, 0.02, 30.0, 4.0), (3.0, 0.15, 2.0, 4.7), (40.0, 0.005, 8.0, 4.7)],
)
def test_cost_is_the_largest_divergence_that_smoothness_allows(order, beta, noise, margin):
    cost = float(sanitised.cost(order, beta, noise, margin))
    worst = max(
        divergence(order, 0.0, noise, towards * min(1.0, ratio) + margin * noise * (ratio - 1), noise * ratio)
        for ratio in np.exp(beta * np.linspace(-1, 1, 9))
        for towards in (-1, 1)
    )
    assert cost * (1 - 1e-6) <= worst <= cost


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


def grid(design, value, sensitivity, reach=40.0):
    """Return the possible grid points and ln Pr of each, from the definition of a discrete Gaussian."""
    middle = round(design.at(value, sensitivity, 1e9) / design.step)
    scale = design.scale(sensitivity)
    points = np.arange(middle - int(reach * scale) - 2, middle + int(reach * scale) + 3)
    exponents = -(((points - middle) / scale) ** 2) / 2
    return points, exponents - np.log(np.exp(exponents).sum())


def enumerated(order, here, there):
    """Compute D_α of two releases over the common grid points; the few others could only increase it."""
    (points, log_p), (others, log_q) = here, there
    first, last = max(points[0], others[0]), min(points[-1], others[-1])
    log_p = log_p[np.searchsorted(points, first) : np.searchsorted(points, last) + 1]
    log_q = log_q[np.searchsorted(others, first) : np.searchsorted(others, last) + 1]
    terms = order * log_p + (1 - order) * log_q
    return (terms.max() + np.log(np.exp(terms - terms.max()).sum())) / (order - 1)


#: Fine and coarse grids, and noise so small that the sums of a discrete Gaussian are far from integrals.
DESIGNS = [
    Design(order=order, beta=-0.5 * np.log1p(-1 / order) * share, noise=noise, failure=failure, step=step)
    for order, share, noise, failure, step in [
        *[(order, 0.4, noise, 1e-6, 0.01) for order in (1.2, 3.0, 8.0, 40.0) for noise in (0.1, 0.3, 1.0, 10.0)],
        (8.0, 0.9, 5.0, 1e-6, 1.0),
        (8.0, 0.9, 0.2, 1e-6, 100.0),
        (2.0, 0.98, 0.1, 0.04, 100.0),
        (3.0, 0.05, 0.15, 0.3, 100.0),
    ]
]


@pytest.mark.parametrize("design", DESIGNS, ids=repr)
def test_no_two_releases_that_smoothness_allows_differ_by_more_than_the_cost(design):
    """Both directions, all by enumeration: values off the grid and on it, sensitivities as far apart as may be."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(30):
        sensitivity = rng.choice([0.0, 0.01, 0.3, 1.0]) * rng.uniform(0.5, 1)
        other = sensitivity * np.exp(design.beta * rng.choice([-1, -1, 1, 0.3]))
        value = 50 * design.step + 3 + rng.uniform(0, 1) * rng.integers(0, 2)
        changed = value + min(sensitivity, other) * rng.choice([-1, 1])
        here, there = grid(design, value, sensitivity), grid(design, changed, other)
        worst = max(worst, enumerated(design.order, here, there), enumerated(design.order, there, here))
    assert worst <= design.cost
    assert worst > 0


def test_a_ledger_is_told_what_the_number_costs_at_every_order():
    """∞ from the order on at which neighbours may have scales too far apart; before it, more than all pairs differ."""
    design = Design(order=8.0, beta=0.03, noise=4.0, failure=1e-6, step=0.01)
    curve = design.curve(conversion.ORDERS)
    first = conversion.ORDERS[np.argmax(np.isinf(curve))]
    assert 1 / -np.expm1(-2 * design.beta) < first < 1.2 / -np.expm1(-2 * design.beta)
    assert np.all(np.diff(curve[np.isfinite(curve)]) > 0)
    for b in (-design.beta, design.beta):
        here, there = grid(design, 1.0, 0.3), grid(design, 1.0 + min(0.3, 0.3 * np.exp(b)), 0.3 * np.exp(b))
        for order, most in zip(conversion.ORDERS, curve, strict=True):
            assert np.isinf(most) or max(enumerated(order, here, there), enumerated(order, there, here)) <= most


def test_a_number_is_written_down_before_it_is_drawn(table):
    def refuse(queries, divergences):
        told.append((queries, divergences))
        raise PatebenchError("the limit is reached")

    def draw(queries):
        raise AssertionError("nothing is drawn that was not written down")

    told = []
    release, hindsight = pair(table, lnmax(0.05), SanitisingNoise(draw, secret=True, record_cost=refuse))
    with pytest.raises(PatebenchError, match="limit"):
        release.bounds([600], DELTA)
    ((queries, divergences),) = told
    assert queries == 600
    assert divergences.shape == conversion.ORDERS.shape
    assert hindsight.bounds([600], DELTA), "which draws nothing"


def test_the_sums_of_a_discrete_gaussian_are_paid_for():
    """Scales that differ alone: half as much again as with continuous noise, where sums are far from integrals."""
    order, noise = 2.0, 0.2182
    x = np.arange(-60, 61)

    def release(scale):
        exponents = -((x / scale) ** 2) / 2
        return x, exponents - np.log(np.exp(exponents).sum())

    for beta in (0.01, 0.017, 0.1):
        true = enumerated(order, release(2 * noise), release(2 * noise * np.exp(beta)))
        continuous = (order * beta - 0.5 * np.log1p(order * np.expm1(2 * beta))) / (order - 1)
        assert true > 1.3 * continuous
        beyond = float(sanitised.cost(order, beta, noise)) - order * np.exp(-2 * beta) / (2 * noise**2) / (
            1 + order * np.expm1(-2 * beta)
        )
        assert beyond >= true


@pytest.mark.parametrize("failure", [1e-6, 0.01, 0.05, 0.6])
@pytest.mark.parametrize("step", [1e-4, 0.01, 1.0])
def test_too_low_at_most_as_often_as_paid_for(failure, step):
    design = Design(order=5.0, beta=0.02, noise=3.0, failure=failure, step=step)
    for value, sensitivity in ((10.0, 0.1), (10.0001, 0.0321)):
        points, log_p = grid(design, value, sensitivity, reach=9)
        low = np.exp(log_p[points * step < value + sensitivity]).sum()
        assert low <= failure
        assert step > 1e-4 or failure > 0.5 or low > 0.95 * failure
    assert sanitised.margin(1e-6) == pytest.approx(4.753424308822899, rel=1e-12)


@pytest.mark.slow
def test_releases_are_drawn_as_they_are_accounted_for():
    """Test draws from the operating system; by Massart's inequality, chance fails this once in 1e9 times."""
    design, draws = Design(order=5.0, beta=0.02, noise=3.0, failure=0.05, step=0.05), 10_000
    source, (points, log_p) = fresh.source(1), grid(design, 10.0, 0.1)
    drawn = np.array([design.release(10.0, 0.1, 1e9, source) for _ in range(draws)]) / design.step
    at_most = np.searchsorted(np.sort(np.round(drawn)), points, side="right") / draws
    assert np.abs(at_most - np.cumsum(np.exp(log_p))).max() < np.sqrt(np.log(2e9) / (2 * draws))


def test_what_may_be_drawn_is_the_same_for_adjacent_votes():
    """So is what may be printed. With noise in floating point the digits alone tell most pairs of votes apart."""
    bound, worst = lnmax(0.05)
    here = np.tile([240, 10, 0], (300, 1))
    there = here - np.array([1, -1, 0])
    design = _design(bound, worst, 250, 3, 300)
    order, ceiling = np.array([design.order]), 300 * float(worst(design.order))
    steps = Steps.of(bound, 250, 3, order)
    possible = {*(np.arange(int(np.ceil(ceiling / design.step))) * design.step).tolist(), ceiling}
    totals, left = np.array(sorted(possible)) + design.cost, DELTA - design.failure
    shown = {float(x) for how in (Conversion.CLASSIC, Conversion.TIGHT) for x in convert(how, order, totals, left)}
    for counts in (here, there):
        value, sensitivity = bound(counts, order).sum(), smooth.smooth(smooth.local(steps, counts), design.beta)[0]
        drawn = {design.release(value, sensitivity, ceiling, fresh.source(300)) for _ in range(100)}
        assert len(drawn) > 50
        assert drawn <= possible
        (release, _) = pair(Votes.from_counts(counts), (bound, worst))
        assert {found.epsilon for found in release.bounds([300], DELTA)} <= shown


@given(st.floats(0, 10), st.floats(0, 100), st.floats(0, 10), st.integers(-(10**6), 10**6))
def test_released_bounds_stay_between_nothing_and_the_worst_case(value, sensitivity, extra, draw):
    design = Design(order=5.0, beta=0.02, noise=3.0, failure=1e-6, step=2.0**-12)
    released = design.at(value, sensitivity, value + extra, draw)
    assert 0 <= released <= value + extra
    assert released == value + extra or released % design.step == 0
    for how in (Conversion.CLASSIC, Conversion.TIGHT):
        least = conversion.convert(how, np.array([5.0]), np.array([design.cost]), DELTA - 1e-6)[0]
        assert design.epsilon(how, released, DELTA) >= least


@pytest.mark.parametrize(("made", "one_sided"), [(GNMax(1.5), True), (GNMax(4.0), False), (LNMax(0.4), False)])
def test_what_is_released_bounds_both_directions(made, one_sided):
    """Over all small vote sets and all their neighbours, by the exact divergences and the exact distribution of f̂."""
    teachers, order = 14, np.array([3.0])
    mechanism = gnmax(made.sigma) if isinstance(made, GNMax) else lnmax(made.gamma)
    bound = mechanism[0]
    rows = histograms(teachers, 3)
    log_p = made.log_outcome_probabilities(Votes.from_counts(rows))[:, :3]
    steps, once = Steps.of(bound, teachers, 3, order), np.ones((1, 3), dtype=int)
    apart = np.abs(rows[:, None] - rows[None]).sum(axis=2) == 2
    curve = bound(rows, order)[:, 0]
    beyond = 0
    for failure in (0.02, 0.2):
        for noise in (0.5, 3.0):
            design = Design(order=3.0, beta=0.1, noise=noise, failure=failure, step=2.0**-9)
            for i, row in enumerate(rows):
                neighbours = np.flatnonzero(apart[i])
                one = np.broadcast_to(log_p[i], (len(neighbours), 3))
                there = exact.divergence(one, log_p[neighbours], once, order).max()
                back = exact.divergence(log_p[neighbours], one, once, order).max()
                sensitivity = smooth.smooth(smooth.local(steps, row[None]), design.beta)[0]
                ceiling = float(mechanism[1](order)[0])
                points, weights = grid(design, curve[i], sensitivity, reach=9)
                low = np.minimum(points * design.step, ceiling) < max(there, back) * (1 - 1e-9)
                assert np.exp(weights)[low].sum() <= failure
                beyond += back > curve[i] * (1 + 1e-9)
    assert bool(beyond) is one_sided, "there are votes whose other direction exceeds the theorem"


@pytest.mark.slow
@pytest.mark.parametrize("noise", [fresh, seeded(0, "a")], ids=["fresh", "seeded"])
@pytest.mark.parametrize("mechanism", [gnmax(40.0), lnmax(0.05)], ids=["gnmax", "lnmax"])
def test_records_say_what_they_are(table, mechanism, noise):
    """Only a draw that nobody can repeat may be published, and many queries to a strong ensemble cost less."""
    (release, hindsight), (bound, worst) = pair(table, mechanism, noise), mechanism
    most = conversion.tight(conversion.ORDERS, 600 * worst(conversion.ORDERS), DELTA).min()
    for accountant, kind in ((release, Kind.SANITISED), (hindsight, Kind.DATA_DEPENDENT)):
        bounds = accountant.bounds([600, 50], DELTA)
        assert [bound.queries for bound in bounds] == [600, 600, 50, 50]
        assert [bound.conversion for bound in bounds] == [Conversion.CLASSIC, Conversion.TIGHT] * 2
        assert {bound.kind for bound in bounds} == {kind}
        assert all(each.delta == DELTA and each.order > 1 and "releasing" in each.source for each in bounds)
        assert bounds[1].epsilon < min(bounds[0].epsilon, most)
        published = kind is Kind.SANITISED and noise is fresh
        assert all(each.publishable is published for each in bounds)
        if kind is Kind.SANITISED:
            assert all(("not for publishing" in each.source) is (noise is not fresh) for each in bounds)
        for each in bounds:
            order = np.array([each.order])
            hidden = bound(table.counts[: each.queries], order).sum(axis=0)
            assert each.epsilon > convert(each.conversion, order, hidden, DELTA)
        if noise is fresh:
            continue
        alone = [bound for queries in (600, 50) for bound in accountant.bounds([queries], DELTA)]
        assert [bound.source for bound in alone] == [bound.source for bound in bounds]
        np.testing.assert_allclose([bound.epsilon for bound in alone], [bound.epsilon for bound in bounds], rtol=1e-9)
    assert {release.name, hindsight.name} == {"rdp-sanitised", "rdp-sanitised-optimised"}


def test_the_design_does_not_look_at_the_votes(table):
    other = Votes.from_counts(np.tile([125, 125] + [0] * 8, (600, 1)))
    for mechanism in (gnmax(40.0), lnmax(0.05)):
        here, there = (pair(data, mechanism)[0].bounds([600], DELTA)[1] for data in (table, other))
        assert (here.order, here.source) == (there.order, there.source)
        first, second = (pair(data, mechanism)[1].bounds([600], DELTA)[1] for data in (table, other))
        assert first.source != second.source


def test_noise_is_fresh_unless_seeded(table):
    def epsilon(noise):
        return pair(table, lnmax(0.05), noise)[0].bounds([600], DELTA)[0].epsilon

    assert isinstance(fresh.source(1), Entropy), "so that two draws differ"
    first, again, other = (epsilon(seeded(3, stream)) for stream in ("a", "a", "b"))
    assert first == again != other
    draws = seeded(3, "a").source
    assert draws(100).normal(scale=1, size=1) != draws(101).normal(scale=1, size=1)


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
    measured = []
    for matrix in (here, there):
        counts = votes.counts(matrix, classes)
        sensitivity = float(smooth.smooth(smooth.local(steps, counts), design.beta)[0])
        measured.append((float(bound(counts, order).sum()), sensitivity))
    for coarse in (2.0, 16.0):
        tried = replace(design, noise=min(design.noise, 20.0), step=measured[0][1] / coarse)
        one, other = (grid(tried, value, sensitivity) for value, sensitivity in measured)
        for first, second in ((one, other), (other, one)):
            assert enumerated(tried.order, first, second) <= tried.cost


def _design(bound, worst, teachers, classes, queries):
    typical = sanitised.profile(teachers, classes)
    local = smooth.local(Steps.of(bound, teachers, classes, sanitised.ORDERS), typical) * queries / len(typical)
    curve = bound(typical, sanitised.ORDERS).mean(axis=0) * queries
    return sanitised.best_design(curve, local, queries * worst(sanitised.ORDERS), DELTA)


def test_the_best_design_is_the_best(table):
    bound, worst = lnmax(0.05)
    steps = Steps.of(bound, 250, 10, sanitised.ORDERS)
    local, curve = smooth.local(steps, table.counts), bound(table.counts, sanitised.ORDERS).sum(axis=0)
    ceiling = 600 * worst(sanitised.ORDERS)
    best = sanitised.best_design(curve, local, ceiling, DELTA)

    def epsilon(design):
        at = int(np.argmin(np.abs(sanitised.ORDERS - design.order)))
        sensitivity = smooth.smooth(local[:, [at]], design.beta)[0]
        return design.epsilon(Conversion.TIGHT, design.at(curve[at], sensitivity, ceiling[at]), DELTA)

    rng = np.random.default_rng(0)
    for _ in range(300):
        order = float(rng.choice(sanitised.ORDERS[:40]))
        beta = -0.5 * np.log1p(-1 / order) * rng.uniform(0.05, 0.95)
        noise = float(np.exp(rng.uniform(-2, 5)))
        other = Design(order=order, beta=beta, noise=noise, failure=best.failure, step=best.step)
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
    """Check that the result depends only on public sizes."""
    votes_ = Votes.from_counts(np.tile([200, 50], (20, 1)))
    assert len(pair(votes_, gnmax(40.0))) == 2
    monkeypatch.setattr(sanitised, "_CELLS_PER_HOUR", 20 * 250 * 2 - 1)
    with caplog.at_level("WARNING", logger="patebench"):
        assert pair(votes_, gnmax(40.0)) == []
    assert "no sanitised bound is computed" in caplog.text
