"""Figures of accuracy against one setting: number of clusters, size of the pool, cap on votes, settings of PET-DL."""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from patebench.reporting.figures.drawing import at_values, level, means, members, ticks_at
from patebench.reporting.frames import Records, distinct, over_seeds, protects_labels
from patebench.reporting.outcomes import PETDL_CHOSEN, PETDL_TEACHERS, outcomes, petdl_students
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

_ACCURACY = "accuracy on the test set"
_BARS: Any = {"capsize": 2, "elinewidth": 1}
#: Columns that identify a panel in all sweeps; `who` describes the teachers. Each figure adds further columns.
_PANEL = ("dataset", "who", "method", "partition", "mechanism")


def draw_clusters(records: Records, published: Published) -> Figure:
    """Draw a student's accuracy against the number of clusters of public data, one line per noise and ε.

    The queries of a student are the centres of the clusters.
    """
    frame = _finite_students(records)
    frame = frame[frame["clusters"].notna() & (frame["queries"] == frame["clusters"])]
    label = "clusters of the public pool, which are the queries"
    return _draw_sweep(records, frame, "clusters", label, ["noise_in_words", "epsilon"], [*_PANEL, "setting"])


def draw_pool(records: Records, published: Published) -> Figure:
    """Draw a student's accuracy against the size of the public pool, one line per number of queries, noise and ε."""
    lines, panel = ["labels", "noise_in_words", "epsilon"], [*_PANEL, "beside_pool"]
    label = "public samples without a label (the pool)"
    return _draw_sweep(records, _finite_students(records), "pool", label, lines, panel)


def draw_cap(records: Records, published: Published) -> Figure:
    """Draw a student's accuracy against the cap k, with one line per ε.

    The cap is the maximum number of votes that the mechanism counts per teacher over all queries.
    """
    frame = _finite_students(records)
    frame = frame.assign(cap=[float(settings.get("k", "nan")) for settings in frame["parameters"]]).dropna(subset="cap")
    label = "k, how many votes of a teacher count"
    return _draw_sweep(records, frame, "cap", label, ["epsilon"], [*_PANEL, "setting", "labels"])


def _finite_students(records: Records) -> pd.DataFrame:
    """Return one row per student setting and δ with a finite worst-case ε: the rows of `outcomes`, with text added.

    Four text columns are added for titles and legends: `noise_in_words`, `who` (number and model of teachers),
    `epsilon`, and `labels` (number of queries).
    """
    frame = outcomes(records)
    frame = frame[frame["worst_case_epsilon_mean"] < float("inf")]
    return frame.assign(
        noise_in_words=in_text(frame)["noise_in_words"],
        who=[f"{n:,} teachers, {in_words(model)}" for n, model in zip(frame["teachers"], frame["model"], strict=True)],
        epsilon=[f"ε = {epsilon_in_digits(value)}" for value in frame["worst_case_epsilon_mean"]],
        labels=[f"T = {queries}" for queries in frame["queries"]],
    )


def _draw_sweep(
    records: Records, frame: pd.DataFrame, x_column: str, label: str, line_columns: list[str], panel_columns: list[str]
) -> Figure:
    """Draw the accuracy of the students in `frame` against the setting in the column `x_column`.

    `label` is the label of the horizontal axis. There is one panel per combination of `panel_columns`, and one line per
    combination of `line_columns`. Lines with a single value of `x_column` are left out.
    """
    if len(frame):
        frame = frame[frame.groupby([*panel_columns, *line_columns])[x_column].transform("nunique") > 1]
    if frame.empty:
        return empty()
    costs = frame.groupby(line_columns)["worst_case_epsilon_mean"].min()
    ordered = sorted(distinct(frame, line_columns), key=lambda line: float(costs[line if len(line) > 1 else line[0]]))
    styles, groups = styles_in_order(ordered), distinct(frame, panel_columns)
    further = list(enumerate(zip(*groups, strict=True)))[3:]
    differ = [
        place for place, each in further if len(set(each)) > 1 or any(protects_labels(str(value)) for value in each)
    ]
    figure, axes = panels([_title(group, differ) for group in groups])
    for axis, group in zip(axes, groups, strict=True):
        shown = members(frame, group, panel_columns)
        _draw_namings(axis, x_column, shown, records.namings)
        for line in (line for line in ordered if len(members(shown, line, line_columns))):
            points = members(shown, line, line_columns).sort_values(x_column)
            means(axis, points, x_column, "accuracy", **styles[line].settings, **_BARS, label=", ".join(line))
        at_values(axis, sorted(set(shown[x_column])), label)
        percent(axis, _ACCURACY)
    return finished(figure, axes)


def _title(settings: tuple[Any, ...], varying: list[int]) -> str:
    """Return the title of a panel: data set, teachers, student, and settings that differ between panels.

    `settings` contains data set, teachers, student and further settings of the panel, in this order. `varying` contains
    the positions of the further settings to state in the title.
    """
    rest = filter(None, (str(settings[place]) for place in varying))
    return " · ".join(map(in_words, settings[:2])) + "\n" + " · ".join([f"student: {in_words(settings[2])}", *rest])


