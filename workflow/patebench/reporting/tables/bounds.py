"""Every bound on labels of the whole pool, with all that is needed to read it."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import SUBJECT
from patebench.reporting.published import Published
from patebench.reporting.tables.table import SUBJECT_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

_BOUND = [*SUBJECT, "kind", "accountant", "conversion", "publishable", "adjacency", "source"]


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per bound; ε over the seeds, with its extremes, and the least and largest order that gave it."""
    bounds = records.of_whole_pool().bounds
    frame = over_seeds(bounds, _BOUND, ["epsilon"])
    groups = bounds.groupby(_BOUND, dropna=False)
    extremes = groups.agg(
        epsilon_min=("epsilon", "min"),
        epsilon_max=("epsilon", "max"),
        order_min=("order", "min"),
        order_max=("order", "max"),
    )
    return arrange(frame.merge(extremes.reset_index(), on=_BOUND), _BOUND)


TABLE = Table(
    title="Every bound",
    columns=(
        *SUBJECT_COLUMNS,
        Column("epsilon", "ε", "epsilon", deviation=True),
        Column("kind", "Kind"),
        Column("publishable", "This draw publishable", "flag"),
        Column("accountant", "Accountant"),
        Column("conversion", "Conversion"),
        Column("order_min", "Order", "number"),
        Column("source", "Source"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
    folded=True,
)
