"""The bound record: an ε together with its δ, kind, adjacency, accountant and source.

The adjacency states how two neighbouring data sets differ: for labels of an ensemble, in one teacher's shard.

A curve is a dict with the bounds of one accountant for several numbers of queries. It contains two lists of equal
length: `queries` (ascending) and `epsilon`.
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
    """Kind of a statement on ε: worst-case, data-dependent, sanitised or claimed bound, or audited lower bound."""

    CLAIMED = "claimed"  # printed in a paper, without a proof that we accept
    WORST_CASE = "worst_case"  # holds for all votes and depends on none
    DATA_DEPENDENT = "data_dependent"  # depends on the votes, so the number itself is private
    SANITISED = "sanitised"  # a data-dependent bound that is itself released with noise
    AUDITED_LOWER = "audited_lower"  # ε lower bound: no smaller ε is consistent with the audit

    @property
    def words(self) -> str:
        """Return the name of this kind in words, such as "worst case"."""
        return _WORDS.get(self, self.value)


_WORDS = {
    Kind.WORST_CASE: "worst case",
    Kind.DATA_DEPENDENT: "data-dependent",
    Kind.AUDITED_LOWER: "audited lower bound",
}


class Adjacency(StrEnum):
    """Neighbouring relation of a bound: the difference between two neighbouring data sets."""

    REPLACE_TEACHER = "replace_teacher"  # one teacher's shard, hence one row of votes, arbitrarily in every query
    ADD_OR_REMOVE_TEACHER = "add_or_remove_teacher"  # one teacher's votes are present or absent
    ADD_OR_REMOVE_RECORD = "add_or_remove_record"  # one private sample is present or absent
    REPLACE_RECORD = "replace_record"  # one private sample and its label are replaced
    REPLACE_LABEL = "replace_label"  # the label of one sample differs; the samples are public


class Conversion(StrEnum):
    """Theorem by which a Rényi or moments curve was converted to (ε, δ)."""

    CLASSIC = "classic"  # Mironov 2017, Proposition 3: ε(α) + ln(1/δ)/(α−1)
    TIGHT = "tight"  # Canonne, Kamath, Steinke 2020, Proposition 12
    NONE = "none"  # the accountant gives (ε, δ) directly


#: Smallest δ at which bounds are computed: 1/δ and parts of δ still have full floating-point precision.
SMALLEST_DELTA = 1e-300


def check_delta(delta: float) -> float:
    """Return `delta` as a float; raise PatebenchError unless `SMALLEST_DELTA` ≤ `delta` < 1."""
    number = check_real("δ", delta)
    if not 0 < number < 1:
        raise PatebenchError(f"δ = {delta} is not in (0, 1); choose δ between 0 and 1")
    if number < SMALLEST_DELTA:
        raise PatebenchError(f"δ = {number:g} is too small for floating-point numbers; use at least {SMALLEST_DELTA:g}")
    return number


#: Number of teachers assumed by `large_delta` if the number is unknown.
_TEACHERS = 100


def large_delta(delta: float, teachers: int | None, records: int | None = None) -> str | None:
    """Return a warning if `delta` is so large that (ε, δ) may protect nobody, else None.

    Publishing the whole shard of one of n teachers, drawn at random, satisfies (0, 1/n)-differential privacy, so
    `delta` should be below 1/`teachers` and, likewise, below 1/`records`. If both numbers are None, 100 teachers are
    assumed. The warning does not contain `records`, which may be private.
    """
    # Configurations and options keep 12 digits of δ, which may round 1/n down.
    delta = check_delta(delta) * (1 + 1e-11)
    if records is not None and delta >= 1 / records:
        return (
            f"δ = {delta:g} is not below 1/n for n private records, so publishing one record, drawn at random, would "
            "satisfy it; use a δ far below 1/n"
        )
    least = 1 / (teachers or (1 if records else _TEACHERS))
    if delta < least:
        return None
    number = f"n = {teachers} teachers" if teachers else f"n = {_TEACHERS} teachers or more (n is not known here)"
    return (
        f"δ = {delta:g} is not below 1/n for {number}, so publishing all data of one teacher, drawn at random, would "
        f"satisfy it; use a δ far below {least:.3g}, such as {least / 100:.0e}"
    )


#: Fields that need no conversion from JSON, with their types.
_TYPES = {"accountant": str, "label": str, "source": str, "publishable": bool, "variant": bool, "exact": bool}


@dataclass(frozen=True, kw_only=True)
class Bound:
    """(ε, δ) of a label set or a private model, with all facts needed to interpret it.

    Parameters
    ----------
    epsilon : ε for the neighbouring relation `adjacency`.
    queries : number of queries, from the first one, for which ε holds. For a private model: number of noisy steps.
    accountant : name of the accountant that computes ε.
    kind : worst-case, data-dependent, sanitised, claimed or audited; see `Kind`.
    publishable : True if the bound may be published as the privacy of a release.
    source : citation of the theorem that gives ε.
    conversion : theorem by which a Rényi or moments curve was converted to (ε, δ).
    order : Rényi order α that gives the smallest ε, if any. The moments accountant's order l is stated as α = l + 1.
    label : heading of the accountant in tables; by default its name.
    variant : True if tables show the accountant only for comparison with a similar accountant.
    exact : True if the accountant computes the divergence for the teachers' votes exactly instead of bounding it.
    add_or_remove : ε of the same theorem if one record or teacher is added or removed instead of replaced. A removed
        teacher abstains on all queries, and all other teachers keep their indices. None if the theorem has no such
        form, or if `adjacency` is not a replacement.
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
    add_or_remove: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.accountant)
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise PatebenchError(
                f"the accountant '{self.accountant}' gives ε = {self.epsilon}, but ε must be at least 0; correct the"
                " accountant"
            )
        check_delta(self.delta)
        if self.publishable and self.kind in (Kind.DATA_DEPENDENT, Kind.CLAIMED):
            raise PatebenchError(
                f"a bound of kind '{self.kind}' cannot be publishable; set publishable=False in the accountant"
                f" '{self.accountant}'"
            )

    def state_for(self, release: bool) -> "Bound":
        """Return this bound, with `publishable` set to False if it is a worst-case bound and `release` is False.

        `release` is False if the noise is drawn from a seed. Such noise can be reproduced and subtracted, so it
        protects nothing.
        """
        return self if release or self.kind is not Kind.WORST_CASE else replace(self, publishable=False)

    def if_added(self) -> "Bound | None":
        """Return this bound for adding or removing a teacher or record, instead of replacing it.

        Return None if the theorem of the bound has no form for adding or removing.
        """
        if self.add_or_remove is None:
            return None
        of_record = self.adjacency is Adjacency.REPLACE_RECORD
        changed = Adjacency.ADD_OR_REMOVE_RECORD if of_record else Adjacency.ADD_OR_REMOVE_TEACHER
        return replace(self, epsilon=self.add_or_remove, adjacency=changed, order=None, add_or_remove=None)

    def to_json(self) -> dict[str, Any]:
        """Return this bound as a dictionary for strict JSON; ε = ∞ becomes the string "inf"."""
        record = asdict(self)
        record["epsilon"] = in_json(self.epsilon)
        record["add_or_remove"] = None if self.add_or_remove is None else in_json(self.add_or_remove)
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Bound":
        """Return the bound stored in `record`; raise PatebenchError if a field is missing, unknown or invalid."""
        names = {field.name for field in fields(cls)}
        record = {"add_or_remove": None, **record}  # older records lack this field
        if set(record) != names:
            raise PatebenchError(
                f"a stored bound has the fields {sorted(record)} instead of {sorted(names)}; compute the bound again"
            )
        for name, wanted in _TYPES.items():
            if not isinstance(record[name], wanted):
                raise PatebenchError(
                    f"a stored bound has {name} = {record[name]!r}, which is not of type {wanted.__name__}; compute the"
                    " bound again"
                )
        try:
            return cls(
                **{
                    **record,
                    "epsilon": float(record["epsilon"]),
                    "delta": float(record["delta"]),
                    "add_or_remove": None if record["add_or_remove"] is None else float(record["add_or_remove"]),
                    "kind": Kind(record["kind"]),
                    "conversion": Conversion(record["conversion"]),
                    "adjacency": Adjacency(record["adjacency"]),
                }
            )
        except (TypeError, ValueError) as fault:
            raise PatebenchError(f"a value in a stored bound is invalid ({fault}); compute the bound again") from None


