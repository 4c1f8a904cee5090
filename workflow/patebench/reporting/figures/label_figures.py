"""Accuracy of released labels against the noise and against ε."""

import math
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patebench.core.text import plural
from patebench.mechanisms import MECHANISMS as REGISTRY
from patebench.mechanisms.local_mechanisms import LocalMechanism
from patebench.reporting.figures.drawing import (
    FAMILY,
    MARKER,
    SMALLER,
    accuracy_over,
    bars,
    boxes_of,
    level,
    members,
    placed,
    staircase,
    stretch,
    titles,
    within,
    write_beside,
)
from patebench.reporting.frames import Records, least, over_seeds, sound
from patebench.reporting.outcomes import LABEL_SET, SUBJECT, frontier
from patebench.reporting.published import PATE_2017, SCALABLE_2018, Published, Value
from patebench.reporting.style import (
    BLUE,
    GREY,
    MECHANISMS,
    TEACHERS,
    VERMILLION,
    WIDE,
    LineStyle,
    empty,
    hollow,
    labelled,
    legend,
    line_styles,
    panels,
)
from patebench.reporting.wording import delta_in_words, in_words, parameter_words, told_apart

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_accuracy(records: Records, published: Published, mechanism: str, parameter: str, label: str) -> "Figure":
    """Accuracy of the labels that `mechanism` gives to the whole pool against its `parameter`; one panel per family."""
    label_sets = records.of_whole_pool().label_sets
    label_sets = label_sets[label_sets["mechanism"] == mechanism]
    label_sets = label_sets.assign(scale=[float(parameters[parameter]) for parameters in label_sets["parameters"]])
    # what a logarithmic axis can show
    label_sets = label_sets[label_sets["scale"].between(0, float("inf"), inclusive="neither")]
    if label_sets.empty:
        return empty()
    names = titles(label_sets)
    printed = published.of(PATE_2017).select("label_accuracy", mechanism=mechanism)
    shown = [value for value in printed if value.teachers and value.dataset in set(label_sets["dataset"])]
    styles = line_styles([*label_sets["teachers"], *(value.teachers for value in shown)], TEACHERS)
    figure, axes = panels(list(names.values()))
    for axis, family in zip(axes, names, strict=True):
        _draw_label_sets(axis, members(label_sets, family), styles)
        _draw_published_accuracy(axis, [value for value in shown if value.dataset == family[0]], parameter, styles)
        accuracy_over(axis, label, "accuracy of released labels")
    legend(figure, labelled(axes))
    return figure


def _draw_label_sets(axis: "Axes", label_sets: "pd.DataFrame", styles: dict[Any, LineStyle]) -> None:
    dot: dict[str, Any] = {"s": 20, "alpha": 0.75, "linewidths": 0, "zorder": 3}
    several = label_sets[["teachers", "epochs"]].drop_duplicates()["teachers"].duplicated().any()
    for (teachers, epochs), group in label_sets.groupby(["teachers", "epochs"], dropna=False):
        style = styles[teachers]
        _draw_expected(axis, group, style, f"n = {teachers}" + (f", {epochs} epochs" if several else ""))
        axis.scatter(group["scale"], group["label_accuracy"], color=style.color, marker=style.marker, **dot)
    axis.scatter([], [], color=GREY, marker="o", **dot, label="one drawn release")


def _draw_expected(axis: "Axes", label_sets: "pd.DataFrame", style: LineStyle, name: str) -> None:
    """The expectation over the noise, its mean over the seeds with one standard deviation either side."""
    exact = over_seeds(label_sets, ["scale"], ["expected_label_accuracy"])
    mean, std = exact["expected_label_accuracy_mean"], exact["expected_label_accuracy_std"].fillna(0)
    axis.plot(exact["scale"], mean, **style.settings, markersize=2.5, label=name)
    axis.fill_between(exact["scale"], mean - std, mean + std, color=style.color, alpha=0.18, linewidth=0)


def _draw_published_accuracy(axis: "Axes", values: list[Value], parameter: str, styles: dict[Any, LineStyle]) -> None:
    for value in values:
        style = styles[value.teachers]
        label = f"published: {value.paper}, n = {value.teachers}"
        hollow(axis, _scale(value, parameter), value.value, style.color, style.marker, label)


