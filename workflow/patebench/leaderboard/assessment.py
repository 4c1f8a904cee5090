"""Assess a leaderboard entry: compute its worst-case ε and its status, and list its problems.

The worst-case ε is computed from the mechanism, its parameters and its number of queries or steps, never from the
claim. A claimed ε below the worst case is `unproved`. A claimed ε below a lower bound on the true ε is `violated`.

A lower bound comes from the entry's audit, or from a search for the worst pair of adjacent vote histograms. The exact ε
of this pair is a lower bound on the worst-case ε. It is not a lower bound on a data-dependent ε, so there is no search
for entries that claim a data-dependent ε. For a release without effective noise, the lower bound is ∞.
"""

import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.accountant import RenyiAccountant
from patebench.accounting.independent import gaussian_dp, pure_composition
from patebench.accounting.searches import bisect
from patebench.accounting.subsampled_gaussian import LEAST_DELTA, SubsampledGaussian, bound_together, epsilon_together
from patebench.accounting.votes import Votes, counts
from patebench.audit.worst_pairs import Search
from patebench.calculator.calculations import worst_case
from patebench.core.bound import Bound, Kind, large_delta
from patebench.core.errors import PatebenchError, located
from patebench.core.text import at_least, at_most, in_json, plural
from patebench.data import DATASETS
from patebench.leaderboard.entry import (
    Change,
    Entry,
    GaussianComposition,
    NoNoise,
    Origin,
    PureSteps,
    SampledGaussian,
    Steps,
    Table,
    Unit,
    VoteMechanism,
)
from patebench.mechanisms.base import Answering, check_adaptive, check_covers, make_mechanism
from patebench.reporting.published import PRINTED

#: Maximum relative difference between two values of ε, such as a reported ε and the worst-case ε, that counts as
#: rounding.
ROUNDED = 0.005

#: Maximum difference between a mean accuracy and the mean of `by_seed` that counts as rounding (fractions).
_MEAN_ROUNDED = 0.0006

#: Maximum size of an attached archive after unpacking, in bytes.
_MOST_BYTES = 1 << 28

#: Maximum number of counts (queries × classes) of the artificial votes in `_find_data_dependence`.
_MOST_CELLS = 10**7


class Status(StrEnum):
    """Result of comparing an entry's reported ε with bounds on its true ε.

    - "proved": the reported ε is not below the worst-case ε for the stated unit and adjacency.
    - "unproved": the reported ε is below the worst-case ε, but not below a known lower bound.
    - "violated": the reported ε is below a lower bound on the true ε.
    - "unchecked": the entry does not state enough to compute a worst-case ε.
    """

    PROVED = "proved"
    UNPROVED = "unproved"
    VIOLATED = "violated"
    UNCHECKED = "unchecked"


@dataclass(frozen=True)
class Problem:
    """Problem of an entry, described by a code and a sentence.

    `rejected` is True if the leaderboard rejects entries with this problem.
    """

    code: str
    text: str
    rejected: bool = False


