"""The stage `account`: the bounds of the mechanism, curves through them, and only what holds for what was drawn."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.stages.labels import FAULTS, random_votes, state_bounds

from patebench.accounting.sanitised_accountant import seeded
from patebench.core import files
from patebench.core.bound import Bound
from patebench.core.curve import points
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import make_mechanism
from patebench.stages.account import spaced
from patebench.stages.reading import read_votes

CONFIDENT = {"threshold": 15.0, "sigma1": 8.0, "sigma2": 5.0}
SEEDED = {"seed": 0, "stream": "s"}


@pytest.fixture
def votes_path(tmp_path):
    return random_votes(tmp_path / "votes.npz")


def test_it_writes_the_bounds_of_the_mechanism(votes_path, tmp_path):
    out = state_bounds(votes_path, "lnmax", {"gamma": 0.1}, [60, 20], tmp_path / "bounds.json", **SEEDED)
    written = files.read_json(out, "account")
    source, votes = read_votes(votes_path)
    expected = make_mechanism("lnmax", {"gamma": 0.1}).bounds(votes, [20, 60], 1e-5, seeded(0, "s"))
    for record, bound in zip(written["bounds"], expected, strict=True):
        found = Bound.from_json(record)
        assert replace(found, epsilon=0.0, order=None) == replace(bound, epsilon=0.0, order=None)
        assert found.epsilon == pytest.approx(bound.epsilon, rel=1e-6)  # more T, more orders tried
    assert written["votes"] == source.digest
    assert (written["mechanism"], written["parameters"]) == ("lnmax", {"gamma": 0.1})
    assert (written["queries"], written["delta"]) == ([20, 60], 1e-5)


def _epsilons(bounds):
    return {(bound.accountant, bound.kind, bound.conversion, bound.queries): bound.epsilon for bound in bounds}


def test_curves_run_through_the_bounds_and_draw_nothing(votes_path, tmp_path):
    out = state_bounds(votes_path, "confident-gnmax", CONFIDENT, [60, 20], tmp_path / "bounds.json", **SEEDED)
    written = files.read_json(out, "account")
    stated = _epsilons(Bound.from_json(record) for record in written["bounds"])
    along = _epsilons(bound for curve in written["curves"] for bound in points(curve))
    assert {T for *_, T in along} == {*spaced(60), 20, 60}
    apart = {name for name, *_ in stated} - {name for name, *_ in along}
    assert apart == {"rdp-sanitised", "rdp-sanitised-optimised"}
    assert stated == {key: along.get(key, epsilon) for key, epsilon in stated.items()}
    _, votes = read_votes(votes_path)
    alone = _epsilons(make_mechanism("confident-gnmax", CONFIDENT).bounds(votes, [spaced(60)[2]], 1e-5))
    assert {key: along[key] for key in alone} == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize(("queries", "held"), [(1, 1), (2, 2), (60, 5), (400, 20), (9000, 37)])
def test_spaced_numbers_of_queries_run_from_one_to_all(queries, held):
    found = spaced(queries)
    assert (found[0], found[-1], len(found)) == (1, queries, held)
    assert found == sorted(set(found))


def test_an_infinite_epsilon_survives_strict_json(votes_path, tmp_path):
    out = tmp_path / "bounds.json"
    state_bounds(votes_path, "gnmax", {"sigma": 0.0}, [1], out, **SEEDED)
    assert {record["epsilon"] for record in json.loads(out.read_text())["bounds"]} == {"inf"}
    state_bounds(votes_path, "lnmax", {"gamma": np.inf}, [1], out, **SEEDED)
    assert files.read_json(out, "account")["parameters"] == {"gamma": "inf"}


@pytest.mark.usefixtures("votes_path")
def test_faults_leave_no_file(tmp_path):
    for votes, mechanism, parameters, fault in FAULTS:
        with pytest.raises(fault):
            state_bounds(tmp_path / votes, mechanism, parameters, [10], tmp_path / "out", **SEEDED)
    assert not (tmp_path / "out").exists()


def test_more_queries_than_the_pool_holds_are_refused(votes_path, tmp_path):
    with pytest.raises(PatebenchError, match="61 queries"):
        state_bounds(votes_path, "gnmax", {"sigma": 1.0}, [61], tmp_path / "out", **SEEDED)


def test_only_what_holds_for_discrete_noise_is_stated_of_a_release(votes_path, tmp_path):
    out = state_bounds(votes_path, "gnmax", {"sigma": 5.0}, [60], tmp_path / "bounds.json", release=True)
    content = files.read_json(out, "account")
    assert content["mode"] == "release"
    assert {bound["accountant"] for bound in content["bounds"]} == {"rdp"}
