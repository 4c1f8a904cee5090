"""The bound record: an ε never travels without what it means.

Adjacency says which data sets it compares: for labels, those that differ in one teacher's shard.

A curve holds the bounds of one accountant at many numbers of queries as one record, whose `queries` (ascending) and
`epsilon` are lists; orders are left out.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from patebench.core.checks import check_real
from patebench.core.errors import PatebenchError
from patebench.core.text import in_json


class Kind(StrEnum):
    """What sort of statement a bound is."""

    CLAIMED = "claimed"  # printed by a paper; no proof that we accept
    WORST_CASE = "worst_case"  # holds for all votes, depends on none
    DATA_DEPENDENT = "data_dependent"  # holds for these votes and depends on them: the number itself is private
    SANITISED = "sanitised"  # a data-dependent bound, itself released with noise
    AUDITED_LOWER = "audited_lower"  # no mechanism with a smaller ε behaves as measured

    @property
    def words(self) -> str:
        """Return the kind as people write it."""
        return _WORDS.get(self, self.value)


_WORDS = {
    Kind.WORST_CASE: "worst case",
    Kind.DATA_DEPENDENT: "data-dependent",
    Kind.AUDITED_LOWER: "audited lower bound",
}


class Adjacency(StrEnum):
    """Which pairs of data sets the bound compares."""

    REPLACE_TEACHER = "replace_teacher"  # one teacher's shard, hence one row of votes, arbitrarily in every query
    ADD_OR_REMOVE_RECORD = "add_or_remove_record"  # one private sample is there or is not


class Conversion(StrEnum):
    """How a Rényi or moments curve became an (ε, δ) pair."""

    CLASSIC = "classic"  # Mironov 2017, Proposition 3: ε(α) + ln(1/δ)/(α−1)
    TIGHT = "tight"  # Canonne, Kamath, Steinke 2020, Proposition 12
    NONE = "none"  # the accountant gives (ε, δ) without a curve


#: Smallest δ at which bounds are computed: 1/δ and parts of δ are still numbers of full precision.
SMALLEST_DELTA = 1e-300


def check_delta(delta: float) -> float:
    """Return δ as a float; raise PatebenchError unless it is a probability with which a bound may fail."""
    found = check_real("δ", delta)
    if not 0 < found < 1:
        raise PatebenchError(f"δ = {delta} is not in (0, 1)")
    if found < SMALLEST_DELTA:
        raise PatebenchError(f"δ = {found:g} is below {SMALLEST_DELTA:g}, the smallest δ that bounds are computed for")
    return found


#: Number of teachers for which δ is judged where no number is known.
_TEACHERS = 100


def large_delta(delta: float, teachers: int | None, records: int | None = None) -> str | None:
    """Return why (ε, δ) protects nobody at this δ; None for a δ below 1/teachers and 1/records, as far as known.

    Publishing the whole shard of one of n teachers, drawn at random, is (0, 1/n)-private, and so is publishing one of n
    records. The number of records is not stated, since it may be private.
    """
    # Configurations and options keep twelve digits of δ, which may round 1/n down.
    delta = check_delta(delta) * (1 + 1e-11)
    if records is not None and delta >= 1 / records:
        return (
            f"δ = {delta:g} is not below 1/n for n private records, so that publishing one record, drawn at random, "
            "would keep it; use a δ far below one over their number"
        )
    least = 1 / (teachers or (1 if records else _TEACHERS))
    if delta < least:
        return None
    number = f"n = {teachers} teachers" if teachers else f"n = {_TEACHERS} teachers or more (n is not known here)"
    return (
        f"δ = {delta:g} is not below 1/n for {number}, so that publishing all data of one teacher, drawn at random, "
        f"would keep it; use a δ far below {least:.3g}, such as {least / 100:.0e}"
    )


#: Fields that are read as they are.
_TYPES = {"accountant": str, "label": str, "source": str, "publishable": bool, "variant": bool, "exact": bool}


@dataclass(frozen=True, kw_only=True)
class Bound:
    """(ε, δ) for the first `queries` queries of one label set, with everything needed to read it.

    Of a model that is private itself, `queries` is the number of its noisy steps.
    `order` is the Rényi order α that gave the minimum (moments accountants: l + 1), or None. `label` is how tables head
    the accountant: its name, unless another is given. `variant` marks an accountant that is of use only beside the one
    that it varies; `exact` marks one that computes the divergence of these votes itself and no bound on it.
    """

    epsilon: float
    delta: float
    queries: int
    accountant: str
    kind: Kind
    publishable: bool
    source: str
    conversion: Conversion = Conversion.NONE
    order: float | None = None
    adjacency: Adjacency = Adjacency.REPLACE_TEACHER
    label: str = ""
    variant: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.accountant)
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise PatebenchError(f"the accountant '{self.accountant}' gave ε = {self.epsilon}, which is no bound")
        check_delta(self.delta)
        if self.publishable and self.kind in (Kind.DATA_DEPENDENT, Kind.CLAIMED):
            raise PatebenchError(f"a bound of kind '{self.kind}' can not be publishable ({self.accountant})")

    def said_of(self, release: bool) -> "Bound":
        """Return the bound for labels that are a release or not: no worst case is publishable for others."""
        return self if release or self.kind is not Kind.WORST_CASE else replace(self, publishable=False)

    def to_json(self) -> dict[str, Any]:
        """Return a plain dictionary; ε = ∞ becomes the string "inf", which strict JSON can hold."""
        record = asdict(self)
        record["epsilon"] = in_json(self.epsilon)
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Bound":
        """Return the bound of a record; raise PatebenchError if a field is missing, unknown or out of range."""
        names = {field.name for field in fields(cls)}
        if set(record) != names:
            raise PatebenchError(f"a bound record has the fields {sorted(record)} instead of {sorted(names)}")
        for name, wanted in _TYPES.items():
            if not isinstance(record[name], wanted):
                raise PatebenchError(f"a bound record is malformed: {name} = {record[name]!r} is no {wanted.__name__}")
        try:
            return cls(
                **{
                    **record,
                    "epsilon": float(record["epsilon"]),
                    "delta": float(record["delta"]),
                    "kind": Kind(record["kind"]),
                    "conversion": Conversion(record["conversion"]),
                    "adjacency": Adjacency(record["adjacency"]),
                }
            )
        except (TypeError, ValueError) as fault:
            raise PatebenchError(f"a bound record is malformed: {fault}") from None


def curves(bounds: Iterable[Bound]) -> list[dict[str, Any]]:
    """Return one record for each statement that `bounds` make at several numbers of queries, as strict JSON."""
    found: dict[Bound, dict[int, Any]] = {}
    for bound in bounds:
        statement = replace(bound, epsilon=0.0, queries=0, order=None)
        found.setdefault(statement, {})[bound.queries] = bound.to_json()["epsilon"]
    return [
        {name: value for name, value in statement.to_json().items() if name != "order"}
        | {"queries": sorted(points), "epsilon": [points[T] for T in sorted(points)]}
        for statement, points in found.items()
    ]


def points(curve: dict[str, Any]) -> list[Bound]:
    """Return the bounds that a curve runs through, without their orders; PatebenchError if it is malformed."""
    try:
        pairs = zip(curve["queries"], curve["epsilon"], strict=True)
        return [Bound.from_json({**curve, "queries": T, "epsilon": epsilon, "order": None}) for T, epsilon in pairs]
    except (KeyError, TypeError, ValueError) as fault:
        raise PatebenchError(f"a curve is malformed: {fault!r}") from None
