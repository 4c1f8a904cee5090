"""Interface of mechanisms, which release labels and state bounds on ε.

A mechanism is a frozen dataclass, and its fields are its parameters. All other code uses mechanisms through this
interface only.
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion, exact, exact_accountant
from patebench.accounting.accountant import (
    Accountant,
    check_queries,
    valid_for_adaptive_queries,
    valid_for_discrete_noise,
)
from patebench.accounting.filter import PerQueryCost, RenyiFilter, best_order, queries_within
from patebench.accounting.sanitised import SanitisingNoise
from patebench.accounting.votes import Counts, Votes, WeightedVotes
from patebench.core.bound import Adjacency, Bound, Conversion, check_delta
from patebench.core.checks import check_real, quote
from patebench.core.entropy import Rehearsal
from patebench.core.errors import PatebenchError, in_one_line
from patebench.core.registry import nearest
from patebench.core.seeds import Source
from patebench.core.spelling import parameters_slug
from patebench.core.text import in_json, plural
from patebench.mechanisms import MECHANISMS

log = logging.getLogger("patebench")

#: Label that means "no answer"; as an index it selects the last column of the outcome probabilities.
NO_ANSWER = -1

#: One label per query, (queries,); `NO_ANSWER` for queries on which the mechanism abstains.
Labels = NDArray[np.int32]


def parameter(*, low: float, above: bool = False, high: float = math.inf, whole: bool = False, words: str = "") -> Any:
    """Return a dataclass field for a parameter of a mechanism.

    Parameters
    ----------
    low, high : smallest and largest allowed value
    above : if True, `low` itself is not allowed
    whole : if True, only whole numbers are allowed
    words : name in tables and figures, such as "ε of a query" for `epsilon`; empty: the name of the field
    """
    return field(metadata={"low": low, "above": above, "high": high, "whole": whole, "words": words})


def limits(item: Field[Any]) -> tuple[float, bool, float]:
    """Return the limits (low, above, high) of `item`, a field created by `parameter`.

    Allowed values are from low to high; if `above` is True, low itself is not allowed.
    """
    return item.metadata["low"], item.metadata["above"], item.metadata["high"]


class Shown(NamedTuple):
    """Appearance of a mechanism in tables and figures.

    Parameters
    ----------
    label : name of the mechanism; default: its name in the registry
    color : name of the colour in figures; default: a colour that no other mechanism uses
    marker : marker in figures; default: a marker that no other mechanism uses
    """

    label: str = ""
    color: str = ""
    marker: str = ""


class Answering(StrEnum):
    """Way in which a mechanism answers the queries of one release, such as each alone or all by one noisy table.

    This determines how costs compose and what audits test.
    """

    ALONE = "alone"  # each query is answered independently
    IN_SEQUENCE = "in sequence"  # an answer depends on earlier queries, through a state of the mechanism
    TOGETHER = "together"  # one decision is made for all queries, so even the first answer depends on the others
    AS_TABLE = "as table"  # one table of noisy counts is released per round; labels are the largest counts
    BY_TEACHER = "by teacher"  # each query is answered independently, and every teacher's perturbed vote is released


@dataclass(frozen=True)
class Mechanism(ABC):
    """Base class of mechanisms, which label queries from the teachers' votes and state bounds on the ε of these labels.

    A subclass is a frozen dataclass. Its fields are the parameters of the mechanism: real numbers, created by
    `parameter`. It must define only `release` and `log_outcome_probabilities`. Exact bounds on ε are computed from
    `log_outcome_probabilities`. Override `accountants` to add bounds from theorems.

    If a mechanism releases more than labels, its bounds must cover everything that it releases. Such a subclass must
    override `neighbours` and `accountants`. The class attribute `example` contains parameters for tests and
    documentation. It is optional for mechanisms of other packages.
    """

    #: Accountant and conversion by which the mechanism's paper states ε; tables show this ε first.
    published: ClassVar[tuple[str, Conversion] | None] = None

    #: Parameters for tests and documentation, sensible for 50 to 250 teachers.
    example: ClassVar[Mapping[str, float]] = {}

    #: Name, colour and marker in tables and figures; subclasses do not inherit it.
    shown: ClassVar[Shown] = Shown()

    #: Numbers on which the worst-case ε depends: "classes", "teachers", both or none.
    cost_needs: ClassVar[tuple[str, ...]] = ()

    #: Dependence between the queries of one release.
    answering: ClassVar[Answering] = Answering.ALONE

    #: True if `release` accepts a source of discrete noise. Such a mechanism has a worst-case accountant that is valid
    #: for discrete noise and for any rule of breaking ties.
    discrete: ClassVar[bool] = False

    #: True for mechanisms that answer a query only if a few changed votes would not change its plurality.
    tests_stability: ClassVar[bool] = False

    #: True if teachers may abstain: between neighbours, a vote may then vanish, appear or change its class.
    abstentions: ClassVar[bool] = False

    #: True if votes may have weights (`accounting.votes.WeightedVotes`).
    weights: ClassVar[bool] = False

    #: True if a theorem covers neighbours that differ only in the label of one record (`Votes.labels_only`).
    labels: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.shown = cls.__dict__.get("shown", Shown())

    def __post_init__(self) -> None:
        for item in fields(self):
            name, value = f"{type(self).__name__}: {item.name}", getattr(self, item.name)
            low, above, high = limits(item)
            check_real(name, value)
            if not (low < value <= high if above else low <= value <= high):
                least = f"above {low:g}" if above else f"at least {low:g}"
                most = "" if math.isinf(high) else f" and at most {high:g}"
                raise PatebenchError(f"{name} = {value:g} is out of range; it must be {least}{most}")
            if item.metadata.get("whole") and value % 1:
                raise PatebenchError(f"{name} = {value:g} is not a whole number; give a whole number")
            object.__setattr__(self, item.name, float(value) + 0.0)  # a plain float, and 0 for −0

    @abstractmethod
    def release(self, votes: Votes, rng: Source) -> Labels:
        """Draw a label for each query, (queries,), with noise from `rng`; NO_ANSWER if a query is not answered."""

    def released(self, votes: Votes, rng: Source) -> dict[str, NDArray[Any]]:
        """Draw all released arrays, by name.

        The base class returns only "labels", drawn by `release`. Some mechanisms add "noisy_counts", or add "reports",
        the perturbed votes of the teachers.
        """
        return {"labels": self.release(votes, rng)}

    def draw(self, votes: Votes, rng: Source) -> dict[str, NDArray[Any]]:
        """Draw the arrays of `released`, and check their labels.

        Raises
        ------
        PatebenchError
            If `released` fails with an unexpected exception, or if its labels are not one class or NO_ANSWER per query.
        """
        with _one_line_faults(self):
            arrays = self.released(votes, rng)
            labels: NDArray[Any] = np.asarray(arrays["labels"])
        if labels.dtype.kind != "i" or labels.shape != (votes.queries,):
            fault = f"labels of dtype {labels.dtype} and shape {labels.shape}"
        elif (wrong := (labels < NO_ANSWER) | (labels >= votes.classes)).any():
            fault = f"the label {labels[query := int(np.argmax(wrong))]} for query {query}"
        else:
            return {**arrays, "labels": labels}
        raise PatebenchError(
            f"{type(self).__name__}.release returned {fault}; return {plural(votes.queries, 'signed integer')}: a label"
            f" from 0 to {votes.classes - 1} for each query, or {NO_ANSWER} for no answer"
        )

    def student_labels(self, votes: Votes) -> Labels:
        """Return a label for each query, (queries,), which the student uses if the mechanism does not answer the query.

        NO_ANSWER means that the student has no label for the query. The base class returns NO_ANSWER for all queries.
        """
        return np.full(votes.queries, NO_ANSWER, dtype=np.int32)

    @abstractmethod
    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64] | None:
        """Return ln Pr of each label and of "no answer" for each query, (queries, classes + 1); None if unknown.

        "No answer" is the last column.
        """

    @property
    def independent_queries(self) -> bool:
        """Return True if each query is answered independently of the others."""
        return self.answering in (Answering.ALONE, Answering.BY_TEACHER)

    def outcome_probabilities(self, votes: Votes) -> NDArray[np.float64] | None:
        """Return the probability of each outcome of each query, (queries, classes + 1); None if unknown.

        An outcome is a label or, in the last column, "no answer". Audits compare these probabilities with the
        frequencies of outcomes in releases. The base class returns the exponentials of `log_outcome_probabilities`.
        """
        log_p = self.log_outcome_probabilities(votes)
        return None if log_p is None else checked_probabilities(self, log_p)

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        """Yield the outcome distributions of the histograms `counts` and of all their neighbours.

        A neighbour of a histogram has one vote moved to another class. Exact accountants compute divergences from these
        distributions. The base class takes the distributions from `log_outcome_probabilities`. This is valid for a
        mechanism that answers each query from the counts of this query only and treats all classes alike. Subclasses
        may override this method to save time. If they release more than labels, they must override it.

        Parameters
        ----------
        counts : (histograms, classes) counts in descending order
        """
        from patebench.mechanisms.neighbours import one_by_one

        name, remedy = type(self).__name__, "override 'neighbours' and 'accountants'"
        if not self.independent_queries:
            raise PatebenchError(
                f"{name}.neighbours needs a mechanism that answers each query independently of the others, but"
                f" independent_queries is False for {name}; {remedy}"
            )

        def log_probabilities(rows: Counts) -> NDArray[np.float64]:
            if (log_p := self.log_outcome_probabilities(Votes(rows))) is None:
                raise PatebenchError(
                    f"{name}.log_outcome_probabilities returns None, so no exact bound can be computed; {remedy}"
                )
            checked_probabilities(self, log_p)
            return log_p

        return one_by_one(counts, log_probabilities)

    def most_participation(self, queries: int) -> int:
        """Return the largest number of queries in which one teacher takes part, among the first `queries` queries.

        The base class returns `queries`.
        """
        return queries

    def accountants(self, votes: Votes) -> list[Accountant]:
        """Return one accountant per bound on the ε of labels drawn from `votes`; by default, the exact accountants."""
        return exact_accountant.accountants(votes, self.neighbours)

    def sanitised(self, votes: Votes, noise: SanitisingNoise) -> list[Accountant]:
        """Return accountants of sanitised bounds: data-dependent bounds that may be published after `noise` is added.

        The base class returns [].
        """
        return []

    def teacher_costs(self, votes: Votes, queries: Sequence[int], delta: float) -> list[dict[str, float | str]]:
        """Return costs of individual teachers, such as ε at `delta`, for mechanisms in which the ε of teachers differ.

        The result has one dictionary for each T in `queries`: the costs of the first T queries, by name. The base class
        returns [].
        """
        return []

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost | None:
        """Return the worst-case Rényi cost of one query for `teachers` teachers and `classes` classes; None if unknown.

        The cost must also be valid for discrete noise.
        """
        return None

    def bounds(
        self,
        votes: Votes,
        queries: Sequence[int],
        delta: float,
        noise: SanitisingNoise | None = None,
        curve: Sequence[int] = (),
        *,
        discrete: bool = False,
        adaptive: bool = False,
        publishable: bool | None = None,
    ) -> list[Bound]:
        """Return every bound on ε at `delta` for the first T queries, for each T in `queries` and in `curve`.

        Parameters
        ----------
        votes : the votes on all queries
        queries : numbers of queries T for which all bounds are stated
        curve : further numbers of queries T, for which all bounds except sanitised bounds are stated
        delta : δ of every bound
        noise : noise of sanitised bounds; None: no sanitised bounds
        discrete : state only bounds that are valid for discrete noise
        adaptive : state only bounds that are valid if queries depend on earlier answers. Sanitised bounds are left out,
            because their smooth sensitivity assumes that queries are fixed beforehand
        publishable : select the bounds that may be published (True) or the others (False); None: all
        """
        check_delta(delta)
        check_abstentions(self, votes)
        if adaptive and self.answering is Answering.AS_TABLE and not votes.rounds:
            raise PatebenchError(
                f"the ε of {type(self).__name__} depends on the number of queries in each round, which these votes do "
                "not state; give Votes with `rounds`"
            )
        requested = check_queries(queries, votes.queries)
        with_curve = check_queries([*requested, *curve], votes.queries)
        with _one_line_faults(self):
            stated, sanitised = self.accountants(votes), self.sanitised(votes, noise) if noise and not adaptive else []
            if discrete:
                stated, sanitised = valid_for_discrete_noise(stated), valid_for_discrete_noise(sanitised)
            if adaptive:
                stated = valid_for_adaptive_queries(stated)
            if publishable is not None:
                stated, sanitised = ([a for a in some if a.publishable is publishable] for some in (stated, sanitised))
            bounds = [bound for accountant in stated for bound in accountant.bounds_of_both(with_curve, delta)]
            bounds += [bound for accountant in sanitised for bound in accountant.bounds(requested, delta)]
        return [replace(bound, adjacency=Adjacency.REPLACE_LABEL) for bound in bounds] if votes.labels_only else bounds

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        return tuple(item.name for item in fields(cls))

    @classmethod
    def parameter_words(cls) -> dict[str, str]:
        """Return the display name (`words`) of each parameter that has one, by parameter name."""
        return {item.name: words for item in fields(cls) if (words := item.metadata.get("words"))}

    def parameters(self) -> dict[str, float]:
        """Return the parameters by name, in the order of the fields."""
        return {name: float(getattr(self, name)) for name in self.parameter_names()}

    @property
    def slug(self) -> str:
        """Return the parameters as one path component, such as "gamma-0.05"."""
        return parameters_slug(self.parameters())


@contextmanager
def _one_line_faults(mechanism: Mechanism) -> Iterator[None]:
    """Convert an unexpected exception of a method of `mechanism` to a PatebenchError, and log its traceback."""
    try:
        yield
    except (PatebenchError, MemoryError):
        raise
    except (Exception, SystemExit) as fault:  # a mechanism of another package may raise anything
        name = type(mechanism).__name__
        log.error("the mechanism %s raised an exception", name, exc_info=fault)
        raise PatebenchError(
            f"the mechanism {name} raised {in_one_line(fault)}; correct its code; see the traceback in the log (--log)"
        ) from None


def checked_probabilities(mechanism: Mechanism, log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(`log_p`), the probability of each outcome of each query, (queries, outcomes).

    Raises
    ------
    PatebenchError
        If the probabilities of some query do not sum to 1.
    """
    probabilities: NDArray[np.float64] = np.exp(log_p)
    sums = probabilities.sum(axis=1)
    wrong = ~(np.abs(sums - 1) <= 1e-6)  # NaN is wrong, too
    if wrong.any():
        query = int(np.argmax(wrong))
        raise PatebenchError(
            f"{type(mechanism).__name__}.log_outcome_probabilities: the probabilities of query {query} sum to "
            f"{sums[query]:.6g} instead of 1; correct this method"
        )
    return probabilities


