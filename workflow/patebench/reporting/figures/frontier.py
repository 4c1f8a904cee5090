"""Student accuracy against ε: what the privacy costs, and what ε depends on."""

import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Adjacency, Kind
from patebench.models import MODELS, on_queries
from patebench.reporting.figures import beside
from patebench.reporting.figures.axes import SMALLER, accuracy_over, bars, level, placed, staircase, stretch, within
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
    WIDE,
    LineStyle,
    empty,
    hollow,
    labelled,
    legend,
    line_styles,
    panels,
)
from patebench.reporting.wording import in_words, parameter_words, those_that_differ

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

_PANEL = ("dataset", "setting")
#: With more students than these only those on the frontier have words.
_CROWD = 20
#: Of papers whose ε is that of one record, in their order.
_MARKERS = "so^Dv"
#: The fill of a marker says whether ε holds for all votes, as that of a release does, or depends on these.
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

    reached, models = placed(outcomes(records)), placed(_named(private_models(records)), "epsilon_mean")
    if reached.empty and models.empty:
        return empty("This run has no students and no private models, so there is no frontier to draw.")
    names = titles(pd.concat([reached[[*_PANEL]], models[[*_PANEL]]]), _PANEL)
    marks = line_styles(models["name"], PRIVATE_MODELS)
    by = "method" if reached["method"].nunique() > reached["mechanism"].nunique() else "mechanism"
    styles = line_styles(reached[by], METHODS if by == "method" else MECHANISMS)
    other = "mechanism" if by == "method" else "method"
    printed: dict[tuple[str, ...], list[beside.Name]] = {}
    figure, axes = panels(list(names.values()), sharey=False, alone=WIDE)
    for axis, panel in zip(axes, names, strict=True):
        students = members(reached, panel, _PANEL)
        own = members(models, panel, _PANEL)
        _draw_baseline(axis, own if students.empty else students)
        _draw_naming(axis, members(records.namings, panel, _PANEL))
        _draw_models(axis, own.assign(style=own["name"].map(marks)))
        _draw_students(axis, students.assign(style=students[by].map(styles)))
        staircase(axis, students[frontier(students)], "frontier of worst-case ε")
        printed[panel] = _draw_published(axis, published.of(PATE_2017, SCALABLE_2018), panel[0])
        of_one_record = len(own) > 0 or _of_records(students)
        if of_one_record:
            _draw_published_models(axis, published.of(*OF_RECORDS), panel[0])
        costly = "of the student's labels" + (", or of the model" if of_one_record else "")
        accuracy_over(axis, f"ε {costly}   {SMALLER}{_endless(students)}", "accuracy on the test set")
        stretch(axis, *axis.dataLim.intervaly)
        axis.margins(x=0.18)
    _explain(axes[0], reached[reached["worst_case_epsilon_mean"] != math.inf], by, styles)
    legend(figure, labelled(axes))
    figure.draw_without_rendering()  # from here on it is known how far points lie from each other
    for axis, panel in zip(axes, names, strict=True):
        students = members(reached, panel, _PANEL)
        if not students.empty:
            points = _points(axis, students, members(models, panel, _PANEL))
            beside.write(axis, [*_names(students, other), *printed[panel]], points)
    return figure


def _draw_students(axis: "Axes", students: "pd.DataFrame") -> None:
    """Each at its two ε, in its column `style`."""
    endless = students["worst_case_epsilon_mean"] == math.inf
    for row in students[~endless].to_dict("records"):
        pair = [row[f"{kind}_epsilon_mean"] for kind in _KINDS]
        drawn = {"color": row["style"].color, "marker": row["style"].marker}
        both = math.isfinite(pair[1]) and pair[0] != pair[1]  # an open mark would cover the filled one
        if both:
            axis.plot(pair, [row["accuracy_mean"]] * 2, color=row["style"].color, linewidth=0.6, alpha=0.5, zorder=1)
        for kind in _KINDS if both else [Kind.WORST_CASE]:
            filled = {} if kind is Kind.WORST_CASE else {"markerfacecolor": "white", "markersize": 4.5, "alpha": 0.7}
            settings: dict[str, Any] = {**drawn, **filled, "elinewidth": 0.8, "capsize": 2, "linestyle": "none"}
            settings |= {
                "xerr": row[f"{kind}_epsilon_std"],
                "yerr": bars(row["accuracy_mean"], row["accuracy_std"]),
            }
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
        words = f"{in_words(str(name))}, of {_PROTECTED[rows['adjacency'].iloc[0]]}{_SAID.get(str(kind), '')}"
        axis.errorbar(x, y, yerr=bars(y, deviation), label=words, **settings)


def _explain(axis: "Axes", students: "pd.DataFrame", by: str, styles: dict[str, LineStyle]) -> None:
    """What colours, markers and fills mean, as entries of the legend; of fills those that some student has."""
    plain: dict[str, Any] = {"linestyle": "none"}
    for thing in dict.fromkeys(students[by]):
        axis.plot([], [], marker=styles[thing].marker, color=styles[thing].color, label=in_words(thing), **plain)
    for kind, meaning in _KINDS.items():
        if students[f"{kind}_epsilon_mean"].isna().all():
            continue
        fill = GREY if kind is Kind.WORST_CASE else "white"
        axis.plot([], [], marker="o", color=GREY, markerfacecolor=fill, label=meaning, **plain)


