"""Cumulative ε against the number of queries, by every accountant, for the label sets that students learn from."""

from typing import TYPE_CHECKING, Any

from patebench.core.bound import Kind
from patebench.reporting.figures.axes import means
from patebench.reporting.figures.panels import FAMILY, members, titles
from patebench.reporting.frames import Records, distinct, over_seeds, sound
from patebench.reporting.published import Published
from patebench.reporting.style import (
    ACCOUNTANTS,
    GREY,
    KINDS,
    LineStyle,
    empty,
    legend,
    line_styles,
    logarithmic,
    panels,
)
from patebench.reporting.wording import delta_in_words, in_words, parameters_in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABEL_SET = ["dataset", "split", "ensemble", "mechanism", "noise"]
_PANEL = (*FAMILY, "teachers", "mechanism", "noise", "parameters", "delta")
#: More panels than these nobody compares.
_MOST = 6
_LINE = ["accountant", "conversion", "kind", "publishable"]


def draw(records: Records, published: Published) -> "Figure":
    """One panel per label set of the whole pool and δ, or a choice of many.

    Solid lines with full markers hold for all votes, so that a release may state them; others not.
    """
    records = records.of_whole_pool()
    used = records.students[_LABEL_SET].drop_duplicates()
    bounds, curves = (_readable(frame.merge(used, on=_LABEL_SET)) for frame in (records.bounds, records.curves))
    if bounds.empty:
        return empty("No student of this run learns from labels with bounds,\nso there is no ε to draw.")
    bounds = _few(bounds)
    names = _titles(bounds)
    styles = line_styles(bounds["accountant"], ACCOUNTANTS)
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        _draw_panel(axis, members(bounds, panel, _PANEL), members(curves, panel, _PANEL), styles)
    legend(figure, _entries(bounds, styles))
    return figure


def _few(bounds: "pd.DataFrame") -> "pd.DataFrame":
    """Those of no more panels than a reader compares.

    Of each ensemble and mechanism the noise whose worst case at the most queries is nearest to ε = 1, and of these
    the nearest ones: no choice by an accuracy. The tables show all.
    """
    import numpy as np

    if len(distinct(bounds, _PANEL)) <= _MOST:
        return bounds
    last = bounds[bounds["queries"] == bounds.groupby(list(_PANEL))["queries"].transform("max")]
    least = sound(last).groupby(list(_PANEL))["epsilon"].min().reset_index()
    if least.empty:
        return bounds
    least = least.assign(far=np.abs(np.log(least["epsilon"].clip(1e-9, 1e9)))).sort_values(["far", *_PANEL])
    chosen = least.drop_duplicates([name for name in _PANEL if name not in ("noise", "parameters")])[list(_PANEL)]
    return bounds.merge(chosen.head(_MOST), on=list(_PANEL))


def _readable(bounds: "pd.DataFrame") -> "pd.DataFrame":
    """One line for each accountant and kind: the tight conversion where there are two, and no variants of another.

    The tables show all of them.
    """
    tight = bounds["conversion"] == "tight"
    same = [*_LABEL_SET, "delta", "accountant", "kind"]
    two = bounds.assign(tight=tight).groupby(same)["tight"].transform("any") if len(bounds) else tight
    return bounds[(tight | ~two) & ~bounds["variant"]]


def _entries(bounds: "pd.DataFrame", styles: dict[str, LineStyle]) -> dict[str, Any]:
    """Colour and marker tell the accountant, line and filling the kind."""
    from matplotlib.lines import Line2D

    kinds = bounds[["kind", "publishable"]].drop_duplicates().sort_values("kind").to_dict("records")
    entries: dict[str, Any] = {
        in_words(name): Line2D([], [], color=style.color, marker=style.marker) for name, style in styles.items()
    }
    for line in kinds:
        drawn = _drawn(LineStyle(GREY, "o"), line["kind"])
        entries[_meaning(line)] = Line2D([], [], **{key: drawn[key] for key in drawn if key != "capsize"})
    return entries


def _titles(bounds: "pd.DataFrame") -> dict[tuple[Any, ...], str]:
    families = titles(bounds)
    found = {}
    for panel in distinct(bounds, _PANEL):
        *family, teachers, mechanism, _, parameters, delta = panel
        words = parameters_in_words(mechanism, parameters)
        found[panel] = (
            f"{families[tuple(family)]}\nn = {teachers}, {in_words(mechanism)}, δ = {delta_in_words(delta)}\n{words}"
        )
    return found


def _draw_panel(axis: "Axes", bounds: "pd.DataFrame", curves: "pd.DataFrame", styles: dict[str, LineStyle]) -> None:
    """Markers where the run states ε; lines through the curve where there is one, else from marker to marker."""
    stated, between = _cumulative(bounds), _cumulative(_unrolled(curves))
    infinite = []
    for line in stated[_LINE].drop_duplicates().to_dict("records"):
        name = line["accountant"]
        marked, drawn = (members(frame, tuple(line.values()), tuple(_LINE)) for frame in (stated, between))
        finite = marked[marked["epsilon_mean"] < float("inf")]
        if len(finite) < len(marked):
            infinite.append(in_words(name))
        settings = _drawn(styles[name], line["kind"])
        if len(drawn):
            axis.plot(drawn["queries"], drawn["epsilon_mean"], color=settings["color"], linestyle=settings["linestyle"])
            settings["linestyle"] = ""
        settings["label"] = f"{in_words(name)}: {_meaning(line)}"
        means(axis, finite, "queries", "epsilon", **settings)
    if infinite:
        note = "ε = ∞ by " + ", ".join(dict.fromkeys(infinite))
        axis.text(0.02, 0.98, note, transform=axis.transAxes, va="top", fontsize=8.5, color=GREY)
    _dress(axis, sorted(bounds["queries"].unique()))
    if any(0 < epsilon < float("inf") for frame in (stated, between) for epsilon in frame["epsilon_mean"]):
        axis.set_yscale("log")
        logarithmic(axis.yaxis)
    else:
        axis.set_yticks([])


def _unrolled(curves: "pd.DataFrame") -> "pd.DataFrame":
    """One row for each number of queries of each curve."""
    columns = ["queries", "epsilon"]
    return curves.explode(columns).astype({"queries": "int64", "epsilon": "float64"})


def _cumulative(points: "pd.DataFrame") -> "pd.DataFrame":
    return over_seeds(points, [*_LINE, "queries"], ["epsilon"])


def _meaning(line: Any) -> str:
    if line["kind"] == Kind.SANITISED and not line["publishable"]:
        return "sanitised, drawn from a seed"
    private = "of fresh noise" if line["kind"] == Kind.WORST_CASE else "not publishable"
    return f"{in_words(line['kind'])}, {'publishable' if line['publishable'] else private}"


def _drawn(style: LineStyle, kind: str) -> dict[str, Any]:
    """Hollow markers are larger and on top, so that equal bounds of two kinds both show."""
    drawn = {**style.settings, "linestyle": KINDS[kind].line, "capsize": 3}
    if kind in (Kind.WORST_CASE, Kind.SANITISED):
        return drawn
    return {**drawn, "markerfacecolor": "none", "markersize": 9, "zorder": 3}


def _dress(axis: "Axes", queries: list[int]) -> None:
    if max(queries) > 30 * min(queries):
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axis.set_xlim(0, max(queries) * 1.06)
    axis.set_xlabel("queries T")
    axis.set_ylabel("ε after T queries")
