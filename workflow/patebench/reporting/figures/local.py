"""Local privacy: accuracy against the ε of one vote, and against the ε of all votes of one teacher."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patebench.core.text import plural
from patebench.mechanisms import MECHANISMS as REGISTRY
from patebench.mechanisms.local_mechanisms import LocalMechanism
from patebench.reporting.figures.axes import SMALLER, accuracy_over, level
from patebench.reporting.figures.panels import FAMILY, members, titles
from patebench.reporting.frames import Records, least, over_seeds, sound
from patebench.reporting.outcomes import LABEL_SET
from patebench.reporting.published import Published
from patebench.reporting.style import (
    BLUE,
    GREY,
    MECHANISMS,
    VERMILLION,
    LineStyle,
    empty,
    labelled,
    legend,
    line_styles,
    panels,
)
from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (*FAMILY, "teachers")
_KEY = [*LABEL_SET, "seed"]

#: How the votes of a label set become labels: the colour; other ways take what is free.
_WAYS = {"as published": LineStyle(VERMILLION, "o"), "unbiased": LineStyle(BLUE, "o")}


def draw(records: Records, published: Published) -> "Figure":
    """Two panels per ensemble; the marker tells the mechanism, the colour how labels come from the perturbed votes."""
    records = records.of_whole_pool()
    label_sets = _local(records.label_sets)
    if label_sets.empty:
        return empty("This run released no labels under local privacy,\nso there is nothing to draw.")
    queries = _queries(records)
    total = _total(records.bounds, queries)
    students = _local(records.students)
    students = students[students["queries"] == queries].drop(columns="queries").merge(total, on=_KEY)
    names = _titles(label_sets, queries)
    styles = line_styles(label_sets["way"], _WAYS)
    figure, axes = panels([title for pair in names.values() for title in pair], sharey=False)
    for panel, one_vote, all_votes in zip(names, axes[::2], axes[1::2], strict=True):
        shown = members(label_sets, panel, _PANEL)
        plurality = members(records.ensembles, panel, _PANEL)["plurality_accuracy_pool"].mean()
        for axis in (one_vote, all_votes):
            level(axis, plurality, "plurality of true votes")
        _draw(one_vote, shown, "vote_epsilon", "label_accuracy", styles)
        _draw(all_votes, shown.merge(total, on=_KEY), "total_epsilon", "label_accuracy", styles)
        _draw(all_votes, members(students, panel, _PANEL), "total_epsilon", "accuracy", styles, student=True)
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
    return least(sound(bounds[bounds["queries"] == queries]), _KEY, "total_epsilon")


def _titles(label_sets: "pd.DataFrame", queries: int) -> dict[tuple[Any, ...], tuple[str, str]]:
    """For each ensemble, the titles of its two panels."""
    names = {panel: f"{title}, n = {panel[-1]}" for panel, title in titles(label_sets, _PANEL).items()}
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
