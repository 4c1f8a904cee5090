"""A verdict on every number that a paper prints: what this run measured of the same setting, and how both compare.

A number is `reproduced` where it differs by no more than the deviation over the seeds or one point of accuracy,
whichever is larger; one point of an ε or a size is 5 % of what is printed. Else it is `better` or `short`: more
accurate or less, at a smaller ε or a larger one. A claimed ε is `unsound` where an audit, or the exact ε of the votes,
is above it. What is `not comparable` says why, and what is `not run` why and by which command it would be.
"""

import math
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Kind
from patebench.core.text import at_most
from patebench.data import DATASETS
from patebench.mechanisms import MECHANISMS
from patebench.reporting.frames import Records, deviation, least, sound
from patebench.reporting.outcomes import LABEL_SET, compared_bounds, is_printed_of, petdl_students, stated_by_paper
from patebench.reporting.published import DP_SGD, PETDL, PRIVATE_KNN, SYSTEMS, Published, Value, is_accuracy, is_epsilon
from patebench.reporting.wording import WEAK, delta_in_words, epsilon_in_digits, in_words, those_that_differ

if TYPE_CHECKING:
    import pandas as pd


class Verdict(StrEnum):
    """How a printed number and the measured one compare."""

    REPRODUCED = "reproduced"
    BETTER = "better"
    SHORT = "short"
    UNSOUND = "unsound"
    NOT_COMPARABLE = "not comparable"
    NOT_RUN = "not run"


#: Of several verdicts on one number the first counts: a claim that fails in one setting fails.
COUNTING = (
    *(Verdict.UNSOUND, Verdict.REPRODUCED, Verdict.BETTER, Verdict.SHORT),
    *(Verdict.NOT_COMPARABLE, Verdict.NOT_RUN),
)

#: One point of accuracy; of other quantities a point is this share of what is printed, but no less than it rounds.
POINT = 0.01
_SHARE, _ROUNDED = 0.05, 0.005

#: What can not be compared, and why: quantities, and some of them where the number is of no mechanism or of DP-SGD.
_NOT_COMPARABLE = {
    "seconds": "the time of another machine",
    "accuracy_gain": "the paper does not name the data set",
    "epsilon_in_discussion": "the paper does not say for which queries",
    "epsilon_per_query": "the paper calls γ so; a query costs 2γ",
    "setting": "chosen, and not found",
    "epsilon_chosen": "chosen, and not found",
    "derived": "follows from other numbers of the paper",
    "gap_share_below": "can not be right, by the accuracy that the paper prints: docs/corrections.md",
    ("parameters", None): "the size of a network and not of a run",
    ("epsilon", DP_SGD): "chosen, and not found",
}
#: What of one table or row can not be compared though its quantity can.
_OF_ONE_ROW = {
    ("Scalable PATE 2018", "Figure 1 (left)"): "a plot of data that are not public",
    ("Private-kNN 2020", "SVHN Private-kNN 2939 queries"): "how many queries were asked is not told",
}

#: Data sets that can not be had here, and why; one of your own runs as docs/own-data.md says.
_NO_DATA = {
    "glyph": "the authors keep Glyph to themselves",
    "celeba": "CelebA is not among the data sets here",
    "market1501": "Market-1501 is not among the data sets here",
}

#: What every verdict says of the measured side; NaN or None where nothing was measured.
#: `result` numbers the different results: several papers may print what one of them is compared with.
_MEASURED = ("how", "measured_mean", "measured_std", "seeds", "worst_case", "exact", "audited", "result")
COLUMNS = (
    *("paper", "table", "row", "column", "dataset", "copy_of", "quantity", "published"),
    *(*_MEASURED, "verdict", "why"),
)

#: What tells a printed number from others.
NUMBER = ["paper", "table", "row", "column"]


