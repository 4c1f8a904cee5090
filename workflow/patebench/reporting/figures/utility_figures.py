"""Figures of the accuracy of students and private models against ε, with values printed in papers."""

import math
import textwrap
from collections import Counter
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from patebench.core.bound import Adjacency, Kind
from patebench.reporting.figures.drawing import (
    SMALLER,
    accuracy_over,
    clip_accuracies,
    clip_accuracy,
    level,
    mark,
    members,
    note,
    stretch,
    titles,
)
from patebench.reporting.frames import Records, protects_labels
from patebench.reporting.outcomes import frontier, outcomes, private_models, protects_replaced_record
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
    PRIVATE_MODELS,
    PURPLE,
    WIDE,
    LineStyle,
    empty,
    finished,
    hollow,
    line_styles,
    mechanism_styles,
    panels,
    set_tooltip,
)
from patebench.reporting.tables.utility_tables import ACCURACIES, EQUAL_EPSILON, TARGETS
from patebench.reporting.wording import differing_words, in_words, parameter_words, queries_in_words

#: Columns that identify a panel.
_PANEL = ("dataset", "setting")
#: Columns that identify a panel of methods at equal ε; all ε of a panel protect the same unit.
_UNIT_PANEL = (*_PANEL, "adjacency")
_ACCURACY = "accuracy on the test set"


#: Dashes and markers of further lines of one colour, such as several students of one mechanism.
_DASHES = ((0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))
_OTHER_MARKERS = ("", "d", "p", "h", "8")


def draw_equal_epsilon(records: Records, published: Published) -> Figure:
    """Draw the test accuracy of each method against ε, with at most one point per target ε in `TARGETS`.

    A method, such as a mechanism with a student, has several settings, which differ in noise and number of queries. For
    each target, the setting with the largest ε up to the target is drawn.
    """
    return draw_table(EQUAL_EPSILON.build(records, published))


def draw_table(frame: pd.DataFrame) -> Figure:
    """Draw accuracy against ε for the methods in a table `equal-epsilon`, one panel per data set, split and adjacency.

    Each row of `frame` is a method: a student of PATE, or a private model of another system such as DP-SGD. Colour and
    marker show the mechanism that labels the student's queries, or the system and the variant of the private model.
    Dashes distinguish methods of one colour. Values printed in papers are grey.
    """
    measured = frame[[f"seeds_at_{target:g}" for target in TARGETS]].notna().any(axis=1)
    # The most accurate method is first.
    ours = sorted(frame[measured].to_dict("records"), key=lambda row: -points_by_epsilon(row)[-1][1])
    if not ours:
        return empty()
    styles_of_methods, names = _method_styles(ours), titles(frame[measured], _UNIT_PANEL)
    series = {panel: published_series(members(frame[~measured], panel, _UNIT_PANEL)) for panel in names}
    printed = dict.fromkeys(words for lines in series.values() for words in lines)
    marks = dict(zip(printed, cycle("so^Dv<>dph*X8"), strict=False))
    figure, axes = panels(list(names.values()), sharey=False, alone=(11.4, 5.2))
    for axis, panel in zip(axes, names, strict=True):
        for row in ours:
            if tuple(row[name] for name in _UNIT_PANEL) == panel:
                x, y, deviations = zip(*points_by_epsilon(row), strict=True)
                style, size = styles_of_methods[_method_label(row)]
                look: Any = {"lines": True, "markersize": size, "linewidth": 1.4, "label": _method_label(row)}
                heights, filled = list(map(clip_accuracy, y)), row["kind"] == Kind.WORST_CASE
                mark(axis, x, heights, deviations, style, filled, **look)
        for words, (points, comparable) in series[panel].items():
            x, y = zip(*points, strict=True)
            drawn: dict[str, Any] = {"color": GREY, "markerfacecolor": "white", "linewidth": 0.7, "zorder": 3}
            drawn |= {"marker": marks[words], "linestyle": (0, (1, 2)) if comparable else "", "label": words}
            axis.plot(x, list(map(clip_accuracy, y)), **drawn)
        accuracy_over(axis, f"ε   {SMALLER}", _ACCURACY)
        reached = members(frame, panel, _UNIT_PANEL)[ACCURACIES].to_numpy(float)
        stretch(axis, float(np.nanmin(reached)), float(np.nanmax(reached)))
    return finished(figure, axes)