def _draw_namings(axis: Axes, x_column: str, students: pd.DataFrame, namings: pd.DataFrame) -> None:
    """Draw, against `x_column`, the accuracy of clusters of public data as a reference at ε = 0.

    Each cluster is named by the most frequent true label of its samples. `namings` contains one accuracy per split and
    number of clusters. Only splits and numbers of clusters that occur in `students` are drawn.
    """
    same = ["dataset", "setting", "clusters"]
    own = namings.merge(students[same].drop_duplicates(), on=same)
    groups = [("as many", own)] if x_column == "clusters" else own.groupby("clusters")
    style = {**LineStyle(GREY, "x", (0, (1, 1.5))).settings, "markersize": 5, "linewidth": 1.2}
    for clusters, rows in groups if x_column in own else []:
        points = over_seeds(rows, [x_column], ["accuracy"])
        if len(points) > 1:
            label = f"ε = 0: {clusters} clusters named by true labels"
            means(axis, points, x_column, "accuracy", **style, **_BARS, label=label)


#: Settings of PET-DL that figures vary, with the labels of their axes; ε comes first, as in the paper.
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
#: A line of a panel: its label, True if it is the first line for its form and number of teachers, and its students.
_Line = tuple[str, bool, pd.DataFrame]
#: Number n of test samples that determines the minimum length of an axis of accuracies: 4 · √(p(1 − p)/n), where p is
#: the mean accuracy.
_TESTED = 1000
#: Columns that are equal along a line, except for the varied setting; `target` is the ε for which noise is calibrated.
_ALL = [
    *(*PETDL_TEACHERS, "dataset", "setting", "form", "teachers", "target"),
    *(name for name in PETDL_CHOSEN if name != "epsilon"),
]
#: Varied setting → columns that follow from the setting, and therefore change along the line.
_FOLLOWS = {"epsilon": {"target", "noise"}, "noise": {"target"}}


def draw_petdl_ablations(records: Records, published: Published) -> Figure:
    """Draw Figures 2 to 5 of PET-DL (Sun et al. 2019): student accuracy, one panel per data set and varied setting."""
    students = petdl_students(records)
    # Noise that follows from a target ε does not distinguish students.
    students = students.assign(
        given_noise=students["noise"].where(students["target"].isna()), epsilon=students["epsilon"].astype(float)
    )
    varied: list[tuple[str, str, list[_Line]]] = []
    for dataset, own in students.groupby("dataset"):
        for name in _VARIED:
            if lines := list(_label_lines(_group_lines(own, name), name)):
                varied.append((str(dataset), name, lines))
    if not varied:
        return empty()
    styles = _style_lines([lines for _, _, lines in varied])
    figure, axes = panels([f"{in_words(dataset)}: {_setting_label(name)}" for dataset, name, _ in varied], sharey=False)
    for axis, (_, name, lines) in zip(axes, varied, strict=True):
        _draw_lines(axis, name, lines, styles)
    return finished(figure, axes)


def _style_lines(panels: list[list[_Line]]) -> dict[str, LineStyle]:
    """Return {line label: line style} for the lines in `panels`.

    All lines of one form of PET-DL have the same style, unless a panel compares numbers of teachers for one form. In
    this case, each line label has a style of its own.
    """
    forms = {words: line["form"].iloc[0] for lines in panels for words, _, line in lines}
    first = [[line["form"].iloc[0] for _, usual, line in lines if usual] for lines in panels]
    if any(len(names) > len(set(names)) for names in first):
        return styles_in_order(list(forms))
    styles = line_styles(forms.values(), _FORMS)
    return {words: styles[form] for words, form in forms.items()}


def _group_lines(students: pd.DataFrame, name: str) -> list[pd.DataFrame]:
    """Return the groups of `students` that are drawn as lines against the setting `name`.

    The students of a group differ only in the seed, in `name`, and in settings that `name` determines (`_FOLLOWS`). A
    group in which `name` has a single value is left out.
    """
    same = ["given_noise" if each == "noise" else each for each in _ALL if each not in {name, *_FOLLOWS.get(name, ())}]
    if name == "noise":
        students = students[students["target"].isna()]
    return [group for _, group in students.groupby(same, dropna=False) if group[name].nunique() > 1]


def _label_lines(groups: list[pd.DataFrame], varied: str) -> Iterator[_Line]:
    """Yield a `_Line` with a label for each group of students in `groups`.

    `varied` is the setting on the horizontal axis. The label states the form of PET-DL, and the number of teachers
    unless this number is varied. If an earlier line has the same label, the settings that differ from that line are
    added.
    """
    firsts: dict[str, pd.Series[Any]] = {}
    for line in groups:
        one = line.iloc[0]
        words = in_words(one["form"]) if varied == "teachers" else f"{in_words(one['form'])}, n = {one['teachers']}"
        first = firsts.setdefault(words, one)
        if first is not one:
            follows = {varied} if one["target"] != one["target"] else {varied, "noise"}  # a target ε sets it
            others = [each for each in PETDL_CHOSEN if each not in follows and one[each] == one[each] != first[each]]
            words += ", but " + "; ".join(f"{_setting_label(each)}: {one[each]:.4g}" for each in others)
        yield words, first is one, line


def _setting_label(name: str) -> str:
    return _VARIED.get(name, name.replace("_", " ")).partition(":")[0]


def _draw_lines(axis: Axes, name: str, lines: list[_Line], styles: dict[str, LineStyle]) -> None:
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
    # The axis is at least four standard errors of an accuracy on `_TESTED` samples long.
    (low, high), accuracy = axis.get_ylim(), float(drawn["accuracy"].mean())
    missing = 4 * math.sqrt(accuracy * (1 - accuracy) / _TESTED) - (high - low)
    if missing > 0:
        axis.set_ylim(low - missing / 2, min(high + missing / 2, 1.0))
    percent(axis, _ACCURACY)
