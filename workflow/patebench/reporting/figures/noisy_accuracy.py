"""Accuracy of LNMax labels against γ: Figure 2 of PATE 2017."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.accuracy import draw_accuracy
from patebench.reporting.frames import Records
from patebench.reporting.published import Published

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(records: Records, published: Published) -> "Figure":
    """More noise is on the left; each query is 2γ-DP, whatever the paper's name for γ suggests."""
    label = "γ, called “ε per query” in the paper (a query is 2γ-DP)\n← more noise                      less noise →"
    return draw_accuracy(records, published, "lnmax", "gamma", label)
