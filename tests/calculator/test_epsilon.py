"""`patebench epsilon`: the official analyses from a file, one JSON object, a table for people, one line for a fault."""

import json
import math
import re
import sys
from dataclasses import fields

import mpmath as mp
import numpy as np
import pytest
from click.testing import CliRunner
from tests.accounting import test_moments as pate_2017
from tests.accounting import test_rdp as scalable_pate
from tests.refusals import refuses
from tests.stages.labels import write_votes, write_weighted_votes

from patebench.accounting import rdp
from patebench.accounting.conversion import ORDERS
from patebench.accounting.votes import counts as counts_of
from patebench.api import bounds
from patebench.artefacts.reading import read_votes
from patebench.cli import cli, main
from patebench.core.errors import PatebenchError
from patebench.core.files import write_arrays
from patebench.core.formats import VOTES
from patebench.mechanisms import MECHANISMS
from patebench.release.ledger_file import Ledger

DELTA = 1e-5
WITH = ("--mechanism", "lnmax", "--gamma", 0.05, "--delta", DELTA)
GAUSSIAN = ("--mechanism", "gnmax", "--delta", DELTA, "--sigma")


def run(*words):
    return CliRunner().invoke(cli, ["epsilon", *map(str, words)])


def answer(*words):
    said = run(*words, "--json")
    assert said.exit_code == 0, said.output or said.exception
    return json.loads(said.stdout)


def find(found, *wanted):
    """Return the bound with the accountant, the kind and the conversion that are `wanted`."""
    names = ("accountant", "kind", "conversion")
    (bound,) = (bound for bound in found["bounds"] if tuple(bound[name] for name in names) == wanted)
    return bound


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(1)
    shares = rng.dirichlet([40, 1, 1, 0.5, 0.5, 0.2, 0.2, 0.2, 0.2, 0.2], size=60)
    return np.stack([rng.multinomial(250, share) for share in shares])


@pytest.fixture(scope="module")
def file(counts, tmp_path_factory):
    path = tmp_path_factory.mktemp("votes") / "counts.npy"
    np.save(path, counts)
    return path


@pytest.fixture(scope="module")
def everything(file):
    return answer(file, *WITH)


def test_moments_are_the_official_analysis_of_2017(everything, counts):
    """PATE 2017 with the theorem's condition on q, at the published moments."""
    bound = find(everything, "moments", "data_dependent", "classic")
    with mp.workdps(60):
        log_qs = [pate_2017.exact_log_q(row, 0.05) for row in counts.tolist()]

        def epsilon(moment):
            return (sum(pate_2017.exact_theorem(log_q, 0.05, moment) for log_q in log_qs) - math.log(DELTA)) / moment

        assert bound["epsilon"] == pytest.approx(float(min(map(epsilon, range(1, 9)))), rel=1e-10)
    assert bound["order"] in range(2, 10)


@pytest.mark.slow
def test_rdp_is_the_official_analysis_of_2018(file, counts):
    """Scalable PATE at the order that is found, which is no worse than the published orders."""
    bound = find(answer(file, *GAUSSIAN, 40), "rdp", "data_dependent", "classic")
    with mp.workdps(60):
        log_qs = [scalable_pate.exact_log_q(row, 40) for row in counts.tolist()]
        total = sum(scalable_pate.exact_theorem_6(log_q, 40, bound["order"]) for log_q in log_qs)
        assert bound["epsilon"] == pytest.approx(float(total - math.log(DELTA) / (bound["order"] - 1)), rel=1e-10)
    orders = np.array([*np.arange(2, 100, 0.5), *np.geomspace(100, 500, 20)])
    totals = rdp.gaussian_data_dependent(rdp.gaussian_log_q(counts, 40.0), 40.0, orders).sum(axis=0)
    official = np.min(totals - math.log(DELTA) / (orders - 1))
    assert 0.999 * official < bound["epsilon"] <= official * (1 + 1e-12)


