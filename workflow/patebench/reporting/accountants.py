"""What different accountants say of one label set, side by side: the common ground of the tables that compare them."""

from typing import TYPE_CHECKING

from patebench.core.bound import Kind
from patebench.reporting.frames import Records, least, over_seeds, sound
from patebench.reporting.outcomes import LABEL_SET, SUBJECT

if TYPE_CHECKING:
    import pandas as pd

#: Which accountant gave it, and how.
HOW = ["accountant", "conversion", "kind", "publishable"]


def compared(records: Records) -> "pd.DataFrame":
    """Bounds on labels of the whole pool that students learn from, or on all without students, one row per seed.

    Beside each: `least_sound`, the least worst-case ε, and `least_exact`, the least that the votes allow, of the same
    labels, number of queries, δ and seed; NaN where there is none.
    """
    by = [*SUBJECT, "seed"]
    records = records.of_whole_pool()
    bounds = records.bounds
    used = records.students[[*LABEL_SET, "seed"]].drop_duplicates()
    bounds = bounds if used.empty else bounds.merge(used, on=[*LABEL_SET, "seed"])
    exact = bounds[bounds["exact"] & (bounds["kind"] == Kind.DATA_DEPENDENT)]
    for name, chosen in (("least_sound", sound(bounds)), ("least_exact", exact)):
        bounds = bounds.merge(least(chosen, by, name), on=by, how="left")
    return bounds


def ratios(records: Records) -> "pd.DataFrame":
    """Mean and deviation of ε, of ε over the least worst-case one and of ε over the exact one, per bound."""
    frame = compared(records)
    with_ratios = frame.assign(
        over_sound=_quotient(frame["epsilon"], frame["least_sound"]),
        over_exact=_quotient(frame["epsilon"], frame["least_exact"]),
    )
    return over_seeds(with_ratios, [*SUBJECT, *HOW], ["epsilon", "over_sound", "over_exact"])


def _quotient(above: "pd.Series[float]", below: "pd.Series[float]") -> "pd.Series[float]":
    """NaN where nothing can be said: 0/0, or ∞/∞."""
    import numpy as np

    infinite = np.isinf(above) & np.isinf(below)
    return (above / below.where(below > 0)).mask(infinite)
