"""The headline: accuracy against ε, one point per method and kind of ε, and what papers print."""

from typing import TYPE_CHECKING, Any

import numpy as np

from patebench.core.bound import Kind
from patebench.reporting.figures.axes import SMALLER, accuracy_over, bars, level, shade_weak, stretch, within
from patebench.reporting.frames import Records
from patebench.reporting.per_method import methods
from patebench.reporting.published import Published
from patebench.reporting.style import (
    BLACK,
    GREY,
    MECHANISMS,
    PRIVATE_MODELS,
    WIDE,
    LineStyle,
    empty,
    labelled,
    legend,
    line_styles,
    panels,
    point_says,
)
from patebench.reporting.wording import epsilon_in_digits, in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set; colour and marker tell the method, the fill whether ε holds for all votes."""
    frame = methods(records, published)
    if frame.empty:
        return empty("This run has no students and no private models at a finite ε,\nso there is no headline to draw.")
    styles = style_of(frame)
    names = sorted(set(frame["dataset"]))
    figure, axes = panels([in_words(name) for name in names], sharey=False, alone=WIDE)
    for axis, name in zip(axes, names, strict=True):
        mine = frame[frame["dataset"] == name]
        for row in mine.to_dict("records"):
            _draw_point(axis, row, styles[row["method"]])
        for method, pair in mine[~mine["published"].astype(bool)].groupby("method"):
            if len(pair) > 1:
                axis.plot(
                    pair["epsilon"],
                    pair["accuracy_mean"].map(within),
                    color=styles[method].color,
                    linewidth=0.8,
                    alpha=0.6,
                )
        free = within(mine["baseline_accuracy_mean"].max())
        level(axis, free, "without privacy")
        accuracy_over(axis, f"ε   {SMALLER}", "accuracy on the test set")
        stretch(axis, mine["accuracy_mean"].min(), np.nanmax([free, mine["accuracy_mean"].max()]))
        shade_weak(axis, mine["epsilon"].max())
    for words, fill in (("filled: ε holds for all votes", GREY), ("open: data-dependent or claimed", "white")):
        axes[0].plot([], [], marker="o", color=GREY, markerfacecolor=fill, linestyle="none", label=words)
    legend(figure, labelled(axes))
    return figure


def style_of(frame: "pd.DataFrame") -> dict[str, LineStyle]:
    """How each method is drawn: as in all other figures; what papers print is black."""
    ours = line_styles(frame.loc[~frame["published"].astype(bool), "method"], {**MECHANISMS, **PRIVATE_MODELS})
    printed = sorted(set(frame.loc[frame["published"].astype(bool), "method"]))
    return ours | {name: LineStyle(BLACK, "so^DvP*X<>dh"[place % 12]) for place, name in enumerate(printed)}


def _draw_point(axis: "Axes", row: dict[Any, Any], style: LineStyle) -> None:
    settings: dict[str, Any] = {"color": style.color, "marker": style.marker, "linestyle": "none", "capsize": 2}
    settings |= {"elinewidth": 0.8, "markersize": 7, "label": in_words(row["method"])}
    if row["kind"] != Kind.WORST_CASE or row["published"]:
        settings |= {"markerfacecolor": "white", "markeredgewidth": 1.4}
    mean = within(row["accuracy_mean"])
    drawn = axis.errorbar(row["epsilon"], mean, yerr=bars(mean, row["accuracy_std"]), **settings)
    words = f"{100 * row['accuracy_mean']:.2f} % at {in_words(row['kind'])} ε = {epsilon_in_digits(row['epsilon'])}"
    point_says(drawn.lines[0], f"{in_words(row['method'])}: {words}; {row['detail']}; {in_words(row['adjacency'])}")
