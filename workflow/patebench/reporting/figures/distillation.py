"""Distillation: what probabilities teach beyond plain labels, over the number of samples (PATE 2017, Figure 5)."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.axes import accuracy_over, level, means
from patebench.reporting.figures.panels import FAMILY, members, titles
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.published import Published
from patebench.reporting.style import BLUE, GREEN, ORANGE, LineStyle, empty, labelled, legend, line_styles, panels
from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (*FAMILY, "ensemble", "teachers", "distilled")

#: The kinds of labels of the paper; other temperatures take what is free.
_LABELS = {
    "plurality": LineStyle(ORANGE, "s", (0, (1, 1.2))),
    "soft, T = 1": LineStyle(GREEN, "^", (0, (4, 1.5))),
    "soft, T = 5": LineStyle(BLUE, "o", "-"),
}


def draw(records: Records, published: Published) -> "Figure":
    """One panel per ensemble and learner, one line per kind of label; bars are one deviation over the seeds."""
    learnt = records.distillations
    if learnt.empty:
        return empty("This run distilled no ensemble, so there is nothing to draw.")
    learnt = learnt.assign(kind=kinds(learnt))
    styles = line_styles(learnt["kind"], _LABELS)
    heads = titles(learnt, _PANEL)
    names = {panel: f"{head}, n = {panel[-2]}\nstudent: {in_words(panel[-1])}" for panel, head in heads.items()}
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        _draw(axis, members(learnt, panel, _PANEL), styles)
        ensembles = members(records.ensembles, panel[:-1], _PANEL[:-1])
        level(axis, ensembles["plurality_accuracy_test"].mean(), "the ensemble itself")
        accuracy_over(axis, "samples learnt from, labelled without noise: ε = ∞", "accuracy on the test set")
    legend(figure, labelled(axes))
    return figure


def kinds(learnt: "pd.DataFrame") -> list[str]:
    """What the labels of each row are, in words."""
    rows = zip(learnt["labels"], learnt["temperature"], strict=True)
    return [f"soft, T = {temperature:g}" if labels == "soft" else labels for labels, temperature in rows]


def _draw(axis: "Axes", learnt: "pd.DataFrame", styles: dict[str, LineStyle]) -> None:
    for kind in (kind for kind in styles if kind in set(learnt["kind"])):
        points = over_seeds(learnt[learnt["kind"] == kind], ["samples"], ["accuracy"])
        means(axis, points, "samples", "accuracy", **styles[kind].settings, capsize=2, label=kind)
