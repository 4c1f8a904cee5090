"""What the distance gate of NZC (Sun et al. 2020) lets through, over teachers and distances: its Figure 2."""

from typing import TYPE_CHECKING

from patebench.reporting.figures.axes import means, over_teachers
from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records, over_seeds
from patebench.reporting.outcomes import NZC_DISTANCE, gap_share, gap_shares, trained
from patebench.reporting.published import NZC_2020, Published
from patebench.reporting.sections import IMMUTABLE
from patebench.reporting.style import GREY, LineStyle, empty, hollow, labelled, legend, line_styles, panels, percent
from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(records: Records, published: Published) -> "Figure":
    """(a) accuracy over n, (b) queries of distance k at the most teachers, (c) queries of distance 3 over n."""
    ensembles = trained(records.ensembles)
    if ensembles.empty:
        return empty("This run has no ensembles, so there are no distances to draw.")
    printed_for = {value.dataset for value in published.of(NZC_2020).values}
    if not (set(records.label_sets["mechanism"]) & set(IMMUTABLE) or set(ensembles["dataset"]) & printed_for):
        return empty("This run has neither a mechanism of NZC nor a data set that it prints numbers of.")
    ensembles = ensembles.assign(far=[gap_share(gaps, NZC_DISTANCE) for gaps in ensembles["gap_histogram"]])
    most = int(ensembles["teachers"].max())
    names = titles(ensembles)
    styles = line_styles(names)
    heads = ["(a) accuracy", f"(b) queries of distance k, n = {most}", f"(c) queries of distance {NZC_DISTANCE}"]
    figure, axes = panels(heads, sharey=False, abreast=3)
    for family, name in names.items():
        mine = members(ensembles, family)
        _draw_over_teachers(axes[0], mine, "plurality_accuracy_pool", styles[family], f"{name}: ensemble")
        _draw_over_teachers(axes[0], mine, "teacher_accuracy_mean", styles[family], f"{name}: one teacher", faint=True)
        _draw_over_distances(axes[1], mine[mine["teachers"] == most], styles[family], f"{name}: ensemble")
        _draw_over_teachers(axes[2], mine, "far", styles[family], f"{name}: ensemble")
    sizes = set(ensembles["teachers"])
    printed = [_draw_published(axes[0], published.of(NZC_2020), name) for name in sorted(set(ensembles["dataset"]))]
    for axis, marked in ((axes[0], sizes.union(*printed)), (axes[2], sizes)):
        over_teachers(axis, sorted(marked))
    _dress(axes)
    legend(figure, labelled(axes))
    return figure


def _draw_over_teachers(
    axis: "Axes", ensembles: "pd.DataFrame", value: str, style: LineStyle, name: str, faint: bool = False
) -> None:
    points = over_seeds(ensembles, ["teachers"], [value])
    how = {"linestyle": ":", "markerfacecolor": "white"} if faint else {"linestyle": "-"}
    means(axis, points, "teachers", value, **{**style.settings, **how}, capsize=4, label=name)


def _draw_over_distances(axis: "Axes", ensembles: "pd.DataFrame", style: LineStyle, name: str) -> None:
    """The mean over the seeds, with the least and the largest share."""
    if ensembles.empty:
        return
    curves = [gap_shares(gaps) for gaps in ensembles["gap_histogram"]]
    low, high = ([extreme(column) for column in zip(*curves, strict=True)] for extreme in (min, max))
    middle = [sum(column) / len(curves) for column in zip(*curves, strict=True)]
    axis.step(range(len(middle)), middle, where="mid", color=style.color, label=name)
    axis.fill_between(range(len(middle)), low, high, step="mid", color=style.color, alpha=0.18, linewidth=0)


def _draw_published(axis: "Axes", paper: Published, dataset: str) -> set[int]:
    """Tables 3 and 2 of the paper; returns the numbers of teachers that they are for."""
    drawn = set()
    for quantity, marker, what in (("teacher_accuracy", "d", "one teacher"), ("plurality_accuracy", "s", "ensemble")):
        for value in paper.select(quantity, dataset=dataset):
            if value.teachers:
                hollow(axis, value.teachers, value.value, GREY, marker, f"published: {in_words(dataset)}, {what}")
                drawn.add(value.teachers)
    return drawn


def _dress(axes: list["Axes"]) -> None:
    axes[1].axvline(NZC_DISTANCE, color=GREY, linestyle=(0, (6, 3)), linewidth=1.0, label=f"distance {NZC_DISTANCE}")
    axes[1].set_xlabel("k votes between the two largest counts, at least")
    for axis, words in zip(axes, ("accuracy", "share of the queries", "share of the queries"), strict=True):
        percent(axis, words)
        axis.set_ylim(top=min(axis.get_ylim()[1], 1.02))  # no share is larger than 1
