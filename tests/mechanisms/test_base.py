"""Parameters, names and ranges of mechanisms."""

import math

import numpy as np
import pytest

from patebench.accounting.votes import Votes
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import NO_ANSWER, Mechanism, make
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.gnmax import GNMax
from patebench.mechanisms.lnmax import LNMax
from patebench.reporting.collect import expected_label_accuracy

PARAMETERS = {
    "lnmax": {"gamma": 0.05},
    "gnmax": {"sigma": 40.0},
    "confident-gnmax": {"threshold": 10.0, "sigma1": 5.0, "sigma2": 40.0},
    "immutable-lnmax": {"c": 5.0, "gamma": 0.2, "distance": 0.0},
    "immutable-gnmax": {"c": 5.0, "sigma": 10.0, "distance": 0.0},
    "truncated-geometric": {"epsilon": 2.0, "unbiased": 1.0, "participation": 0.5, "spread": 4.0},
    "randomised-response": {"epsilon": 1.0, "unbiased": 0.0, "participation": 1.0, "spread": 1.0},
    "exponential": {"epsilon": 0.2},
    "permute-and-flip": {"epsilon": 0.2},
    "stable-argmax": {"epsilon": 6.0, "failure": 1e-6},
    "stable-svt": {"epsilon": 500.0, "failure": 1e-6, "cutoff": 40.0},
    "stable-svt-gaussian": {"sigma1": 0.3, "sigma2": 0.4, "failure": 1e-6, "cutoff": 30.0},
    "distributed-gnmax": {"sigma": 10.0, "tolerance": 3.0},
    "interactive-gnmax": {"threshold": 10.0, "sigma1": 5.0, "sigma2": 40.0, "confidence": 0.9},
}


@pytest.fixture(params=MECHANISMS)
def mechanism(request):
    return make(request.param, PARAMETERS[request.param])


@pytest.fixture
def votes():
    return Votes.of(np.random.default_rng(0).integers(0, 4, size=(30, 50)), classes=4)


def test_make_gives_the_registered_classes():
    assert make("lnmax", {"gamma": 0.05}) == LNMax(0.05)
    assert make("gnmax", {"sigma": 40}) == GNMax(40.0)
    assert make("confident-gnmax", {"sigma2": 40, "sigma1": 150, "threshold": 200}) == ConfidentGNMax(200, 150, 40)


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
        ("gnmax", {"sigma": 40, "gamma": 1}, "no parameter 'gamma'"),
        ("lnmax", {"gamma": 0}, "gamma = 0 is out of range; it must be above 0"),
        ("lnmax", {"gamma": -0.1}, "must be above 0"),
        ("lnmax", {"gamma": math.nan}, "out of range"),
        ("gnmax", {"sigma": -1}, "must be at least 0"),
        ("confident-gnmax", {"threshold": 200, "sigma1": 150}, "lacks its parameter 'sigma2'"),
        ("confident-gnmax", {"threshold": -1, "sigma1": 150, "sigma2": 40}, "must be at least 0"),
        ("gnmax", {"sigma": "40"}, "not a number"),
        ("gnmax", {"sigma": True}, "not a number"),
    ],
)
def test_wrong_parameters_get_one_line(name, parameters, fault):
    with pytest.raises(PatebenchError, match=fault) as caught:
        make(name, parameters)
    assert "\n" not in str(caught.value)


def test_every_mechanism_keeps_the_interface(mechanism, votes):
    assert isinstance(mechanism, Mechanism)
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
    assert 1 <= mechanism.most_asked(50) <= 50


def test_release_repeats_with_the_seed_and_only_with_it(mechanism, votes):
    first, again, other = (mechanism.release(votes, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_without_outcome_probabilities_nothing_exact_is_said(votes):
    class Unknown(GNMax):
        neighbours = Mechanism.neighbours

        def log_outcome_probabilities(self, votes):
            return None

    with pytest.raises(PatebenchError, match=r"Unknown does not know .* override 'neighbours'"):
        Unknown(4.0).bounds(votes, [50], 1e-5)
    assert expected_label_accuracy(Unknown(4.0), votes, votes.plurality) is None


def test_the_fields_are_frozen(mechanism):
    name = mechanism.parameter_names()[0]
    with pytest.raises(AttributeError):
        setattr(mechanism, name, 1.0)
