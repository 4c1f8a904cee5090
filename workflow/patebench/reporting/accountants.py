"""What different accountants say of one release, side by side: the common ground of the tables that compare them."""

from typing import TYPE_CHECKING

from patebench.core.bound import Kind
from patebench.reporting.frames import Records, spread
from patebench.reporting.outcomes import RELEASE

if TYPE_CHECKING:
    import pandas as pd

#: What one ε is about: a release of T queries, at one δ.
SUBJECT = [*RELEASE, "queries", "delta"]
#: Which accountant gave it, and how.
HOW = ["accountant", "conversion", "kind", "publishable"]

#: The tightest bounds that depend on the votes, tightest first: what others are measured against.
_EXACT = ("exact-per-teacher", "exact", "exact-split-per-teacher", "exact-split")


def compared(records: Records) -> "pd.DataFrame":
    """Bounds of the releases that students learn from, or of all where there are no students, one row per seed.

    Beside each: `sound`, the least worst-case ε, and `exact`, the least that the votes allow, of the same release,
    number of queries, δ and seed; NaN where there is none.
    """
    by = [*SUBJECT, "seed"]
    bounds = records.bounds
    used = records.students[[*RELEASE, "seed"]].drop_duplicates()
    bounds = bounds if used.empty else bounds.merge(used, on=[*RELEASE, "seed"])
    sound = bounds[bounds["publishable"] & (bounds["kind"] == Kind.WORST_CASE)]
    exact = bounds[bounds["accountant"].isin(_EXACT) & (bounds["kind"] == Kind.DATA_DEPENDENT)]
    for name, chosen in (("sound", sound), ("exact", exact)):
        least = chosen.groupby(by, dropna=False)["epsilon"].min().rename(name).reset_index()
        bounds = bounds.merge(least, on=by, how="left")
    return bounds


def ratios(records: Records) -> "pd.DataFrame":
    """Mean and deviation of ε, of ε over the least publishable one and of ε over the exact one, per bound."""
    frame = compared(records)
    with_ratios = frame.assign(
        over_sound=_quotient(frame["epsilon"], frame["sound"]), over_exact=_quotient(frame["epsilon"], frame["exact"])
    )
    return spread(with_ratios, [*SUBJECT, *HOW], ["epsilon", "over_sound", "over_exact"])


def _quotient(above: "pd.Series[float]", below: "pd.Series[float]") -> "pd.Series[float]":
    """NaN where nothing can be said: 0/0, or ∞/∞."""
    import numpy as np

    infinite = np.isinf(above) & np.isinf(below)
    return (above / below.where(below > 0)).mask(infinite)
