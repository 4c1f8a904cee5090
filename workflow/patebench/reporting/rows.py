"""Rows: the results of a run as JSON for other programs.

A row summarises one setting of a method at one δ over all seeds. `Rows` is the format of the file, and `schema` returns
its JSON schema.
"""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from patebench.core.bound import Kind
from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.core.text import cell_in_json
from patebench.reporting.frames import Records, deviation, mean_recall, protects_labels, sort_rows, worst_case_bounds
from patebench.reporting.outcomes import (
    LABEL_SET,
    PRIVATE_MODEL,
    STUDENT,
    data_seen,
    is_printed_of,
    public_use,
    stated_by_paper,
)
from patebench.reporting.published import PATE, PETDL, SYSTEMS, Published, Value
from patebench.reporting.wording import rounds_in_words

#: An ε; strict JSON has no infinity.
Epsilon = float | Literal["inf"]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Printed(_Form):
    """ε that a paper prints for the setting of a result."""

    paper: str
    row: str = Field(description="Table and row, as `patebench reproduce` names them.")
    epsilon: Epsilon


class Costs(_Form):
    """Values of ε for a row: each is the largest over the seeds, or null if unknown."""

    reported: list[Printed] = Field(description="Values printed in papers for this setting.")
    recomputed: Epsilon | None = Field(description="ε by the accountant of the method's paper.")
    worst_case: Epsilon | None = Field(description="Smallest worst-case bound.")
    add_or_remove: Epsilon | None = Field(
        None,
        description="Smallest worst-case bound if a teacher's votes (for a private model, a record) are added or"
        " removed, not replaced.",
    )
    exact: Epsilon | None = Field(
        description="Smallest data-dependent bound, computed exactly; it leaks information and must not be published."
    )
    audited: Epsilon | None = Field(description="Lower bound found by an audit.")
    publishable: Epsilon | None = Field(description="Bound that may be published; null if the noise came from a seed.")


class Spread(_Form):
    """Accuracy (fraction of samples): mean, standard deviation and values over the seeds."""

    mean: float = Field(ge=0, le=1)
    std: float | None = Field(ge=0, description="Sample standard deviation over the seeds; null for one seed.")
    by_seed: dict[str, float]
    largest_class: float | None = Field(None, description="Fraction of samples in the largest class; null if unknown.")
    balanced_accuracy: float | None = Field(
        None, description="Mean recall over the classes; null if unknown, or if classes are balanced."
    )
    recall: dict[str, float | None] | None = Field(
        None, description="Recall by class; null if unknown, or if classes are balanced."
    )


class PublicData(_Form):
    """Unlabelled public data that a method uses."""

    use: str = Field(description="Purpose: features, queries, student, the scale of samples, or not said.")
    samples: int | None = Field(ge=0)
    encoder: str = Field("none", description="Other public data on which encoders of the features were trained.")


class Round(_Form):
    """Round of query selection, with its strategy and number of queries."""

    strategy: str
    queries: int = Field(ge=1)


class Row(_Form):
    """Result of one setting of a method on one data set."""

    dataset: str
    method: str = Field(description="PATE, or the system of a private model, such as DP-SGD or DPPL.")
    variant: str = Field(description="Mechanism of PATE, or form of a private model.")
    parameters: dict[str, Any] = Field(description="Parameters of the mechanism or form.")
    learner: str = Field(description="Method of training and network, as text.")
    student: str | None = Field(description="Method of the student; null for a private model.")
    model: str = Field(description="Trained network or other model.")
    selection: str = Field(description="Selection of queries, as text; empty for the first queries of the pool.")
    rounds: list[Round] = Field(description="Rounds in which queries were selected, in order.")
    teachers: int | None = Field(ge=1)
    epochs: int | None = Field(ge=1, description="Epochs of each teacher; null without training.")
    queries: int | None = Field(ge=0)
    delta: float = Field(gt=0, lt=1)
    protects: str = Field(
        description="Difference between adjacent data sets: a teacher's shard or a label is replaced, or a record is"
        " added or removed. Compare ε only within one of these units."
    )
    selected_by_labels: bool = Field(
        False, description="True if private labels selected the records; ε is then for the data after the selection."
    )
    epsilon: Costs
    accuracy: Spread
    label_accuracy: Spread | None
    public_data: PublicData


