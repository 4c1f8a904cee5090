"""ε by accountant, of all queries and of one, and what audits find of it."""

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.core.text import plural
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import Mechanism, make_mechanism
from patebench.reporting.figures.drawing import FAMILY, means, members, titles
from patebench.reporting.frames import Records, arrange, distinct, over_seeds, sound
from patebench.reporting.outcomes import STATED, audited, found_by
from patebench.reporting.published import Published
from patebench.reporting.style import (
    ACCOUNTANTS,
    GREY,
    KINDS,
    VERMILLION,
    LineStyle,
    empty,
    labelled,
    legend,
    line_styles,
    logarithmic,
    panels,
)
from patebench.reporting.wording import delta_in_words, in_words, parameter_words, parameters_in_words, told_apart

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LABEL_SET = ["dataset", "split", "ensemble", "mechanism", "noise"]
_PANEL_EPSILON = (*FAMILY, "teachers", "mechanism", "noise", "parameters", "delta")
#: More panels than these nobody compares.
_MOST = 6
_LINE = ["accountant", "conversion", "kind", "publishable"]


def draw_epsilon(records: Records, published: Published) -> "Figure":
    """One panel per label set of the whole pool and δ, or a choice of many.

    Solid lines with full markers hold for all votes, so that a release may state them; others not.
    """
    records = records.of_whole_pool()
    used = records.students[_LABEL_SET].drop_duplicates()
    bounds, curves = (_readable(frame.merge(used, on=_LABEL_SET)) for frame in (records.bounds, records.curves))
    if bounds.empty:
        return empty()
    bounds = _few(bounds)
    names = _titles(bounds)
    styles = line_styles(bounds["accountant"], ACCOUNTANTS)
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        _draw_panel(axis, members(bounds, panel, _PANEL_EPSILON), members(curves, panel, _PANEL_EPSILON), styles)
    legend(figure, _entries_epsilon(bounds, styles))
    return figure


def _few(bounds: "pd.DataFrame") -> "pd.DataFrame":
    """Those of no more panels than a reader compares.

    Of each ensemble and mechanism the noise whose worst case at the most queries is nearest to ε = 1, and of these
    the nearest ones: no choice by an accuracy. The tables show all.
    """
    import numpy as np

    if len(distinct(bounds, _PANEL_EPSILON)) <= _MOST:
        return bounds
    last = bounds[bounds["queries"] == bounds.groupby(list(_PANEL_EPSILON))["queries"].transform("max")]
    least = sound(last).groupby(list(_PANEL_EPSILON))["epsilon"].min().reset_index()
    if least.empty:
        return bounds
    least = least.assign(far=np.abs(np.log(least["epsilon"].clip(1e-9, 1e9)))).sort_values(["far", *_PANEL_EPSILON])
    chosen = least.drop_duplicates([name for name in _PANEL_EPSILON if name not in ("noise", "parameters")])[
        list(_PANEL_EPSILON)
    ]
    return bounds.merge(chosen.head(_MOST), on=list(_PANEL_EPSILON))


def _readable(bounds: "pd.DataFrame") -> "pd.DataFrame":
    """One line for each accountant and kind: the tight conversion where there are two, and no variants of another.

    The tables show all of them.
    """
    tight = bounds["conversion"] == "tight"
    same = [*_LABEL_SET, "delta", "accountant", "kind"]
    two = bounds.assign(tight=tight).groupby(same)["tight"].transform("any") if len(bounds) else tight
    return bounds[(tight | ~two) & ~bounds["variant"]]


def _entries_epsilon(bounds: "pd.DataFrame", styles: dict[str, LineStyle]) -> dict[str, Any]:
    """Colour and marker tell the accountant, line and filling the kind."""
    from matplotlib.lines import Line2D

    kinds = bounds[["kind", "publishable"]].drop_duplicates().sort_values("kind").to_dict("records")
    entries: dict[str, Any] = {
        in_words(name): Line2D([], [], color=style.color, marker=style.marker) for name, style in styles.items()
    }
    for line in kinds:
        drawn = _drawn_epsilon(LineStyle(GREY, "o"), line["kind"])
        entries[_meaning(line)] = Line2D([], [], **{key: drawn[key] for key in drawn if key != "capsize"})
    return entries


