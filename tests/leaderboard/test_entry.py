"""Test entries of the leaderboard: planted faults are rejected or flagged, and correct entries are not."""

import copy
import itertools
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import norm
from tests.refusals import refuses

from patebench.accounting.independent import gaussian_dp
from patebench.accounting.votes import Votes, counts
from patebench.leaderboard.assessment import Assessed, Status, assess
from patebench.leaderboard.collection import written_files
from patebench.leaderboard.entry import Entry, Origin, read_entry, schema_text
from patebench.mechanisms.sparse_argmax import SparseGNMax
from patebench.stages.check_entry import command

ROOT = Path(__file__).parents[2]
ENTRIES = ROOT / "leaderboard" / "entries"

_REST: dict[str, Any] = {
    "paper": {
        "title": "A paper",
        "authors": "A. Author",
        "year": 2026,
        "url": "https://example.org",
        "place": "Table 1",
    },
    "data": {"private": "mnist", "records": 60_000, "public": "none", "public_samples": 0, "encoder": "none"},
    "accuracy": {"mean": 0.97, "std": 0.002, "seeds": 3, "test_samples": 10_000},
    "hygiene": {"true_labels": "none", "best_on_test": False},
    "making": {"hardware": "2 cores", "minutes": 5, "command": "make", "commit": "abc"},
}


def content(
    epsilon: float, mechanism: dict[str, Any], unit: str = "teacher's shard", adjacency: str = "replaced", **more: Any
) -> dict[str, Any]:
    privacy = {"unit": unit, "adjacency": adjacency, "delta": 1e-5}
    claim = {"epsilon": epsilon, "kind": "worst_case"}
    return copy.deepcopy({"method": "M", **_REST, "privacy": privacy, "claim": claim, "mechanism": mechanism, **more})


_VOTES = {"type": "votes", "teachers": 250, "classes": 10}
_SCREEN = {"threshold": 200, "sigma1": 200, "sigma2": 50}
GNMAX = content(2.09, {**_VOTES, "name": "gnmax", "parameters": {"sigma": 40}, "queries": 286})
CONFIDENT = content(3.36, {**_VOTES, "name": "confident-gnmax", "parameters": _SCREEN, "queries": 1000})
_SPARSE = {**_VOTES, "name": "sparse-gnmax", "parameters": {"k": 1, "sigma": 50}, "queries": 50, "teachers": 60_000}
_SPARSE |= {"votes_per_teacher": 1, "weighted": False, "partition": "one record each"}
ONE_VOTE = content(0.0859, _SPARSE, "record")
ROUNDS = content(0.122, {**_SPARSE, "rounds": 2}, "record")
LABEL = content(0.0859, _SPARSE, "label")
WEIGHTED = content(0.125, {**_SPARSE, "weighted": True, "votes_per_teacher": None}, "record")
ADDED = content(0.0587, _SPARSE, "record", "added or removed")
_IN_SHARDS = {"partition": "one shard changes"}
_DISTRIBUTED = {**_VOTES, "name": "distributed-gnmax", "parameters": {"sigma": 1000, "tolerance": 5}, "queries": 9}
SHARES = content(0.05, _DISTRIBUTED | _IN_SHARDS, "record", "added or removed")
IN_SHARD = content(2.09, GNMAX["mechanism"] | _IN_SHARDS, "record", "added or removed")
_PART = {"sampling": "poisson", "rate": 0.05, "noise": 3.4, "steps": 300}
DPSGD = content(1.0, {"type": "dp-sgd", "parts": [_PART]}, "record", "added or removed")
TABLE = content(0.0859, {"type": "table", "sigma": 50, "non_negative": True}, unit="record")
GAUSSIAN = content(1.0, {"type": "gaussian", "mu": 0.26, "because": "one release of sensitivity 1, noise 4"})
PURE = content(1.0, {"type": "pure", "epsilon": 1.0, "because": "randomised response"}, "label")
NO_PRIVACY = content(math.inf, {"type": "no noise", "because": "the noise cancels"})

CORRECT = {
    "gnmax": GNMAX, "confident-gnmax": CONFIDENT, "one-vote": ONE_VOTE, "weighted": WEIGHTED, "added": ADDED,
    "record of a shard": IN_SHARD, "dp-sgd": DPSGD, "table": TABLE, "gaussian": GAUSSIAN, "pure": PURE,
    "no-privacy": NO_PRIVACY,
}  # fmt: skip


