"""Label accuracy against the noise scale of a mechanism: the common drawing of two figures."""

from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.axes import accuracy_over
from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.published import PATE_2017, Published, Value
from patebench.reporting.style import GREY, TEACHERS, LineStyle, empty, hollow, labelled, legend, line_styles, panels
from patebench.reporting.wording import in_words

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
        return empty(f"This run released no labels with {in_words(mechanism)},\nso there is nothing to draw.")
    names = titles(label_sets)
    printed = published.of(PATE_2017).select("label_accuracy", mechanism=mechanism)
    shown = [value for value in printed if value.teachers and value.dataset in set(label_sets["dataset"])]
    styles = line_styles([*label_sets["teachers"], *(value.teachers for value in shown)], TEACHERS)
    figure, axes = panels(list(names.values()))
    for axis, family in zip(axes, names, strict=True):
        _draw_label_sets(axis, members(label_sets, family), styles)
        _draw_published(axis, [value for value in shown if value.dataset == family[0]], parameter, styles)
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


def _draw_published(axis: "Axes", values: list[Value], parameter: str, styles: dict[Any, LineStyle]) -> None:
    for value in values:
        style = styles[value.teachers]
        label = f"published: {value.paper}, n = {value.teachers}"
        hollow(axis, _scale(value, parameter), value.value, style.color, style.marker, label)


def _scale(value: Value, parameter: str) -> float:
    """The noise scale of a printed value, NaN when it is not given by `parameter` alone."""
    given = value.parameters or {}
    return given[parameter] if set(given) == {parameter} else float("nan")
