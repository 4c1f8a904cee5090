"""What is stated of each mechanism beside what its audit found: the common ground of the audit's figure and table."""

from typing import TYPE_CHECKING

from patebench.core.bound import Kind
from patebench.reporting.frames import Records, arrange, least, natural

if TYPE_CHECKING:
    import pandas as pd

#: What one audit is about.
SUBJECT = [
    *("dataset", "teachers", "classes", "delta", "mechanism", "noise", "noise_in_words"),
    *("queries", "runs", "confidence"),
]

#: The columns of ε that is stated: the least of each kind.
STATED = {"claimed": Kind.CLAIMED, "worst_case": Kind.WORST_CASE, "data_dependent": Kind.DATA_DEPENDENT}
#: How the columns of what audits found begin; the label of the bound follows.
_FOUND = f"{Kind.AUDITED_LOWER}: "

#: The least favourable verdict counts.
_ORDER = ("violated", "disagrees", "holds", "vacuous")


def audited(records: Records) -> "pd.DataFrame":
    """One row per mechanism, setting and number of queries, in natural order.

    Columns: those of `SUBJECT`, the ε of `STATED` and one for each way to audit (NaN for what is not stated; see
    `found_by`), `claim` and `verdict`: the verdicts on what is claimed and on what is stated as proven (None where
    there is nothing).
    """
    frame = records.audits
    found = frame[SUBJECT].drop_duplicates()
    for column, kind in STATED.items():
        found = found.merge(least(frame[frame["kind"] == kind], SUBJECT, column), on=SUBJECT, how="left")
    lost = frame[frame["kind"] == Kind.AUDITED_LOWER]
    for label in sorted(lost["label"].unique(), key=natural):
        most = lost[lost["label"] == label].groupby(SUBJECT, dropna=False)["epsilon"].max()
        found = found.merge(most.rename(f"{_FOUND}{label}").reset_index(), on=SUBJECT, how="left")
    claims, proven = frame["kind"] == Kind.CLAIMED, frame["kind"].isin([Kind.WORST_CASE, Kind.DATA_DEPENDENT])
    for column, chosen in (("claim", claims), ("verdict", proven)):
        found = found.merge(_verdicts(frame[chosen], column), on=SUBJECT, how="left")
    return arrange(found, SUBJECT)


def found_by(frame: "pd.DataFrame") -> dict[str, str]:
    """The columns of `audited` that hold what audits found, and the label of each way to audit."""
    names = map(str, frame.columns)
    return {name: name.removeprefix(_FOUND) for name in names if name.startswith(_FOUND)}


def _verdicts(bounds: "pd.DataFrame", column: str) -> "pd.DataFrame":
    ranks = bounds["verdict"].map({name: rank for rank, name in enumerate(_ORDER)})
    worst = bounds.assign(rank=ranks.astype("float64")).groupby(SUBJECT)["rank"].min()
    return worst.map(dict(enumerate(_ORDER))).astype("object").rename(column).reset_index()
