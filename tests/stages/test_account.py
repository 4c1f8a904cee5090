"""Test the stage `account`: bounds, curves, and only bounds that are valid for the labels."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.stages.labels import bounds_of, draw_release, release_labels, write_votes

from patebench.accounting.sanitised import seeded
from patebench.artefacts.reading import read_votes
from patebench.core import files, formats
from patebench.core.bound import Bound, points
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.mechanisms.base import make_mechanism

CONFIDENT = {"threshold": 15.0, "sigma1": 8.0, "sigma2": 5.0}
SEEDED = {"seed": 0, "stream": "s"}


@pytest.fixture
def votes_path(tmp_path):
    return write_votes(tmp_path / "votes.npz", np.random.default_rng(0).integers(0, 4, size=(30, 60)))


def test_it_writes_the_bounds_of_the_mechanism(votes_path, tmp_path):
    labels = release_labels(votes_path, "lnmax", {"gamma": 0.1}, tmp_path / "labels.npz", **SEEDED)
    written = bounds_of(votes_path, labels, [60, 20], **SEEDED)
    source, votes = read_votes(votes_path)
    expected = make_mechanism("lnmax", {"gamma": 0.1}).bounds(votes, [20, 60], 1e-5, seeded(0, "s"))
    for record, bound in zip(written["bounds"], expected, strict=True):
        found = Bound.from_json(record)
        assert replace(found, epsilon=0.0, order=None) == replace(bound, epsilon=0.0, order=None, publishable=False)
        assert found.epsilon == pytest.approx(bound.epsilon, rel=1e-6)  # more T, more orders tried
    facts = {"votes": source.digest, "labels": files.read_arrays(labels, formats.LABELS).digest}
    facts |= {"mechanism": "lnmax", "parameters": {"gamma": 0.1}, "queries": [20, 60], "delta": 1e-5}
    assert facts.items() <= written.items()
    assert "are not a release and no ε of this file may be published for them" in written["statement"]
    assert not any(curve["publishable"] for curve in written["curves"])


def _epsilons(bounds):
    return {(bound.accountant, bound.kind, bound.conversion, bound.queries): bound.epsilon for bound in bounds}


def test_curves_run_through_the_bounds_and_draw_nothing(votes_path, tmp_path):
    labels = release_labels(votes_path, "confident-gnmax", CONFIDENT, tmp_path / "labels.npz", **SEEDED)
    written = bounds_of(votes_path, labels, [60, 20], **SEEDED)
    stated = _epsilons(Bound.from_json(record) for record in written["bounds"])
    along = _epsilons(bound for curve in written["curves"] for bound in points(curve))
    assert {T for *_, T in along} == {1, 3, 8, 22, 60, 20}, "evenly spaced on a logarithmic scale, and those stated"
    apart = {name for name, *_ in stated} - {name for name, *_ in along}
    assert apart == {"rdp-sanitised", "rdp-sanitised-optimised"}
    assert stated == {key: along.get(key, epsilon) for key, epsilon in stated.items()}
    _, votes = read_votes(votes_path)
    alone = _epsilons(make_mechanism("confident-gnmax", CONFIDENT).bounds(votes, [8], 1e-5))
    assert {key: along[key] for key in alone} == pytest.approx(alone, rel=1e-6)


def test_infinite_numbers_are_written_in_strict_json(votes_path, tmp_path):
    silent = release_labels(votes_path, "gnmax", {"sigma": 0.0}, tmp_path / "silent.npz", **SEEDED)
    bounds_of(votes_path, silent, [1], **SEEDED)
    assert {each["epsilon"] for each in json.loads((tmp_path / "silent.json").read_text())["bounds"]} == {"inf"}
    sharp = release_labels(votes_path, "lnmax", {"gamma": np.inf}, tmp_path / "sharp.npz", **SEEDED)
    assert bounds_of(votes_path, sharp, [1], **SEEDED)["parameters"] == {"gamma": "inf"}


def test_a_release_costs_what_all_its_labels_cost(tmp_path):
    """State ε of all 400 labels at σ = 40, not 0.4233, the ε of ten."""
    votes = write_votes(tmp_path / "votes.npz", np.ones((250, 400)))
    labels = draw_release(votes, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz")
    with pytest.raises(ArtefactError, match=r"of 400 queries are published together, .* but --queries is 10"):
        bounds_of(votes, labels, [10])
    with pytest.raises(ArtefactError, match="only for labels of rounds; leave --selected out"):
        bounds_of(votes, labels, selected=[tmp_path / "queries.npz"])
    with pytest.raises(PatebenchError, match="sanitised bounds of a release need secret noise"):
        bounds_of(votes, labels, **SEEDED)
    held = files.read_arrays(labels, formats.LABELS)
    budget = {"epsilon": 0.5, "delta": 1e-5, "asked": 2}
    files.write_arrays(tmp_path / "said.npz", formats.LABELS, held.arrays, {**held.meta, "budget": budget})
    with pytest.raises(ArtefactError, match=r"that its budget of ε = 0\.5 allows"):
        bounds_of(votes, tmp_path / "said.npz")
    assert not list(tmp_path.glob("*.json"))
    content = bounds_of(votes, labels)
    assert content["mode"] == "release"
    bounds = [Bound.from_json(each) for each in content["bounds"]]
    assert {bound.accountant for bound in bounds} == {"label", "pld", "rdp"}, "what holds for discrete noise"
    assert {bound.queries for bound in bounds} == {400}
    # Exact ε of two tied classes (Gaussian differential privacy of the label's sign): no bound may be smaller.
    assert 2.2 < min(bound.epsilon for bound in bounds if bound.publishable) <= 3.19


@pytest.mark.slow
def test_all_releases_together_are_stated_beside_each(tmp_path):
    votes_path = write_votes(tmp_path / "votes.npz", np.ones((30, 5)))
    ledger = {"ledger": tmp_path / "ledger"}
    limit = {**ledger, "ledger_budget": 50.0, "ledger_delta": 1e-5}

    def stated(labels, **more):
        return {bound["accountant"]: bound for bound in bounds_of(votes_path, labels, **{**ledger, **more})["bounds"]}

    first = draw_release(votes_path, "gnmax", {"sigma": 20.0}, tmp_path / "a.npz", **limit)
    alone = bounds_of(votes_path, first, **ledger)
    labels = draw_release(votes_path, "gnmax", {"sigma": 20.0}, tmp_path / "b.npz", **limit)
    assert bounds_of(votes_path, first, **ledger) == alone, "the bounds depend on later releases"
    assert stated(first)["ledger"] == stated(labels)["ledger"]
    both = stated(labels)["ledger"]
    assert (both["epsilon"], both["publishable"]) == (50.0, True)
    assert "the limit of all draws in the ledger, for one teacher’s whole shard" in both["source"]
    kept = stated(labels, delta=1e-6)
    assert (kept["ledger"]["epsilon"], kept["ledger"]["delta"], kept["label"]["delta"]) == (50.0, 1e-5, 1e-6)
    assert kept["ledger"]["publishable"]
    # The total of a ledger with other releases of the same data would be too small.
    draw_release(votes_path, "gnmax", {"sigma": 20.0}, tmp_path / "e.npz", ledger=tmp_path / "other")
    for folder in ("elsewhere", "other"):
        with pytest.raises(ArtefactError, match="this ledger has no entry for the release"):
            stated(labels, ledger=tmp_path / folder)