def check(entry: dict[str, Any], folder: Path | None = None) -> Assessed:
    return assess(Entry.model_validate(entry), folder)


def worst_case(entry: dict[str, Any], folder: Path | None = None) -> float:
    bound = check(entry, folder).bound
    assert bound is not None
    return bound.epsilon


def codes(assessed: Assessed) -> set[str]:
    return {problem.code for problem in assessed.problems}


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_entry_is_proved_and_only_freely_stated_costs_are_flagged(name: str) -> None:
    assessed = check(CORRECT[name])
    assert codes(assessed) == ({"stated-cost"} if name in ("gaussian", "pure") else set())
    assert assessed.status is Status.PROVED
    assert not assessed.rejected
    assert assessed.ranked is (name != "no-privacy")


def _table(unit: str, adjacency: str, non_negative: bool = False) -> dict[str, Any]:
    table = {"type": "table", "sigma": 20, "tables": 4, "non_negative": non_negative, "records_per_owner": 3}
    return content(9, table, unit, adjacency)


def _steps(adjacency: str, delta: float = 1e-5, **part: Any) -> Any:
    part = {"sampling": "poisson", "rate": 1, "noise": 20, "steps": 100, **part}
    entry = content(9, {"type": "dp-sgd", "parts": [part]}, "record", adjacency)
    entry["privacy"]["delta"] = delta
    return entry


#: Entries with the μ of Gaussian differential privacy that their worst case has in closed form.
CLOSED_FORMS = [
    (_table("record", "added or removed"), 2 / 20),
    (_table("record", "replaced", non_negative=True), math.sqrt(2) * 2 / 20),
    (_table("record", "replaced"), 2 * 2 / 20),
    (_table("label", "replaced"), math.sqrt(2) * 2 / 20),
    (_table("label", "added or removed"), math.sqrt(2) * 2 / 20),
    (_table("owner", "added or removed"), 3 * 2 / 20),
    (_table("owner", "replaced"), 6 * 2 / 20),
    (_steps("added or removed"), 0.5),
    (_steps("replaced"), 1.0),
    (_steps("added or removed", **{**_PART, "sampling": "shuffled"}), math.sqrt(5 * 15) / 3.4),  # 15 epochs
    (_steps("replaced", **{**_PART, "sampling": "shuffled"}), math.sqrt(4 * 15) / 3.4),  # one batch in each epoch
    (_steps("added or removed", sampling="shuffled", rate=1e-10, steps=1), math.sqrt(5) / 20),  # begins an epoch
    (_steps("added or removed", sampling="shuffled", rate=0.3, steps=30), math.sqrt(5 * 10) / 20),  # of three batches
    (_steps("replaced", sampling="shuffled", rate=1e-9, steps=120_000), math.sqrt(4 * 2) / 20),  # of one record each
    (_steps("added or removed", rate=0.01, noise=1e-3, steps=10), math.sqrt(10) / 1e-3),  # no amplification
    (_steps("replaced", rate=0.01, noise=1e-3, steps=10), 2 * math.sqrt(10) / 1e-3),
    (_steps("added or removed", delta=1e-12, sampling="shuffled"), 0.5),  # no amplification, so δ may be small
]


@pytest.mark.parametrize(("entry", "mu"), CLOSED_FORMS)
def test_the_worst_case_is_computed_and_not_copied(entry: dict[str, Any], mu: float) -> None:
    assert worst_case(entry) == pytest.approx(gaussian_dp(mu, entry["privacy"]["delta"]))


def test_queries_in_rounds_need_a_theorem_for_adaptive_queries() -> None:
    """The bounded-range bound 1.989 composes queries that are fixed in advance."""
    votes = {**_VOTES, "name": "exponential", "parameters": {"epsilon": 0.1}, "queries": 100}
    assert worst_case(content(2.0, votes)) == pytest.approx(1.989, abs=1e-3)
    assert worst_case(content(2.0, {**votes, "rounds": 100})) == pytest.approx(2.152, abs=1e-3)