@dataclass(frozen=True, eq=False)
class Assessed:
    """Assessment of an `entry`: its `status`, its `problems`, and bounds on its true ε.

    `bound` is the recomputed worst-case bound, or None. `lower` is the largest known lower bound on ε, or None.
    """

    entry: Entry
    status: Status
    bound: Bound | None
    lower: float | None
    problems: tuple[Problem, ...]
    #: Rank in a table of the leaderboard, from 1; None in other places, or if the entry is not ranked.
    rank: int | None = None

    @property
    def accuracy(self) -> float:
        """Return the mean test accuracy (fraction) of the entry; NaN if only labels were released."""
        return math.nan if self.entry.accuracy is None else self.entry.accuracy.mean

    @property
    def epsilon(self) -> float:
        """Return the recomputed worst-case ε, or the reported ε if none can be computed."""
        return self.entry.claim.epsilon if self.bound is None else self.bound.epsilon

    @property
    def unit(self) -> str:
        """Return the unit of privacy and its change between adjacent data sets, such as "record, replaced"."""
        privacy = self.entry.privacy
        return f"{privacy.unit or 'unit not stated'}, {privacy.adjacency or 'adjacency not stated'}"

    @property
    def rejected(self) -> bool:
        """Return True if the leaderboard rejects the entry because of one of its `problems`."""
        return any(problem.rejected for problem in self.problems)

    @property
    def ranked(self) -> bool:
        """Return True if the entry may be ranked.

        It must not be rejected, and its ε must be proved and finite. Its δ must be below 1/records and, if their
        number is known, 1/teachers. Its accuracy must not be the best of several accuracies on the test set.
        """
        proved = self.status is Status.PROVED and math.isfinite(self.epsilon) and not self.rejected
        unranked = {"large-delta", "unknown-records"}
        excluded = self.entry.hygiene.best_on_test or any(problem.code in unranked for problem in self.problems)
        return proved and not excluded

    def to_json(self) -> dict[str, Any]:
        """Return the entry with its status, bounds and problems as a dictionary for strict JSON."""
        entry = self.entry
        return {
            "name": entry.name,
            "origin": entry.origin,
            **entry.model_dump(mode="json"),
            "binomial_error": entry.accuracy.binomial_error if entry.accuracy else None,
            "status": self.status,
            "ranked": self.ranked,
            "worst_case": self.bound.to_json() if self.bound else None,
            "lower_bound": None if self.lower is None else in_json(self.lower),
            "problems": [vars(problem) for problem in self.problems],
        }


def assess(entry: Entry, folder: Path | None = None) -> Assessed:
    """Return `entry` with its status, bounds and problems.

    `folder` contains the file that is attached to the entry. If it is None, this file is not read.
    """
    votes: Votes | None = None
    unreadable: list[Problem] = []
    if entry.attachment and folder:
        with _rejected_by_errors(unreadable):
            entry, votes = _with_attached(entry, folder)
    problems = [*_find_problems(entry), *unreadable]
    if not unreadable:
        with _rejected_by_errors(problems):
            return _assess(entry, votes, problems)
    return Assessed(entry, Status.UNCHECKED, None, entry.audited, tuple(problems))


@contextmanager
def _rejected_by_errors(problems: list[Problem]) -> Iterator[None]:
    """Add a problem that rejects the entry to `problems` if the `with` block raises an error."""
    try:
        yield
    except PatebenchError as fault:
        problems.append(Problem(fault.code, str(fault), rejected=True))
    except (ArithmeticError, MemoryError, ValueError) as fault:  # an extreme noise or number, or a huge array
        text = f"the numbers in 'mechanism' and 'privacy' yield no ε ({fault}); correct the numbers"
        problems.append(Problem("not-computable", text, rejected=True))


def _assess(entry: Entry, votes: Votes | None, problems: list[Problem]) -> Assessed:
    bound = _worst_case(entry)
    if bound is not None:  # drop the digits that depend on the number of threads
        bound = replace(bound, epsilon=float(f"{bound.epsilon:.10g}"))
    claim, lower = entry.claim, entry.audited
    if bound is None:
        status = Status.UNCHECKED
        if entry.mechanism is None:
            problems.append(Problem("no-mechanism", "the mechanism is not stated, so no ε can be computed"))
    elif claim.epsilon >= bound.epsilon * (1 - ROUNDED):
        status = Status.PROVED
    else:
        status = Status.UNPROVED
        text = f"ε = {claim.epsilon:g} ({claim.kind.words}) is stated, but the worst-case bound for all data is ε ≤ "
        text += f"{at_most(bound.epsilon)} ({bound.accountant}: {bound.source})"
        problems.append(Problem("below-worst-case", text))
        problems.extend(_find_data_dependence(entry, votes))
        found = _lower_bound(entry)
        lower = max([value for value in (lower, found and float(f"{found:.10g}")) if value is not None], default=None)
    if lower is not None and bound is not None and lower > bound.epsilon * (1 + ROUNDED):
        text = f"the lower bound ε ≥ {at_least(lower)} contradicts the worst-case bound ε ≤ {at_most(bound.epsilon)}"
        problems.append(Problem("contradiction", f"{text}; correct 'audited' or 'mechanism'", rejected=True))
    if lower is not None and claim.epsilon < lower * (1 - ROUNDED):
        status = Status.VIOLATED
        why = f": {entry.mechanism.because}" if isinstance(entry.mechanism, NoNoise) else ""
        text = f"ε = {claim.epsilon:g} is stated, but the true ε is at least {at_least(lower)}{why}"
        problems.append(Problem("refuted", text))
    return Assessed(entry, status, bound, lower, tuple(problems))


