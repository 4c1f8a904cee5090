"""Verdicts: sound mechanisms hold, planted faults and unsound claims are found."""

import json
import math
from functools import partial

import numpy as np
import pytest

from patebench.accounting.votes import Votes
from patebench.audit.audit_text import render
from patebench.audit.release_noise import ReleaseNoiseAudit
from patebench.audit.runs import AuditSetting
from patebench.audit.table_audit import TableAudit
from patebench.audit.verdict import Verdict, run_audit, worst_verdict
from patebench.audit.worst_pairs import Search
from patebench.core import seeds
from patebench.core.bound import Kind
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import make_mechanism
from tests.audit import faults

DELTA = 1e-5


def audited(mechanism, queries=100, teachers=30, classes=5, runs=3000):
    streams = partial(seeds.generator, 0, "test")
    return run_audit(AuditSetting("planted", mechanism, teachers, classes, DELTA, runs, 0.999, streams), [queries])


def without_release_mode(monkeypatch):
    """Omit the noise of release mode from audits, which takes most of their time."""
    for method in ("disagreements", "disagreements_of_transcripts"):
        monkeypatch.setattr(ReleaseNoiseAudit, method, lambda *given: [])
    monkeypatch.setattr(TableAudit, "release_tallies", lambda *given: [])
    monkeypatch.setattr(ReleaseNoiseAudit, "seeded", lambda self, sampled: sampled)
    monkeypatch.setattr(TableAudit, "discrete", lambda self, sampled, queries: sampled)


def violated(found):
    return [finding.queries for finding in found.findings if worst_verdict(finding) is Verdict.VIOLATED]


def test_probabilities_that_do_not_add_up_to_one_are_refused():
    """Outputs of third-party mechanisms are checked, so no audit is needed for this fault."""
    with pytest.raises(PatebenchError, match=r"sum to 0\.9 instead of 1"):
        audited(faults.NOT_ONE, queries=1, runs=2000)


def accused(found):
    """Return True if the audit contradicts the mechanism."""
    return bool(found.disagreements) or bool(violated(found))


#: Faults that show only in some of the labels, or hardly change a probability: they take more runs.
RARE = {
    "noise: too few digits",
    "noise: noisy counts below 0 become 0",
    "noise: one label in twenty",
    "noise: unanimous answers without noise",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", faults.PLANTED)
def test_planted_faults_are_found(name, monkeypatch):
    """All faults are found with a fifth of the default runs, most with a thirtieth, and without irrelevant parts.

    A fault of all releases is found in seeded ones, without release mode; a fault of labels in one query, if queries
    are independent; and only wrong bounds need votes of all degrees of agreement.
    """
    mechanism, group = faults.PLANTED[name], name.split(":")[0]
    if "in releases" not in name and group != "release":
        without_release_mode(monkeypatch)
    if group != "bound":
        monkeypatch.setattr(Search, "ladder", lambda *given: [])
    of_labels = group not in ("bound", "table", "weights") and mechanism.independent_queries
    # Large tables need fewer calls for as many random numbers from the operating system.
    of_tables = 20 if "in releases" in name else 8
    queries = 1 if of_labels else of_tables if group in ("table", "weights") else 3
    runs = 20_000 if name in RARE else 3000
    found = audited(mechanism, queries, teachers=getattr(mechanism, "teachers", 30), runs=runs)
    assert accused(found)
    if found.disagreements:
        assert all(worst_verdict(finding) is not Verdict.HOLDS for finding in found.findings)


def test_missing_noise_is_reported_in_one_line():
    found = audited(faults.NO_NOISE, queries=1, runs=2000)
    assert violated(found)
    assert not any("\n" in line for line in found.disagreements)
    (finding,) = found.findings
    assert {each.verdict for each in finding.stated} <= {Verdict.VIOLATED, Verdict.DISAGREES, Verdict.VACUOUS}
    shown = "\n".join(str(part) for part in render(found).renderables)
    assert f"Disagreement: {found.disagreements[0]}." in shown


CLEAN = [
    ("lnmax", {"gamma": 0.5}),
    ("gnmax", {"sigma": 3.0}),
    ("confident-gnmax", {"threshold": 9.0, "sigma1": 3.0, "sigma2": 2.0}),
    ("interactive-gnmax", {"threshold": 9.0, "sigma1": 3.0, "sigma2": 2.0, "confidence": 0.9}),
    ("exponential", {"epsilon": 0.5}),
    ("permute-and-flip", {"epsilon": 0.5}),
    ("stable-argmax", {"epsilon": 1.0, "failure": 1e-6}),
    ("stable-svt", {"epsilon": 12.0, "failure": 1e-6, "cutoff": 3}),
    ("stable-svt-gaussian", {"sigma1": 1.0, "sigma2": 1.5, "failure": 1e-6, "cutoff": 3}),
    ("truncated-geometric", {"epsilon": 1.5, "unbiased": 1, "participation": 0.5, "spread": 2}),
    ("randomised-response", {"epsilon": 0.5, "unbiased": 0, "participation": 1, "spread": 1}),
    ("immutable-lnmax", {"gamma": 0.5, "c": 2.0, "distance": 0}),
    ("immutable-gnmax", {"sigma": 3.0, "c": 2.0, "distance": 2}),
    ("distributed-gnmax", {"sigma": 3.0, "tolerance": 1.0}),
    ("sparse-gnmax", {"k": 2, "sigma": 3.0}),
    ("distributed-sparse-gnmax", {"k": 2, "sigma": 3.0, "tolerance": 1}),
    ("sparse-lnmax", {"k": 1, "gamma": 0.5}),
    ("ptr-gnmax", {"order": 4, "cost": 0.5, "epsilon": 4.5, "failure": 1e-5, "sigma": 4}),
    ("ptr-lnmax", {"order": 4, "cost": 1.5, "epsilon": 6, "failure": 1e-5, "gamma": 0.5}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "parameters"), CLEAN, ids=[name for name, _ in CLEAN])
def test_no_sound_mechanism_is_accused(name, parameters):
    """Each disagreement has a false-alarm probability of 1e-6 in an audit, each sampled verdict 1e-6."""
    # With 12 teachers propose-test-release hardly ever answers, so there would be nothing to find.
    teachers = 5 if name.startswith("distributed-") else 30 if name.startswith("ptr-") else 12
    found = audited(make_mechanism(name, parameters), queries=5, teachers=teachers, classes=3)
    assert not accused(found), found.disagreements
    assert found.disagreements == []
    for finding in found.findings:
        proved = [each for each in finding.stated if each.bound.kind is not Kind.CLAIMED]
        assert {each.verdict for each in proved} <= {Verdict.HOLDS, Verdict.VACUOUS}
        assert worst_verdict(finding) is (Verdict.VACUOUS if finding.exact == math.inf else Verdict.HOLDS)
        assert 0 < finding.exact <= min(each.bound.epsilon for each in proved)


@pytest.mark.slow
def test_bounds_are_compared_on_other_pairs_than_the_worst(monkeypatch):
    """Find a data-dependent bound of 0 for unanimous votes, although the worst pair for many queries is different."""
    without_release_mode(monkeypatch)
    many = audited(faults.TOO_SURE, queries=100, runs=2000).findings[1]
    wrong = [each for each in many.stated if each.verdict is Verdict.VIOLATED]
    assert wrong
    assert all(each.pair.counts.max() > 0.85 * 30 for each in wrong)
    assert many.pair.counts.max() < 0.85 * 30


@pytest.mark.slow
def test_noise_that_comes_back_hides_nothing():
    found = audited(faults.FIXED_SEED, queries=3)
    assert all(finding.sampled.event is None for finding in found.findings)
    assert all(finding.sampled.epsilon == math.inf for finding in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "noise", "distance"),
    [
        ("immutable-lnmax", {"gamma": 1e-10}, 0),
        ("immutable-lnmax", {"gamma": 1e-10}, 3),
        ("immutable-gnmax", {"sigma": 1e10}, 3),
    ],
)
def test_the_claim_of_nzc_is_violated_without_limit(kind, noise, distance):
    mechanism = make_mechanism(kind, {**noise, "c": 1e100, "distance": distance})
    for finding in audited(mechanism, queries=400, teachers=50, classes=10, runs=20_000).findings:
        claims = [each for each in finding.stated if each.bound.kind is Kind.CLAIMED]
        assert claims
        assert all(each.verdict is Verdict.VIOLATED and each.bound.epsilon < 1e-3 for each in claims)
        assert finding.exact == math.inf
        assert finding.sampled.epsilon > 7
        assert worst_verdict(finding) is Verdict.VACUOUS


