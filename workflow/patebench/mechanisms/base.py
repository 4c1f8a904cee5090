"""Interface of mechanisms: frozen dataclasses of parameters that release labels and state their privacy.

Callers use only this interface for every mechanism: those that add noise to counts, perturb each vote, abstain, or have
only a claimed bound.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion, exact, exact_accountant
from patebench.accounting.accountant import (
    Accountant,
    DirectAccountant,
    check_queries,
    valid_for_adaptive_queries,
    valid_for_discrete_noise,
)
from patebench.accounting.filter import PerQueryCost, RenyiFilter, best_order, queries_within
from patebench.accounting.sanitised import SanitisingNoise
from patebench.accounting.votes import Counts, Votes
from patebench.core.bound import Adjacency, Bound, Conversion, Kind, check_delta
from patebench.core.checks import check_real, quote
from patebench.core.entropy import Rehearsal
from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest
from patebench.core.seeds import Source
from patebench.core.spelling import parameters_slug
from patebench.core.text import in_json
from patebench.mechanisms import MECHANISMS

#: The label that means "no answer"; as an index it selects the last column of the outcome probabilities.
NO_ANSWER = -1

#: One label per query, (queries,); `NO_ANSWER` where the mechanism abstains.
Labels = NDArray[np.int32]


def parameter(*, low: float, above: bool = False, high: float = math.inf, whole: bool = False, words: str = "") -> Any:
    """Return a dataclass field for a real parameter from `low` to `high`; with `above`, `low` itself is not allowed.

    With `whole`, only whole numbers are allowed. `words` names the parameter in tables and figures where its own name
    is unclear, such as "ε of a query" for `epsilon`.
    """
    return field(metadata={"low": low, "above": above, "high": high, "whole": whole, "words": words})


def limits(item: Field[Any]) -> tuple[float, bool, float]:
    """Return (low, above, high) of a field made with `parameter`.

    Allowed values are low … high, or, if `above` is True, those greater than low and at most high.
    """
    return item.metadata["low"], item.metadata["above"], item.metadata["high"]


class Shown(NamedTuple):
    """Appearance of a mechanism in tables and figures.

    Parameters
    ----------
    label : name of the mechanism; by default its name in the registry
    color, marker : name of the colour, and marker, in figures; by default any free ones
    """

    label: str = ""
    color: str = ""
    marker: str = ""


class Answering(StrEnum):
    """Dependence between the queries of one release, which decides how costs compose and how an audit tests them."""

    ALONE = "alone"  # each query is answered independently
    IN_SEQUENCE = "in sequence"  # state is kept from query to query
    TOGETHER = "together"  # one decision is made for all queries, so even the first answer depends on the others
    AS_TABLE = "as table"  # one table of noisy counts is released per round, and labels are read from it
    BY_TEACHER = "by teacher"  # each query is answered independently, and every teacher's perturbed vote is released


@dataclass(frozen=True)
class Mechanism(ABC):
    """A mechanism with its parameters, which turns votes into labels and states the privacy of this release.

    Subclasses are frozen dataclasses whose fields are real parameters, made with `parameter`. They need only `release`
    and `log_outcome_probabilities`; the exact accountants follow from the latter. Override `accountants` to add
    theorems. A mechanism that reveals more than its labels overrides `neighbours` and `accountants`, since its privacy
    is that of everything it reveals. `example` holds parameters for tests and examples; a mechanism of another package
    may leave it out.
    """

    #: The accountant and conversion by which the paper of the mechanism states ε; tables show that ε first.
    published: ClassVar[tuple[str, Conversion] | None] = None

    #: Parameters for tests and documentation, sensible for 50 to 250 teachers.
    example: ClassVar[Mapping[str, float]] = {}

    #: Name, colour and marker in tables and figures; subclasses do not inherit it.
    shown: ClassVar[Shown] = Shown()

    #: The numbers on which the worst case depends: "classes", "teachers" or both.
    cost_needs: ClassVar[tuple[str, ...]] = ()

    #: Dependence between the queries of one release.
    answering: ClassVar[Answering] = Answering.ALONE

    #: True if `release` accepts a source of discrete noise. Such a mechanism has a worst-case accountant that is valid
    #: for discrete noise and for any rule of breaking ties.
    discrete: ClassVar[bool] = False

    #: True if `patebench.secure` can draw the same release without revealing any vote.
    secure: ClassVar[bool] = False

    #: True if a query is answered only where few votes cannot change its plurality.
    tests_stability: ClassVar[bool] = False

    #: True if teachers may abstain: the theorems and accountants allow votes to vanish, appear or move between
    #: neighbours.
    abstentions: ClassVar[bool] = False

    #: True if votes may have weights (`accounting.votes.WeightedVotes`).
    weights: ClassVar[bool] = False

    #: True if a theorem covers votes of which only the label is private (`Votes.labels_only`).
    labels: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.shown = cls.__dict__.get("shown", Shown())

    def __post_init__(self) -> None:
        for item in fields(self):
            _check_parameter(f"{type(self).__name__}: {item.name}", item, value := getattr(self, item.name))
            object.__setattr__(self, item.name, float(value) + 0.0)  # a plain float, and 0 for −0

    @abstractmethod
    def release(self, votes: Votes, rng: Source) -> Labels:
        """Draw one label per query with `rng`; NO_ANSWER where the mechanism abstains."""

    def released(self, votes: Votes, rng: Source) -> dict[str, NDArray[Any]]:
        """Return all released arrays by name: the labels, and the table or the reports if these are released too."""
        return {"labels": self.release(votes, rng)}

    def student_labels(self, votes: Votes) -> Labels:
        """Return labels (queries,) that the student itself assigns to unanswered queries; all NO_ANSWER by default."""
        return np.full(votes.queries, NO_ANSWER, dtype=np.int32)

    @abstractmethod
    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64] | None:
        """Return ln of the exact probability of every outcome, queries × (classes + 1); the last column is "no answer".

        So `log_p[query, label]` is valid for every label, including NO_ANSWER = −1. The result is None if the
        distribution of the labels cannot be computed.
        """

    @property
    def independent_queries(self) -> bool:
        """Return True if no state is kept from query to query."""
        return self.answering in (Answering.ALONE, Answering.BY_TEACHER)

    def outcome_probabilities(self, votes: Votes) -> NDArray[np.float64] | None:
        """Return the probabilities (queries × (classes + 1)) of what an audit sees of each query; None if unknown."""
        log_p = self.log_outcome_probabilities(votes)
        return None if log_p is None else checked_probabilities(self, log_p)

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        """Yield the outcome distributions of one query for histograms and all their neighbours.

        `counts` (histograms × classes) are in descending order. This default is valid for every mechanism that looks at
        one query's counts and treats classes alike. Override it to share work between neighbours, or if more than the
        label is released.
        """
        from patebench.mechanisms.neighbours import one_by_one

        name, remedy = type(self).__name__, "override 'neighbours' and 'accountants'"
        if not self.independent_queries:
            raise PatebenchError(
                f"{name} keeps state from query to query, so one query alone has no neighbours; {remedy}"
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
        """Return in how many of the first `queries` queries one teacher takes part at most; by default in all."""
        return queries

    def accountants(self, votes: Votes) -> list[Accountant]:
        """Return the accountants of this mechanism on these votes; by default, the exact ones."""
        return exact_accountant.accountants(votes, self.neighbours)

    def sanitised(self, votes: Votes, noise: SanitisingNoise) -> list[Accountant]:
        """Return accountants that release a data-dependent bound with noise; none by default."""
        return []

    def teacher_costs(self, votes: Votes, queries: Sequence[int], delta: float) -> list[dict[str, float | str]]:
        """Return a record of single teachers' costs for each T in `queries`; empty if all costs are the same."""
        return []

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost | None:
        """Return the worst-case Rényi cost of one query for `teachers` teachers and `classes` classes; None if unknown.

        The cost is also valid for discrete noise.
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
        """Return every bound of this mechanism at δ, on the first T queries for each T in `queries` and in `curve`.

        Parameters
        ----------
        votes : the votes on all queries
        queries, curve : numbers of queries T; sanitised bounds, each of which is a release, only for those in `queries`
        delta : δ of every bound
        noise : noise of sanitised bounds, which are left out if it is None
        discrete : state only bounds that are valid for discrete noise
        adaptive : state only bounds that are valid for queries chosen by earlier answers
        publishable : select the bounds that may be published (True) or the others (False); None: all
        """
        check_delta(delta)
        check_abstentions(self, votes)
        if adaptive and self.answering is Answering.AS_TABLE and not votes.rounds:
            raise PatebenchError(
                f"{type(self).__name__} is accounted for by rounds, and these votes do not state their rounds; "
                "give Votes with `rounds`"
            )
        requested = check_queries(queries, votes.queries)
        with_curve = check_queries([*requested, *curve], votes.queries)
        stated, sanitised = self.accountants(votes), self.sanitised(votes, noise) if noise else []
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
        """Return the display names of the parameters that have one."""
        return {item.name: words for item in fields(cls) if (words := item.metadata.get("words"))}

    def parameters(self) -> dict[str, float]:
        """Return the parameters by name, in the order of the fields."""
        return {name: float(getattr(self, name)) for name in self.parameter_names()}

    @property
    def slug(self) -> str:
        """Return the parameters as one path component, such as "gamma-0.05"."""
        return parameters_slug(self.parameters())


def checked_probabilities(mechanism: Mechanism, log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(`log_p`) (queries, outcomes); raise PatebenchError unless the probabilities of each query sum to 1."""
    probabilities: NDArray[np.float64] = np.exp(log_p)
    sums = probabilities.sum(axis=1)
    wrong = ~(np.abs(sums - 1) <= 1e-6)  # NaN is wrong, too
    if wrong.any():
        query = int(np.argmax(wrong))
        raise PatebenchError(
            f"{type(mechanism).__name__}.log_outcome_probabilities: the probabilities of query {query} sum to "
            f"{sums[query]:.6g} and not to 1; correct the mechanism"
        )
    return probabilities


