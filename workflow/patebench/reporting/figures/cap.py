"""Accuracy of students over k, the votes of a teacher that count: a line for each ε, as more votes need more noise."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.sweep import Sweep, draw_sweep, reached
from patebench.reporting.frames import Records
from patebench.reporting.outcomes import caps
from patebench.reporting.published import Published

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SWEEP = Sweep(
    across="cap",
    label="k, how many votes of a teacher count",
    lines=("epsilon",),
    panels=("dataset", "who", "method", "partition", "mechanism", "setting", "labels"),
    without="This run has no two caps k at the same ε,\nso there is nothing to draw.",
)


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set, ensemble, student and number of queries; along a line σ grows as √k does."""
    frame = reached(records)
    frame = frame.assign(
        cap=caps(frame["parameters"]),
        labels=[f"T = {queries}" for queries in frame["queries"]],
    )
    return draw_sweep(_SWEEP, frame[frame["cap"].notna()], records.namings)