#: Fields of each part of an entry that it should state.
_EXPECTED: Mapping[str, tuple[str, ...]] = {
    "paper": ("authors", "url"),
    "data": ("public", "encoder"),
    "hygiene": ("true_labels", "best_on_test"),
    "making": ("hardware", "minutes", "command", "commit"),
    "accuracy": ("test_samples",),
}


def _find_problems(entry: Entry) -> Iterator[Problem]:
    """Yield the problems of `entry` that can be found without computing ε."""
    privacy = entry.privacy
    for name in ("unit", "adjacency", "delta"):
        if getattr(privacy, name) is None:
            yield Problem(f"missing-{name}", f"privacy.{name} is missing; an ε has no meaning without it", True)
    if entry.claim.kind is Kind.AUDITED_LOWER:
        text = "claim.kind is a lower bound, which proves no privacy; state an upper bound"
        yield Problem("claims-lower-bound", text, True)
    if (usual := _usual_name(entry.data.private)) != entry.data.private:
        yield Problem("data-name", f"data.private is '{entry.data.private}'; call it '{usual}' as elsewhere", True)
    teachers = entry.mechanism.teachers if isinstance(entry.mechanism, VoteMechanism) else None
    if teachers and entry.data.records and teachers > entry.data.records:
        text = f"mechanism.teachers ({teachers}) exceeds data.records ({entry.data.records}), so shards would overlap"
        yield Problem("contradiction", f"{text}; correct one number", rejected=True)
    if isinstance(entry.mechanism, GaussianComposition | PureSteps) and entry.origin is Origin.WRITTEN:
        yield Problem(
            "stated-cost", "the cost per step is stated in mechanism.because, not computed; a person must check it"
        )
    if entry.data.records is None:
        yield Problem("unknown-records", "data.records is missing, so δ cannot be compared with 1/n")
    if privacy.delta is not None and (fault := large_delta(privacy.delta, teachers, entry.data.records)):
        yield Problem("large-delta", fault)
    if accuracy := entry.accuracy:
        mean = fmean(accuracy.by_seed.values()) if accuracy.by_seed else accuracy.mean
        if abs(mean - accuracy.mean) > _MEAN_ROUNDED:
            text = f"accuracy.by_seed has the mean {mean:.4f}, but accuracy.mean is {accuracy.mean:.4f}"
            yield Problem("contradiction", f"{text}; correct one of the two", rejected=True)
        if accuracy.seeds is None:
            yield Problem("missing-seeds", "accuracy.seeds is missing, so the spread is unknown")
        elif accuracy.by_seed and len(accuracy.by_seed) != accuracy.seeds:
            text = f"accuracy.seeds is {accuracy.seeds}, but accuracy.by_seed has {len(accuracy.by_seed)}"
            yield Problem("contradiction", f"{text}; correct one of the two", rejected=True)
        elif accuracy.seeds > 1 and accuracy.std is None:
            yield Problem("missing-spread", f"accuracy.std over {plural(accuracy.seeds, 'seed')} is missing")
    if isinstance(entry.mechanism, SampledGaussian) and entry.mechanism.unknown_sampling:
        yield Problem(
            "unknown-sampling", "mechanism.parts lacks 'sampling', so ε is unknown; state 'poisson' or 'shuffled'"
        )
    unstated = [
        f"{part}.{name}"
        for part, names in _EXPECTED.items()
        for name in names
        if (stated := getattr(entry, part)) is not None and getattr(stated, name) is None
    ]
    if unstated:
        yield Problem("not-stated", f"not stated: {', '.join(unstated)}")
    if entry.hygiene.best_on_test:
        yield Problem("best-on-test", "the accuracy is the best of several on the test set, so it is biased upwards")
    if entry.hygiene.true_labels not in (None, "none"):
        yield Problem("true-labels", f"chosen with true labels: {entry.hygiene.true_labels}")


