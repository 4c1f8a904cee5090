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
    """One series per family of ensembles; bars are one standard deviation over the seeds."""
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
    """(a) accuracy over n, (b) queries of distance k at the most teachers, (c) queries of distance 3 over n."""
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
    _dress(axes)
    return finished(figure, axes)


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


_PANEL_DISTILLATION = (*FAMILY, "ensemble", "teachers", "distilled")

#: The kinds of labels of the paper; other temperatures take what is free.
_LABELS = {
    "plurality": LineStyle(ORANGE, "s", (0, (1, 1.2))),
    "soft, T = 1": LineStyle(GREEN, "^", (0, (4, 1.5))),
    "soft, T = 5": LineStyle(BLUE, "o", "-"),
}


def draw_distillation(records: Records, published: Published) -> "Figure":
    """One panel per ensemble and learner, one line per kind of label; bars are one deviation over the seeds."""
    learnt = records.distillations
    if learnt.empty:
        return empty()
    learnt = learnt.assign(kind=kinds(learnt))
    styles = line_styles(learnt["kind"], _LABELS)
    heads = titles(learnt, _PANEL_DISTILLATION)
    names = {panel: f"{head}, n = {panel[-2]}\nstudent: {in_words(panel[-1])}" for panel, head in heads.items()}
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        _draw(axis, members(learnt, panel, _PANEL_DISTILLATION), styles)
        ensembles = members(records.ensembles, panel[:-1], _PANEL_DISTILLATION[:-1])
        level(axis, ensembles["plurality_accuracy_test"].mean(), "the ensemble itself")
        accuracy_over(axis, "samples learnt from, labelled without noise: ε = ∞", "accuracy on the test set")
    return finished(figure, axes)


def kinds(learnt: "pd.DataFrame") -> list[str]:
    """What the labels of each row are, in words."""
    rows = zip(learnt["labels"], learnt["temperature"], strict=True)
    return [f"soft, T = {temperature:g}" if labels == "soft" else labels for labels, temperature in rows]


def _draw(axis: "Axes", learnt: "pd.DataFrame", styles: dict[str, LineStyle]) -> None:
    for kind in (kind for kind in styles if kind in set(learnt["kind"])):
        points = over_seeds(learnt[learnt["kind"] == kind], ["samples"], ["accuracy"])
        means(axis, points, "samples", "accuracy", **styles[kind].settings, capsize=2, label=kind)


_SETTING = ("dataset", "setting")
_PANEL_LEARNING_CURVES = (*_SETTING, "learner")
#: Sums of the same numbers in another order are others.
_ORDER = ["mechanism", "noise", "ensemble", "student", "rounds", "seed"]


def draw_learning_curves(records: Records, published: Published) -> "Figure":
    """One panel per data set, method and strategy, or form of a private model; each line is the mean over seeds and
    settings, a band one standard deviation. A line is of one T, one number of teachers, one ε."""
    learners = _learners(records)
    if learners.empty:
        return empty()
    names = {
        panel: f"{title} · {in_words(panel[-1])}" for panel, title in titles(learners, _PANEL_LEARNING_CURVES).items()
    }
    lines = sorted(set(learners["line"]), key=natural)
    styles = styles_in_order(lines)
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        here = members(learners, panel, _PANEL_LEARNING_CURVES)
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
    """All that learnt over epochs or steps: its panel, its line, its curve, and whether it is private itself."""
    import pandas as pd

    students, models = records.students.sort_values(_ORDER), _private_models(records.private_models)
    way = (" · " + students["strategy"]).where(students["strategy"] != "", "")
    students = students.assign(learner=students["method"] + way, line="T = " + students["queries"].astype(str))
    both = [
        each[[*_PANEL_LEARNING_CURVES, "line", "learning_curve"]].assign(private=own)
        for each, own in ((students, 0), (models, 1))
    ]
    found = pd.concat(both, ignore_index=True)
    return found[[len(_accuracies(curve)) > 0 for curve in found["learning_curve"]]]


def _private_models(models: "pd.DataFrame") -> "pd.DataFrame":
    """One row for each private model and seed. What is claimed of an ensemble's student says nothing of it: such
    students are told apart by their teachers alone, all others by ε, which is that of the setting's mean."""
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
    """The accuracies on the test set, over their trainings."""
    for line in sorted(set(learners["line"]), key=natural):
        shares, accuracies = _abreast(list(learners.loc[learners["line"] == line, "learning_curve"]))
        style, mean = styles[line], accuracies.mean(axis=0)
        axis.plot(shares, mean, color=style.color, linestyle=style.line, linewidth=1.4, label=line)
        if len(accuracies) > 1:
            apart = accuracies.std(axis=0, ddof=1)
            axis.fill_between(shares, mean - apart, mean + apart, color=style.color, alpha=0.15, linewidth=0)


def _abreast(curves: list[list[dict[str, float]]]) -> tuple["Array", "Array"]:
    """Shares of the training at which any was measured, and the accuracies there (curves, shares): lines between."""
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
    """The range of the accuracies that leaves out the first steps, where all know nothing."""
    found = [list(_accuracies(curve).values()) for curve in learners["learning_curve"]]
    low, high = min(each[len(each) // 4] for each in found), max(max(each) for each in found)
    margin = max(0.05 * (high - low), 0.005)
    return low - margin, high + margin


def _accuracies(curve: list[dict[str, float]]) -> dict[float, float]:
    """The accuracy at each epoch, or step, after which it was measured."""
    return {_position(at): at["accuracy"] for at in curve if "accuracy" in at}


def _position(at: dict[str, float]) -> float:
    """How many epochs a point of a curve lies after the beginning or, of DP-SGD, how many steps."""
    return at["epoch"] if "epoch" in at else at["step"]


#: More pictures say no more.
_MOST = 6
_SHOWN = ["dataset", "mechanism", "noise", "queries", "strategy"]


def draw_generated_samples(records: Records, published: Published) -> "Figure":
    """The students of the first seed, in the order of their names."""
    students = records.students
    students = students[students["picture"].notna()]
    if students.empty:
        return empty()
    named = arrange(students, [*_SHOWN, "ensemble", "seed"])
    shown = named.drop_duplicates(_SHOWN).head(_MOST).to_dict("records")
    figure, axes = panels([_title(row) for row in shown], sharey=False)
    for axis, row in zip(axes, shown, strict=True):
        _show(axis, row["picture"])
    figure.set_figheight(0.62 * figure.get_figheight())
    return figure


def _title(row: dict[Any, Any]) -> str:
    mechanism = f"{in_words(row['mechanism'])}, {parameters_in_words(row['mechanism'], row['parameters'])}"
    return f"{in_words(row['dataset'])} · {mechanism}, T = {row['queries']} {in_words(row['strategy'])}".strip()


def _show(axis: "Axes", picture: str) -> None:
    from matplotlib.image import imread

    image: Any = imread(io.BytesIO(base64.b64decode(picture)), format="png")
    grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1} if image.ndim == 2 else {}
    axis.imshow(image, **grey, interpolation="nearest")
    axis.set_axis_off()
