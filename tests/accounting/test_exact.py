"""Exact divergences against 40 digits of mpmath, against all adjacent vote matrices, and below every theorem."""

import json
import tracemalloc
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from tests.accounting import exact_reference, oracles

from patebench.accounting import conversion, exact, exact_accountant, rdp
from patebench.accounting.exact import ExactDivergence, divergence
from patebench.accounting.exact_accountant import OrderSearch
from patebench.accounting.votes import Votes
from patebench.core import workers
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms import neighbours
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.noise import Gaussian, Laplace
from patebench.mechanisms.noisy_argmax import GNMax, LNMax
from patebench.mechanisms.quadrature import log_argmax_probabilities

ORDERS = np.array([1.05, 2.0, 8.0, 32.0, 1000.0])
REFERENCE = json.loads(exact_reference.PATH.read_text())
KINDS = {"gaussian": Gaussian, "laplace": Laplace}
MECHANISMS = [LNMax(0.3), LNMax(2.0), GNMax(2.0), GNMax(0.7), ConfidentGNMax(2.0, 1.5, 2.0), ConfidentGNMax(3, 0.8, 5)]


def shared(noise):
    return lambda histograms: neighbours.of_noisy_argmax(histograms, noise)


def one_by_one(noise):
    return lambda histograms: neighbours.one_by_one(histograms, lambda table: log_argmax_probabilities(table, noise))


def curves(counts, source, orders=ORDERS):
    """Return both directions (2 × orders) of one query's worst neighbour."""
    return ExactDivergence(Votes.from_counts(np.array([counts])), source).directions([1], orders)[0, 0]


def random_votes(seed=0, teachers=40, queries=60, classes=4):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(classes, 0.4), size=queries)
    return Votes.of(np.stack([rng.choice(classes, teachers, p=share) for share in shares], axis=1), classes)


@pytest.mark.parametrize("case", REFERENCE, ids=lambda case: f"{case['noise']}-{case['scale']}-{case['counts'][:10]}")
@pytest.mark.parametrize("way", [shared, one_by_one], ids=["shared", "one by one"])
def test_against_mpmath(case, way):
    got = curves(case["counts"], way(KINDS[case["noise"]](case["scale"])), np.array(exact_reference.ORDERS))
    expected = np.array(case["worst"], dtype=float)
    assert np.all(got >= expected), "never below the truth"
    np.testing.assert_allclose(got[:, :-1], expected[:, :-1], rtol=1e-9, atol=1e-299)
    np.testing.assert_allclose(got[:, -1], expected[:, -1], rtol=1e-8, atol=1e-299)


@pytest.mark.parametrize(("kind", "scale", "counts"), [("gaussian", 3.0, [3, 2, 2]), ("laplace", 1.0, [2, 1, 0])])
def test_the_reference_is_what_its_script_computes(kind, scale, counts):
    assert [(case["noise"], case["scale"], case["counts"]) for case in REFERENCE] == exact_reference.CASES
    (case,) = [each for each in REFERENCE if (each["noise"], each["scale"], each["counts"]) == (kind, scale, counts)]
    assert exact_reference.worst(kind, scale, counts) == case["worst"]


def joint(mechanism, matrix, classes):
    """Return ln P of every tuple of outcomes of all queries."""
    rows = mechanism.log_outcome_probabilities(Votes.of(matrix, classes))
    return np.sum(np.meshgrid(*rows), axis=0).ravel()


