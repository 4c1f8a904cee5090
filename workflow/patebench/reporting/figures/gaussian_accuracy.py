"""Accuracy of GNMax labels against σ: Figure 2 of PATE 2017, drawn for the mechanism of Scalable PATE (2018)."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.accuracy import draw_accuracy
from patebench.reporting.frames import Records
from patebench.reporting.published import Published

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(records: Records, published: Published) -> "Figure":
    """More noise is on the right, unlike in the figure for LNMax."""
    label = "σ, standard deviation of the noise on each count\n← less noise                          more noise →"
    return draw_accuracy(records, published, "gnmax", "sigma", label)
