"""How students learnt: test accuracy over the course of each training, drawn afterwards; it steers nothing."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records, natural
from patebench.reporting.published import Published
from patebench.reporting.style import LineStyle, empty, labelled, legend, line_styles, panels, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SETTING = ("dataset", "setting")
_PANEL = (*_SETTING, "learner")
_ORDER = ["queries", "mechanism", "noise", "ensemble", "student", "rounds", "seed"]


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set, method and strategy, a line for each student and seed; colour and line tell T."""
    students = records.students
    students = students[[len(_accuracies(curve)) > 1 for curve in students["learning_curve"]]]
    if students.empty:
        return empty("This run has no students that learnt over several epochs,\nso there are no learning curves.")
    way = (" · " + students["strategy"]).where(students["strategy"] != "", "")
    students = students.assign(learner=students["method"] + way)
    names = {panel: f"{title} · {panel[-1]}" for panel, title in titles(students, _PANEL).items()}
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
    """Each student's accuracies on the test set, over its training."""
    for row in students.sort_values(_ORDER).to_dict("records"):
        measured = _accuracies(row["learning_curve"])
        last, style = row["learning_curve"][-1]["epoch"], styles[row["queries"]]
        axis.plot(
            [epoch / last for epoch in measured], list(measured.values()), color=style.color, linestyle=style.line,
            linewidth=1.1, alpha=0.8, label=f"T = {row['queries']}",
        )  # fmt: skip


def _limits(students: "pd.DataFrame") -> tuple[float, float]:
    """The range of the accuracies that leaves out the first steps, where all know nothing."""
    found = [list(_accuracies(curve).values()) for curve in students["learning_curve"]]
    low, high = min(each[len(each) // 4] for each in found), max(max(each) for each in found)
    margin = 0.05 * (high - low)
    return low - margin, high + margin


def _accuracies(curve: list[dict[str, float]]) -> dict[float, float]:
    """The accuracy at each epoch after which it was measured."""
    return {at["epoch"]: at["accuracy"] for at in curve if "accuracy" in at}