def test_removing_a_record_from_shuffled_batches_changes_two_of_them() -> None:
    """Compare with the exact divergence of one epoch of two batches: a record of 1 leaves three of −1."""
    bound = check(_steps("added or removed", sampling="shuffled", rate=0.5, noise=1, steps=2)).bound
    assert bound is not None
    assert "√5" in bound.source
    places = np.arange(-10, 10, 0.05)

    def density(records: list[int]) -> np.ndarray:
        orders = list(itertools.permutations(records))
        sums = [(sum(order[:2]), sum(order[2:])) for order in orders]
        pairs = [np.outer(norm.pdf(places, first), norm.pdf(places, second)) for first, second in sums]
        return np.mean(pairs, axis=0) * 0.05**2

    with_it, without = density([1, -1, -1, -1]), density([-1, -1, -1])

    def delta(epsilon: float) -> float:
        excess = (with_it - math.exp(epsilon) * without, without - math.exp(epsilon) * with_it)
        return max(float(np.maximum(each, 0).sum()) for each in excess)

    assert delta(bound.epsilon) <= 1e-5 < delta(gaussian_dp(1.0, 1e-5))


def test_a_table_of_owners_needs_the_number_of_their_records() -> None:
    entry = _table("owner", "replaced")
    del entry["mechanism"]["records_per_owner"]
    assert codes(check(entry)) == {"missing"}


def test_only_a_record_that_votes_itself_is_added_at_half_the_cost() -> None:
    """A record added to a shard may change all votes of its teacher."""
    privacy = {"unit": "record", "adjacency": "added or removed", "delta": 1e-5}
    assert worst_case(ONE_VOTE | {"privacy": privacy}) == pytest.approx(gaussian_dp(1 / 50, 1e-5))
    assert worst_case(IN_SHARD) == worst_case(GNMAX)
    of_shard = ONE_VOTE | {"privacy": privacy, "mechanism": ONE_VOTE["mechanism"] | _IN_SHARDS}
    assert worst_case(of_shard) == pytest.approx(gaussian_dp(math.sqrt(2) / 50, 1e-5))
    added = GNMAX | {"privacy": privacy | {"unit": "teacher's shard"}}
    assert worst_case(added) == pytest.approx(gaussian_dp(math.sqrt(286) / 40, 1e-5))


_SHARES = {"k": 1, "gamma": 0.05}


@pytest.mark.parametrize("unit", ["record", "teacher's shard"])
@pytest.mark.parametrize("more", [{}, {"name": "sparse-lnmax", "parameters": _SHARES}])
@pytest.mark.parametrize(
    ("votes", "k", "rounds", "code"),
    [(1, 1, 1, None), (None, 1, 1, "missing"), (2, 1, 1, "no-theorem"), (2, 2, 1, None), (None, 50, 1, None),
     (1, 1, 2, None), (2, 1, 2, "no-theorem")],
)  # fmt: skip
def test_an_added_or_removed_teacher_has_a_bound_only_if_all_votes_count(
    unit: str, more: dict[str, Any], votes: int | None, k: int, rounds: int, code: str | None
) -> None:
    entry = content(math.inf, {**_SPARSE, **more, "rounds": rounds}, unit, "added or removed")
    entry["mechanism"]["votes_per_teacher"] = votes
    entry["mechanism"]["parameters"]["k"] = k
    assessed = check(entry)
    assert codes(assessed) == ({code} if code else set())
    assert assessed.status is (Status.UNCHECKED if code else Status.PROVED)
    assert assessed.rejected is bool(code)
    entry["privacy"]["adjacency"] = "replaced"
    assert check(entry).status is Status.PROVED


def test_no_bound_holds_for_a_removed_record_if_only_some_votes_count() -> None:
    """Later records move up, so other votes of theirs count: the distance exceeds that of one replaced record, √2."""
    votes = np.zeros((40, 2), np.int64)
    votes[::2, 1] = votes[1::2, 0] = 1
    mechanism = SparseGNMax(k=1, sigma=50)
    tables = [mechanism.counts(Votes(counts(matrix, 2), matrix)) for matrix in (votes, votes[1:])]
    assert np.linalg.norm(np.subtract(*tables)) > 20
    more = {"teachers": 40, "queries": 2, "votes_per_teacher": 2}
    entry = content(10.0, {**_SPARSE, **more}, "record", "added or removed")
    entry["data"]["records"] = 40
    assert check(entry).bound is None


def test_a_replaced_record_of_a_sample_costs_two_changes() -> None:
    replaced = DPSGD | {"privacy": {"unit": "record", "adjacency": "replaced", "delta": 1e-5}}
    assert 2 * 0.999 < worst_case(replaced) < 3
    assert check(replaced).status is Status.UNPROVED


