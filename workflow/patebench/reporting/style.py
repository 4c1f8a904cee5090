"""Style of all figures: colours that colour-blind readers can distinguish, markers, line styles, panels and legends.

The palette is from Okabe and Ito (2008), without yellow, which is too pale for lines. Each mechanism, private model
and kind of bound has the same style in every figure.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from patebench.core.bound import Kind
from patebench.core.errors import PatebenchError
from patebench.core.files import atomic
from patebench.mechanisms import MECHANISMS

BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, BLACK = (
    *("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000"),
)
GREY = "#6E6E6E"


@dataclass(frozen=True)
class LineStyle:
    """Colour, marker and line (a matplotlib linestyle) of one series."""

    color: str
    marker: str
    line: Any = "-"

    @property
    def settings(self) -> dict[str, Any]:
        """Return this style as keyword arguments for matplotlib's lines and error bars."""
        return {"color": self.color, "marker": self.marker, "linestyle": self.line}


_STYLES = (
    LineStyle(ORANGE, "s", (0, (1, 1.2))),
    LineStyle(GREEN, "^", (0, (4, 1.5))),
    LineStyle(BLUE, "o", "-"),
    LineStyle(VERMILLION, "D", (0, (5, 1.2, 1, 1.2))),
    LineStyle(PURPLE, "v", (0, (6, 2))),
    LineStyle(SKY, "P", (0, (3, 1, 1, 1, 1, 1))),
    LineStyle(BLACK, "X", (0, (1, 2.5))),
)


#: Styles of private models by system and form; other models get one of the remaining styles.
PRIVATE_MODELS: Mapping[str, LineStyle] = {
    "DP-SGD, scratch": LineStyle(PURPLE, "X"),
    "DP-SGD, linear": LineStyle(PURPLE, "*"),
    "DP-SGD, fine-tuned": LineStyle(PURPLE, "P"),
    "PET-DL, published": LineStyle(SKY, "X"),
    "PET-DL, noisy-gradient": LineStyle(SKY, "*"),
    "PET-DL, noisy-knowledge": LineStyle(SKY, "P"),
    "Private-kNN, published": LineStyle(VERMILLION, "X"),
    "Private-kNN, sound": LineStyle(VERMILLION, "*"),
    "DPPL, mean": LineStyle(GREEN, "X"),
    "DPPL, public": LineStyle(GREEN, "*"),
    "least squares, public covariance": LineStyle(BLACK, "X"),
    "least squares, private covariance": LineStyle(BLACK, "*"),
    "Private Evolution, public pool": LineStyle(ORANGE, "X"),
    "Ind-kNN, radii of the pool": LineStyle(ORANGE, "D"),
    "cluster histograms, largest cell": LineStyle(ORANGE, "*"),
    "cluster histograms, labels drawn": LineStyle(ORANGE, "P"),
    "RRWithPrior, published": LineStyle(PURPLE, "D"),
}


#: Line styles of the kinds of bounds.
KINDS: Mapping[str, LineStyle] = {
    Kind.WORST_CASE: LineStyle(BLUE, "o", "-"),
    Kind.SANITISED: LineStyle(GREEN, "^", (0, (8, 1))),
    Kind.DATA_DEPENDENT: LineStyle(ORANGE, "s", (0, (4, 2))),
    Kind.CLAIMED: LineStyle(GREY, "X", (0, (1, 1.5))),
    Kind.AUDITED_LOWER: LineStyle(VERMILLION, "v", (0, (5, 1.2, 1, 1.2))),
}


def mechanism_styles() -> dict[str, LineStyle]:
    """Return styles by mechanism name, for the mechanisms that define their own colour."""
    colors = {"blue": BLUE, "orange": ORANGE, "green": GREEN, "vermillion": VERMILLION, "purple": PURPLE, "sky": SKY}
    styles = {}
    for name in MECHANISMS:
        with suppress(PatebenchError):
            shown = MECHANISMS.load(name).shown
            if shown.color in colors:
                styles[name] = LineStyle(colors[shown.color], shown.marker)
    return styles


