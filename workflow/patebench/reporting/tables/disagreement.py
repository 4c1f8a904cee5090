"""Where the accountants disagree, and by how much: each ε beside the tightest sound one and the exact one."""

from typing import TYPE_CHECKING

from patebench.reporting.frames import Records, arrange
from patebench.reporting.outcomes import COUNTED_BY, SUBJECT, bound_ratios
from patebench.reporting.published import Published
from patebench.reporting.tables.table import SUBJECT_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per bound, from the least ε of each label set and number of queries to the greatest."""
    return arrange(bound_ratios(records), [*SUBJECT, "epsilon_mean", *COUNTED_BY])


TABLE = Table(
    title="Where the accountants disagree",
    columns=(
        *SUBJECT_COLUMNS,
        Column("accountant", "Accountant"),
        Column("conversion", "Conversion"),
        Column("kind", "Kind"),
        Column("epsilon", "ε", "epsilon", deviation=True),
        Column("over_sound", "tightest worst case", "epsilon", deviation=True, group="ε, times the"),
        Column("over_exact_mean", "exact", "epsilon", group="ε, times the"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build,
    folded=True,
)
