"""Distillation: what probabilities teach beyond plain labels, over the number of samples (PATE 2017, Figure 5)."""

from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.panels import FAMILY, members, titles
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.published import Published
from patebench.reporting.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    LineStyle,
    empty,
    labelled,
    legend,
    line_styles,
    logarithmic,
    panels,
    percent,
)

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
    names = _titles(learnt)
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        _draw(axis, members(learnt, panel, _PANEL), styles)
        _draw_plurality(axis, members(records.ensembles, panel[:-1], _PANEL[:-1]))
        _dress(axis)
    legend(figure, labelled(axes))
    return figure


def kinds(learnt: "pd.DataFrame") -> list[str]:
    """What the labels of each row are, in words."""
    rows = zip(learnt["labels"], learnt["temperature"], strict=True)
    return [f"soft, T = {temperature:g}" if labels == "soft" else labels for labels, temperature in rows]


def _titles(learnt: "pd.DataFrame") -> dict[tuple[Any, ...], str]:
    families = titles(learnt)
    found = sorted(set(learnt[list(_PANEL)].itertuples(index=False, name=None)))
    return {panel: f"{families[panel[: len(FAMILY)]]}, n = {panel[-2]}\nstudent: {panel[-1]}" for panel in found}


def _draw(axis: "Axes", learnt: "pd.DataFrame", styles: dict[str, LineStyle]) -> None:
    for kind in (kind for kind in styles if kind in set(learnt["kind"])):
        points = over_seeds(learnt[learnt["kind"] == kind], ["samples"], ["accuracy"])
        style = styles[kind]
        drawn: dict[str, Any] = {"color": style.color, "marker": style.marker, "linestyle": style.line}
        axis.errorbar(
            points["samples"], points["accuracy_mean"], yerr=points["accuracy_std"], capsize=2, label=kind, **drawn
        )


def _draw_plurality(axis: "Axes", ensembles: "pd.DataFrame") -> None:
    if not ensembles.empty:
        plurality = ensembles["plurality_accuracy_test"].mean()
        axis.axhline(plurality, color=GREY, linestyle=(0, (6, 3)), linewidth=1.3, zorder=0, label="the ensemble itself")


def _dress(axis: "Axes") -> None:
    axis.set_xscale("log")
    logarithmic(axis.xaxis)
    axis.set_xlabel("samples learnt from, labelled without noise: ε = ∞")
    axis.set_ylabel("accuracy on the test set")
    percent(axis)