def brute_force(mechanism, matrix, classes, orders):
    """Return, per direction and order, the largest divergence over all vote matrices that differ in one row."""
    log_p, found = joint(mechanism, matrix, classes), []
    for teacher, row in product(range(len(matrix)), product(range(classes), repeat=matrix.shape[1])):
        other = matrix.copy()
        other[teacher] = row
        there = joint(mechanism, other, classes)
        found.append([oracles.renyi(log_p, there, orders), oracles.renyi(there, log_p, orders)])
    return np.max(found, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.parametrize(
    "matrix",
    [[[0, 1], [0, 1], [1, 1]], [[0, 0], [1, 2], [2, 0], [0, 0]], [[0, 1, 1], [0, 1, 0], [0, 1, 0]], [[0, 2]]],
    ids=str,
)
def test_per_teacher_is_the_worst_adjacent_vote_matrix(mechanism, matrix):
    matrix, orders = np.array(matrix), np.array([1.5, 2.0, 6.0])
    divergence = ExactDivergence(Votes.of(matrix, 3), mechanism.neighbours)
    per_query, per_teacher = divergence.directions([matrix.shape[1]], orders)
    np.testing.assert_allclose(per_teacher[0], brute_force(mechanism, matrix, 3, orders), rtol=1e-8)
    singles = [brute_force(mechanism, column[:, None], 3, orders) for column in matrix.T]
    np.testing.assert_allclose(per_query[0], np.sum(singles, axis=0), rtol=1e-8)


def without_gains_of_the_top(pairs):
    keep = pairs.gains != 0
    return exact.Pairs(*(getattr(pairs, name)[keep] for name in pairs.__dataclass_fields__))


def with_each_class_once(pairs):
    names = {**pairs.__dict__, "multiplicity": np.minimum(pairs.multiplicity, 1)}
    return exact.Pairs(**names)


def with_a_silent_change(pairs):
    return exact.Pairs(
        **{**pairs.__dict__, "log_p_neighbour": np.hstack([pairs.log_p_neighbour[:, :-1], pairs.log_p[:, -1:]])}
    )


@pytest.mark.parametrize("fault", [without_gains_of_the_top, with_each_class_once, with_a_silent_change])
def test_planted_faults_differ_from_brute_force(fault):
    matrix, orders = np.array([[0, 0], [1, 2], [2, 0], [0, 0]]), np.array([2.0])
    mechanism = ConfidentGNMax(2.0, 1.5, 2.0)

    def faulty(histograms):
        return map(fault, mechanism.neighbours(histograms))

    got = ExactDivergence(Votes.of(matrix, 4), faulty).directions([2], orders)[1, 0]
    expected = brute_force(mechanism, matrix, 4, orders)
    assert np.max(np.abs(got / expected - 1)) > 1e-3


@settings(max_examples=25)
@example([5000, 3, 0], 0.0, "laplace")
@example([5000, 3, 0], 0.0, "gaussian")
@example([900, 700, 0, 0], 0.2, "laplace")
@example([300, 299, 150, 2], 1.0, "gaussian")
@given(
    st.lists(st.integers(0, 400), min_size=2, max_size=8).filter(any), st.floats(0.3, 3), st.sampled_from(sorted(KINDS))
)
def test_both_ways_to_the_probabilities_agree(counts, magnitude, kind):
    counts, noise = [counts[0] + 1, *counts[1:]], KINDS[kind](10**magnitude)
    np.testing.assert_allclose(curves(counts, shared(noise)), curves(counts, one_by_one(noise)), rtol=1e-8, atol=1e-299)


@pytest.mark.parametrize("mechanism", [LNMax(0.2), GNMax(6.0), ConfidentGNMax(25, 8, 6)], ids=str)
def test_sums_over_queries_and_teachers(mechanism, monkeypatch):
    votes = random_votes()
    single = [
        ExactDivergence(Votes.of(column[:, None], 4), mechanism.neighbours).directions([1], ORDERS)
        for column in votes.matrix.T
    ]
    sums = np.cumsum([per_query[0] for per_query, _ in single], axis=0)
    whole = ExactDivergence(votes, mechanism.neighbours).directions([60, 7, 1], ORDERS)
    per_query, per_teacher = whole
    np.testing.assert_allclose(per_query, sums[[59, 6, 0]], rtol=1e-12)
    assert np.all(per_teacher <= per_query * (1 + 1e-12))
    assert np.any(per_teacher[0] < per_query[0] * 0.95)
    np.testing.assert_allclose(per_teacher[2], per_query[2], rtol=1e-12)
    monkeypatch.setattr(exact, "_TABLE", 3000)
    monkeypatch.setattr(exact, "_CELLS", 500)
    monkeypatch.setattr(neighbours, "_CELLS", 5000)
    blocked = ExactDivergence(votes, mechanism.neighbours).directions([60, 7, 1], ORDERS)
    np.testing.assert_allclose(whole, blocked, rtol=1e-12)


def test_many_classes_stay_far_below_two_gigabytes():
    divergence = ExactDivergence(random_votes(teachers=250, queries=300, classes=1000), GNMax(40.0).neighbours)
    tracemalloc.start()
    try:
        divergence.directions([300], ORDERS)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_without_a_matrix_nothing_is_known_per_teacher():
    votes = Votes.from_counts(np.array([[5, 1], [3, 3]]))
    per_query, per_teacher = ExactDivergence(votes, GNMax(2.0).neighbours).directions([1, 2], ORDERS)
    assert np.all(np.isposinf(per_teacher))
    assert np.all(np.isfinite(per_query))
    assert [each.name for each in exact_accountant.accountants(votes, GNMax(2.0).neighbours)] == ["exact"]


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0, 700.0])
@pytest.mark.parametrize("seed", range(2))
def test_divergence_of_any_two_distributions(spread, seed):
    log_p, log_p_neighbour = log_softmax(np.random.default_rng(seed).normal(scale=spread, size=(2, 6)), axis=1)
    orders = np.array([1 + 1e-9, 1.001, 1.5, 3.0, 40.0, 1000.0, 1e6])
    with mp.workdps(60 + int(abs(min(log_p.min(), log_p_neighbour.min())))):
        p, other = ([mp.exp(mp.mpf(float(x))) for x in row] for row in (log_p, log_p_neighbour))
        p, other = ([x / mp.fsum(row) for x in row] for row in (p, other))
        expected = [float(oracles.divergence(p, other, order)) for order in orders]
    got = divergence(log_p[None], log_p_neighbour[None], np.ones((1, 6), dtype=int), orders)[0]
    np.testing.assert_allclose(got, expected, rtol=1e-9)
    twice = np.vstack([log_p, log_p_neighbour])[:, [0, 0, *range(1, 6)]] - np.log([2, 2, 1, 1, 1, 1, 1])
    merged = [np.delete(row, 0)[None] for row in twice]
    got = divergence(*merged, np.array([[2, 1, 1, 1, 1, 1]]), orders)[0]
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.parametrize("tiny", [1e-6, 1e-12, 1e-20, 1e-44, 1e-150])
def test_near_certainty_loses_nothing(tiny):
    """Two outcomes, one of probability `tiny` here and 3 · tiny there."""
    log_p, log_p_neighbour = (np.array([[np.log1p(-p), np.log(p)]]) for p in (tiny, 3 * tiny))
    orders = np.array([2.0, 5.0, 30.0])
    with mp.workdps(400):
        p, other = ([1 - mp.mpf(x), mp.mpf(x)] for x in (tiny, 3 * tiny))
        expected = [float(oracles.divergence(p, other, order)) for order in orders]
        back = [float(oracles.divergence(other, p, order)) for order in orders]
    once = np.ones((1, 2), dtype=int)
    np.testing.assert_allclose(divergence(log_p, log_p_neighbour, once, orders)[0], expected, rtol=1e-9)
    np.testing.assert_allclose(divergence(log_p_neighbour, log_p, once, orders)[0], back, rtol=1e-9)


