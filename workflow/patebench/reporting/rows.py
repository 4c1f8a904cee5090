"""The rows of a run for other programs: one object per method, data set and ε, with what is known of each.

A method is a setting of its own: a student of labels under one mechanism, noise and number of queries, or a model that
is private itself, at one δ. What differs by the seed alone is one row. `Rows` is the form, `schema` its JSON schema.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from patebench.core.bound import Adjacency, Kind
from patebench.core.text import cell_in_json
from patebench.reporting.frames import Records, arrange, deviation, sound
from patebench.reporting.outcomes import LABEL_SET, PRIVATE_MODEL, STUDENT, public_use, stated_by_paper
from patebench.reporting.petdl import CHOSEN, alike
from patebench.reporting.published import PATE, PETDL, SYSTEMS, Published

if TYPE_CHECKING:
    import pandas as pd

#: An ε: strict JSON has no infinity.
Epsilon = float | Literal["inf"]

_FORM = ConfigDict(extra="forbid", frozen=True)


class Printed(BaseModel):
    """An ε that a paper prints for the same setting."""

    model_config = _FORM

    paper: str
    row: str = Field(description="Table and row, as `patebench reproduce` names them.")
    epsilon: Epsilon


class Costs(BaseModel):
    """Every ε that is known of a row, the largest over the seeds; null where nothing is known."""

    model_config = _FORM

    reported: list[Printed] = Field(description="What papers print for this setting.")
    recomputed: Epsilon | None = Field(description="By the accountant of the method's own paper.")
    worst_case: Epsilon | None = Field(description="The least that holds whatever the private data are.")
    exact: Epsilon | None = Field(description="The least of these very votes. It tells of them: not to be published.")
    audited: Epsilon | None = Field(description="What an audit found to be lost at least.")
    publishable: Epsilon | None = Field(description="What may be published; null of what was drawn from a seed.")


class Spread(BaseModel):
    """A share of samples over the seeds."""

    model_config = _FORM

    mean: float = Field(ge=0, le=1)
    std: float | None = Field(ge=0, description="The sample standard deviation; null of one seed.")
    by_seed: dict[str, float]


class PublicData(BaseModel):
    """Which public data were used."""

    model_config = _FORM

    use: str = Field(description="What for: features, queries, student; the scale of samples; or not said.")
    samples: int | None = Field(ge=0)


class Row(BaseModel):
    """One method on one data set at one ε."""

    model_config = _FORM

    dataset: str
    method: str = Field(description="PATE, PET-DL, Private-kNN or DP-SGD.")
    variant: str = Field(description="The mechanism, or the form.")
    parameters: dict[str, Any] = Field(description="Those of the mechanism, or of the form.")
    learner: str = Field(description="What was trained: method and network.")
    selection: str = Field(description="How queries were selected; empty for the first ones of the pool.")
    teachers: int | None = Field(ge=1)
    queries: int | None = Field(ge=0)
    delta: float = Field(gt=0, lt=1)
    protects: str = Field(description="How two data sets differ that ε is about.")
    epsilon: Costs
    accuracy: Spread
    label_accuracy: Spread | None
    public_data: PublicData


class Rows(BaseModel):
    """All rows of a run."""

    model_config = _FORM

    rows: list[Row]


def schema() -> dict[str, Any]:
    """The JSON schema (2020-12) of the file, with the words that every artefact here has."""
    found = Rows.model_json_schema()
    written = {
        "kind": {"const": "rows"},
        "digest": {"type": "string", "description": "SHA-256 of all the rest."},
        **found["properties"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": "patebench rows",
        "properties": written,
        "required": list(written),
    }


def schema_text() -> str:
    """The schema as a file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def rows(records: Records, published: Published) -> Rows:
    """The rows of a run, students first, in natural order."""
    return Rows(rows=[*_students(records, published), *_private_models(records, published)])


def _students(records: Records, published: Published) -> Iterator[Row]:
    students, bounds = records.students, records.bounds
    if students.empty:
        return
    labels = [*LABEL_SET, "rounds", "queries"]
    keys = [*STUDENT, "delta"]
    deltas = bounds[[*labels, "delta"]].drop_duplicates()
    for key, group in _groups(students.merge(deltas, on=labels), keys):
        mine = _alike(bounds, {name: key[name] for name in [*labels, "delta"]})
        first = group.iloc[0]
        parameters = {name: float(value) for name, value in first["parameters"].items()}
        same = {name: key[name] for name in ("dataset", "teachers", "mechanism", "queries", "delta")}
        use, samples = public_use(first.to_dict())
        yield Row(
            dataset=key["dataset"],
            method=PATE,
            variant=key["mechanism"],
            parameters=parameters,
            learner=_words(key["method"], key["student_model"]),
            selection=key["rounds_in_words"] or "",
            teachers=key["teachers"],
            queries=key["queries"],
            delta=key["delta"],
            protects=str(Adjacency.REPLACE_TEACHER) if mine.empty else str(mine["adjacency"].iloc[0]),
            epsilon=Costs(
                reported=[] if key["rounds"] else _reported(published, same, parameters),
                recomputed=_largest(mine[stated_by_paper(mine)], preferred=Kind.DATA_DEPENDENT),
                worst_case=_largest(_least(sound(mine))),
                exact=_largest(_least(mine[mine["exact"] & (mine["kind"] == Kind.DATA_DEPENDENT)])),
                audited=_audited(records, key),
                publishable=_largest(_least(sound(mine[mine["publishable"]]))),
            ),
            accuracy=_spread(group, "accuracy"),
            label_accuracy=_spread(group, "label_accuracy") if group["label_accuracy"].notna().any() else None,
            public_data=PublicData(use=use, samples=samples),
        )


