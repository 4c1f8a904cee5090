"""Helpers of all figures: how records fall into panels, axes, marks on them, and words beside points."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.reporting.style import BLACK, GREY, logarithmic, percent
from patebench.reporting.wording import WEAK, in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox


#: Ensembles that differ in the number of teachers (and seed) alone share these.
FAMILY = ("dataset", "setting", "partition", "model", "recipe")


def titles(frame: "pd.DataFrame", by: tuple[str, ...] = FAMILY) -> dict[tuple[str, ...], str]:
    """A title for each family in `frame`, naming the split and partition only where they tell families apart."""
    families = sorted(set(frame[list(by)].itertuples(index=False, name=None)))
    return {family: _title(dict(zip(by, family, strict=True)), frame) for family in families}


def members(frame: "pd.DataFrame", family: tuple[str, ...], by: tuple[str, ...] = FAMILY) -> "pd.DataFrame":
    """The rows of `frame` that belong to a family."""
    chosen = (frame[list(by)] == list(family)).all(axis=1)
    return frame[chosen]


def _title(name: dict[str, str], frame: "pd.DataFrame") -> str:
    alike = frame[frame["dataset"] == name["dataset"]]
    parts = [in_words(name["dataset"])]
    if "model" in name:
        parts.append(in_words(name["model"]) + (f", {name['recipe']} recipe" if name["recipe"] else ""))
    if name.get("partition", "iid") != "iid":
        parts.append(in_words(name["partition"]))
    if alike["setting"].nunique() > 1:
        parts.append(in_words(name["setting"]))
    return " · ".join(parts)


#: Which way is better on an axis of ε; a line does not break within it.
SMALLER = "(← more private)".replace(" ", "\N{NO-BREAK SPACE}")

#: Accuracies that an upright axis names where it is stretched.
TICKS = (0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)


def within(accuracy: float) -> float:
    """An accuracy that a stretched axis can place; NaN stays."""
    return accuracy if accuracy != accuracy else min(max(accuracy, TICKS[0]), TICKS[-1])


def placed(frame: "pd.DataFrame", epsilon: str = "worst_case_epsilon_mean") -> "pd.DataFrame":
    """The same with an `accuracy_mean` that a stretched axis can place; at ε = ∞ it stays, to be said in words."""
    accuracies = frame["accuracy_mean"]
    return frame.assign(accuracy_mean=accuracies.map(within).where(frame[epsilon] < math.inf, accuracies))


def bars(accuracies: Any, deviations: Any) -> NDArray[np.float64]:
    """One deviation down and up, as matplotlib takes it, but never above 100 %; none of one seed, which has NaN."""
    down, room = (np.atleast_1d(np.asarray(values, dtype=float)) for values in (deviations, 1 - np.asarray(accuracies)))
    return np.stack([down, np.minimum(down, room)])


def accuracy_over(axis: "Axes", across: str, upright: str) -> None:
    """Label an axis that has its data already: logarithmic across, in percent upright."""
    axis.set_xscale("log")
    logarithmic(axis.xaxis)
    axis.set_xlabel(across)
    percent(axis, upright)


def over_teachers(axis: "Axes", teachers: Sequence[int]) -> None:
    """Numbers of teachers on a logarithmic axis, with ticks at these alone."""
    at_values(axis, teachers, "number of teachers n")


def at_values(axis: "Axes", values: Sequence[float], label: str) -> None:
    """A logarithmic axis across, with this label and ticks at these values alone."""
    axis.set_xscale("log")
    ticks_at(axis, values)
    axis.set_xlabel(label)


def ticks_at(axis: "Axes", values: Sequence[float]) -> None:
    """Ticks across at these values alone, whatever the scale is."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.xaxis.set_major_locator(FixedLocator(values))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.xaxis.set_minor_locator(NullLocator())


def means(axis: "Axes", points: "pd.DataFrame", x: str, y: str, **settings: Any) -> None:
    """The mean of `y` at each `x`, with bars of one deviation over the seeds; `points` are of `over_seeds`."""
    axis.errorbar(points[x], points[f"{y}_mean"], yerr=points[f"{y}_std"], **settings)


