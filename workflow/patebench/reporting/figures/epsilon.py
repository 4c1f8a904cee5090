"""Cumulative ε against the number of queries, by every accountant, for the releases that students learn from."""

from typing import TYPE_CHECKING, Any

from patebench.core.bound import Kind
from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records, arrange, spread
from patebench.reporting.published import Published
from patebench.reporting.style import ACCOUNTANTS, GREY, KINDS, Look, empty, legend, logarithmic, looks, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_RELEASE = ["dataset", "split", "ensemble", "mechanism", "noise"]
_PANEL = ("dataset", "setting", "partition", "model", "recipe", "teachers", "mechanism", "noise", "delta")
#: Close to another line, and of no use without the numbers.
_VARIANTS = ("moments-unrestricted", "rdp-sanitised-optimised")
_LINE = ["accountant", "conversion", "kind", "publishable"]


def draw(records: Records, published: Published) -> "Figure":
    """One panel per release and δ. Solid lines with full markers may be published; broken, hollow ones may not."""
    used = records.students[_RELEASE].drop_duplicates()
    bounds, curves = (_readable(frame.merge(used, on=_RELEASE)) for frame in (records.bounds, records.curves))
    if bounds.empty:
        return empty("No student of this run learns from a release with bounds,\nso there is no ε to draw.")
    names = _titles(bounds)
    style = looks(bounds["accountant"], ACCOUNTANTS)
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        _draw_panel(axis, members(bounds, panel, _PANEL), members(curves, panel, _PANEL), style)
    legend(figure, _entries(bounds, style))
    return figure


def _readable(bounds: "pd.DataFrame") -> "pd.DataFrame":
    """One line for each accountant and kind: the tight conversion where there are two, and no variants of another.

    The tables show all of them.
    """
    tight = bounds["conversion"] == "tight"
    same = [*_RELEASE, "delta", "accountant", "kind"]
    two = bounds.assign(tight=tight).groupby(same)["tight"].transform("any") if len(bounds) else tight
    return bounds[(tight | ~two) & ~bounds["accountant"].isin(_VARIANTS)]


def _entries(bounds: "pd.DataFrame", style: dict[str, Look]) -> dict[str, Any]:
    """Colour and marker tell the accountant, line and filling the kind."""
    from matplotlib.lines import Line2D

    kinds = bounds[["kind", "publishable"]].drop_duplicates().sort_values("kind").to_dict("records")
    entries: dict[str, Any] = {
        name: Line2D([], [], color=look.color, marker=look.marker) for name, look in style.items()
    }
    for line in kinds:
        drawn = _drawn(Look(GREY, "o"), line["kind"], line["publishable"])
        entries[_meaning(line)] = Line2D([], [], **{key: drawn[key] for key in drawn if key != "capsize"})
    return entries


def _titles(bounds: "pd.DataFrame") -> dict[tuple[Any, ...], str]:
    families = titles(bounds)
    found = arrange(bounds[list(_PANEL)].drop_duplicates(), _PANEL).itertuples(index=False, name=None)
    return {
        (*family, teachers, mechanism, noise, delta): f"{families[tuple(family)]}\n"
        f"n = {teachers}, {mechanism}, δ = {delta:g}\n{noise.replace('_', ', ')}"
        for *family, teachers, mechanism, noise, delta in found
    }


def _draw_panel(axis: "Axes", bounds: "pd.DataFrame", curves: "pd.DataFrame", style: dict[str, Look]) -> None:
    """Markers where the run states ε; lines through the curve where there is one, else from marker to marker."""
    stated, between = _cumulative(bounds), _cumulative(_unrolled(curves))
    infinite = []
    for line in stated[_LINE].drop_duplicates().to_dict("records"):
        name = line["accountant"]
        marked, drawn = (members(frame, tuple(line.values()), tuple(_LINE)) for frame in (stated, between))
        finite = marked[marked["epsilon_mean"] < float("inf")]
        if len(finite) < len(marked):
            infinite.append(name)
        look = _drawn(style[name], line["kind"], line["publishable"])
        if len(drawn):
            axis.plot(drawn["queries"], drawn["epsilon_mean"], color=look["color"], linestyle=look["linestyle"])
            look["linestyle"] = ""
        look["label"] = f"{name}: {_meaning(line)}"
        axis.errorbar(finite["queries"], finite["epsilon_mean"], yerr=finite["epsilon_std"], **look)
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
    return spread(points, [*_LINE, "queries"], ["epsilon"])


def _meaning(line: Any) -> str:
    if line["kind"] == Kind.SANITISED and not line["publishable"]:
        return "sanitised, drawn from a seed"
    return f"{line['kind'].replace('_', ' ')}, {'' if line['publishable'] else 'not '}publishable"


def _drawn(look: Look, kind: str, publishable: bool) -> dict[str, Any]:
    """Hollow markers are larger and on top, so that equal bounds of two kinds both show."""
    drawn: dict[str, Any] = {"color": look.color, "linestyle": KINDS[kind].line, "marker": look.marker, "capsize": 3}
    if publishable or kind == Kind.SANITISED:
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
