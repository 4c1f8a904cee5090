"""The bound record: an ε never travels without what it means.

Adjacency says which data sets it compares: for labels, those that differ in one teacher's shard.
"""

import math
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from patebench.core.errors import PatebenchError
from patebench.core.numbers import in_json


class Kind(StrEnum):
    """What sort of statement a bound is."""

    CLAIMED = "claimed"  # printed by a paper; no proof that we accept
    WORST_CASE = "worst_case"  # holds for all votes, depends on none
    DATA_DEPENDENT = "data_dependent"  # holds for these votes and depends on them: the number itself is private
    SANITISED = "sanitised"  # a data-dependent bound, itself released with noise
    AUDITED_LOWER = "audited_lower"  # no mechanism with a smaller ε behaves as measured

    @property
    def words(self) -> str:
        """As people write it."""
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


def check_delta(delta: float) -> None:
    """Raise PatebenchError unless δ is a probability with which a bound may fail."""
    if not 0 < delta < 1:
        raise PatebenchError(f"δ = {delta} is not in (0, 1)")


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
        """The same, told of labels that are a release or are none: then no worst case may be published as theirs."""
        return self if release or self.kind is not Kind.WORST_CASE else replace(self, publishable=False)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ε = ∞ becomes the string "inf", which strict JSON can hold."""
        record = asdict(self)
        record["epsilon"] = in_json(self.epsilon)
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Bound":
        """The inverse of `to_json`; raises PatebenchError when a field is missing, unknown or out of range."""
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
                    "kind": Kind(record["kind"]),
                    "conversion": Conversion(record["conversion"]),
                    "adjacency": Adjacency(record["adjacency"]),
                }
            )
        except (TypeError, ValueError) as fault:
            raise PatebenchError(f"a bound record is malformed: {fault}") from None
