"""Parameters, names and ranges of mechanisms."""

import math

import numpy as np
import pytest

from patebench.accounting.votes import Votes
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import (
    NO_ANSWER,
    Mechanism,
    check_adaptive,
    check_releasable,
    cost_per_query,
    make_mechanism,
)
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.noise_shares import DistributedGNMax
from patebench.mechanisms.noisy_argmax import GNMax, LNMax


@pytest.fixture
def votes():
    """Return votes of 100 teachers on 50 queries; their agreement rises from a quarter to almost all."""
    rng = np.random.default_rng(0)
    agree = rng.random((100, 50)) < np.linspace(0, 0.95, 50)
    return Votes.of(np.where(agree, rng.integers(0, 4, 50), rng.integers(0, 4, (100, 50))), classes=4)


def test_every_registered_mechanism_has_an_example():
    for name in MECHANISMS:
        kind = MECHANISMS.load(name)
        assert kind.example, f"{name} has no example; give it one, of parameters for 50 to 250 teachers"
        assert make_mechanism(name, kind.example).parameters() == kind.example


def test_slugs_are_path_components():
    assert LNMax(0.05).slug == "gamma-0.05"
    assert GNMax(40).slug == "sigma-40"
    assert GNMax(1 / 3).slug == "sigma-0.333333333333"
    assert ConfidentGNMax(200, 150, 40).slug == "threshold-200_sigma1-150_sigma2-40"
    assert GNMax(40).parameters() == {"sigma": 40.0}


@pytest.mark.parametrize(
    ("name", "parameters", "fault"),
    [
        ("lnmaxx", {"gamma": 1}, "did you mean 'lnmax'"),
        ("lnmax", {"gama": 1}, "no parameter 'gama'.*did you mean 'gamma'"),
        ("lnmax", {}, "lacks its parameter 'gamma'"),
        ("lnmax", {"gamma": 0}, "gamma = 0 is out of range; it must be above 0"),
        ("lnmax", {"gamma": math.nan}, "out of range"),
        ("gnmax", {"sigma": -1}, "must be at least 0"),
        ("confident-gnmax", {"threshold": 200, "sigma1": 150}, "lacks its parameter 'sigma2'"),
        ("gnmax", {"sigma": "40"}, "not a number"),
        ("sparse-gnmax", {"k": 1.5, "sigma": 2}, r"SparseGNMax: k = 1.5 is not a whole number"),
        ("sparse-gnmax", {"k": math.inf, "sigma": 2}, "k = inf is out of range"),
        ("distributed-sparse-gnmax", {"k": 0, "sigma": 2, "tolerance": 0}, "k = 0 is out of range"),
        ("distributed-gnmax", {"sigma": 5, "tolerance": 2.5}, "tolerance = 2.5 is not a whole number"),
        ("stable-svt", {"epsilon": 1, "failure": 1e-6, "cutoff": math.inf}, "cutoff = inf is not a whole number"),
        (
            "randomised-response",
            {"epsilon": 1, "unbiased": 1e-9, "participation": 1, "spread": 1},
            r"unbiased = .* choose 0",
        ),
        (
            "ptr-gnmax",
            {"order": 8, "cost": 1, "epsilon": 1, "failure": 1e-5, "sigma": 9},
            r"PtrGNMax: cost = 1 at order = 8 gives ε = .* raise 'epsilon'",
        ),
    ],
)
def test_wrong_parameters_get_one_line(name, parameters, fault):
    with pytest.raises(PatebenchError, match=fault) as caught:
        make_mechanism(name, parameters)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_keeps_the_interface(name, votes):
    mechanism = made(name)
    labels = mechanism.release(votes, np.random.default_rng(0))
    assert labels.shape == (50,)
    assert labels.dtype == np.int32
    assert labels.min() >= NO_ANSWER
    assert labels.max() < 4
    log_p = mechanism.log_outcome_probabilities(votes)
    if log_p is not None:
        assert log_p.shape == (50, 5)
        np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-12)
        assert np.all(np.isfinite(log_p[np.arange(50), labels])), "whatever is released was possible"
    assert 1 <= mechanism.most_participation(50) <= 50
    many = votes.at(np.tile(np.arange(votes.queries), 20))
    first, again, other = (mechanism.release(many, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


class Unfit(GNMax):
    discrete = False

    def per_query_cost(self, teachers, classes):
        return None


def made(name):
    return make_mechanism(name, MECHANISMS.load(name).example)


COUNTS = Votes.from_counts(np.array([[3, 1]]))


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (lambda: check_releasable("unfit", Unfit), "'unfit' supports no discrete noise.*lnmax, gnmax"),
        (
            lambda: cost_per_query("unfit", Unfit(3.0), 9, 2),
            "'unfit' has no known worst-case cost per query.* one of: .*gnmax",
        ),
        (lambda: cost_per_query("ptr-gnmax", made("ptr-gnmax"), 9, 2), "has no known worst-case cost per query"),
        (
            lambda: cost_per_query("x", made("sparse-gnmax"), 9, 2),
            "releases the counts of all queries at once, so it cannot stop at",
        ),
        (
            lambda: cost_per_query("x", made("distributed-sparse-gnmax"), 99, 2),
            "releases the counts of all queries at once",
        ),
        (lambda: check_adaptive("ptr-gnmax", made("ptr-gnmax")), "cannot be queried in rounds"),
        (lambda: DistributedGNMax(5.0, 10).needed(10), "tolerance = 10 must be below the number of teachers, 10"),
        (lambda: made("stable-svt").neighbours(np.array([[3, 2]])), "answers each query independently of the others"),
        (lambda: made("sparse-gnmax").release(COUNTS, np.random.default_rng(0)), "only counts are available"),
        (lambda: made("randomised-response").release(COUNTS, np.random.default_rng(0)), "only counts are available"),
        (lambda: Unknown(4.0).bounds(COUNTS, [1], 1e-5), r"Unknown.log_outcome_probabilities .* override 'neighbours'"),
    ],
)
def test_what_a_mechanism_can_not_do_is_one_line(asked, fault):
    with pytest.raises(PatebenchError, match=fault) as caught:
        asked()
    assert "\n" not in str(caught.value)


class Unknown(GNMax):
    neighbours = Mechanism.neighbours

    def log_outcome_probabilities(self, votes):
        return None


def test_a_subclass_is_shown_as_another_mechanism() -> None:
    class Other(GNMax):
        """Mechanism without its own label and style."""

    assert GNMax.shown.label == "GNMax"
    assert not any(Other.shown)
