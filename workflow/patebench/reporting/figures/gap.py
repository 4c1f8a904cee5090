"""How certain the ensembles are: mean gap between the two largest counts over n, against n (PATE 2017, Figure 3)."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.axes import means, over_teachers
from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.outcomes import trained
from patebench.reporting.published import Published
from patebench.reporting.style import empty, labelled, legend, line_styles, panels, percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(records: Records, published: Published) -> "Figure":
    """One series per family of ensembles; bars are one standard deviation over the seeds."""
    ensembles = trained(records.ensembles)
    if ensembles.empty:
        return empty("This run has no ensembles, so there is no gap to draw.")
    names = titles(ensembles)
    styles = line_styles(names)
    figure, (axis,) = panels([""])
    for family, name in names.items():
        points = over_seeds(members(ensembles, family), ["teachers", "epochs"], ["gap_mean"])
        means(axis, points, "teachers", "gap_mean", **styles[family].settings, capsize=4, label=name)
    over_teachers(axis, sorted(ensembles["teachers"].unique()))
    axis.set_ylim(0, 1.02)
    percent(axis, "mean gap (largest − second count) / n")
    legend(figure, labelled([axis]))
    return figure
