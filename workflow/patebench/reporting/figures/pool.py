"""Accuracy of students over the size of the public pool: a line for each noise setting and number of labels."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.sweep import Sweep, draw_sweep, reached
from patebench.reporting.frames import Records
from patebench.reporting.published import Published

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SWEEP = Sweep(
    across="pool",
    label="public samples without a label (the pool)",
    lines=("labels", "noise_in_words", "epsilon"),
    panels=("dataset", "who", "method", "partition", "mechanism", "beside_pool"),
    without="This run has no two pools with the same teachers at the same noise,\nso there is nothing to draw.",
)


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set, ensemble and student."""
    frame = reached(records)
    frame = frame.assign(labels=[f"T = {queries}" for queries in frame["queries"]])
    return draw_sweep(_SWEEP, frame, records.namings)
