"""Compare every printed number with the measurement of this run in the same setting, and give a verdict.

- `reproduced`: the measured mean differs from the number by at most a tolerance. The tolerance is one percentage point
  for an accuracy. For other numbers, such as an ε, it is 5 % of the printed number, but at least 0.005. If the standard
  deviation over the seeds is larger than this, the standard deviation is the tolerance.
- `better`: beyond the tolerance, the measured accuracy is larger, or the measured ε smaller.
- `short`: beyond the tolerance, the measured accuracy is smaller, or the measured ε larger.
- `unsound`: an audit, or the exact ε for the votes, exceeds a claimed ε.
- `not comparable`: `config/published.csv` states a reason against the comparison, or the number was measured on a
  changed copy of the paper's data set.
- `not run`: the number was not measured. A text states the reason, or the command that measures the number.
"""

import math
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Any

import pandas as pd

from patebench.core.bound import Kind
from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.core.text import at_most
from patebench.reporting.frames import (
    Records,
    deviation,
    mean_recall,
    means_and_deviations,
    smallest_epsilon,
    worst_case_bounds,
)
from patebench.reporting.outcomes import LABEL_SET, compared_bounds, is_printed_of, petdl_students, stated_by_paper
from patebench.reporting.published import DP_SGD, PETDL, PRIVATE_KNN, SYSTEMS, Published, Value, is_accuracy
from patebench.reporting.wording import (
    delta_in_words,
    differing_words,
    epsilon_in_digits,
    in_words,
    name_words,
    parameter_words,
)


class Verdict(StrEnum):
    """Verdict on a number printed in a paper, from its comparison with the measurement of the run.

    The docstring of the module defines each verdict. If a number has different verdicts in several settings, the one
    that is listed first in this class is its overall verdict. For example, a claimed ε is unsound if one setting
    contradicts it, even if another setting reproduces it.
    """

    UNSOUND = "unsound"
    REPRODUCED = "reproduced"
    BETTER = "better"
    SHORT = "short"
    NOT_COMPARABLE = "not comparable"
    NOT_RUN = "not run"


#: Minimum tolerance of an accuracy (a fraction).
POINT = 0.01
#: Tolerance of other quantities: the larger of the share `_SHARE` of the printed number and `_ROUNDED` (absolute),
#: which covers rounding in print.
_SHARE, _ROUNDED = 0.05, 0.005


_PRINTED = ("paper", "table", "row", "column", "dataset", "copy_of", "quantity")
#: Columns of `verdicts`. The columns from `how` to `result` describe the measurement, and are NaN or None without one.
#: `how` is the setting as text. `student` is the student's method, and `strategy` the selection of its queries.
#: `result` numbers the distinct results of the run, because several printed numbers may be compared with one result.
COLUMNS = (
    *(*_PRINTED, "published"),
    *("how", "student", "strategy", "measured_mean", "measured_std", "seeds"),
    *means_and_deviations(BESIDE_ACCURACY),
    *("worst_case", "exact", "audited", "result", "verdict", "why"),
)

#: Columns that identify a printed number.
NUMBER = ["paper", "table", "row", "column"]


