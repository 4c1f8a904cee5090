"""`patebench calibrate`: never over the target, next to it, and the costs of our notes."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from patebench.accounting import independent
from patebench.accounting.votes import Votes
from patebench.calculator.calculations import MOST_QUERIES, solve, worst_case
from patebench.calculator.show import as_json
from patebench.cli import cli
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import make_mechanism

DELTA = 1e-5
TOLERANT = {"sigma": 10.0, "tolerance": 0.0}
LOCAL = {"unbiased": 1.0, "participation": 1.0, "spread": 1.0}
SCREEN = {"threshold": 200.0, "sigma1": 40.0}


@pytest.mark.parametrize(("queries", "sigma"), [(100, 50.0), (200, 80.0), (286, 80.0), (1000, 40.0), (9000, 200.0)])
def test_noise_and_queries_are_found_again(queries, sigma):
    """By the exact cost of a Gaussian, with μ = √(2T)/σ, computed apart from mechanisms and accountants.

    Immutable GNMax without its constant is charged that.
    """
    rest = {"c": 0.0, "distance": 0.0}
    epsilon = independent.gaussian_dp(math.sqrt(2 * queries) / sigma, DELTA)
    assert solve("immutable-gnmax", rest, epsilon, DELTA, queries).parameters["sigma"] == pytest.approx(sigma, rel=1e-8)
    more = independent.gaussian_dp(math.sqrt(2 * queries + 1) / sigma, DELTA)
    assert solve("immutable-gnmax", {**rest, "sigma": sigma}, more, DELTA).queries == queries


def test_pure_privacy_by_hand():
    """At a tiny δ ε-DP is all there is to know of a query to permute-and-flip, and 2γ-DP almost all of LNMax."""
    found = solve("permute-and-flip", {}, 0.5, 1e-12, 1)
    assert found.parameters["epsilon"] == pytest.approx(0.5, rel=1e-9)
    assert found.bounds[0].accountant == "pld"
    assert solve("permute-and-flip", {"epsilon": 0.1}, 4.308, DELTA).queries == 100  # the notes: 4.31
    assert solve("lnmax", {}, 0.5, 1e-12, 1).parameters["gamma"] == pytest.approx(0.25, rel=1e-3)


@pytest.mark.slow
@settings(max_examples=3)
@given(st.sampled_from(["lnmax", "gnmax"]), st.floats(1, 20), st.sampled_from([1e-3, 1e-5]), st.integers(1, 9))
def test_the_target_is_kept_and_reached(name, epsilon, delta, queries):
    found = solve(name, {}, epsilon, delta, queries)
    reached = found.bounds[0].epsilon
    assert reached <= epsilon
    # Less noise exceeds the target. ε may jump there, where another bound begins to hold.
    less = {key: value * (0.999 if name == "gnmax" else 1.001) for key, value in found.parameters.items()}
    assert worst_case(make_mechanism(name, less), queries, delta)[0].epsilon > epsilon
    again = solve(name, found.parameters, reached, delta)
    assert again.queries == queries
    assert again.bounds[0].epsilon <= epsilon
    assert worst_case(make_mechanism(name, found.parameters), queries + 1, delta)[0].epsilon > reached


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameter"), [("gnmax", "sigma"), ("lnmax", "gamma")])
def test_what_is_printed_keeps_the_target_too(name, parameter):
    said = run("--mechanism", name, "--epsilon", 2, "--queries", 5)
    assert said.exit_code == 0
    value = float(said.output.split(f"{name} {parameter} = ")[1].split()[0])
    exact = solve(name, {}, 2.0, DELTA, 5).parameters[parameter]
    assert value == pytest.approx(exact, rel=1e-5)
    assert (value >= exact) is (name == "gnmax")
    assert worst_case(make_mechanism(name, {parameter: value}), 5, DELTA)[0].epsilon <= 2.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "given_", "size"),
    [("lnmax", {}, {}), ("confident-gnmax", SCREEN, {}), ("distributed-gnmax", {"tolerance": 5.0}, {"teachers": 100})],
)
def test_what_is_calibrated_for_a_release_is_stated_by_it(name, given_, size):
    found = solve(name, given_, 2.0, DELTA, 5, **size, release=True)
    votes = Votes.of(np.zeros((100, 5), int), 3)
    stated = make_mechanism(name, found.parameters).bounds(votes, [5], DELTA, discrete=True)
    assert found.released == found.bounds[0]
    assert 1.998 < min(bound.epsilon for bound in stated) == found.released.epsilon <= 2
    assert solve(name, found.parameters, 2.0, DELTA, **size, release=True).queries == 5


@pytest.mark.slow
def test_without_release_it_says_what_a_release_would_state():
    words = ("--mechanism", "gnmax", "--epsilon", 3, "--queries", 1)  # little noise, where the discrete one costs more
    found = json.loads(run(*words, "--json").stdout)
    exact = solve("gnmax", {}, 3.0, DELTA, 1)
    assert found == json.loads(as_json(exact))
    assert (found["queries"], found["target"], found["solved"], found["release"]) == (1, 3.0, "sigma", False)
    assert exact.bounds[0].accountant == "gdp"
    assert exact.released.epsilon > 3.001
    said = " ".join(run(*words).output.split())
    assert "Nothing to publish with labels drawn from a seed or with continuous noise" in said
    assert "(pld) in the worst case, above the target; add --release to calibrate for them." in said
    said = run(*words, "--release")
    assert "To publish, with labels drawn by --release: ε = 3.0000 (pld)" in said.output
    assert json.loads(run(*words, "--release", "--json").stdout)["release"]


def run(*words):
    return CliRunner().invoke(cli, ["calibrate", "--delta", str(DELTA), *map(str, words)])


def test_more_queries_than_anybody_asks():
    found = solve("gnmax", {"sigma": 1e9}, 1.0, DELTA)
    assert found.queries == MOST_QUERIES
    assert "at least 1,000,000 queries" in run("--mechanism", "gnmax", "--sigma", 1e9, "--epsilon", 1).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gnmax", {"sigma": 1.0}, 0.5, DELTA), "a single query already costs ε = "),
        (("gnmax", {"sigma": 1.0}, 0.5, DELTA, 10), r"nothing is left to find; leave out one"),
        (
            ("gnmax", {}, 0.5, DELTA),
            "lacks its parameter 'sigma'; give its value, or give the number of queries",
        ),
        (("gnmax", {"sigm": 1.0}, 0.5, DELTA), "did you mean 'sigma'"),
        (("gnmax", {"sigm": 1.0}, 0.5, DELTA, 10), "did you mean 'sigma'"),
        (
            ("confident-gnmax", {"sigma1": 1.0, "sigma2": 1.0}, 0.5, DELTA, 10),
            "ε does not depend on this parameter",
        ),
        (
            ("confident-gnmax", {"threshold": 1.0, "sigma1": 1.0}, 0.5, DELTA, 10),
            "sigma2 .* is too small: ε is at least",
        ),
        (("sparse-gnmax", {"sigma": 20.0}, 1.0, DELTA, 10), "'k' of 'sparse-gnmax' is a whole number"),
        (("stable-argmax", {"failure": 1e-4}, 1.0, DELTA, 10), "infinite whatever the value of this parameter"),
        (("gnmax", {}, 0.0, DELTA, 10), "ε = 0.0"),
        (("gnmax", {}, math.inf, DELTA, 10), "ε = inf"),
        (("gnmax", {}, 1.0, 0.0, 10), "δ = 0.0"),
        (("exponential", {"epsilon": 0.1}, 1.0, DELTA, None, None, None, True), "supports no discrete noise"),
        (("distributed-gnmax", TOLERANT, 2.0, DELTA), "depends on the number of teachers; add --teachers"),
        (("truncated-geometric", LOCAL, 1.0, DELTA, 1), "depends on the number of classes; add --classes"),
    ],
)
def test_impossible_targets_are_one_line(arguments, message):
    with pytest.raises(PatebenchError, match=message) as fault:
        solve(*arguments)
    assert "\n" not in str(fault.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_can_be_calibrated_for_queries(name):
    parameters = MECHANISMS.load(name).example
    least = worst_case(make_mechanism(name, parameters), 5, DELTA, classes=10, teachers=30)[0].epsilon
    assert np.isfinite(least)
    assert solve(name, parameters, least, DELTA, classes=10, teachers=30).queries >= 5


def test_the_less_noise_each_teacher_adds_the_less_is_their_sum_a_discrete_gaussian():
    few, some, many = (
        solve("distributed-gnmax", TOLERANT, 2.0, DELTA, teachers=teachers).queries for teachers in (10, 20, 150)
    )
    assert few == some > many > 0


@pytest.mark.parametrize("classes", [2, 10])
def test_two_votes_of_truncated_geometric_noise_differ_by_one_step_less_than_there_are_classes(classes):
    found = solve("truncated-geometric", LOCAL, 0.9, 1e-15, 1, classes)
    assert found.parameters["epsilon"] == pytest.approx(0.9 * classes / (classes - 1), rel=1e-9)
