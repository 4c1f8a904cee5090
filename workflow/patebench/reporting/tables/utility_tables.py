"""Tables of the accuracy and ε of students and private models."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from patebench.core.bound import Adjacency, Kind
from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.core.errors import PatebenchError
from patebench.reporting.frames import Records, means_and_deviations, over_seeds, sort_rows
from patebench.reporting.outcomes import (
    BESIDE_LABELS,
    PRIVATE_MODEL,
    STUDENT,
    data_seen,
    outcomes,
    private_models,
    protects_added_record,
    protects_replaced_record,
    public_use,
)
from patebench.reporting.published import (
    COMPARISONS,
    OF_RECORDS,
    PATE,
    PATE_2017,
    SCALABLE_2018,
    SYSTEMS,
    Published,
    Value,
)
from patebench.reporting.tables.table import (
    ACCURACY_COLUMNS,
    BALANCE_COLUMNS,
    EPSILON_COLUMNS,
    LABEL_BALANCE_COLUMNS,
    NOISE_COLUMNS,
    SIZE_COLUMNS,
    Column,
    Table,
)
from patebench.reporting.wording import in_text

_COSTS = ("answered", "data_dependent_epsilon", "worst_case_epsilon")
_ACCURACIES = ("label_accuracy", "accuracy", "baseline_accuracy")
_BALANCE = means_and_deviations([*BESIDE_ACCURACY, *BESIDE_LABELS])
_STUDENT_VALUES = [*means_and_deviations([*_COSTS, *_ACCURACIES]), *_BALANCE, "uncovered"]
_PUBLISHED = ("epsilon", "student_accuracy", "baseline_accuracy")
_KEYS = ("dataset", "teachers", "mechanism", "noise", "queries", "delta")


def build_utility_privacy(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per student setting and δ, with its accuracy, smallest worst-case ε and data-dependent ε.

    The data-dependent ε is computed by the accountant of the mechanism's paper or, if this accountant is unknown, by
    the tightest one.
    """
    accountants = ["data_dependent_accountant", "worst_case_accountant"]
    frame = outcomes(records)[[*STUDENT, "delta", "seeds", *accountants, "may_publish", *_STUDENT_VALUES]]
    papers = published.of(PATE_2017, SCALABLE_2018)
    printed = {f"published_{quantity}": papers.beside(frame, quantity, _KEYS) for quantity in _PUBLISHED}
    return frame.assign(**printed)