def test_the_object_says_everything(file, counts, everything, tmp_path):
    found = answer(file, *WITH, "--queries", 50)
    assert list(found) == ["mechanism", "parameters", "delta", "queries", "bounds", "release", "released"]
    assert (found["mechanism"], found["parameters"], found["delta"]) == ("lnmax", {"gamma": 0.05}, DELTA)
    assert found["queries"] == 50
    for bound in found["bounds"]:
        assert {"accountant", "kind", "conversion", "epsilon", "order", "publishable", "source"} <= set(bound)
        assert (bound["queries"], bound["delta"]) == (50, DELTA)
        assert bound["publishable"] is False, "with continuous noise there is no release"
    released = answer(file, *WITH, "--queries", 50, "--release")
    assert all(bound["publishable"] for bound in released["bounds"])
    np.save(tmp_path / "first.npy", counts[:50])
    assert found["bounds"] == answer(tmp_path / "first.npy", *WITH)["bounds"]
    assert everything["queries"] == 60


@pytest.mark.slow
def test_a_sanitised_bound_stands_in_the_ledger_by_its_own_cost(file, tmp_path):
    found = answer(file, *WITH, "--queries", 50, "--sanitise", "--ledger", tmp_path)
    drawn = find(found, "rdp-sanitised", "sanitised", "tight")
    assert drawn["publishable"]
    (path,) = tmp_path.glob("*.json")
    (entry,) = Ledger.read(path).entries
    assert (entry.mechanism, dict(entry.parameters), entry.queries) == ("lnmax", {"gamma": 0.05}, 50)
    assert entry.what == f"a sanitised ε of {file}"
    beta, noise, own = (
        float(re.search(f"{words}", drawn["source"])[1])
        for words in (r"β = ([^,]+),", r"σ = ([^,]+),", r"; ([^;]+) of the Rényi divergence")
    )
    divergences, at = entry.spent.divergences, np.argmin(np.abs(ORDERS - drawn["order"]))
    assert divergences[at] == pytest.approx(own, rel=0.01)
    assert np.isinf(divergences[ORDERS * -math.expm1(-2 * beta * 0.99) > 1]).all()
    assert np.isfinite(divergences[ORDERS * -math.expm1(-2 * beta * 1.01) < 1]).all()
    assert divergences[0] > ORDERS[0] / (2 * noise**2)  # for a value that changes by S and a scale that does not


def test_a_second_draw_needs_a_limit_that_it_keeps(file, tmp_path):
    single, several = tmp_path / "single", tmp_path / "several"
    assert run(file, *WITH, "--sanitise", "--ledger", single).exit_code == 0
    limit = ("--ledger-delta", DELTA, "--ledger-budget")
    for words in ((), (*limit, 50)):
        assert "without a limit" in str(run(file, *WITH, "--sanitise", "--ledger", single, *words).exception)
    shown = CliRunner().invoke(cli, ["ledger", str(single), "--json", "--delta", str(DELTA)]).output
    cost = json.loads(shown)[0]["epsilon"]
    assert run(file, *WITH, "--sanitise", "--ledger", several, *limit, 1.1 * cost).exit_code == 0
    assert "would cost ε" in str(run(file, *WITH, "--sanitise", "--ledger", several).exception)
    (path,) = several.glob("*.json")
    assert len(Ledger.read(path).entries) == 1


def test_a_draw_and_its_ledger_go_together(file, tmp_path):
    assert str(run(file, *WITH, "--sanitise").exception).startswith("--ledger is missing")
    assert "--ledger and --private are only for sanitised bounds" in str(
        run(file, *WITH, "--ledger", tmp_path).exception
    )
    assert not list(tmp_path.iterdir())
    other = ("--mechanism", "exponential", "--epsilon", 0.4, "--delta", DELTA)
    assert run(file, *other, "--sanitise", "--ledger", tmp_path).exit_code == 0
    assert not list(tmp_path.iterdir()), "a mechanism without such a bound draws none"