def make_mechanism(name: str, parameters: Mapping[str, float]) -> Mechanism:
    """Return the mechanism `name` with these `parameters`; PatebenchError for unknown, missing or invalid ones."""
    kind: type[Mechanism] = MECHANISMS.load(name)
    allowed = kind.parameter_names()
    known = f"its parameters: {', '.join(allowed)}"
    if not isinstance(parameters, Mapping):
        raise PatebenchError(f"parameters = {quote(parameters)} is not a mapping from names to numbers; give one")
    for parameter_name in parameters:
        if parameter_name not in allowed:
            raise PatebenchError(
                f"the mechanism '{name}' has no parameter '{parameter_name}'{nearest(parameter_name, allowed)}; {known}"
            )
    for needed in allowed:
        if needed not in parameters:
            raise PatebenchError(f"the mechanism '{name}' lacks its parameter '{needed}'; {known}")
    return kind(**parameters)


def _mechanisms_with(attribute: str) -> str:
    """Return the names of the registered mechanisms whose class attribute `attribute` is true."""
    return ", ".join(name for name in MECHANISMS if getattr(MECHANISMS.load(name), attribute))


def check_releasable(name: str, kind: type[Mechanism]) -> None:
    """Refuse a mechanism that cannot draw discrete noise, as its labels are not safe to release."""
    if not kind.discrete:
        raise PatebenchError(
            f"the mechanism '{name}' cannot be drawn with discrete noise, so its labels are not safe to release; "
            f"use one of: {_mechanisms_with('discrete')}"
        )


