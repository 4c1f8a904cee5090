"""What is claimed and proven of each mechanism, and what its audit found, side by side on one axis of ε."""

from itertools import cycle
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Kind
from patebench.core.text import plural
from patebench.reporting.figures.panels import members
from patebench.reporting.frames import Records, distinct
from patebench.reporting.outcomes import STATED, audited, found_by
from patebench.reporting.published import Published
from patebench.reporting.style import GREY, KINDS, VERMILLION, empty, legend
from patebench.reporting.wording import delta_in_words, in_words, parameter_words, told_apart

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def draw(records: Records, published: Published) -> "Figure":
    """A block for each data set and number of teachers, a row for each mechanism and setting, columns for one query and
    the most.
    """
    from matplotlib.figure import Figure

    frame = audited(records)
    if frame.empty:
        return empty("This run audits no mechanism,\nso there is nothing to compare.")
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
            axis.set_title(_title(block, shown))
        line[0].set_yticks(range(len(names)), _beside(names))
        line[0].set_ylim(len(names) - 0.4, -0.6)
    for axis in axes[-1]:
        axis.set_xlabel("ε")
    legend(figure, _entries(frame))
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
        axis.scatter([place], [height + beside], clip_on=False, **_drawn(marks[name][1]))


def _place(epsilon: float, infinity: float) -> float:
    return infinity if epsilon == float("inf") else epsilon if epsilon >= _NOTHING else _ZERO


def _drawn(how: dict[str, Any]) -> dict[str, Any]:
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


def _title(block: tuple[Any, ...], frame: "pd.DataFrame") -> str:
    queries = int(frame["queries"].max()) if len(frame) else 1
    counted = plural(queries, "query")
    data = in_words(block[0]) if block[0] else "any data"
    return f"{data}, n = {block[1]}\n{counted}, δ = {delta_in_words(block[2])}"


def _entries(frame: "pd.DataFrame") -> dict[str, Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: dict[str, Any] = {}
    for name, (words, how) in _marks(frame).items():
        if frame[name].notna().any():
            drawn = _drawn(how)
            entries[words] = Line2D(
                [], [], linestyle="", marker=drawn["marker"], markerfacecolor=drawn["facecolors"],
                markeredgecolor=drawn["edgecolors"],
            )  # fmt: skip
    if (frame[["claim", "verdict"]] == "violated").any(axis=None):
        entries["stated ε contradicted by the audit"] = Patch(color=VERMILLION, alpha=0.25, linewidth=0)
    entries["places of ε ≈ 0 and of no finite ε"] = Patch(color=GREY, alpha=0.2, linewidth=0)
    return entries
