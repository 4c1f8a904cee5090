"""How ensembles agree, and how students learn."""

import base64
import io
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Kind
from patebench.reporting.figures.drawing import FAMILY, accuracy_over, at_values, level, means, members, titles
from patebench.reporting.frames import Records, arrange, natural, over_seeds
from patebench.reporting.outcomes import NZC_DISTANCE, gap_share, gap_shares, trained
from patebench.reporting.published import NZC_2020, Published
from patebench.reporting.sections import IMMUTABLE
from patebench.reporting.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    LineStyle,
    empty,
    finished,
    hollow,
    labelled,
    legend,
    line_styles,
    panels,
    percent,
    styles_in_order,
)
from patebench.reporting.wording import epsilon_in_digits, in_words, parameters_in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from patebench.accounting.logspace import Array


def draw_gap(records: Records, published: Published) -> "Figure":
    """Draw the mean gap between the two largest counts over n (PATE 2017, Figure 3)."""
    ensembles = trained(records.ensembles)
    if ensembles.empty:
        return empty()
    names = titles(ensembles)
    styles = line_styles(names)
    figure, (axis,) = panels([""])
    for family, name in names.items():
        points = over_seeds(members(ensembles, family), ["teachers", "epochs"], ["gap_mean"])
        means(axis, points, "teachers", "gap_mean", **styles[family].settings, capsize=4, label=name)
    at_values(axis, sorted(ensembles["teachers"].unique()), "number of teachers n")
    axis.set_ylim(0, 1.02)
    percent(axis, "mean gap (largest − second count) / n")
    return finished(figure, [axis])


def draw_distance(records: Records, published: Published) -> "Figure":
    """Draw Figure 2 of NZC (Sun et al. 2020): what its distance gate lets through.

    (a) accuracy over n, (b) queries of distance k at the most teachers, (c) queries of distance 3 over n.
    """
    ensembles = trained(records.ensembles)
    if ensembles.empty:
        return empty()
    printed_for = {value.dataset for value in published.of(NZC_2020).values}
    if not (set(records.label_sets["mechanism"]) & set(IMMUTABLE) or set(ensembles["dataset"]) & printed_for):
        return empty()
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
        at_values(axis, sorted(marked), "number of teachers n")
    axes[1].axvline(NZC_DISTANCE, color=GREY, linestyle=(0, (6, 3)), linewidth=1.0, label=f"distance {NZC_DISTANCE}")
    axes[1].set_xlabel("k votes between the two largest counts, at least")
    for axis, words in zip(axes, ("accuracy", "share of the queries", "share of the queries"), strict=True):
        percent(axis, words)
        axis.set_ylim(top=min(axis.get_ylim()[1], 1.02))  # no share is larger than 1
    return finished(figure, axes)


def _draw_over_teachers(
    axis: "Axes", ensembles: "pd.DataFrame", value: str, style: LineStyle, name: str, faint: bool = False
) -> None:
    points = over_seeds(ensembles, ["teachers"], [value])
    how = {"linestyle": ":", "markerfacecolor": "white"} if faint else {"linestyle": "-"}
    means(axis, points, "teachers", value, **{**style.settings, **how}, capsize=4, label=name)


def _draw_over_distances(axis: "Axes", ensembles: "pd.DataFrame", style: LineStyle, name: str) -> None:
    """Draw the mean share over the seeds, and the least and the largest."""
    if ensembles.empty:
        return
    curves = [gap_shares(gaps) for gaps in ensembles["gap_histogram"]]
    low, high = ([extreme(column) for column in zip(*curves, strict=True)] for extreme in (min, max))
    middle = [sum(column) / len(curves) for column in zip(*curves, strict=True)]
    axis.step(range(len(middle)), middle, where="mid", color=style.color, label=name)
    axis.fill_between(range(len(middle)), low, high, step="mid", color=style.color, alpha=0.18, linewidth=0)


def _draw_published(axis: "Axes", paper: Published, dataset: str) -> set[int]:
    """Draw Tables 3 and 2 of the paper; return their numbers of teachers."""
    values = [
        (value, marker, what)
        for quantity, marker, what in (
            ("teacher_accuracy", "d", "one teacher"),
            ("plurality_accuracy", "s", "ensemble"),
        )
        for value in paper.select(quantity, dataset=dataset)
        if value.teachers
    ]
    for value, marker, what in values:
        hollow(axis, value.teachers or 0, value.value, GREY, marker, f"published: {in_words(dataset)}, {what}")
    return {value.teachers for value, _, _ in values if value.teachers}