@pytest.mark.parametrize("sigma", [10.0, 1e4, 1e6])
@pytest.mark.parametrize("order", [1.01, 1.1, 2.0])
def test_much_noise_is_not_rounded_down(sigma: float, order: float) -> None:
    """Near order 1, the first order of the terms cancels, so an error of a rounded probability would remain."""
    for counts in ((1, 0), (2, 1), (60, 40)):
        for pairs in neighbours.of_noisy_argmax(np.array([counts]), Gaussian(sigma)):
            found = divergence(pairs.log_p, pairs.log_p_neighbour, pairs.multiplicity, np.array([order]))[:, 0]
            for row, loses in enumerate(pairs.loses):
                gap = counts[0] - counts[1]
                with mp.workdps(50):
                    scale = mp.mpf(sigma) * mp.sqrt(2)
                    p = [mp.ncdf(sign * mp.mpf(gap) / scale) for sign in (1, -1)]
                    q = [mp.ncdf(sign * mp.mpf(gap + (-2 if loses == 0 else 2)) / scale) for sign in (1, -1)]
                    moment = sum(a ** mp.mpf(order) * b ** (1 - mp.mpf(order)) for a, b in zip(p, q, strict=True))
                    exact_value = mp.log(moment) / (mp.mpf(order) - 1)
                    assert exact_value <= mp.mpf(float(found[row])) <= exact_value * (1 + mp.mpf(10) ** -6)