def line_styles(things: Iterable[Any], fixed: Mapping[Any, LineStyle] | None = None) -> dict[Any, LineStyle]:
    """Return a line style for each of `things`, such as mechanism names.

    A thing in `fixed` gets its style from `fixed`. All other things get styles in sorted order, if possible in colours
    that no style from `fixed` uses.
    """
    fixed = fixed or {}
    wanted = sorted(set(things))
    styles = {thing: fixed[thing] for thing in wanted if thing in fixed}
    colors = {style.color for style in styles.values()}
    marks = {(style.color, style.marker) for style in styles.values()}
    free = [style for style in _STYLES if style.color not in colors]
    free = free or [style for style in _STYLES if (style.color, style.marker) not in marks] or list(_STYLES)
    for index, thing in enumerate([thing for thing in wanted if thing not in styles]):
        turn, place = divmod(index, len(free))  # after the last style, colours repeat with other markers and dashes
        other = free[(place + turn) % len(free)]
        styles[thing] = replace(free[place], marker=other.marker, line=other.line)
    return styles


def styles_in_order(things: Sequence[Any]) -> dict[Any, LineStyle]:
    """Return a line style for each of `things`; styles are assigned in the order of `things`."""
    return dict(zip(things, line_styles(range(len(things))).values(), strict=True))


def themed() -> AbstractContextManager[None]:
    """Return a context manager in which figures are drawn and saved with the common matplotlib settings."""
    return mpl.rc_context(_RC)


#: Label of a figure that shows nothing.
_EMPTY = "empty"

#: Width and height in inches of a figure with one panel, and of one with text next to its points.
_ALONE, WIDE = (6.4, 3.6), (9.2, 4.6)


def panels(
    titles: Sequence[str], sharey: bool = True, per_row: int = 0, alone: tuple[float, float] = _ALONE
) -> tuple[Figure, list[Axes]]:
    """Return a figure with one panel per title, and the axes of its panels.

    Parameters
    ----------
    titles : titles of the panels.
    sharey : True if all panels have the same vertical axis.
    per_row : number of panels in a row; 0 for the default, which is 2 for up to 4 panels and 3 for more.
    alone : width and height in inches of a figure with a single panel.
    """
    columns = min(per_row or (3 if len(titles) > 4 else 2), len(titles))
    rows = -(-len(titles) // columns)
    width = {1: _ALONE[0], 2: 9.2, 3: 11.4}[columns]
    size = alone if len(titles) == 1 else (width, 0.3 + 3.3 * rows)
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=sharey).flat)
    for axis in axes[len(titles) :]:
        axis.set_visible(False)
    for axis, title in zip(axes, titles, strict=False):
        axis.set_title(title)
        axis.grid(which="major", color="#D9D9D9", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.tick_params(labelleft=True)
    return figure, axes[: len(titles)]


def percent(axis: Axes, label: str) -> None:
    """Set the label of the vertical axis to `label`, and show its values, which are fractions, in percent."""
    axis.set_ylabel(label)
    axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")


def logarithmic(axis: Axis) -> None:
    """Label the ticks of the logarithmic `axis` with numbers such as 1, 2, 5, 10; its data must be drawn before."""
    low, high = axis.get_view_interval()
    subs = (1.0, 2.0, 3.0, 5.0, 7.0) if high < 15 * low else (1.0, 2.0, 5.0) if high < 500 * low else (1.0, 3.0)
    axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]) if high < 3 * low else LogLocator(subs=subs))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())


def hollow(axis: Axes, x: float, y: float, color: str, marker: str, label: str) -> None:
    """Draw a value printed in a paper at (`x`, `y`), as an open marker; measured values have filled markers."""
    axis.scatter(
        [x], [y], s=70, marker=marker, facecolors="white", edgecolors=color, linewidths=1.8, zorder=4, label=label
    )