def _titles(bounds: "pd.DataFrame") -> dict[tuple[Any, ...], str]:
    families = titles(bounds)
    found = {}
    for panel in distinct(bounds, _PANEL_EPSILON):
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
        settings = _drawn_epsilon(styles[name], line["kind"])
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


def _drawn_epsilon(style: LineStyle, kind: str) -> dict[str, Any]:
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


#: The order where none is known from the label set's own ε.
ORDER = 20.0
CLASSES = 10

_PANEL_EPSILON_GAP = (*FAMILY, "teachers", "mechanism", "noise")
_POINTS = 40
#: Costs below this share of the worst case are cut off.
_LEAST = 1e-9

#: Name and kind of an accountant, and its costs at each gap.
Costs = dict[tuple[str, Kind], NDArray[np.float64]]


def draw_epsilon_gap(records: Records, published: Published) -> "Figure":
    """One panel per label set that a student learns from; the line tells the kind, the colour the accountant."""
    records = records.of_whole_pool()
    used = records.students[records.students["mechanism"].isin(list(MECHANISMS))]
    used = used.drop_duplicates(list(_PANEL_EPSILON_GAP))
    if used.empty:
        return empty()
    families = titles(used)
    rows = arrange(used, _PANEL_EPSILON_GAP).to_dict("records")
    orders, costs = [], []
    for row in rows:
        mechanism = _mechanism(row)
        order = _order(
            members(records.bounds, _key(row, _PANEL_EPSILON_GAP), _PANEL_EPSILON_GAP), row["teachers"], mechanism
        )
        orders.append(order)
        costs.append(_costs(row["teachers"], mechanism, order))
    styles = line_styles({name for found in costs for name, _ in found})
    figure, axes = panels([_title_epsilon_gap(row, families) for row in rows], sharey=False)
    for axis, row, order, found in zip(axes, rows, orders, costs, strict=True):
        _draw_costs(axis, gaps(row["teachers"]), found, styles)
        axis.set_ylabel(f"Rényi divergence of order {order:g}")
        _draw_histogram(axis, members(records.ensembles, _key(row, (*FAMILY, "teachers")), (*FAMILY, "teachers")))
    legend(figure, labelled(axes))
    return figure


def gaps(teachers: int) -> NDArray[np.int64]:
    """Gaps that two classes can have when all teachers vote for one of them."""
    possible = np.arange(teachers % 2, teachers + 1, 2)
    chosen = np.unique(np.linspace(0, len(possible) - 1, _POINTS).round().astype(np.int64))
    result: NDArray[np.int64] = possible[chosen]
    return result


def _order(bounds: "pd.DataFrame", teachers: int, mechanism: Mechanism) -> float:
    """The order at which a label set's data-dependent ε was found by theorem, in the middle of its queries."""
    shown = _shown(mechanism.accountants(_votes(teachers, teachers)))
    theorems = [each.name for each in shown if each.kind is Kind.DATA_DEPENDENT and not each.exact]
    used = bounds[bounds["accountant"].isin(theorems) & (bounds["kind"] == Kind.DATA_DEPENDENT)]["order"].dropna()
    return ORDER if used.empty else float(f"{used.median():.3g}")


def _costs(teachers: int, mechanism: Mechanism, order: float) -> Costs:
    """Rényi divergence at each gap, per accountant."""
    found: dict[tuple[str, Kind], list[float]] = {}
    for gap in gaps(teachers):
        for accountant in _shown(mechanism.accountants(_votes(teachers, gap))):
            cost = float(accountant.totals([1], np.array([order]))[0, 0])
            found.setdefault((accountant.name, accountant.kind), []).append(cost)
    return {
        name: np.array(curve)
        for name, curve in found.items()
        if len(curve) == len(gaps(teachers)) and np.isfinite(curve).all()
    }


