"""What single teachers pay under local privacy, for labels of the whole pool: T_n queries at ε_n each, and composed."""

from typing import TYPE_CHECKING

from patebench.accounting.teacher_costs import WHICH
from patebench.reporting.frames import Records, arrange, over_seeds
from patebench.reporting.outcomes import SUBJECT
from patebench.reporting.published import Published
from patebench.reporting.tables.table import SETTING_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

_COSTS = {"asked": "T_n", "epsilon": "ε_n of one query", "basic": "T_n·ε_n", "composed": "ε composed"}


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per set of labels and number of queries; costs depend on no votes, so that all seeds agree."""
    values = [f"{cost}_{which}" for cost in _COSTS for which in WHICH]
    frame = over_seeds(records.of_whole_pool().teacher_costs, SUBJECT, values)
    return arrange(frame[[*SUBJECT, "seeds", *(f"{value}_mean" for value in values)]], SUBJECT)


TABLE = Table(
    title="What single teachers pay",
    columns=(
        *SETTING_COLUMNS,
        *(
            Column(f"{cost}_{which}_mean", which, "count" if cost == "asked" else "cost", group=title)
            for cost, title in _COSTS.items()
            for which in WHICH
        ),
    ),
    build=build,
)
