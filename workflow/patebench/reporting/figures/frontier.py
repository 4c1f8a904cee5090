"""Student accuracy against ε: what the privacy costs, and which ε may be published."""

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from patebench.core.bound import Adjacency, Kind
from patebench.reporting.figures.axes import accuracy_over, level, staircase
from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records
from patebench.reporting.outcomes import frontier, outcomes, private_models
from patebench.reporting.published import OF_RECORDS, PATE_2017, SCALABLE_2018, Published
from patebench.reporting.style import (
    BLACK,
    GREY,
    MECHANISMS,
    METHODS,
    PRIVATE_MODELS,
    PURPLE,
    LineStyle,
    empty,
    hollow,
    labelled,
    legend,
    line_styles,
    panels,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox

_PANEL = ("dataset", "setting")
#: Width and height in inches of a figure of one panel: it has room for words beside the points.
_WIDE = (9.2, 4.6)
#: With more students than these only those on the frontier have words.
_CROWD = 20
#: Where words may stand beside a point, in typographic points right of it and above it, the best place first.
_PLACES = [(5.0, 3.5), (-5.0, 3.5), (5.0, -11.0), (-5.0, -11.0)]
#: Of papers whose ε is that of one record, in their order.
_MARKERS = "so^Dv"
#: Half the side of a marker in pixels.
_MARKER = 4
#: The fill of a marker says what may be published.
_KINDS = {
    Kind.WORST_CASE: "worst-case ε, of fresh noise",
    Kind.DATA_DEPENDENT: "data-dependent ε, not publishable",
}
#: Of whom a model's ε is.
_PROTECTED: dict[str, str] = {Adjacency.ADD_OR_REMOVE_RECORD: "one record", Adjacency.REPLACE_TEACHER: "one shard"}
_SAID: dict[str, str] = {Kind.CLAIMED: " (claimed)"}


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set; colour and marker tell the mechanism, or the student where those are more."""
    import pandas as pd

    reached, models = outcomes(records), _named(private_models(records))
    if reached.empty and models.empty:
        return empty("This run has no students and no private models, so there is no frontier to draw.")
    names = titles(pd.concat([reached[[*_PANEL]], models[[*_PANEL]]]), _PANEL)
    marks = line_styles(models["name"], PRIVATE_MODELS)
    by = "method" if reached["method"].nunique() > reached["mechanism"].nunique() else "mechanism"
    styles = line_styles(reached[by], METHODS if by == "method" else MECHANISMS)
    other = "mechanism" if by == "method" else "method"
    figure, axes = panels(list(names.values()), sharey=False)
    if len(axes) == 1:
        figure.set_size_inches(_WIDE)
    for axis, panel in zip(axes, names, strict=True):
        students = members(reached, panel, _PANEL)
        own = members(models, panel, _PANEL)
        _draw_baseline(axis, own if students.empty else students)
        _draw_models(axis, own.assign(style=own["name"].map(marks)))
        _draw_students(axis, students.assign(style=students[by].map(styles)))
        staircase(axis, students[frontier(students)], "frontier of worst-case ε")
        _draw_published(axis, published.of(PATE_2017, SCALABLE_2018), panel[0])
        if len(own):
            _draw_published_models(axis, published.of(*OF_RECORDS), panel[0])
        costly = "of the student's labels" + (", or of the model" if len(own) else "")
        accuracy_over(axis, f"ε {costly}   (← more private){_endless(students)}", "accuracy on the test set")
        axis.margins(x=0.18, y=0.12)
    _explain(axes[0], reached.loc[reached["worst_case_epsilon_mean"] != math.inf, by], styles)
    legend(figure, labelled(axes))
    figure.draw_without_rendering()  # from here on it is known how far points lie from each other
    for axis, panel in zip(axes, names, strict=True):
        students = members(reached, panel, _PANEL)
        if not students.empty:
            _name_students(axis, students, other)
    return figure


def _draw_students(axis: "Axes", students: "pd.DataFrame") -> None:
    """Each at its two ε, in its column `style`."""
    endless = students["worst_case_epsilon_mean"] == math.inf
    for row in students[~endless].to_dict("records"):
        pair = [row[f"{kind}_epsilon_mean"] for kind in _KINDS]
        drawn = {"color": row["style"].color, "marker": row["style"].marker}
        axis.plot(pair, [row["accuracy_mean"]] * 2, color=row["style"].color, linewidth=0.6, alpha=0.5, zorder=1)
        for kind in _KINDS:
            filled = {} if kind is Kind.WORST_CASE else {"markerfacecolor": "white", "markersize": 4.5, "alpha": 0.7}
            settings: dict[str, Any] = {**drawn, **filled, "elinewidth": 0.8, "capsize": 2, "linestyle": "none"}
            settings |= {"xerr": row[f"{kind}_epsilon_std"], "yerr": row["accuracy_std"]}
            axis.errorbar(row[f"{kind}_epsilon_mean"], row["accuracy_mean"], **settings)


def _named(models: "pd.DataFrame") -> "pd.DataFrame":
    """Private models, with what the legend calls them: the best of each name, ε, kind and protected unit."""
    named = models.assign(name=models["system"] + ", " + models["form"])
    ranked = named.sort_values("accuracy_mean", ascending=False, kind="stable")
    return ranked.drop_duplicates(["dataset", "setting", "name", "epsilon_mean", "delta", "kind", "adjacency"])


def _draw_models(axis: "Axes", models: "pd.DataFrame") -> None:
    """Models that are private themselves, each name by a line of its own; what is only claimed is open."""
    finite = models[models["epsilon_mean"] < math.inf].sort_values("epsilon_mean")
    for (name, kind), rows in finite.groupby(["name", "kind"], sort=False):
        style: LineStyle = rows["style"].iloc[0]
        points = (rows[column].to_numpy(float) for column in ("epsilon_mean", "accuracy_mean", "accuracy_std"))
        x, y, deviation = points
        settings: dict[str, Any] = {"color": style.color, "marker": style.marker, "markersize": 6, "linewidth": 0.9}
        settings |= {"linestyle": (0, (1, 2)), "elinewidth": 0.8, "capsize": 2}
        settings |= {} if kind == Kind.WORST_CASE else {"markerfacecolor": "white"}
        words = f"{name}, of {_PROTECTED[rows['adjacency'].iloc[0]]}{_SAID.get(str(kind), '')}"
        axis.errorbar(x, y, yerr=deviation, label=words, **settings)


def _explain(axis: "Axes", things: "pd.Series[str]", styles: dict[str, LineStyle]) -> None:
    """What colours, markers and fills mean, as entries of the legend."""
    plain: dict[str, Any] = {"linestyle": "none"}
    for thing in dict.fromkeys(things):
        axis.plot([], [], marker=styles[thing].marker, color=styles[thing].color, label=thing, **plain)
    for kind, meaning in _KINDS.items():
        fill = GREY if kind is Kind.WORST_CASE else "white"
        axis.plot([], [], marker="o", color=GREY, markerfacecolor=fill, label=meaning, **plain)


def _name_students(axis: "Axes", students: "pd.DataFrame", other: str) -> None:
    """Say T and what is unusual of the students on the frontier, then of others, but not over other words."""
    best = frontier(students)
    rest = students[~best] if len(students) <= _CROWD else students[:0]
    usual, several = students[other].mode()[0], students["teachers"].nunique() > 1
    words, points = [text.get_window_extent() for text in axis.texts], _points(axis, students)
    for row in [*students[best].to_dict("records"), *rest.to_dict("records")]:
        name = f"{row[other]}, " if row[other] != usual else ""
        name += f"{row['strategy']}, " if row["strategy"] else ""
        name += f"n = {row['teachers']}, " if several else ""
        name += f"T = {row['queries']}"
        if math.isfinite(row["worst_case_epsilon_mean"]):
            _place_name(axis, (row["worst_case_epsilon_mean"], row["accuracy_mean"]), name, words, points)


def _points(axis: "Axes", students: "pd.DataFrame") -> list["Bbox"]:
    """Where the markers of the students are on the canvas."""
    from matplotlib.transforms import Bbox

    ends = [students[[f"{kind}_epsilon_mean", "accuracy_mean"]].to_numpy(float) for kind in _KINDS]
    places = axis.transData.transform(np.concatenate(ends))
    return [Bbox([place - _MARKER, place + _MARKER]) for place in places[np.isfinite(places).all(1)]]


def _place_name(axis: "Axes", at: tuple[float, float], name: str, words: list["Bbox"], points: list["Bbox"]) -> None:
    """Write it where it covers no `words`, which it then is one of, and the fewest `points`; or nowhere."""
    tried = [_annotate(axis, *at, name, place) for place in _PLACES]
    extents = [text.get_window_extent() for text in tried]
    free = [n for n, extent in enumerate(extents) if not extent.count_overlaps(words) and extent.x0 > axis.bbox.x0]
    chosen = min(free, key=lambda n: extents[n].count_overlaps(points), default=None)
    for n, text in enumerate(tried):
        if n == chosen:
            words.append(extents[n])
        else:
            text.remove()


def _draw_published(axis: "Axes", published: Published, dataset: str) -> None:
    for value, accuracy in published.points("student_accuracy", dataset=dataset):
        style = MECHANISMS.get(value.mechanism or "", LineStyle(GREY, "d"))
        cited = "" if value.queries else f"{value.row}, cited by "
        hollow(axis, value.value, accuracy, BLACK, style.marker, f"published: {cited}{value.paper}")
        if value.queries:
            _annotate(axis, value.value, accuracy, f"T = {value.queries}", (6, -11))


def _draw_published_models(axis: "Axes", published: Published, dataset: str) -> None:
    """What papers print of models that are private themselves: one outline for each paper."""
    for value, accuracy in published.points("private_model_accuracy", dataset=dataset):
        marker = _MARKERS[OF_RECORDS.index(value.paper)]
        hollow(axis, value.value, accuracy, PURPLE, marker, f"published: {value.paper}, of one record")


def _draw_baseline(axis: "Axes", students: "pd.DataFrame") -> None:
    row = students.iloc[0]
    mean, std = row["baseline_accuracy_mean"], row["baseline_accuracy_std"]
    level(axis, mean, "without privacy")
    if std == std:
        axis.axhspan(mean - std, mean + std, color=GREY, alpha=0.12, linewidth=0, zorder=0)


def _annotate(axis: "Axes", x: float, y: float, words: str, place: tuple[float, float]) -> "Annotation":
    """Small words beside a point, so many typographic points right of it and above it."""
    side: Any = "left" if place[0] > 0 else "right"
    return axis.annotate(words, (x, y), place, textcoords="offset points", fontsize=8, color=GREY, ha=side)


def _endless(students: "pd.DataFrame") -> str:
    """The students for whose labels no finite ε holds, in words: no place on the axis is theirs."""
    endless = students[students["worst_case_epsilon_mean"] == math.inf]
    named = [_reached(str(mechanism), rows) for mechanism, rows in endless.groupby("mechanism", sort=False)]
    return "\n" + textwrap.fill("ε = ∞: " + "; ".join(named), 100) if named else ""


def _reached(mechanism: str, students: "pd.DataFrame") -> str:
    """At which T, and how accurate."""
    numbers = ", ".join(map(str, sorted(students["queries"].unique())))
    accuracy = sorted({f"{100 * value:.4g}" for value in students["accuracy_mean"].agg(["min", "max"])}, key=float)
    return f"{mechanism}, T = {numbers} ({' to '.join(accuracy)}%)"
