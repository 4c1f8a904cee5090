"""Test the stage `account`: bounds, curves, and only bounds that are valid for the labels."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from tests.stages.labels import draw_release, random_votes, release_labels, state_bounds, write_votes

from patebench.accounting.sanitised import seeded
from patebench.artefacts.reading import read_votes
from patebench.cli import cli
from patebench.core import files, formats
from patebench.core.bound import Bound, points
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.mechanisms.base import make_mechanism
from patebench.stages.account import spaced_numbers

CONFIDENT = {"threshold": 15.0, "sigma1": 8.0, "sigma2": 5.0}
SEEDED = {"seed": 0, "stream": "s"}


@pytest.fixture
def votes_path(tmp_path):
    return random_votes(tmp_path / "votes.npz")


def test_it_writes_the_bounds_of_the_mechanism(votes_path, tmp_path):
    labels = release_labels(votes_path, "lnmax", {"gamma": 0.1}, tmp_path / "labels.npz", **SEEDED)
    out = state_bounds(votes_path, labels, [60, 20], tmp_path / "bounds.json", **SEEDED)
    written = files.read_json(out, "account")
    source, votes = read_votes(votes_path)
    expected = make_mechanism("lnmax", {"gamma": 0.1}).bounds(votes, [20, 60], 1e-5, seeded(0, "s"))
    for record, bound in zip(written["bounds"], expected, strict=True):
        found = Bound.from_json(record)
        assert replace(found, epsilon=0.0, order=None) == replace(bound, epsilon=0.0, order=None, publishable=False)
        assert found.epsilon == pytest.approx(bound.epsilon, rel=1e-6)  # more T, more orders tried
    assert written["votes"] == source.digest
    assert written["labels"] == files.read_arrays(labels, formats.LABELS).digest
    assert (written["mechanism"], written["parameters"]) == ("lnmax", {"gamma": 0.1})
    assert (written["queries"], written["delta"]) == ([20, 60], 1e-5)
    assert "are not a release and no ε of this file may be published for them" in written["statement"]
    assert not any(curve["publishable"] for curve in written["curves"])


def test_labels_of_the_whole_pool_have_no_rounds(votes_path, tmp_path):
    labels = release_labels(votes_path, "lnmax", {"gamma": 0.1}, tmp_path / "labels.npz", **SEEDED)
    with pytest.raises(ArtefactError, match="not of queries selected in rounds; leave --selected out"):
        state_bounds(votes_path, labels, [60], tmp_path / "bounds.json", selected=[tmp_path / "queries.npz"])


def _epsilons(bounds):
    return {(bound.accountant, bound.kind, bound.conversion, bound.queries): bound.epsilon for bound in bounds}


def test_curves_run_through_the_bounds_and_draw_nothing(votes_path, tmp_path):
    labels = release_labels(votes_path, "confident-gnmax", CONFIDENT, tmp_path / "labels.npz", **SEEDED)
    out = state_bounds(votes_path, labels, [60, 20], tmp_path / "bounds.json", **SEEDED)
    written = files.read_json(out, "account")
    stated = _epsilons(Bound.from_json(record) for record in written["bounds"])
    along = _epsilons(bound for curve in written["curves"] for bound in points(curve))
    assert {T for *_, T in along} == {*spaced_numbers(60), 20, 60}
    apart = {name for name, *_ in stated} - {name for name, *_ in along}
    assert apart == {"rdp-sanitised", "rdp-sanitised-optimised"}
    assert stated == {key: along.get(key, epsilon) for key, epsilon in stated.items()}
    _, votes = read_votes(votes_path)
    alone = _epsilons(make_mechanism("confident-gnmax", CONFIDENT).bounds(votes, [spaced_numbers(60)[2]], 1e-5))
    assert {key: along[key] for key in alone} == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize(("queries", "held"), [(1, 1), (2, 2), (60, 5), (400, 20), (9000, 37)])
def test_spaced_numbers_of_queries_run_from_one_to_all(queries, held):
    found = spaced_numbers(queries)
    assert (found[0], found[-1], len(found)) == (1, queries, held)
    assert found == sorted(set(found))


def test_an_infinite_epsilon_survives_strict_json(votes_path, tmp_path):
    out = tmp_path / "bounds.json"
    silent = release_labels(votes_path, "gnmax", {"sigma": 0.0}, tmp_path / "silent.npz", **SEEDED)
    state_bounds(votes_path, silent, [1], out, **SEEDED)
    assert {record["epsilon"] for record in json.loads(out.read_text())["bounds"]} == {"inf"}
    sharp = release_labels(votes_path, "lnmax", {"gamma": np.inf}, tmp_path / "sharp.npz", **SEEDED)
    state_bounds(votes_path, sharp, [1], out, **SEEDED)
    assert files.read_json(out, "account")["parameters"] == {"gamma": "inf"}


def test_faults_leave_no_file(votes_path, tmp_path):
    labels = release_labels(votes_path, "gnmax", {"sigma": 1.0}, tmp_path / "labels.npz", **SEEDED)
    others = write_votes(tmp_path / "others.npz", np.ones((30, 60)), np.ones((30, 10)))
    short = write_votes(tmp_path / "short.npz", np.ones((30, 59)), np.ones((30, 10)))
    for votes, held in ((tmp_path / "absent.npz", labels), (others, labels), (short, labels), (votes_path, votes_path)):
        with pytest.raises(ArtefactError):
            state_bounds(votes, held, [10], tmp_path / "out", **SEEDED)
    assert not (tmp_path / "out").exists()


def test_only_what_holds_for_discrete_noise_is_stated_of_a_release(votes_path, tmp_path):
    labels = draw_release(votes_path, "gnmax", {"sigma": 5.0}, tmp_path / "labels.npz")
    out = state_bounds(votes_path, labels, [], tmp_path / "bounds.json")
    content = files.read_json(out, "account")
    assert content["mode"] == "release"
    assert {bound["accountant"] for bound in content["bounds"]} == {"label", "pld", "rdp"}


def _released(bounds):
    """Return the smallest publishable ε in `bounds.json`, by number of queries."""
    found = {}
    for bound in map(Bound.from_json, files.read_json(bounds, "account")["bounds"]):
        if bound.publishable:
            found[bound.queries] = min(bound.epsilon, found.get(bound.queries, np.inf))
    return found


def test_a_release_costs_what_all_its_labels_cost_and_fewer_are_refused(tmp_path):
    """State ε of all 400 labels at σ = 40, not 0.4233, the ε of ten."""
    votes = write_votes(tmp_path / "votes.npz", np.ones((250, 400)), np.ones((250, 10)))
    labels = draw_release(votes, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz")
    found = _released(state_bounds(votes, labels, [], tmp_path / "bounds.json"))
    assert set(found) == {400}
    # Exact ε of two tied classes (Gaussian differential privacy of the label's sign): no bound may be smaller.
    assert 2.2 < found[400] <= 3.19
    with pytest.raises(
        ArtefactError, match="labels of 400 queries are published together, so no ε can be stated for 10"
    ):
        state_bounds(votes, labels, [10], tmp_path / "fewer.json")
    assert not (tmp_path / "fewer.json").exists()


def test_no_budget_is_promised_of_labels_that_were_released_without_one(tmp_path):
    """Refuse to state a budget that the labels do not store."""
    votes = write_votes(tmp_path / "votes.npz", np.ones((250, 400)), np.ones((250, 10)))
    labels = draw_release(votes, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz")
    assert _released(state_bounds(votes, labels, [], tmp_path / "bounds.json"))[400] > 2
    words = ["--votes", str(votes), "--labels", str(labels), "--delta", "1e-5", "--out", str(tmp_path / "b.json")]
    assert CliRunner().invoke(cli, ["account", *words, "--budget", "0.1"]).exit_code == 2
    # The same for labels that contradict their metadata.
    held = files.read_arrays(labels, formats.LABELS)
    budget = {"epsilon": 0.5, "delta": 1e-5, "asked": 2}
    files.write_arrays(tmp_path / "said.npz", formats.LABELS, held.arrays, {**held.meta, "budget": budget})
    with pytest.raises(ArtefactError, match=r"that its budget of ε = 0\.5 allows"):
        state_bounds(votes, tmp_path / "said.npz", [], tmp_path / "b.json")


def test_noise_from_a_seed_has_no_place_in_a_release(votes_path, tmp_path):
    labels = draw_release(votes_path, "gnmax", {"sigma": 40.0}, tmp_path / "labels.npz")
    with pytest.raises(PatebenchError, match="sanitised bounds of a release need secret noise"):
        state_bounds(votes_path, labels, [], tmp_path / "bounds.json", **SEEDED)


@pytest.mark.slow
def test_all_releases_together_are_stated_beside_the_last(votes_path, tmp_path):
    limit = {"ledger": tmp_path / "ledger", "ledger_budget": 50.0, "ledger_delta": 1e-5}
    found = []
    for name in ("a", "b"):
        labels = draw_release(votes_path, "gnmax", {"sigma": 20.0}, tmp_path / f"{name}.npz", **limit)
        stated = state_bounds(votes_path, labels, [], tmp_path / f"{name}.json", ledger=tmp_path / "ledger")
        found.append({bound["accountant"]: bound for bound in files.read_json(stated, "account")["bounds"]})
    alone, both = found
    assert "ledger" not in alone
    assert (both["ledger"]["epsilon"], both["ledger"]["publishable"]) == (50.0, True)
    assert "the limit of all draws" in both["ledger"]["source"]
    smaller = state_bounds(votes_path, labels, [], tmp_path / "d.json", delta=1e-6, ledger=tmp_path / "ledger")
    kept = {bound["accountant"]: bound for bound in files.read_json(smaller, "account")["bounds"]}
    assert (kept["ledger"]["epsilon"], kept["ledger"]["delta"], kept["label"]["delta"]) == (50.0, 1e-5, 1e-6)
    assert kept["ledger"]["publishable"]
    with pytest.raises(ArtefactError, match="it does not contain the release"):
        state_bounds(votes_path, labels, [], tmp_path / "c.json", ledger=tmp_path / "elsewhere")
    # A ledger with other releases of the same data is refused too, because its total would be too small.
    draw_release(votes_path, "gnmax", {"sigma": 200.0}, tmp_path / "e.npz", ledger=tmp_path / "other")
    with pytest.raises(ArtefactError, match="it does not contain the release"):
        state_bounds(votes_path, labels, [], tmp_path / "c.json", ledger=tmp_path / "other")