UTILITY_PRIVACY = Table(
    title="Utility and privacy of the students",
    columns=(
        *SIZE_COLUMNS,
        *NOISE_COLUMNS,
        Column("method", "Student"),
        Column("queries", "Queries", "count"),
        *ACCURACY_COLUMNS,
        Column("published_student_accuracy", "student, published", "percent", group="Accuracy %"),
        *BALANCE_COLUMNS,
        *LABEL_BALANCE_COLUMNS,
        Column("uncovered", "Classes without a label"),
        *EPSILON_COLUMNS,
        Column("may_publish", "this draw publishable", group="ε"),
        Column("published_epsilon", "published", "epsilon", group="ε"),
        Column("delta", "δ", "number"),
        Column("answered_mean", "Answered", "count"),
        Column("rounds_in_words", "Selected in rounds"),
        Column("model", "Teacher"),
        Column("recipe", "Recipe"),
        Column("student_model", "Student’s model"),
        Column("baseline_accuracy", "Non-private accuracy %", "percent", deviation=True),
        Column("published_baseline_accuracy", "Non-private, published", "percent"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build_utility_privacy,
)


_MODEL_VALUES = [*means_and_deviations(["epsilon", "add_or_remove", "answered", *_ACCURACIES, "seconds"]), *_BALANCE]


def build_private_models(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per private model and bound on its ε, with accuracy and ε over the seeds."""
    return private_models(records)[[*PRIVATE_MODEL, "seeds", *_MODEL_VALUES]]


PRIVATE_MODELS = Table(
    title="Private models",
    columns=(
        *SIZE_COLUMNS,
        Column("system", "System"),
        Column("form", "Form"),
        Column("model", "Model"),
        Column("model_parameters", "Parameters", "count"),
        Column("adjacency", "Protects"),
        Column("queries", "Noisy steps", "count"),
        Column("delta", "δ", "number"),
        Column("epsilon_mean", "ε, of fresh noise", "epsilon"),
        Column("add_or_remove_mean", "ε if a record is added or removed", "epsilon"),
        Column("kind", "Kind of ε"),
        Column("label", "Accountant"),
        Column("answered_mean", "Labels", "count"),
        Column("label_accuracy", "Labels right %", "percent", deviation=True),
        *LABEL_BALANCE_COLUMNS,
        Column("accuracy", "Accuracy %", "percent", deviation=True),
        *BALANCE_COLUMNS,
        Column("baseline_accuracy", "Non-private accuracy %", "percent", deviation=True),
        Column("seconds_mean", "Seconds", "number"),
        Column("seeds", "Seeds", "count"),
    ),
    build=build_private_models,
)


_SPLIT = ["dataset", "setting"]
_METHOD = ["dataset", "setting", "teachers", "system", "way", "learner", "queries", "adjacency", "delta"]
_PUBLIC = ["public_use", "public_samples", "encoder_data"]
_EACH = [*_METHOD, *_PUBLIC, "clusters", "epsilon", *means_and_deviations(["accuracy", "baseline_accuracy"]), "seeds"]


def build_bits(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per student or private model and δ, with two reference accuracies at ε = 0.

    The references use no private data: the public pool is clustered, and each cluster is labelled from true labels.

    - `named_accuracy_…`: each cluster gets its most frequent true label. The clusters are those whose centres are the
      student's queries. If there are none, the largest number of clusters in the run is used;
    - `matched_accuracy_…`: there are as many clusters as classes, and each class is assigned to one cluster.

    Splits without clusters are left out.
    """
    frames = [frame.astype(object) for frame in (_students_bits(records), _models_bits(records))]
    rows = pd.concat(frames, ignore_index=True)
    namings = records.namings.rename(columns={"clusters": "named_clusters", "accuracy": "named_accuracy"})
    rows = rows.merge(namings.groupby(_SPLIT)["named_clusters"].max().reset_index(), on=_SPLIT)
    rows["named_clusters"] = rows["clusters"].fillna(rows["named_clusters"]).astype("Int64")
    by = [*_SPLIT, "named_clusters"]
    rows = rows.merge(over_seeds(namings, by, ["named_accuracy"]).drop(columns="seeds"), on=by, how="left")
    matched = over_seeds(namings[namings["matched_accuracy"].notna()], _SPLIT, ["matched_accuracy"])
    rows = rows.merge(matched.drop(columns="seeds"), on=_SPLIT, how="left")
    rows = rows.merge(base_rates(records), on=_SPLIT, how="left")
    numbers = ["epsilon", *means_and_deviations(["accuracy", "baseline_accuracy"])]
    return sort_rows(rows.astype(dict.fromkeys(numbers, float)), [*_METHOD, "epsilon"])


def base_rates(records: Records) -> pd.DataFrame:
    """Return the share of the largest class in the test set, `largest_class_mean`, per data set and split."""
    measured = pd.concat([records.students, records.private_models])
    return over_seeds(measured, _SPLIT, ["largest_class"])[[*_SPLIT, "largest_class_mean"]]


def _students(records: Records) -> pd.DataFrame:
    """Return one row per student setting and δ: the rows of `outcomes`, prepared for the tables of this module.

    These columns are prepared: `system`, `learner`, `epsilon` (worst case), `public_use` and `public_samples` (uses and
    number of public samples), and `encoder_data` (public data, other than the pool, on which encoders were trained).
    """
    frame = outcomes(records)
    learner = frame["method"].str.cat(frame["strategy"], sep=", ").str.removesuffix(", ")
    rows = frame.to_dict("records")
    used = [(use, samples, data_seen(row, use)) for row in rows for use, samples in [public_use(row)]]
    public = {name: [each[place] for each in used] for place, name in enumerate(_PUBLIC)}
    return frame.assign(system=PATE, learner=learner, epsilon=frame["worst_case_epsilon_mean"], **public)


def _models(records: Records, *kinds: Kind) -> pd.DataFrame:
    """Return one row per private model and bound: the rows of `private_models` whose bound is of one of `kinds`.

    Columns are named as for students (`_students`): `way` is the form, `learner` the model, `epsilon` the mean over the
    seeds, and `encoder_data` the public data, other than the pool, on which encoders were trained.
    """
    frame = private_models(records)
    frame = frame[frame["kind"].isin(kinds)]
    seen = [data_seen(row, row["public_use"]) for row in frame.to_dict("records")]
    return frame.assign(way=frame["form"], learner=frame["model"], epsilon=frame["epsilon_mean"], encoder_data=seen)


def _smallest_of_each_model(frame: pd.DataFrame, method: Sequence[str]) -> pd.DataFrame:
    """Return the row with the smallest ε in `frame` per private model and combination of the columns `method`."""
    return frame.sort_values("epsilon", kind="stable").drop_duplicates([*method, "private_model"])


def _students_bits(records: Records) -> pd.DataFrame:
    frame = _students(records).dropna(subset="epsilon")
    return frame.assign(way=frame["mechanism"].str.cat(in_text(frame)["noise_in_words"], sep=", "))[_EACH]


def _models_bits(records: Records) -> pd.DataFrame:
    """Return one row per private model and setting, with accuracy and smallest worst-case ε, for `build_bits`."""
    return _smallest_of_each_model(_models(records, Kind.WORST_CASE).assign(clusters=None), _METHOD)[_EACH]


_AT_ZERO, _REACHED, _PUBLIC_DATA = "At ε = 0", "Accuracy %", "Public data"
_COLUMNS = (
    *SIZE_COLUMNS,
    Column("system", "System"),
    Column("way", "Mechanism or form"),
    Column("queries", "Queries", "count"),
    Column("learner", "What learns"),
    Column("public_use", "used for", group=_PUBLIC_DATA),
    Column("public_samples", "samples, unlabelled", "count", group=_PUBLIC_DATA),
    Column("encoder_data", "seen by the encoder besides", group=_PUBLIC_DATA),
    Column("matched_accuracy", "% of one for each class", "percent", True, group=_AT_ZERO),
    Column("named_clusters", "clusters", "count", group=_AT_ZERO),
    Column("named_accuracy", "% of all, named by true labels", "percent", True, group=_AT_ZERO),
    Column("accuracy", "at ε", "percent", True, group=_REACHED),
    Column("baseline_accuracy", "without privacy", "percent", True, group=_REACHED),
    BALANCE_COLUMNS[0],
    Column("epsilon", "ε, of fresh noise", "epsilon"),
    Column("delta", "δ", "number"),
    Column("adjacency", "Protects"),
    Column("seeds", "Seeds", "count"),
)

BITS = Table(title="Contribution of public data and cost of privacy", columns=_COLUMNS, build=build_bits)


#: Target values of ε. Tables have two columns per target: the largest ε that does not exceed the target, and the
#: accuracy at this ε.
TARGETS = (0.02, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
#: Columns of the mean accuracy at each target ε.
ACCURACIES = [f"accuracy_at_{target:g}_mean" for target in TARGETS]

#: Columns that identify a method; settings of one method differ only in noise, number of queries and ε.
METHOD = ("dataset", "setting", "teachers", "system", "way", "learner", "encoder_data", "adjacency", "kind", "delta")
#: Columns that distinguish methods of students with the same mechanism.
_OF_STUDENT = ("partition", "model", "recipe", "epochs", "clusters", "student_model", "student_recipe")
#: Parameters of private models that determine the noise or follow from the target ε.
_OF_NOISE = ("noise", "sigma1", "sigma2", "epsilon", "delta")
_FOUND = ("epsilon", "accuracy_mean", "accuracy_std", "seeds")
#: Quantity of papers that compare systems at the same ε.
_COMPARED = "accuracy_at_epsilon"


def build_equal_epsilon(records: Records, published: Published) -> pd.DataFrame:
    """Return one row per method, with the accuracy that the method reaches at each target ε in `TARGETS`.

    The accuracies are measured, or printed in a paper. The settings of a method differ in noise, number of queries and
    ε. For each target, the columns contain ε and accuracy of the setting with the largest ε that does not exceed the
    target. Both are NaN if all settings exceed the target.
    """
    frames = [_students_equal_epsilon(records), _models_equal_epsilon(records), _published_pairs(published, records)]
    found = _by_target(pd.concat([frame.astype(object) for frame in frames], ignore_index=True))
    return found.merge(base_rates(records), on=_SPLIT, how="left")


def join_tables(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return one table that joins the results of `build_equal_epsilon` for several runs (`tables`).

    Each table contains, per method, the accuracy at each target ε. If several tables contain a method, the accuracy at
    the largest ε that does not exceed the target is used. Raises PatebenchError if two tables contain different
    accuracies of a method at the same ε.
    """
    settings = pd.concat(
        [
            table[[*METHOD, *named.values()]].rename(columns={written: name for name, written in named.items()})
            # Tables of older versions do not state the data of the encoder, so their methods are rows of their own.
            for table in (table.assign(encoder_data=table.get("encoder_data")) for table in tables)
            for named in map(_columns_at, TARGETS)
            if set(named.values()) <= set(table)  # a table leaves out a target that no method meets
        ],
        ignore_index=True,
    )
    settings = settings.dropna(subset="epsilon").drop_duplicates()
    twice = settings[settings.duplicated([*METHOD, "epsilon"])]
    if not twice.empty:
        method = twice.iloc[0]
        raise PatebenchError(
            f"the tables have different accuracies of {method['learner']} at ε = {method['epsilon']:g}; leave out one"
            " of the tables"
        )
    return _by_target(settings)


def _columns_at(target: float) -> dict[str, str]:
    """Return the names of the columns for a `target` ε, such as {"epsilon": "epsilon_at_1", …} for the target 1."""
    named = {name: f"{name}_at_{target:g}" for name in ("epsilon", "seeds")}
    return named | {f"accuracy_{what}": f"accuracy_at_{target:g}_{what}" for what in ("mean", "std")}


def _by_target(settings: pd.DataFrame) -> pd.DataFrame:
    """Return one row per method, with the ε and accuracy that the method reaches at each target ε in `TARGETS`.

    `settings` has one row per setting of a method. For each target, the setting with the largest ε up to the target is
    used.
    """
    methods = settings[[*METHOD]].drop_duplicates()
    for target in TARGETS:
        within = settings[settings["epsilon"] <= target].sort_values("epsilon", kind="stable")
        spent = within.drop_duplicates([*METHOD], keep="last")
        methods = methods.merge(spent.rename(columns=_columns_at(target)), on=[*METHOD], how="left")
    numbers = methods.columns.difference([*METHOD])
    methods[numbers] = methods[numbers].astype(float)
    return sort_rows(methods.dropna(subset=ACCURACIES, how="all"), METHOD)


def equal_epsilon_columns(frame: pd.DataFrame) -> Sequence[Column]:
    """Return the visible columns of a table `equal-epsilon`: the method, then ε and accuracy for each target ε.

    A target that no method in `frame` meets is left out.
    """
    found = [
        *SIZE_COLUMNS,
        Column("system", "System"),
        Column("way", "Mechanism or form"),
        Column("learner", "What learns"),
        Column("encoder_data", "Encoder’s data besides the pool"),
        Column("adjacency", "Protects"),
        Column("kind", "Kind of ε"),
        Column("delta", "δ", "number"),
        *(BALANCE_COLUMNS[:1] if "largest_class_mean" in frame else ()),  # joined tables lack this column
    ]
    for target in TARGETS:
        if frame[f"epsilon_at_{target:g}"].notna().any():
            group = f"At ε ≤ {target:g}"
            found.append(Column(f"epsilon_at_{target:g}", "ε", "epsilon", group=group))
            found.append(Column(f"accuracy_at_{target:g}", "accuracy %", "percent", True, group=group))
    return found


def _students_equal_epsilon(records: Records) -> pd.DataFrame:
    frame = _students(records)
    frame = frame.assign(way=frame["mechanism"], kind=str(Kind.WORST_CASE))
    settings = frame[list(_OF_STUDENT)].map(_as_text).rename(columns={"clusters": "queries"})
    frame = _add_differing_settings(frame, settings)
    # Queries may cost nothing; then settings that differ in the number of queries have equal ε.
    tied = frame.duplicated([*METHOD, "epsilon"], keep=False)
    frame.loc[tied, "learner"] += ", T = " + frame.loc[tied, "queries"].astype(str)
    of_shards = frame["adjacency"] == str(Adjacency.REPLACE_TEACHER)
    # Older records do not state votes beyond the cap. There, the ensemble's name shows if records cast several votes.
    beyond, several = frame["votes_beyond_cap"], frame["ensemble"].str.contains("_neighbours-")
    all_count = (beyond == 0).fillna(False) | (beyond.isna() & ~several)
    alone = (frame["private_records"] == frame["teachers"]).fillna(False) & all_count
    of_ensemble = frame["model"], frame["partition"]
    replaced = of_shards & np.fromiter(map(protects_replaced_record, *of_ensemble), bool, len(frame))
    added = of_shards & np.fromiter(map(protects_added_record, *of_ensemble, alone), bool, len(frame))
    frame.loc[replaced, "adjacency"] = str(Adjacency.REPLACE_RECORD)
    return _append_added_records(frame[[*METHOD, *_FOUND, "add_or_remove"]], added)


def _append_added_records(frame: pd.DataFrame, by_record: "pd.Series[bool]") -> pd.DataFrame:
    """Return `frame` with additional rows whose ε protects one added or removed record.

    Each row in which `by_record` is True and `add_or_remove` has a value is repeated, with `add_or_remove` as its ε.
    """
    added = frame[frame["add_or_remove"].notna() & by_record]
    added = added.assign(adjacency=str(Adjacency.ADD_OR_REMOVE_RECORD), epsilon=added["add_or_remove"])
    return pd.concat([frame, added], ignore_index=True)[[*METHOD, *_FOUND]]


def _as_text(value: Any) -> str | None:
    return None if pd.isna(value) or value == "" else f"{value:g}" if isinstance(value, float) else str(value)


def _models_equal_epsilon(records: Records) -> pd.DataFrame:
    frame = _models(records, Kind.WORST_CASE, Kind.CLAIMED)
    key = ["dataset", "setting", "private_model"]
    known = records.private_models.drop_duplicates(key).set_index(key)["parameters"]
    chosen = [known[each] for each in frame[key].itertuples(index=False, name=None)]
    settings = pd.DataFrame(chosen, index=frame.index, dtype=object)  # integers stay integers
    settings = settings.drop(columns=list(_OF_NOISE), errors="ignore").map(_as_text)
    frame = _add_differing_settings(frame.assign(add_or_remove=frame["add_or_remove_mean"]), settings)
    smallest = _smallest_of_each_model(frame, METHOD)
    return _append_added_records(smallest, smallest["adjacency"] == Adjacency.REPLACE_RECORD)


def _add_differing_settings(frame: pd.DataFrame, settings: pd.DataFrame) -> pd.DataFrame:
    """Return `frame` with settings added to the text in `learner`, so that rows of one method have equal settings.

    A method is a combination of values in the columns `METHOD`, which include `learner`. `settings` has the index of
    `frame` and one column of text per setting. If a setting differs between the rows of a method, it is added to their
    `learner`, as in "fixmatch, epochs: 10". The rows then belong to different methods.
    """
    learners = frame["learner"].copy()
    for _, group in frame.groupby(list(METHOD), dropna=False):
        mine = settings.loc[group.index]
        for name in mine:
            if mine[name].nunique(dropna=False) > 1:
                stated = mine[name].dropna()
                learners[stated.index] += f", {str(name).replace('_', ' ')}: " + stated
    return frame.assign(learner=learners)


def _published_pairs(published: Published, records: Records) -> pd.DataFrame:
    """Return one row per pair of ε and accuracy that a paper prints, for the data sets and splits in `records`."""
    rows, records = [], records.of_whole_records()
    panels = pd.concat([records.ensembles, records.private_models])[["dataset", "setting"]].drop_duplicates()
    models, comparisons = published.of(*OF_RECORDS), published.of(*COMPARISONS)
    for dataset, setting in panels.itertuples(index=False):
        panel = {"dataset": dataset, "setting": setting}
        for value, accuracy in models.points("private_model_accuracy", dataset=dataset):
            rows.append({**panel, **_printed(value, value.source, value.value, accuracy)})
        compared = [(value, comparisons.spent(value)) for value in comparisons.select(_COMPARED, dataset=dataset)]
        known = [(value, spent) for value, spent in compared if spent is not None]
        rows += [
            {**panel, **_printed(value, learner, spent, value.value)}
            for (value, spent), learner in zip(known, _name_learners(known), strict=True)
        ]
    return pd.DataFrame(rows, columns=[*METHOD, *_FOUND])


def _name_learners(pairs: Sequence[tuple[Value, float]]) -> list[str]:
    """Return a name for the learner of each of `pairs`; a pair is an accuracy printed in a paper, and its ε.

    The name consists of the paper and the heading of the accuracy's column. A heading is ambiguous if the paper prints
    several accuracies below it for one mechanism and one ε. If the heading is ambiguous, the name also contains the
    table.
    """
    columns = [(value.source, value.column, value.mechanism) for value, _ in pairs]
    cells: dict[tuple[object, ...], set[float]] = {}
    for (value, spent), column in zip(pairs, columns, strict=True):
        cells.setdefault((*column, spent), set()).add(value.value)
    several = {tuple(cell[:-1]) for cell, found in cells.items() if len(found) > 1}
    return [
        ", ".join([value.source, *([value.table] if column in several else []), value.column])
        for (value, _), column in zip(pairs, columns, strict=True)
    ]


def _printed(value: Value, learner: str, epsilon: float, accuracy: float) -> dict[str, object]:
    system = SYSTEMS.get(value.mechanism, PATE)
    protects = Adjacency.REPLACE_TEACHER if system == PATE else Adjacency.ADD_OR_REMOVE_RECORD
    return {
        **{"teachers": None, "system": system, "way": "published", "learner": learner, "encoder_data": None},
        **{"adjacency": str(protects), "kind": str(Kind.CLAIMED), "delta": value.delta, "epsilon": epsilon},
        **{"accuracy_mean": accuracy, "accuracy_std": None, "seeds": None},
    }


EQUAL_EPSILON = Table(
    title="What each method reaches at the same ε", columns=equal_epsilon_columns, build=build_equal_epsilon
)
