"""Cost of one query against the gap between its two largest counts, by every Rényi accountant of each label set.

Computed from theorems for made-up votes, so that it shows what the accountants say, not what this run's votes are.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import Mechanism, make_mechanism
from patebench.reporting.figures.panels import FAMILY, members, titles
from patebench.reporting.frames import Records, arrange
from patebench.reporting.published import Published
from patebench.reporting.style import GREY, KINDS, LineStyle, empty, labelled, legend, line_styles, logarithmic, panels
from patebench.reporting.wording import in_words, parameters_in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The order where none is known from the label set's own ε.
ORDER = 20.0
CLASSES = 10

_PANEL = (*FAMILY, "teachers", "mechanism", "noise")
_POINTS = 40
#: Costs below this share of the worst case are cut off.
_LEAST = 1e-9

#: Name and kind of an accountant, and its costs at each gap.
Costs = dict[tuple[str, Kind], NDArray[np.float64]]


def draw(records: Records, published: Published) -> "Figure":
    """One panel per label set that a student learns from; the line tells the kind, the colour the accountant."""
    records = records.of_whole_pool()
    used = records.students[records.students["mechanism"].isin(list(MECHANISMS))]
    used = used.drop_duplicates(list(_PANEL))
    if used.empty:
        return empty(
            "No student of this run learns from labels of a known mechanism,\nso there is no cost of a query to draw."
        )
    families = titles(used)
    rows = arrange(used, _PANEL).to_dict("records")
    orders, costs = [], []
    for row in rows:
        mechanism = _mechanism(row)
        order = _order(members(records.bounds, _key(row, _PANEL), _PANEL), row["teachers"], mechanism)
        orders.append(order)
        costs.append(_costs(row["teachers"], mechanism, order))
    styles = line_styles({name for found in costs for name, _ in found})
    figure, axes = panels([_title(row, families) for row in rows], sharey=False)
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


def _title(row: dict[Any, Any], families: dict[tuple[str, ...], str]) -> str:
    noise = parameters_in_words(row["mechanism"], row["parameters"])
    return f"{families[_key(row, FAMILY)]}\nn = {row['teachers']}, {in_words(row['mechanism'])}\n{noise}"


def _key(row: dict[Any, Any], columns: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(row[column] for column in columns)


def _mechanism(row: dict[Any, Any]) -> Mechanism:
    return make_mechanism(row["mechanism"], {name: float(value) for name, value in row["parameters"].items()})
