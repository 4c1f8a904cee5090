"""How certain the ensembles are: mean gap between the two largest counts over n, against n (PATE 2017, Figure 3)."""

from typing import TYPE_CHECKING, Any

from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.published import Published
from patebench.reporting.style import empty, labelled, legend, line_styles, panels, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(records: Records, published: Published) -> "Figure":
    """One series per family of ensembles; bars are one standard deviation over the seeds."""
    ensembles = records.ensembles
    if ensembles.empty:
        return empty("This run has no ensembles, so there is no gap to draw.")
    names = titles(ensembles)
    styles = line_styles(names)
    figure, (axis,) = panels([""])
    for family, name in names.items():
        points = over_seeds(members(ensembles, family), ["teachers", "epochs"], ["gap_mean"])
        style = styles[family]
        drawn: dict[str, Any] = {"color": style.color, "marker": style.marker, "linestyle": style.line, "capsize": 4}
        axis.errorbar(points["teachers"], points["gap_mean_mean"], yerr=points["gap_mean_std"], label=name, **drawn)
    _dress(axis, sorted(ensembles["teachers"].unique()))
    legend(figure, labelled([axis]))
    return figure


def _dress(axis: "Axes", teachers: list[int]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator(teachers))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("number of teachers n")
    axis.set_ylabel("mean gap (largest − second count) / n")
    axis.set_ylim(0, 1.02)
    percent(axis)