def make_mechanism(name: str, parameters: Mapping[str, float]) -> Mechanism:
    """Return the registered mechanism `name` with these `parameters`.

    Raises
    ------
    PatebenchError
        If the name or a parameter is unknown, or a parameter is missing or out of range.
    """
    kind: type[Mechanism] = MECHANISMS.load(name)
    allowed = kind.parameter_names()
    known = f"its parameters: {', '.join(allowed)}"
    if not isinstance(parameters, Mapping):
        raise PatebenchError(f"parameters = {quote(parameters)} is not a dict; give a dict from names to numbers")
    for parameter_name in parameters:
        if parameter_name not in allowed:
            raise PatebenchError(
                f"the mechanism '{name}' has no parameter '{parameter_name}'{nearest(parameter_name, allowed)}; {known}"
            )
    for needed in allowed:
        if needed not in parameters:
            raise PatebenchError(f"the mechanism '{name}' lacks its parameter '{needed}'; give it ({known})")
    return kind(**parameters)


def mechanism_of(facts: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism stored in `facts`, the metadata of a file; infinite parameters are stored as "inf"."""
    return make_mechanism(facts["mechanism"], {name: float(value) for name, value in facts["parameters"].items()})


def _mechanisms_with(attribute: str) -> str:
    """Return the names of the registered mechanisms whose class attribute `attribute` is true, joined by commas."""
    return ", ".join(name for name in MECHANISMS if getattr(MECHANISMS.load(name), attribute))


def check_releasable(name: str, kind: type[Mechanism]) -> None:
    """Raise PatebenchError if mechanisms of class `kind` cannot draw discrete noise, which a safe release needs."""
    if not kind.discrete:
        raise PatebenchError(
            f"the mechanism '{name}' supports no discrete noise, so its labels are not safe to release; "
            f"use one of: {_mechanisms_with('discrete')}"
        )


def check_drawable(mechanism: Mechanism, votes: Votes) -> None:
    """Raise PatebenchError if `mechanism` cannot draw its noise exactly, for example if a scale is too large.

    Call this before a release is recorded and drawn. The check labels an artificial query on which all teachers agree,
    so the error does not depend on private votes.
    """
    label = np.zeros(votes.teachers, np.int8)
    artificial_votes = Votes.of(label[:, None], votes.classes, abstentions=votes.abstentions)
    if votes.weighted is not None:
        rows = WeightedVotes(np.full((votes.teachers, 1), votes.unit), label, np.arange(votes.teachers))
        artificial_votes = Votes.from_weights(rows, votes.teachers, votes.classes)
    if votes.predictions is not None:
        artificial_votes = artificial_votes.with_predictions(votes.predictions[:1])
    for most in (True, False):
        mechanism.draw(replace(artificial_votes, rounds=(1,) if votes.rounds else ()), Rehearsal(most))


def never_abstaining(log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln Pr of each label and, in an added last column, of "no answer", (queries, classes + 1).

    `log_p` (queries, classes) is ln Pr of each label. "No answer" has probability 0, so its ln Pr is −∞.
    """
    return np.column_stack([log_p, np.full(len(log_p), -np.inf)])


def check_abstentions(mechanism: Mechanism, votes: Votes) -> None:
    """Raise PatebenchError if no privacy theorem of `mechanism` covers `votes`, for example if teachers abstain."""
    weighted = votes.weighted is not None
    check_covers(mechanism, abstentions=votes.abstentions, weights=weighted, labels_only=votes.labels_only)


def check_covers(mechanism: Mechanism, *, abstentions: bool, weights: bool, labels_only: bool) -> None:
    """Raise PatebenchError if the votes have a property that no privacy theorem of `mechanism` covers.

    Parameters
    ----------
    abstentions : True if teachers may abstain
    weights : True if votes have weights
    labels_only : True if samples are public and only their labels are private
    """
    name = type(mechanism).__name__
    abstaining = (
        f"the proof of {name} assumes that teachers vote on every query, but these teachers may abstain; use a"
        " mechanism that allows abstentions:"
    )
    for attribute, present, fault in (
        ("labels", labels_only, f"no theorem of {name} states the ε of a private label whose sample is public; use"),
        ("weights", weights, f"{name} has no theorem for votes with weights; use a mechanism that accepts them:"),
        ("abstentions", abstentions, abstaining),
    ):
        if present and not getattr(mechanism, attribute):
            raise PatebenchError(f"{fault} {_mechanisms_with(attribute)}", code=attribute)


#: Number of queries in the check that `participation` is 1. If it is below 1 and has at most twelve digits,
#: every teacher misses at least one of these queries.
_MANY = 10**15


def check_adaptive(name: str, mechanism: Mechanism) -> None:
    """Raise PatebenchError if the bounds of `mechanism` do not cover releases that ask queries in several rounds."""
    if mechanism.answering is Answering.AS_TABLE:
        return
    if not mechanism.independent_queries:
        raise PatebenchError(
            f"the mechanism '{name}' cannot be queried in rounds, because its queries depend on each other; "
            "use another mechanism"
        )
    if mechanism.most_participation(_MANY) < _MANY:
        raise PatebenchError(
            f"the mechanism '{name}' has participation below 1, which is not supported for queries in several rounds;"
            " set 'participation' to 1"
        )


def cost_per_query(name: str, mechanism: Mechanism, teachers: int, classes: int) -> PerQueryCost:
    """Return the worst-case Rényi cost of one query, by which a release decides when to stop at its budget.

    Raises
    ------
    PatebenchError
        If the mechanism has no worst-case cost per query.
    """
    if mechanism.answering is Answering.AS_TABLE:
        raise PatebenchError(
            f"the mechanism '{name}' releases the counts of all queries at once, so it cannot stop at a budget; leave"
            " the budget out, and find the noise for a target ε with `patebench calibrate`"
        )
    if (cost := mechanism.per_query_cost(teachers, classes)) is None:
        able = [other for other in MECHANISMS if MECHANISMS.load(other).per_query_cost is not Mechanism.per_query_cost]
        raise PatebenchError(
            f"the mechanism '{name}' has no known worst-case cost per query, so it cannot stop at a "
            f"budget; leave the budget out, or use one of: {', '.join(able)}"
        )
    return cost


def keeper_of(cost: PerQueryCost, epsilon: float, delta: float) -> RenyiFilter:
    """Return a Rényi filter that admits queries as long as their total cost is within the budget (`epsilon`, `delta`).

    `cost` is the worst-case cost of one query. The filter does not depend on votes.

    Raises
    ------
    PatebenchError
        If the budget does not admit one query.
    """
    # The filter uses one of the ledger's orders. The ledger enters the filter's allowance at this order, so a release
    # within the filter's budget is also within an equal budget of the ledger.
    order = best_order(cost.both, epsilon, delta)
    of_ledger = conversion.ORDERS[np.argmin(np.abs(np.log((conversion.ORDERS - 1) / (order - 1))))]
    keeper = RenyiFilter(epsilon=epsilon, delta=delta, order=float(of_ledger))
    if not keeper.admits(cost.both):
        raise PatebenchError(
            f"a budget of ε = {epsilon:g} at δ = {delta:g} is too small for a single query; "
            "give a larger budget, or use more noise"
        )
    return keeper


def labels_within(cost: PerQueryCost, labels: Labels, epsilon: float, delta: float) -> tuple[Labels, int]:
    """Return `labels` with NO_ANSWER after the first n queries, and n, the number of queries that the budget admits.

    The budget is (`epsilon`, `delta`), and `cost` is the worst-case cost of one query. Labels are drawn independently,
    so dropping the last labels is equivalent to not asking these queries.
    """
    asked = queries_within(keeper_of(cost, epsilon, delta), labels != NO_ANSWER, cost)
    allowed = labels.copy()
    allowed[asked:] = NO_ANSWER
    return allowed, asked


def fault_of(kind: object) -> str | None:
    """Return the reason why `kind`, an object of another package, is no valid mechanism class; None if it is valid."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        return "is no subclass of patebench.mechanisms.base.Mechanism"
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        return f"lacks the method {missing[0]}"
    if vars(kind).get("__annotations__") and "__dataclass_fields__" not in vars(kind):
        return "is no dataclass; put @dataclass(frozen=True) above it"
    if bare := [item.name for item in fields(kind) if not {"low", "above", "high"} <= set(item.metadata)]:
        return f"has the field {bare[0]}, which is no parameter; create it with patebench.mechanisms.base.parameter"
    return None


def json_parameters(parameters: Mapping[str, float]) -> dict[str, float | str]:
    """Return parameters for strict JSON: an infinite parameter becomes the string "inf"."""
    return {name: in_json(value) for name, value in parameters.items()}
