"""What is stated of each mechanism, what its audit found, and the verdicts."""

from typing import TYPE_CHECKING

from patebench.reporting.audits import audited
from patebench.reporting.frames import Records
from patebench.reporting.published import Published
from patebench.reporting.tables.table import Column, Table

if TYPE_CHECKING:
    import pandas as pd


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per mechanism, setting and number of queries."""
    return audited(records)


TABLE = Table(
    title="Audit",
    columns=(
        Column("dataset", "Data set"),
        Column("teachers", "n", "count"),
        Column("mechanism", "Mechanism"),
        Column("noise_in_words", "Noise"),
        Column("queries", "Queries", "count"),
        Column("delta", "δ", "number"),
        Column("claimed", "claimed", "epsilon", group="ε", optional=True),
        Column("worst_case", "worst case", "epsilon", group="ε"),
        Column("data_dependent", "data-dependent", "epsilon", group="ε", optional=True),
        Column("exact", "exact", "epsilon", group="Audited ε"),
        Column("sampled", "sampled", "epsilon", group="Audited ε"),
        Column("claim", "the claim", group="Verdict on", optional=True),
        Column("verdict", "the proofs", group="Verdict on"),
    ),
    build=build,
)
