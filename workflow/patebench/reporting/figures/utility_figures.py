"""Accuracy of students and private models against ε, beside what papers print.

As a command this file draws kept tables `equal-epsilon`, of several runs in one picture:

    python -m patebench.reporting.figures.utility_figures OUT.png TABLE.csv…
"""

import math
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from patebench.core.bound import Adjacency, Kind
from patebench.core.errors import PatebenchError
from patebench.models import MODELS, on_queries
from patebench.reporting.figures.drawing import (
    MARKER,
    OUTLINE,
    SMALLER,
    Words,
    accuracy_over,
    bars,
    boxes_of,
    level,
    members,
    placed,
    shade_weak,
    staircase,
    stretch,
    titles,
    within,
    write_beside,
)
from patebench.reporting.frames import Records
from patebench.reporting.outcomes import frontier, outcomes, private_models
from patebench.reporting.per_method import methods
from patebench.reporting.published import (
    COMPARISONS,
    DPMLBENCH_2023,
    OF_RECORDS,
    PATE,
    PATE_2017,
    SCALABLE_2018,
    Published,
)
from patebench.reporting.style import (
    BLACK,
    GREY,
    MECHANISMS,
    METHODS,
    PRIVATE_MODELS,
    PURPLE,
    WIDE,
    LineStyle,
    empty,
    hollow,
    labelled,
    legend,
    line_styles,
    panels,
    point_says,
    save,
    themed,
)
from patebench.reporting.tables.utility_tables import EQUAL_EPSILON, TARGETS, together
from patebench.reporting.wording import epsilon_in_digits, in_words, parameter_words, those_that_differ

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

#: One panel of the figures.
_PANEL = ("dataset", "setting")


def draw_methods(records: Records, published: Published) -> "Figure":
    """One panel per data set; colour and marker tell the method, the fill whether ε holds for all votes."""
    frame = methods(records, published)
    if frame.empty:
        return empty()
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


