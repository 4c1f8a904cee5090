"""Accuracy of students over the number of clusters whose labels they learn from: a line for each noise setting."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.sweep import Sweep, draw_sweep, reached
from patebench.reporting.frames import Records
from patebench.reporting.published import Published

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SWEEP = Sweep(
    across="clusters",
    label="clusters of the public pool, which are the queries",
    lines=("noise_in_words", "epsilon"),
    panels=("dataset", "who", "method", "partition", "mechanism", "setting"),
    without="This run put no two numbers of clusters to its teachers at the same noise,\nso there is nothing to draw.",
)


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set, ensemble and student; ε depends on the noise alone, not on the number of clusters."""
    frame = reached(records)
    frame = frame[frame["clusters"].notna() & (frame["queries"] == frame["clusters"])]
    return draw_sweep(_SWEEP, frame, records.namings)