def test_the_ledger_is_that_of_the_records_behind_the_votes(tmp_path):
    matrix = np.random.default_rng(0).integers(0, 3, (30, 12))
    np.save(tmp_path / "votes.npy", matrix)
    np.save(tmp_path / "counts.npy", counts_of(matrix, 3))
    facts = {"partition": "p", "pool": "q", "test": "t", "classes": 3, "chunks": []}
    arrays = {"votes": matrix.astype(np.uint8), "test_votes": matrix[:, :1].astype(np.uint8)}
    write_arrays(tmp_path / "votes.npz", VOTES, arrays, facts | {"records": "ab" * 32})
    folder = tmp_path / "ledgers"
    limit = ("--sanitise", "--ledger", folder, "--ledger-budget", 99, "--ledger-delta", DELTA)
    assert run(tmp_path / "counts.npy", *WITH, *limit).exit_code == 0
    assert run(tmp_path / "votes.npy", *WITH, *limit, "--votes", "--classes", 3, "--teachers", 30).exit_code == 0
    assert run(tmp_path / "votes.npz", *WITH, *limit).exit_code == 0
    known = {path.stem: Ledger.read(path).entries for path in folder.glob("*.json")}
    assert sorted(map(len, known.values())) == [1, 2]
    (entry,) = known["ab" * 16]
    assert entry.spent.partition == "p"


def test_no_noise_is_infinity_in_strict_json_and_noise_beyond_all_numbers_costs_nothing(file):
    found = answer(file, *GAUSSIAN, 0)
    assert {bound["epsilon"] for bound in found["bounds"] if bound["kind"] == "worst_case"} == {"inf"}
    assert answer(file, *GAUSSIAN, "inf")["parameters"] == {"sigma": "inf"}
    assert max(bound["epsilon"] for bound in answer(file, *GAUSSIAN, 1e300)["bounds"]) <= 1e-4


def test_what_may_be_told_can_be_asked_for_alone(file, everything, monkeypatch):
    every = everything["bounds"]
    sums = "patebench.accounting.exact.ExactDivergence.sums"
    monkeypatch.setattr(sums, lambda *_: pytest.fail("looked at the votes"))
    told = answer(file, *WITH, "--publishable")["bounds"]
    assert {bound["kind"] for bound in told} == {"worst_case"}
    assert told == [bound for bound in every if bound["kind"] == "worst_case"] == every[: len(told)]
    assert "data-dependent" not in run(file, *WITH, "--publishable").output


def test_a_release_states_what_holds_for_discrete_noise(file):
    words = (*GAUSSIAN, 2, "--queries", 1)
    found = answer(file, *words, "--release")
    assert {bound["kind"] for bound in found["bounds"]} == {"worst_case"}
    least = min(found["bounds"], key=lambda bound: bound["epsilon"])
    assert least == found["released"] == answer(file, *words)["released"]
    assert least["epsilon"] == pytest.approx(2.95101, rel=3e-6)
    assert found["release"] is True
    said = " ".join(run(file, *words, "--release").output.split())
    assert "To publish, with labels drawn by --release: ε = 2.9511 (pld), a worst-case bound." in said


SPARSE = ("--mechanism", "sparse-gnmax", "--k", 1, "--delta", DELTA)


def test_what_may_be_published_of_votes_with_weights_is_the_bound_for_them(tmp_path):
    """Publish ε at distance 2 and σ = 50 by Rényi DP, which is valid for discrete noise in units of a weight."""
    votes = write_weighted_votes(tmp_path / "votes.npz")
    found = answer(votes, *SPARSE, "--sigma", 50)
    least = min(answer(votes, *SPARSE, "--sigma", 50, "--release")["bounds"], key=lambda bound: bound["epsilon"])
    assert found["released"] == {**least, "publishable": True}
    assert (least["accountant"], least["conversion"]) == ("rdp", "tight")
    assert least["epsilon"] == pytest.approx(0.13945, abs=1e-5)
    assert "Labels drawn by --release would have ε = 0.1395 (rdp)" in " ".join(
        run(votes, *SPARSE, "--sigma", 50).output.split()
    )