#: Width and height in inches of a figure of one panel.
_WIDE = (11.4, 5.2)
#: Of what papers print, in turn.
_MARKERS_EQUAL_EPSILON = "so^Dv<>dph*X8"
#: Of lines of one colour, such as those of one mechanism whose students differ, the second and further ones.
_DASHES = ((0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
_OTHER_MARKERS = ("", "d", "p", "h", "8")


def draw_equal_epsilon(records: Records, published: Published) -> "Figure":
    """One panel per data set; colour and marker tell the mechanism or the form, dashes what learns of it."""
    return of_table(EQUAL_EPSILON.build(records, published))


def of_table(frame: "pd.DataFrame") -> "Figure":
    """The same from rows of the table of that name."""
    measured = frame[[f"seeds_at_{target:g}" for target in TARGETS]].notna().any(axis=1)
    ours, printed = _by_accuracy(frame[measured]), frame[~measured]
    if not ours:
        return empty()
    looks, names = _looks(ours), titles(frame[measured], _PANEL)
    series = {panel: _printed(members(printed, panel, _PANEL)) for panel in names}
    marks = dict(
        zip(
            dict.fromkeys(words for each in series.values() for words in each),
            cycle(_MARKERS_EQUAL_EPSILON),
            strict=False,
        )
    )
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
    epsilons, means, deviations = zip(*_spent(row), strict=True)
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


def _spent(row: dict[Any, Any]) -> list[tuple[float, float, float]]:
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
    return sorted(rows.to_dict("records"), key=lambda row: -_spent(row)[-1][1])


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
        means = [{epsilon: mean for epsilon, mean, _ in _spent(row)} for row in group.to_dict("records")]
        epsilons = sorted({epsilon for each in means for epsilon in each})
        best = [(epsilon, max(each.get(epsilon, 0.0) for each in means)) for epsilon in epsilons]
        found[f"printed: {learner}, {system}{several}"] = best, all(len(each) == len(epsilons) for each in means)
    return found


#: With more students than these only those on the frontier have words.
_CROWD = 20
#: Of papers whose ε is that of one record, in their order.
_MARKERS_FRONTIER = "so^Dv"
#: The fill of a marker says whether ε holds for all votes, as that of a release does, or depends on these.
_KINDS = {
    Kind.WORST_CASE: "worst-case ε, of fresh noise",
    Kind.DATA_DEPENDENT: "data-dependent ε, not publishable",
}
#: Of whom a model's ε is.
_PROTECTED: dict[str, str] = {Adjacency.ADD_OR_REMOVE_RECORD: "one record", Adjacency.REPLACE_TEACHER: "one shard"}
_SAID: dict[str, str] = {Kind.CLAIMED: " (claimed)"}


def draw_frontier(records: Records, published: Published) -> "Figure":
    """One panel per data set; colour and marker tell the mechanism, or the student where those are more."""
    import pandas as pd

    reached, models = placed(outcomes(records)), placed(_named(private_models(records)), "epsilon_mean")
    if reached.empty and models.empty:
        return empty()
    names = titles(pd.concat([reached[[*_PANEL]], models[[*_PANEL]]]), _PANEL)
    marks = line_styles(models["name"], PRIVATE_MODELS)
    by = "method" if reached["method"].nunique() > reached["mechanism"].nunique() else "mechanism"
    styles = line_styles(reached[by], METHODS if by == "method" else MECHANISMS)
    other = "mechanism" if by == "method" else "method"
    printed: dict[tuple[str, ...], list[Words]] = {}
    figure, axes = panels(list(names.values()), sharey=False, alone=WIDE)
    for axis, panel in zip(axes, names, strict=True):
        students = members(reached, panel, _PANEL)
        own = members(models, panel, _PANEL)
        _draw_baseline(axis, own if students.empty else students)
        _draw_naming(axis, members(records.namings, panel, _PANEL))
        _draw_models(axis, own.assign(style=own["name"].map(marks)))
        _draw_students(axis, students.assign(style=students[by].map(styles)))
        staircase(axis, students[frontier(students)], "frontier of worst-case ε")
        printed[panel] = _draw_published(axis, published.of(PATE_2017, SCALABLE_2018), panel[0])
        of_one_record = len(own) > 0 or _of_records(students)
        if of_one_record:
            _draw_published_models(axis, published.of(*OF_RECORDS), panel[0])
        costly = "of the student's labels" + (", or of the model" if of_one_record else "")
        accuracy_over(axis, f"ε {costly}   {SMALLER}{_endless(students)}", "accuracy on the test set")
        stretch(axis, *axis.dataLim.intervaly)
        axis.margins(x=0.18)
    _explain(axes[0], reached[reached["worst_case_epsilon_mean"] != math.inf], by, styles)
    legend(figure, labelled(axes))
    figure.draw_without_rendering()  # from here on it is known how far points lie from each other
    for axis, panel in zip(axes, names, strict=True):
        students = members(reached, panel, _PANEL)
        if not students.empty:
            points = _markers(axis, students, members(models, panel, _PANEL))
            write_beside(axis, [*_names(students, other), *printed[panel]], points)
    return figure


def _draw_students(axis: "Axes", students: "pd.DataFrame") -> None:
    """Each at its two ε, in its column `style`."""
    endless = students["worst_case_epsilon_mean"] == math.inf
    for row in students[~endless].to_dict("records"):
        pair = [row[f"{kind}_epsilon_mean"] for kind in _KINDS]
        drawn = {"color": row["style"].color, "marker": row["style"].marker}
        both = math.isfinite(pair[1]) and pair[0] != pair[1]  # an open mark would cover the filled one
        if both:
            axis.plot(pair, [row["accuracy_mean"]] * 2, color=row["style"].color, linewidth=0.6, alpha=0.5, zorder=1)
        for kind in _KINDS if both else [Kind.WORST_CASE]:
            filled = {} if kind is Kind.WORST_CASE else {"markerfacecolor": "white", "markersize": 4.5, "alpha": 0.7}
            settings: dict[str, Any] = {**drawn, **filled, "elinewidth": 0.8, "capsize": 2, "linestyle": "none"}
            settings |= {
                "xerr": row[f"{kind}_epsilon_std"],
                "yerr": bars(row["accuracy_mean"], row["accuracy_std"]),
            }
            axis.errorbar(row[f"{kind}_epsilon_mean"], row["accuracy_mean"], **settings)


def _named(models: "pd.DataFrame") -> "pd.DataFrame":
    """Private models, with what the legend calls them: the best of each name, ε, kind and protected unit."""
    named = models.assign(name=models["system"] + ", " + models["form"])
    ranked = named.sort_values("accuracy_mean", ascending=False, kind="stable")
    return ranked.drop_duplicates(["dataset", "setting", "name", "epsilon_mean", "delta", "kind", "adjacency"])


def _draw_models(axis: "Axes", models: "pd.DataFrame") -> None:
    """Models that are private themselves, each name by a line of its own; what is only claimed is open."""
    finite = models[models["epsilon_mean"] < math.inf].sort_values("epsilon_mean")
    for (name, kind), rows in finite.groupby(["name", "kind"], sort=False):
        style: LineStyle = rows["style"].iloc[0]
        points = (rows[column].to_numpy(float) for column in ("epsilon_mean", "accuracy_mean", "accuracy_std"))
        x, y, deviation = points
        settings: dict[str, Any] = {"color": style.color, "marker": style.marker, "markersize": 6, "linewidth": 0.9}
        settings |= {"linestyle": (0, (1, 2)), "elinewidth": 0.8, "capsize": 2}
        settings |= {} if kind == Kind.WORST_CASE else {"markerfacecolor": "white"}
        words = f"{in_words(str(name))}, of {_PROTECTED[rows['adjacency'].iloc[0]]}{_SAID.get(str(kind), '')}"
        axis.errorbar(x, y, yerr=bars(y, deviation), label=words, **settings)


def _explain(axis: "Axes", students: "pd.DataFrame", by: str, styles: dict[str, LineStyle]) -> None:
    """What colours, markers and fills mean, as entries of the legend; of fills those that some student has."""
    plain: dict[str, Any] = {"linestyle": "none"}
    for thing in dict.fromkeys(students[by]):
        axis.plot([], [], marker=styles[thing].marker, color=styles[thing].color, label=in_words(thing), **plain)
    for kind, meaning in _KINDS.items():
        if students[f"{kind}_epsilon_mean"].isna().all():
            continue
        fill = GREY if kind is Kind.WORST_CASE else "white"
        axis.plot([], [], marker="o", color=GREY, markerfacecolor=fill, label=meaning, **plain)


def _names(students: "pd.DataFrame", other: str) -> Iterator[Words]:
    """T and what is unusual of the students on the frontier, then of others, where they are not too many; where the
    same words would be of several noises, what tells these apart too."""
    best = frontier(students)
    rest = students[~best] if len(students) <= _CROWD else students[:0]
    usual, several = students[other].mode()[0], students["teachers"].nunique() > 1

    def name(row: dict[Any, Any]) -> str:
        words = f"{in_words(row[other])}, " if row[other] != usual else ""
        words += f"{in_words(row['strategy'])}, " if row["strategy"] else ""
        words += f"n = {row['teachers']:,}, " if several else ""
        return f"{words}T = {row['queries']:,}"

    rows = [*students[best].to_dict("records"), *rest.to_dict("records")]
    rows = [row for row in rows if math.isfinite(row["worst_case_epsilon_mean"])]
    for row in rows:
        same = [each for each in [row, *rows] if name(each) == name(row)]
        noises = [parameter_words(each["mechanism"], each["parameters"]) for each in same]
        words = ", ".join(filter(None, [name(row), those_that_differ(noises)[0]]))
        yield row["worst_case_epsilon_mean"], row["accuracy_mean"], words


def _markers(axis: "Axes", students: "pd.DataFrame", models: "pd.DataFrame") -> list["Bbox"]:
    """Where markers are on the canvas: those of students and of private models, and outlines of what papers print."""
    ends = [students[[f"{kind}_epsilon_mean", "accuracy_mean"]] for kind in _KINDS]
    ends.append(models[["epsilon_mean", "accuracy_mean"]])
    outlines = [dots.get_offsets() for dots in axis.collections if str(dots.get_label()).startswith("published")]
    sized = [*((each, MARKER) for each in ends), *((each, OUTLINE) for each in outlines)]
    return [box for points, size in sized for box in boxes_of(axis, points, size)]


def _draw_published(axis: "Axes", published: Published, dataset: str) -> list[Words]:
    """An outline for each; returns what is to be written beside them."""
    found: list[Words] = []
    for value, printed in published.points("student_accuracy", dataset=dataset):
        accuracy = within(printed)
        style = MECHANISMS.get(value.mechanism or "", LineStyle(GREY, "d"))
        cited = "" if value.queries else f"{value.row}, cited by "
        hollow(axis, value.value, accuracy, BLACK, style.marker, f"published: {cited}{value.source}")
        if value.queries:
            found.append((value.value, accuracy, f"T = {value.queries:,}"))
    return found


def _of_records(students: "pd.DataFrame") -> bool:
    """Whether some teachers are records, so that a shard is one record as with DP-SGD."""
    return any(model in MODELS and on_queries(model) for model in students["model"])


def _draw_published_models(axis: "Axes", published: Published, dataset: str) -> None:
    """What papers print of models that are private themselves: one outline for each paper."""
    for value, accuracy in published.points("private_model_accuracy", dataset=dataset):
        marker = _MARKERS_FRONTIER[OF_RECORDS.index(value.paper)]
        hollow(axis, value.value, within(accuracy), PURPLE, marker, f"published: {value.source}, of one record")


def _draw_baseline(axis: "Axes", students: "pd.DataFrame") -> None:
    row = students.iloc[0]
    mean, std = row["baseline_accuracy_mean"], row["baseline_accuracy_std"]
    level(axis, within(mean), "without privacy")
    if std == std:
        axis.axhspan(mean - std, within(mean + std), color=GREY, alpha=0.12, linewidth=0, zorder=0)


def _draw_naming(axis: "Axes", namings: "pd.DataFrame") -> None:
    """What public data alone tells apart: as many clusters as the most that were named by true labels."""
    if not namings.empty:
        most = namings["clusters"].max()
        mean = namings.loc[namings["clusters"] == most, "accuracy"].mean()
        words = f"ε = 0: {most} public clusters, named by true labels"
        axis.axhline(within(mean), color=GREY, linestyle=(0, (1, 2)), linewidth=1.3, zorder=0, label=words)


def _endless(students: "pd.DataFrame") -> str:
    """The students for whose labels no finite ε holds, in words: no place on the axis is theirs."""
    endless = students[students["worst_case_epsilon_mean"] == math.inf]
    named = [_reached(str(mechanism), rows) for mechanism, rows in endless.groupby("mechanism", sort=False)]
    return "\n" + textwrap.fill("ε = ∞: " + "; ".join(named), 100) if named else ""


def _reached(mechanism: str, students: "pd.DataFrame") -> str:
    """At which T, and how accurate."""
    numbers = ", ".join(map(str, sorted(students["queries"].unique())))
    accuracy = sorted({f"{100 * value:.4g}" for value in students["accuracy_mean"].agg(["min", "max"])}, key=float)
    return f"{in_words(mechanism)}, T = {numbers} ({' to '.join(accuracy)}%)"


def _main(*paths: str) -> None:
    import pandas as pd

    if len(paths) < 2:
        sys.exit("usage: python -m patebench.reporting.figures.utility_figures OUT.png TABLE.csv…")
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