def _set(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(entry: dict[str, Any]) -> None:
        *parents, name = path.split(".")
        for parent in parents:
            entry = entry[int(parent)] if isinstance(entry, list) else entry[parent]
        entry[name] = value

    return change


#: Planted fault → correct entry, change, expected code, and whether the entry is rejected.
FAULTS: dict[str, tuple[dict[str, Any], str, Any, str, bool]] = {
    "half the noise": (GNMAX, "mechanism.parameters.sigma", 20, "below-worst-case", False),
    "data-dependent ε stated as worst case": (GNMAX, "claim.epsilon", 0.63, "data-dependent", False),
    "best on the test set": (GNMAX, "hygiene.best_on_test", True, "best-on-test", False),
    "choices with true labels": (GNMAX, "hygiene.true_labels", "number of clusters", "true-labels", False),
    "no seeds": (GNMAX, "accuracy.seeds", None, "missing-seeds", False),
    "no spread": (GNMAX, "accuracy.std", None, "missing-spread", False),
    "δ above 1/n": (DPSGD, "privacy.delta", 2e-5, "large-delta", False),
    "δ above 1/teachers": (CONFIDENT | {"data": {"private": "mnist"}}, "privacy.delta", 5e-3, "large-delta", False),
    "more teachers than records": (GNMAX, "data.records", 249, "contradiction", True),
    "the mean is not that of the seeds": (GNMAX, "accuracy.by_seed", {"0": 0.99, "1": 0.97}, "contradiction", True),
    "no δ": (GNMAX, "privacy.delta", None, "missing-delta", True),
    "no unit": (GNMAX, "privacy.unit", None, "missing-unit", True),
    "no adjacency": (GNMAX, "privacy.adjacency", None, "missing-adjacency", True),
    "adjacency of the proof is another": (TABLE, "mechanism.non_negative", False, "below-worst-case", False),
    "ε of an added record for a replaced one": (ONE_VOTE, "claim.epsilon", 0.0586, "below-worst-case", False),
    "DP-SGD protects a shard": (DPSGD, "privacy.unit", "teacher's shard", "no-theorem", True),
    "an owner may be in several shards": (GNMAX, "privacy.unit", "owner", "no-theorem", True),
    "more steps": (DPSGD, "mechanism.parts.0.steps", 3000, "below-worst-case", False),
    "shuffled, not Poisson": (DPSGD, "mechanism.parts.0.sampling", "shuffled", "below-worst-case", False),
    "sampling not stated": (DPSGD, "mechanism.parts.0.sampling", None, "unknown-sampling", False),
    "unknown mechanism": (GNMAX, "mechanism.name", "gnmaxx", "unknown-name", True),
    "unknown parameter": (GNMAX, "mechanism.parameters.gamma", 1, "invalid", True),
    "no mechanism": (GNMAX, "mechanism", None, "no-mechanism", False),
    "a lower bound as claim": (GNMAX, "claim.kind", "audited_lower", "claims-lower-bound", True),
    "another spelling of the data set": (GNMAX, "data.private", "M-NIST", "data-name", True),
    "an audit found more than is proved": (GNMAX, "audited", 3.0, "contradiction", True),
    "votes beyond the cap": (ADDED, "mechanism.votes_per_teacher", 2, "no-theorem", True),
    "votes not stated": (ADDED, "mechanism.votes_per_teacher", None, "missing", True),
    "votes have weights": (ONE_VOTE, "mechanism.weighted", True, "below-worst-case", False),
    "weights not stated": (ONE_VOTE, "mechanism.weighted", None, "below-worst-case", False),
    "weights of an unknown number of classes": (WEIGHTED, "mechanism.classes", None, "missing", True),
    "no theorem for weights": (GNMAX, "mechanism.weighted", True, "weights", True),
    "a second round of votes": (ONE_VOTE, "mechanism.rounds", 2, "below-worst-case", False),
    "a teacher may leave with its noise": (SHARES, "note", "", "no-theorem", True),
    "a teacher may have two records": (ADDED, "mechanism.partition", "one shard changes", "below-worst-case", False),
    "not every teacher has one record": (ADDED, "data.records", 60_001, "contradiction", True),
    "a record may move others": (IN_SHARD, "mechanism.partition", None, "missing", True),
    "a label may move records": (LABEL, "mechanism.partition", None, "missing", True),
    "a theorem without abstentions": (GNMAX, "mechanism.votes_per_teacher", 1, "abstentions", True),
    "half of a vote": (ROUNDS, "mechanism.parameters.k", 0.5, "invalid", True),
    "seeds without an accuracy": (GNMAX, "accuracy.by_seed", {"0": 0.97, "1": 0.97}, "contradiction", True),
    "number of records unknown": (GNMAX, "data.records", None, "unknown-records", False),
    "ten pure steps": (PURE, "mechanism.steps", 10, "below-worst-case", False),
    "the noise cancels": (NO_PRIVACY, "claim.epsilon", 1.0, "refuted", False),
    "hardware not stated": (GNMAX, "making.hardware", None, "not-stated", False),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    correct, path, value, code, rejected = FAULTS[fault]
    entry = copy.deepcopy(correct)
    _set(path, value)(entry)
    assessed = check(entry)
    assert code in codes(assessed)
    assert assessed.rejected is rejected
    if code == "below-worst-case":
        assert assessed.status in (Status.UNPROVED, Status.VIOLATED)
        assert not assessed.ranked


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("stable-svt", {"epsilon": 5, "failure": 1e-9, "cutoff": 4}),
        ("ptr-gnmax", {"order": 4, "cost": 5, "epsilon": 10, "failure": 1e-6, "sigma": 20}),
        ("randomised-response", {"epsilon": 1, "unbiased": 1, "participation": 0.01, "spread": 1}),
    ],
)
def test_rounds_that_start_a_limit_of_all_queries_again_are_rejected(name: str, parameters: dict[str, float]) -> None:
    """Each round has its own failures, decision or schedule, so the ε of one release does not cover several."""
    votes = {**_VOTES, "name": name, "parameters": parameters, "queries": 100}
    once, twice = (check(content(50, votes | {"rounds": rounds})) for rounds in (1, 2))
    assert once.status is Status.PROVED
    assert (twice.status, twice.rejected) == (Status.UNCHECKED, True)