def verdicts(records: Records, published: Published) -> "pd.DataFrame":
    """One row per printed number, and more where several settings of ours measured it; columns are `COLUMNS`.

    Of each paper of which this run measured anything: of others there is nothing to say.
    """
    import pandas as pd

    measures = _Measures(records, published)
    rows = [{**_printed(value), **found} for value in published.values for found in _judged(value, measures)]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["result"] = frame["result"].map(
        {each: number for number, each in enumerate(frame["result"].dropna().unique())}
    )
    touched = set(frame.loc[frame["measured_mean"].notna(), "paper"])
    return frame[frame["paper"].isin(touched)].reset_index(drop=True)


def tolerance(quantity: str, published: float, deviation: float) -> float:
    """By how much a measured mean may differ from what is printed and reproduce it."""
    point = POINT if is_accuracy(quantity) else max(_SHARE * published, _ROUNDED)
    return point if math.isnan(deviation) else max(point, deviation)


def compare(quantity: str, published: float, mean: float, deviation: float) -> Verdict:
    """The verdict on a number, from the mean over the seeds and its deviation (NaN for one seed)."""
    if quantity == "epsilon_above":  # the paper prints "> 8.03"
        return Verdict.REPRODUCED if mean > published else Verdict.BETTER
    if quantity == "answered":
        near = abs(mean - published) <= tolerance(quantity, published, deviation)
        return Verdict.REPRODUCED if near else Verdict.BETTER if mean > published else Verdict.SHORT
    if abs(mean - published) <= tolerance(quantity, published, deviation):
        return Verdict.REPRODUCED
    return Verdict.BETTER if (mean > published) == is_accuracy(quantity) else Verdict.SHORT


def _printed(value: Value) -> dict[str, Any]:
    names = ("paper", "table", "row", "column", "dataset", "copy_of", "quantity")
    return {**{name: getattr(value, name) for name in names}, "published": value.value}


def why_not(value: Value) -> str | None:
    """Why a number can not be compared with anything that a run measures; None where it can."""
    return (
        _NOT_COMPARABLE.get(value.quantity)
        or _NOT_COMPARABLE.get((value.quantity, value.mechanism))
        or _OF_ONE_ROW.get((value.paper, value.table))
        or _OF_ONE_ROW.get((value.paper, value.row))
    )


def at_epsilon(spent: float, printed: float | None) -> bool:
    """Whether a model stands beside a printed one: its ε is at most the printed, and at least nine tenths of it."""
    return printed is not None and 0.9 * printed <= spent <= printed * (1 + 1e-9)


def no_way(value: Value, published: Published) -> str | None:
    """Why no configuration here measures a number that could be compared; None where one may."""
    if value.dataset not in DATASETS:
        return _NO_DATA.get(value.dataset, f"the data set {value.dataset} is not among those here")
    spent = published.spent(value) if value.quantity == "accuracy_at_epsilon" else None
    if spent is not None and spent > WEAK:
        return f"nothing here spends ε = {spent:g}, which says little of privacy"
    known = (None, DP_SGD, PETDL, PRIVATE_KNN, *MECHANISMS)
    return None if value.mechanism in known else f"no {value.mechanism} here"


def _judged(value: Value, measures: "_Measures") -> list[dict[str, Any]]:
    """The verdicts on a number. On a copy of its data set only what was measured has one, and reproduces nothing; a
    claim that fails there fails."""
    found = _judged_alike(value, measures)
    if value.copy_of is None:
        return found
    why = f"measured on {in_words(value.dataset)}, a changed copy of {in_words(value.copy_of)}"
    other = {"verdict": Verdict.NOT_COMPARABLE, "why": why}
    return [each if each["verdict"] == Verdict.UNSOUND else each | other for each in found if "measured_mean" in each]


def _judged_alike(value: Value, measures: "_Measures") -> list[dict[str, Any]]:
    if (why := why_not(value)) is not None:
        return [{"verdict": Verdict.NOT_COMPARABLE, "why": why}]
    found = measures.of(value)
    if found.empty:
        return [{"verdict": Verdict.NOT_RUN, "why": no_way(value, measures.published) or measures.how_to_run(value)}]
    return [_of_one(value, str(how), group) for how, group in found.groupby("how", sort=True)]


