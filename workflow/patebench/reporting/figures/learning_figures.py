"""Figures of the accuracy of released labels, the agreement of teachers, and distilled students."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from patebench.reporting.figures.drawing import FAMILY, accuracy_over, at_values, level, means, members, titles
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.outcomes import NZC_DISTANCE, gap_share, trained
from patebench.reporting.published import IMMUTABLE, NZC_2020, PATE_2017, Published
from patebench.reporting.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    LineStyle,
    empty,
    finished,
    hollow,
    line_styles,
    panels,
    percent,
)
from patebench.reporting.wording import in_words


def draw_noisy_accuracy(records: Records, published: Published) -> Figure:
    """Draw Figure 2 of PATE 2017: accuracy of labels released by LNMax against γ; each query is 2γ-DP."""
    label = "γ, called “ε per query” in the paper (a query is 2γ-DP)\n← more noise                      less noise →"
    return _draw_over_noise(records, published, "lnmax", "gamma", label)


def draw_gaussian_accuracy(records: Records, published: Published) -> Figure:
    """Draw the accuracy of labels released by GNMax (Scalable PATE 2018) against σ."""
    label = "σ, standard deviation of the noise on each count\n← less noise                          more noise →"
    return _draw_over_noise(records, published, "gnmax", "sigma", label)


def _draw_over_noise(records: Records, published: Published, mechanism: str, parameter: str, label: str) -> Figure:
    """Draw the accuracy of labels released by `mechanism` against its noise, the value of `parameter`.

    `label` is the label of the horizontal axis.
    """
    label_sets = records.of_whole_pool().label_sets
    label_sets = label_sets[(label_sets["mechanism"] == mechanism) & label_sets["label_accuracy"].notna()]
    label_sets = label_sets.assign(scale=[float(parameters[parameter]) for parameters in label_sets["parameters"]])
    # A logarithmic axis cannot show 0 and ∞.
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


def _draw_label_sets(axis: Axes, label_sets: pd.DataFrame, styles: dict[Any, LineStyle]) -> None:
    """Draw the accuracy of released labels against the noise parameter: measured as dots, expected as lines.

    The expected accuracy is the mean over the noise of the mechanism. There is one line per combination of number of
    teachers and training epochs. `styles` maps numbers of teachers to line styles.
    """
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


def draw_gap(records: Records, published: Published) -> Figure:
    """Draw Figure 3 of PATE 2017: the mean of (largest − second vote count) / n against the number n of teachers."""
    ensembles = trained(records.ensembles)
    if ensembles.empty:
        return empty()
    names = titles(ensembles)
    styles = line_styles(names)
    figure, (axis,) = panels([""])
    for family, name in names.items():
        points = over_seeds(members(ensembles, family), ["teachers", "epochs"], ["gap_mean"])
        means(axis, points, "teachers", "gap_mean", **styles[family].settings, capsize=4, label=name)
    at_values(axis, sorted(ensembles["teachers"].unique()), "number of teachers n")
    axis.set_ylim(0, 1.02)
    percent(axis, "mean gap (largest − second count) / n")
    return finished(figure, [axis])


def draw_distance(records: Records, published: Published) -> Figure:
    """Draw Figure 2 of NZC (Sun et al. 2020): accuracies of teachers, and gaps between the two largest vote counts.

    The distance of a query is the gap between its two largest vote counts. Panel (a) shows the accuracy of ensembles
    and single teachers against the number of teachers. Panel (b) shows the share of queries with a distance of at least
    k against k, for the largest number of teachers. Panel (c) shows the share of queries with a distance of at least 3
    against the number of teachers.
    """
    ensembles = trained(records.ensembles)
    if ensembles.empty:
        return empty()
    printed_for = {value.dataset for value in published.of(NZC_2020).values}
    if not (set(records.label_sets["mechanism"]) & set(IMMUTABLE) or set(ensembles["dataset"]) & printed_for):
        return empty()
    ensembles = ensembles.assign(far=[gap_share(gaps, NZC_DISTANCE) for gaps in ensembles["gap_histogram"]])
    most = int(ensembles["teachers"].max())
    names = titles(ensembles)
    styles = line_styles(names)
    heads = ["(a) accuracy", f"(b) queries of distance k, n = {most}", f"(c) queries of distance {NZC_DISTANCE}"]
    figure, axes = panels(heads, sharey=False, per_row=3)
    for family, name in names.items():
        mine = members(ensembles, family)
        _draw_over_teachers(axes[0], mine, "plurality_accuracy_pool", styles[family], f"{name}: ensemble")
        _draw_over_teachers(axes[0], mine, "teacher_accuracy_mean", styles[family], f"{name}: one teacher", faint=True)
        _draw_over_distances(axes[1], mine[mine["teachers"] == most], styles[family], f"{name}: ensemble")
        _draw_over_teachers(axes[2], mine, "far", styles[family], f"{name}: ensemble")
    sizes = set(ensembles["teachers"])
    printed = [_draw_published(axes[0], published.of(NZC_2020), name) for name in sorted(set(ensembles["dataset"]))]
    for axis, marked in ((axes[0], sizes.union(*printed)), (axes[2], sizes)):
        at_values(axis, sorted(marked), "number of teachers n")
    axes[1].axvline(NZC_DISTANCE, color=GREY, linestyle=(0, (6, 3)), linewidth=1.0, label=f"distance {NZC_DISTANCE}")
    axes[1].set_xlabel("k, minimum gap between the two largest counts (votes)")
    for axis, words in zip(axes, ("accuracy", "share of the queries", "share of the queries"), strict=True):
        percent(axis, words)
        axis.set_ylim(top=min(axis.get_ylim()[1], 1.02))  # no share is larger than 1
    return finished(figure, axes)


def _draw_over_teachers(
    axis: Axes, ensembles: pd.DataFrame, value: str, style: LineStyle, name: str, faint: bool = False
) -> None:
    points = over_seeds(ensembles, ["teachers"], [value])
    how = {"linestyle": ":", "markerfacecolor": "white"} if faint else {"linestyle": "-"}
    means(axis, points, "teachers", value, **{**style.settings, **how}, capsize=4, label=name)


def _draw_over_distances(axis: Axes, ensembles: pd.DataFrame, style: LineStyle, name: str) -> None:
    """Draw, against k, the share of queries whose two largest vote counts differ by at least k votes.

    The line is the mean over `ensembles`, and the band extends from their minimum to their maximum.
    """
    if ensembles.empty:
        return
    curves = np.array([[gap_share(gaps, k) for k in range(len(gaps))] for gaps in ensembles["gap_histogram"]])
    k, low, high = range(curves.shape[1]), curves.min(axis=0), curves.max(axis=0)
    axis.step(k, curves.mean(axis=0), where="mid", color=style.color, label=name)
    axis.fill_between(k, low, high, step="mid", color=style.color, alpha=0.18, linewidth=0)


def _draw_published(axis: Axes, paper: Published, dataset: str) -> set[int]:
    """Draw the accuracies of teachers and ensembles that `paper` prints for `dataset`, against the number of teachers.

    Return the numbers of teachers at which points were drawn.
    """
    numbers = set()
    for quantity, marker, what in (("teacher_accuracy", "d", "one teacher"), ("plurality_accuracy", "s", "ensemble")):
        for value in paper.select(quantity, dataset=dataset):
            if value.teachers:
                words = f"published: {in_words(dataset)}, {what}"
                hollow(axis, value.teachers, value.value, GREY, marker, words)
                numbers.add(value.teachers)
    return numbers


_DISTILLED = (*FAMILY, "ensemble", "teachers", "distilled")

#: Styles of the kinds of labels in the paper.
_LABELS = {
    "plurality": LineStyle(ORANGE, "s", (0, (1, 1.2))),
    "soft, T = 1": LineStyle(GREEN, "^", (0, (4, 1.5))),
    "soft, T = 5": LineStyle(BLUE, "o", "-"),
}


def draw_distillation(records: Records, published: Published) -> Figure:
    """Draw Figure 5 of PATE 2017: a student's test accuracy against its number of training samples, by kind of label.

    The labels are the teachers' softened probabilities (distillation) or their plurality votes, both without noise.
    """
    learnt = records.distillations
    if learnt.empty:
        return empty()
    kinds = zip(learnt["labels"], learnt["temperature"], strict=True)
    learnt = learnt.assign(kind=[f"soft, T = {T:g}" if labels == "soft" else labels for labels, T in kinds])
    styles = line_styles(learnt["kind"], _LABELS)
    heads = titles(learnt, _DISTILLED)
    names = {panel: f"{head}, n = {panel[-2]}\nstudent: {in_words(panel[-1])}" for panel, head in heads.items()}
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        own = members(learnt, panel, _DISTILLED)
        for kind in (kind for kind in styles if kind in set(own["kind"])):
            points = over_seeds(own[own["kind"] == kind], ["samples"], ["accuracy"])
            means(axis, points, "samples", "accuracy", **styles[kind].settings, capsize=2, label=kind)
        ensembles = members(records.ensembles, panel[:-1], _DISTILLED[:-1])
        level(axis, ensembles["plurality_accuracy_test"].mean(), "plurality of the teachers")
        accuracy_over(axis, "training samples, labelled without noise (ε = ∞)", "accuracy on the test set")
    return finished(figure, axes)
