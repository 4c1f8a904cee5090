"""Accuracy of released labels against ε: what each mechanism makes of the same votes, before any student learns."""

import math
import textwrap
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from patebench.reporting.figures import beside
from patebench.reporting.figures.axes import SMALLER, accuracy_over, bars, level, placed, staircase, stretch, within
from patebench.reporting.figures.panels import FAMILY, members, titles
from patebench.reporting.frames import Records, least, over_seeds, sound
from patebench.reporting.outcomes import LABEL_SET, SUBJECT, frontier
from patebench.reporting.published import PATE_2017, SCALABLE_2018, Published
from patebench.reporting.style import MECHANISMS, WIDE, LineStyle, empty, hollow, labelled, legend, line_styles, panels
from patebench.reporting.wording import delta_in_words, in_words, parameter_words, told_apart

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
    released = placed(_released(records))
    if released.empty:
        return empty("This run released no labels with a bound for all votes,\nso there is nothing to draw.")
    families = titles(released, _PANEL)
    names = {panel: f"{title}\n{panel[-3]} teachers, T = {panel[-2]:,}" for panel, title in families.items()}
    parts = {panel: members(released, panel, _PANEL) for panel in names}
    styles = line_styles(released["mechanism"], MECHANISMS)
    figure, axes = panels(list(names.values()), alone=WIDE)
    for axis, (panel, shown) in zip(axes, parts.items(), strict=True):
        places = _places(shown)
        ensembles = members(records.ensembles, panel[:-2], _PANEL[:-2])
        level(axis, within(ensembles["plurality_accuracy_pool"].mean()), "plurality, no noise")
        answering = places[places["share_mean"] >= _NEARLY_ALL]  # an abstention is no way to be right
        staircase(axis, answering[frontier(answering)], "frontier of those that always answer")
        for (mechanism, _), rows in places.groupby(["mechanism", "line"]):
            _draw_mechanism(axis, rows, styles[mechanism])
        _draw_published(axis, places, published, styles)
        across = f"ε of T queries at δ = {delta_in_words(float(panel[-1]))}, worst case   {SMALLER}"
        accuracy_over(axis, across + _elsewhere(shown, 90 if len(names) == 1 else 46), "accuracy of released labels")
        stretch(axis, *axis.dataLim.intervaly)
        axis.margins(x=0.08)
    legend(figure, labelled(axes))
    figure.draw_without_rendering()  # from here on it is known how far points lie from each other
    for axis, shown in zip(axes, parts.values(), strict=True):
        _say_how_many(axis, _places(shown))
    return figure


def _places(shown: "pd.DataFrame") -> "pd.DataFrame":
    """Those that a logarithmic axis has a place for."""
    return shown[(shown["worst_case_epsilon_mean"] > 0) & (shown["worst_case_epsilon_mean"] < math.inf)]


def _released(records: Records) -> "pd.DataFrame":
    """One row per setting and its `line`, over the seeds: `accuracy`, `worst_case_epsilon` and `share` answered.

    `queries` are the most that were accounted for, and ε is the least for all votes of so many.
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
    spread: Any = {"xerr": rows["worst_case_epsilon_std"], "yerr": bars(accuracy, rows["accuracy_std"])}
    axis.errorbar(at, accuracy, **spread, ecolor=style.color, fmt="none", elinewidth=0.8, capsize=2)


def _say_how_many(axis: "Axes", places: "pd.DataFrame") -> None:
    """Beside a mechanism that keeps silent, how many of the queries it answers."""
    points = places[["worst_case_epsilon_mean", "accuracy_mean"]]
    silent = places[places["share_mean"] < _NEARLY_ALL]
    words = [f"{100 * share:.2g}% answered" for share in silent["share_mean"]]
    at = (silent["worst_case_epsilon_mean"], silent["accuracy_mean"])
    beside.write(axis, zip(*at, words, strict=True), beside.boxes(axis, points, beside.MARKER))


def _draw_published(axis: "Axes", places: "pd.DataFrame", published: Published, styles: dict[Any, LineStyle]) -> None:
    """At the ε of the same setting here: in the worst case it does not depend on whose votes they are."""
    for row in places.to_dict("records"):
        same: dict[str, object] = {name: row[name] for name in ("dataset", "teachers", "mechanism", "noise")}
        for value in published.of(PATE_2017, SCALABLE_2018).select("label_accuracy", **same):
            style = styles[row["mechanism"]]
            label = f"published: {value.paper}, {in_words(row['mechanism'])}"
            hollow(axis, row["worst_case_epsilon_mean"], within(value.value), style.color, style.marker, label)


def _elsewhere(shown: "pd.DataFrame", letters: int) -> str:
    """The settings that have no place on a logarithmic axis, in lines of so many letters."""
    lines = []
    for epsilon, words in ((math.inf, "∞"), (0.0, "0")):
        rows = shown[shown["worst_case_epsilon_mean"] == epsilon]
        named = [_named(str(mechanism), own) for mechanism, own in rows.groupby("mechanism", sort=False)]
        lines += [textwrap.fill(f"ε = {words}: {'; '.join(named)}", letters)] if named else []
    return "".join(f"\n{line}" for line in lines)


def _named(mechanism: str, rows: "pd.DataFrame") -> str:
    """A mechanism, its setting or what tells its settings apart, and how accurate each is."""
    words = told_apart([parameter_words(mechanism, parameters) for parameters in rows["parameters"]])
    reached = [f"{100 * accuracy:.3g}%" for accuracy in rows["accuracy_mean"]]
    return ", ".join([in_words(mechanism), *(f"{each} ({share})" for each, share in zip(words, reached, strict=True))])