def _votes(teachers: int, gap: int) -> Votes:
    """One query for which all vote for two classes, so far apart."""
    counts = np.zeros((1, CLASSES), dtype=np.int64)
    counts[0, :2] = (teachers + gap) // 2, (teachers - gap) // 2
    return Votes.from_counts(counts)


def _shown(accountants: Sequence[Accountant]) -> list[RenyiAccountant]:
    """The proven ones that have a curve, but for variants.

    One that converts in the classic way alone is left out where a theorem of its kind converts in the tight way too:
    it is the published form of that theorem, such as moments.
    """
    proven = [
        each
        for each in accountants
        if isinstance(each, RenyiAccountant)
        and each.kind in (Kind.WORST_CASE, Kind.DATA_DEPENDENT)
        and not each.variant
    ]
    tight = {each.kind for each in proven if Conversion.TIGHT in each.conversions and not each.exact}
    return [each for each in proven if Conversion.TIGHT in each.conversions or each.kind not in tight]


def _draw_costs(axis: "Axes", gap: NDArray[np.int64], costs: Costs, styles: dict[str, LineStyle]) -> None:
    axis.set_yscale("log")
    for (name, kind), curve in costs.items():
        style = styles[name]
        drawn = curve > _LEAST * max(np.max(each) for each in costs.values())
        label = f"{in_words(name)}: {in_words(kind)}"
        axis.plot(gap[drawn], curve[drawn], color=style.color, linestyle=KINDS[kind].line, label=label)
    axis.set_xlabel("gap between the two largest counts")
    if not costs:
        words = "No accountant gives a finite Rényi\ncost of a query at every gap."
        axis.text(0.5, 0.5, words, ha="center", va="center", color=GREY, transform=axis.transAxes)
    low, high = axis.get_ylim()
    if high < 1e3 * low:
        logarithmic(axis.yaxis)


