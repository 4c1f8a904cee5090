"""Helper functions of all figures: titles of panels, selection of rows, axes, and marks."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from patebench.reporting.frames import protects_labels
from patebench.reporting.style import GREY, LineStyle, logarithmic, percent
from patebench.reporting.wording import in_words

#: Columns that are equal for ensembles which differ only in the number of teachers and the seed (a family).
FAMILY = ("dataset", "setting", "partition", "model", "recipe")
#: Note for axes of ε that a smaller ε is more private, without line breaks.
SMALLER = "(← more private)".replace(" ", "\N{NO-BREAK SPACE}")
#: Accuracies at the ticks of a stretched axis.
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)


def titles(frame: pd.DataFrame, by: tuple[str, ...] = FAMILY) -> dict[tuple[Any, ...], str]:
    """Return the title of each panel of a figure, as {values of the columns `by`: title}.

    A figure has one panel per combination of the columns `by` of `frame`. A title states the data set, and the model if
    `by` contains it. It states the split of the data set if `frame` contains several splits, or if ε protects only
    labels in the split. It states how private data are partitioned among teachers unless the partition is "iid".
    """
    families = sorted(set(frame[list(by)].itertuples(index=False, name=None)))
    return {family: _title(dict(zip(by, family, strict=True)), frame) for family in families}


def _title(name: dict[str, str], frame: pd.DataFrame) -> str:
    parts = [in_words(name["dataset"])]
    if "model" in name:
        parts.append(in_words(name["model"]) + (f", {name['recipe']} recipe" if name["recipe"] else ""))
    if name.get("partition", "iid") != "iid":
        parts.append(in_words(name["partition"]))
    several = frame[frame["dataset"] == name["dataset"]]["setting"].nunique() > 1
    if several or ("adjacency" not in name and protects_labels(name["setting"])):
        parts.append(in_words(name["setting"]))
    if "adjacency" in name:
        parts.append(f"ε of {in_words(name['adjacency'])}")
    return " · ".join(parts)


def members(frame: pd.DataFrame, values: Sequence[Any], by: Sequence[str] = FAMILY) -> pd.DataFrame:
    """Return the rows of `frame` whose columns `by` equal `values`, with one value per column."""
    return frame[(frame[list(by)] == list(values)).all(axis=1)]


def clip_accuracy(accuracy: float) -> float:
    """Return `accuracy`, a fraction, clipped to 0.02 … 0.999, the range of the axes that `stretch` formats."""
    return accuracy if accuracy != accuracy else min(max(accuracy, TICKS[0]), TICKS[-1])


def clip_accuracies(frame: pd.DataFrame, epsilon: str) -> pd.DataFrame:
    """Return `frame` with `accuracy_mean` clipped by `clip_accuracy`, except in rows with an infinite ε.

    `epsilon` is the name of the column of ε.
    """
    accuracies = frame["accuracy_mean"]
    return frame.assign(accuracy_mean=accuracies.map(clip_accuracy).where(frame[epsilon] < math.inf, accuracies))


def mark(
    axis: Axes,
    x: Any,
    y: Any,
    deviation: Any,
    style: LineStyle,
    filled: bool = True,
    *,
    lines: bool = False,
    x_deviation: Any = None,
    **settings: Any,
) -> Any:
    """Draw points with error bars on `axis`; return the matplotlib container.

    Parameters
    ----------
    x, y : coordinates of the points; `y` is an accuracy (fraction).
    deviation : standard deviation of `y`, the length of the vertical bars; NaN for a single seed. Bars end at 100 %.
    style : colour, marker and line.
    filled : False to draw open markers.
    lines : True to join the points by a line.
    x_deviation : length of the horizontal bars; None for no bars.
    settings : further arguments of matplotlib's `errorbar`.
    """
    down, room = np.atleast_1d(np.asarray(deviation, dtype=float)), np.atleast_1d(1 - np.asarray(y, dtype=float))
    drawn: dict[str, Any] = {**style.settings, "markersize": 7, "elinewidth": 0.8, "capsize": 2}
    drawn |= {} if lines else {"linestyle": "none"}
    drawn |= {} if filled else {"markerfacecolor": "white", "markeredgewidth": 1.4}
    return axis.errorbar(x, y, yerr=np.stack([down, np.minimum(down, room)]), xerr=x_deviation, **{**drawn, **settings})


def means(axis: Axes, points: pd.DataFrame, x: str, y: str, **settings: Any) -> None:
    """Draw the mean over the seeds of the quantity `y` against the column `x`, with bars of one standard deviation.

    `points` is a frame from `over_seeds` with the columns `x`, `<y>_mean` and `<y>_std`. `settings` are further
    arguments of matplotlib's `errorbar`.
    """
    axis.errorbar(points[x], points[f"{y}_mean"], yerr=points[f"{y}_std"], **settings)


def note(axis: Axes, x: float, y: float, words: str) -> None:
    """Write the text `words` in small type next to the point (`x`, `y`)."""
    paper = {"color": "white", "alpha": 0.7, "pad": 0.5}
    axis.annotate(words, (x, y), (6, 4.5), textcoords="offset points", fontsize=8, color=GREY, bbox=paper)


def level(axis: Axes, accuracy: float, label: str, deviation: float = math.nan) -> None:
    """Draw a dashed horizontal line at the reference `accuracy`, with a band of ± `deviation` around it.

    If `accuracy` is NaN, the line is left out; if `deviation` is NaN, the band is left out.
    """
    if accuracy == accuracy:
        axis.axhline(accuracy, color=GREY, linestyle=(0, (6, 3)), linewidth=1.3, zorder=0, label=label)
    if deviation == deviation:
        low, high = accuracy - deviation, clip_accuracy(accuracy + deviation)
        axis.axhspan(low, high, color=GREY, alpha=0.12, linewidth=0, zorder=0)


def accuracy_over(axis: Axes, x_label: str, y_label: str) -> None:
    """Show accuracies on the vertical axis in percent, make the horizontal axis logarithmic, and label both axes.

    Draw the data before the call.
    """
    axis.set_xscale("log")
    logarithmic(axis.xaxis)
    axis.set_xlabel(x_label)
    percent(axis, y_label)


def at_values(axis: Axes, values: Sequence[float], label: str) -> None:
    """Give the horizontal axis a logarithmic scale, the label `label`, and ticks only at `values`."""
    axis.set_xscale("log")
    ticks_at(axis, values)
    axis.set_xlabel(label)


def ticks_at(axis: Axes, values: Sequence[float]) -> None:
    """Set the ticks of the horizontal axis to `values`; the scale of the axis does not change."""
    axis.xaxis.set_major_locator(FixedLocator(values))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.xaxis.set_minor_locator(NullLocator())


def stretch(axis: Axes, lowest: float, highest: float) -> None:
    """Give the vertical axis a logit scale for accuracies; the range includes `lowest` and `highest` (fractions).

    On this scale, 98 and 99 % are as far apart as 50 and 67 %.
    """
    low, high = 0.85 * clip_accuracy(lowest), clip_accuracy(highest) + 0.6 * (1 - clip_accuracy(highest))
    enough = sum(low <= tick <= high for tick in TICKS) > 1
    axis.set_yscale("logit", nonpositive="clip")
    axis.yaxis.set_major_locator(FixedLocator(TICKS) if enough else MaxNLocator(4))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_ylim(low, high)
    axis.margins(x=0.08)
    percent(axis, axis.get_ylabel())
