"""Check records and collect them in data frames: one frame per kind of record, with one row per record.

Accuracies are fractions. A split divides a data set into private records, public pool and test set. These columns need
an explanation:

- `split` is the name of a split, such as "seed-0_pool-9000_test-1000";
- `setting` is `split` without the seed, such as "pool-9000_test-1000", and is the same for all seeds of a run;
- `pool` is the number of samples in the public pool;
- `beside_pool` is `split` without the seed and the size of the pool, such as "test-1000";
- `rounds` is "" for a label set of the whole pool, and otherwise a text that names the rounds in which queries were
  selected;
- `selection` describes the same rounds as a tuple with one `Settings` per round: student, strategy and number of
  queries;
- `clusters` is the number of clusters whose centres are the queries, or None;
- `parameters` contains the parameters of a mechanism as `Settings`.

`patebench.reporting.wording` formats `parameters` and `selection` as text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from patebench.core.bound import Bound, Kind
from patebench.core.class_accuracy import is_unbalanced
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.data.partitions import LABELS
from patebench.mechanisms.local_mechanisms import WHICH
from patebench.models import MODELS, by_recipe

if TYPE_CHECKING:
    import pandas as pd

#: Names that versions up to 0.8 gave to private models whose student has no network → their names now.
_TWICE = {f"{method}, {method}": method for method in ("nearest-label", "label-spreading")}

#: Maximum relative standard deviation that is due to rounding and reported as 0.
ROUNDING = 1e-12

_SPLIT = {
    **{"dataset": str, "seed": int, "split": str, "setting": str, "pool": int, "beside_pool": str},
    **{"encoder_data": str, "features_data": str},
}
_LEARNER = {"model": str, "recipe": str, "epochs": int | None}
_ENSEMBLE = {
    **_SPLIT,
    "ensemble": str,
    "clusters": int | None,  # None for teachers that vote on the whole pool
    "teachers": int,
    "partition": str,
    **_LEARNER,
}
_SELECTED = {"rounds": str, "strategy": str, "round": int, "selection": list}
_LABEL_SET = {**_ENSEMBLE, "mechanism": str, "noise": str, "parameters": dict, **_SELECTED}
#: Columns that accompany an accuracy; balanced accuracy and recall are missing if classes are balanced.
_BESIDE = {"largest_class": float | None, "balanced_accuracy": float | None, "recall": dict | None}
_BESIDE_LABELS = {f"label_{what}": hint for what, hint in _BESIDE.items()}
_LABELLED = {
    **{"queries": int, "answered": int, "kept": int, "label_accuracy": float | None},
    **_BESIDE_LABELS,
    "uncovered": list | None,  # names of the classes without a label
}
#: Fields of a bound with their types in JSON, where enumerations are text.
_BOUND = {
    name: str if isinstance(hint, type) and issubclass(hint, StrEnum) else hint
    for name, hint in get_type_hints(Bound).items()
}
#: Fields of a curve (one kind of bound at several numbers of queries). `queries` and `epsilon` are lists. The Rényi
#: order and `add_or_remove` are left out.
_CURVE = {name: hint for name, hint in _BOUND.items() if name not in ("order", "add_or_remove")}
_CURVE |= {"queries": list, "epsilon": list}

#: Columns of each kind of record, with their types.
RECORDS: Mapping[str, Mapping[str, type | UnionType]] = {
    "ensemble": {
        **_ENSEMBLE,
        **{f"teacher_accuracy_{what}": float for what in ("mean", "min", "max", "std")},
        "plurality_accuracy_pool": float,
        "plurality_accuracy_test": float | None,  # None if teachers vote only on queries
        **{f"plurality_{what}_{on}": hint for on in ("pool", "test") for what, hint in _BESIDE.items()},
        **{"gap_mean": float, "gap_histogram": list},
    },
    "label_set": {**_LABEL_SET, **_LABELLED, "expected_label_accuracy": float | None},
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
        "private_records": int | None,  # None for imported votes
        "votes_beyond_cap": int | None,  # votes of one record that the mechanism does not count
        **_LABELLED,
        **{"accuracy": float, **_BESIDE},
    },
    "distillation": {
        **_ENSEMBLE,
        **{"distilled": str, "labels": str, "temperature": float, "samples": int, "accuracy": float, "epsilon": float},
        **{"student_model": str, "student_recipe": str, "student_epochs": int, **_BESIDE},
    },
    "baseline": {**_SPLIT, "learner": str, **_LEARNER, "true_labels": int | None, "accuracy": float, **_BESIDE},
    "naming": {
        **_SPLIT,
        **{"clusters": int, "accuracy": float, "accuracy_pool": float},
        "matched_accuracy": float | None,  # None unless there are as many clusters as classes
        **_BESIDE,
    },
    "private_model": {  # columns that do not apply are None, such as the teachers of DP-SGD
        **_SPLIT,
        **{"system": str, "form": str, "private_model": str, "parameters": dict},
        **{"teachers": int | None, "ensemble": str | None, "audited": float | None, "verdict": str | None},
        **{"answered": float | None, "label_accuracy": float | None, **_BESIDE, **_BESIDE_LABELS},
        **{"public_use": str | None, "public_samples": int | None},
        **{"model": str, "model_parameters": int | None, "accuracy": float, "seconds": float},
        **_BOUND,
    },
    "audit": {
        **{"dataset": str, "teachers": int, "classes": int, "mechanism": str, "noise": str, "parameters": dict},
        **_BOUND,
        **{"audited": float, "verdict": str | None, "runs": int, "confidence": float},
    },
}
#: Columns that older records lack.
_LATER = {"uncovered", "private_records", "votes_beyond_cap", "add_or_remove", "encoder_data", "features_data"} | {
    name.format(what) for what in _BESIDE for name in ("{}", "label_{}", "plurality_{}_pool", "plurality_{}_test")
}
#: Pandas types of numeric and boolean columns, by their types in `RECORDS`.
_TYPES: Mapping[type | UnionType, str] = {
    float: "float64",
    float | None: "float64",
    int: "int64",
    int | None: "Int64",
    bool: "bool",
}
#: First words of the names of columns whose values may be infinite; strict JSON stores infinity as "inf".
_COSTS = ("epsilon", "add", "basic", "composed", "audited")
_OF_LABELS = ("ensemble", "mechanism", "noise", "rounds")
_ACCOUNT = ("delta", "accountant", "conversion", "kind")
#: Columns that identify a record of each kind, in addition to the data set and the split.
_IDENTITY = {
    "ensemble": ("ensemble",),
    "label_set": _OF_LABELS,
    "bound": (*_OF_LABELS, "queries", *_ACCOUNT),
    "curve": (*_OF_LABELS, *_ACCOUNT),
    "teacher_costs": (*_OF_LABELS, "queries", "delta"),
    "student": (*_OF_LABELS, "student", "queries"),
    "distillation": ("ensemble", "distilled", "labels", "temperature", "samples"),
    "baseline": ("learner",),
    "naming": ("clusters",),
    "private_model": ("system", "form", "private_model", "queries", *_ACCOUNT),
    "audit": ("teachers", "mechanism", "noise", "queries", *_ACCOUNT),
}
#: Columns that identify a private model for all seeds.
_MODEL = ["dataset", "setting", "system", "form", "private_model", "teachers", "model"]


class Settings(dict[str, Any]):
    """Dictionary with a hash and an order, so that frames can be grouped and sorted by a column of dictionaries."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))

    def __lt__(self, other: object) -> bool:
        return repr(self) < repr(other)


