"""What is stated of each mechanism, what its audit found, and the verdicts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from patebench.reporting.frames import Records
from patebench.reporting.outcomes import audited, found_by
from patebench.reporting.published import Published
from patebench.reporting.tables.table import SETTING_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per mechanism, setting and number of queries."""
    return audited(records)


def columns(frame: "pd.DataFrame") -> Sequence[Column]:
    """What is stated, each way to audit that `frame` holds, and the verdicts."""
    found = [Column(name, label, "audited", group="Audited ε") for name, label in found_by(frame).items()]
    return (*_STATED, *found, *_VERDICTS)


_STATED = (
    *SETTING_COLUMNS,
    Column("claimed", "claimed", "epsilon", group="ε"),
    Column("worst_case", "worst case", "epsilon", group="ε"),
    Column("data_dependent", "data-dependent", "epsilon", group="ε"),
)
_VERDICTS = (
    Column("claim", "the claim", group="Verdict on"),
    Column("verdict", "the proofs", group="Verdict on"),
)

TABLE = Table(title="Audit", columns=columns, build=build)