def _of_one(value: Value, how: str, group: "pd.DataFrame") -> dict[str, Any]:
    """The verdict on a number by one setting of ours, over its seeds."""
    measured = group["measured"].sort_values()  # so that the last digits depend on no order of records
    mean, std = float(measured.mean()), float(deviation(measured))
    found: dict[str, Any] = {"how": how, "measured_mean": mean, "measured_std": std}
    found |= {"seeds": group["seed"].nunique(), "verdict": compare(value.quantity, value.value, mean, std)}
    found["result"] = (is_accuracy(value.quantity) or value.quantity, how, mean, *sorted(group.index))
    found["why"] = ""
    for name, column in (("worst_case", "least_sound"), ("exact", "least_exact"), ("audited", "audited")):
        if column in group and group[column].notna().any():
            found[name] = float(group[column].max())
    lost = max(found.get("exact", 0.0), found.get("audited", 0.0))
    claimed = is_epsilon(value.quantity) and "kind" in group and (group["kind"] == Kind.CLAIMED).all()
    if claimed and lost > max(value.value, mean) * (1 + 1e-9):
        found["verdict"] = Verdict.UNSOUND
        found["why"] = f"what is claimed loses at least ε = {epsilon_in_digits(lost, at_least=True)}"
    return found


@dataclass(frozen=True)
class _Measures:
    """What a run measured of a printed quantity: frames with `how`, `seed` and `measured`, one row per seed."""

    records: Records
    published: Published

    @cached_property
    def _compared(self) -> "pd.DataFrame":
        return compared_bounds(self.records)

    @cached_property
    def _petdl_students(self) -> "pd.DataFrame":
        return petdl_students(self.records)

    def of(self, value: Value) -> "pd.DataFrame":
        """The rows of the same setting; none where this run has no such."""
        if value.mechanism == PETDL:
            return self._petdl(value).dropna(subset="measured")
        if value.mechanism == PRIVATE_KNN and value.quantity == "accuracy_at_epsilon":
            return self._at_epsilon(value, SYSTEMS[PRIVATE_KNN]).dropna(subset="measured")
        if value.mechanism == PRIVATE_KNN and value.quantity != "baseline_accuracy":
            return self._private_knn(value)
        ways: dict[str, Callable[[Value], pd.DataFrame]] = {
            "teacher_accuracy": self._teachers,
            "plurality_accuracy": self._plurality,
            "label_accuracy": self._labels,
            "student_accuracy": self._private_model if value.mechanism == DP_SGD else self._students,
            "ground_truth_student_accuracy": self._true_labels,
            "baseline_accuracy": self._baseline,
            "private_model_accuracy": self._private_model,
            "accuracy_at_epsilon": self._private_model if value.mechanism == DP_SGD else self._students_at,
            "answered": self._answered,
        }
        return ways.get(value.quantity, self._bounds)(value).dropna(subset="measured")

    def _teachers(self, value: Value) -> "pd.DataFrame":
        return _same(self.records.ensembles, value, "teacher_accuracy_mean", ("dataset", "teachers"), _TEACHERS)

    def _plurality(self, value: Value) -> "pd.DataFrame":
        return _same(self.records.ensembles, value, "plurality_accuracy_pool", ("dataset", "teachers"), _TEACHERS)

    def _labels(self, value: Value) -> "pd.DataFrame":
        frame = self.records.of_whole_pool().label_sets
        return _same(frame, value, "label_accuracy", _LABELLED, (*_TEACHERS, "setting"))

    def _students(self, value: Value) -> "pd.DataFrame":
        frame = self.records.students
        return _same(
            frame, value, "accuracy", (*_LABELLED, "queries"), ("method", "student_model", "strategy", *_TEACHERS)
        )

    def _true_labels(self, value: Value) -> "pd.DataFrame":
        frame = self.records.baselines.rename(columns={"true_labels": "queries"})
        return _same(frame[frame["queries"].notna()], value, "accuracy", ("dataset", "queries"), _LEARNER)

    def _baseline(self, value: Value) -> "pd.DataFrame":
        frame = self.records.baselines
        return _same(frame[frame["true_labels"].isna()], value, "accuracy", ("dataset",), _LEARNER)

    def _answered(self, value: Value) -> "pd.DataFrame":
        keys = (*_LABELLED, "queries")
        labels = self.records.students.drop(columns="student")  # which learn of the same labels
        return _same(labels, value, "answered", keys, _TEACHERS).drop_duplicates(["how", "seed"])

    def _private_model(self, value: Value) -> "pd.DataFrame":
        """Models by DP-SGD that keep what the paper keeps, and spend at least nine tenths of it."""
        return self._at_epsilon(value, SYSTEMS[DP_SGD])

    def _at_epsilon(self, value: Value, system: str) -> "pd.DataFrame":
        """Private models of a system at the ε of the printed number."""
        frame = self.records.private_models
        frame = frame[(frame["system"] == system) & self._spent(value, frame["epsilon"], frame["delta"])]
        frame = frame.assign(spent=frame["epsilon"])
        return _same(frame, value, "accuracy", ("dataset",), ("form", "model"))

    def _spent(self, value: Value, epsilon: "pd.Series[float]", delta: "pd.Series[float]") -> "pd.Series[bool]":
        """Where ε is that of the number's row, at a δ that is no larger."""
        printed = self.published.spent(value)
        return epsilon.map(lambda each: at_epsilon(each, printed)).astype(bool) & (delta <= (value.delta or 0))

    @cached_property
    def _students_with_costs(self) -> "pd.DataFrame":
        """Students, each with the least worst-case ε of its labels, at each δ."""
        by = [*LABEL_SET, "rounds", "queries", "seed", "delta"]
        costs = least(sound(self.records.bounds), by, "worst_case")
        return self.records.students.merge(costs, on=by[:-1], how="inner")

    def _students_at(self, value: Value) -> "pd.DataFrame":
        """Students of any mechanism of votes whose labels cost, in the worst case, what the paper spends."""
        frame = self._students_with_costs
        frame = frame[self._spent(value, frame["worst_case"], frame["delta"])]
        return _same(frame, value, "accuracy", ("dataset",), ("mechanism", "method", "strategy", "model"))

    def how_to_run(self, value: Value) -> str:
        """Why this run does not have a number that another would, and by which command."""
        frames = (self.records.ensembles, self.records.students, self.records.private_models)
        there = {dataset for frame in frames for dataset in frame["dataset"]}
        lacks = "such setting" if value.dataset in there else in_words(value.dataset)
        return f"this run has no {lacks}: patebench reproduce {shlex.quote(value.name)}"

    def _private_knn(self, value: Value) -> "pd.DataFrame":
        """Students of labels as published, each setting by itself, with the ε that is claimed of it."""
        frame = self.records.private_models
        frame = frame[(frame["system"] == SYSTEMS[PRIVATE_KNN]) & (frame["kind"] == Kind.CLAIMED)]
        column = "accuracy" if value.quantity == "private_model_accuracy" else "epsilon"
        return _same(frame, value, column, ("dataset", "delta"), ("private_model",))

    def _petdl(self, value: Value) -> "pd.DataFrame":
        """Students of the same kind, those of other epochs by themselves; at the printed ε, where some state that."""
        frame = self._petdl_students
        column = {"student_accuracy": "accuracy", "parameters": "model_parameters"}.get(value.quantity, "epsilon")
        places = [place for place, row in enumerate(frame.to_dict("records")) if is_printed_of(value, row)]
        frame = frame.iloc[places]
        same = {"dataset": value.dataset, "teachers": value.teachers, "parameters": value.parameters}
        printed = self.published.lookup("epsilon", paper=value.paper, mechanism=PETDL, **same)
        spent = frame["epsilon"].map(lambda each: at_epsilon(each, printed)).astype(bool)
        frame = frame[spent] if spent.any() else frame
        passes = [f"{row.hint_epochs} + {row.distillation_epochs} epochs" for row in frame.itertuples()]
        frame = frame.assign(passes=passes, epochs=frame["teacher_epochs"])
        return _same(frame, value, column, (), ("model", "partition", "passes"))

    def _bounds(self, value: Value) -> "pd.DataFrame":
        """By the accountant of the mechanism's own paper; beside it what holds, what is exact and what audits found."""
        frame = self._compared
        if value.quantity == "epsilon_strong_composition":
            frame = frame[frame["accountant"] == "strong-composition"]
        else:
            frame = frame[stated_by_paper(frame)].sort_values("kind", key=lambda kinds: kinds == Kind.WORST_CASE)
        found = _same(frame, value, "epsilon", (*_LABELLED, "queries", "delta"), _TEACHERS)
        audits = self.records.audits[self.records.audits["kind"] == Kind.AUDITED_LOWER]
        audited = _same(audits, value, "epsilon", (*_LABELLED, "queries", "delta"), ())["measured"].max()
        return found.drop_duplicates(["how", "seed"]).assign(audited=audited)


