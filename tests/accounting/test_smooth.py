"""Smooth sensitivity against every histogram there is, and the property that gives it its name."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.accounting.oracles import histograms

from patebench.accounting import rdp, smooth, votes
from patebench.accounting.smooth import PerQuery, Steps

ORDERS = np.array([1.05, 2.0, 5.0, 20.0, 100.0])


def gnmax(sigma):
    return PerQuery(
        lambda counts: rdp.gaussian_log_q(counts, sigma),
        lambda log_q, orders: rdp.gaussian_data_dependent(log_q, sigma, orders),
    )


def lnmax(gamma):
    return PerQuery(
        lambda counts: rdp.laplace_log_q(counts, gamma),
        lambda log_q, orders: rdp.laplace_data_dependent(log_q, gamma, orders),
    )


def brute_force(bound, table, orders):
    """Return the maximum of the local sensitivity over the ball of every radius: histograms × distances × orders."""
    apart = np.abs(table[:, None] - table[None]).sum(axis=2) // 2
    value = bound(table, orders)
    change = np.abs(value[:, None] - value[None]) * (apart == 1)[..., None]
    local = change.max(axis=1)
    radii = range(table[0].sum() + 1)
    return np.stack([(local[None] * (apart <= d)[..., None]).max(axis=1) for d in radii], axis=1), apart


def matrix(draw_seed, teachers, queries, classes, agreement):
    rng = np.random.default_rng(draw_seed)
    random = rng.integers(0, classes, (teachers, queries))
    return np.where(rng.random((teachers, queries)) < agreement, rng.integers(0, classes, queries), random)


SMALL = [
    (gnmax(1.5), 12, 2),
    (gnmax(3.0), 20, 2),
    (gnmax(2.0), 12, 3),
    (gnmax(0.7), 8, 4),
    (lnmax(0.5), 20, 2),
    (lnmax(0.8), 12, 3),
    (lnmax(2.0), 8, 4),
]


@pytest.mark.parametrize(("bound", "teachers", "classes"), SMALL)
def test_never_below_the_truth_over_all_histograms(bound, teachers, classes):
    table = histograms(teachers, classes)
    true, apart = brute_force(bound, table, ORDERS)
    assert true.max() > 0
    steps = Steps.of(bound, teachers, classes, ORDERS)
    found = np.stack([smooth.local(steps, row[None]) for row in table])
    assert np.all(found >= true)
    here, there = np.nonzero(apart == 1)
    assert np.all(found[here, :-1] <= found[there, 1:] * (1 + 1e-12)), "a neighbour's ball of one vote more is larger"
    assert np.all(np.diff(found, axis=1) >= 0)


@pytest.mark.slow
@pytest.mark.parametrize(("bound", "teachers"), [(gnmax(40.0), 250), (lnmax(0.05), 250), (gnmax(10.0), 60)])
def test_close_to_the_truth_for_two_classes(bound, teachers):
    orders = np.array([2.0, 5.0, 20.0])
    table = histograms(teachers, 2)
    true, _ = brute_force(bound, table, orders)
    steps = Steps.of(bound, teachers, 2, orders)
    for row in (teachers, teachers - 4, 9 * teachers // 10, 2 * teachers // 3):
        found = smooth.local(steps, table[row][None])
        for beta in (0.005, 0.02, 0.1):
            sensitivity = smooth.smooth(found, beta)
            truth = smooth.smooth(true[row], beta)
            assert np.all(sensitivity >= truth)
            assert np.all(sensitivity <= 1.7 * truth)


@pytest.mark.parametrize("bound", [gnmax(5.0), gnmax(40.0), gnmax(300.0), lnmax(0.01), lnmax(0.05), lnmax(1.0)])
def test_theorems_grow_with_q(bound):
    log_q = -np.geomspace(1e-3, 5e3, 20_000)
    curve = bound.curve(log_q, np.array([1.001, 1.1, 2.0, 3.0, 8.0, 30.0, 200.0, 5000.0]))
    assert np.all(np.diff(curve, axis=0) <= 1e-13 * curve[:-1])


@settings(max_examples=150)
@example(37, 38, 6, 0.9, gnmax(1.0), 0.5)
@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.integers(2, 6),
    st.sampled_from([0.2, 0.9, 0.98, 1.0]),
    st.sampled_from([gnmax(1.0), gnmax(4.0), gnmax(15.0), lnmax(0.1), lnmax(1.0)]),
    st.floats(1e-4, 0.5),
)
def test_adjacent_votes_have_sensitivities_within_e_to_the_beta(seed, teachers, classes, agreement, bound, beta):
    here = matrix(seed, teachers, 7, classes, agreement)
    there = here.copy()
    there[seed % teachers] = np.random.default_rng(seed + 1).integers(0, classes, 7)
    steps = Steps.of(bound, teachers, classes, ORDERS)
    counts = [votes.counts(table, classes) for table in (here, there)]
    one, other = (smooth.smooth(smooth.local(steps, table), beta) for table in counts)
    assert np.all(one <= np.exp(beta) * other * (1 + 1e-12))
    assert np.all(other <= np.exp(beta) * one * (1 + 1e-12))
    sums = [bound(table, ORDERS).sum(axis=0) for table in counts]
    assert np.all(np.abs(np.subtract(*sums)) <= np.minimum(one, other))


LARGE = [
    (bound, teachers, Steps.of(bound, teachers, 4, ORDERS))
    for bound, teachers in ((gnmax(40.0), 250), (gnmax(40.0), 3000), (lnmax(0.05), 250), (lnmax(0.01), 3000))
]


@settings(max_examples=60)
@given(st.data(), st.sampled_from(LARGE))
def test_one_vote_changes_no_query_by_more_than_the_table_says(data, case):
    bound, teachers, steps = case
    cuts = sorted(data.draw(st.lists(st.integers(0, teachers), min_size=3, max_size=3)))
    counts = np.diff([0, *cuts, teachers])
    giver = data.draw(st.sampled_from(np.flatnonzero(counts).tolist()))
    moved = counts.copy()
    moved[giver] -= 1
    moved[data.draw(st.integers(0, 3))] += 1
    change = np.abs(np.subtract(*bound(np.array([counts, moved]), ORDERS)))
    for table in (counts, moved):
        assert np.all(change <= smooth.local(steps, table[None])[0] + 1e-15)


def test_queries_add_up_however_they_are_grouped(monkeypatch):
    counts = votes.counts(matrix(0, 40, 30, 3, 0.8), 3)
    steps = Steps.of(gnmax(6.0), 40, 3, ORDERS)
    singles = sum(smooth.local(steps, row[None]) for row in counts)
    whole = smooth.local(steps, counts)
    np.testing.assert_allclose(whole, singles, rtol=1e-12)
    assert whole.any()
    for cells in (32, 27, 21):  # blocks that end where the distances do, and blocks that do not
        monkeypatch.setattr(smooth, "_CELLS", cells)
        np.testing.assert_allclose(smooth.local(steps, counts), whole, rtol=1e-12)


def test_smooth_sensitivity_is_the_discounted_maximum():
    local = np.array([[1.0, 0.0], [3.0, 0.0], [3.5, 9.0]])
    np.testing.assert_allclose(smooth.smooth(local, 0.5), [3 * np.exp(-0.5), 9 * np.exp(-1)])
    np.testing.assert_allclose(smooth.smooth(local, np.array([2.0, 40.0])), [1.0, 9e-12])


def test_distances_that_are_not_told_apart_only_add(monkeypatch):
    counts = np.array([[100, 0, 0], [90, 10, 0], [55, 45, 0]])
    steps = Steps.of(gnmax(15.0), 100, 3, ORDERS)
    whole = smooth.local(steps, counts)
    monkeypatch.setattr(smooth, "_DISTANCES", 20)
    short = smooth.local(steps, counts)
    assert len(short) == 21
    np.testing.assert_array_equal(short[:20], whole[:20])
    np.testing.assert_array_equal(short[20], whole[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("teachers", "classes"), [*itertools.product((1, 2, 3, 250), (2, 10, 1000)), (10**6, 2)], ids=str
)
@pytest.mark.parametrize("bound", [gnmax(0.0), gnmax(1e-300), gnmax(0.1), gnmax(1e150), lnmax(1e-300), lnmax(np.inf)])
def test_extremes_give_numbers(bound, teachers, classes):
    tied = np.zeros(classes, dtype=np.int64)
    tied[:2] = teachers // 2, teachers - teachers // 2
    unanimous = np.eye(classes, dtype=np.int64)[-1] * teachers
    with np.errstate(over="ignore"):
        local = smooth.local(Steps.of(bound, teachers, classes, ORDERS), np.stack([tied, unanimous]))
    assert np.all(np.isfinite(local))
    assert np.all(local >= 0)
    assert len(local) < 20_000