@pytest.mark.parametrize(("records", "delta"), [(60_000, 2e-5), (None, 0.01)])
def test_a_delta_that_one_record_satisfies_is_not_ranked(records: int | None, delta: float) -> None:
    entry = copy.deepcopy(content(0.3, {"type": "gaussian", "mu": 0.01, "because": "noise 100"}, "record"))
    entry["data"]["records"], entry["privacy"]["delta"] = records, delta
    assessed = check(entry)
    assert "large-delta" in codes(assessed)
    assert (assessed.status, assessed.ranked) == (Status.PROVED, False)


@pytest.mark.parametrize("epsilon", [0.0, 5.0])
def test_a_claim_that_our_corrections_refute_is_violated(epsilon: float) -> None:
    """The immutable noisy argmax of NZC: one vote decides the label."""
    parameters = {"c": 1e100, "gamma": 1e-10, "distance": 0}
    nzc = content(epsilon, {**_VOTES, "name": "immutable-lnmax", "parameters": parameters, "queries": 9000})
    nzc["claim"]["kind"] = "claimed"
    assessed = check(nzc)
    assert (assessed.status, assessed.lower, assessed.ranked) == (Status.VIOLATED, math.inf, False)


def test_a_claim_below_the_worst_pair_is_violated_unless_it_is_data_dependent() -> None:
    assessed = check(GNMAX | {"claim": {"epsilon": 1.0, "kind": "worst_case"}})
    assert assessed.status is Status.VIOLATED
    assert 1.8 < (assessed.lower or 0) < worst_case(GNMAX)
    assessed = check(GNMAX | {"claim": {"epsilon": 0.63, "kind": "data_dependent"}})
    assert assessed.status is Status.UNPROVED
    assert "refuted" not in codes(assessed)


def test_a_limit_of_answers_leaves_no_lower_bound() -> None:
    """The search for a lower bound assumes that all queries are answered."""
    assessed = check(content(0.01, {**CONFIDENT["mechanism"], "answers": 1}))
    assert (assessed.status, assessed.lower) == (Status.UNPROVED, None)
    assert not assessed.rejected


def test_group_privacy_ends_where_epsilon_is_zero() -> None:
    """At δ = 5e-4, ε of an added record is 0, but not at the smaller δ of a replaced one."""
    replaced, added = (
        worst_case(_steps(change, delta=5e-4, rate=0.01, noise=10, steps=1))
        for change in ("replaced", "added or removed")
    )
    assert added == 0
    assert 0 < replaced < 0.01


