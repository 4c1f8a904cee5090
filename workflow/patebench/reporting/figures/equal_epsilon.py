"""What each method reaches where all may spend the same ε: a line per method, and what papers print.

As a command it draws tables `equal-epsilon` that are kept, of several runs on one picture:

    python -m patebench.reporting.figures.equal_epsilon OUT.png TABLE.csv…
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from patebench.core.bound import Adjacency, Kind
from patebench.reporting.figures.axes import SMALLER, accuracy_over, stretch
from patebench.reporting.frames import Records
from patebench.reporting.published import Published
from patebench.reporting.style import (
    GREY,
    MECHANISMS,
    PRIVATE_MODELS,
    LineStyle,
    empty,
    labelled,
    legend,
    line_styles,
    panels,
    save,
    themed,
)
from patebench.reporting.tables.equal_epsilon import TARGETS, build
from patebench.reporting.words import in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Width and height in inches of a figure of one panel.
_WIDE = (11.4, 5.2)
#: Of what papers print, in turn.
_MARKERS = "so^Dv<>dph"
#: Lines of one colour, such as those of one mechanism whose students differ.
_DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set; colour and marker tell the mechanism or the form, dashes what learns of it."""
    return of_table(build(records, published))


def of_table(frame: "pd.DataFrame") -> "Figure":
    """The same from rows of the table of that name."""
    ours = frame[(frame["way"] != "published") | (frame["system"] == "PET-DL")]
    if ours.empty:
        return empty("This run has no students and no private models at an ε of 8 or less.")
    styles = line_styles(map(_key, ours.to_dict("records")), {**MECHANISMS, **PRIVATE_MODELS})
    names = sorted(set(ours["dataset"]))
    figure, axes = panels([in_words(name) for name in names], sharey=False)
    if len(axes) == 1:
        figure.set_size_inches(_WIDE)
    for axis, name in zip(axes, names, strict=True):
        seen: dict[str, int] = {}
        for row in _by_accuracy(ours[ours["dataset"] == name]):
            nth = seen[_key(row)] = seen.get(_key(row), -1) + 1
            _draw(axis, _points(row), _words(row), styles[_key(row)], nth, held=row["kind"] == Kind.WORST_CASE)
        panel = frame[frame["dataset"] == name]
        printed = panel[~panel.index.isin(ours.index)]
        for nth, (words, points) in enumerate(_printed(printed)):
            drawn: dict[str, Any] = {"color": GREY, "markerfacecolor": "white", "linewidth": 0.7}
            drawn |= {"marker": _MARKERS[nth % len(_MARKERS)]}
            axis.plot(*zip(*points, strict=True), **drawn, linestyle=(0, (1, 2)), zorder=3, label=words)
        accuracy_over(axis, f"ε   {SMALLER}", "accuracy on the test set")
        reached = panel[[f"accuracy_at_{target:g}_mean" for target in TARGETS]].to_numpy(float)
        stretch(axis, float(np.nanmin(reached)), float(np.nanmax(reached)))
    legend(figure, dict(sorted(labelled(axes).items(), key=lambda entry: entry[0].startswith("printed"))))
    return figure


def _draw(
    axis: Any, points: list[tuple[float, float, float]], words: str, style: LineStyle, nth: int, *, held: bool
) -> None:
    """A line with bars over the seeds; of several of one style the second and further ones are broken and smaller."""
    drawn: dict[str, Any] = {"color": style.color, "marker": style.marker, "linestyle": _DASHES[nth % len(_DASHES)]}
    drawn |= {"markersize": 7 if nth == 0 else 5, "linewidth": 1.4, "elinewidth": 0.8, "capsize": 2}
    drawn |= {} if held else {"markerfacecolor": "white", "markeredgewidth": 1.4}
    epsilons, means, deviations = zip(*points, strict=True)
    axis.errorbar(epsilons, means, yerr=deviations, label=words, **drawn)


def _key(row: dict[Any, Any]) -> str:
    return row["way"] if row["way"] in MECHANISMS else f"{row['system']}, {row['way']}"


def _words(row: dict[Any, Any]) -> str:
    """A method in the legend: what gives the labels or the noise, what learns, and what its ε protects, which is one of
    so many teachers or a record."""
    way = in_words(row["way"])
    name = way if row["system"] == "PATE" else f"{row['system']}, {way}"
    of_teacher = row["adjacency"] == Adjacency.REPLACE_TEACHER
    protects = f"n = {row['teachers']:,.0f}" if of_teacher else in_words(row["adjacency"])
    claimed = "" if row["kind"] == Kind.WORST_CASE else ", claimed"
    return f"{name}, {in_words(row['learner'])} ({protects}{claimed})"


def _points(row: dict[Any, Any]) -> list[tuple[float, float, float]]:
    """Each ε that was spent, the accuracy there and its deviation (0 of one seed), once though it stands under several
    targets."""
    found = {}
    for target in TARGETS:
        epsilon, mean, deviation = (
            row[f"{name}_at_{target:g}{part}"]
            for name, part in (("epsilon", ""), ("accuracy", "_mean"), ("accuracy", "_std"))
        )
        if epsilon == epsilon:
            found[epsilon] = (mean, deviation if deviation == deviation else 0.0)
    return [(epsilon, *found[epsilon]) for epsilon in sorted(found)]


def _by_accuracy(rows: "pd.DataFrame") -> list[dict[Any, Any]]:
    """Methods in the order of the legend: the most accurate at its last ε first."""
    return sorted(rows.to_dict("records"), key=lambda row: -_points(row)[-1][1])


def _printed(rows: "pd.DataFrame") -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """What each paper prints of each system, in words; of several networks the best."""
    rows = rows.assign(paper=rows["learner"].str.split(", ").str[0])
    for (system, paper), group in rows.groupby(["system", "paper"]):
        best: dict[float, float] = {}
        for row in group.to_dict("records"):
            for epsilon, mean, _ in _points(row):
                best[epsilon] = max(mean, best.get(epsilon, 0.0))
        several = f", best of {len(group)} networks" if len(group) > 1 else ""
        yield f"printed: {paper}, {system}{several}", sorted(best.items())


def _main(out: str, *tables: str) -> None:
    import pandas as pd

    frame = pd.concat([pd.read_csv(path) for path in tables], ignore_index=True)
    keys = ["dataset", "setting", "system", "way", "learner", "kind", "teachers"]
    with themed():
        save(of_table(frame.drop_duplicates(keys, ignore_index=True)), Path(out))


if __name__ == "__main__":
    _main(*sys.argv[1:])
