"""Accuracy of released labels against the noise and, of local mechanisms, against ε."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patebench.core.text import plural
from patebench.mechanisms import MECHANISMS as REGISTRY
from patebench.mechanisms.local_mechanisms import LocalMechanism
from patebench.reporting.figures.drawing import (
    FAMILY,
    SMALLER,
    accuracy_over,
    level,
    mark,
    members,
    titles,
)
from patebench.reporting.frames import Records, least, over_seeds, sound
from patebench.reporting.outcomes import LABEL_SET
from patebench.reporting.published import PATE_2017, Published
from patebench.reporting.style import (
    BLUE,
    GREY,
    VERMILLION,
    LineStyle,
    empty,
    finished,
    hollow,
    line_styles,
    mechanism_styles,
    panels,
)
from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_noisy_accuracy(records: Records, published: Published) -> "Figure":
    """Draw Figure 2 of PATE 2017: LNMax over γ, with more noise on the left. Each query is 2γ-DP."""
    label = "γ, called “ε per query” in the paper (a query is 2γ-DP)\n← more noise                      less noise →"
    return _draw_over_noise(records, published, "lnmax", "gamma", label)


def draw_gaussian_accuracy(records: Records, published: Published) -> "Figure":
    """Draw the same for GNMax of Scalable PATE (2018) over σ, with more noise on the right."""
    label = "σ, standard deviation of the noise on each count\n← less noise                          more noise →"
    return _draw_over_noise(records, published, "gnmax", "sigma", label)


def _draw_over_noise(records: Records, published: Published, mechanism: str, parameter: str, label: str) -> "Figure":
    """Draw the accuracy of labels of the whole pool over a noise parameter; one panel per family of ensembles."""
    label_sets = records.of_whole_pool().label_sets
    label_sets = label_sets[label_sets["mechanism"] == mechanism]
    label_sets = label_sets.assign(scale=[float(parameters[parameter]) for parameters in label_sets["parameters"]])
    # what a logarithmic axis can show
    label_sets = label_sets[label_sets["scale"].between(0, float("inf"), inclusive="neither")]
    if label_sets.empty:
        return empty()
    names = titles(label_sets)
    values = published.of(PATE_2017).select("label_accuracy", mechanism=mechanism)
    values = [value for value in values if value.teachers and value.dataset in set(label_sets["dataset"])]
    styles = line_styles([*label_sets["teachers"], *(value.teachers for value in values)])
    figure, axes = panels(list(names.values()))
    for axis, family in zip(axes, names, strict=True):
        _draw_label_sets(axis, members(label_sets, family), styles)
        for value in (value for value in values if value.dataset == family[0]):
            given, style = value.parameters or {}, styles[value.teachers]
            scale = given[parameter] if set(given) == {parameter} else math.nan
            words = f"published: {value.paper}, n = {value.teachers}"
            hollow(axis, scale, value.value, style.color, style.marker, words)
        accuracy_over(axis, label, "accuracy of released labels")
    return finished(figure, axes)


def _draw_label_sets(axis: "Axes", label_sets: "pd.DataFrame", styles: dict[Any, LineStyle]) -> None:
    """Draw each release as a dot, and the expectation over the noise as mean and deviation over the seeds."""
    dot: dict[str, Any] = {"s": 20, "alpha": 0.75, "linewidths": 0, "zorder": 3}
    several = label_sets[["teachers", "epochs"]].drop_duplicates()["teachers"].duplicated().any()
    for (teachers, epochs), group in label_sets.groupby(["teachers", "epochs"], dropna=False):
        style, name = styles[teachers], f"n = {teachers}" + (f", {epochs} epochs" if several else "")
        exact = over_seeds(group, ["scale"], ["expected_label_accuracy"])
        mean, std = exact["expected_label_accuracy_mean"], exact["expected_label_accuracy_std"].fillna(0)
        axis.plot(exact["scale"], mean, **style.settings, markersize=2.5, label=name)
        axis.fill_between(exact["scale"], mean - std, mean + std, color=style.color, alpha=0.18, linewidth=0)
        axis.scatter(group["scale"], group["label_accuracy"], color=style.color, marker=style.marker, **dot)
    axis.scatter([], [], color=GREY, marker="o", **dot, label="one drawn release")


_KEY = [*LABEL_SET, "seed"]
_ENSEMBLE = (*FAMILY, "teachers")
#: How labels come from perturbed votes: the colour.
_WAYS = {"as published": LineStyle(VERMILLION, "o"), "unbiased": LineStyle(BLUE, "o")}


def draw_local(records: Records, published: Published) -> "Figure":
    """Draw local privacy over the ε of one vote and over that of all votes of a teacher: two panels per ensemble.

    The marker tells the mechanism, the colour how labels come from the perturbed votes.
    """
    records = records.of_whole_pool()
    label_sets, students = _local(records.label_sets), _local(records.students)
    if label_sets.empty:
        return empty()
    # as many queries as a student learns from at most, or else as were accounted for
    queries = int((_local(records.bounds) if students.empty else students)["queries"].max())
    total = least(sound(records.bounds[records.bounds["queries"] == queries]), _KEY, "total_epsilon")
    students = students[students["queries"] == queries].drop(columns="queries").merge(total, on=_KEY)
    names = titles(label_sets, _ENSEMBLE)
    styles = line_styles(label_sets["way"], _WAYS)
    heads = [f"{title}, n = {panel[-1]}\n{what}" for panel, title in names.items()
             for what in ("one vote", f"{queries} queries")]  # fmt: skip
    figure, axes = panels(heads, sharey=False)
    for panel, one_vote, all_votes in zip(names, axes[::2], axes[1::2], strict=True):
        shown = members(label_sets, panel, _ENSEMBLE)
        plurality = members(records.ensembles, panel, _ENSEMBLE)["plurality_accuracy_pool"].mean()
        for axis in (one_vote, all_votes):
            level(axis, plurality, "plurality of true votes")
        _draw_local(one_vote, shown, "vote_epsilon", "label_accuracy", styles)
        _draw_local(all_votes, shown.merge(total, on=_KEY), "total_epsilon", "label_accuracy", styles)
        _draw_local(all_votes, members(students, panel, _ENSEMBLE), "total_epsilon", "accuracy", styles, student=True)
        accuracy_over(one_vote, f"ε of one vote   {SMALLER}", "accuracy of released labels")
        across = f"ε of {plural(queries, 'query')}, worst case   {SMALLER}"
        accuracy_over(all_votes, across, "accuracy of labels, students")
    return finished(figure, axes)


def _local(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of local mechanisms, with the ε of a vote and the way to labels in words."""
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


def _draw_local(
    axis: "Axes", frame: "pd.DataFrame", x: str, y: str, styles: dict[str, LineStyle], student: bool = False
) -> None:
    """Draw a line per mechanism and way; students are single, larger markers with a black rim."""
    for (name, way), rows in frame.groupby(["mechanism", "way"]):
        mechanism, way = str(name), str(way)
        points = over_seeds(rows.assign(x=rows[x]), ["vote_epsilon"], ["x", y])
        marker = mechanism_styles().get(mechanism, LineStyle(GREY, "o")).marker
        style = LineStyle(styles[way].color, marker, "-" if mechanism == "randomised-response" else (0, (4, 1.5)))
        more: dict[str, Any] = {"markersize": 10, "markeredgecolor": "black", "zorder": 4} if student else {}
        label = f"{in_words(mechanism)}: {'student' if student else way}"
        mark(
            axis,
            points["x_mean"],
            points[f"{y}_mean"],
            points[f"{y}_std"],
            style,
            lines=not student,
            label=label,
            **more,
        )