@pytest.fixture
def attached(tmp_path: Path) -> Path:
    labels = np.full(1000, -1, np.int8)
    labels[:753] = 3
    votes = np.zeros((250, 286), np.int8)
    votes[:10] = 1
    np.savez(tmp_path / "attached.npz", labels=labels, votes=votes, floats=np.zeros(4), negative=votes - 1)
    return tmp_path


def with_array(entry: dict[str, Any], array: str) -> dict[str, Any]:
    return entry | {"attachment": {"file": "attached.npz", "array": array}}


@pytest.mark.slow
def test_answers_count_only_as_a_limit_that_was_fixed_before(attached: Path) -> None:
    """The attached number of answers, 753, depends on the votes."""
    of_labels = with_array(CONFIDENT, "labels")
    of_limit = with_array(CONFIDENT | {"mechanism": CONFIDENT["mechanism"] | {"answers": 753}}, "labels")
    assert check(of_labels, attached).problems == check(of_limit, attached).problems == ()
    alone, limited = worst_case(CONFIDENT), worst_case(of_limit, attached)
    assert limited < 0.9 * alone == 0.9 * worst_case(of_labels, attached)
    counts = gaussian_dp(math.sqrt(1000 / 200**2 + 2 * 753 / 50**2), 1e-5)  # if all noisy counts were released
    assert 0.8 * counts < limited < counts
    claimed = with_array(GNMAX | {"claim": {"epsilon": 0.7, "kind": "worst_case"}}, "votes")
    assert "data-dependent" in codes(check(claimed, attached))
    assert check(with_array(GNMAX, "votes"), attached).problems == ()


@pytest.mark.parametrize(
    ("entry", "array", "path", "value"),
    [
        (CONFIDENT, "labels", "mechanism.answers", 700),
        (CONFIDENT, "labels", "mechanism.classes", 3),
        (GNMAX, "votes", "mechanism.teachers", 100),
        (GNMAX, "votes", "mechanism.weighted", True),
        (GNMAX, "votes", "mechanism.rounds", 2),
        (GNMAX, "absent", "note", ""),
        (GNMAX, "floats", "note", ""),
        (GNMAX, "negative", "note", ""),
        (TABLE, "labels", "note", ""),
    ],
)
def test_an_attached_array_must_fit(attached: Path, entry: dict[str, Any], array: str, path: str, value: Any) -> None:
    entry = copy.deepcopy(with_array(entry, array))
    _set(path, value)(entry)
    assessed = check(entry, attached)
    assert assessed.rejected
    assert "attachment" in codes(assessed)


@pytest.mark.parametrize(
    ("records", "delta", "code", "rejected"), [(249, 1e-5, "contradiction", True), (None, 5e-3, "large-delta", False)]
)
def test_the_attached_number_of_teachers_is_checked(
    attached: Path, records: int | None, delta: float, code: str, rejected: bool
) -> None:
    entry = copy.deepcopy(with_array(GNMAX, "votes"))
    entry["mechanism"]["teachers"], entry["data"]["records"], entry["privacy"]["delta"] = None, records, delta
    assessed = check(entry, attached)
    assert code in codes(assessed)
    assert (assessed.rejected, assessed.ranked) == (rejected, False)


#: Ways to write an attachment that cannot be read.
UNREADABLE: dict[str, Callable[[Path], object]] = {
    "missing": lambda file: None,
    "damaged": lambda file: file.write_bytes(b"PK\x03\x04"),
    "a pipe": os.mkfifo,
    "unpacks to too much": lambda file: np.savez_compressed(file, votes=np.zeros((1 << 14, (1 << 14) + 1), np.int8)),
    "beyond 64 bits": lambda file: np.savez(file, votes=np.full((250, 286), 2**64 - 1, np.uint64)),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", UNREADABLE)
def test_an_attachment_that_cannot_be_read_is_rejected(tmp_path: Path, fault: str) -> None:
    UNREADABLE[fault](tmp_path / "attached.npz")
    assessed = check(with_array(GNMAX, "votes"), tmp_path)
    assert codes(assessed) == {"attachment"}
    assert assessed.rejected


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("accuracy.mean", 97.0, "accuracy.mean"),
        ("claim.epsilon", "nan", "claim.epsilon"),
        ("privacy.delta", 1.5, "privacy.delta"),
        ("mechanism.queries", True, "mechanism.votes.queries"),
        ("mechanism.queries", 10**12, "mechanism.votes.queries"),
        ("epsilon", 1, "epsilon"),
        ("attachment", {"file": "../labels.npz", "array": "labels"}, "attachment.file"),
    ],
)
def test_an_invalid_field_is_named(tmp_path: Path, path: str, value: Any, where: str) -> None:
    entry, file = copy.deepcopy(GNMAX), tmp_path / "entry.json"
    file.write_text(json.dumps(entry))
    assert read_entry(file) == Entry.model_validate(entry).model_copy(update={"name": "entry"})
    _set(path, value)(entry)
    file.write_text(json.dumps(entry))
    with refuses("invalid-entry") as raised:
        read_entry(file)
    assert f"{where}:" in str(raised.value)