def check_drawable(mechanism: Mechanism, votes: Votes) -> None:
    """Refuse noise that cannot be drawn exactly, before a release is recorded and drawn.

    The mechanism labels an artificial query on which all teachers agree, so a refusal depends on no vote.
    """
    made_up = Votes.of(np.zeros((votes.teachers, 1), np.int8), votes.classes, abstentions=votes.abstentions)
    if votes.predictions is not None:
        made_up = made_up.with_predictions(votes.predictions[:1])
    for most in (True, False):
        mechanism.released(replace(made_up, rounds=(1,) if votes.rounds else ()), Rehearsal(most))


def check_abstentions(mechanism: Mechanism, votes: Votes) -> None:
    """Refuse votes that the mechanism's theorems do not cover."""
    weighted = votes.weighted is not None
    check_covers(mechanism, abstentions=votes.abstentions, weights=weighted, labels_only=votes.labels_only)


def check_covers(mechanism: Mechanism, *, abstentions: bool, weights: bool, labels_only: bool) -> None:
    """Refuse abstentions, weights of votes, or private labels alone, if no theorem of the mechanism covers them."""
    if labels_only:
        check_labels_only(type(mechanism))
    name = type(mechanism).__name__
    if weights and not mechanism.weights:
        able = _mechanisms_with("weights")
        line = f"{name} counts votes, and these votes have weights; mechanisms that add weights: {able}"
        raise PatebenchError(line, code="weights")
    if abstentions and not mechanism.abstentions:
        able = _mechanisms_with("abstentions")
        line = (
            f"the proof of {name} assumes that teachers vote on every query, but these teachers may abstain; mechanisms"
            f" that allow abstentions: {able}"
        )
        raise PatebenchError(line, code="abstentions")


def check_labels_only(kind: type[Mechanism]) -> None:
    """Refuse a mechanism without a theorem for private labels of public samples."""
    if not kind.labels:
        raise PatebenchError(
            f"no theorem of {kind.__name__} states the ε of a private label whose sample is public; use "
            f"{_mechanisms_with('labels')}",
            code="labels",
        )


#: Number of queries at which even the rarest absence of a teacher is detected; parameters have twelve digits.
_MANY = 10**15