class Rows(_Form):
    """All results of a run, one `Row` per setting."""

    rows: list[Row]


def schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of the file `rows.json`.

    The file contains the entries of `Rows`, its kind ("rows"), and the SHA-256 digest of its content.
    """
    parts = Rows.model_json_schema()
    digest = {"type": "string", "description": "SHA-256 of the rest of the file."}
    written = {"kind": {"const": "rows"}, "digest": digest, **parts["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **parts,
        "title": "patebench rows",
        "properties": written,
        "required": list(written),
    }


def schema_text() -> str:
    """Return the JSON schema of the file `rows.json` as formatted text."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def rows(records: Records, published: Published, selected: Collection[str] = ()) -> Rows:
    """Return one row per setting in `records`: sorted rows of students, then sorted rows of private models.

    `selected` names the data sets whose private records were selected by their labels (`selected_by_labels`).
    """
    found = [*_student_rows(records, published), *_model_rows(records, published)]
    return Rows(rows=[row.model_copy(update={"selected_by_labels": row.dataset in selected}) for row in found])


def _student_rows(records: Records, published: Published) -> Iterator[Row]:
    labels = [*LABEL_SET, "rounds", "queries", "delta"]
    bounds, audits = records.bounds, records.audits[records.audits["kind"] == Kind.AUDITED_LOWER]
    students = records.students.merge(bounds[labels].drop_duplicates(), on=labels[:-1])
    for group in _groups(students, [*STUDENT, "delta"]):
        row = group.head(1).to_dict("records")[0]
        own = group[labels].head(1).merge(bounds, on=labels)
        stated = own[stated_by_paper(own)]
        dependent = stated[stated["kind"] == Kind.DATA_DEPENDENT]
        same = {name: row[name] for name in ("dataset", "teachers", "mechanism", "queries", "delta")}
        parameters = {name: float(value) for name, value in row["parameters"].items()}
        labels_only = protects_labels(row["setting"])  # printed and audited ε are in another unit
        printed = [] if row["rounds"] or labels_only else published.select("epsilon", **same)
        of_audit = [*same, "noise"]
        audited = audits[:0] if labels_only else audits
        use, samples = public_use(row)
        yield Row(
            dataset=row["dataset"],
            method=PATE,
            variant=row["mechanism"],
            parameters=parameters,
            learner=", ".join(filter(None, (row["method"], row["student_model"]))),
            student=row["method"],
            model=row["student_model"],
            selection=rounds_in_words(row["selection"]),
            rounds=[Round(strategy=each["strategy"], queries=each["queries"]) for each in row["selection"]],
            teachers=row["teachers"],
            epochs=_or_none(row["epochs"]),
            queries=row["queries"],
            delta=row["delta"],
            protects=str(own["adjacency"].iloc[0]),
            epsilon=Costs(
                reported=_printed_entries(value for value in printed if value.parameters == parameters),
                recomputed=_largest_epsilon(stated if dependent.empty else dependent),
                worst_case=_smallest_epsilon(worst_case_bounds(own)),
                add_or_remove=_smallest_epsilon(worst_case_bounds(own), "add_or_remove"),
                exact=_smallest_epsilon(own[own["exact"] & (own["kind"] == Kind.DATA_DEPENDENT)]),
                audited=_largest_epsilon(group[of_audit].head(1).merge(audited, on=of_audit)),
                publishable=_smallest_epsilon(worst_case_bounds(own[own["publishable"]])),
            ),
            accuracy=_spread(group, "accuracy"),
            label_accuracy=_spread(group, "label_accuracy"),
            public_data=PublicData(use=use, samples=samples, encoder=data_seen(row, use)),
        )


#: Columns of a private model that differ between its bounds.
_OF_A_BOUND = ("queries", "kind", "accountant", "label", "conversion")