def _usual_name(dataset: str) -> str:
    """Return the known data set name that differs from `dataset` only in case or punctuation, else `dataset`."""
    usual: dict[str, str] = {re.sub(r"\W|_", "", name.lower()): name for name in (*DATASETS, *PRINTED)}
    return usual.get(re.sub(r"\W|_", "", dataset.lower()), dataset)


def _with_attached(entry: Entry, folder: Path) -> tuple[Entry, Votes | None]:
    """Return `entry`, completed from its attached array, and the attached votes (None if the array contains labels).

    An array of labels sets the number of queries in the entry. An array of votes, which count as 1 each, sets the
    numbers of queries, teachers and votes per teacher. Raises PatebenchError if the entry contradicts its array, or
    attaches the votes of several rounds, because the array does not state which queries belong to a round.
    """
    attachment, mechanism = entry.attachment, entry.mechanism
    assert attachment is not None
    array = _read_attached(folder / attachment.file, attachment.array)
    if not isinstance(mechanism, VoteMechanism):
        raise PatebenchError(
            "'attachment' is only for entries with the mechanism.type 'votes'; leave 'attachment' out",
            code="attachment",
        )
    answered = int((array >= 0).sum()) if array.ndim == 1 else 0
    if mechanism.answers is not None and answered > mechanism.answers:
        raise PatebenchError(
            f"mechanism.answers is {mechanism.answers}, but {attachment.file} contains {answered} answers; correct one"
            " number",
            code="attachment",
        )
    values = {"queries": array.shape[-1]}
    if array.ndim == 2:  # all teachers vote on all queries
        if mechanism.rounds > 1:
            text = (
                f"mechanism.rounds is {mechanism.rounds}, but {attachment.file} does not state the queries of a round"
            )
            raise PatebenchError(f"{text}; leave 'attachment' out", code="attachment")
        values |= {"teachers": len(array), "votes_per_teacher": array.shape[1], "weighted": False}
    for name, value in values.items():
        if (stated := getattr(mechanism, name)) not in (None, value):
            text = f"mechanism.{name} is {stated}, but {value} in {attachment.file}; correct one of them"
            raise PatebenchError(text, code="attachment")
    if mechanism.classes is not None and array.max() >= mechanism.classes:
        raise PatebenchError(
            f"{attachment.file} contains class {array.max()} (counted from 0), but mechanism.classes is"
            f" {mechanism.classes}; correct the file or mechanism.classes",
            code="attachment",
        )
    entry = entry.model_copy(update={"mechanism": mechanism.model_copy(update=values)})
    if array.ndim == 1:
        return entry, None
    return entry, Votes(counts(array, mechanism.classes or int(array.max()) + 1), array)