#: What tells results of one kind apart where it differs, and how it is said.
_APART: Mapping[str, Callable[[Any], str]] = {
    "epochs": lambda epochs: f"trained for {epochs} epochs",
    "setting": str,
    "teachers": lambda teachers: f"n = {teachers}",
    "noise_in_words": str,
    "queries": lambda queries: f"T = {queries}",
    "clusters": lambda clusters: f"{clusters:.0f} clusters",
    "spent": lambda epsilon: f"ε = {at_most(epsilon, 3)}",
    "delta": lambda delta: f"δ = {delta_in_words(delta)}",
}
#: And where all of that is the same: names of settings, of which the parts that differ are said.
_NAMES_APART = ("ensemble", "rounds", "student", "private_model")
_LABELLED = ("dataset", "teachers", "mechanism", "noise")
_TEACHERS = ("model", "recipe", "partition")
_LEARNER = ("model", "recipe")


def _same(
    frame: "pd.DataFrame", value: Value, measured: str, keys: Sequence[str], how: Sequence[str]
) -> "pd.DataFrame":
    """The rows whose `keys` are those of the printed number, which may leave some open.

    Where `how` is the same of networks, or of an ensemble's teachers, that were trained for several numbers of epochs,
    they are told apart, and so is what differs in anything else but the seed: their mean would be of no setting.
    """
    import pandas as pd

    for key in keys:
        if (wanted := getattr(value, key)) is not None:
            frame = frame[frame[key] == wanted]
    words = [", ".join(dict.fromkeys(str(word) for word in row if word)) for row in frame[list(how)].to_numpy()]
    for column, say in _APART.items():
        if column in frame:
            words = _apart(words, [None if pd.isna(cell) else say(cell) for cell in frame[column]])
    for column in _NAMES_APART:
        if column in frame:
            words = _apart(words, [in_words(name) for name in frame[column].fillna("")])
    return frame.assign(how=words, measured=frame[measured].astype(float))


def _apart(words: Sequence[str], others: Sequence[str | None]) -> list[str]:
    """Each of the words, with what differs of the others where those of the same words are not all alike."""
    pairs = dict.fromkeys(zip(words, others, strict=True))
    several = Counter(word for word, _ in pairs)
    for word in filter(lambda each: several[each] > 1, several):
        mine = [pair for pair in pairs if pair[0] == word]
        for pair, differs in zip(mine, those_that_differ([other or "" for _, other in mine]), strict=True):
            pairs[pair] = differs
    return [", ".join(filter(None, (word, pairs[word, other]))) for word, other in zip(words, others, strict=True)]
