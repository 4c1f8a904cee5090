"""What each choice does to a student of PET-DL: Figures 2 to 5 of the paper, one panel for each choice."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.axes import level, means, ticks_at
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.outcomes import PETDL_CHOSEN, PETDL_TEACHERS, petdl_students
from patebench.reporting.published import Published
from patebench.reporting.style import (
    BLUE,
    GREEN,
    VERMILLION,
    LineStyle,
    empty,
    labelled,
    legend,
    line_styles,
    logarithmic,
    panels,
    percent,
    styles_in_order,
)
from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set and choice that was varied; one line per setting of all else, bars of one deviation."""
    found = _settings(petdl_students(records))
    if found.empty:
        return empty("This run trained no student of PET-DL, so there is nothing to draw.")
    wanted = [
        (dataset, name)
        for dataset in sorted(set(found["dataset"]))
        for name in _VARIED
        if _lines(found[found["dataset"] == dataset], name)
    ]
    if not wanted:
        return empty("This run varied no choice of PET-DL's students, so there is nothing to draw.")
    named = [(name, list(_named(_lines(found[found["dataset"] == dataset], name), name))) for dataset, name in wanted]
    styles = _styles([lines for _, lines in named])
    figure, axes = panels([f"{in_words(dataset)}: {_in_words(name)}" for dataset, name in wanted], sharey=False)
    for axis, (name, lines) in zip(axes, named, strict=True):
        _panel(axis, name, lines, styles)
    legend(figure, labelled(axes))
    return figure


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
