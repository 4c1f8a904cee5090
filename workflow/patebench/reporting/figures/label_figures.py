"""Figures of the accuracy of released labels against the noise."""

import math
from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.drawing import (
    accuracy_over,
    members,
    titles,
)
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.published import PATE_2017, Published
from patebench.reporting.style import (
    GREY,
    LineStyle,
    empty,
    finished,
    hollow,
    line_styles,
    panels,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_noisy_accuracy(records: Records, published: Published) -> "Figure":
    """Draw Figure 2 of PATE 2017: accuracy of LNMax against γ, with more noise on the left; each query is 2γ-DP."""
    label = "γ, called “ε per query” in the paper (a query is 2γ-DP)\n← more noise                      less noise →"
    return _draw_over_noise(records, published, "lnmax", "gamma", label)


def draw_gaussian_accuracy(records: Records, published: Published) -> "Figure":
    """Draw the accuracy of GNMax (Scalable PATE 2018) against σ, with more noise on the right."""
    label = "σ, standard deviation of the noise on each count\n← less noise                          more noise →"
    return _draw_over_noise(records, published, "gnmax", "sigma", label)


def _draw_over_noise(records: Records, published: Published, mechanism: str, parameter: str, label: str) -> "Figure":
    """Draw the accuracy of labels of the whole pool against the `parameter` of a mechanism that sets its noise.

    There is one panel per data set, split and kind of teacher.
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


def _draw_label_sets(axis: "Axes", label_sets: "pd.DataFrame", styles: dict[Any, LineStyle]) -> None:
    """Draw the accuracy of each label set as a dot, and its expectation over the noise as a line with a band.

    The band is one standard deviation over the seeds.
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