def check_adaptive(name: str, mechanism: Mechanism) -> None:
    """Refuse a mechanism that cannot answer queries in rounds, as its rounds would not cost what one release does."""
    if mechanism.answering is Answering.AS_TABLE:
        return
    if not mechanism.independent_queries:
        raise PatebenchError(
            f"the mechanism '{name}' keeps state from query to query, so it cannot be queried in rounds; "
            "use another mechanism"
        )
    if mechanism.most_participation(_MANY) < _MANY:
        raise PatebenchError(
            f"the mechanism '{name}' has a schedule by which teachers sit out, and each round would start it again; "
            "set participation = 1"
        )


def check_budget(name: str, mechanism: Mechanism, teachers: int, classes: int) -> PerQueryCost:
    """Return the worst-case cost of one query; refuse a mechanism without one, as it cannot stop at a budget."""
    if mechanism.answering is Answering.AS_TABLE:
        raise PatebenchError(
            f"the mechanism '{name}' releases one table whole, so it cannot stop at a budget; its cost is known "
            "beforehand: find the noise with `patebench calibrate`, and limit the ε of all "
            "releases together in their ledger (ledger: {budget: …, delta: …} in a configuration)"
        )
    if (cost := mechanism.per_query_cost(teachers, classes)) is None:
        able = [other for other in MECHANISMS if MECHANISMS.load(other).per_query_cost is not Mechanism.per_query_cost]
        raise PatebenchError(
            f"the mechanism '{name}' has no cost per query that is independent of the votes, so it cannot keep a "
            f"budget; leave the budget out, or use one of: {', '.join(able)}"
        )
    return cost


def keeper_of(cost: PerQueryCost, epsilon: float, delta: float) -> RenyiFilter:
    """Return a filter that stops queries with this `cost` before they exceed (ε, δ).

    The order of the filter depends on these arguments only. Raises PatebenchError if the budget does not admit one
    query.
    """
    # The ledger accounts at these orders, so a budget kept here is kept there too.
    order = best_order(cost.both, epsilon, delta)
    nearest = conversion.ORDERS[np.argmin(np.abs(np.log((conversion.ORDERS - 1) / (order - 1))))]
    keeper = RenyiFilter(epsilon=epsilon, delta=delta, order=float(nearest))
    if not keeper.admits(cost.both):
        raise PatebenchError(
            f"a budget of ε = {epsilon:g} at δ = {delta:g} does not admit one query; "
            "give a larger budget, or use more noise"
        )
    return keeper


def labels_within(cost: PerQueryCost, labels: Labels, epsilon: float, delta: float) -> tuple[Labels, int]:
    """Return the labels that a budget (ε, δ) allows, NO_ANSWER for all later queries, and the number of queries asked.

    Labels are drawn independently, so dropping the last ones is the same as never having asked these queries.
    """
    asked = queries_within(keeper_of(cost, epsilon, delta), labels != NO_ANSWER, cost)
    allowed = labels.copy()
    allowed[asked:] = NO_ANSWER
    return allowed, asked


def budget_bounds(epsilon: float, queries: Sequence[int], delta: float) -> list[Bound]:
    """Return one bound for each T in `queries`; each is the budget `epsilon`, which the filter guarantees."""
    promise = DirectAccountant(
        name="rdp-filter",
        label="Rényi filter",
        kind=Kind.WORST_CASE,
        source="Feldman & Zrnic 2021, section 3; Lécuyer 2021: the budget that the release was stopped at",
        epsilon=lambda T, delta: epsilon,
    )
    return promise.bounds(queries, delta)


def fault_of(kind: object) -> str | None:
    """Return the reason why `kind`, which another package offers, cannot be a mechanism; None if it can."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        return "is no subclass of patebench.mechanisms.base.Mechanism"
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        return f"lacks the method {missing[0]}"
    if vars(kind).get("__annotations__") and "__dataclass_fields__" not in vars(kind):
        return "is no dataclass; put @dataclass(frozen=True) above it"
    if bare := [item.name for item in fields(kind) if not {"low", "above", "high"} <= set(item.metadata)]:
        return f"has the field {bare[0]}, which is no parameter; make it with patebench.mechanisms.base.parameter"
    return None


def json_parameters(parameters: Mapping[str, float]) -> dict[str, float | str]:
    """Return parameters that strict JSON can hold: an infinite one becomes the string "inf"."""
    return {name: in_json(value) for name, value in parameters.items()}


def _check_parameter(name: str, item: Field[Any], value: Any) -> None:
    low, above, high = limits(item)
    check_real(name, value)
    if not (low < value <= high if above else low <= value <= high):
        least = f"above {low:g}" if above else f"at least {low:g}"
        most = "" if math.isinf(high) else f" and at most {high:g}"
        raise PatebenchError(f"{name} = {value:g} is out of range; it must be {least}{most}")
    if item.metadata.get("whole") and value % 1:
        raise PatebenchError(f"{name} = {value:g} is not a whole number")
