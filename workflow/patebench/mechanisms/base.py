"""What a mechanism is: a frozen dataclass of its parameters that releases labels and knows its privacy.

Callers need nothing but this interface, whether a mechanism adds noise to counts, perturbs each vote, abstains, or has
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
from patebench.core.bound import Bound, Conversion, Kind, check_delta
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

Labels = NDArray[np.int32]


def parameter(*, low: float, above: bool = False, high: float = math.inf, words: str = "") -> Any:
    """A dataclass field for a real parameter from `low` to `high`; with `above`, `low` itself is not allowed.

    `words` is how tables and figures call it, where its name does not say enough: an ε says what it is of.
    """
    return field(metadata={"low": low, "above": above, "high": high, "words": words})


def limits(item: Field[Any]) -> tuple[float, bool, float]:
    """What `parameter` was given of a field: the lowest value, whether it lies above that, and the highest."""
    return item.metadata["low"], item.metadata["above"], item.metadata["high"]


class Shown(NamedTuple):
    """How tables and figures show a mechanism.

    Parameters
    ----------
    label : its name, by default that of the registry
    color, marker : in figures, the colour by its name there; without, the mechanism takes what is free
    """

    label: str = ""
    color: str = ""
    marker: str = ""


class Answering(StrEnum):
    """How the queries of one release depend on each other: how their costs compose, and how an audit looks at them."""

    ALONE = "alone"  # each query is answered as if it were the only one
    IN_SEQUENCE = "in sequence"  # state is kept from query to query
    TOGETHER = "together"  # one decision is made for all queries, so even the first answer depends on the others
    AS_TABLE = "as table"  # one table of noisy counts is released, from which labels are read; in each round anew
    BY_TEACHER = "by teacher"  # each query by itself, and every teacher's perturbed vote is seen


@dataclass(frozen=True)
class Mechanism(ABC):
    """A mechanism with its parameters: turns votes into labels, privately.

    Subclasses are frozen dataclasses whose fields are real parameters, made with `parameter`. `release` and
    `log_outcome_probabilities` are enough: the exact accountants follow from the second. Theorems are added by
    overriding `accountants`. A mechanism that shows more than its labels overrides `neighbours` and `accountants`: its
    privacy is that of all it shows. `example` is optional for a mechanism of another package.
    """

    #: The accountant and conversion by which the paper of the mechanism states ε; tables show that ε first.
    published: ClassVar[tuple[str, Conversion] | None] = None

    #: Parameters for tests and documentation, sensible for 50 to 250 teachers.
    example: ClassVar[Mapping[str, float]] = {}

    #: How tables and figures show this mechanism; a subclass is another mechanism and inherits nothing of it.
    shown: ClassVar[Shown] = Shown()

    #: The numbers on which the worst case depends: "classes", "teachers" or both.
    cost_needs: ClassVar[tuple[str, ...]] = ()

    #: How the queries of one release depend on each other.
    answering: ClassVar[Answering] = Answering.ALONE

    #: Whether `release` may be given a source of discrete noise. A mechanism that says so has an accountant that holds
    #: for it, whatever the votes are and however ties are broken.
    discrete: ClassVar[bool] = False

    #: Whether `patebench.secure` can make the same release without anybody seeing a vote.
    secure: ClassVar[bool] = False

    #: Whether a query is answered for the stability of its plurality: only where few votes can not change it.
    tests_stability: ClassVar[bool] = False

    #: Whether teachers may keep silent on queries: whether its theorems and accountants hold where between neighbours
    #: votes vanish, appear or move.
    abstentions: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.shown = cls.__dict__.get("shown", Shown())

    def __post_init__(self) -> None:
        for item in fields(self):
            _check(type(self).__name__, item, value := getattr(self, item.name))
            object.__setattr__(self, item.name, float(value) + 0.0)  # a plain float, and 0 for −0

    @abstractmethod
    def release(self, votes: Votes, rng: Source) -> Labels:
        """One label per query, drawn with `rng`; NO_ANSWER where the mechanism keeps silent."""

    def released(self, votes: Votes, rng: Source) -> dict[str, NDArray[Any]]:
        """All that is released, by name: the labels, and what they were made from where that is seen too."""
        return {"labels": self.release(votes, rng)}

    def student_labels(self, votes: Votes) -> Labels:
        """Labels that the student keeps of its own where it gets no answer, by a public rule; here none."""
        return np.full(votes.queries, NO_ANSWER, dtype=np.int32)

    @abstractmethod
    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64] | None:
        """ln of the exact probability of every outcome, queries × (classes + 1); the last column is "no answer".

        So `log_p[query, label]` is right for every label, NO_ANSWER = −1 included. None where the distribution of the
        labels has no form that can be computed.
        """

    @property
    def independent_queries(self) -> bool:
        """Whether no state is kept from query to query."""
        return self.answering in (Answering.ALONE, Answering.BY_TEACHER)

    def outcome_probabilities(self, votes: Votes) -> NDArray[np.float64] | None:
        """Stated probabilities (queries × (classes + 1)) of what an audit sees of each query, or None if unknown."""
        log_p = self.log_outcome_probabilities(votes)
        return None if log_p is None else checked_probabilities(self, log_p)

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        """Distributions of what one query shows, for histograms (counts in descending order) and all their neighbours.

        Right for every mechanism that looks at one query's counts and treats classes alike; one that can share work
        between neighbours overrides it, and so does one of which more is seen than the label.
        """
        from patebench.mechanisms.neighbours import one_by_one

        if not self.independent_queries:
            raise PatebenchError(f"{type(self).__name__} keeps state from query to query, so no query stands alone")

        def log_probabilities(rows: Counts) -> NDArray[np.float64]:
            found = self.log_outcome_probabilities(Votes(rows))
            if found is None:
                raise PatebenchError(
                    f"{type(self).__name__} does not know the probabilities of its labels, so nothing exact can be "
                    "said of it; override 'neighbours' and 'accountants'"
                )
            checked_probabilities(self, found)
            return found

        return one_by_one(counts, log_probabilities)

    def most_participation(self, queries: int) -> int:
        """The most queries, of the first `queries`, in which one teacher takes part: all, unless some sit out."""
        return queries

    def accountants(self, votes: Votes) -> list[Accountant]:
        """The theorems that bound this mechanism on these votes; the exact accountants, unless it knows more."""
        return exact_accountant.accountants(votes, self.neighbours)

    def sanitised(self, votes: Votes, noise: SanitisingNoise) -> list[Accountant]:
        """Accountants that release a data-dependent bound with noise; none, unless a mechanism has them."""
        return []

    def teacher_costs(self, votes: Votes, queries: Sequence[int], delta: float) -> list[dict[str, float | str]]:
        """What single teachers pay for the first T queries, for each T; empty where all pay the same."""
        return []

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost | None:
        """What a query costs whatever so many teachers vote for among so many classes, with discrete noise too.

        None if unknown.
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
        """Every bound of this mechanism at δ, on the first T queries for each T in `queries` and in `curve`.

        Sanitised bounds are drawn only when their `noise` is given, and for `queries` alone: looking at one is a
        release of its own. With `discrete` only those bounds are stated that hold for a release with discrete noise,
        with `adaptive` only those for queries that earlier answers chose. `publishable` leaves those that may be
        told, or the others.
        """
        check_delta(delta)
        check_abstentions(self, votes)
        if adaptive and self.answering is Answering.AS_TABLE and not votes.rounds:
            raise PatebenchError(f"{type(self).__name__} is paid for by rounds, and these votes do not tell theirs")
        wanted = check_queries(queries, votes.queries)
        every = check_queries([*wanted, *curve], votes.queries)
        stated, sanitised = self.accountants(votes), self.sanitised(votes, noise) if noise else []
        if discrete:
            stated, sanitised = valid_for_discrete_noise(stated), valid_for_discrete_noise(sanitised)
        if adaptive:
            stated = valid_for_adaptive_queries(stated)
        if publishable is not None:
            stated, sanitised = ([a for a in some if a.publishable is publishable] for some in (stated, sanitised))
        found = [bound for accountant in stated for bound in accountant.bounds(every, delta)]
        return found + [bound for accountant in sanitised for bound in accountant.bounds(wanted, delta)]

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        return tuple(item.name for item in fields(cls))

    @classmethod
    def parameter_words(cls) -> dict[str, str]:
        """How the parameters are called that have words of their own."""
        return {item.name: words for item in fields(cls) if (words := item.metadata.get("words"))}

    def parameters(self) -> dict[str, float]:
        """The parameters by name, in the order of the fields."""
        return {name: float(getattr(self, name)) for name in self.parameter_names()}

    @property
    def slug(self) -> str:
        """The parameters as one path component, such as "gamma-0.05"."""
        return parameters_slug(self.parameters())