@dataclass(frozen=True, eq=False)
class Records:
    """All records of a run, as one frame per kind of record; empty frames have all columns."""

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

    def of_whole_records(self) -> "Records":
        """Return the records without splits in which ε protects only the labels of private records."""
        split = {name: frame for name, frame in vars(self).items() if "setting" in frame}
        kept = {name: frame[~frame["setting"].map(protects_labels).astype(bool)] for name, frame in split.items()}
        return replace(self, **kept)

    def of_whole_pool(self) -> "Records":
        """Return the records without label sets whose queries were selected from the pool in rounds.

        The bounds and students of these label sets are left out too.
        """
        whole = {name: frame[frame["rounds"] == ""] for name, frame in vars(self).items() if "rounds" in frame}
        return replace(self, **whole)


def protects_labels(setting: str) -> bool:
    """Return True if ε protects only the labels of records, not whole records.

    `setting` is the name of the split without its seed.
    """
    return LABELS in setting.split("_")


def records_of(records: Iterable[tuple[Path, dict[str, Any]]]) -> Records:
    """Return all records as one frame per kind; `records` contains pairs (path of the file, record in the file).

    Paths are used in error messages. Raises ArtefactError for the first invalid record, and PatebenchError if two
    records have the same name.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in RECORDS}
    for path, record in records:
        kind = check_record(path, record)["record"]
        if kind == "private_model" and record["model"] in _TWICE:
            record = {**record, "model": _TWICE[record["model"]]}
        rows[kind].append(record)
    return Records(*(_frame(name, rows[name]) for name in RECORDS))


def over_seeds(
    frame: "pd.DataFrame", by: Sequence[str], values: Sequence[str], **further: tuple[str, Any]
) -> "pd.DataFrame":
    """Return one row per setting, with mean and sample standard deviation of `values` over the seeds.

    Parameters
    ----------
    frame : records with a column `seed`.
    by : names of the columns that identify a setting.
    values : names of the columns to average.
    further : additional aggregates by name of their column. For example, `epsilon_max=("epsilon", "max")` adds the
        largest value of `epsilon`.

    Returns
    -------
    Frame with the columns `by`, `seeds` (the number of seeds), `<value>_mean` and `<value>_std` for each of `values`,
    and the columns of `further`. The deviation of a single seed is NaN. Recalls by class have a mean only
    (`mean_recall`).
    """
    import numpy as np
    import pandas as pd

    groups = frame.sort_values([*by, "seed"]).groupby(list(by), dropna=False)
    columns: dict[str, Any] = {"seeds": groups["seed"].nunique()}
    with np.errstate(invalid="ignore"):  # the deviation of infinite bounds is NaN
        for value in values:
            if "recall" in value:
                columns[f"{value}_mean"] = groups[value].agg(mean_recall)
                continue
            columns[f"{value}_mean"] = groups[value].mean()
            columns[f"{value}_std"] = deviation(groups[value])
    columns |= {name: groups[column].agg(aggregate) for name, (column, aggregate) in further.items()}
    return pd.DataFrame(columns).reset_index()


def mean_recall(recalls: Iterable[Mapping[str, float | None] | None]) -> "Settings | None":
    """Return the mean recall of each class over the seeds, as {class name: mean}.

    `recalls` contains one mapping {class name: recall} per seed, or None for a seed without recalls. A recall of None
    means that the test set of the seed has no sample of the class; the mean is over the other seeds. If no seed has
    recalls, the result is None.
    """
    named: dict[str, list[float]] = {}
    for recall in recalls:
        for name, share in (recall or {}).items():
            named.setdefault(name, []).extend([] if share is None else [share])
    return Settings({name: fmean(shares) if shares else None for name, shares in named.items()}) if named else None


def deviation(values: Any) -> Any:
    """Return the sample standard deviation of `values`, a pandas column or a column grouped by pandas' `groupby`.

    The deviation of a single value is NaN. If the values differ only by rounding, the deviation is 0.
    """
    std = values.std(ddof=1)
    return std * (std > ROUNDING * abs(values.mean()))


def means_and_deviations(values: Sequence[str]) -> list[str]:
    """Return the column names that `over_seeds` computes for `values`: `<value>_mean` and `<value>_std` for each.

    Recalls by class have a mean only.
    """
    kinds = {value: ("mean",) if "recall" in value else ("mean", "std") for value in values}
    return [f"{value}_{what}" for value in values for what in kinds[value]]


def sort_rows(frame: "pd.DataFrame", by: Sequence[str]) -> "pd.DataFrame":
    """Return `frame` sorted by the columns `by`. Numbers in text are compared as numbers, so "a-9" is before "a-10"."""
    rows = list(frame[list(by)].itertuples(index=False))
    order = sorted(range(len(rows)), key=lambda index: tuple(natural_key(cell) for cell in rows[index]))
    return frame.iloc[order].reset_index(drop=True)


def smallest_epsilon(bounds: "pd.DataFrame", by: Sequence[str], name: str) -> "pd.DataFrame":
    """Return a frame with the smallest ε in `bounds` per combination of the columns `by`.

    The result has the columns `by`, and the smallest ε in a column called `name`.
    """
    return bounds.groupby(list(by), dropna=False)["epsilon"].min().rename(name).reset_index()


def worst_case_bounds(bounds: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows of `bounds` that are worst-case bounds, which hold for all private data."""
    return bounds[bounds["kind"] == Kind.WORST_CASE]