def legend(figure: Figure, entries: Mapping[str, Any]) -> None:
    """Draw a legend below the panels, and increase the figure's height for it; `entries` maps labels to handles."""
    if not entries:
        return
    widest = 0.65 + 0.07 * max(map(len, entries))  # inches: the handle, and an average width per letter
    columns = min(len(entries), max(1, int(figure.get_figwidth() // widest)))
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.22 * -(-len(entries) // columns))
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns, frameon=False)


def finished(figure: Figure, axes: Iterable[Axes]) -> Figure:
    """Return `figure` with one legend for its panels `axes`; entries that start with "printed:" come last."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    legend(figure, dict(sorted(entries.items(), key=lambda entry: entry[0].startswith("printed:"))))
    return figure


def empty() -> Figure:
    """Return a placeholder figure with a note that there is nothing to show; the report page leaves it out."""
    figure, (axis,) = panels([""])
    figure.set_label(_EMPTY)
    figure.set_figheight(1.6)
    axis.set_axis_off()
    centred: Any = {"ha": "center", "va": "center", "transform": axis.transAxes}
    axis.text(0.5, 0.5, "This run has nothing to show here.", wrap=True, color=GREY, **centred)
    return figure


def is_empty(figure: Figure) -> bool:
    """Return True if `figure` is a placeholder made by `empty`."""
    return figure.get_label() == _EMPTY


def save(figure: Figure, *paths: Path) -> None:
    """Write `figure` to `paths` (PNG or PDF) without date and version, so equal figures have equal bytes."""
    _mark_lone_points(figure)
    _wrap_titles(figure)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is final; each format would compute it again
    nameless = {"png": {"Software": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}
    for path in paths:
        form = path.suffix.removeprefix(".")
        with atomic(path) as temporary:
            figure.savefig(temporary, format=form, dpi=200, metadata=nameless[form], **_TIGHT)


def set_tooltip(bars: ErrorbarContainer, words: str) -> None:
    """Set the tooltip of the markers of `bars` to `words`; only the output of `svg` contains it."""
    bars.lines[0].set_gid(_TIP + words)


_TIP = "tip: "


def svg(figure: Figure) -> str:
    """Return `figure` as text, an SVG element for an HTML page.

    Numbered ids are removed, because other figures on the page could have the same ids. `save` must be called before,
    since it computes the final layout.
    """
    stream = StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None}, **_TIGHT)
    text = stream.getvalue()
    content = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    content = re.sub(rf'<g id="{_TIP}([^"]*)">', r"<g><title>\1</title>", content)
    content = re.sub(r' id="\w+_\d+"| xmlns(:\w+)?="[^"]*"| version="1.1"', "", content).replace("xlink:href", "href")
    head, middle, body = content.partition(">")  # width and height in points: 1/72 inch; 125 pixels per inch
    return re.sub(r'="([\d.]+)pt"', lambda points: f'="{round(float(points[1]) * 125 / 72)}"', head) + middle + body


def _wrap_titles(figure: Figure) -> None:
    """Wrap titles and horizontal axis labels that are wider than their panel."""
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for axis in figure.axes:
        place = axis.get_subplotspec()
        if place is None or not axis.get_visible():
            continue
        share = figure.bbox.width * len(place.colspan) / place.get_gridspec().ncols
        for words in (axis.title, axis.xaxis.label):
            width, lines = words.get_window_extent(renderer).width, words.get_text().split("\n")
            if width > share:
                letters = int(0.95 * share / width * max(map(len, lines)))
                words.set_text("\n".join(textwrap.fill(line, letters) for line in lines))


def _mark_lone_points(figure: Figure) -> None:
    """Add a marker to lines with a single point, which would otherwise be invisible."""
    for axis in figure.axes:
        for line in axis.lines:
            points = np.asarray(line.get_xydata(), dtype=float)
            if np.isfinite(points).all(axis=1).sum() == 1 and line.get_marker() in ("None", "none", " ", "", None):
                line.set_marker("o")


_TIGHT: Any = {"bbox_inches": "tight", "pad_inches": 0.08}
_RC: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so figures look the same everywhere
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#808080",
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "pdf.fonttype": 42,
    "svg.hashsalt": "patebench",
}
