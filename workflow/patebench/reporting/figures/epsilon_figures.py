"""Figures of ε against the number of queries, and of stated against audited ε."""

from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from patebench.core.bound import Kind
from patebench.core.text import plural
from patebench.reporting.figures.drawing import FAMILY, means, members, titles
from patebench.reporting.frames import Records, distinct, over_seeds, smallest_epsilon, worst_case_bounds
from patebench.reporting.published import Published
from patebench.reporting.style import (
    GREY,
    KINDS,
    VERMILLION,
    LineStyle,
    empty,
    legend,
    line_styles,
    logarithmic,
    panels,
)
from patebench.reporting.tables.accounting_tables import AUDIT, audit_methods
from patebench.reporting.wording import delta_in_words, differing_words, in_words, parameter_words, parameters_in_words

_LABEL_SET = ["dataset", "split", "ensemble", "mechanism", "noise"]
_PANEL = (*FAMILY, "teachers", "mechanism", "noise", "parameters", "delta")
#: Maximum number of panels of the figure `epsilon`.
_MOST = 6
_LINE = ["accountant", "conversion", "kind", "publishable"]


def draw_epsilon(records: Records, published: Published) -> Figure:
    """Draw the ε of the labels of the first T queries against T, with one line per accountant and kind of bound.

    Each panel shows one set of released labels (one ensemble, mechanism and noise) at one δ. There are at most `_MOST`
    panels. Label sets on which no student was trained are left out. Solid lines with filled markers are worst-case
    bounds. The legend states which bounds may be published.
    """
    records = records.of_whole_pool()
    used = records.students[_LABEL_SET].drop_duplicates()
    bounds, curves = (_select_lines(frame.merge(used, on=_LABEL_SET)) for frame in (records.bounds, records.curves))
    if bounds.empty:
        return empty()
    bounds = _select_panels(bounds)
    curves = curves.explode(["queries", "epsilon"]).astype({"queries": "int64", "epsilon": "float64"})
    styles = line_styles(bounds["accountant"])
    families, names = titles(bounds), distinct(bounds, _PANEL)
    figure, axes = panels([_title(families, panel) for panel in names], sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        _draw_panel(axis, members(bounds, panel, _PANEL), members(curves, panel, _PANEL), styles)
    legend(figure, _legend_entries(bounds, styles))
    return figure


def _title(families: dict[tuple[Any, ...], str], panel: tuple[Any, ...]) -> str:
    *family, teachers, mechanism, _, parameters, delta = panel
    setting = f"n = {teachers}, {in_words(mechanism)}, δ = {delta_in_words(delta)}"
    return f"{families[tuple(family)]}\n{setting}\n{parameters_in_words(mechanism, parameters)}"


def _select_panels(bounds: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `bounds` for the panels that are drawn.

    Up to `_MOST` panels are all drawn. If there are more, the `_MOST` panels are drawn whose worst-case ε for all
    queries is closest to 1. Of panels that differ only in the noise setting, only the one closest to ε = 1 is
    considered. If `bounds` contains no worst-case bound, all panels are drawn.
    """
    if len(distinct(bounds, _PANEL)) <= _MOST:
        return bounds
    last = bounds[bounds["queries"] == bounds.groupby(list(_PANEL))["queries"].transform("max")]
    nearest = smallest_epsilon(worst_case_bounds(last), _PANEL, "epsilon")
    if nearest.empty:
        return bounds
    nearest = nearest.assign(far=np.abs(np.log(nearest["epsilon"].clip(1e-9, 1e9)))).sort_values(["far", *_PANEL])
    chosen = nearest.drop_duplicates([name for name in _PANEL if name not in ("noise", "parameters")])[list(_PANEL)]
    return bounds.merge(chosen.head(_MOST), on=list(_PANEL))


def _select_lines(bounds: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `bounds` that `draw_epsilon` draws.

    Two kinds of rows are left out. The first are bounds marked as `variant`, whose accountant is a variant of another
    accountant, for comparison only. The second are bounds computed from a Rényi curve by the classic formula, if the
    same accountant also has a bound by the tight formula.
    """
    tight = bounds["conversion"] == "tight"
    same = [*_LABEL_SET, "delta", "accountant", "kind"]
    two = bounds.assign(tight=tight).groupby(same)["tight"].transform("any") if len(bounds) else tight
    return bounds[(tight | ~two) & ~bounds["variant"]]


def _legend_entries(bounds: pd.DataFrame, styles: dict[str, LineStyle]) -> dict[str, Any]:
    """Return the legend as {label: line}, with one entry per accountant in `styles` and one per kind of bound."""
    entries: dict[str, Any] = {
        in_words(name): Line2D([], [], color=style.color, marker=style.marker) for name, style in styles.items()
    }
    for line in bounds[["kind", "publishable"]].drop_duplicates().sort_values("kind").to_dict("records"):
        entries[_meaning(line)] = Line2D([], [], **_marker_settings(LineStyle(GREY, "o"), line["kind"]))
    return entries


def _draw_panel(axis: Axes, bounds: pd.DataFrame, curves: pd.DataFrame, styles: dict[str, LineStyle]) -> None:
    """Draw ε against the number of queries: `bounds` as markers, and `curves` as lines.

    `curves` contains the same bounds as `bounds`, at more numbers of queries. `styles` maps accountants to line styles.
    """
    stated, between = (over_seeds(frame, [*_LINE, "queries"], ["epsilon"]) for frame in (bounds, curves))
    infinite = []
    for line in stated[_LINE].drop_duplicates().to_dict("records"):
        name = in_words(line["accountant"])
        marked, drawn = (members(frame, [*line.values()], _LINE) for frame in (stated, between))
        finite = marked[marked["epsilon_mean"] < float("inf")]
        infinite += [name] if len(finite) < len(marked) else []
        settings = _marker_settings(styles[line["accountant"]], line["kind"])
        if len(drawn):
            axis.plot(drawn["queries"], drawn["epsilon_mean"], color=settings["color"], linestyle=settings["linestyle"])
            settings["linestyle"] = ""
        means(axis, finite, "queries", "epsilon", **settings, capsize=3, label=f"{name}: {_meaning(line)}")
    if infinite:
        words = "ε = ∞ by " + ", ".join(dict.fromkeys(infinite))
        axis.text(0.02, 0.98, words, transform=axis.transAxes, va="top", fontsize=8.5, color=GREY)
    queries = bounds["queries"]
    if queries.max() > 30 * queries.min():
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axis.set_xlim(0, queries.max() * 1.06)
    axis.set_xlabel("queries T")
    axis.set_ylabel("ε after T queries")
    if any(frame["epsilon_mean"].between(0, float("inf"), inclusive="neither").any() for frame in (stated, between)):
        axis.set_yscale("log")
        logarithmic(axis.yaxis)
    else:
        axis.set_yticks([])


def _meaning(line: Any) -> str:
    if line["kind"] == Kind.SANITISED and not line["publishable"]:
        return "sanitised, drawn from a seed"
    private = "of fresh noise" if line["kind"] == Kind.WORST_CASE else "not publishable"
    return f"{in_words(line['kind'])}, {'publishable' if line['publishable'] else private}"


def _marker_settings(style: LineStyle, kind: str) -> dict[str, Any]:
    """Return arguments of matplotlib's lines for a bound of the given `kind`.

    The kind of bound determines the dashes. Markers are filled for worst-case and sanitised bounds, and open for
    data-dependent bounds.
    """
    drawn = {**style.settings, "linestyle": KINDS[kind].line}
    if kind in (Kind.WORST_CASE, Kind.SANITISED):
        return drawn
    # Larger and hollow, so that they are visible on top of equal worst-case bounds.
    return {**drawn, "markerfacecolor": "none", "markersize": 9, "zorder": 3}


#: An ε below `_NOTHING` is drawn at `_ZERO`.
_NOTHING, _ZERO = 1e-3, 4e-4
#: Columns that are equal for all rows of a pair of panels. `most` is T, the number of queries of the right panel.
_BLOCK = ("dataset", "teachers", "delta", "most")
_ROW = ("mechanism", "noise", "parameters")
#: Label and marker size of each kind of stated ε.
_STATED = {
    Kind.WORST_CASE: ("proven, worst case", 46),
    Kind.DATA_DEPENDENT: ("proven, for the audited votes", 30),
    Kind.CLAIMED: ("claimed by a paper", 52),
}
#: Descriptions of audit methods by label; other methods are described by their label.
_WAYS = {
    "exact": "worst pair found",
    "sampled": "counted in runs",
    "discrete": "counted in runs with discrete noise",
}


def draw_audit(records: Records, published: Published) -> Figure:
    """Draw the stated ε of audited mechanisms next to the ε lower bounds that audits found.

    Each row shows one mechanism with one setting. Rows with the same data set, number of teachers, δ and number of
    queries T are drawn in a pair of panels: the left panel shows the ε of one query, and the right panel the ε of T
    queries.
    """
    frame = AUDIT.build(records, published)
    if frame.empty:
        return empty()
    # T is the largest number of queries for which a setting was audited. If this is 1, T is the largest number of
    # any setting with the same data set, number of teachers and δ.
    subject = [*_BLOCK[:-1]]
    of_setting = frame.groupby([*subject, *_ROW])["queries"].transform("max")
    frame = frame.assign(most=of_setting.where(of_setting > 1, frame.groupby(subject)["queries"].transform("max")))
    marks = _scatter_styles(frame)
    values = frame[list(marks)].to_numpy(dtype=float)
    largest = float(np.max(values, initial=1.0, where=np.isfinite(values)))
    infinity = float(10 ** np.ceil(np.log10(30 * largest)))
    blocks = distinct(frame, _BLOCK)
    rows = [distinct(members(frame, block, _BLOCK), _ROW) for block in blocks]
    heights = [0.9 + 0.3 * len(settings) for settings in rows]
    figure = Figure(figsize=(11.4, 1.0 + sum(heights)), layout="constrained")
    axes = figure.subplots(len(blocks), 2, squeeze=False, sharex=True, sharey="row", height_ratios=heights)
    for line, block, settings in zip(axes, blocks, rows, strict=True):
        own = members(frame, block, _BLOCK)
        one = own["queries"] == 1
        for axis, shown in zip(line, (own[one], own[~one & (own["queries"] == own["most"])]), strict=True):
            _format_epsilon_axis(axis, infinity)
            for row in shown.to_dict("records"):
                _draw_row(axis, settings.index(tuple(row[name] for name in _ROW)), row, marks, infinity)
            queries = int(shown["queries"].max()) if len(shown) else 1
            data = in_words(block[0]) if block[0] else "any data"
            stated = f"{plural(queries, 'query')}, δ = {delta_in_words(block[2])}"
            axis.set_title(f"{data}, n = {block[1]}\n{stated}")
        line[0].set_yticks(range(len(settings)), _setting_words(settings))
        line[0].set_ylim(len(settings) - 0.4, -0.6)
    for axis in axes[-1]:
        axis.set_xlabel("ε")
    legend(figure, _audit_entries(frame, marks))
    return figure


def _setting_words(settings: list[tuple[Any, ...]]) -> list[str]:
    """Return a label for each tuple (mechanism, noise, parameters) in `settings`.

    A label states the mechanism and those parameters that differ between the settings of the mechanism. If a mechanism
    has one setting only, the label states all parameters.
    """
    labels: dict[tuple[Any, ...], str] = {}
    for mechanism in dict.fromkeys(setting[0] for setting in settings):
        own = [setting for setting in settings if setting[0] == mechanism]
        words = [parameter_words(mechanism, setting[2]) for setting in own]
        differing = differing_words(words) if len(words) > 1 else [", ".join(words[0])]
        labels |= {setting: f"{in_words(mechanism)}  {text}" for setting, text in zip(own, differing, strict=True)}
    return [labels[setting] for setting in settings]


def _scatter_styles(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return arguments of matplotlib's `scatter` by column of `frame`, for the columns that contain an ε.

    A column contains a stated ε of one kind, or the ε lower bounds of one audit method.
    """
    marks = {str(kind): _scatter_style(kind, *words_and_size) for kind, words_and_size in _STATED.items()}
    hollow = cycle(("v", "d", "<", ">"))
    for name, label in audit_methods(frame).items():
        marker = "" if label == "exact" else next(hollow)
        marks[name] = _scatter_style(Kind.AUDITED_LOWER, f"audited lower bound: {_WAYS.get(label, label)}", 46, marker)
    return marks


def _scatter_style(kind: Kind, label: str, size: int, open_marker: str = "") -> dict[str, Any]:
    """Return arguments of matplotlib's `scatter` that mark a `kind` of ε in its colour.

    The marker is filled and has the shape of the kind. If `open_marker` names a shape, the marker is open and has that
    shape.
    """
    style = KINDS[kind]
    colors = {"facecolors": "white" if open_marker else style.color, "edgecolors": style.color, "linewidths": 1.4}
    zorder = 4 if kind is Kind.AUDITED_LOWER else 3
    return {**colors, "marker": open_marker or style.marker, "s": size, "zorder": zorder, "label": label}


def _format_epsilon_axis(axis: Axes, infinity: float) -> None:
    """Format the horizontal axis, which shows ε, and shade the ranges in which ε ≈ 0 and ε = ∞ are drawn.

    `infinity` is the position of ε = ∞.
    """
    axis.set_xscale("log")
    axis.set_xlim(_ZERO / 1.8, infinity * 2.5)
    for low, high in ((_ZERO / 1.8, _NOTHING * 0.75), (infinity / 2.5, infinity * 2.5)):
        axis.axvspan(low, high, color="#ECECEC", zorder=0, linewidth=0)
    axis.grid(which="major", axis="x", color="#D9D9D9", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0)
    powers = np.arange(np.log10(_NOTHING) + 1, np.log10(infinity / 2.6)).round().astype(int)
    shown = powers[:: -(-len(powers) // 6)]
    labels = (f"{10.0**power:g}" if power < 4 else f"$10^{{{power}}}$" for power in shown)
    axis.xaxis.set_major_locator(FixedLocator([_ZERO, *(10.0**shown), infinity]))
    axis.xaxis.set_major_formatter(FixedFormatter(["≈ 0", *labels, "∞"]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.tick_params(labelbottom=True)


def _draw_row(axis: Axes, y: int, row: dict[Any, Any], marks: dict[str, Any], infinity: float) -> None:
    """Draw the stated ε and the audited ε of `row` (one mechanism and setting) at the vertical position `y`.

    Stated ε are drawn slightly above `y`, and audited ε slightly below. ε = ∞ is drawn at `infinity`. The row is shaded
    if the audit contradicts a stated ε. `marks` contains the markers, as arguments of matplotlib's `scatter` for each
    column of `row` that contains an ε (see `_scatter_styles`).
    """
    places = {
        name: infinity if row[name] == float("inf") else row[name] if row[name] >= _NOTHING else _ZERO
        for name in marks
        if row[name] == row[name]
    }
    if "violated" in (row["claim"], row["verdict"]):
        axis.axhspan(y - 0.42, y + 0.42, color=VERMILLION, alpha=0.13, linewidth=0, zorder=0.5)
        wrong = "claimed" if row["claim"] == "violated" else "worst_case"
        if wrong in places:
            found = max(places[name] for name in places if name not in _STATED)
            arrow: Any = {"arrowstyle": "-|>", "color": VERMILLION, "linewidth": 1.1, "shrinkA": 6, "shrinkB": 6}
            axis.annotate("", (found, y + 0.15), (places[wrong], y - 0.15), arrowprops=arrow, zorder=1.5)
    for name, place in places.items():
        beside = -0.15 if name in _STATED else 0.15
        axis.scatter([place], [y + beside], clip_on=False, **marks[name])


def _audit_entries(frame: pd.DataFrame, marks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the legend of `draw_audit` as {label: matplotlib artist}; `marks` is the result of `_scatter_styles`."""
    entries: dict[str, Any] = {}
    for name, mark in marks.items():
        if frame[name].notna().any():
            colors = {"markerfacecolor": mark["facecolors"], "markeredgecolor": mark["edgecolors"]}
            entries[mark["label"]] = Line2D([], [], linestyle="", marker=mark["marker"], **colors)
    if (frame[["claim", "verdict"]] == "violated").any(axis=None):
        entries["stated ε contradicted by the audit"] = Patch(color=VERMILLION, alpha=0.25, linewidth=0)
    entries["ε ≈ 0 (left) and ε = ∞ (right)"] = Patch(color=GREY, alpha=0.2, linewidth=0)
    return entries