def _model_rows(records: Records, published: Published) -> Iterator[Row]:
    for group in _groups(records.private_models, [name for name in PRIVATE_MODEL if name not in _OF_A_BOUND]):
        row, models = group.head(1).to_dict("records")[0], group.drop_duplicates("seed")
        yield Row(
            dataset=row["dataset"],
            method=row["system"],
            variant=row["form"],
            parameters={name: value for name, value in row["parameters"].items() if value is not None},
            learner=row["model"],
            student=None,
            model=row["model"],
            selection="",
            rounds=[],
            teachers=_or_none(row["teachers"]),
            epochs=None,
            queries=row["queries"],
            delta=row["delta"],
            protects=row["adjacency"],
            epsilon=Costs(
                reported=_printed_entries(_printed_of_model(published, row)),
                recomputed=_smallest_epsilon(group[group["kind"] == Kind.CLAIMED]),
                worst_case=_smallest_epsilon(worst_case_bounds(group)),
                add_or_remove=_smallest_epsilon(worst_case_bounds(group), "add_or_remove"),
                exact=None,
                audited=cell_in_json(float(group["audited"].max())),
                publishable=_smallest_epsilon(worst_case_bounds(group[group["publishable"]])),
            ),
            accuracy=_spread(models, "accuracy"),
            label_accuracy=_spread(models, "label_accuracy"),
            public_data=PublicData(
                use=_or_none(row["public_use"]) or "not said",
                samples=_or_none(row["public_samples"]),
                encoder=data_seen(row, row["public_use"]),
            ),
        )


def _or_none(value: Any) -> Any:
    return None if pd.isna(value) else value


def _groups(frame: pd.DataFrame, keys: list[str]) -> Iterator[pd.DataFrame]:
    """Yield the rows of `frame` for each combination of the columns `keys`, in sorted order."""
    for _, group in sort_rows(frame, keys).groupby(keys, dropna=False, sort=False):
        yield group


def _smallest_epsilon(bounds: pd.DataFrame, column: str = "epsilon") -> Epsilon | None:
    """Return the least ε in the column `column` of `bounds` that holds for every seed; None without bounds.

    This is the largest over the seeds of the smallest bound of each seed.
    """
    known = bounds.dropna(subset=column)
    return cell_in_json(float(known.groupby("seed")[column].min().max())) if len(known) else None


def _largest_epsilon(bounds: pd.DataFrame) -> Epsilon | None:
    return cell_in_json(float(bounds["epsilon"].max())) if len(bounds) else None


def _spread(group: pd.DataFrame, name: str) -> Spread | None:
    """Return mean, deviation and values over the seeds of the accuracy in the column `name`; None without values."""
    group = group.dropna(subset=name)
    if group.empty:
        return None
    std = float(deviation(group[name]))
    by_seed = {str(seed): float(value) for seed, value in zip(group["seed"], group[name], strict=True)}
    largest, balanced = (group[name.replace("accuracy", what)].mean() for what in BESIDE_ACCURACY[:2])
    return Spread(
        mean=float(group[name].mean()),
        std=None if math.isnan(std) else std,
        by_seed=by_seed,
        largest_class=_or_none(largest),
        balanced_accuracy=_or_none(balanced),
        recall=mean_recall(group[name.replace("accuracy", "recall")]),
    )


def _printed_of_model(published: Published, row: Mapping[Any, Any]) -> list[Value]:
    """Return the values of ε that papers print for the private model in `row`.

    Private models have several variants, named in the column `form`. Papers print ε only for the variant "published";
    for other variants, the list is empty.
    """
    if row["form"] != "published":
        return []
    mechanism = next((name for name, system in SYSTEMS.items() if system == row["system"]), PETDL)
    printed = published.select("epsilon", dataset=row["dataset"], mechanism=mechanism, delta=row["delta"])
    if mechanism != PETDL:
        return [value for value in printed if value.queries is not None]
    chosen = row["parameters"]
    facts = {**row, "compression": chosen.get("compression") or 1.0, "weighted": bool(chosen.get("weighted"))}
    return [value for value in printed if is_printed_of(value, facts)]


def _printed_entries(values: Iterable[Value]) -> list[Printed]:
    """Return the entries of `rows.json` for the published `values`, without those for changed copies of data sets."""
    same = (value for value in values if value.copy_of is None)
    return [Printed(paper=value.paper, row=f"{value.table}, {value.row}", epsilon=value.value) for value in same]
