"""What each choice does to a student of PET-DL: Figures 2 to 5 of the paper, one panel for each choice."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.axes import level, means
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.petdl import CHOSEN, TEACHERS, students
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
)
from patebench.reporting.words import in_words

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

#: All that must be equal on one line, but for what is varied there.
_ALL = [*TEACHERS, "dataset", "setting", "form", "teachers", "target", *(name for name in CHOSEN if name != "epsilon")]

#: What changes with another choice: the noise with the ε, and with it whatever changes the number of releases.
_FOLLOWS = {"epsilon": {"target", "noise"}, "noise": {"target"}}


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set and choice that was varied; one line per setting of all else, bars of one deviation."""
    found = _settings(students(records))
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
    styles = line_styles(found["form"], _FORMS)
    figure, axes = panels(
        [f"{in_words(dataset)}: {_VARIED[name].split(':')[0]}" for dataset, name in wanted], sharey=False
    )
    for axis, (dataset, name) in zip(axes, wanted, strict=True):
        _panel(axis, found[found["dataset"] == dataset], name, styles)
    legend(figure, labelled(axes))
    return figure


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


def _panel(axis: "Axes", found: "pd.DataFrame", name: str, styles: dict[str, LineStyle]) -> None:
    import pandas as pd
    from matplotlib.ticker import MaxNLocator

    lines = _lines(found, name)
    for line in lines:
        form, teachers = line["form"].iloc[0], line["teachers"].iloc[0]
        words = in_words(form) if name == "teachers" else f"{in_words(form)}, n = {teachers}"
        points = over_seeds(line.astype({name: float}), [name], ["accuracy", "teacher_accuracy"])
        means(axis, points, name, "accuracy", **styles[form].settings, capsize=2, label=words)
    drawn = pd.concat(lines)
    level(axis, float(drawn["teacher_accuracy"].mean()), "its teachers, on average")
    values = drawn[name].astype(float)
    if values.min() > 0 and values.max() > 8 * values.min():
        axis.set_xscale("log")
        logarithmic(axis.xaxis)
    elif (values % 1 == 0).all():
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel(_VARIED[name])
    percent(axis, "accuracy on the test set")
