"""How students, and models that are private themselves, learnt: test accuracy over the course of each training, drawn
afterwards; it steers nothing."""

from typing import TYPE_CHECKING

from patebench.core.bound import Kind
from patebench.reporting.figures.panels import members, titles
from patebench.reporting.frames import Records, natural
from patebench.reporting.published import Published
from patebench.reporting.style import LineStyle, empty, labelled, legend, panels, percent, styles_in_order
from patebench.reporting.wording import epsilon_in_digits, in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from patebench.accounting.logspace import Array

_SETTING = ("dataset", "setting")
_PANEL = (*_SETTING, "learner")
#: Sums of the same numbers in another order are others.
_ORDER = ["mechanism", "noise", "ensemble", "student", "rounds", "seed"]


def draw(records: Records, published: Published) -> "Figure":
    """One panel per data set, method and strategy, or form of a private model; each line is the mean over seeds and
    settings, a band one standard deviation. A line is of one T, one number of teachers, one ε."""
    learners = _learners(records)
    if learners.empty:
        return empty("Nothing in this run learnt over epochs,\nso there are no learning curves.")
    names = {panel: f"{title} · {in_words(panel[-1])}" for panel, title in titles(learners, _PANEL).items()}
    lines = sorted(set(learners["line"]), key=natural)
    styles = styles_in_order(lines)
    figure, axes = panels(list(names.values()), sharey=False)
    for axis, panel in zip(axes, names, strict=True):
        here = members(learners, panel, _PANEL)
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
    both = [each[[*_PANEL, "line", "learning_curve"]].assign(private=own) for each, own in ((students, 0), (models, 1))]
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