def _private_models(records: Records, published: Published) -> Iterator[Row]:
    models = records.private_models
    keys = [name for name in PRIVATE_MODEL if name not in _OF_A_BOUND]
    for key, group in _groups(models, keys):
        one = group.drop_duplicates("seed")
        claimed = group[group["kind"] == Kind.CLAIMED]
        first = group.iloc[0]
        yield Row(
            dataset=key["dataset"],
            method=key["system"],
            variant=key["form"],
            parameters=_plain(first["parameters"]),
            learner=str(key["model"]),
            selection="",
            teachers=key["teachers"],
            queries=int(first["queries"]),
            delta=key["delta"],
            protects=str(key["adjacency"]),
            epsilon=Costs(
                reported=_printed_of_models(published, key, first),
                recomputed=_largest(_least(claimed)),
                worst_case=_largest(_least(sound(group))),
                exact=None,
                audited=cell_in_json(group["audited"].max()),
                publishable=_largest(_least(sound(group[group["publishable"]]))),
            ),
            accuracy=_spread(one, "accuracy"),
            label_accuracy=_spread(one, "label_accuracy") if one["label_accuracy"].notna().any() else None,
            public_data=PublicData(use=key["public_use"] or "not said", samples=_whole(key["public_samples"])),
        )


#: What tells several bounds on one model apart.
_OF_A_BOUND = ("queries", "kind", "accountant", "label", "conversion")


def _groups(frame: "pd.DataFrame", keys: list[str]) -> Iterator[tuple[dict[str, Any], "pd.DataFrame"]]:
    """The rows of each group of equal keys, in natural order; what is missing is None."""
    import pandas as pd

    for row in arrange(frame[keys].drop_duplicates(), keys).to_dict("records"):
        key = {str(name): None if pd.isna(value) else value for name, value in row.items()}
        yield key, _alike(frame, key)


def _alike(frame: "pd.DataFrame", key: Mapping[str, Any]) -> "pd.DataFrame":
    for name, value in key.items():
        frame = frame[frame[name].isna()] if value is None else frame[frame[name] == value]
    return frame


def _least(bounds: "pd.DataFrame") -> "pd.DataFrame":
    """The least bound of each seed."""
    return bounds.sort_values("epsilon", kind="stable").drop_duplicates("seed")


def _largest(bounds: "pd.DataFrame", preferred: Kind | None = None) -> Epsilon | None:
    """The largest over the seeds; of several kinds the preferred one, where it is there."""
    if preferred is not None and (bounds["kind"] == preferred).any():
        bounds = bounds[bounds["kind"] == preferred]
    return cell_in_json(bounds["epsilon"].max()) if len(bounds) else None


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _spread(group: "pd.DataFrame", name: str) -> Spread:
    group = group.dropna(subset=name)
    values = group[name]
    std = float(deviation(values))
    by_seed = {str(seed): float(value) for seed, value in zip(group["seed"], values, strict=True)}
    return Spread(mean=float(values.mean()), std=None if math.isnan(std) else std, by_seed=by_seed)


def _reported(published: Published, same: Mapping[str, Any], parameters: Mapping[str, float]) -> list[Printed]:
    found = published.select("epsilon", **same)
    return _as_printed(value for value in found if value.parameters == parameters)


def _printed_of_models(published: Published, key: Mapping[str, Any], row: "pd.Series[Any]") -> list[Printed]:
    """Of PET-DL and Private-kNN as published alone: DP-SGD's ε is chosen."""
    mechanism = next((each for each, system in SYSTEMS.items() if system == key["system"]), PETDL)
    found = published.select("epsilon", dataset=key["dataset"], mechanism=mechanism, delta=key["delta"])
    if key["form"] != "published":
        return []
    if mechanism == PETDL:
        chosen = {name: row["parameters"].get(name) for name in CHOSEN}
        chosen |= {"compression": chosen["compression"] or 1.0, "weighted": bool(chosen["weighted"])}
        facts = {**chosen, "form": key["form"], "dataset": key["dataset"], "teachers": key["teachers"]}
        return _as_printed(value for value in found if alike(value, facts))
    return _as_printed(value for value in found if value.queries is not None)


def _as_printed(values: Any) -> list[Printed]:
    """But for those of which a data set is only a copy: that is another setting."""
    same = (value for value in values if value.copy_of is None)
    return [Printed(paper=value.paper, row=f"{value.table}, {value.row}", epsilon=value.value) for value in same]


def _audited(records: Records, key: Mapping[str, Any]) -> Epsilon | None:
    names = ("dataset", "teachers", "mechanism", "noise", "queries", "delta")
    found = _alike(records.audits[records.audits["kind"] == Kind.AUDITED_LOWER], {name: key[name] for name in names})
    return cell_in_json(float(found["epsilon"].max())) if len(found) else None


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _words(*parts: Any) -> str:
    return ", ".join(str(part) for part in parts if part)