def _scale(value: Value, parameter: str) -> float:
    """The noise scale of a printed value, NaN when it is not given by `parameter` alone."""
    given = value.parameters or {}
    return given[parameter] if set(given) == {parameter} else float("nan")


def draw_noisy_accuracy(records: Records, published: Published) -> "Figure":
    """More noise is on the left; each query is 2γ-DP, whatever the paper's name for γ suggests."""
    label = "γ, called “ε per query” in the paper (a query is 2γ-DP)\n← more noise                      less noise →"
    return draw_accuracy(records, published, "lnmax", "gamma", label)


def draw_gaussian_accuracy(records: Records, published: Published) -> "Figure":
    """More noise is on the right, unlike in the figure for LNMax."""
    label = "σ, standard deviation of the noise on each count\n← less noise                          more noise →"
    return draw_accuracy(records, published, "gnmax", "sigma", label)


#: One panel: label sets that were made of the same votes, and whose ε is that of as many queries at the same δ.
_PANEL_LABEL_FRONTIER = (*FAMILY, "teachers", "queries", "delta")
_KEY_LABEL_FRONTIER = [*LABEL_SET, "seed"]
#: A mechanism that answers less than this share of the queries says so beside its point.
_NEARLY_ALL = 0.995


def draw_label_frontier(records: Records, published: Published) -> "Figure":
    """A point for each mechanism and noise setting, a thin line through those that one parameter tells apart."""
    records = records.of_whole_pool()
    released = placed(_released(records))
    if released.empty:
        return empty()
    families = titles(released, _PANEL_LABEL_FRONTIER)
    names = {panel: f"{title}\n{panel[-3]} teachers, T = {panel[-2]:,}" for panel, title in families.items()}
    parts = {panel: members(released, panel, _PANEL_LABEL_FRONTIER) for panel in names}
    styles = line_styles(released["mechanism"], MECHANISMS)
    figure, axes = panels(list(names.values()), alone=WIDE)
    for axis, (panel, shown) in zip(axes, parts.items(), strict=True):
        places = _places(shown)
        ensembles = members(records.ensembles, panel[:-2], _PANEL_LABEL_FRONTIER[:-2])
        level(axis, within(ensembles["plurality_accuracy_pool"].mean()), "plurality, no noise")
        answering = places[places["share_mean"] >= _NEARLY_ALL]  # an abstention is no way to be right
        staircase(axis, answering[frontier(answering)], "frontier of those that always answer")
        for (mechanism, _), rows in places.groupby(["mechanism", "line"]):
            _draw_mechanism(axis, rows, styles[mechanism])
        _draw_published_label_frontier(axis, places, published, styles)
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
    most = bounds.groupby(_KEY_LABEL_FRONTIER, dropna=False)["queries"].transform("max")
    costs = least(bounds[bounds["queries"] == most], [*_KEY_LABEL_FRONTIER, "queries", "delta"], "worst_case_epsilon")
    sets = records.label_sets.dropna(subset="label_accuracy")
    sets = sets.assign(
        accuracy=sets["expected_label_accuracy"].fillna(sets["label_accuracy"]),
        share=sets["answered"] / sets["queries"],
        line=_lines(sets),
    )
    accounted = sets.drop(columns="queries").merge(costs, on=_KEY_LABEL_FRONTIER)
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
    write_beside(axis, zip(*at, words, strict=True), boxes_of(axis, points, MARKER))


def _draw_published_label_frontier(
    axis: "Axes", places: "pd.DataFrame", published: Published, styles: dict[Any, LineStyle]
) -> None:
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


_PANEL_LOCAL = (*FAMILY, "teachers")
_KEY_LOCAL = [*LABEL_SET, "seed"]

#: How the votes of a label set become labels: the colour; other ways take what is free.
_WAYS = {"as published": LineStyle(VERMILLION, "o"), "unbiased": LineStyle(BLUE, "o")}