def _read_attached(path: Path, name: str) -> NDArray[np.integer]:
    """Return the array `name` in the .npz file `path`; raise PatebenchError if it contains neither labels nor votes."""
    try:
        if not path.is_file():  # reading from a pipe could block
            raise PatebenchError("it is not a file")
        with zipfile.ZipFile(path) as archive:
            if (size := sum(item.file_size for item in archive.infolist())) > _MOST_BYTES:
                raise PatebenchError(f"unpacked, it is {size:,} bytes, above the limit of {_MOST_BYTES:,}")
        with np.load(path, allow_pickle=False) as arrays:
            array: NDArray[Any] = arrays[name]
    except Exception as fault:  # a damaged archive may raise anything
        raise PatebenchError(
            f"the array '{name}' cannot be read ({fault}); give an .npz file with this array",
            code="attachment",
            where=path,
        ) from None
    if (
        array.ndim not in (1, 2)
        or array.dtype.kind not in "iu"
        or array.size == 0
        or not array.ndim - 2 <= array.min() <= array.max() <= np.iinfo(np.int64).max
    ):
        raise PatebenchError(
            f"the array '{name}' has type {array.dtype} and shape {array.shape}; give integers: "
            "labels ≥ −1 of shape (queries,), or votes ≥ 0 of shape (teachers, queries)",
            code="attachment",
            where=path,
        )
    return array.astype(np.int64)


def _worst_case(entry: Entry) -> Bound | None:
    """Return the smallest worst-case bound of `entry`; None if the entry states too little to compute one."""
    mechanism, privacy = entry.mechanism, entry.privacy
    unit, change, delta = privacy.unit, privacy.adjacency, privacy.delta
    if mechanism is None or unit is None or change is None or delta is None:
        if isinstance(mechanism, VoteMechanism):
            make_mechanism(mechanism.name, mechanism.parameters)  # report invalid ones
        return None
    with located("mechanism"):
        match mechanism:
            case VoteMechanism():
                if unit is Unit.OWNER:  # the records of an owner may be in several shards
                    raise _no_theorem(mechanism.name, unit, change)
                changes = _teacher_changes(mechanism, unit, change, entry.data.records)
                # Weights are not capped but scaled down, whatever other teachers do.
                if Change.ADDED_OR_REMOVED in changes and not mechanism.weighted:
                    _check_all_votes_count(mechanism, unit, change)
                bounds = _votes_bounds(mechanism, delta)
                if any(not bounds[of_teacher] for of_teacher in changes):
                    raise _no_theorem(mechanism.name, unit, change)
                smallest = [min(bounds[of_teacher], key=lambda bound: bound.epsilon) for of_teacher in changes]
                return max(smallest, key=lambda bound: bound.epsilon)
            case SampledGaussian():
                if mechanism.unknown_sampling:
                    return None
                return _sampled_bound(mechanism, unit, change, delta, entry.data.records)
            case PureSteps():
                epsilon = pure_composition(mechanism.epsilon, mechanism.steps, delta)
                return _bound(epsilon, delta, "pld", f"{mechanism.because}; Kairouz, Oh, Viswanath 2015, Theorem 3.3")
            case Table():
                mu, source = _table_mu(mechanism, unit, change)
            case GaussianComposition():
                mu, source = mechanism.mu, mechanism.because
            case NoNoise():
                mu, source = math.inf, mechanism.because
    return _bound(gaussian_dp(mu, delta), delta, "gdp", source)


def _teacher_changes(stated: VoteMechanism, unit: Unit, change: Change, records: int | None) -> list[Change]:
    """Return the changes of one teacher that a `change` of one `unit` of privacy can cause.

    A record that is added to a shard may change the votes of its teacher in any way, or add this teacher if the shard
    was empty. Only the second is possible if every teacher has one record. Raises PatebenchError if the mechanism
    `stated` in an entry does not state that only one teacher changes, or contradicts the number of `records`.
    """
    if unit is Unit.SHARD:
        return [change]
    if stated.partition is None:
        line = f"the key is missing; add how records belong to teachers, which the ε of a {unit} depends on"
        raise PatebenchError(line, code="missing", where="mechanism.partition")
    alone = stated.partition == "one record each"
    if alone and None not in (stated.teachers, records) and stated.teachers != records:
        line = (
            f"mechanism.teachers is {stated.teachers} and data.records {records}, so not every teacher has one record"
        )
        raise PatebenchError(f"{line}; correct one number or mechanism.partition", code="contradiction")
    if change is Change.REPLACED or unit is Unit.LABEL:
        return [Change.REPLACED]
    return [Change.ADDED_OR_REMOVED] if alone else [Change.REPLACED, Change.ADDED_OR_REMOVED]