def test_verdicts():
    assert {name for name, _ in CLEAN} == set(MECHANISMS), "each mechanism is among the sound ones"
    assert Verdict.of(1.0, 0.9) is Verdict.of(1.0, 1.0) is Verdict.HOLDS
    assert Verdict.of(1.0, 1.001) is Verdict.of(0.0, 0.01) is Verdict.of(200.0, math.inf) is Verdict.VIOLATED
    assert Verdict.of(math.inf, math.inf) is Verdict.of(200.0, 5.0) is Verdict.VACUOUS


@pytest.mark.slow
def test_bounds_are_those_of_the_audited_data(monkeypatch):
    """Data-dependent bounds are stated for D of the pair, repeated T times."""
    without_release_mode(monkeypatch)
    mechanism = make_mechanism("gnmax", {"sigma": 3.0})
    found = audited(mechanism, queries=40)
    for finding in found.findings:
        assert all(each.pair is finding.pair for each in finding.stated if each.verdict is not Verdict.VIOLATED)
        counts = np.tile(finding.pair.counts, (finding.queries, 1))
        bounds = mechanism.bounds(Votes.from_counts(counts), [len(counts)], DELTA)
        stated = {(bound.accountant, bound.kind, bound.conversion): bound.epsilon for bound in bounds}
        for each in finding.stated:
            key = each.bound.accountant, each.bound.kind, each.bound.conversion
            if key in stated:
                assert each.bound.epsilon == pytest.approx(stated[key], rel=1e-9)


@pytest.mark.slow
def test_a_release_with_state_is_not_composed():
    """The second answer has no noise, which only transcripts of two or more queries reveal."""
    found = audited(faults.ONCE_FREE, queries=2, runs=20_000)
    one, many = found.findings
    assert one.exact == many.exact
    assert one.sampled.sure <= one.exact
    assert worst_verdict(many) is Verdict.VIOLATED
    assert "as answer 2 of a release" in found.disagreements[0]


def test_an_audit_is_json_that_other_programs_read():
    found = audited(make_mechanism("gnmax", {"sigma": 0.0}), 5, 9, 3, 1000)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["findings"][0]["bounds"][0]["epsilon"] == "inf"
