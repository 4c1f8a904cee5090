"""Label accuracy against the noise scale of a mechanism: the common drawing of two figures."""

import re
from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records, spread
from patebench.reporting.published import PATE_2017, Published, Value
from patebench.reporting.style import (
    GREY,
    TEACHERS,
    Look,
    empty,
    hollow,
    labelled,
    legend,
    logarithmic,
    looks,
    panels,
    percent,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_accuracy(records: Records, published: Published, mechanism: str, parameter: str, label: str) -> "Figure":
    """Accuracy of the labels that `mechanism` releases against its `parameter`; one panel per family of ensembles."""
    releases = records.releases[records.releases["mechanism"] == mechanism]
    releases = releases.assign(scale=[float(parameters[parameter]) for parameters in releases["parameters"]])
    releases = releases[(releases["scale"] > 0) & (releases["scale"] < float("inf"))]  # what a log axis can show
    if releases.empty:
        return empty(f"This run released no labels with {mechanism},\nso there is nothing to draw.")
    names = titles(releases)
    printed = published.of(PATE_2017).select("label_accuracy", mechanism=mechanism)
    shown = [value for value in printed if value.teachers and value.dataset in set(releases["dataset"])]
    style = looks([*releases["teachers"], *(value.teachers for value in shown)], TEACHERS)
    figure, axes = panels(list(names.values()))
    for axis, family in zip(axes, names, strict=True):
        _draw_releases(axis, members(releases, family), style)
        _draw_published(axis, [value for value in shown if value.dataset == family[0]], parameter, style)
        _dress(axis, label)
    legend(figure, labelled(axes))
    return figure


def _draw_releases(axis: "Axes", releases: "pd.DataFrame", style: dict[Any, Look]) -> None:
    dot: dict[str, Any] = {"s": 20, "alpha": 0.75, "linewidths": 0, "zorder": 3}
    several = releases[["teachers", "epochs"]].drop_duplicates()["teachers"].duplicated().any()
    for (teachers, epochs), group in releases.groupby(["teachers", "epochs"], dropna=False):
        look = style[teachers]
        _draw_expected(axis, group, look, f"n = {teachers}" + (f", {epochs} epochs" if several else ""))
        axis.scatter(group["scale"], group["label_accuracy"], color=look.color, marker=look.marker, **dot)
    axis.scatter([], [], color=GREY, marker="o", **dot, label="one drawn release")


def _draw_expected(axis: "Axes", releases: "pd.DataFrame", look: Look, name: str) -> None:
    """The expectation over the noise, its mean over the seeds with one standard deviation either side."""
    exact = spread(releases, ["scale"], ["expected_label_accuracy"])
    mean, std = exact["expected_label_accuracy_mean"], exact["expected_label_accuracy_std"].fillna(0)
    axis.plot(
        exact["scale"], mean, color=look.color, linestyle=look.line, marker=look.marker, markersize=2.5, label=name
    )
    axis.fill_between(exact["scale"], mean - std, mean + std, color=look.color, alpha=0.18, linewidth=0)


def _draw_published(axis: "Axes", values: list[Value], parameter: str, style: dict[Any, Look]) -> None:
    for value in values:
        look = style[value.teachers]
        label = f"published: {value.paper}, n = {value.teachers}"
        hollow(axis, _scale(value, parameter), value.value, look.color, look.marker, label)


def _dress(axis: "Axes", label: str) -> None:
    axis.set_xscale("log")
    logarithmic(axis.xaxis)
    axis.set_xlabel(label)
    axis.set_ylabel("accuracy of released labels")
    percent(axis)


def _scale(value: Value, parameter: str) -> float:
    """The noise scale of a printed value, NaN when it is not given by `parameter` alone."""
    found = re.fullmatch(rf"{parameter}-([0-9.e+-]+)", value.noise or "")
    return float(found[1]) if found else float("nan")