def draw_local(records: Records, published: Published) -> "Figure":
    """Two panels per ensemble; the marker tells the mechanism, the colour how labels come from the perturbed votes."""
    records = records.of_whole_pool()
    label_sets = _local(records.label_sets)
    if label_sets.empty:
        return empty()
    queries = _queries(records)
    total = _total(records.bounds, queries)
    students = _local(records.students)
    students = students[students["queries"] == queries].drop(columns="queries").merge(total, on=_KEY_LOCAL)
    names = _titles(label_sets, queries)
    styles = line_styles(label_sets["way"], _WAYS)
    figure, axes = panels([title for pair in names.values() for title in pair], sharey=False)
    for panel, one_vote, all_votes in zip(names, axes[::2], axes[1::2], strict=True):
        shown = members(label_sets, panel, _PANEL_LOCAL)
        plurality = members(records.ensembles, panel, _PANEL_LOCAL)["plurality_accuracy_pool"].mean()
        for axis in (one_vote, all_votes):
            level(axis, plurality, "plurality of true votes")
        _draw(one_vote, shown, "vote_epsilon", "label_accuracy", styles)
        _draw(all_votes, shown.merge(total, on=_KEY_LOCAL), "total_epsilon", "label_accuracy", styles)
        _draw(all_votes, members(students, panel, _PANEL_LOCAL), "total_epsilon", "accuracy", styles, student=True)
        accuracy_over(one_vote, f"ε of one vote   {SMALLER}", "accuracy of released labels")
        across = f"ε of {plural(queries, 'query')}, worst case   {SMALLER}"
        accuracy_over(all_votes, across, "accuracy of labels, students")
    legend(figure, labelled(axes))
    return figure


def _local(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of local mechanisms, with the ε of a vote and the way to labels spelt out."""
    installed = [name for name in set(frame["mechanism"]) if name in REGISTRY]
    local = {name for name in installed if issubclass(REGISTRY.load(name), LocalMechanism)}
    frame = frame[frame["mechanism"].isin(local)]
    values = [{name: float(value) for name, value in row.items()} for row in frame["parameters"]]
    return frame.assign(vote_epsilon=[row["epsilon"] for row in values], way=[_way(row) for row in values])


def _way(parameters: Mapping[str, float]) -> str:
    words = ["unbiased" if parameters["unbiased"] else "as published"]
    if parameters["participation"] < 1:
        words.append(f"each in {parameters['participation']:.3g} of the queries")
    if parameters["spread"] > 1:
        words.append(f"personal ε down to 1/{parameters['spread']:.3g}")
    return ", ".join(words)


def _queries(records: Records) -> int:
    """The number of queries whose total ε is shown: the most that a student learns from, else the most accounted."""
    students = _local(records.students)["queries"]
    return int((_local(records.bounds)["queries"] if students.empty else students).max())


def _total(bounds: "pd.DataFrame", queries: int) -> "pd.DataFrame":
    """The least worst-case ε of each label set after so many queries."""
    return least(sound(bounds[bounds["queries"] == queries]), _KEY_LOCAL, "total_epsilon")


def _titles(label_sets: "pd.DataFrame", queries: int) -> dict[tuple[Any, ...], tuple[str, str]]:
    """For each ensemble, the titles of its two panels."""
    names = {panel: f"{title}, n = {panel[-1]}" for panel, title in titles(label_sets, _PANEL_LOCAL).items()}
    return {panel: (f"{name}\none vote", f"{name}\n{queries} queries") for panel, name in names.items()}


def _draw(
    axis: "Axes", frame: "pd.DataFrame", x: str, y: str, styles: dict[str, LineStyle], student: bool = False
) -> None:
    """One line for each mechanism and way; students are single, larger markers with a black rim."""
    groups = frame[["mechanism", "way"]].drop_duplicates().sort_values(["mechanism", "way"])
    for mechanism, way in groups.itertuples(index=False, name=None):
        rows = frame[(frame["mechanism"] == mechanism) & (frame["way"] == way)]
        points = over_seeds(rows, ["vote_epsilon"], [x, y] if x != "vote_epsilon" else [y])
        marker = MECHANISMS.get(mechanism, LineStyle(GREY, "o")).marker
        drawn: dict[str, Any] = {"color": styles[way].color, "marker": marker, "markersize": 7}
        if student:
            drawn |= {"linestyle": "none", "markersize": 10, "markeredgecolor": "black", "zorder": 4}
            label = f"{in_words(mechanism)}: student"
        else:
            drawn["linestyle"] = "-" if mechanism == "randomised-response" else (0, (4, 1.5))
            label = f"{in_words(mechanism)}: {way}"
        at = points["vote_epsilon"] if x == "vote_epsilon" else points[f"{x}_mean"]
        axis.errorbar(at, points[f"{y}_mean"], yerr=points[f"{y}_std"], label=label, **drawn)
