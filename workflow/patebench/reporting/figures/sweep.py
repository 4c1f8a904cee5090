"""The accuracy of students over one number of their setting: the common drawing of several figures.

A line needs at least two places on the axis, and a panel a line; means with bars of one deviation over the seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.axes import at_values, means
from patebench.reporting.frames import Records, distinct, over_seeds
from patebench.reporting.outcomes import outcomes
from patebench.reporting.style import GREY, LineStyle, empty, labelled, legend, panels, percent, styles_in_order
from patebench.reporting.wording import epsilon_in_digits, in_text, in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMED = "ε = 0: {} clusters named by true labels"
_BARS: Any = {"capsize": 2, "elinewidth": 1}
_NAMING = LineStyle(GREY, "x", (0, (1, 1.5)))


@dataclass(frozen=True)
class Sweep:
    """Which column goes across, what the axis is called, and what has a line and a panel of its own.

    The first three of `panels` are the data set, who votes and the student's method. `without` is said where there is
    nothing to draw.
    """

    across: str
    label: str
    lines: tuple[str, ...]
    panels: tuple[str, ...]
    without: str


def reached(records: Records) -> "pd.DataFrame":
    """The students of labels at a finite ε, each with what panels and lines are called.

    Further columns are text: `noise_in_words`, `who` votes, and `epsilon`.
    """
    frame = outcomes(records)
    frame = frame[frame["worst_case_epsilon_mean"] < float("inf")]
    return frame.assign(
        noise_in_words=in_text(frame)["noise_in_words"],
        who=[f"{n:,} teachers, {in_words(model)}" for n, model in zip(frame["teachers"], frame["model"], strict=True)],
        epsilon=[f"ε = {epsilon_in_digits(value)}" for value in frame["worst_case_epsilon_mean"]],
    )


def draw_sweep(sweep: Sweep, frame: "pd.DataFrame", namings: "pd.DataFrame") -> "Figure":
    """One panel for each setting that has a line, and in it what `namings` of the same setting are worth."""
    frame = _with_lines(sweep, frame)
    if frame.empty:
        return empty(sweep.without)
    lines = _from_the_least_epsilon(sweep, frame)
    styles = styles_in_order(lines)
    panel_of = distinct(frame, sweep.panels)
    figure, axes = panels(_titles(panel_of), sharey=True)
    for axis, panel in zip(axes, panel_of, strict=True):
        shown = _members(frame, sweep.panels, panel)
        _draw_namings(axis, sweep, shown, namings)
        for line in _from_the_least_epsilon(sweep, shown):
            points = _members(shown, sweep.lines, line).sort_values(sweep.across)
            means(axis, points, sweep.across, "accuracy", **styles[line].settings, **_BARS, label=", ".join(line))
        at_values(axis, sorted(set(shown[sweep.across])), sweep.label)
        percent(axis, "accuracy on the test set")
    legend(figure, labelled(axes))
    return figure


def _with_lines(sweep: Sweep, frame: "pd.DataFrame") -> "pd.DataFrame":
    """The rows whose line has more than one place."""
    by = [*sweep.panels, *sweep.lines]
    return frame[frame.groupby(by)[sweep.across].transform("nunique") > 1] if len(frame) else frame


def _from_the_least_epsilon(sweep: Sweep, frame: "pd.DataFrame") -> list[tuple[Any, ...]]:
    """What each line is called, in the order in which the legend has them."""
    least = frame.groupby(list(sweep.lines))["worst_case_epsilon_mean"].min()
    return sorted(distinct(frame, sweep.lines), key=lambda line: float(least[line if len(line) > 1 else line[0]]))


def _titles(found: Sequence[tuple[Any, ...]]) -> list[str]:
    """The data set and who votes, and below it the student and what else tells panels apart."""
    differ = [place for place, values in enumerate(zip(*found, strict=True)) if place > 2 and len(set(values)) > 1]

    def title(panel: tuple[Any, ...]) -> str:
        rest = filter(None, (str(panel[place]) for place in differ))
        return " · ".join(map(in_words, panel[:2])) + "\n" + " · ".join([f"student: {in_words(panel[2])}", *rest])

    return [title(panel) for panel in found]


def _members(frame: "pd.DataFrame", columns: Sequence[str], values: tuple[Any, ...]) -> "pd.DataFrame":
    return frame[(frame[list(columns)] == list(values)).all(axis=1)]


def _draw_namings(axis: "Axes", sweep: Sweep, shown: "pd.DataFrame", namings: "pd.DataFrame") -> None:
    """Clusters named by true labels, where they have more than one place on the axis too."""
    beside = ["dataset", "setting"]
    own = namings.merge(shown[[*beside, "clusters"]].drop_duplicates(), on=[*beside, "clusters"])
    groups = [("as many", own)] if sweep.across == "clusters" else own.groupby("clusters")
    for clusters, rows in groups if sweep.across in own else []:
        points = over_seeds(rows, [sweep.across], ["accuracy"])
        if len(points) > 1:
            style = {**_NAMING.settings, "markersize": 5, "linewidth": 1.2}
            means(axis, points, sweep.across, "accuracy", **style, **_BARS, label=_NAMED.format(clusters))
