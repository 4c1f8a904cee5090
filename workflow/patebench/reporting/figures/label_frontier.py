"""Accuracy of released labels against ε: what each mechanism makes of the same votes, before any student learns."""

import math
import textwrap
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.axes import SMALLER, accuracy_over, level, staircase
from patebench.reporting.figures.panels import FAMILY, members, titles
from patebench.reporting.frames import Records, least, over_seeds, sound
from patebench.reporting.outcomes import LABEL_SET, SUBJECT, frontier
from patebench.reporting.published import PATE_2017, SCALABLE_2018, Published
from patebench.reporting.style import GREY, MECHANISMS, LineStyle, empty, hollow, labelled, legend, line_styles, panels
from patebench.reporting.words import delta_in_words, in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: One panel: label sets that were made of the same votes, and whose ε is that of as many queries at the same δ.
_PANEL = (*FAMILY, "teachers", "queries", "delta")
_KEY = [*LABEL_SET, "seed"]
#: A mechanism that answers less than this share of the queries says so beside its point.
_NEARLY_ALL = 0.995


def draw(records: Records, published: Published) -> "Figure":
    """A point for each mechanism and noise setting, a thin line through those that one parameter tells apart."""
    records = records.of_whole_pool()
    released = _released(records)
    if released.empty:
        return empty("This run released no labels with a bound that may be published,\nso there is nothing to draw.")
    families = titles(released, _PANEL)
    names = {panel: f"{title}\n{panel[-3]} teachers, T = {panel[-2]:,}" for panel, title in families.items()}
    styles = line_styles(released["mechanism"], MECHANISMS)
    figure, axes = panels(list(names.values()))
    for axis, panel in zip(axes, names, strict=True):
        shown = members(released, panel, _PANEL)
        places = shown[(shown["worst_case_epsilon_mean"] > 0) & (shown["worst_case_epsilon_mean"] < math.inf)]
        ensembles = members(records.ensembles, panel[:-2], _PANEL[:-2])
        level(axis, ensembles["plurality_accuracy_pool"].mean(), "plurality, no noise")
        answering = places[places["share_mean"] >= _NEARLY_ALL]  # an abstention is no way to be right
        staircase(axis, answering[frontier(answering)], "frontier of those that always answer")
        for (mechanism, _), rows in places.groupby(["mechanism", "line"]):
            _draw_mechanism(axis, rows, styles[mechanism])
        _draw_published(axis, places, published, styles)
        across = f"ε of T queries at δ = {delta_in_words(float(panel[-1]))}, worst case   {SMALLER}" + _beside(shown)
        accuracy_over(axis, across, "accuracy of released labels")
        axis.margins(x=0.08, y=0.08)
    legend(figure, labelled(axes))
    return figure


def _released(records: Records) -> "pd.DataFrame":
    """One row per setting and its `line`, over the seeds: `accuracy`, `worst_case_epsilon` and `share` answered.

    `queries` are the most that were accounted for, and ε is the least that may be published of so many.
    """
    bounds = sound(records.bounds)
    most = bounds.groupby(_KEY, dropna=False)["queries"].transform("max")
    costs = least(bounds[bounds["queries"] == most], [*_KEY, "queries", "delta"], "worst_case_epsilon")
    sets = records.label_sets.dropna(subset="label_accuracy")
    sets = sets.assign(
        accuracy=sets["expected_label_accuracy"].fillna(sets["label_accuracy"]),
        share=sets["answered"] / sets["queries"],
        line=_lines(sets),
    )
    accounted = sets.drop(columns="queries").merge(costs, on=_KEY)
    return over_seeds(accounted, [*SUBJECT, "line"], ["accuracy", "worst_case_epsilon", "share"])


def _lines(sets: "pd.DataFrame") -> list[str]:
    """What the line of each row has in common: all parameters but that with the most values, never the cap k."""
    values: dict[str, dict[str, set[float]]] = defaultdict(lambda: defaultdict(set))
    for mechanism, parameters in zip(sets["mechanism"], sets["parameters"], strict=True):
        for name, value in parameters.items():
            values[mechanism][name].add(float(value))
    across = {
        mechanism: max(found, key=lambda name: (name != "k", len(found[name])), default="")
        for mechanism, found in values.items()
    }
    return [
        str({name: value for name, value in parameters.items() if name != across.get(mechanism)})
        for mechanism, parameters in zip(sets["mechanism"], sets["parameters"], strict=True)
    ]


def _draw_mechanism(axis: "Axes", rows: "pd.DataFrame", style: LineStyle) -> None:
    rows = rows.sort_values("worst_case_epsilon_mean")
    at, accuracy = rows["worst_case_epsilon_mean"], rows["accuracy_mean"]
    plain: Any = {"color": style.color, "marker": style.marker, "linewidth": 0.8}
    axis.plot(at, accuracy, **plain, label=in_words(rows["mechanism"].iloc[0]))
    bars: Any = {"xerr": rows["worst_case_epsilon_std"], "yerr": rows["accuracy_std"], "ecolor": style.color}
    axis.errorbar(at, accuracy, **bars, fmt="none", elinewidth=0.8, capsize=2)
    for row in rows[rows["share_mean"] < _NEARLY_ALL].to_dict("records"):
        _write_below(axis, row["worst_case_epsilon_mean"], row["accuracy_mean"], row["share_mean"])


def _write_below(axis: "Axes", x: float, y: float, share: float) -> None:
    """Small upright words, which leave room for those of the next point."""
    words: Any = {"fontsize": 7.5, "color": GREY, "rotation": 90, "ha": "center", "va": "top"}
    words["bbox"] = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5}
    axis.annotate(f"{100 * share:.2g}% answered", (x, y), (0, -6), textcoords="offset points", **words)


def _draw_published(axis: "Axes", places: "pd.DataFrame", published: Published, styles: dict[Any, LineStyle]) -> None:
    """At the ε of the same setting here: in the worst case it does not depend on whose votes they are."""
    for row in places.to_dict("records"):
        same: dict[str, object] = {name: row[name] for name in ("dataset", "teachers", "mechanism", "noise")}
        for value in published.of(PATE_2017, SCALABLE_2018).select("label_accuracy", **same):
            style = styles[row["mechanism"]]
            label = f"published: {value.paper}, {in_words(row['mechanism'])}"
            hollow(axis, row["worst_case_epsilon_mean"], value.value, style.color, style.marker, label)


def _beside(shown: "pd.DataFrame") -> str:
    """The settings that have no place on a logarithmic axis, in words."""
    lines = []
    for epsilon, words in ((math.inf, "∞"), (0.0, "0")):
        rows = shown[shown["worst_case_epsilon_mean"] == epsilon]
        named = [
            f"{in_words(row['mechanism'])}, {row['noise_in_words']} ({100 * row['accuracy_mean']:.3g}%)"
            for row in rows.to_dict("records")
        ]
        lines += [textwrap.fill(f"ε = {words}: {'; '.join(named)}", 46)] if named else []
    return "".join(f"\n{line}" for line in lines)