_DISTILLED = (*FAMILY, "ensemble", "teachers", "distilled")

#: Styles of the kinds of labels of the paper.
_LABELS = {
    "plurality": LineStyle(ORANGE, "s", (0, (1, 1.2))),
    "soft, T = 1": LineStyle(GREEN, "^", (0, (4, 1.5))),
    "soft, T = 5": LineStyle(BLUE, "o", "-"),
}


def draw_distillation(records: Records, published: Published) -> "Figure":
    """Draw what probabilities teach beyond plain labels, over the number of samples (PATE 2017, Figure 5)."""
    learnt = records.distillations
    if learnt.empty:
        return empty()
    kinds = zip(learnt["labels"], learnt["temperature"], strict=True)
    learnt = learnt.assign(kind=[f"soft, T = {T:g}" if labels == "soft" else labels for labels, T in kinds])
    styles = line_styles(learnt["kind"], _LABELS)
    heads = titles(learnt, _DISTILLED)
    names = {panel: f"{head}, n = {panel[-2]}\nstudent: {in_words(panel[-1])}" for panel, head in heads.items()}
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        own = members(learnt, panel, _DISTILLED)
        for kind in (kind for kind in styles if kind in set(own["kind"])):
            points = over_seeds(own[own["kind"] == kind], ["samples"], ["accuracy"])
            means(axis, points, "samples", "accuracy", **styles[kind].settings, capsize=2, label=kind)
        ensembles = members(records.ensembles, panel[:-1], _DISTILLED[:-1])
        level(axis, ensembles["plurality_accuracy_test"].mean(), "the ensemble itself")
        accuracy_over(axis, "samples learnt from, labelled without noise: ε = ∞", "accuracy on the test set")
    return finished(figure, axes)


_SETTING = ("dataset", "setting")
_LEARNER = (*_SETTING, "learner")
#: Fixed order, as sums depend on it in the last digit.
_ORDER = ["mechanism", "noise", "ensemble", "student", "rounds", "seed"]


def draw_learning_curves(records: Records, published: Published) -> "Figure":
    """Draw test accuracy over each training, measured afterwards: a panel per data set, method and strategy or form.

    A line is the mean over seeds and settings of one T, number of teachers and ε; the band is one standard deviation.
    """
    learners = _learners(records)
    if learners.empty:
        return empty()
    names = {panel: f"{title} · {in_words(panel[-1])}" for panel, title in titles(learners, _LEARNER).items()}
    lines = sorted(set(learners["line"]), key=natural)
    styles = styles_in_order(lines)
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        here = members(learners, panel, _LEARNER)
        _draw_lines(axis, here, styles)
        of_kind = learners["private"] == here["private"].iloc[0]
        axis.set_ylim(*_limits(members(learners[of_kind], panel[:2], _SETTING)))
        axis.set_xlabel("share of the training")
        axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
        percent(axis, "accuracy on the test set")
    entries = labelled(axes)
    legend(figure, {label: entries[label] for label in sorted(entries, key=natural)})
    return figure


def _learners(records: Records) -> "pd.DataFrame":
    """Return all that learnt over epochs or steps: panel, line, curve, and whether it is private itself."""
    import pandas as pd

    students, models = records.students.sort_values(_ORDER), _private_models(records.private_models)
    way = (" · " + students["strategy"]).where(students["strategy"] != "", "")
    students = students.assign(learner=students["method"] + way, line="T = " + students["queries"].astype(str))
    both = [
        each[[*_LEARNER, "line", "learning_curve"]].assign(private=own) for each, own in ((students, 0), (models, 1))
    ]
    found = pd.concat(both, ignore_index=True)
    return found[[len(_accuracies(curve)) > 0 for curve in found["learning_curve"]]]


