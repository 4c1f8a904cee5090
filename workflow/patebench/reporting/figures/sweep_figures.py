"""Accuracy of students over one setting: clusters, pool, cap on votes, and the choices of PET-DL."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.drawing import at_values, level, means, ticks_at
from patebench.reporting.frames import Records, distinct, over_seeds
from patebench.reporting.outcomes import PETDL_CHOSEN, PETDL_TEACHERS, caps, outcomes, petdl_students
from patebench.reporting.published import Published
from patebench.reporting.style import (
    BLUE,
    GREEN,
    GREY,
    VERMILLION,
    LineStyle,
    empty,
    finished,
    line_styles,
    logarithmic,
    panels,
    percent,
    styles_in_order,
)
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

    The first three of `panels` are the data set, who votes and the student's method.
    """

    across: str
    label: str
    lines: tuple[str, ...]
    panels: tuple[str, ...]


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
        return empty()
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
    return finished(figure, axes)


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


_SWEEP_CLUSTERS = Sweep(
    across="clusters",
    label="clusters of the public pool, which are the queries",
    lines=("noise_in_words", "epsilon"),
    panels=("dataset", "who", "method", "partition", "mechanism", "setting"),
)


def draw_clusters(records: Records, published: Published) -> "Figure":
    """One panel per data set, ensemble and student; ε depends on the noise alone, not on the number of clusters."""
    frame = reached(records)
    frame = frame[frame["clusters"].notna() & (frame["queries"] == frame["clusters"])]
    return draw_sweep(_SWEEP_CLUSTERS, frame, records.namings)


_SWEEP_POOL = Sweep(
    across="pool",
    label="public samples without a label (the pool)",
    lines=("labels", "noise_in_words", "epsilon"),
    panels=("dataset", "who", "method", "partition", "mechanism", "beside_pool"),
)


def draw_pool(records: Records, published: Published) -> "Figure":
    """One panel per data set, ensemble and student."""
    frame = reached(records)
    frame = frame.assign(labels=[f"T = {queries}" for queries in frame["queries"]])
    return draw_sweep(_SWEEP_POOL, frame, records.namings)


_SWEEP_CAP = Sweep(
    across="cap",
    label="k, how many votes of a teacher count",
    lines=("epsilon",),
    panels=("dataset", "who", "method", "partition", "mechanism", "setting", "labels"),
)


def draw_cap(records: Records, published: Published) -> "Figure":
    """One panel per data set, ensemble, student and number of queries; along a line σ grows as √k does."""
    frame = reached(records)
    frame = frame.assign(
        cap=caps(frame["parameters"]),
        labels=[f"T = {queries}" for queries in frame["queries"]],
    )
    return draw_sweep(_SWEEP_CAP, frame[frame["cap"].notna()], records.namings)


#: What is varied, and its words on the axis; the ε that is stated comes first, as in the paper.
_VARIED = {
    "epsilon": "ε stated of the student",
    "hint_epochs": "epochs of hint learning",
    "distillation_epochs": "epochs of distillation",
    "batch": "batch size",
    "noise": "noise, in clips",
    "compression": "compression: parameters of a teacher per one of the student",
    "teachers": "number of teachers n",
    "samples": "public samples asked for",
}

_FORMS = {
    "published": LineStyle(VERMILLION, "X", (0, (1, 1.5))),
    "noisy-gradient": LineStyle(BLUE, "o", "-"),
    "noisy-knowledge": LineStyle(GREEN, "^", "-"),
}

#: What a line is called, whether it is the usual one of its form and n, and its students.
_Line = tuple[str, bool, "pd.DataFrame"]

#: A usual number of test samples.
_TESTED = 1000

#: All that must be equal on one line, but for what is varied there.
_CHOSEN = [name for name in PETDL_CHOSEN if name != "epsilon"]
_ALL = [*PETDL_TEACHERS, "dataset", "setting", "form", "teachers", "target", *_CHOSEN]

#: What changes with another choice: the noise with the ε, and with it whatever changes the number of releases.
_FOLLOWS = {"epsilon": {"target", "noise"}, "noise": {"target"}}


