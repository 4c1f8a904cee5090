"""Records as data frames: one tidy frame per kind of record, one row per record, checked on loading.

Accuracies are fractions. `setting` is the split without its seed, so equal settings of different seeds share it; it
has a pool of `pool` samples, and all else of it is `beside_pool`. A label set is of the whole pool (`rounds` is ""), of
the queries that a student selected in rounds, or of as many `clusters` of the pool as the ensemble was asked for.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from patebench.accounting.teacher_costs import WHICH
from patebench.core.bound import Bound, Kind
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.spelling import parameters_slug
from patebench.models import MODELS, by_recipe
from patebench.reporting.wording import parameters_in_words, rounds_in_words

if TYPE_CHECKING:
    import pandas as pd

#: Equal values of several seeds, each a sum in another order, differ by less than this share.
ROUNDING = 1e-12

_SPLIT = {"dataset": str, "seed": int, "split": str, "setting": str, "pool": int, "beside_pool": str}
_LEARNER = {"model": str, "recipe": str, "epochs": int}
_ENSEMBLE = {**_SPLIT, "ensemble": str, "clusters": int, "teachers": int, "partition": str, **_LEARNER}
_SELECTED = {"rounds": str, "strategy": str, "round": int, "selection": list}
_LABEL_SET = {**_ENSEMBLE, "mechanism": str, "noise": str, "parameters": dict, **_SELECTED}
_LABELLED = {"queries": int, "answered": int, "kept": int, "label_accuracy": float}
_HINTS = get_type_hints(Bound) | {"order": float}  # which `_NULLABLE` says may be missing
#: The fields of a bound, as JSON holds them: a word of an enumeration is text.
_BOUND = {name: str if issubclass(hint, StrEnum) else hint for name, hint in _HINTS.items()}
#: Of a curve of bounds: a list of each, and no order.
_CURVE = {name: hint for name, hint in _BOUND.items() if name != "order"} | {"queries": list, "epsilon": list}

#: The columns of each kind of record and their types; a missing or ill-typed one is refused.
RECORDS: Mapping[str, Mapping[str, type]] = {
    "ensemble": {
        **_ENSEMBLE,
        **{f"teacher_accuracy_{what}": float for what in ("mean", "min", "max", "std")},
        **{"plurality_accuracy_pool": float, "plurality_accuracy_test": float},
        **{"gap_mean": float, "gap_histogram": list},
    },
    "label_set": {**_LABEL_SET, **_LABELLED, "expected_label_accuracy": float},
    "bound": {**_LABEL_SET, **_BOUND},
    "curve": {**_LABEL_SET, **_CURVE},
    "teacher_costs": {
        **_LABEL_SET,
        **{"queries": int, "delta": float},
        **{f"asked_{which}": int for which in WHICH},
        **{f"{cost}_{which}": float for cost in ("epsilon", "basic", "composed") for which in WHICH},
    },
    "student": {
        **_LABEL_SET,
        **{"student": str, "method": str, "student_model": str, "student_recipe": str},
        **_LABELLED,
        **{"accuracy": float, "learning_curve": list, "picture": str},
    },
    "distillation": {
        **_ENSEMBLE,
        **{"distilled": str, "labels": str, "temperature": float, "samples": int, "accuracy": float, "epsilon": float},
        **{"student_model": str, "student_recipe": str, "student_epochs": int},
    },
    "baseline": {**_SPLIT, "learner": str, **_LEARNER, "true_labels": int, "accuracy": float},
    "naming": {**_SPLIT, "clusters": int, "accuracy": float, "accuracy_pool": float, "matched_accuracy": float},
    "private_model": {
        **_SPLIT,
        **{"system": str, "form": str, "private_model": str, "parameters": dict},
        **{"teachers": int, "ensemble": str, "audited": float, "verdict": str},
        **{"answered": float, "label_accuracy": float},
        **{"public_use": str, "public_samples": int},
        **{"model": str, "model_parameters": int, "accuracy": float, "learning_curve": list, "seconds": float},
        **_BOUND,
    },
    "audit": {
        **{"dataset": str, "teachers": int, "classes": int, "mechanism": str, "noise": str, "parameters": dict},
        **_BOUND,
        **{"audited": float, "verdict": str, "runs": int, "confidence": float},
    },
}
_NULLABLE = {"expected_label_accuracy", "label_accuracy", "order", "epochs", "verdict", "picture", "true_labels"}
_NULLABLE |= {"plurality_accuracy_test"}  # of teachers that vote on queries alone
_NULLABLE |= {"clusters"}  # of teachers that vote on the whole pool
_NULLABLE |= {"matched_accuracy"}  # of clusters that are not as many as the classes
#: The same of one kind of record alone: DP-SGD has no teachers, answers no query, and is audited elsewhere; a student's
#: parameters are not counted.
_NULLABLE_OF = {
    "private_model": {
        *("teachers", "ensemble", "audited", "answered", "model_parameters"),
        *("public_use", "public_samples"),
    }
}
#: What may be infinite, which strict JSON spells "inf".
_COSTS = ("epsilon", "basic", "composed", "audited")
_OF_LABELS = ("ensemble", "mechanism", "noise", "rounds")
_IDENTITY = {
    "ensemble": ("ensemble",),
    "label_set": _OF_LABELS,
    "bound": (*_OF_LABELS, "queries", "delta", "accountant", "conversion", "kind"),
    "curve": (*_OF_LABELS, "delta", "accountant", "conversion", "kind"),
    "teacher_costs": (*_OF_LABELS, "queries", "delta"),
    "student": (*_OF_LABELS, "student", "queries"),
    "distillation": ("ensemble", "distilled", "labels", "temperature", "samples"),
    "baseline": ("learner",),
    "naming": ("clusters",),
    "private_model": ("system", "form", "private_model", "queries", "delta", "accountant", "conversion", "kind"),
    "audit": ("teachers", "mechanism", "noise", "queries", "delta", "accountant", "conversion", "kind"),
}


@dataclass(frozen=True)
class Records:
    """Everything that was measured, as one frame per kind of record (empty frames have all their columns).

    Frames with `noise` also have `noise_in_words`; those with `rounds` also `rounds_in_words`, which is None for
    labels of the whole pool.
    """

    ensembles: "pd.DataFrame"
    label_sets: "pd.DataFrame"
    bounds: "pd.DataFrame"
    curves: "pd.DataFrame"
    teacher_costs: "pd.DataFrame"
    students: "pd.DataFrame"
    distillations: "pd.DataFrame"
    baselines: "pd.DataFrame"
    namings: "pd.DataFrame"
    private_models: "pd.DataFrame"
    audits: "pd.DataFrame"

    def of_whole_pool(self) -> "Records":
        """The same, but of label sets only those that answer the whole pool, and what was made of them."""
        frames = {item.name: getattr(self, item.name) for item in fields(self)}
        whole = {name: frame[frame["rounds"] == ""] for name, frame in frames.items() if "rounds" in frame}
        return Records(**{**frames, **whole})


#: Paths of files, of which only faults speak, and what they hold.
Contents = Sequence[tuple[Path, dict[str, Any]]]


def records_of(collected: Contents, baselines: Contents, audits: Contents, private_models: Contents = ()) -> Records:
    """The records in what these stages wrote; raises ArtefactError for the first unsound one.

    A baseline or a naming is one record, and so is each bound of a model that is private itself.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in RECORDS}
    for path, content in collected:
        for record in _collected(path, content):
            rows[record["record"]].append(record)
    for path, record in baselines:
        rows[record["record"]].append(check_record(path, record))
    for path, record in private_models:
        rows["private_model"].append(check_record(path, record))
    for path, content in audits:
        rows["audit"] += [check_record(path, record) for record in _audited(path, content)]
    return Records(*(_frame(name, rows[name]) for name in RECORDS))