def checked_probabilities(mechanism: Mechanism, log_p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities (queries, outcomes) of logarithms; PatebenchError unless each query's sum to 1."""
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
    """The mechanism of that name with these parameters; one line for an unknown, missing or impossible one."""
    kind: type[Mechanism] = MECHANISMS.load(name)
    allowed = kind.parameter_names()
    if not isinstance(parameters, Mapping):
        raise PatebenchError(f"parameters = {quote(parameters)} is no mapping of names to numbers")
    for given in parameters:
        if given not in allowed:
            raise PatebenchError(
                f"the mechanism '{name}' has no parameter '{given}'{nearest(given, allowed)}; "
                f"its parameters: {', '.join(allowed)}"
            )
    for needed in allowed:
        if needed not in parameters:
            raise PatebenchError(
                f"the mechanism '{name}' lacks its parameter '{needed}'; its parameters: {', '.join(allowed)}"
            )
    return kind(**parameters)


def check_releasable(name: str, kind: type[Mechanism]) -> None:
    """Refuse a mechanism that has no discrete form."""
    if not kind.discrete:
        able = [other for other in MECHANISMS if MECHANISMS.load(other).discrete]
        raise PatebenchError(
            f"the mechanism '{name}' can not be drawn with discrete noise, so it has no release that is safe to hand "
            f"out; those that can: {', '.join(able)}"
        )


def check_drawable(mechanism: Mechanism, votes: Votes) -> None:
    """Refuse noise that cannot be drawn exactly, before a release is entered and drawn.

    The mechanism labels a made-up query, on which all teachers agree: whether it is refused depends on no vote.
    """
    made_up = Votes.of(np.zeros((votes.teachers, 1), np.int8), votes.classes, abstentions=votes.abstentions)
    if votes.predictions is not None:
        made_up = made_up.with_predictions(votes.predictions[:1])
    for most in (True, False):
        mechanism.released(replace(made_up, rounds=(1,) if votes.rounds else ()), Rehearsal(most))


def check_abstentions(mechanism: Mechanism, votes: Votes) -> None:
    """Refuse votes of teachers that may keep silent for a mechanism whose theorems are of teachers that always vote."""
    if votes.abstentions and not mechanism.abstentions:
        able = [other for other in MECHANISMS if MECHANISMS.load(other).abstentions]
        raise PatebenchError(
            f"{type(mechanism).__name__} is proven for teachers that vote on every query, and these may keep silent; "
            f"those that allow it: {', '.join(able) or 'none yet'}"
        )


#: So many queries that the rarest absence shows: parameters have twelve digits.
_MANY = 10**15


def check_adaptive(name: str, mechanism: Mechanism) -> None:
    """Refuse a mechanism that can not be queried in rounds: their cost would not be that of their queries together."""
    if mechanism.answering is Answering.AS_TABLE:
        return
    if not mechanism.independent_queries:
        raise PatebenchError(
            f"the mechanism '{name}' keeps state from query to query, so it can not be queried in rounds; use another"
        )
    if mechanism.most_participation(_MANY) < _MANY:
        raise PatebenchError(
            f"the mechanism '{name}' lets teachers sit out by a schedule that each round would start anew; "
            "let all of them take part"
        )


def check_budget(name: str, mechanism: Mechanism, teachers: int, classes: int) -> PerQueryCost:
    """What a query costs; refuse a mechanism that can not tell beforehand, and so can not keep a budget."""
    if mechanism.answering is Answering.AS_TABLE:
        raise PatebenchError(
            f"the mechanism '{name}' releases one table whole, so it can not stop at a budget; what it costs is known "
            "beforehand: find the noise with `patebench calibrate`, and limit all releases together by `ledger`"
        )
    if (cost := mechanism.per_query_cost(teachers, classes)) is None:
        able = [other for other in MECHANISMS if MECHANISMS.load(other).per_query_cost is not Mechanism.per_query_cost]
        raise PatebenchError(
            f"the mechanism '{name}' has no cost per query that is known before the votes are, so it can not keep a "
            f"budget; leave the budget out, or use one that has: {', '.join(able)}"
        )
    return cost


def keeper_of(cost: PerQueryCost, epsilon: float, delta: float) -> RenyiFilter:
    """The filter that stops queries of this cost before they exceed (ε, δ); its order depends on nothing else.

    PatebenchError if not even one fits.
    """
    # At the next of the orders at which a ledger counts, so that it finds a kept budget kept.
    order = best_order(cost.both, epsilon, delta)
    nearest = conversion.ORDERS[np.argmin(np.abs(np.log((conversion.ORDERS - 1) / (order - 1))))]
    keeper = RenyiFilter(epsilon=epsilon, delta=delta, order=float(nearest))
    if not keeper.admits(cost.both):
        raise PatebenchError(
            f"a budget of ε = {epsilon:g} at δ = {delta:g} does not admit one query; "
            "give a larger one, or use more noise"
        )
    return keeper


def labels_within(cost: PerQueryCost, labels: Labels, epsilon: float, delta: float) -> tuple[Labels, int]:
    """The labels that a budget allows, the rest without answer, and how many queries were put.

    Queries are drawn independently, so leaving the last ones out is the same as never having put them.
    """
    keeper = keeper_of(cost, epsilon, delta)
    put = queries_within(keeper, labels != NO_ANSWER, cost)
    kept = labels.copy()
    kept[put:] = NO_ANSWER
    return kept, put


def budget_bounds(epsilon: float, queries: Sequence[int], delta: float) -> list[Bound]:
    """What the filter promises: no more than the budget, however many of the queries it admitted."""
    promise = DirectAccountant(
        name="rdp-filter",
        label="Rényi filter",
        kind=Kind.WORST_CASE,
        source="Feldman & Zrnic 2021, section 3; Lécuyer 2021: the budget that the release was stopped at",
        epsilon=lambda T, delta: epsilon,
    )
    return promise.bounds(queries, delta)


def fault_of(kind: object) -> str | None:
    """Return why something that another package offers cannot be a mechanism; None if it can."""
    if not (isinstance(kind, type) and issubclass(kind, Mechanism)):
        return "is no subclass of patebench.mechanisms.base.Mechanism"
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        return f"lacks the method {missing[0]}"
    if vars(kind).get("__annotations__") and "__dataclass_fields__" not in vars(kind):
        return "is no dataclass; put @dataclass(frozen=True) above it"
    if bare := [item.name for item in fields(kind) if not {"low", "above", "high"} <= set(item.metadata)]:
        return f"has the field {bare[0]}, which is no parameter; make it with patebench.mechanisms.base.parameter"
    return None


def plain(parameters: Mapping[str, float]) -> dict[str, float | str]:
    """Parameters that strict JSON can hold: an infinite one becomes the string "inf"."""
    return {name: in_json(value) for name, value in parameters.items()}


def _check(owner: str, item: Field[Any], value: Any) -> None:
    name = item.name
    low, above, high = limits(item)
    check_real(f"{owner}: {name}", value)
    fits = low < value <= high if above else low <= value <= high
    if not fits:
        least = f"above {low:g}" if above else f"at least {low:g}"
        most = "" if math.isinf(high) else f" and at most {high:g}"
        raise PatebenchError(f"{owner}: {name} = {value:g} is out of range; it must be {least}{most}")
