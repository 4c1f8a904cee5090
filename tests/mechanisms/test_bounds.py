"""All bounds of a mechanism on realistic votes: known values, and requirements on every record."""

import itertools

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


def find(bounds, accountant, kind, conversion, queries):
    wanted = accountant, kind, conversion, queries
    (bound,) = (each for each in bounds if (each.accountant, each.kind, each.conversion, each.queries) == wanted)
    return bound


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
def test_every_record_is_consistent(mechanism, votes):
    bounds = mechanism.bounds(votes, [286, 100, 286], DELTA)
    assert {bound.queries for bound in bounds} == {100, 286}
    assert {bound.kind for bound in bounds} == {Kind.WORST_CASE, Kind.DATA_DEPENDENT} | (
        {Kind.CLAIMED} if isinstance(mechanism, ConfidentGNMax) else set()
    )
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
    for conversion, queries in itertools.product((Conversion.CLASSIC, Conversion.TIGHT), (100, 286)):
        theorem, exact, per_teacher = (
            find(bounds, name, Kind.DATA_DEPENDENT, conversion, queries).epsilon
            for name in ("rdp", "exact", "exact-per-teacher")
        )
        assert per_teacher <= exact < 0.9 * theorem
    worst_case = [each for each in bounds if each.kind is Kind.WORST_CASE and each.queries == 286]
    label, counts = (
        min(each.epsilon for each in worst_case if (each.accountant == "label") is label) for label in (True, False)
    )
    assert label < 0.99 * counts, "the label costs less than the noisy counts"
    assert counts == min(each.epsilon for each in worst_case if each.accountant in ("pld", "gdp"))
    drawn = mechanism.bounds(votes, [286], DELTA, noise=seeded(0, "s"))
    kinds = {each.accountant: (each.kind, each.publishable) for each in drawn}
    assert kinds["rdp-sanitised"] == (Kind.SANITISED, False)  # for its noise has a seed
    assert kinds["rdp-sanitised-optimised"] == (Kind.DATA_DEPENDENT, False)
    worst = find(drawn, "rdp", Kind.WORST_CASE, Conversion.TIGHT, 286).epsilon
    assert 0 < find(drawn, "rdp-sanitised", Kind.SANITISED, Conversion.TIGHT, 286).epsilon < 1.2 * worst
    adaptive = mechanism.bounds(votes, [286], DELTA, noise=seeded(0, "s"), adaptive=True)
    assert not any("sanitised" in bound.accountant for bound in adaptive)


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


@pytest.mark.parametrize(
    ("queries", "delta", "fault"),
    [([], 0.1, "queries"), ([0], 0.1, "queries"), ([-3], 0.1, "queries"), ([5, 1001], 0.1, "queries"),
     ([5], 0.0, "delta|δ"), ([5], 1.0, "delta|δ")],
)  # fmt: skip
def test_impossible_requests_are_refused(votes, queries, delta, fault):
    with pytest.raises(PatebenchError, match=fault):
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