def _bound(epsilon: float, delta: float, accountant: str, source: str) -> Bound:
    return Bound(
        epsilon=epsilon, delta=delta, queries=1, accountant=accountant, kind=Kind.WORST_CASE, publishable=False,
        source=source,
    )  # fmt: skip


def _no_theorem(what: str, unit: Unit, change: Change) -> PatebenchError:
    return PatebenchError(
        f"patebench knows no theorem that bounds ε of {what} if one {unit} is {change}; correct privacy.unit or "
        "privacy.adjacency",
        code="no-theorem",
    )


def _check_all_votes_count(stated: VoteMechanism, unit: Unit, change: Change) -> None:
    """Raise PatebenchError unless the mechanism `stated` in an entry counts all votes of each teacher.

    The check is for entries whose ε protects a teacher that is added or removed. If only some votes count, removing one
    teacher may change which votes of other teachers count, and no theorem bounds ε. The error message names `unit` and
    `change`.
    """
    cast = stated.votes_per_teacher or stated.queries
    counted = make_mechanism(stated.name, stated.parameters).most_participation(cast)
    if counted == cast:
        return
    why = f"if one {unit} is {change}, ε is known only if all votes of a teacher count, here {counted}"
    if stated.votes_per_teacher is None:
        line = f"the key is missing; add the maximum number of votes of a teacher in a round ({why})"
        raise PatebenchError(line, code="missing", where="mechanism.votes_per_teacher")
    line = f"{why} of {cast}; correct mechanism.votes_per_teacher or privacy.adjacency"
    raise PatebenchError(line, code="no-theorem")


def _votes_bounds(stated: VoteMechanism, delta: float) -> dict[Change, list[Bound]]:
    """Return all worst-case bounds at `delta` of the vote mechanism `stated` in an entry, by change of a teacher."""
    mechanism = make_mechanism(stated.name, stated.parameters)
    if stated.rounds > 1:
        if "k" in stated.parameters:  # several rounds compose like one round with more votes per teacher
            more = {"k": stated.parameters["k"] * stated.rounds}
            mechanism = make_mechanism(stated.name, {**stated.parameters, **more})
        check_adaptive(stated.name, mechanism)
    # Several rounds of tables compose through the larger k, even if later queries depend on earlier answers. For
    # all other mechanisms, several rounds need bounds for adaptive queries.
    adaptive = stated.rounds > 1 and mechanism.answering is not Answering.AS_TABLE
    abstentions = stated.votes_per_teacher is not None and stated.votes_per_teacher < stated.queries
    check_covers(mechanism, abstentions=abstentions, weights=False, labels_only=False)
    weighted = stated.weighted if stated.weighted is not None else mechanism.weights
    if weighted and stated.classes is None:
        line = "add the number of classes, or set mechanism.weighted to false if each vote counts as 1"
        raise PatebenchError(line, code="missing", where="mechanism.classes")
    bounds = worst_case(
        mechanism, stated.queries, delta, stated.classes, stated.teachers, adaptive=adaptive, weighted=weighted
    )
    # Only some theorems cover a teacher that is added or removed.
    added = [replace(bound, epsilon=bound.add_or_remove) for bound in bounds if bound.add_or_remove is not None]
    most, cost = stated.answers, mechanism.per_query_cost(stated.teachers or 1, stated.classes or 2)
    if most is not None and most < stated.queries and cost is not None and cost.threshold_test is not None:
        test, answer = cost.threshold_test, cost.answer
        accountant = RenyiAccountant(
            kind=Kind.WORST_CASE,
            source=f"Rényi divergences of {stated.queries} tests and {most} answers, a limit that must be fixed "
            "beforehand",
            totals=lambda numbers, orders: np.stack(
                [T * test(orders) + min(T, most) * answer(orders) for T in numbers]
            ),
        )
        bounds += accountant.bounds([stated.queries], delta)
    return {Change.REPLACED: bounds, Change.ADDED_OR_REMOVED: added}