def curves(bounds: Iterable[Bound]) -> list[dict[str, Any]]:
    """Return `bounds` as curves: one dict for each group of bounds that differ only in the number of queries.

    A curve contains the numbers of queries and the values of ε as lists, `queries` and `epsilon`. It does not contain
    `order` and `add_or_remove`, which may differ within a group. An infinite ε is the text "inf".
    """
    groups: dict[Bound, dict[int, Any]] = {}
    for bound in bounds:
        statement = replace(bound, epsilon=0.0, queries=0, order=None, add_or_remove=None)
        groups.setdefault(statement, {})[bound.queries] = bound.to_json()["epsilon"]
    return [
        {name: value for name, value in statement.to_json().items() if name not in ("order", "add_or_remove")}
        | {"queries": sorted(points), "epsilon": [points[T] for T in sorted(points)]}
        for statement, points in groups.items()
    ]


def points(curve: dict[str, Any]) -> list[Bound]:
    """Return the bounds of a `curve`, one for each number of queries.

    `curve` is a dict as returned by the function `curves`. The bounds have no `order` and no `add_or_remove`, because
    curves do not store these fields. Raises PatebenchError if a field is missing or invalid, or `queries` and `epsilon`
    have different lengths.
    """
    try:
        pairs = zip(curve["queries"], curve["epsilon"], strict=True)
        return [Bound.from_json({**curve, "queries": T, "epsilon": epsilon, "order": None}) for T, epsilon in pairs]
    except (KeyError, TypeError, ValueError) as fault:
        raise PatebenchError(
            f"a stored curve of ε by number of queries has missing or invalid fields ({fault!r}); compute ε again"
        ) from None