def draw_petdl_ablations(records: Records, published: Published) -> "Figure":
    """One panel per data set and choice that was varied; one line per setting of all else, bars of one deviation."""
    found = _settings(petdl_students(records))
    if found.empty:
        return empty()
    wanted = [
        (dataset, name)
        for dataset in sorted(set(found["dataset"]))
        for name in _VARIED
        if _lines(found[found["dataset"] == dataset], name)
    ]
    if not wanted:
        return empty()
    named = [(name, list(_named(_lines(found[found["dataset"] == dataset], name), name))) for dataset, name in wanted]
    styles = _styles([lines for _, lines in named])
    figure, axes = panels([f"{in_words(dataset)}: {_in_words(name)}" for dataset, name in wanted], sharey=False)
    for axis, (name, lines) in zip(axes, named, strict=True):
        _panel(axis, name, lines, styles)
    return finished(figure, axes)


def _styles(panels: "list[list[_Line]]") -> dict[str, LineStyle]:
    """By the words of a line: one for each form, or, where a panel has several of a form, one for each line."""
    lines = {words: line["form"].iloc[0] for panel in panels for words, _, line in panel}
    several = any(
        sum(usual for _, usual, line in panel if line["form"].iloc[0] == form) > 1
        for panel in panels
        for form in set(lines.values())
    )
    if several:
        return styles_in_order(list(lines))
    of_form = line_styles(lines.values(), _FORMS)
    return {words: of_form[form] for words, form in lines.items()}


def _settings(found: "pd.DataFrame") -> "pd.DataFrame":
    """The same, with noise that follows from a target ε left out of what tells students apart."""
    found = found.assign(given_noise=found["noise"].where(found["target"].isna()))
    return found.assign(epsilon=found["epsilon"].astype(float))


def _lines(found: "pd.DataFrame", name: str) -> "list[pd.DataFrame]":
    """The students that differ in this choice alone (and the seed), where they have at least two values of it."""
    same = ["given_noise" if each == "noise" else each for each in _ALL if each not in {name, *_FOLLOWS.get(name, ())}]
    if name == "noise":
        found = found[found["target"].isna()]
    groups = [group for _, group in found.groupby(same, dropna=False)]
    return [group for group in groups if group[name].nunique() > 1]


def _panel(axis: "Axes", name: str, lines: "list[_Line]", styles: dict[str, LineStyle]) -> None:
    import pandas as pd

    for words, usual, line in lines:
        points = over_seeds(line.astype({name: float}), [name], ["accuracy", "teacher_accuracy"])
        face = {} if usual else {"markerfacecolor": "white"}
        means(axis, points, name, "accuracy", **styles[words].settings, **face, capsize=2, label=words)
    drawn = pd.concat([line for _, _, line in lines])
    level(axis, float(drawn["teacher_accuracy"].mean()), "its teachers, on average")
    values = sorted(set(drawn[name].astype(float)))
    wide = 0 < 8 * values[0] < values[-1]
    if wide:
        axis.set_xscale("log")
    if name != "epsilon":
        ticks_at(axis, values)
    elif wide:
        logarithmic(axis.xaxis)
    axis.set_xlabel(_VARIED[name])
    _widen(axis, float(drawn["accuracy"].mean()))
    percent(axis, "accuracy on the test set")


def _widen(axis: "Axes", accuracy: float) -> None:
    """Show no fewer points of accuracy than chance moves it by: two standard errors of so many samples either way."""
    low, high = axis.get_ylim()
    missing = 4 * math.sqrt(accuracy * (1 - accuracy) / _TESTED) - (high - low)
    if missing > 0:
        axis.set_ylim(low - missing / 2, min(high + missing / 2, 1.0))


def _named(lines: "list[pd.DataFrame]", name: str) -> "Iterator[_Line]":
    """Each line by its form and n, and whether it is the first of them: a later one says what was chosen otherwise."""
    firsts: dict[str, pd.Series[Any]] = {}
    for line in lines:
        one = line.iloc[0]
        words = in_words(one["form"]) if name == "teachers" else f"{in_words(one['form'])}, n = {one['teachers']}"
        first = firsts.setdefault(words, one)
        if first is not one:
            follows = {name} if one["target"] != one["target"] else {name, "noise"}  # which a target ε decides
            others = [each for each in PETDL_CHOSEN if each not in follows and one[each] == one[each] != first[each]]
            words += ", but " + "; ".join(f"{_in_words(each)}: {one[each]:.4g}" for each in others)
        yield words, first is one, line


def _in_words(name: str) -> str:
    return _VARIED.get(name, name.replace("_", " ")).partition(":")[0]