def _draw_histogram(axis: "Axes", ensembles: "pd.DataFrame") -> None:
    """Where the queries of the pool lie, as a grey area of its own scale."""
    if ensembles.empty:
        return
    queries = np.sum([np.asarray(row) for row in ensembles["gap_histogram"]], axis=0)
    behind = axis.twinx()
    width = max(1, len(queries) // 50)
    edges = np.arange(0, len(queries) + width, width)
    share, _ = np.histogram(np.arange(len(queries)), edges, weights=queries)
    drawn: Any = {"step": "post", "color": GREY, "alpha": 0.18, "linewidth": 0, "label": "queries of the pool"}
    behind.fill_between(edges[:-1], share / queries.sum(), **drawn)
    behind.set_ylim(bottom=0)
    behind.set_yticks([])
    axis.fill_between([], [], [], color=GREY, alpha=0.18, linewidth=0, label="queries of the pool (their number)")


def _title_epsilon_gap(row: dict[Any, Any], families: dict[tuple[str, ...], str]) -> str:
    noise = parameters_in_words(row["mechanism"], row["parameters"])
    return f"{families[_key(row, FAMILY)]}\nn = {row['teachers']}, {in_words(row['mechanism'])}\n{noise}"


def _key(row: dict[Any, Any], columns: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def _mechanism(row: dict[Any, Any]) -> Mechanism:
    return make_mechanism(row["mechanism"], {name: float(value) for name, value in row["parameters"].items()})


#: From the left: what a smaller ε shows as, and where that is marked; ∞ has its place at the right.
_NOTHING, _ZERO = 1e-3, 4e-4

#: Settings audited at other numbers of queries have a block of their own: of each the largest is shown.
_BLOCK = ("dataset", "teachers", "delta", "most")
_ROW = ("mechanism", "noise", "parameters")
_ARROW: Any = {"arrowstyle": "-|>", "color": VERMILLION, "linewidth": 1.1, "shrinkA": 6, "shrinkB": 6}
Marks = dict[str, tuple[str, dict[str, Any]]]
_MARKS: Marks = {
    "worst_case": ("proven, whatever the votes are", {"kind": Kind.WORST_CASE, "s": 46}),
    "data_dependent": ("proven, for the audited votes", {"kind": Kind.DATA_DEPENDENT, "s": 30}),
    "claimed": ("claimed by a paper", {"kind": Kind.CLAIMED, "s": 52}),
}
#: The marks of all ways to audit but the exact one, in turn.
_HOLLOW = ("v", "d", "<", ">")
#: Ways to audit by their labels; others are named by their label, and hollow.
_FOUND = {
    "exact": "worst pair found",
    "sampled": "counted in runs",
    "discrete": "counted in runs with discrete noise",
}


def draw_audit(records: Records, published: Published) -> "Figure":
    """A block for each data set and number of teachers, a row for each mechanism and setting, columns for one query and
    the most.
    """
    from matplotlib.figure import Figure

    frame = audited(records)
    if frame.empty:
        return empty()
    frame = frame.assign(most=_most(frame))
    blocks = distinct(frame, _BLOCK)
    rows = [distinct(members(frame, block, _BLOCK), _ROW) for block in blocks]
    heights = [0.9 + 0.3 * len(each) for each in rows]
    figure = Figure(figsize=(11.4, 1.0 + sum(heights)), layout="constrained")
    axes = figure.subplots(len(blocks), 2, squeeze=False, sharex=True, sharey="row", height_ratios=heights)
    infinity = _infinity(frame)
    for line, block, names in zip(axes, blocks, rows, strict=True):
        own = members(frame, block, _BLOCK)
        one = own["queries"] == 1
        for axis, shown in zip(line, (own[one], own[~one & (own["queries"] == own["most"])]), strict=True):
            _draw_block(axis, shown, names, infinity)
            axis.set_title(_title_audit(block, shown))
        line[0].set_yticks(range(len(names)), _beside(names))
        line[0].set_ylim(len(names) - 0.4, -0.6)
    for axis in axes[-1]:
        axis.set_xlabel("ε")
    legend(figure, _entries_audit(frame))
    return figure


def _beside(names: list[tuple[Any, ...]]) -> list[str]:
    """Each mechanism, with its setting or, of several settings, what tells them apart."""
    said: dict[tuple[Any, ...], str] = {}
    for mechanism in dict.fromkeys(name[0] for name in names):
        own = [name for name in names if name[0] == mechanism]
        said |= dict(zip(own, told_apart([parameter_words(mechanism, name[2]) for name in own]), strict=True))
    return [f"{in_words(name[0])}  {said[name]}" for name in names]


def _most(frame: "pd.DataFrame") -> "pd.Series[int]":
    """The largest number of queries of each row; where that is one, of all on as many teachers."""
    beside = [*_BLOCK[:-1]]
    of_row = frame.groupby([*beside, *_ROW])["queries"].transform("max")
    return of_row.where(of_row > 1, frame.groupby(beside)["queries"].transform("max"))


def _infinity(frame: "pd.DataFrame") -> float:
    """Where ∞ is marked: beyond all that is finite."""
    import numpy as np

    values = frame[list(_marks(frame))].to_numpy(dtype=float)
    largest = float(np.max(values, initial=1.0, where=np.isfinite(values)))
    return float(10 ** np.ceil(np.log10(30 * largest)))


def _draw_block(axis: "Axes", frame: "pd.DataFrame", names: list[tuple[Any, ...]], infinity: float) -> None:
    axis.set_xscale("log")
    axis.set_xlim(_ZERO / 1.8, infinity * 2.5)
    for low, high in ((_ZERO / 1.8, _NOTHING * 0.75), (infinity / 2.5, infinity * 2.5)):
        axis.axvspan(low, high, color="#ECECEC", zorder=0, linewidth=0)
    axis.grid(which="major", axis="x", color="#D9D9D9", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0)
    _label_ticks(axis, infinity)
    marks = _marks(frame)
    for row in frame.to_dict("records"):
        _draw_row(axis, names.index(tuple(row[name] for name in _ROW)), row, marks, infinity)


def _marks(frame: "pd.DataFrame") -> Marks:
    """The columns of ε, with the words for each and how it is marked."""
    found: Marks = {}
    hollow = cycle(_HOLLOW)
    for name, label in found_by(frame).items():
        how = {"kind": Kind.AUDITED_LOWER, "s": 46} | ({} if label == "exact" else {"hollow": next(hollow)})
        found[name] = f"lost at least: {_FOUND.get(label, label)}", how
    return _MARKS | found


def _draw_row(axis: "Axes", height: int, row: dict[Any, Any], marks: Marks, infinity: float) -> None:
    """Stated above, found below; a violated statement has a shaded row, and an arrow leads to what was found."""
    places = {name: _place(row[name], infinity) for name in marks if row[name] == row[name]}
    if "violated" in (row["claim"], row["verdict"]):
        axis.axhspan(height - 0.42, height + 0.42, color=VERMILLION, alpha=0.13, linewidth=0, zorder=0.5)
        wrong = "claimed" if row["claim"] == "violated" else "worst_case"
        if wrong in places:
            found = max(places[name] for name in places if name not in STATED)
            axis.annotate("", (found, height + 0.15), (places[wrong], height - 0.15), arrowprops=_ARROW, zorder=1.5)
    for name, place in places.items():
        beside = -0.15 if name in STATED else 0.15
        axis.scatter([place], [height + beside], clip_on=False, **_drawn_audit(marks[name][1]))


def _place(epsilon: float, infinity: float) -> float:
    return infinity if epsilon == float("inf") else epsilon if epsilon >= _NOTHING else _ZERO


def _drawn_audit(how: dict[str, Any]) -> dict[str, Any]:
    settings = dict(how)
    kind, hollow = settings.pop("kind"), settings.pop("hollow", "")
    style = KINDS[kind]
    colors = {"facecolors": "white" if hollow else style.color, "edgecolors": style.color, "linewidths": 1.4}
    order = 4 if kind is Kind.AUDITED_LOWER else 3
    return {**settings, **colors, "marker": hollow or style.marker, "zorder": order}


def _label_ticks(axis: "Axes", infinity: float) -> None:
    import numpy as np
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    powers = np.arange(np.log10(_NOTHING) + 1, np.log10(infinity / 2.6)).round().astype(int)
    shown = powers[:: -(-len(powers) // 6)]
    axis.xaxis.set_major_locator(FixedLocator([_ZERO, *(10.0**shown), infinity]))
    labels = (f"{10.0**power:g}" if power < 4 else f"$10^{{{power}}}$" for power in shown)
    axis.xaxis.set_major_formatter(FixedFormatter(["≈ 0", *labels, "∞"]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.tick_params(labelbottom=True)


def _title_audit(block: tuple[Any, ...], frame: "pd.DataFrame") -> str:
    queries = int(frame["queries"].max()) if len(frame) else 1
    counted = plural(queries, "query")
    data = in_words(block[0]) if block[0] else "any data"
    return f"{data}, n = {block[1]}\n{counted}, δ = {delta_in_words(block[2])}"


def _entries_audit(frame: "pd.DataFrame") -> dict[str, Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: dict[str, Any] = {}
    for name, (words, how) in _marks(frame).items():
        if frame[name].notna().any():
            drawn = _drawn_audit(how)
            entries[words] = Line2D(
                [], [], linestyle="", marker=drawn["marker"], markerfacecolor=drawn["facecolors"],
                markeredgecolor=drawn["edgecolors"],
            )  # fmt: skip
    if (frame[["claim", "verdict"]] == "violated").any(axis=None):
        entries["stated ε contradicted by the audit"] = Patch(color=VERMILLION, alpha=0.25, linewidth=0)
    entries["places of ε ≈ 0 and of no finite ε"] = Patch(color=GREY, alpha=0.2, linewidth=0)
    return entries
