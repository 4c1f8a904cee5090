"""Audits of tables: pairs that differ in one row, and an exact ε slightly below the stated one."""

import json
from functools import partial

import numpy as np
import pytest

from patebench.accounting import independent
from patebench.accounting.votes import UNIT
from patebench.audit.audit_text import render
from patebench.audit.runs import AuditSetting
from patebench.audit.table_audit import TableAudit, least_epsilon, table_pairs, weighted_pairs
from patebench.audit.verdict import run_audit
from patebench.core import seeds
from patebench.core.bound import Adjacency
from patebench.mechanisms.base import make_mechanism
from patebench.mechanisms.noise import Gaussian, Laplace
from patebench.mechanisms.sparse_argmax import SparseGNMax

DELTA = 1e-5


@pytest.mark.parametrize(("teachers", "queries", "k"), [(1, 1, 1), (5, 3, 1), (4, 70, 2), (3, 5, 9)])
def test_worlds_differ_in_one_row_and_each_is_another(teachers, queries, k):
    found = table_pairs(teachers, 3, queries, k)
    assert len({world.words for world in found}) == len(found)
    for world in found:
        here, there = world.here.matrix, world.there.matrix
        assert np.flatnonzero((here != there).any(axis=1)).tolist() == [0]
        assert here.shape == (teachers, min(queries, 50))
        assert world.padded(queries).queries == queries
    assert any((world.here.matrix[0] >= 0).sum() > k for world in found) or k >= queries


@pytest.mark.parametrize(("teachers", "queries", "k"), [(1, 1, 1), (5, 3, 1), (4, 70, 2), (3, 5, 9)])
def test_worlds_of_weighted_votes_differ_in_one_teacher_by_up_to_the_largest_distance(teachers, queries, k):
    found, mechanism = weighted_pairs(teachers, 3, queries, k), SparseGNMax(k, 1.0)
    longer = set()
    for world in found:
        sides = [votes.weighted for votes in (world.here, world.there)]
        for name in ("weights", "labels", "teachers"):
            one, other = (getattr(side, name)[side.teachers > 0] for side in sides)
            assert np.array_equal(one, other)
        assert world.here.queries == min(queries, 50)
        assert world.padded(queries).queries == queries
        assert np.array_equal(world.padded(queries).counts[: world.here.queries], world.here.counts)
        longer.add(int(np.square(sides[0].weights[sides[0].teachers == 0]).sum()) > k * UNIT**2)
    assert longer == {False, True}
    apart = [np.square(mechanism.counts(world.here) - mechanism.counts(world.there)).sum() for world in found]
    assert 0.999 * 4 * k * UNIT**2 < max(apart) <= 4 * k * UNIT**2


def test_the_epsilon_of_a_replaced_label_is_nearly_reached_by_a_pair():
    streams = partial(seeds.generator, 0, "tables")
    setting = AuditSetting("sparse-gnmax", SparseGNMax(1, 3.0), 4, 3, DELTA, 1000, 0.99, streams)
    assert TableAudit(**vars(setting)).label_pairs(5) == []
    audit = TableAudit(**vars(setting)).with_weights()
    for pair in audit.label_pairs(5):
        (stated,) = (each for each in audit.mechanism.bounds(pair.padded(9), [9], DELTA) if each.accountant == "gdp")
        assert stated.adjacency == Adjacency.REPLACE_LABEL
        assert 0.999 * stated.epsilon <= audit.exact(pair) <= stated.epsilon
    assert len(audit.label_pairs(5)) == 2


def test_epsilon_of_gaussian_cells_is_that_of_their_distance():
    moved = np.array([[1, -1], [0, 2]])
    found = least_epsilon(Gaussian(3.0), moved, DELTA)
    exact = independent.gaussian_dp(np.sqrt(6) / 3, DELTA)
    assert exact * (1 - 1e-6) <= found <= exact


@pytest.mark.parametrize(("cells", "gamma"), [(1, 0.3), (2, 0.7), (8, 0.2)])
def test_epsilon_of_laplace_cells_is_a_lower_bound_by_sampling(cells, gamma):
    """δ at that ε, of as many cells, is at least δ: from a million draws of the loss |z − 1| − |z|."""
    delta = 1e-2
    moved = np.concatenate([np.ones(cells, int), np.zeros(3, int)])[None]
    found = least_epsilon(Laplace(1 / gamma), moved, delta)
    z = np.random.default_rng(0).laplace(scale=1 / gamma, size=(1_000_000 // cells, cells))
    loss = gamma * (np.abs(z - 1) - np.abs(z)).sum(axis=1)
    at_found = np.maximum(1 - np.exp(found - loss), 0)
    error = at_found.std() / np.sqrt(len(loss))
    assert at_found.mean() + 5 * error >= delta
    assert found <= cells * gamma
    assert found >= 0.9 * independent.pure_composition(gamma, cells, delta) - 0.05


def test_no_noise_hides_nothing_and_no_change_needs_no_noise():
    assert least_epsilon(Gaussian(0.0), np.array([[1, 0]]), DELTA) == np.inf
    assert least_epsilon(Gaussian(0.0), np.array([[0, 0]]), DELTA) == 0
    assert least_epsilon(Laplace(2.0), np.array([[0, 0]]), DELTA) == 0


@pytest.mark.slow
def test_the_difference_of_votes_is_described(monkeypatch):
    monkeypatch.setattr(TableAudit, "release_tallies", lambda *given: [])
    mechanism = make_mechanism("sparse-gnmax", {"k": 1, "sigma": 2.0})
    streams = partial(seeds.generator, 0, "tables")
    found = run_audit(AuditSetting("sparse-gnmax", mechanism, 4, 3, DELTA, 1000, 0.99, streams), [5])
    finding = json.loads(json.dumps(found.to_json()))["findings"][1]
    assert finding["pair"]["words"].startswith("one teacher's")
    shown = "\n".join(str(part) for part in render(found).renderables)
    assert "on D and on D′: one teacher's" in shown
    (gdp,) = (each for each in finding["bounds"] if each["accountant"] == "gdp")
    assert (1 - 1e-6) * gdp["epsilon"] <= gdp["audited"] <= gdp["epsilon"]
    assert "weighted" not in json.loads(json.dumps(found.to_json()))["findings"][0]
    (weighted,) = (each for each in finding["weighted"]["bounds"] if each["accountant"] == "gdp")
    assert (1 - 1e-6) * weighted["epsilon"] <= weighted["audited"] <= weighted["epsilon"]
    assert weighted["epsilon"] > 1.3 * gdp["epsilon"]
    assert "Votes with weights: ε ≥ " in shown