def test_outcomes_that_can_not_happen():
    once = np.ones((1, 3), dtype=int)
    never = np.log(np.array([[0.25, 0.75, 1e-300]]))
    never[0, 2] = -np.inf
    possible = np.log(np.array([[0.25, 0.5, 0.25]]))
    assert np.all(np.isposinf(divergence(possible, never, once, ORDERS)))
    expected = np.log(0.25 + 0.75 ** ORDERS[:3] * 0.5 ** (1 - ORDERS[:3])) / (ORDERS[:3] - 1)
    np.testing.assert_allclose(divergence(never, possible, once, ORDERS[:3])[0], expected, rtol=1e-10)
    assert np.all(divergence(never, never, once, ORDERS) < 1e-24)
    np.testing.assert_array_equal(divergence(never, possible, np.array([[1, 1, 0]]), ORDERS) >= 0, True)


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 10, 1000])
@pytest.mark.parametrize("scale", [1e-300, 1e-3, 0.5, 1.0, 40.0, 1e4, 1e9, np.inf])
@pytest.mark.parametrize("kind", [GNMax, lambda scale: LNMax(max(1 / scale, 1e-300))], ids=["gaussian", "laplace"])
def test_extremes(kind, scale, classes):
    mechanism = kind(scale)
    worst = rdp.gaussian(scale, ORDERS) if isinstance(mechanism, GNMax) else rdp.laplace(mechanism.gamma, ORDERS)
    for teachers in (2, 5000, 10**6):
        for counts in oracles.extremes(teachers, classes):
            found = curves(counts, mechanism.neighbours)
            assert not np.isnan(found).any()
            assert np.all(found > 0)
            assert np.all(found <= worst * (1 + 1e-9) + 1e-20)
            assert np.all(np.diff(found, axis=1) >= -1e-9 * found[:, 1:] - 1e-299), "it grows with the order"


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [LNMax(0.1), GNMax(10.0), ConfidentGNMax(25, 10, 8)], ids=str)
def test_accountants_find_the_best_order(mechanism):
    votes, delta = random_votes(1), 1e-5
    dense = 1 + np.geomspace(1e-2, 1e5, 4000)
    totals = ExactDivergence(votes, mechanism.neighbours).directions([10, 60], dense)
    found = {each.name: each for each in mechanism.accountants(votes) if each.name.startswith("exact")}
    for name, curve in zip(("exact", "exact-per-teacher"), totals, strict=True):
        bounds = found[name].bounds([10, 60], delta)
        assert [bound.queries for bound in bounds] == [10, 10, 60, 60]
        for bound in bounds:
            best = conversion.convert(bound.conversion, dense, curve[bound.queries // 60].max(axis=0), delta).min()
            assert bound.epsilon == pytest.approx(best, rel=1e-5)
            assert bound.kind is Kind.DATA_DEPENDENT
            assert not bound.publishable
            assert bound.conversion in (Conversion.CLASSIC, Conversion.TIGHT)


@pytest.fixture(scope="module", params=[LNMax(0.1), GNMax(3.0), GNMax(10.0), GNMax(300.0)], ids=str)
def every_order(request):
    """Return a mechanism, and its divergences of 60, 1 and 10 queries at every order."""
    divergence = ExactDivergence(random_votes(1), request.param.neighbours)
    return request.param, divergence.directions([60, 1, 10], exact_accountant.ORDERS)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-30])