def distinct(frame: "pd.DataFrame", by: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the distinct combinations of the columns `by` in `frame` as tuples, in the order of `sort_rows`."""
    return list(sort_rows(frame[list(by)].drop_duplicates(), by).itertuples(index=False, name=None))


def natural_key(value: Any) -> tuple[Any, ...]:
    """Return a sort key of `value`: numbers inside text compare as numbers, and missing values come last."""
    import pandas as pd

    if isinstance(value, Settings | tuple):
        return (0, value)
    if isinstance(value, str):
        pieces = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", value)
        return (0, *(float(piece) if index % 2 else piece for index, piece in enumerate(pieces)))
    return (1,) if pd.isna(value) else (0, value)


def check_record(path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Return `record`, read from the file `path`; raise ArtefactError if a field is missing or invalid."""
    kind = record.get("record")
    if kind not in RECORDS:
        raise ArtefactError(path, f"it contains a result of the unknown kind '{kind}'")
    for column, type_ in RECORDS[str(kind)].items():
        if column not in record:
            if column in _LATER:
                continue
            raise ArtefactError(path, f"a result of kind '{kind}' lacks '{column}'")
        value = record[column]
        if not _fits(column, value, type_):
            name = _type_of(type_).__name__
            fault = f"a result of kind '{kind}' has {column} = {value!r}, which is not of type {name}"
            raise ArtefactError(path, fault)
        if "accuracy" in column and value is not None and not 0 <= value <= 1:
            raise ArtefactError(
                path, f"a result of kind '{kind}' has the accuracy {column} = {value!r}, outside [0, 1]"
            )
    return record


def _type_of(type_: type | UnionType) -> type:
    """Return the type X if `type_` is X or X | None."""
    return type_ if isinstance(type_, type) else get_args(type_)[0]


def _fits(column: str, value: Any, type_: type | UnionType) -> bool:
    if value is None:
        return isinstance(type_, UnionType)
    kind = _type_of(type_)
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if kind is float:
        return isinstance(value, int | float) or (column.split("_")[0] in _COSTS and value == "inf")
    return isinstance(value, kind)


def _frame(kind: str, rows: list[dict[str, Any]]) -> "pd.DataFrame":
    import pandas as pd

    columns = RECORDS[kind]
    missing = {column: "" if type_ is str else None for column, type_ in columns.items()}
    frame = pd.DataFrame([{**missing, **row} for row in rows], columns=list(columns))
    frame = frame.astype({column: _TYPES[type_] for column, type_ in columns.items() if type_ in _TYPES})
    if not rows:
        return frame
    frozen = {"parameters", "selection", "uncovered", *(column for column in columns if "recall" in column)}
    for column in frozen & set(columns):
        frame[column] = pd.Series([_hashable(value) for value in frame[column]], dtype="object")
    frame = _without_balanced(_without_recipes(frame))
    if kind == "private_model":
        # The number of principal axes of a pool may differ by seed; rows over the seeds show the largest.
        models = frame.groupby(_MODEL, dropna=False)["model_parameters"]
        frame["model_parameters"] = models.transform("max")
    identity = ["dataset", *(["split"] if "split" in columns else []), *_IDENTITY[kind]]
    if (twice := frame.duplicated(identity)).any():
        name = "/".join(map(str, frame.loc[twice, identity].iloc[0]))
        raise PatebenchError(f"two of the given files contain the {kind.replace('_', ' ')} {name}; give each file once")
    return frame


def _hashable(value: Any) -> Any:
    """Return a JSON value in a form that can be hashed: dictionaries become `Settings`, and lists become tuples."""
    if isinstance(value, Mapping):
        return Settings({name: _hashable(inner) for name, inner in value.items()})
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _without_balanced(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return `frame` without balanced accuracy and recall in rows whose classes are nearly balanced.

    In these rows, accuracy alone does not mislead (see `is_unbalanced`). Balanced accuracy and recall become missing
    values.
    """
    import numpy as np

    for column in [name for name in map(str, frame) if "largest_class" in name]:
        balanced, recall = (column.replace("largest_class", what) for what in ("balanced_accuracy", "recall"))
        pairs = zip(frame[column].tolist(), frame[recall].tolist(), strict=True)
        clear = np.array([not is_unbalanced(*pair) for pair in pairs], bool)
        frame[balanced], frame[recall] = frame[balanced].mask(clear), frame[recall].mask(clear, None)
    return frame


def _without_recipes(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return `frame` without training recipe and epochs in rows of models that are not trained by a recipe.

    Such models are, for example, random forests. Their recipe becomes "", and their epochs a missing value.
    """
    for of in ("", "student_"):
        if {f"{of}model", f"{of}recipe"} <= set(frame):
            trained = frame[f"{of}model"].map(lambda name: name not in MODELS or by_recipe(name)).astype(bool)
            frame[f"{of}recipe"] = frame[f"{of}recipe"].where(trained, "")
            if f"{of}epochs" in frame:
                frame[f"{of}epochs"] = frame[f"{of}epochs"].where(trained)
    return frame
