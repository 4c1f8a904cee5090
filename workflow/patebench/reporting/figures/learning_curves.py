"""How students learnt: test accuracy over the course of each training, drawn afterwards; it steers nothing."""

from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records
from patebench.reporting.outcomes import every_student
from patebench.reporting.published import Published
from patebench.reporting.style import METHODS, Look, empty, labelled, legend, looks, panels, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = ("dataset", "setting")
_ORDER = ["who", "queries", "mechanism", "noise", "ensemble", "student", "rounds", "seed"]
_LINES: list[Any] = ["-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)), (0, (6, 2))]


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set; colour tells the method and how it asked, the line the number of queries."""
    students = every_student(records)
    students = students[[any("accuracy" in row for row in curve) for curve in students["learning_curve"]]]
    if students.empty:
        return empty("This run has no students that learnt over several epochs,\nso there are no learning curves.")
    students = students.assign(
        who=students["method"] + (" · " + students["strategy"]).where(students["strategy"] != "", "")
    )
    names = titles(students, _PANEL)
    style = looks(students["who"], METHODS)
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        _draw_students(axis, members(students, panel, _PANEL), style)
        axis.set_xlabel("share of the training")
        axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
        axis.set_ylabel("accuracy on the test set")
        percent(axis)
    legend(figure, labelled(axes))
    return figure


def _draw_students(axis: "Axes", students: "pd.DataFrame", style: dict[str, Look]) -> None:
    """Each student's looks at the test set; the axis leaves out the first steps, where all know nothing."""
    lines = {queries: _LINES[i % len(_LINES)] for i, queries in enumerate(sorted(set(students["queries"])))}
    ends: list[float] = []
    for row in students.sort_values(_ORDER).to_dict("records"):
        seen = [(at["epoch"], at["accuracy"]) for at in row["learning_curve"] if "accuracy" in at]
        last = row["learning_curve"][-1]["epoch"]
        shares, accuracies = [epoch / last for epoch, _ in seen], [accuracy for _, accuracy in seen]
        ends.append(accuracies[len(accuracies) // 4])
        axis.plot(
            shares, accuracies, color=style[row["who"]].color, linestyle=lines[row["queries"]],
            linewidth=1.1, alpha=0.8, label=f"{row['who']}, T = {row['queries']}",
        )  # fmt: skip
    low, high = min(ends), axis.get_ylim()[1]
    axis.set_ylim(low - 0.05 * (high - low), high)