def _names(students: "pd.DataFrame", other: str) -> Iterator[beside.Name]:
    """T and what is unusual of the students on the frontier, then of others, where they are not too many; where the
    same words would be of several noises, what tells these apart too."""
    best = frontier(students)
    rest = students[~best] if len(students) <= _CROWD else students[:0]
    usual, several = students[other].mode()[0], students["teachers"].nunique() > 1

    def name(row: dict[Any, Any]) -> str:
        words = f"{in_words(row[other])}, " if row[other] != usual else ""
        words += f"{in_words(row['strategy'])}, " if row["strategy"] else ""
        words += f"n = {row['teachers']:,}, " if several else ""
        return f"{words}T = {row['queries']:,}"

    rows = [*students[best].to_dict("records"), *rest.to_dict("records")]
    rows = [row for row in rows if math.isfinite(row["worst_case_epsilon_mean"])]
    for row in rows:
        same = [each for each in [row, *rows] if name(each) == name(row)]
        noises = [parameter_words(each["mechanism"], each["parameters"]) for each in same]
        words = ", ".join(filter(None, [name(row), those_that_differ(noises)[0]]))
        yield row["worst_case_epsilon_mean"], row["accuracy_mean"], words


def _points(axis: "Axes", students: "pd.DataFrame", models: "pd.DataFrame") -> list["Bbox"]:
    """Where markers are on the canvas: those of students and of private models, and outlines of what papers print."""
    ends = [students[[f"{kind}_epsilon_mean", "accuracy_mean"]] for kind in _KINDS]
    ends.append(models[["epsilon_mean", "accuracy_mean"]])
    outlines = [dots.get_offsets() for dots in axis.collections if str(dots.get_label()).startswith("published")]
    sized = [*((each, beside.MARKER) for each in ends), *((each, beside.OUTLINE) for each in outlines)]
    return [box for points, size in sized for box in beside.boxes(axis, points, size)]


def _draw_published(axis: "Axes", published: Published, dataset: str) -> list[beside.Name]:
    """An outline for each; returns what is to be written beside them."""
    found: list[beside.Name] = []
    for value, printed in published.points("student_accuracy", dataset=dataset):
        accuracy = within(printed)
        style = MECHANISMS.get(value.mechanism or "", LineStyle(GREY, "d"))
        cited = "" if value.queries else f"{value.row}, cited by "
        hollow(axis, value.value, accuracy, BLACK, style.marker, f"published: {cited}{value.source}")
        if value.queries:
            found.append((value.value, accuracy, f"T = {value.queries:,}"))
    return found


def _of_records(students: "pd.DataFrame") -> bool:
    """Whether some teachers are records, so that a shard is one record as with DP-SGD."""
    return any(model in MODELS and on_queries(model) for model in students["model"])


def _draw_published_models(axis: "Axes", published: Published, dataset: str) -> None:
    """What papers print of models that are private themselves: one outline for each paper."""
    for value, accuracy in published.points("private_model_accuracy", dataset=dataset):
        marker = _MARKERS[OF_RECORDS.index(value.paper)]
        hollow(axis, value.value, within(accuracy), PURPLE, marker, f"published: {value.source}, of one record")


def _draw_baseline(axis: "Axes", students: "pd.DataFrame") -> None:
    row = students.iloc[0]
    mean, std = row["baseline_accuracy_mean"], row["baseline_accuracy_std"]
    level(axis, within(mean), "without privacy")
    if std == std:
        axis.axhspan(mean - std, within(mean + std), color=GREY, alpha=0.12, linewidth=0, zorder=0)


def _draw_naming(axis: "Axes", namings: "pd.DataFrame") -> None:
    """What public data alone tells apart: as many clusters as the most that were named by true labels."""
    if not namings.empty:
        most = namings["clusters"].max()
        mean = namings.loc[namings["clusters"] == most, "accuracy"].mean()
        words = f"ε = 0: {most} public clusters, named by true labels"
        axis.axhline(within(mean), color=GREY, linestyle=(0, (1, 2)), linewidth=1.3, zorder=0, label=words)


def _endless(students: "pd.DataFrame") -> str:
    """The students for whose labels no finite ε holds, in words: no place on the axis is theirs."""
    endless = students[students["worst_case_epsilon_mean"] == math.inf]
    named = [_reached(str(mechanism), rows) for mechanism, rows in endless.groupby("mechanism", sort=False)]
    return "\n" + textwrap.fill("ε = ∞: " + "; ".join(named), 100) if named else ""


def _reached(mechanism: str, students: "pd.DataFrame") -> str:
    """At which T, and how accurate."""
    numbers = ", ".join(map(str, sorted(students["queries"].unique())))
    accuracy = sorted({f"{100 * value:.4g}" for value in students["accuracy_mean"].agg(["min", "max"])}, key=float)
    return f"{in_words(mechanism)}, T = {numbers} ({' to '.join(accuracy)}%)"
