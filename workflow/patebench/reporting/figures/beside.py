"""Words beside points, which cover no other point and no other words."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from patebench.reporting.style import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

#: Where a point is, and what is written beside it.
Name = tuple[float, float, str]

#: Half the side of a marker and of an outline in pixels.
MARKER, OUTLINE = 4, 6
#: Where words may stand beside a point, in typographic points right of it and above it, the best place first.
_PLACES = [(side, height) for height in (4.5, -11.5, 13.5, -20.5) for side in (6.0, -6.0)]


def write(axis: "Axes", names: Iterable[Name], points: list["Bbox"]) -> None:
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


def boxes(axis: "Axes", points: Any, size: float) -> list["Bbox"]:
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