def _sampled_bound(mechanism: SampledGaussian, unit: Unit, change: Change, delta: float, records: int | None) -> Bound:
    """Return the worst-case bound at `delta` for the composition of all steps of `mechanism`.

    `change` states how one `unit` of privacy differs between adjacent data sets. `records` is the number of records;
    None if it is unknown.
    """
    if unit not in (Unit.RECORD, Unit.LABEL):
        raise _no_theorem("sampled steps", unit, change)
    added = change is Change.ADDED_OR_REMOVED and unit is Unit.RECORD
    kinds = [_accountant_steps(part, added, records) for part in mechanism.parts]
    bound = bound_together(kinds, delta)
    if added and any(part.sampling == "shuffled" and part.rate < 1 for part in mechanism.parts):
        bound = replace(bound, source=f"{bound.source}; shuffled batches: L2 sensitivity √5 in each epoch")
    if added or math.isinf(bound.epsilon):
        return bound
    # A replaced record is one removed and one added record, which doubles the L2 sensitivity.
    if bound.accountant == "gdp":
        halved = [replace(kind, noise=kind.noise / 2) for kind in kinds]
        return replace(bound, epsilon=epsilon_together(halved, delta), source=f"{bound.source}; sensitivity 2")

    def holds(epsilon: float) -> bool:
        """Return True if group privacy proves (2 · `epsilon`, `delta`)-DP for a replaced record.

        A replacement removes one record and adds another record. Let δ′ = `delta`/(1 + exp(`epsilon`)). The result is
        True if the steps are (`epsilon`, δ′)-DP for one record that is removed or added.
        """
        # Group privacy (Vadhan 2017, Lemma 2.2): (ε, part)-DP for one record implies (2ε, δ)-DP for two.
        part = delta / (1 + math.exp(min(epsilon, 700.0)))
        return part >= LEAST_DELTA and epsilon_together(kinds, part) <= epsilon

    safe = max(bound.epsilon, 1e-3)  # ε may be 0 at δ, but not at δ′
    while not holds(safe):
        safe *= 1.1
        if safe > 2 * max(1.0, bound.epsilon) + math.log(delta / LEAST_DELTA):
            return replace(bound, epsilon=math.inf, source=f"{bound.source}; no finite ε by group privacy at this δ")
    least = bisect(holds, safe, 0.0, near=1e-3)
    return replace(bound, epsilon=2 * least, source=f"{bound.source}; group privacy: Vadhan 2017, Lemma 2.2")


def _accountant_steps(part: Steps, added: bool, records: int | None) -> SubsampledGaussian:
    """Return the training steps `part` of an entry as a subsampled Gaussian mechanism.

    Steps with Poisson sampling, or on all records, keep their noise, rate and number. With shuffled batches, each epoch
    counts as one step on all records. The noise of this step is the noise of `part` divided by the L2 sensitivity of an
    epoch, in units of the clipping norm. The sensitivity is √5 if `added` is True (one record is added or removed), and
    1 if `added` is False (one record is replaced by zero).

    `records` is the number of records, which limits the number of batches per epoch; None if it is unknown.
    """
    if part.sampling != "shuffled" or part.rate == 1:
        return SubsampledGaussian(part.noise, part.rate, part.steps)
    # A record is in one batch per epoch, so more epochs mean a larger ε. The number of epochs is therefore computed
    # from the smallest number of batches per epoch: without an incomplete last batch, no more batches than records,
    # and one batch if the number of records is unknown.
    batches = min(max(1, math.floor(1 / part.rate + 1e-9)), records or 1)
    epochs = math.ceil(part.steps / batches)
    # Proof: docs/explanation/proofs-systems.md, "Shuffled batches".
    return SubsampledGaussian(part.noise / math.sqrt(5) if added else part.noise, 1.0, epochs)


