"""How students learnt: test accuracy over the course of each training, drawn afterwards; it steers nothing."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records, natural
from patebench.reporting.published import Published
from patebench.reporting.style import LineStyle, empty, labelled, legend, line_styles, panels, percent
from patebench.reporting.words import in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from patebench.accounting.logspace import Array

_SETTING = ("dataset", "setting")
_PANEL = (*_SETTING, "learner")
#: Sums of the same numbers in another order are others.
_ORDER = ["queries", "mechanism", "noise", "ensemble", "student", "rounds", "seed"]


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set, method and strategy; a line for each T is the mean over seeds and settings, a band one
    standard deviation."""
    students = records.students
    students = students[[len(_accuracies(curve)) > 0 for curve in students["learning_curve"]]]
    if students.empty:
        return empty("This run has no students that learnt over epochs,\nso there are no learning curves.")
    way = (" · " + students["strategy"]).where(students["strategy"] != "", "")
    students = students.assign(learner=students["method"] + way)
    names = {panel: f"{title} · {in_words(panel[-1])}" for panel, title in titles(students, _PANEL).items()}
    styles = line_styles(students["queries"])
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        _draw_students(axis, members(students, panel, _PANEL), styles)
        axis.set_ylim(*_limits(members(students, panel[:2], _SETTING)))
        axis.set_xlabel("share of the training")
        axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
        percent(axis, "accuracy on the test set")
    entries = labelled(axes)
    legend(figure, {label: entries[label] for label in sorted(entries, key=natural)})
    return figure


def _draw_students(axis: "Axes", students: "pd.DataFrame", styles: dict[int, LineStyle]) -> None:
    """The accuracies of the students of as many queries on the test set, over their trainings."""
    for queries, group in students.sort_values(_ORDER).groupby("queries"):
        shares, accuracies = _abreast(list(group["learning_curve"]))
        style, mean = styles[queries], accuracies.mean(axis=0)  # type: ignore[index]
        axis.plot(shares, mean, color=style.color, linestyle=style.line, linewidth=1.4, label=f"T = {queries}")
        if len(accuracies) > 1:
            apart = accuracies.std(axis=0, ddof=1)
            axis.fill_between(shares, mean - apart, mean + apart, color=style.color, alpha=0.15, linewidth=0)


def _abreast(curves: list[list[dict[str, float]]]) -> tuple["Array", "Array"]:
    """Shares of the training at which any was measured, and the accuracies there (curves, shares): lines between."""
    import numpy as np

    each = [_accuracies(curve) for curve in curves]
    shares = [np.array(list(found)) / curve[-1]["epoch"] for found, curve in zip(each, curves, strict=True)]
    measured = np.unique(np.concatenate(shares))
    common = measured[
        (measured >= max(found[0] for found in shares)) & (measured <= min(found[-1] for found in shares))
    ]
    grid = common if len(common) else measured
    return grid, np.array([np.interp(grid, x, list(y.values())) for x, y in zip(shares, each, strict=True)])


def _limits(students: "pd.DataFrame") -> tuple[float, float]:
    """The range of the accuracies that leaves out the first steps, where all know nothing."""
    found = [list(_accuracies(curve).values()) for curve in students["learning_curve"]]
    low, high = min(each[len(each) // 4] for each in found), max(max(each) for each in found)
    margin = max(0.05 * (high - low), 0.005)
    return low - margin, high + margin


def _accuracies(curve: list[dict[str, float]]) -> dict[float, float]:
    """The accuracy at each epoch after which it was measured."""
    return {at["epoch"]: at["accuracy"] for at in curve if "accuracy" in at}