@lru_cache(maxsize=1)
def verdicts(records: Records, published: Published) -> pd.DataFrame:
    """Return the verdicts on all printed numbers as a frame with the columns `COLUMNS`.

    A number has one row for each setting in which the run measured it, or a single row if the run did not measure it.
    Papers of which the run measured no number are left out. The frame is cached and must not be changed.
    """
    measures = _Measures(records.of_whole_records(), published)
    rows = [
        {**{name: getattr(value, name) for name in _PRINTED}, "published": value.value, **verdict}
        for value in published.values
        for verdict in _judge(value, measures)
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["result"] = frame["result"].map(
        {each: number for number, each in enumerate(frame["result"].dropna().unique())}
    )
    measured = set(frame.loc[frame["measured_mean"].notna(), "paper"])
    return frame[frame["paper"].isin(measured)].reset_index(drop=True)


def best_of_each_number(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row of `frame` per printed number: the row whose verdict comes first in the order of `Verdict`.

    `frame` is the result of `verdicts`.
    """
    ranks = {str(verdict): rank for rank, verdict in enumerate(Verdict)}
    ranked = frame.sort_values("verdict", key=lambda verdicts: verdicts.map(ranks), kind="stable")
    return ranked.drop_duplicates(NUMBER).sort_index()


def count_by_paper(best: pd.DataFrame) -> pd.DataFrame:
    """Return a table with one row per paper: how many of the printed numbers have each verdict.

    `best` has one row per printed number. The table has one column per verdict. A further column, `printed`, contains
    the number of all printed numbers of the paper.
    """
    counts = best.groupby("paper", sort=False)["verdict"].value_counts().unstack(fill_value=0)
    papers, columns = list(dict.fromkeys(best["paper"])), [str(verdict) for verdict in Verdict]
    counts = counts.reindex(index=papers, columns=columns, fill_value=0)
    counts = counts.assign(printed=counts.sum(axis=1))
    return counts.rename_axis(index="paper", columns=None).reset_index()


def compare(quantity: str, published: float, mean: float, deviation: float) -> Verdict:
    """Return `REPRODUCED`, `BETTER` or `SHORT`: the verdict on the number `published`, given the measured `mean`.

    `quantity` is the kind of number, such as "student_accuracy" or "epsilon". The tolerance depends on this kind.
    `deviation` is the standard deviation of the measurements over the seeds, NaN for one seed. `SHORT` means that the
    measured mean is worse than the printed number: a smaller accuracy, for example, or a larger ε.
    """
    if quantity == "epsilon_above":  # the paper prints "> 8.03"
        return Verdict.REPRODUCED if mean > published else Verdict.BETTER
    tolerance = POINT if is_accuracy(quantity) else max(_SHARE * published, _ROUNDED)
    if abs(mean - published) <= (tolerance if math.isnan(deviation) else max(tolerance, deviation)):
        return Verdict.REPRODUCED
    larger_is_better = is_accuracy(quantity) or quantity == "answered"
    return Verdict.BETTER if (mean > published) == larger_is_better else Verdict.SHORT


def at_epsilon(measured: float, printed: float | None) -> bool:
    """Return True if the ε `measured` is 90 % to 100 % of the ε `printed` in a paper; False if `printed` is None."""
    return printed is not None and 0.9 * printed <= measured <= printed * (1 + 1e-9)


def _judge(value: Value, measures: "_Measures") -> list[dict[str, Any]]:
    """Return the verdicts on the printed number `value`: one for each setting in which the run measured it.

    If the run did not measure the number, there is one verdict, with the reason.

    If `value.copy_of` is not None, the run used the data set `value.dataset`. This is a user's changed copy of the
    paper's data set, `value.copy_of`. In this case:

    - a measurement has the verdict `unsound` if it contradicts a claimed ε, and otherwise `not comparable`;
    - without a measurement, there is no verdict.
    """
    if value.not_comparable:
        judged = [{"verdict": Verdict.NOT_COMPARABLE, "why": value.not_comparable}]
    elif (measured := measures.of(value)).empty:
        judged = [{"verdict": Verdict.NOT_RUN, "why": value.not_run or measures.how_to_run(value)}]
    else:
        judged = [_verdict_of_setting(value, str(how), group) for how, group in measured.groupby("how", sort=True)]
    if value.copy_of is None:
        return judged
    why = f"measured on {in_words(value.dataset)}, a changed copy of {in_words(value.copy_of)}"
    other = {"verdict": Verdict.NOT_COMPARABLE, "why": why}
    of_copy = [verdict for verdict in judged if "measured_mean" in verdict]
    return [verdict if verdict["verdict"] == Verdict.UNSOUND else verdict | other for verdict in of_copy]


def _verdict_of_setting(value: Value, setting: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Compare the printed number `value` with the measurements in one setting; return the values of `COLUMNS`.

    `setting` describes the setting as text. `rows` are the measurements, which differ only in their seed.
    """
    measured = rows["measured"].sort_values()  # the last digits must not depend on the order of records
    mean, std, seeds = float(measured.mean()), float(deviation(measured)), rows["seed"].nunique()
    if "spread" in rows:  # one row with the mean over seeds, from a kept table
        std, seeds = float(rows["spread"].iloc[0]), int(rows["counted"].iloc[0])
    accuracy = is_accuracy(value.quantity)
    judged: dict[str, Any] = {"how": setting, "measured_mean": mean, "measured_std": std, "seeds": seeds}
    if accuracy:
        judged["recall_mean"] = mean_recall(rows["recall"])
        for name in ("largest_class", "balanced_accuracy"):
            if rows[name].notna().any():
                judged |= {f"{name}_mean": float(rows[name].mean()), f"{name}_std": float(deviation(rows[name]))}
    if accuracy and "method" in rows:
        judged |= {"student": rows["method"].iloc[0], "strategy": rows["strategy"].iloc[0]}
    judged["result"] = (accuracy, setting, mean, *sorted(rows.index))
    for name, column in (("worst_case", "worst_case_epsilon"), ("exact", "exact_epsilon"), ("audited", "audited")):
        if column in rows and rows[column].notna().any():
            judged[name] = float(rows[column].max())
    lost = max(judged.get("exact", 0.0), judged.get("audited", 0.0))
    claimed = value.quantity.startswith("epsilon") and "kind" in rows and (rows["kind"] == Kind.CLAIMED).all()
    if claimed and lost > max(value.value, mean) * (1 + 1e-9):
        why = f"what is claimed loses at least ε = {epsilon_in_digits(lost, at_least=True)}"
        return {**judged, "verdict": Verdict.UNSOUND, "why": why}
    return {**judged, "verdict": compare(value.quantity, value.value, mean, std), "why": ""}


_LABELLED = ("dataset", "teachers", "mechanism", "noise")
_TEACHERS = ("model", "recipe", "partition")
_LEARNER = ("model", "recipe")


@dataclass(frozen=True)
class _Measures:
    """Measurements of a run. The method `of` returns those that are compared with a number printed in a paper."""

    records: Records
    published: Published

    def of(self, value: Value) -> pd.DataFrame:
        """Return the measurements of the run to compare with the printed number `value`; no rows if there are none.

        The columns `measured`, `how` and `seed` are the measured number, the setting as text, and the seed.
        """
        quantity, mechanism = value.quantity, value.mechanism
        if value.dataset not in self._datasets:
            return self.records.students.iloc[:0]
        if mechanism == PETDL:
            rows = self._petdl(value)
        elif mechanism == PRIVATE_KNN and quantity not in ("accuracy_at_epsilon", "baseline_accuracy"):
            rows = self._private_knn(value)
        elif quantity == "private_model_accuracy" or (
            mechanism in SYSTEMS and quantity in ("student_accuracy", "accuracy_at_epsilon")
        ):
            rows = self._private_model(value, SYSTEMS.get(mechanism, SYSTEMS[DP_SGD]))
        elif quantity == "accuracy_at_epsilon":
            rows = self._students_at(value)
        elif quantity in self._sources:
            frame, column, keys, how = self._sources[quantity]
            rows = _rows_of_setting(frame, value, column, keys, how)
            # Students of the same labels have the same number of answers.
            rows = rows.drop_duplicates(["how", "seed"]) if quantity == "answered" else rows
        else:
            rows = self._bounds(value)
        return rows if rows.empty else rows.dropna(subset="measured")

    @cached_property
    def _datasets(self) -> set[str]:
        return {str(name) for frame in vars(self.records).values() for name in frame["dataset"]}

    @cached_property
    def _sources(self) -> dict[str, tuple[pd.DataFrame, str, Sequence[str], Sequence[str]]]:
        """Return {quantity: (frame, column, keys, how)}, which states where the measurements of each quantity are.

        Each row of `frame` is a measurement, and the measured number is in the column `column`. The row is compared
        with a printed number if the columns `keys` of the row equal the fields of the printed number. The columns `how`
        of the row describe its setting. Quantities for which `of` calls another method, such as `_petdl`, are left out.
        """
        ensembles, students, baselines = self.records.ensembles, self.records.students, self.records.baselines
        labels, all_labels = self.records.of_whole_pool().label_sets, baselines["true_labels"].isna()
        true_labels = baselines[~all_labels].rename(columns={"true_labels": "queries"})
        of_teachers, of_queries = ("dataset", "teachers"), (*_LABELLED, "queries")
        of_student = ("method", "student_model", "strategy", *_TEACHERS)
        return {
            "teacher_accuracy": (ensembles, "teacher_accuracy_mean", of_teachers, _TEACHERS),
            "plurality_accuracy": (ensembles, "plurality_accuracy_pool", of_teachers, _TEACHERS),
            "label_accuracy": (labels, "label_accuracy", _LABELLED, (*_TEACHERS, "setting")),
            "student_accuracy": (students, "accuracy", of_queries, of_student),
            "ground_truth_student_accuracy": (true_labels, "accuracy", ("dataset", "queries"), _LEARNER),
            "baseline_accuracy": (baselines[all_labels], "accuracy", ("dataset",), _LEARNER),
            "answered": (students.drop(columns="student"), "answered", of_queries, _TEACHERS),
        }

    def _private_model(self, value: Value, system: str) -> pd.DataFrame:
        """Return the measured accuracies of private models of `system` at the ε printed with the accuracy `value`."""
        models = self.records.private_models
        models = self._select_printed_epsilon(value, models[models["system"] == system], "epsilon")
        models = models.assign(spent=models["epsilon"])
        return _rows_of_setting(models, value, "accuracy", ("dataset",), ("form", "model"))

    def _select_printed_epsilon(self, value: Value, frame: pd.DataFrame, epsilon: str) -> pd.DataFrame:
        """Return the rows of `frame` at the ε and δ that are printed with the accuracy `value`.

        The ε of a row, in the column `epsilon`, is 90 % to 100 % of the printed ε, and its δ at most the printed δ.
        """
        printed = None if frame.empty else self.published.spent(value)
        spent = frame[epsilon].map(lambda spent: at_epsilon(spent, printed)).astype(bool)
        return frame[spent & (frame["delta"] <= (value.delta or 0))]

    @cached_property
    def _students_with_costs(self) -> pd.DataFrame:
        """Return one row per student and δ, with the worst-case ε of the student's labels in the column `worst_case`.

        If several accountants bound this ε, the smallest bound is used.
        """
        by = [*LABEL_SET, "rounds", "queries", "seed", "delta"]
        costs = smallest_epsilon(worst_case_bounds(self.records.bounds), by, "worst_case")
        return self.records.students.merge(costs, on=by[:-1], how="inner")

    def _students_at(self, value: Value) -> pd.DataFrame:
        """Return the measured accuracies of students, of any mechanism, at the ε printed with the accuracy `value`."""
        frame = self._select_printed_epsilon(value, self._students_with_costs, "worst_case")
        return _rows_of_setting(frame, value, "accuracy", ("dataset",), ("mechanism", "method", "strategy", "model"))

    def how_to_run(self, value: Value) -> str:
        """Return a text that says why the run has no measurement for `value`, and which command makes one."""
        lacks = "such setting" if value.dataset in self._datasets else in_words(value.dataset)
        return f"this run has no {lacks}: patebench reproduce {shlex.quote(value.name)}"

    def _private_knn(self, value: Value) -> pd.DataFrame:
        """Return the measurements of Private-kNN, in its published form, in the setting of the printed number `value`.

        The quantity of `value` determines whether the measured numbers are accuracies or ε.
        """
        frame = self.records.private_models
        frame = frame[(frame["system"] == SYSTEMS[PRIVATE_KNN]) & (frame["kind"] == Kind.CLAIMED)]
        column = "accuracy" if value.quantity == "private_model_accuracy" else "epsilon"
        return _rows_of_setting(frame, value, column, ("dataset", "delta"), ("private_model",))

    def _petdl(self, value: Value) -> pd.DataFrame:
        """Return the measurements of PET-DL students in the setting of the printed number `value`.

        The quantity of `value` determines whether accuracies, numbers of parameters or ε are returned. If the ε of some
        students is 90 % to 100 % of the printed ε, only these students are returned.
        """
        frame = petdl_students(self.records)
        rows = enumerate(frame.to_dict("records"))
        frame = frame.iloc[[place for place, row in rows if is_printed_of(value, row)]]
        same = {"dataset": value.dataset, "teachers": value.teachers, "parameters": value.parameters}
        printed = self.published.lookup("epsilon", paper=value.paper, mechanism=PETDL, **same)
        spent = frame["epsilon"].map(lambda epsilon: at_epsilon(epsilon, printed)).astype(bool)
        frame = frame[spent] if spent.any() else frame
        passes = [f"{row.hint_epochs} + {row.distillation_epochs} epochs" for row in frame.itertuples()]
        frame = frame.assign(passes=passes, epochs=frame["teacher_epochs"])
        column = {"student_accuracy": "accuracy", "parameters": "model_parameters"}.get(value.quantity, "epsilon")
        return _rows_of_setting(frame, value, column, (), ("model", "partition", "passes"))

    def _bounds(self, value: Value) -> pd.DataFrame:
        """Return the bounds on ε in the setting of the printed ε `value`, by the accountant that the paper used.

        If the quantity of `value` is "epsilon_strong_composition", the accountant is strong composition. Otherwise, it
        is the accountant of the mechanism's paper. The column `audited` contains the largest lower bound on ε that an
        audit found in the setting.
        """
        frame = compared_bounds(self.records)
        if value.quantity == "epsilon_strong_composition":
            frame = frame[frame["accountant"] == "strong-composition"]
        else:
            frame = frame[stated_by_paper(frame)].sort_values("kind", key=lambda kinds: kinds == Kind.WORST_CASE)
        keys = (*_LABELLED, "queries", "delta")
        bounds = _rows_of_setting(frame, value, "epsilon", keys, _TEACHERS).drop_duplicates(["how", "seed"])
        audits = self.records.audits[self.records.audits["kind"] == Kind.AUDITED_LOWER]
        return bounds.assign(audited=_rows_of_setting(audits, value, "epsilon", keys, ())["measured"].max())


#: Columns that distinguish settings with the same description, and functions that format their values.
_APART: Mapping[str, Callable[[Any], str]] = {
    "epochs": lambda epochs: f"trained for {epochs} epochs",
    "setting": str,
    "teachers": lambda teachers: f"n = {teachers}",
    "parameters": str,  # formatted by `parameter_words`
    "queries": lambda queries: f"T = {queries}",
    "clusters": lambda clusters: f"{clusters:.0f} clusters",
    "spent": lambda epsilon: f"ε = {at_most(epsilon, 3)}",
    "delta": lambda delta: f"δ = {delta_in_words(delta)}",
}
#: Columns of names that distinguish settings if all columns of `_APART` are equal; only differing parts are shown.
_NAMES_APART = ("ensemble", "rounds", "student", "private_model")

#: Words that describe a setting.
Words = tuple[str, ...]


def _rows_of_setting(
    frame: pd.DataFrame, value: Value, measured: str, keys: Sequence[str], description_columns: Sequence[str]
) -> pd.DataFrame:
    """Return the rows of `frame` to compare with the printed number `value`, with columns for the comparison added.

    Parameters
    ----------
    frame : measurements, one row per setting and seed.
    value : printed number.
    measured : name of the column with the measured numbers.
    keys : names of columns. A row is returned if these columns equal the fields of `value`; fields that are None match
        any row.
    description_columns : columns that describe the setting of a row.

    Returns
    -------
    Rows of `frame` with the columns below, and possibly with further columns that describe the measurement, such as
    `largest_class`.

    measured : the measured numbers, copied from the column that the parameter `measured` names.
    how : the setting as text, described by `description_columns` and, if necessary, by further columns. Two rows have
        the same text only if they differ in nothing but the seed.
    """
    for key in keys:
        if (printed := getattr(value, key)) is not None:
            frame = frame[frame[key] == printed]
    if frame.empty:  # as for most printed numbers, which a run does not measure
        return frame.assign(how="", measured=frame[measured].astype(float))
    columns = [*(["run"] if "run" in frame else []), *description_columns]  # runs are not averaged
    words: list[Words] = [tuple(dict.fromkeys(str(word) for word in row if word)) for row in frame[columns].to_numpy()]
    # Rows that differ in more than the seed get different descriptions, so that only seeds are averaged.
    for column in (*_APART, *_NAMES_APART):
        if column in frame and (column != "parameters" or "mechanism" in frame):
            words = _extend_equal_words(words, _words_of(frame, column))
    beside = {name: measured.replace("accuracy", name) for name in BESIDE_ACCURACY}
    known: dict[str, Any] = {name: frame.get(column) for name, column in beside.items()}
    if f"{measured}_std" in frame:
        known |= {"spread": frame[f"{measured}_std"], "counted": frame["seeds"]}
    descriptions = [", ".join(parts) for parts in words]
    return frame.assign(how=descriptions, measured=frame[measured].astype(float), **known)


def _words_of(frame: pd.DataFrame, column: str) -> list[Words]:
    """Return, for each row of `frame`, the value in `column` as words, to describe the setting of the row."""
    if column == "parameters":
        return [tuple(parameter_words(*pair)) for pair in zip(frame["mechanism"], frame[column], strict=True)]
    if column in _NAMES_APART:
        return [tuple(name_words(name)) for name in frame[column].fillna("")]
    return [() if pd.isna(cell) else (_APART[column](cell),) for cell in frame[column]]


def _extend_equal_words(words: Sequence[Words], further: Sequence[Words]) -> list[Words]:
    """Return the descriptions `words` of rows, with words added to descriptions that several rows share.

    `words` and `further` contain one tuple of words per row. Rows with the same description form a group. The words in
    `further` that do not occur in all rows of the group distinguish these rows, and are added to their descriptions.
    For example, the descriptions ("mlp",) and ("mlp",) with the further words ("n = 50", "T = 10") and ("n = 100", "T =
    10") become ("mlp", "n = 50") and ("mlp", "n = 100").
    """
    pairs: dict[tuple[Words, Words], Words] = dict.fromkeys(zip(words, further, strict=True), ())
    several = Counter(word for word, _ in pairs)
    for word in (word for word in several if several[word] > 1):
        mine = [pair for pair in pairs if pair[0] == word]
        for pair, differs in zip(mine, differing_words([other for _, other in mine]), strict=True):
            pairs[pair] = (differs,) if differs else ()
    return [(*word, *pairs[word, other]) for word, other in zip(words, further, strict=True)]