def _table_mu(table: Table, unit: Unit, change: Change) -> tuple[float, str]:
    """Return μ and the theorem by which the noisy tables of votes are together μ-GDP (Gaussian differential privacy).

    `table` describes all noisy tables of the entry.
    """
    if unit is Unit.SHARD:
        raise _no_theorem("a table of records' votes", unit, change)
    squares = 2 if unit is Unit.LABEL else 1 if change is Change.ADDED_OR_REMOVED else 2 if table.non_negative else 4
    owner = 1
    if unit is Unit.OWNER:
        if table.records_per_owner is None:
            line = "the key is missing; add the maximum number of records of one owner"
            raise PatebenchError(line, code="missing", where="mechanism.records_per_owner")
        owner = table.records_per_owner
    source = f"Dong, Roth, Su 2022, Corollary 3.3: L2 sensitivity {owner} · √{squares}, {plural(table.tables, 'table')}"
    # μ is the L2 sensitivity of all tables together divided by the standard deviation of the noise.
    return owner * math.sqrt(squares * table.tables) / table.sigma, source


def _lower_bound(entry: Entry) -> float | None:
    """Return a lower bound on the true ε, computed from the mechanism and its parameters; None if none is known.

    The bound is ∞ for a release without effective noise. For a mechanism on votes, it is the exact ε of the worst pair
    of adjacent vote histograms that a search finds, if all queries may be answered.
    """
    mechanism, privacy = entry.mechanism, entry.privacy
    if isinstance(mechanism, NoNoise):
        return math.inf
    # The bound is for the worst votes, so it says nothing about a data-dependent ε.
    if not isinstance(mechanism, VoteMechanism) or entry.claim.kind not in (Kind.WORST_CASE, Kind.CLAIMED):
        return None
    teachers, classes, delta = mechanism.teachers, mechanism.classes, privacy.delta
    if teachers is None or classes is None or delta is None or privacy.adjacency is not Change.REPLACED:
        return None
    checked, queries = make_mechanism(mechanism.name, mechanism.parameters), mechanism.queries
    limited = mechanism.answers is not None and mechanism.answers < queries
    if not checked.independent_queries or limited:
        return None
    search = Search(checked, teachers, classes, delta)
    return max(pair.epsilon(search.composed_queries(queries), delta) for pair in search.worst(queries))


def _find_data_dependence(entry: Entry, votes: Votes | None) -> Iterator[Problem]:
    """Yield a problem if the ε that the entry states as worst case is probably data-dependent.

    The caller has checked that the stated ε is below the worst-case ε. It is probably data-dependent if it is at least
    the data-dependent ε of `votes`. If `votes` is None, the data-dependent ε is that of unanimous votes.
    """
    mechanism = entry.mechanism
    if entry.claim.kind is not Kind.WORST_CASE or not isinstance(mechanism, VoteMechanism):
        return
    if votes is None:
        if mechanism.teachers is None or mechanism.classes is None:
            return
        if mechanism.queries * mechanism.classes > _MOST_CELLS:
            return
        unanimous = np.zeros((mechanism.queries, mechanism.classes), dtype=np.int64)
        unanimous[:, 0] = mechanism.teachers
        votes = Votes(unanimous)
    checked, delta = make_mechanism(mechanism.name, mechanism.parameters), entry.privacy.delta
    assert delta is not None
    bounds = checked.bounds(votes, [votes.queries], delta, publishable=False)
    dependent = [bound.epsilon for bound in bounds if bound.kind is Kind.DATA_DEPENDENT]
    if dependent and entry.claim.epsilon >= min(dependent):
        yield Problem("data-dependent", f"ε = {entry.claim.epsilon:g} is stated as worst case but depends on the votes")
