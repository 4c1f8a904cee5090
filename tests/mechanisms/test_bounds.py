"""All bounds of a mechanism on realistic votes: known values, and requirements on every record."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patebench.accounting.sanitised import seeded
from patebench.accounting.smooth import Steps, local
from patebench.accounting.votes import Votes
from patebench.core.bound import Bound, Conversion, Kind
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.noisy_argmax import GNMax, LNMax

DELTA = 1e-5


MECHANISMS = [LNMax(0.05), GNMax(40.0), ConfidentGNMax(200, 150, 40)]


@pytest.fixture(scope="module")
def votes():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([60, 1, 1, 0.5, 0.5, 0.2, 0.2, 0.2, 0.2, 0.2], size=1000)
    return Votes.of(np.stack([rng.choice(10, size=250, p=share) for share in shares], axis=1), 10)


def find(bounds, accountant, kind, conversion=Conversion.NONE, queries=None):
    matching = [
        bound
        for bound in bounds
        if (bound.accountant, bound.kind, bound.conversion) == (accountant, kind, conversion)
        and queries in (None, bound.queries)
    ]
    assert len(matching) == 1
    return matching[0]


def test_unanimous_moments_by_hand():
    votes = Votes.from_counts(np.tile([250] + [0] * 9, (100, 1)))
    found = find(LNMax(0.05).bounds(votes, [100], DELTA), "moments", Kind.DATA_DEPENDENT, Conversion.CLASSIC)
    q = 9 * (2 + 0.05 * 250) / (4 * math.exp(0.05 * 250))
    moment = np.arange(1, 9)
    alpha = np.log((1 - q) * ((1 - q) / (1 - math.exp(0.1) * q)) ** moment + q * np.exp(0.1 * moment))
    assert found.epsilon == pytest.approx(np.min((100 * alpha + math.log(1 / DELTA)) / moment), rel=1e-12)
    assert found.order == 9


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_every_record_is_consistent(mechanism, votes):
    bounds = mechanism.bounds(votes, [286, 100, 286], DELTA)
    assert {bound.queries for bound in bounds} == {100, 286}
    assert {bound.kind for bound in bounds} >= {Kind.WORST_CASE, Kind.DATA_DEPENDENT}
    assert {bound.accountant for bound in bounds} >= {"rdp", "exact", "exact-per-teacher"}
    keys = [(bound.queries, bound.accountant, bound.kind, bound.conversion) for bound in bounds]
    assert len(keys) == len(set(keys))
    for bound in bounds:
        assert bound.publishable is (bound.kind is Kind.WORST_CASE)
        assert bound.delta == DELTA
        assert bound.source
        assert Bound.from_json(bound.to_json()) == bound
        more = find(bounds, bound.accountant, bound.kind, bound.conversion, 286)
        assert bound.epsilon <= more.epsilon
        if bound.kind is Kind.DATA_DEPENDENT:
            theorem = "rdp" if bound.accountant.startswith("exact") else bound.accountant
            worst = find(bounds, theorem, Kind.WORST_CASE, bound.conversion, bound.queries)
            assert bound.epsilon <= worst.epsilon


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.parametrize("conversion", [Conversion.CLASSIC, Conversion.TIGHT])
def test_the_exact_accountants_are_the_tightest_of_their_kind(mechanism, conversion, votes):
    bounds = mechanism.bounds(votes, [10, 286], DELTA)
    for queries in (10, 286):
        theorem, exact, per_teacher = (
            find(bounds, name, Kind.DATA_DEPENDENT, conversion, queries).epsilon
            for name in ("rdp", "exact", "exact-per-teacher")
        )
        assert per_teacher <= exact < theorem
        assert exact < 0.9 * theorem


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_the_tightest_data_independent_bound_is_below_the_others(mechanism, votes):
    """Return the cost of the label, or else of the noisy counts, composed without a Rényi curve."""
    bounds = [bound for bound in mechanism.bounds(votes, [286], DELTA) if bound.kind is Kind.WORST_CASE]
    least = sorted(bounds, key=lambda bound: bound.epsilon)
    assert least[0].accountant == "label"
    counts = [bound for bound in least if bound.accountant != "label"]
    assert counts[0].accountant in ("pld", "gdp")
    assert least[0].epsilon < 0.99 * counts[0].epsilon


@pytest.mark.slow
@settings(max_examples=8)
@given(st.randoms(use_true_random=False), st.sampled_from([LNMax(1.0), GNMax(5.0), *MECHANISMS]))
def test_order_of_classes_changes_no_bound(random, mechanism):
    rows = [[150, 90, 10], [90, 150, 10], [250, 0, 0], [84, 83, 83]]
    shuffled = [random.sample(row, 3) for row in rows]
    plain, other = (
        mechanism.bounds(Votes.from_counts(np.array(table)), [2, 4], DELTA, noise=seeded(0, "same"))
        for table in (rows, shuffled)
    )
    assert plain == other


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_sanitised_bounds_are_drawn_only_on_request(mechanism, votes):
    assert not any(bound.accountant.startswith("rdp-sanitised") for bound in mechanism.bounds(votes, [286], DELTA))
    drawn = mechanism.bounds(votes, [286], DELTA, noise=seeded(0, "s"))
    kinds = {bound.accountant: (bound.kind, bound.publishable) for bound in drawn}
    assert kinds["rdp-sanitised"] == (Kind.SANITISED, False)  # for its noise has a seed
    assert kinds["rdp-sanitised-optimised"] == (Kind.DATA_DEPENDENT, False)
    worst = find(drawn, "rdp", Kind.WORST_CASE, Conversion.TIGHT, 286).epsilon
    assert 0 < find(drawn, "rdp-sanitised", Kind.SANITISED, Conversion.TIGHT, 286).epsilon < 1.2 * worst


@pytest.mark.parametrize(("queries", "delta"), [([1001], DELTA), ([0], DELTA), ([], DELTA), ([5], 0.0), ([5], 1.0)])
def test_impossible_requests_are_refused(votes, queries, delta):
    with pytest.raises(PatebenchError):
        GNMax(40.0).bounds(votes, queries, delta)


@pytest.mark.parametrize("parameters", [(200, 0, 40), (200, 150, 0), (0, 0, 0)])
def test_sanitised_bounds_of_a_threshold_test_without_noise_are_infinite(parameters, votes):
    mechanism = ConfidentGNMax(*map(float, parameters))
    drawn = [b for b in mechanism.bounds(votes, [100], DELTA, noise=seeded(0, "s")) if "sanitised" in b.accountant]
    assert drawn
    assert all(bound.epsilon == np.inf for bound in drawn)


def test_the_threshold_test_adds_its_worst_case_to_a_sanitised_bound_and_changes_no_sensitivity(votes):
    """The test's cost is the same for all votes, so the smooth sensitivity is that of the answer alone."""
    orders = np.array([2.0, 10.0, 30.0])
    curves = [made.sanitised(votes, seeded(0, "s"))[0] for made in (GNMax(40.0), ConfidentGNMax(200.0, 150.0, 40.0))]
    answer, tested = (curve.per_query for curve in curves)
    difference = tested(votes.counts, orders) - answer(votes.counts, orders)
    assert difference == pytest.approx(np.broadcast_to(orders / (2 * 150**2), difference.shape))
    first, second = (local(Steps.of(each, 250, 10, orders), votes.counts[:50]) for each in (answer, tested))
    assert second == pytest.approx(first, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "replaced", "present"),
    [
        ("sparse-gnmax", {"k": 1, "sigma": 50}, 0.0858, 0.0586),  # √2/50 and 1/50-GDP
        ("sparse-gnmax", {"k": 4, "sigma": 100}, 0.0858, 0.0586),
        ("sparse-lnmax", {"k": 1, "gamma": 0.01}, 0.02, 0.01),
        ("gnmax", {"sigma": 100}, 0.0858, 0.0586),
    ],
)
def test_votes_added_or_removed_cost_less_than_replaced_ones(
    name: str, parameters: dict[str, float], replaced: float, present: float
) -> None:
    """Check both ε of one bound against an independent computation: Gaussian DP by Theorem 8 of Balle & Wang 2018."""
    votes = Votes.of(np.zeros((60, 4), dtype=np.int8), 3, abstentions=name != "gnmax")
    for discrete in (False, True):
        stated = make_mechanism(name, parameters).bounds(votes, [4], 1e-5, discrete=discrete)
        best = min((bound for bound in stated if bound.add_or_remove is not None), key=lambda bound: bound.epsilon)
        assert best.epsilon == pytest.approx(replaced, rel=2e-3)
        assert best.add_or_remove == pytest.approx(present, rel=2e-3)
        assert Bound.from_json(best.to_json()) == best
