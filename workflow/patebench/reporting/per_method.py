"""What each method of a run reached, once for people and once for other programs.

`methods` gives one point per method: what it reaches at an ε that still says something, and what papers print of the
same data. A method is a mechanism, whatever student learnt from its labels, or a form of a private model. Of its
settings whose ε is at most `WEAK` the most accurate one is shown; if all cost more, the cheapest. That choice looks at
the test set, as papers do.

`rows` gives one object per setting of a method, at one δ, with every ε known of it; seeds are one row. `Rows` is its
form and `schema` the JSON schema.
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from patebench.core.bound import Adjacency, Kind
from patebench.core.text import cell_in_json
from patebench.reporting.frames import Records, arrange, deviation, sound
from patebench.reporting.outcomes import (
    LABEL_SET,
    PETDL_CHOSEN,
    PRIVATE_MODEL,
    STUDENT,
    is_printed_of,
    outcomes,
    private_models,
    public_use,
    stated_by_paper,
)
from patebench.reporting.published import (
    ALL_SYSTEMS,
    DISTRIBUTED_2018,
    DP_SGD,
    NZC_2020,
    PATE,
    PATE_2017,
    PETDL,
    PETDL_2019,
    PRIVATE_KNN,
    PRIVATE_KNN_2020,
    SCALABLE_2018,
    SYSTEMS,
    Published,
    Value,
)
from patebench.reporting.published import DPSGD as PAPERS_ON_DPSGD
from patebench.reporting.wording import WEAK, in_words, owners_in_words, parameters_in_words, rounds_in_words

if TYPE_CHECKING:
    import pandas as pd

#: The paper that a mechanism, or a system whose model is private itself, comes from.
PAPERS = {
    "lnmax": PATE_2017,
    **dict.fromkeys(("gnmax", "confident-gnmax", "interactive-gnmax"), SCALABLE_2018),
    **dict.fromkeys(("immutable-lnmax", "immutable-gnmax"), NZC_2020),
    **dict.fromkeys(("randomised-response", "truncated-geometric"), DISTRIBUTED_2018),
    ALL_SYSTEMS[PETDL]: PETDL_2019,
    ALL_SYSTEMS[PRIVATE_KNN]: PRIVATE_KNN_2020,
    ALL_SYSTEMS[DP_SGD]: PAPERS_ON_DPSGD[0],
}
#: What is of none of them.
NO_PAPER = "of no paper here"

#: What a printed ε may stand beside.
_PRINTED = ("student_accuracy", "private_model_accuracy")

POINT_COLUMNS = (
    *("dataset", "method", "detail", "paper", "kind", "epsilon", "delta", "adjacency"),
    *("accuracy_mean", "accuracy_std", "baseline_accuracy_mean", "public_use", "public_samples", "seeds", "published"),
)


def methods(records: Records, published: Published) -> "pd.DataFrame":
    """Return a row per data set, method and kind of ε, and per printed pair of ε and accuracy.

    Accuracies are fractions; `published` says whether a row is a paper's. An ε that is infinite or 0 is left out.
    """
    import pandas as pd

    rows = [*_student_points(records), *_model_points(records)]
    datasets = sorted({row["dataset"] for row in rows})
    rows += [_printed_point(value, accuracy) for each in datasets for value, accuracy in _pairs(published, each)]
    frame = pd.DataFrame(rows, columns=list(POINT_COLUMNS))
    frame = frame[(frame["epsilon"] > 0) & (frame["epsilon"] < float("inf"))]
    frame = frame.drop_duplicates(["dataset", "method", "detail", "kind", "epsilon", "accuracy_mean"])
    return frame.sort_values(["dataset", "published", "epsilon", "method"], kind="stable", ignore_index=True)


def _best(settings: "pd.DataFrame", by: list[str], epsilon: str) -> "pd.DataFrame":
    """One setting per group of equal `by`, as the head of this file says."""
    ranked = settings.assign(weak=settings[epsilon] > WEAK, cost=settings[epsilon].where(settings[epsilon] > WEAK, 0.0))
    ranked = ranked.sort_values(["weak", "cost", "accuracy_mean"], ascending=[True, True, False], kind="stable")
    return ranked.drop_duplicates(by)


def _student_points(records: Records) -> list[dict[str, Any]]:
    """Two rows for each mechanism: the same student at its worst-case ε and at its data-dependent one."""
    found = outcomes(records)
    found = _best(found[found["worst_case_epsilon_mean"].notna()], ["dataset", "mechanism"], "worst_case_epsilon_mean")
    rows = []
    for row in found.to_dict("records"):
        uses, samples = public_use(row)
        detail = parameters_in_words(row["mechanism"], row["parameters"])
        detail += f", {row['teachers']:,} teachers, {row['queries']:,} queries"
        common = {name: row[name] for name in _COPIED} | {"method": row["mechanism"]}
        common |= {
            "detail": f"{detail}, student: {in_words(row['method'])}",
            "adjacency": owners_in_words(row["partition"]) or str(Adjacency.REPLACE_TEACHER),
        }
        common |= {"paper": PAPERS.get(str(row["mechanism"]), NO_PAPER), "published": False}
        common |= {"public_use": uses, "public_samples": samples}
        worst, leaky = (row[f"{kind}_epsilon_mean"] for kind in (Kind.WORST_CASE, Kind.DATA_DEPENDENT))
        rows.append({**common, "kind": str(Kind.WORST_CASE), "epsilon": worst})
        if leaky != worst:  # a mechanism whose cost depends on no votes has one ε
            rows.append({**common, "kind": str(Kind.DATA_DEPENDENT), "epsilon": leaky})
    return rows


_COPIED = ("dataset", "delta", "accuracy_mean", "accuracy_std", "baseline_accuracy_mean", "seeds")


def _model_points(records: Records) -> list[dict[str, Any]]:
    """A row for each form of a model that is private itself and kind of its ε."""
    found = _best(private_models(records), ["dataset", "system", "form", "kind", "adjacency"], "epsilon_mean")
    rows = []
    for row in found.to_dict("records"):
        common = {name: row[name] for name in (*_COPIED, "kind", "adjacency", "public_use", "public_samples")}
        common |= {"method": f"{row['system']}, {row['form']}", "detail": f"model: {in_words(row['model'])}"}
        common |= {"paper": PAPERS.get(str(row["system"]), NO_PAPER), "epsilon": row["epsilon_mean"]}
        rows.append({**common, "published": False})
    return rows


def _pairs(published: Published, dataset: str) -> list[tuple[Value, float]]:
    """Each printed ε with the accuracy in the same row, of a student or a private model, where that is one number.

    Of each paper what it prints of its own method: what it quotes of others stands with those.
    """
    found = []
    for value in filter(_own, published.select("epsilon", dataset=dataset)):
        row = {name: getattr(value, name) for name in ("paper", "table", "row", "mechanism", "dataset")}
        accuracies = {each.value for quantity in _PRINTED for each in published.select(quantity, **row)}
        found += [(value, accuracy) for accuracy in accuracies if len(accuracies) == 1]
    return found


def _own(value: Value) -> bool:
    if value.mechanism == DP_SGD:
        return value.paper in PAPERS_ON_DPSGD
    return PAPERS.get(ALL_SYSTEMS.get(value.mechanism, str(value.mechanism))) == value.paper


def _printed_point(value: Value, accuracy: float) -> dict[str, Any]:
    """The row of a printed point: its ε is claimed, for nobody checked it here, or is by a data-dependent theorem."""
    of_votes = value.paper in (PATE_2017, SCALABLE_2018) and value.mechanism != DP_SGD
    kind = Kind.DATA_DEPENDENT if of_votes else Kind.CLAIMED
    of_record = value.mechanism in (DP_SGD, PRIVATE_KNN)
    where = ", ".join(filter(None, [value.table, value.row]))
    return {
        **{"dataset": value.dataset, "method": f"printed: {value.source}", "detail": where, "paper": value.paper},
        **{"kind": str(kind), "epsilon": value.value, "delta": value.delta},
        "adjacency": str(Adjacency.ADD_OR_REMOVE_RECORD if of_record else Adjacency.REPLACE_TEACHER),
        **{"accuracy_mean": accuracy, "accuracy_std": None, "baseline_accuracy_mean": None},
        **{"public_use": "as printed", "public_samples": None, "seeds": None, "published": True},
    }


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
    return Rows(rows=[*_student_rows(records, published), *_model_rows(records, published)])


def _student_rows(records: Records, published: Published) -> Iterator[Row]:
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
            selection=rounds_in_words(first["selection"]),
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


def _model_rows(records: Records, published: Published) -> Iterator[Row]:
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
        chosen = {name: row["parameters"].get(name) for name in PETDL_CHOSEN}
        chosen |= {"compression": chosen["compression"] or 1.0, "weighted": bool(chosen["weighted"])}
        facts = {**chosen, "form": key["form"], "dataset": key["dataset"], "teachers": key["teachers"]}
        return _as_printed(value for value in found if is_printed_of(value, facts))
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