def over_seeds(frame: "pd.DataFrame", by: Sequence[str], values: Sequence[str]) -> "pd.DataFrame":
    """Mean and sample standard deviation of `values` over the seeds, per group of equal `by`.

    Returns the columns `by`, `seeds`, and `<value>_mean`, `<value>_std`; the deviation of a single seed is NaN.
    """
    import numpy as np
    import pandas as pd

    groups = frame.sort_values([*by, "seed"]).groupby(list(by), dropna=False)
    columns: dict[str, Any] = {"seeds": groups["seed"].nunique()}
    with np.errstate(invalid="ignore"):  # the deviation of infinite bounds is NaN
        for value in values:
            columns[f"{value}_mean"] = groups[value].mean()
            columns[f"{value}_std"] = deviation(groups[value])
    return pd.DataFrame(columns).reset_index()


def deviation(values: Any) -> Any:
    """Sample deviation of a column, or of each group of one: NaN of a single value, 0 of values that rounding parts."""
    found = values.std(ddof=1)
    return found * (found > ROUNDING * abs(values.mean()))


def means_and_deviations(values: Sequence[str]) -> list[str]:
    """What `over_seeds` calls the columns of these values."""
    return [f"{value}_{what}" for value in values for what in ("mean", "std")]


def arrange(frame: "pd.DataFrame", by: Sequence[str]) -> "pd.DataFrame":
    """Sort by the columns `by` as people do: `gamma-0.05` before `gamma-0.1` before `gamma-1`."""
    rows = list(frame[list(by)].itertuples(index=False))
    order = sorted(range(len(rows)), key=lambda index: tuple(natural(cell) for cell in rows[index]))
    return frame.iloc[order].reset_index(drop=True)


def least(bounds: "pd.DataFrame", by: Sequence[str], name: str) -> "pd.DataFrame":
    """The least ε per group of equal `by`, as the column `name` beside these."""
    return bounds.groupby(list(by), dropna=False)["epsilon"].min().rename(name).reset_index()


