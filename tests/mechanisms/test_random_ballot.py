"""Random ballots against all that can happen in small worlds: every vote, every draw, every neighbour."""

from collections import Counter
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import chisquare

from patebench.accounting import independent
from patebench.accounting.exact import ExactDivergence
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.mechanisms.random_ballot import RandomBallot

ORDERS = np.array([1.05, 2.0, 4.0, 9.0, 20.0])
UNIFORM = [1e-12, 0.03, 0.2, 0.75, 1.0]
#: Teachers and classes.
SMALL = [(1, 2), (1, 3), (2, 2), (3, 3), (4, 3), (5, 2), (3, 4)]


def drawn(vote: tuple[int, ...], classes: int, uniform: float) -> list[Fraction]:
    """The probability of every class: each class that can be drawn, and each teacher, counted one by one."""
    u, total = Fraction(uniform), Counter[int]()
    for label in range(classes):
        total[label] += u / classes
    for label in vote:
        total[label] += (1 - u) / len(vote)
    return [total[label] for label in range(classes)]


def worlds(teachers: int, classes: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of votes on one query that differ in one teacher's."""
    everything = list(product(range(classes), repeat=teachers))
    return [(one, two) for one in everything for two in everything if sum(map(int.__ne__, one, two)) == 1]


def counted(vote: tuple[int, ...], classes: int) -> Votes:
    return Votes.from_counts(np.bincount(vote, minlength=classes)[None])


@pytest.mark.parametrize("uniform", [0.0, *UNIFORM])
@pytest.mark.parametrize(("teachers", "classes"), [*SMALL, (250, 10)])
def test_probabilities_are_those_of_the_draws(teachers: int, classes: int, uniform: float) -> None:
    every = product(range(classes), repeat=teachers) if teachers < 10 else [(3,) * 250, (3,) * 249 + (5,), (0, 1) * 125]
    for vote in every:
        got = RandomBallot(uniform).log_outcome_probabilities(counted(vote, classes))[0]
        assert got[-1] == -np.inf
        with mp.workdps(60):
            for mine, p in zip(got, drawn(vote, classes, uniform), strict=False):
                expected = mp.log(mp.mpf(p.numerator) / p.denominator) if p else -mp.inf
                assert mine == expected or abs(mine - expected) <= 2e-14 * abs(expected)


@pytest.mark.parametrize("uniform", UNIFORM)
@pytest.mark.parametrize(("teachers", "classes"), SMALL)
def test_epsilon_is_the_largest_loss_of_all_adjacent_pairs_rounded_up(
    teachers: int, classes: int, uniform: float
) -> None:
    ratios = [
        p / q
        for one, two in worlds(teachers, classes)
        for p, q in zip(drawn(one, classes, uniform), drawn(two, classes, uniform), strict=True)
    ]
    stated = RandomBallot(uniform).epsilon(teachers, classes)
    with mp.workdps(60):
        largest = mp.log(mp.mpf(max(ratios).numerator) / max(ratios).denominator)
        assert min(ratios) == 1 / max(ratios)
        assert largest <= stated <= largest * (1 + 1e-14)


@pytest.mark.parametrize("uniform", UNIFORM[:-1])
@pytest.mark.parametrize(("teachers", "classes"), SMALL)
def test_exact_divergences_are_the_worst_of_all_adjacent_pairs(teachers: int, classes: int, uniform: float) -> None:
    """And none is above the curve of the theorem, which holds for all votes."""
    mechanism = RandomBallot(uniform)
    brute: dict[tuple[int, ...], np.ndarray] = {}
    for one, two in worlds(teachers, classes):
        p, q = (np.array([float(mp.log(x.numerator) - mp.log(x.denominator)) for x in drawn(vote, classes, uniform)])
                for vote in (one, two))  # fmt: skip
        curves = [np.log(np.exp(np.outer(ORDERS, a) - np.outer(ORDERS - 1, b)).sum(1)) / (ORDERS - 1)
                  for a, b in ((p, q), (q, p))]  # fmt: skip
        brute[one] = np.maximum(brute.get(one, np.zeros((2, len(ORDERS)))), curves)
    for vote, curves in brute.items():
        got = ExactDivergence(counted(vote, classes), mechanism.neighbours).directions([1], ORDERS).per_query[0]
        np.testing.assert_allclose(got, curves, rtol=1e-8, atol=1e-13)
        assert np.all(got <= mechanism.per_query_cost(teachers, classes).answer(ORDERS) * (1 + 1e-9))


@pytest.mark.parametrize("source", [np.random.default_rng(1), Entropy()], ids=["seeded", "release"])
@pytest.mark.parametrize("uniform", [0.0, 0.25, 1.0])
def test_frequencies_follow_the_probabilities(uniform: float, source: Entropy) -> None:
    counts, draws = [12, 0, 5, 3], 40_000
    labels = RandomBallot(uniform).release(Votes(np.repeat([counts], draws, axis=0)), source)
    expected = draws * np.array([float(p) for p in drawn((0,) * 12 + (2,) * 5 + (3,) * 3, 4, uniform)])
    observed, possible = np.bincount(labels, minlength=4), expected > 0
    assert observed[~possible].sum() == 0
    assert chisquare(observed[possible], expected[possible]).pvalue > 1e-6


def test_bounds_are_those_of_pure_composition_and_hold_for_a_release() -> None:
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, size=(20, 50)), 3)
    mechanism = RandomBallot(0.3)
    found = {(b.accountant, b.kind, b.conversion.value): b.epsilon for b in mechanism.bounds(votes, [50], 1e-5)}
    assert found["pld", Kind.WORST_CASE, "none"] == independent.pure_composition(mechanism.epsilon(20, 3), 50, 1e-5)
    assert found["pld", Kind.WORST_CASE, "none"] < found["rdp", Kind.WORST_CASE, "tight"]
    assert found["exact-per-teacher", Kind.DATA_DEPENDENT, "tight"] <= found["rdp", Kind.WORST_CASE, "tight"]
    released = mechanism.bounds(votes, [50], 1e-5, discrete=True)
    assert {(b.accountant, b.kind, b.conversion.value): b.epsilon for b in released}.items() <= found.items()
    assert {b.accountant for b in released} == {"pld", "rdp"}
    assert all(b.publishable and "drawn exactly" in b.source for b in released)


def test_without_uniform_ballots_nothing_is_private_and_with_nothing_else_everything_is() -> None:
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, size=(20, 50)), 3)
    found = RandomBallot(0.0).bounds(votes, [1, 50], 1e-5)
    assert {bound.epsilon for bound in found if bound.kind is Kind.WORST_CASE} == {np.inf}
    worst = [bound for bound in RandomBallot(1.0).bounds(votes, [50], 1e-5) if bound.accountant == "pld"]
    assert [bound.epsilon for bound in worst] == [0.0]


@pytest.mark.parametrize("uniform", [-0.1, 1.1, np.nan])
def test_a_probability_is_one(uniform: float) -> None:
    with pytest.raises(PatebenchError, match=r"uniform = .* is out of range"):
        RandomBallot(uniform)
