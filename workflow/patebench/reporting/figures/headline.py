"""Draw two figures of accuracy against ε from stored results: one of all methods, and one for the README.

The figure of the README shows MNIST, with one panel per unit of privacy. Usage:

python -m patebench.reporting.figures.headline ALL.png TABLE.csv… [--readme README.png PUBLISHED.csv]

ALL.png and README.png are written. Each TABLE.csv is the table `equal-epsilon` of a run: the accuracy of each method at
several ε. PUBLISHED.csv contains the values that papers print (`config/published.csv`).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from patebench.core.errors import PatebenchError
from patebench.reporting.figures.drawing import accuracy_over, at_values, clip_accuracy, mark, members, stretch
from patebench.reporting.figures.utility_figures import draw_table, points_by_epsilon, published_series
from patebench.reporting.published import DP_SGD, REPRODUCIBILITY_2024, SCALABLE_2018, SYSTEMS, read_published
from patebench.reporting.style import BLUE, GREY, PURPLE, SKY, VERMILLION, LineStyle, panels, save, themed
from patebench.reporting.tables.utility_tables import join_tables

#: Units that ε protects, one panel each, with the accuracy range of the axis.
_PANELS = {"ε protects a teacher's shard": (0.45, 0.9955), "ε protects one record": (0.94, 0.9935)}
_SHARD, _RECORD = _PANELS
#: Width and height in inches. The README shows it 700 pixels wide, so a point is 1.4 pixels.
_SIZE = (7.2, 3.8)


#: Methods that are drawn as lines: the panel, the method's row in the table `equal-epsilon` (system, way, learner), the
#: line style, and the label with its place (ε, accuracy).
_LINES = (
    (_SHARD, ("PATE", "gnmax", "consistency, prototypes"), LineStyle(BLUE, "o"),
     "PATE, 100 prototypes", (0.55, 0.9938)),
    (_SHARD, ("PET-DL", "noisy-knowledge", "conv, width 12, samples: 1000"), LineStyle(SKY, "P"),
     "PET-DL,\nsound form", (1.45, 0.83)),
    (_RECORD, ("PATE", "sparse-gnmax", "consistency"), LineStyle(BLUE, "o"),
     "PATE, one vote\nper record", (0.62, 0.9878)),
    (_RECORD, ("DP-SGD", "fine-tuned", "encoder"), LineStyle(PURPLE, "s"), "DP-SGD, fine-tuned", (0.19, 0.9836)),
    (_RECORD, ("Private-kNN", "sound", "consistency, student-cnn"), LineStyle(VERMILLION, "D"),
     "Private-kNN,\nsound form", (0.13, 0.9485)),
)  # fmt: skip
_PAPER = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.0}
_LABEL: dict[str, Any] = {"fontsize": 9, "fontweight": "bold", "va": "bottom", "linespacing": 1.15, "bbox": _PAPER}
_PUBLISHED: dict[str, Any] = {"color": GREY, "marker": "^", "markerfacecolor": "white", "linestyle": (0, (2, 2))}


def draw_headline(table: pd.DataFrame, published_at: tuple[float, float]) -> Figure:
    """Draw the README's figure: accuracy on MNIST against ε, with one line per method in `_LINES`.

    Parameters
    ----------
    table : one row per method on MNIST, with its accuracy at several ε (the table `equal-epsilon`)
    published_at : ε and accuracy that the paper Scalable PATE prints for its student
    """
    figure, axes = panels(list(_PANELS), sharey=False)
    figure.set_size_inches(*_SIZE)
    by_panel = dict(zip(_PANELS, axes, strict=True))
    for panel, row, style, words, place in _LINES:
        rows = members(table, row, ("system", "way", "learner"))
        epsilons, accuracies, deviations = zip(*points_by_epsilon(rows.iloc[0].to_dict()), strict=True)
        mark(by_panel[panel], epsilons, list(map(clip_accuracy, accuracies)), deviations, style, lines=True)
        darker = [0.75 * part for part in to_rgb(style.color)]
        by_panel[panel].text(*place, words, color=darker, **_LABEL)
    by_panel[_SHARD].plot(*published_at, **_PUBLISHED)
    _note(by_panel[_SHARD], "published:\nScalable PATE", (0.075, 0.983), published_at)
    of_study = table["learner"].str.startswith(REPRODUCIBILITY_2024) & (table["system"] == SYSTEMS[DP_SGD])
    ((points, _),) = published_series(table[of_study]).values()
    by_panel[_RECORD].plot(*zip(*points, strict=True), **_PUBLISHED)
    _note(by_panel[_RECORD], "published:\nDP-SGD (2024)", (1.2, 0.9425), points[0])
    for panel, axis in by_panel.items():
        accuracy_over(axis, "", "accuracy on MNIST" if panel == _SHARD else "")
        stretch(axis, *_PANELS[panel])
        axis.set_ylim(*_PANELS[panel])
        axis.set_xlim(0.07, 10)
        at_values(axis, (0.1, 0.2, 0.5, 1, 2, 4, 8), "ε at δ = 1e-5   (← more private)")
    return figure


def _note(axis: Axes, words: str, place: tuple[float, float], point: tuple[float, float]) -> None:
    """Write the note `words` at the point `place`, with a thin line to the published value at `point`."""
    leader = {"arrowstyle": "-", "color": GREY, "linewidth": 0.7, "shrinkA": 1, "shrinkB": 4, "relpos": (1, 0.5)}
    axis.annotate(words, point, place, arrowprops=leader, color=GREY, **_LABEL)


def read_tables(paths: Sequence[Path]) -> pd.DataFrame:
    """Read the CSV tables `equal-epsilon` (accuracy of methods at several ε) of several runs, and join them.

    Exits with a message if a file cannot be read, or if two files contradict each other.
    """
    try:
        return join_tables([pd.read_csv(path) for path in paths])
    except (OSError, PatebenchError) as fault:
        sys.exit(f"{', '.join(map(str, paths))}: {fault}; give tables equal-epsilon.csv of different runs")


def _main() -> None:
    parser = argparse.ArgumentParser(description="Draw figures from the tables equal-epsilon of kept runs.")
    parser.add_argument("joined", type=Path, metavar="ALL.png", help="Figure of all methods.")
    parser.add_argument("tables", type=Path, nargs="+", metavar="TABLE.csv", help="Tables equal-epsilon.csv.")
    parser.add_argument("--readme", type=Path, nargs=2, metavar=("README.png", "PUBLISHED.csv"))
    chosen = parser.parse_args()
    table = read_tables(chosen.tables)
    with themed():
        save(draw_table(table), chosen.joined)
        if chosen.readme:
            headline, published = chosen.readme
            of_mnist = read_published(published).of(SCALABLE_2018).points("student_accuracy", dataset="mnist")
            value, accuracy = next(point for point in of_mnist if point[0].mechanism == "confident-gnmax")
            save(draw_headline(table, (value.value, accuracy)), headline)


if __name__ == "__main__":
    _main()