@pytest.mark.parametrize("sample", [4, 512])
def test_orders_that_are_passed_over_are_never_the_best(every_order, delta, sample, monkeypatch):
    """As if every order had been worked out for every number of queries, also where the sample is too small."""
    monkeypatch.setattr(exact_accountant, "_SAMPLE", sample)
    mechanism, every = every_order
    orders, forms = OrderSearch(ExactDivergence(random_votes(1), mechanism.neighbours))([60, 1, 10], delta)
    for form, curves in zip(forms, every, strict=True):
        for how in (Conversion.CLASSIC, Conversion.TIGHT):
            got = conversion.convert(how, orders, form, delta).min(axis=1)
            best = conversion.convert(how, exact_accountant.ORDERS, curves.max(axis=1), delta).min(axis=1)
            np.testing.assert_allclose(got, best, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [GNMax(10.0), ConfidentGNMax(25, 10, 8)], ids=str)
def test_several_processes_find_the_same_to_the_last_bit(mechanism, monkeypatch):
    monkeypatch.setattr(exact, "_WORTH_SHARING", 0)
    monkeypatch.setattr(exact, "_PIECE", 7)
    found = []
    for processes in (1, 2):
        workers.set_processes(processes)
        try:
            found.append(ExactDivergence(random_votes(), mechanism.neighbours).directions([60, 7], ORDERS))
        finally:
            workers.set_processes(1)
    np.testing.assert_array_equal(*found)


def test_histograms_that_repeat_are_worked_out_once():
    votes, seen = random_votes(), []
    often = Votes.of(np.tile(votes.matrix, 9), 4)
    renamed = Votes.of((often.matrix + np.arange(540) // 60) % 4, 4)

    def neighbours_seen(histograms):
        seen.append(len(histograms))
        return GNMax(10.0).neighbours(histograms)

    found = ExactDivergence(renamed, neighbours_seen).directions([540], ORDERS)
    once = ExactDivergence(votes, GNMax(10.0).neighbours).directions([60], ORDERS)
    assert sum(seen) <= 60
    np.testing.assert_allclose(found[0], 9 * once[0], rtol=1e-12)
    same = ExactDivergence(often, GNMax(10.0).neighbours).directions([540], ORDERS)
    np.testing.assert_allclose(same[1], 9 * once[1], rtol=1e-12)


def test_cached_neighbours_are_those_of_the_same_queries(monkeypatch):
    """Pieces sorted by histogram may begin with one query and have one length, and still differ."""
    monkeypatch.setattr(exact, "_PIECE", 2)
    kinds = np.array([[9, 1, 0], [8, 2, 0], [7, 3, 0], [6, 4, 0], [5, 5, 0], [5, 3, 2]])
    rng = np.random.default_rng(13)
    votes = Votes.from_counts(kinds[np.concatenate([rng.integers(0, 3, 8), rng.integers(0, 6, 12)])])
    again, once = (ExactDivergence(votes, GNMax(3.0).neighbours) for _ in range(2))
    again.directions([8], ORDERS)
    np.testing.assert_allclose(again.directions([20], ORDERS), once.directions([20], ORDERS), rtol=1e-12)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_both_directions_are_needed(mechanism):
    forward, back = curves([9, 2, 1], mechanism.neighbours)
    assert np.max(np.abs(np.log(forward / back))) > 1e-3
