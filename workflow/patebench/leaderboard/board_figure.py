"""Draw accuracy against ε for the rows of a data set's table on the leaderboard."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from patebench.leaderboard.board import Row, units
from patebench.leaderboard.entry import Origin
from patebench.reporting.figures.drawing import SMALLER, accuracy_over, clip_accuracy, stretch
from patebench.reporting.style import GREY, WIDE, empty, finished, panels, styles_in_order
from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_board(dataset: str, rows: Sequence[Row]) -> "Figure":
    """Draw each row with a finite ε: filled if its ε is proved, open otherwise; colours show the unit of privacy.

    A line joins the ranked rows of a unit that no other one of this unit exceeds at the same or a smaller ε.
    """
    drawn = [row for row in rows if 0 < row.epsilon < math.inf]
    if not drawn:
        return empty("No entry with an accuracy has a finite ε.")
    figure, (axis,) = panels([in_words(dataset)], alone=WIDE)
    for unit, style in styles_in_order(units(rows)).items():
        ranked = sorted((row for row in drawn if row.assessed.ranked and row.unit == unit), key=lambda row: row.epsilon)
        best: list[Row] = []
        for row in ranked:
            if not best or row.accuracy > best[-1].accuracy:
                best.append(row)
        x, y = [row.epsilon for row in ranked], [clip_accuracy(row.accuracy) for row in ranked]
        axis.plot(x, y, marker=style.marker, color=style.color, linestyle="none", label=unit)
        x, y = [row.epsilon for row in best], [clip_accuracy(row.accuracy) for row in best]
        axis.step(x, y, where="post", color=style.color, linewidth=1)
    for origin, marker in ((Origin.PUBLISHED, "o"), (Origin.WRITTEN, "s"), (Origin.KEPT, "^")):
        others = [row for row in drawn if not row.assessed.ranked and row.assessed.entry.origin is origin]
        if others:
            x, y = [row.epsilon for row in others], [clip_accuracy(row.accuracy) for row in others]
            words = f"not ranked: {origin}"
            axis.plot(x, y, marker=marker, color=GREY, markerfacecolor="none", linestyle="none", alpha=0.7, label=words)
    accuracy_over(axis, f"ε, recomputed where possible   {SMALLER}", "accuracy on the test set")
    stretch(axis, *axis.dataLim.intervaly)
    return finished(figure, [axis])