def level(axis: "Axes", accuracy: float, label: str) -> None:
    """A broken line at an accuracy to compare with; none where that is NaN."""
    if accuracy == accuracy:
        axis.axhline(accuracy, color=GREY, linestyle=(0, (6, 3)), linewidth=1.3, zorder=0, label=label)


def staircase(axis: "Axes", best: "pd.DataFrame", label: str) -> None:
    """The best accuracy at every worst-case ε, through the outcomes that no other beats, where they are several."""
    best = best.sort_values("worst_case_epsilon_mean")
    if len(best) > 1:
        axis.step(
            best["worst_case_epsilon_mean"], best["accuracy_mean"], where="post", color=BLACK, linewidth=0.9,
            linestyle=(0, (2, 2)), zorder=0, label=label,
        )  # fmt: skip


def stretch(axis: "Axes", least: float, most: float) -> None:
    """A logit scale upright from the least accuracy to the most: 98 and 99 % are as far apart there as 50 and 67 %."""
    from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

    low, high = 0.85 * within(least), within(most) + 0.6 * (1 - within(most))
    enough = sum(low <= tick <= high for tick in TICKS) > 1
    axis.set_yscale("logit", nonpositive="clip")
    axis.yaxis.set_major_locator(FixedLocator(TICKS) if enough else MaxNLocator(4))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.set_ylim(low, high)
    axis.margins(x=0.08)
    percent(axis, axis.get_ylabel())


def shade_weak(axis: "Axes", largest: float) -> None:
    """Where an ε is weak, and that it is; nothing where none is."""
    low, high = axis.get_xlim()
    if largest > WEAK:
        axis.axvspan(max(WEAK, low), high, color=GREY, alpha=0.1, linewidth=0, zorder=0)
        axis.text(0.99, 0.02, f"ε > {WEAK:g}: weak", transform=axis.transAxes, ha="right", color=GREY, fontsize=8)
        axis.set_xlim(low, high)


#: Where a point is, and what is written beside it.
Words = tuple[float, float, str]

#: Half the side of a marker and of an outline in pixels.
MARKER, OUTLINE = 4, 6
#: Where words may stand beside a point, in typographic points right of it and above it, the best place first.
_PLACES = [(side, height) for height in (4.5, -11.5, 13.5, -20.5) for side in (6.0, -6.0)]


def write_beside(axis: "Axes", names: Iterable[Words], points: list["Bbox"]) -> None:
    """Each beside its point, in turn, where it covers no earlier one and none of the `points`; or nowhere.

    The figure must have been drawn once, so that it is known how far points lie from each other.
    """
    taken = [*points, *_lines(axis), *(text.get_window_extent() for text in axis.texts)]
    for x, y, name in names:
        for place in _PLACES:
            text = _annotate(axis, x, y, name, place)
            extent = text.get_window_extent()
            if not extent.count_overlaps(taken) and axis.bbox.x0 < extent.x0 and extent.x1 < axis.bbox.x1:
                taken.append(extent)
                break
            text.remove()


def boxes_of(axis: "Axes", points: Any, size: float) -> list["Bbox"]:
    """Where marks of half this size are on the canvas; `points` (points, 2) are places on the axes, or none."""
    from matplotlib.transforms import Bbox

    places = axis.transData.transform(np.asarray(points, float))
    return [Bbox([place - size, place + size]) for place in places if np.isfinite(place).all()]


def _lines(axis: "Axes") -> list["Bbox"]:
    """Where level lines and bars are on the canvas: words on them can not be read."""
    from matplotlib.collections import LineCollection
    from matplotlib.transforms import Bbox

    straight = [(line, np.asarray(line.get_xydata(), float)) for line in axis.lines]
    ends = [line.get_transform().transform(points) for line, points in straight if len(points) == 2]
    for segments in axis.collections:
        if isinstance(segments, LineCollection):
            ends += [axis.transData.transform(each) for each in segments.get_segments()]
    return [
        Bbox([each.min(axis=0) - 1, each.max(axis=0) + 1]) for each in ends if each.size and np.isfinite(each).all()
    ]


def _annotate(axis: "Axes", x: float, y: float, words: str, place: tuple[float, float]) -> "Annotation":
    """Small words beside a point, so many typographic points right of it and above it."""
    side: Any = "left" if place[0] > 0 else "right"
    return axis.annotate(words, (x, y), place, textcoords="offset points", fontsize=8, color=GREY, ha=side)
