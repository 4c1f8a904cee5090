"""Verdicts: sound mechanisms hold, planted faults and unsound claims are found."""

import json
import math

import numpy as np
import pytest

from patebench.accounting.votes import Votes
from patebench.audit.verdict import Verdict, run_audit, worst_verdict
from patebench.core import seeds
from patebench.core.bound import Kind
from patebench.mechanisms.base import make_mechanism
from tests.audit import faults

DELTA = 1e-5


def audited(mechanism, queries=100, teachers=30, classes=5, runs=100_000):
    def streams(name):
        return seeds.generator(0, "test", name)

    return run_audit("planted", mechanism, teachers, classes, [queries], DELTA, runs, 0.999, streams)


def violated(found):
    return [finding.queries for finding in found.findings if worst_verdict(finding) is Verdict.VIOLATED]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("lnmax", {"gamma": 0.5}),
        ("gnmax", {"sigma": 3.0}),
        ("confident-gnmax", {"threshold": 15.0, "sigma1": 4.0, "sigma2": 3.0}),
        ("exponential", {"epsilon": 0.3}),
        ("permute-and-flip", {"epsilon": 0.3}),
        ("stable-argmax", {"epsilon": 1.0, "failure": 1e-8}),
        ("stable-svt", {"epsilon": 12.0, "failure": 1e-8, "cutoff": 5}),
        ("ptr-gnmax", {"order": 4, "cost": 0.5, "epsilon": 4.5, "failure": 1e-5, "sigma": 4}),
        ("ptr-lnmax", {"order": 4, "cost": 1.5, "epsilon": 6, "failure": 1e-5, "gamma": 0.5}),
        ("truncated-geometric", {"epsilon": 1.5, "unbiased": 1, "participation": 0.5, "spread": 2}),
        ("randomised-response", {"epsilon": 0.2, "unbiased": 0, "participation": 1, "spread": 1}),
    ],
)
def test_sound_mechanisms_hold(name, parameters):
    found = audited(make_mechanism(name, parameters))
    for finding in found.findings:
        for each in finding.stated:
            if each.bound.kind is not Kind.CLAIMED:
                assert each.verdict in (Verdict.HOLDS, Verdict.VACUOUS), each
        assert worst_verdict(finding) is Verdict.HOLDS
        assert 0 < finding.exact <= min(each.bound.epsilon for each in finding.stated if each.bound.kind != "claimed")


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        faults.OneClassBare(2.0),
        faults.HalfScale(0.3),
        faults.HalfScaleThroughout(0.3),
        faults.Sensitivity(10.0),
        faults.FixedSeed(3.0),
        faults.PartlyFixedSeed(3.0),
        faults.BareThreshold(15.0, 4.0, 3.0),
        faults.SilentOnTies(8.0),
        faults.Untested(order=4, cost=0.5, epsilon=4.0, failure=1e-5, sigma=0.5),
        faults.AnotherTest(order=4, cost=0.5, epsilon=4.0, failure=1e-5, sigma=4),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_planted_faults_are_found(mechanism):
    assert violated(audited(mechanism))


@pytest.mark.slow
def test_the_sampled_audit_alone_finds_what_is_wrong_in_the_code():
    """The exact audit trusts what a mechanism says of itself; the runs do not."""
    for mechanism in (faults.HalfScale(0.3), faults.BareThreshold(15.0, 4.0, 3.0)):
        sound = audited(type(mechanism).__mro__[1](*mechanism.parameters().values()), runs=20_000)
        for finding, other in zip(audited(mechanism, runs=20_000).findings, sound.findings, strict=True):
            assert finding.exact == other.exact
            assert finding.sampled.epsilon > 1.2 * other.sampled.epsilon


def test_noise_that_comes_back_hides_nothing():
    found = audited(faults.FixedSeed(3.0))
    assert all(not finding.sampled.fresh for finding in found.findings)
    assert all(finding.sampled.epsilon == math.inf for finding in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("immutable-lnmax", {"gamma": 1e-10, "c": 1e100, "distance": 0}),
        ("immutable-lnmax", {"gamma": 1e-10, "c": 1e100, "distance": 3}),
        ("immutable-gnmax", {"sigma": 1e10, "c": 1e100, "distance": 3}),
    ],
)
def test_the_claim_of_nzc_is_violated_without_limit(name, parameters):
    for finding in audited(make_mechanism(name, parameters), queries=400, teachers=50, classes=10).findings:
        claims = [each for each in finding.stated if each.bound.kind is Kind.CLAIMED]
        assert claims
        assert all(each.verdict is Verdict.VIOLATED for each in claims)
        assert all(each.bound.epsilon < 1e-3 for each in claims)
        assert finding.exact == math.inf
        assert finding.sampled.epsilon > 7
        assert worst_verdict(finding) is Verdict.VACUOUS


def test_verdicts():
    assert Verdict.of(1.0, 0.9) is Verdict.of(1.0, 1.0) is Verdict.HOLDS
    assert Verdict.of(1.0, 1.001) is Verdict.VIOLATED
    assert Verdict.of(0.0, 0.01) is Verdict.VIOLATED
    assert Verdict.of(math.inf, math.inf) is Verdict.of(200.0, 5.0) is Verdict.VACUOUS
    assert Verdict.of(200.0, math.inf) is Verdict.VIOLATED


def test_bounds_are_those_of_the_audited_data():
    """What depends on the votes is stated for the pair's D, T times."""
    mechanism = make_mechanism("gnmax", {"sigma": 3.0})
    found = audited(mechanism, queries=40)
    for finding in found.findings:
        counts = np.tile(finding.pair.counts, (finding.queries, 1))
        bounds = mechanism.bounds(Votes.from_counts(counts), [len(counts)], DELTA)
        stated = {(bound.accountant, bound.kind, bound.conversion): bound.epsilon for bound in bounds}
        for each in finding.stated:
            key = each.bound.accountant, each.bound.kind, each.bound.conversion
            if key in stated:
                assert each.bound.epsilon == pytest.approx(stated[key], rel=1e-9)


@pytest.mark.slow
def test_a_release_with_state_is_not_composed():
    """Its second answer has no noise: only transcripts of two queries and more can show that."""
    found = audited(faults.OnceFree(3.0), queries=2)
    one, many = found.findings
    assert one.exact == many.exact
    assert worst_verdict(one) is Verdict.HOLDS
    assert worst_verdict(many) is Verdict.VIOLATED


def test_an_audit_is_json_that_other_programs_read():
    def streams(name):
        return seeds.generator(0, "x", name)

    found = run_audit("gnmax", make_mechanism("gnmax", {"sigma": 0.0}), 9, 3, [5], DELTA, 1000, 0.95, streams)
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["findings"][0]["bounds"][0]["epsilon"] == "inf"
