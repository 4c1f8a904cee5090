"""What each method reaches where all may spend the same ε: a line per method, and what papers print.

As a command it draws tables `equal-epsilon` that are kept, of several runs on one picture:

    python -m patebench.reporting.figures.equal_epsilon OUT.png TABLE.csv…
"""

import sys
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from patebench.core.bound import Adjacency, Kind
from patebench.core.errors import PatebenchError
from patebench.reporting.figures.axes import SMALLER, accuracy_over, bars, stretch, within
from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records
from patebench.reporting.published import COMPARISONS, DPMLBENCH_2023, PATE, Published
from patebench.reporting.style import (
    GREY,
    MECHANISMS,
    PRIVATE_MODELS,
    empty,
    labelled,
    legend,
    line_styles,
    panels,
    save,
    themed,
)
from patebench.reporting.tables.equal_epsilon import TARGETS, build, together
from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Width and height in inches of a figure of one panel.
_WIDE = (11.4, 5.2)
#: Of what papers print, in turn.
_MARKERS = "so^Dv<>dph*X8"
#: Of lines of one colour, such as those of one mechanism whose students differ, the second and further ones.
_DASHES = ((0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
_OTHER_MARKERS = ("", "d", "p", "h", "8")
_PANEL = ("dataset", "setting")


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set; colour and marker tell the mechanism or the form, dashes what learns of it."""
    return of_table(build(records, published))


def of_table(frame: "pd.DataFrame") -> "Figure":
    """The same from rows of the table of that name."""
    measured = frame[[f"seeds_at_{target:g}" for target in TARGETS]].notna().any(axis=1)
    ours, printed = _by_accuracy(frame[measured]), frame[~measured]
    if not ours:
        return empty("This run has no students and no private models at an ε of 8 or less.")
    looks, names = _looks(ours), titles(frame[measured], _PANEL)
    series = {panel: _printed(members(printed, panel, _PANEL)) for panel in names}
    marks = dict(zip(dict.fromkeys(words for each in series.values() for words in each), cycle(_MARKERS), strict=False))
    figure, axes = panels(list(names.values()), sharey=False, alone=_WIDE)
    for axis, panel in zip(axes, names, strict=True):
        for row in ours:
            if tuple(row[name] for name in _PANEL) == panel:
                _draw(axis, row, looks[_words(row)])
        for words, (points, comparable) in series[panel].items():
            drawn: dict[str, Any] = {"color": GREY, "markerfacecolor": "white", "linewidth": 0.7, "zorder": 3}
            epsilons, heights = zip(*points, strict=True)
            drawn |= {"marker": marks[words], "linestyle": (0, (1, 2)) if comparable else "", "label": words}
            axis.plot(epsilons, list(map(within, heights)), **drawn)
        accuracy_over(axis, f"ε   {SMALLER}", "accuracy on the test set")
        reached = members(frame, panel, _PANEL)[[f"accuracy_at_{target:g}_mean" for target in TARGETS]].to_numpy(float)
        stretch(axis, float(np.nanmin(reached)), float(np.nanmax(reached)))
    legend(figure, dict(sorted(labelled(axes).items(), key=lambda entry: entry[0].startswith("printed"))))
    return figure


def _looks(rows: list[dict[Any, Any]]) -> dict[str, dict[str, Any]]:
    """How each method is drawn, by its words; of several of one style, further ones are broken and have other marks."""
    styles = line_styles(map(_key, rows), {**MECHANISMS, **PRIVATE_MODELS})
    found: dict[str, dict[str, Any]] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        if (words := _words(row)) in found:
            continue
        style, nth = styles[_key(row)], seen[_key(row)]
        seen[_key(row)] += 1
        marker = _OTHER_MARKERS[(nth // len(_DASHES)) % len(_OTHER_MARKERS)] or style.marker
        dashes = _DASHES[(nth - 1) % len(_DASHES)] if nth else "-"
        found[words] = {"color": style.color, "marker": marker, "linestyle": dashes, "markersize": 5 if nth else 7}
    return found


def _draw(axis: "Axes", row: dict[Any, Any], look: dict[str, Any]) -> None:
    """A line with bars over the seeds, none of which is above 100 %; open marks where an ε is only claimed."""
    epsilons, means, deviations = zip(*_points(row), strict=True)
    heights = [within(mean) for mean in means]
    drawn = {**look, "linewidth": 1.4, "elinewidth": 0.8, "capsize": 2}
    drawn |= {} if row["kind"] == Kind.WORST_CASE else {"markerfacecolor": "white", "markeredgewidth": 1.4}
    axis.errorbar(epsilons, heights, yerr=bars(heights, deviations), label=_words(row), **drawn)


def _key(row: dict[Any, Any]) -> str:
    return row["way"] if row["way"] in MECHANISMS else f"{row['system']}, {row['way']}"


def _words(row: dict[Any, Any]) -> str:
    """A method in the legend: what gives the labels or the noise, what learns, and what its ε protects, which is one of
    so many teachers or a record."""
    way, learner = in_words(row["way"]), in_words(row["learner"])
    parts = [learner] if learner == way or learner.startswith(f"{way}, ") else [way, learner]
    parts = parts if row["system"] == PATE else [row["system"], *parts]
    of_teacher = row["adjacency"] == Adjacency.REPLACE_TEACHER
    protects = f"n = {row['teachers']:,.0f}" if of_teacher else in_words(row["adjacency"])
    claimed = "" if row["kind"] == Kind.WORST_CASE else ", claimed"
    return f"{', '.join(parts)} ({protects}{claimed})"


def _points(row: dict[Any, Any]) -> list[tuple[float, float, float]]:
    """Each ε that was spent, the accuracy there and its deviation (NaN of one seed), once though it stands under
    several targets."""
    found = {}
    for target in TARGETS:
        names = (f"epsilon_at_{target:g}", f"accuracy_at_{target:g}_mean", f"accuracy_at_{target:g}_std")
        epsilon, mean, deviation = (row[name] for name in names)
        if epsilon == epsilon:
            found[epsilon] = (mean, deviation)
    return [(epsilon, *found[epsilon]) for epsilon in sorted(found)]


def _by_accuracy(rows: "pd.DataFrame") -> list[dict[Any, Any]]:
    """Methods in the order of the legend: the most accurate at its last ε first."""
    return sorted(rows.to_dict("records"), key=lambda row: -_points(row)[-1][1])


def _printed(rows: "pd.DataFrame") -> dict[str, tuple[list[tuple[float, float]], bool]]:
    """What papers print, in words, by ε; of the models of a paper that compares several the best at each ε.

    Beside it whether all of them stand at every ε, so that the best at one can be compared with the best at the next.
    """
    found: dict[str, tuple[list[tuple[float, float]], bool]] = {}
    papers = rows["learner"].map(lambda learner: next(filter(learner.startswith, COMPARISONS), learner))
    for (system, learner), group in rows.groupby(["system", papers]):
        # One study measured four networks; the other's rows are models of many papers.
        many = "networks" if str(learner) == DPMLBENCH_2023 else "models"
        several = f", best of {len(group)} {many}" if len(group) > 1 else ""
        means = [{epsilon: mean for epsilon, mean, _ in _points(row)} for row in group.to_dict("records")]
        epsilons = sorted({epsilon for each in means for epsilon in each})
        best = [(epsilon, max(each.get(epsilon, 0.0) for each in means)) for epsilon in epsilons]
        found[f"printed: {learner}, {system}{several}"] = best, all(len(each) == len(epsilons) for each in means)
    return found


def _main(*paths: str) -> None:
    import pandas as pd

    if len(paths) < 2:
        sys.exit("usage: python -m patebench.reporting.figures.equal_epsilon OUT.png TABLE.csv…")
    out, *tables = map(Path, paths)
    if missing := [str(path) for path in tables if not path.exists()]:
        sys.exit(f"{missing[0]}: there is no such table")
    try:
        drawn = together([pd.read_csv(path) for path in tables])
    except PatebenchError as error:
        sys.exit(f"{', '.join(map(str, tables))}: {error}")
    with themed():
        save(of_table(drawn), out)


if __name__ == "__main__":
    _main(*sys.argv[1:])