def _private_models(models: "pd.DataFrame") -> "pd.DataFrame":
    """Return a row per private model and seed, with its line: its teachers, and ε as the mean of the setting.

    Students with a claimed ε are told apart by their teachers only, as the claim says nothing about them.
    """
    import pandas as pd

    same = [*_SETTING, "system", "form", "private_model"]
    models = models.sort_values([*same, "seed", "epsilon"]).drop_duplicates([*same, "seed"])
    spent = models.groupby(same)["epsilon"].transform("mean")
    lines = []
    for epsilon, kind, teachers in zip(spent, models["kind"], models["teachers"], strict=True):
        claimed, of = kind == Kind.CLAIMED, "" if pd.isna(teachers) else f"n = {teachers}"
        cost = f"ε = {epsilon_in_digits(epsilon)}" + (", claimed" if claimed else "")
        lines.append(of if of and claimed else ", ".join(filter(None, [of, cost])))
    return models.assign(learner=models["system"] + " · " + models["form"], line=lines)


def _draw_lines(axis: "Axes", learners: "pd.DataFrame", styles: dict[str, LineStyle]) -> None:
    """Draw mean and deviation of each line."""
    for line in sorted(set(learners["line"]), key=natural):
        shares, accuracies = _abreast(list(learners.loc[learners["line"] == line, "learning_curve"]))
        style, mean = styles[line], accuracies.mean(axis=0)
        axis.plot(shares, mean, color=style.color, linestyle=style.line, linewidth=1.4, label=line)
        if len(accuracies) > 1:
            apart = accuracies.std(axis=0, ddof=1)
            axis.fill_between(shares, mean - apart, mean + apart, color=style.color, alpha=0.15, linewidth=0)


def _abreast(curves: list[list[dict[str, float]]]) -> tuple["Array", "Array"]:
    """Return shares of the training at which any curve was measured, and accuracies (curves, shares) interpolated."""
    import numpy as np

    each = [_accuracies(curve) for curve in curves]
    shares = [np.array(list(found)) / _position(curve[-1]) for found, curve in zip(each, curves, strict=True)]
    measured = np.unique(np.concatenate(shares))
    common = measured[
        (measured >= max(found[0] for found in shares)) & (measured <= min(found[-1] for found in shares))
    ]
    grid = common if len(common) else measured
    return grid, np.array([np.interp(grid, x, list(y.values())) for x, y in zip(shares, each, strict=True)])


def _limits(learners: "pd.DataFrame") -> tuple[float, float]:
    """Return the range of accuracies without the first quarter, in which nothing is learnt yet."""
    found = [list(_accuracies(curve).values()) for curve in learners["learning_curve"]]
    low, high = min(each[len(each) // 4] for each in found), max(max(each) for each in found)
    margin = max(0.05 * (high - low), 0.005)
    return low - margin, high + margin


def _accuracies(curve: list[dict[str, float]]) -> dict[float, float]:
    """Return the accuracy by the epoch or step after which it was measured."""
    return {_position(at): at["accuracy"] for at in curve if "accuracy" in at}


def _position(at: dict[str, float]) -> float:
    """Return the number of epochs or, for DP-SGD, steps at a point of a curve."""
    return at["epoch"] if "epoch" in at else at["step"]


#: Maximum number of pictures.
_MOST = 6
_SHOWN = ["dataset", "mechanism", "noise", "queries", "strategy"]


def draw_generated_samples(records: Records, published: Published) -> "Figure":
    """Draw what generators of GAN students of the first seed draw, one picture per kind of label set."""
    from matplotlib.image import imread

    students = records.students
    students = students[students["picture"].notna()]
    if students.empty:
        return empty()
    named = arrange(students, [*_SHOWN, "ensemble", "seed"])
    shown = named.drop_duplicates(_SHOWN).head(_MOST).to_dict("records")
    figure, axes = panels([_title(row) for row in shown], sharey=False)
    for axis, row in zip(axes, shown, strict=True):
        image: Any = imread(io.BytesIO(base64.b64decode(row["picture"])), format="png")
        grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1} if image.ndim == 2 else {}
        axis.imshow(image, **grey, interpolation="nearest")
        axis.set_axis_off()
    figure.set_figheight(0.62 * figure.get_figheight())
    return figure


def _title(row: dict[Any, Any]) -> str:
    mechanism = f"{in_words(row['mechanism'])}, {parameters_in_words(row['mechanism'], row['parameters'])}"
    return f"{in_words(row['dataset'])} · {mechanism}, T = {row['queries']} {in_words(row['strategy'])}".strip()