def test_votes_of_private_labels_have_nothing_to_publish(tmp_path):
    votes = write_weighted_votes(tmp_path / "votes.npz", protects=["label"])
    assert answer(votes, *SPARSE, "--sigma", 50)["released"] is None
    assert "Nothing to publish: its partition protects only labels" in run(votes, *SPARSE, "--sigma", 50).output
    with refuses("labels"):
        raise run(votes, *SPARSE, "--sigma", 50, "--release").exception


def test_votes_in_rounds_are_accounted_for_in_all_their_rounds(tmp_path):
    """Each of two rounds costs √2/20-GDP, so both together 2/20-GDP."""
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 3, (300, 20))
    votes = write_votes(tmp_path / "votes.npz", matrix, 3, abstentions=True, rounds=[10, 10])
    both = answer(votes, *SPARSE, "--sigma", 20)
    (gdp,) = (bound for bound in both["bounds"] if bound["accountant"] == "gdp")
    assert gdp["epsilon"] == pytest.approx(0.3407, abs=5e-5)
    assert both["released"]["epsilon"] == pytest.approx(0.3407, abs=1e-3)
    assert both == answer(votes, *SPARSE, "--sigma", 20, "--queries", 20)
    fault = str(run(votes, *SPARSE, "--sigma", 20, "--queries", 10).exception)
    assert "ε is requested for 10 queries, but the labels of all 20 queries" in fault
    with pytest.raises(PatebenchError, match="leave the number of queries out"):
        bounds(read_votes(votes)[1], "sparse-gnmax", k=1, sigma=20, delta=DELTA, queries=10)


def test_what_can_not_be_released_has_nothing_to_publish(file):
    words = ("--mechanism", "exponential", "--epsilon", 0.1, "--delta", DELTA)
    assert answer(file, *words)["released"] is None
    assert "Nothing to publish: exponential has no form with discrete noise" in run(file, *words).output
    assert "supports no discrete noise" in str(run(file, *words, "--release").exception)
    both = run(file, *GAUSSIAN, 2, "--release", "--sanitise")
    assert "no sanitised bound is proven" in str(both.exception)


def test_every_mechanism_has_its_options():
    said = run("--help")
    words = re.sub(r"\s+", " ", re.sub(r"-\n\s+", "-", said.output))
    for mechanism in MECHANISMS:
        assert all(f"--{item.name}" in words for item in fields(MECHANISMS.load(mechanism))), mechanism
        assert f"{mechanism}: at least" in words or f"{mechanism}: above" in words, mechanism


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lnmx", "--gamma", "1"], "unknown mechanism 'lnmx' (did you mean 'lnmax'?)"),
        (["lnmax", "--gama", "1"], "no such option '--gama'"),
        (["lnmax"], "lacks its parameter 'gamma'"),
        (["gnmax", "--sigma", "wide"], "'wide' is not a valid float"),
        (["gnmax", "--sigma", "4", "--queries", "61"], "ε is requested for 61 queries"),
        (["gnmax", "--sigma", "4", "--classes", "10"], "--votes"),
        (["gnmax", "--sigma", "4", "more.npy"], "more.npy"),
    ],
)
def test_a_fault_is_one_line_with_status_2(file, words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["patebench", "epsilon", str(file), "--delta", "1e-5", "--mechanism", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    *understood, fault = said.err.splitlines()
    assert all(line.startswith(f"{file}: counts of 250 teachers") for line in understood)
    assert fault.startswith("patebench: ")
    assert message in fault