def sound(bounds: "pd.DataFrame") -> "pd.DataFrame":
    """The worst-case bounds among these: what a release with fresh noise costs, whatever the votes are."""
    return bounds[bounds["kind"] == Kind.WORST_CASE]


def distinct(frame: "pd.DataFrame", by: Sequence[str]) -> list[tuple[Any, ...]]:
    """The different values of the columns `by`, sorted as people do."""
    return list(arrange(frame[list(by)].drop_duplicates(), by).itertuples(index=False, name=None))


def natural(value: Any) -> tuple[Any, ...]:
    """A sort key under which numbers inside words count as numbers and missing values come last."""
    import pandas as pd

    if isinstance(value, str):
        pieces = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", value)
        return (0, *(float(piece) if index % 2 else piece for index, piece in enumerate(pieces)))
    return (1,) if pd.isna(value) else (0, value)


def _collected(path: Path, content: dict[str, Any]) -> list[dict[str, Any]]:
    records = content.get("records")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise ArtefactError(path, "its 'records' is not a list of objects")
    for record in records:
        if record.get("record") not in RECORDS:
            raise ArtefactError(path, f"it holds a record of the unknown kind '{record.get('record')}'")
        check_record(path, record)
    return records


def _audited(path: Path, content: dict[str, Any]) -> list[dict[str, Any]]:
    """A record for each bound that an audit compared, and for each that it found itself."""
    try:
        facts = {name: content[name] for name in ("dataset", "teachers", "classes", "mechanism", "parameters")}
        facts |= {name: content[name] for name in ("runs", "confidence")}
        noise = parameters_slug({name: float(value) for name, value in facts["parameters"].items()})
        findings = [bound for finding in content["findings"] for bound in finding["bounds"]]
        return [{"record": "audit", **facts, "noise": noise, **bound} for bound in findings]
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise ArtefactError(path, f"it is no audit as patebench writes it ({fault})") from None


def check_record(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """The record itself, if every column is there and of its type; else ArtefactError blaming `path`."""
    kind = record["record"]
    for column, wanted in RECORDS[kind].items():
        if column not in record:
            raise ArtefactError(path, f"a record of kind '{kind}' lacks '{column}'")
        value = record[column]
        if not _fits(kind, column, value, wanted):
            raise ArtefactError(
                path, f"a record of kind '{kind}' has {column} = {value!r}, which is no {wanted.__name__}"
            )
        if "accuracy" in column and value is not None and not 0 <= value <= 1:
            raise ArtefactError(path, f"a record of kind '{kind}' has {column} = {value!r}, outside [0, 1]")
    return record


def _fits(kind: str, column: str, value: Any, wanted: type) -> bool:
    if value is None:
        return column in _nullable(kind)
    if wanted is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number or (column.split("_")[0] in _COSTS and value == "inf")
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def _nullable(kind: str) -> set[str]:
    """The columns of a kind of record that may be without a value."""
    return _NULLABLE | _NULLABLE_OF.get(kind, set())


def _frame(kind: str, rows: list[dict[str, Any]]) -> "pd.DataFrame":
    import pandas as pd

    columns = RECORDS[kind]
    frame = pd.DataFrame([[row[column] for column in columns] for row in rows], columns=list(columns))
    whole = {column: "Int64" if column in _nullable(kind) else "int64" for column, of in columns.items() if of is int}
    frame = frame.astype({column: "float64" for column, of in columns.items() if of is float} | whole)
    frame = frame.astype({column: "bool" for column, of in columns.items() if of is bool})
    if "noise" in columns:
        words = [parameters_in_words(row["mechanism"], row["parameters"]) for row in rows]
        frame["noise_in_words"] = pd.Series(words, dtype="object")
    if "selection" in columns:
        selected = [rounds_in_words(row["selection"]) or None for row in rows]
        frame["rounds_in_words"] = pd.Series(selected, dtype="object")
    frame = _without_recipes(frame)
    identity = ["dataset", *(["split"] if "split" in columns else []), *_IDENTITY[kind]]
    if (twice := frame.duplicated(identity)).any():
        found = frame.loc[twice, identity].iloc[0]
        raise PatebenchError(f"the {kind} {'/'.join(str(part) for part in found)} is given twice; give each file once.")
    return frame


def _without_recipes(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The same, with no recipe and no epochs beside a model that is not trained by any, such as a random forest."""
    for of in ("", "student_"):
        if {f"{of}model", f"{of}recipe"} <= set(frame):
            trained = frame[f"{of}model"].map(lambda name: name not in MODELS or by_recipe(name)).astype(bool)
            frame[f"{of}recipe"] = frame[f"{of}recipe"].where(trained, "")
            if f"{of}epochs" in frame:
                frame[f"{of}epochs"] = frame[f"{of}epochs"].where(trained)
    return frame
