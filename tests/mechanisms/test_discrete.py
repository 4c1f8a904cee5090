"""Discrete noise: labels agree with exact sums, and only worst-case curves that are valid for it are stated."""

import itertools

import numpy as np
import pytest
from tests.accounting.oracles import hockey_stick, neighbours, p_value, renyi, winners

from patebench.accounting import conversion, independent
from patebench.accounting.accountant import Accountant
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import Mechanism, check_releasable, cost_per_query, make_mechanism
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.noise_shares import DistributedGNMax
from patebench.mechanisms.noisy_argmax import GNMax, LNMax

DRAWS = 8_000
NOISY = [LNMax(0.3), LNMax(2.0), GNMax(0.8), GNMax(4.0)]


def outcomes(mechanism, counts):
    """Return the exact Pr of each label."""
    x = np.arange(-120, 121)
    weights = np.exp(-np.abs(x) * mechanism.gamma if isinstance(mechanism, LNMax) else -(x**2) / 2 / mechanism.sigma**2)
    return winners(counts, weights / weights.sum())


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", NOISY, ids=str)
def test_labels_follow_the_exact_sums(mechanism):
    counts = [5, 5, 4, 1]
    labels = mechanism.release(Votes(np.tile(counts, (DRAWS, 1))), Entropy())
    expected = DRAWS * outcomes(mechanism, counts)
    assert expected.sum() == pytest.approx(DRAWS, rel=1e-9)
    observed = np.bincount(labels, minlength=4)
    assert observed[expected <= 10].sum() < 60
    assert p_value(observed, expected) > 1e-7
    if mechanism in (LNMax(2.0), GNMax(0.8)):  # little noise, many ties: the highest class would win more often
        assert p_value(observed, DRAWS * outcomes(mechanism, counts[::-1])[::-1]) < 1e-9


@pytest.mark.parametrize("mechanism", NOISY, ids=str)
@pytest.mark.parametrize("counts", [[5, 4, 2], [4, 5, 2], [2, 2, 2], [0, 0, 6]], ids=str)
def test_worst_case_curves_hold_for_labels_whichever_class_wins_ties(mechanism, counts):
    """Every neighbour, classes in every order: ties make them unlike."""
    orders, own = np.array([1.5, 3.0, 10.0]), np.log(outcomes(mechanism, counts))
    others = np.log([outcomes(mechanism, neighbour) for neighbour in neighbours(counts)])
    worst = np.max([renyi(own, others, orders), renyi(others, own, orders)], axis=(0, 1))
    assert np.all(worst > 0)
    assert np.all(worst <= mechanism.per_query_cost(30, 3).answer(orders))


@pytest.mark.parametrize("sigma", [0.5, 0.8, 4.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-4])
def test_the_privacy_loss_holds_for_labels_of_adaptive_queries(sigma, delta):
    """Two queries, the second chosen by the first label; the teacher moves its vote in both, in one, or in none."""
    mechanism, counts = GNMax(sigma), np.array([[3, 3, 2], [4, 2, 2], [2, 3, 3], [1, 1, 6]])
    (stated,) = (b for b in mechanism.bounds(Votes(counts[:2]), [2], delta, discrete=True) if b.accountant == "pld")
    moves = [np.zeros(3, int)] + [
        np.eye(3, dtype=int)[b] - np.eye(3, dtype=int)[a] for a, b in ((0, 1), (1, 0), (0, 2))
    ]
    laws = {(i, k): outcomes(mechanism, counts[i] + move) for i in range(4) for k, move in enumerate(moves)}
    closest = 0.0
    for first, *then in itertools.product(range(4), repeat=4):
        p, q = (
            np.concatenate([laws[0, ks[0]][j] * laws[1 + j, ks[1 + j]] for j in range(3)])
            for ks in ((0, 0, 0, 0), (first, *then))
        )
        for one, other in ((p, q), (q, p)):
            closest = max(closest, hockey_stick(one, other, stated.epsilon))
    assert closest <= delta


@pytest.mark.parametrize(
    "mechanism", [GNMax(40.0), ConfidentGNMax(200, 150, 40), DistributedGNMax(40.0, 5)], ids=lambda made: type(made)
)
def test_a_release_states_what_continuous_noise_would_cost(mechanism):
    """Fine lattices make no visible difference, and many shares are equivalent to one party's noise."""
    votes = Votes.of(np.zeros((100, 286), int), 3)
    stated = {b.accountant: b.epsilon for b in mechanism.bounds(votes, [286], 1e-5, discrete=True)}
    squared = 2 * 286 / 40**2 + (286 / 150**2 if isinstance(mechanism, ConfidentGNMax) else 0)
    smooth = independent.gaussian_dp(np.sqrt(squared), 1e-5)
    assert smooth * (1 - 1e-6) <= stated["pld"] <= smooth * (1 + 4e-6) < 0.95 * stated["rdp"]


def test_an_accountant_says_nothing_of_discrete_noise_unless_it_declares_to():
    assert Accountant.__dataclass_fields__["discrete"].default is None
    votes = Votes.of(np.random.default_rng(0).integers(0, 3, size=(9, 20)), classes=3)
    names = {}
    for mechanism in (LNMax(0.1), GNMax(5.0), ConfidentGNMax(5, 5, 5)):
        found = mechanism.bounds(votes, [20], 1e-5, discrete=True)
        assert {bound.kind for bound in found} == {Kind.WORST_CASE}
        assert all("discrete noise: " in bound.source and bound.publishable for bound in found)
        names[type(mechanism)] = {bound.accountant for bound in found}
    gaussian = {"label", "pld", "rdp"}  # not "gdp": Gaussian differential privacy is that of continuous noise
    laplace = {"label", "strong-composition", "pld", "moments", "moments-unrestricted", "rdp"}
    assert names == {LNMax: laplace, GNMax: gaussian, ConfidentGNMax: gaussian}


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_that_says_so_can_be_released(name):
    """With labels, a bound that may be published, and costs that this bound agrees with."""
    mechanism, votes = (
        make_mechanism(name, MECHANISMS.load(name).example),
        Votes.of(np.arange(90).reshape(30, 3) % 4, classes=4),
    )
    if not mechanism.discrete:
        with pytest.raises(PatebenchError, match="supports no discrete noise"):
            check_releasable(name, type(mechanism))
        return
    assert mechanism.release(votes, Entropy()).shape == (3,)
    stated = mechanism.bounds(votes, [3], 1e-5, discrete=True)
    least = min(b.epsilon for b in stated if b.conversion == "tight")
    assert all(bound.publishable for bound in stated)
    if type(mechanism).per_query_cost is Mechanism.per_query_cost:
        assert not mechanism.independent_queries, "one decision for all queries has no cost for each"
        return
    orders = 1 + np.geomspace(0.01, 1e6, 20_001)
    paid = conversion.tight(orders, 3 * cost_per_query(name, mechanism, 30, 4).both(orders), 1e-5).min()
    assert least * (1 - 1e-3) <= paid <= least * 1.02  # a label's cost holds for continuous noise as well