def test_the_origin_of_an_entry_is_not_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "entry.json"
    file.write_text(json.dumps(GAUSSIAN | {"origin": "kept run"}))
    assert read_entry(file).origin is Origin.WRITTEN
    assert "stated-cost" in codes(assess(read_entry(file)))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 200_000,
        '{"queries": 28600, "queries": 286}',
        "\ufeff{}",
        '{"n": %s}' % ("9" * 5000),
        r'{"n": "\udfff"}',
    ],
)
def test_a_file_that_readers_may_take_differently_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "entry.json").write_text(text, encoding="utf-8")
    with refuses("not-json"):
        read_entry(tmp_path / "entry.json")


@pytest.mark.parametrize(("name", "value"), [("noise", 1e300), ("rate", 1e-320)])
def test_numbers_with_which_no_bound_can_be_computed_are_rejected(name: str, value: float) -> None:
    entry = copy.deepcopy(DPSGD)
    entry["mechanism"]["parts"][0][name] = value
    assessed = check(entry)
    assert (assessed.rejected, assessed.status) == (True, Status.UNCHECKED)
    assert "not-computable" in codes(assessed)


def test_text_of_an_entry_cannot_end_a_line_of_the_report(tmp_path: Path) -> None:
    entry = copy.deepcopy(GNMAX)
    entry["hygiene"]["true_labels"] = "k\nother.json: proved: \x1b[2J"
    file = tmp_path / "entry.json"
    file.write_text(json.dumps(entry))
    lines = CliRunner().invoke(command, [str(file)]).output.splitlines()
    assert len(lines) == 2
    assert "k\\nother.json: proved: \\x1b" in lines[0]


def test_the_schema_is_up_to_date() -> None:
    assert (ROOT / "leaderboard" / "entry.schema.json").read_text(encoding="utf-8") == schema_text()


#: Entries written by hand that are not unchecked: their status and worst-case ε, computed by hand where it is simple.
STATUS = {
    "dp-randp-cifar10-eps-1": (Status.PROVED, 0.9796),
    "dpsda-figure-5-as-printed": (Status.UNPROVED, gaussian_dp(math.sqrt(20 / 2), 1e-5)),
    "dpsda-figure-5-corrected": (Status.PROVED, gaussian_dp(math.sqrt(5 / 8), 1e-5)),
    "prom-pate-cifar10-e1": (Status.UNPROVED, 3.3507),
    "prom-pate-cifar100-e4": (Status.UNPROVED, 11.3129),
    "prom-pate-cifar100-e8": (Status.UNPROVED, 36.8329),
    "scatternet-2021-cnn-cifar10": (Status.UNPROVED, gaussian_dp(math.sqrt(5 * 30) / 1.54, 1e-5)),
    "scatternet-2021-cnn-fashion-mnist": (Status.UNPROVED, gaussian_dp(math.sqrt(5 * 40) / 2.15, 1e-5)),
    "scatternet-2021-cnn-mnist": (Status.UNPROVED, gaussian_dp(math.sqrt(5 * 40) / 1.23, 1e-5)),
}


@pytest.mark.parametrize("path", written_files(ROOT), ids=lambda path: path.stem)
def test_an_entry_of_the_repository_is_accepted(path: Path) -> None:
    assessed = assess(read_entry(path), path.parent)
    assert not assessed.rejected
    status, epsilon = STATUS.get(path.stem, (Status.UNCHECKED, None))
    assert assessed.status is status
    assert (assessed.bound and assessed.bound.epsilon) == (epsilon and pytest.approx(epsilon, rel=2e-3))