def _method_styles(rows: list[dict[Any, Any]]) -> dict[str, tuple[LineStyle, int]]:
    """Return (line style, marker size) by method label; each of `rows` describes a method (table `equal-epsilon`)."""
    styles = line_styles(map(_style_key, rows), {**mechanism_styles(), **PRIVATE_MODELS})
    styles_of_methods: dict[str, tuple[LineStyle, int]] = {}
    seen: Counter[str] = Counter()
    for row in rows:
        if (words := _method_label(row)) not in styles_of_methods:
            style, nth = styles[_style_key(row)], seen[_style_key(row)]
            seen[_style_key(row)] += 1
            marker = _OTHER_MARKERS[(nth // len(_DASHES)) % len(_OTHER_MARKERS)] or style.marker
            dashes = _DASHES[(nth - 1) % len(_DASHES)] if nth else "-"
            styles_of_methods[words] = LineStyle(style.color, marker, dashes), 5 if nth else 7
    return styles_of_methods


def _style_key(row: dict[Any, Any]) -> str:
    return row["way"] if row["way"] in mechanism_styles() else f"{row['system']}, {row['way']}"


def _method_label(row: dict[Any, Any]) -> str:
    """Return the legend label of the method in `row`, a row of the table `equal-epsilon`.

    The label lists the system (left out for PATE), the mechanism or the variant of a private model, and the learner. In
    brackets, it adds the number of teachers if ε protects a teacher's shard, and "claimed" if ε is not a worst-case
    bound.
    """
    way, learner = in_words(row["way"]), in_words(row["learner"])
    parts = [learner] if learner == way or learner.startswith(f"{way}, ") else [way, learner]
    parts = parts if row["system"] == PATE else [row["system"], *parts]
    of_shard = row["adjacency"] == Adjacency.REPLACE_TEACHER
    notes = [f"n = {row['teachers']:,.0f}"] if of_shard else []
    notes += [] if row["kind"] == Kind.WORST_CASE else ["claimed"]
    return ", ".join(parts) + (f" ({', '.join(notes)})" if notes else "")


def points_by_epsilon(row: dict[Any, Any]) -> list[tuple[float, float, float]]:
    """Return (ε, mean accuracy, standard deviation) for each distinct ε of the method in `row`, sorted by ε.

    `row` is a row of the table `equal-epsilon`, which contains an ε and its accuracy for each target ε.
    """
    points = {}
    for target in TARGETS:
        epsilon = row[f"epsilon_at_{target:g}"]
        if epsilon == epsilon:
            points[epsilon] = (row[f"accuracy_at_{target:g}_mean"], row[f"accuracy_at_{target:g}_std"])
    return [(epsilon, *points[epsilon]) for epsilon in sorted(points)]


def published_series(rows: pd.DataFrame) -> dict[str, tuple[list[tuple[float, float]], bool]]:
    """Return the (ε, accuracy) points that papers print, grouped by paper and system.

    Parameters
    ----------
    rows : rows of the table `equal-epsilon` for methods that are printed in papers, not measured.

    Returns
    -------
    {legend label: (points, joined)}. The label names the paper and the system. `points` are pairs (ε, accuracy). If the
    paper prints several models, the accuracy at each ε is that of the best model. `joined` is True if the paper prints
    each model at every ε; only then may a line join the points.
    """
    series: dict[str, tuple[list[tuple[float, float]], bool]] = {}
    papers = rows["learner"].map(lambda learner: next(filter(learner.startswith, COMPARISONS), learner))
    for (system, paper), group in rows.groupby(["system", papers]):
        # DPMLBench measured four networks; the rows of the other study are models of many papers.
        kind = "networks" if str(paper) == DPMLBENCH_2023 else "models"
        several = f", best of {len(group)} {kind}" if len(group) > 1 else ""
        models = [{epsilon: mean for epsilon, mean, _ in points_by_epsilon(row)} for row in group.to_dict("records")]
        epsilons = sorted({epsilon for model in models for epsilon in model})
        best = [(epsilon, max(model.get(epsilon, 0.0) for model in models)) for epsilon in epsilons]
        series[f"printed: {paper}, {system}{several}"] = best, all(len(model) == len(epsilons) for model in models)
    return series


#: Meaning of filled and open markers.
_KINDS = {
    Kind.WORST_CASE: "worst-case ε, for fresh noise",
    Kind.DATA_DEPENDENT: "data-dependent ε, not publishable",
}
#: Units that the ε of a private model protects, by adjacency.
_PROTECTED: dict[str, str] = {
    Adjacency.ADD_OR_REMOVE_RECORD: "one record",
    Adjacency.REPLACE_RECORD: "one replaced record",
    Adjacency.REPLACE_LABEL: "one label",
    Adjacency.REPLACE_TEACHER: "one shard",
}


def draw_frontier(records: Records, published: Published) -> Figure:
    """Draw the accuracy of each student and private model against ε, and the Pareto front of the students.

    Colour and marker of a student show its mechanism or, if the run has more learning methods than mechanisms, its
    learning method.
    """
    students = clip_accuracies(outcomes(records), "worst_case_epsilon_mean")
    models = clip_accuracies(_name_models(private_models(records)), "epsilon_mean")
    if students.empty and models.empty:
        return empty()
    names = titles(pd.concat([students[[*_PANEL]], models[[*_PANEL]]]), _PANEL)
    by = "method" if students["method"].nunique() > students["mechanism"].nunique() else "mechanism"
    styles = students[by].map(line_styles(students[by], mechanism_styles()))
    students = students.assign(style=styles, on_frontier=frontier(students))
    models = models.assign(style=models["name"].map(line_styles(models["name"], PRIVATE_MODELS)))
    figure, axes = panels(list(names.values()), sharey=False, alone=WIDE)
    for axis, panel in zip(axes, names, strict=True):
        own, own_models = members(students, panel, _PANEL), members(models, panel, _PANEL)
        first = (own_models if own.empty else own).iloc[0]
        level(axis, clip_accuracy(first["baseline_accuracy_mean"]), "without privacy", first["baseline_accuracy_std"])
        _draw_naming(axis, members(records.namings, panel, _PANEL))
        _draw_models(axis, own_models)
        _draw_students(axis, own, "mechanism" if by == "method" else "method")
        best = own[own["on_frontier"]].sort_values("worst_case_epsilon_mean")
        if len(best) > 1:
            dashed: dict[str, Any] = {"color": BLACK, "linewidth": 0.9, "linestyle": (0, (2, 2)), "zorder": 0}
            x, y = best["worst_case_epsilon_mean"], best["accuracy_mean"]
            axis.step(x, y, where="post", label="frontier of worst-case ε", **dashed)
        if not (labels_only := protects_labels(panel[1])):
            _draw_published(axis, published, panel[0])
        records_vote = any(map(protects_replaced_record, own["model"], own["partition"]))  # as for DP-SGD
        of_one_record = not labels_only and (len(own_models) > 0 or records_vote)
        if of_one_record:
            for value, accuracy in published.of(*OF_RECORDS).points("private_model_accuracy", dataset=panel[0]):
                marker, words = "so^Dv"[OF_RECORDS.index(value.paper)], f"published: {value.source}, of one record"
                hollow(axis, value.value, clip_accuracy(accuracy), PURPLE, marker, words)
        costly = "of the student's labels" + (", or of the model" if of_one_record else "")
        accuracy_over(axis, f"ε {costly}   {SMALLER}{_infinite_epsilon_text(own)}", _ACCURACY)
        stretch(axis, *axis.dataLim.intervaly)
        axis.margins(x=0.18)
    finite = students[students["worst_case_epsilon_mean"] != math.inf]
    for thing, style in dict(zip(finite[by], finite["style"], strict=True)).items():
        axes[0].plot([], [], marker=style.marker, color=style.color, linestyle="none", label=in_words(thing))
    for kind, meaning in _KINDS.items():
        if finite[f"{kind}_epsilon_mean"].notna().any():
            fill = GREY if kind is Kind.WORST_CASE else "white"
            axes[0].plot([], [], marker="o", color=GREY, markerfacecolor=fill, linestyle="none", label=meaning)
    return finished(figure, axes)


def _name_models(models: pd.DataFrame) -> pd.DataFrame:
    """Return `models` with a column `name` that states system and form, such as "DP-SGD, linear".

    Of several models with the same name and ε, only the most accurate is kept.
    """
    named = models.assign(name=models["system"] + ", " + models["form"])
    ranked = named.sort_values("accuracy_mean", ascending=False, kind="stable")
    return ranked.drop_duplicates([*_PANEL, "name", "epsilon_mean", "delta", "kind", "adjacency"])


def _draw_students(axis: Axes, students: pd.DataFrame, noted_column: str) -> None:
    """Draw a filled marker per student at its worst-case ε, and an open marker at its data-dependent ε.

    A thin line joins the two markers. If both ε are equal, the open marker is left out. Students with an infinite ε are
    left out too. Students on the Pareto front get a note (see `_notes`), which can contain the value in the column
    `noted_column`: "mechanism" or "method" (the learning method of the student).
    """
    finite = students[students["worst_case_epsilon_mean"] < math.inf]
    for index, words in _notes(finite, noted_column).items():
        row = finite.loc[index]
        x, y, style = row["worst_case_epsilon_mean"], row["accuracy_mean"], row["style"]
        drawn = mark(axis, x, y, row["accuracy_std"], style, x_deviation=row["worst_case_epsilon_std"])
        set_tooltip(drawn, f"{in_words(row['mechanism'])}, {in_words(row['method'])}: {words}; {100 * y:.2f} %")
        leaky = row["data_dependent_epsilon_mean"]
        if math.isfinite(leaky) and leaky != x:  # at equal ε, the open marker would cover the filled one
            axis.plot([x, leaky], [y, y], color=style.color, linewidth=0.6, alpha=0.5, zorder=1)
            small = {"markersize": 4.5, "alpha": 0.7, "x_deviation": row["data_dependent_epsilon_std"]}
            mark(axis, leaky, y, row["accuracy_std"], style, False, **small)
        if row["on_frontier"]:
            note(axis, x, y, words)


def _notes(students: pd.DataFrame, noted_column: str) -> dict[Any, str]:
    """Return {index in `students`: note}, where a note is a short text on the student such as "T = 100".

    Each note states the number of queries T. The number of teachers is added if the students differ in this number. The
    value in the column `noted_column` is added unless it is the most frequent value. Noise parameters are added to
    notes that would otherwise be equal.
    """
    usual = students[noted_column].mode()[0] if len(students) else ""
    several = students["teachers"].nunique() > 1
    words, noises, notes = {}, {}, {}
    for index, row in students.iterrows():
        parts = [in_words(row[noted_column])] if row[noted_column] != usual else []
        parts += [f"n = {row['teachers']:,}"] if several else []
        words[index] = ", ".join([*parts, queries_in_words(f"T = {row['queries']:,}", row["strategy"])])
        noises[index] = parameter_words(row["mechanism"], row["parameters"])
    for index, name in words.items():
        same = [noises[other_index] for other_index in [index, *words] if words[other_index] == name]
        notes[index] = ", ".join(filter(None, [name, differing_words(same)[0]]))
    return notes


def _draw_models(axis: Axes, models: pd.DataFrame) -> None:
    """Draw the accuracy of private models against ε. Markers are filled if ε is a worst-case bound, otherwise open."""
    finite = models[models["epsilon_mean"] < math.inf].sort_values("epsilon_mean")
    for (name, kind), rows in finite.groupby(["name", "kind"], sort=False):
        style: LineStyle = rows["style"].iloc[0]
        x, y, deviation = (rows[name].to_numpy(float) for name in ("epsilon_mean", "accuracy_mean", "accuracy_std"))
        claimed = " (claimed)" if kind == Kind.CLAIMED else ""
        words = f"{in_words(str(name))}, of {_PROTECTED[rows['adjacency'].iloc[0]]}{claimed}"
        dotted = LineStyle(style.color, style.marker, (0, (1, 2)))
        mark(axis, x, y, deviation, dotted, kind == Kind.WORST_CASE, label=words, lines=True, linewidth=0.9)


def _draw_published(axis: Axes, published: Published, dataset: str) -> None:
    for value, accuracy in published.of(PATE_2017, SCALABLE_2018).points("student_accuracy", dataset=dataset):
        marker = mechanism_styles().get(value.mechanism or "", LineStyle(GREY, "d")).marker
        cited = "" if value.queries else f"{value.row}, cited by "
        hollow(axis, value.value, clip_accuracy(accuracy), BLACK, marker, f"published: {cited}{value.source}")
        if value.queries:
            note(axis, value.value, clip_accuracy(accuracy), f"T = {value.queries:,}")


def _draw_naming(axis: Axes, namings: pd.DataFrame) -> None:
    """Draw a horizontal line at the accuracy of public clusters that are named by true labels.

    The name of a cluster is the most frequent true label of its samples. This accuracy needs no private data, so the
    line is labelled "ε = 0". If `namings` contains accuracies for several numbers of clusters, that of the largest
    number is drawn.
    """
    if not namings.empty:
        most = namings["clusters"].max()
        mean = namings.loc[namings["clusters"] == most, "accuracy"].mean()
        words = f"ε = 0: {most} public clusters, named by true labels"
        axis.axhline(clip_accuracy(mean), color=GREY, linestyle=(0, (1, 2)), linewidth=1.3, zorder=0, label=words)


def _infinite_epsilon_text(students: pd.DataFrame) -> str:
    """Return a text that lists the students with ε = ∞, which are not drawn; "" if there are none.

    The text is appended to the label of the horizontal axis.
    """
    endless = students[students["worst_case_epsilon_mean"] == math.inf]
    named = []
    for mechanism, rows in endless.groupby("mechanism", sort=False):
        queries = ", ".join(map(str, sorted(rows["queries"].unique())))
        accuracies = sorted({f"{100 * value:.4g}" for value in rows["accuracy_mean"].agg(["min", "max"])}, key=float)
        named.append(f"{in_words(str(mechanism))}, T = {queries} ({' to '.join(accuracies)}%)")
    return "\n" + textwrap.fill("ε = ∞: " + "; ".join(named), 100) if named else ""
