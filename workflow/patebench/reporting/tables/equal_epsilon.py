"""What each method reaches where all may spend the same ε: students of released labels, and models private themselves.

Of a method, at most ε, it is the setting that spends most of it; which one is more accurate is not looked at. So no
choice by true labels enters, and a method that was run at one small ε alone stands with it below every larger one.
Private models of other settings than noise, such as a number of samples, are other methods: at one ε there may be both.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Adjacency, Kind
from patebench.core.errors import PatebenchError
from patebench.reporting.frames import Records, arrange
from patebench.reporting.outcomes import outcomes, private_models
from patebench.reporting.published import COMPARISONS, OF_RECORDS, PATE, SYSTEMS, Published, Value
from patebench.reporting.tables.table import SIZE_COLUMNS, Column, Table

if TYPE_CHECKING:
    import pandas as pd

#: The largest ε of each pair of columns.
TARGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)

#: What makes a method: its settings of noise, queries and ε differ, and nothing else.
METHOD = ("dataset", "setting", "teachers", "system", "way", "learner", "adjacency", "kind", "delta")
#: What else may tell students of a mechanism's labels apart; those of one method have all of it alike.
_OF_STUDENT = ("partition", "model", "recipe", "epochs", "clusters", "student_model", "student_recipe")
#: What follows from an ε that is wanted.
_OF_NOISE = ("noise", "sigma1", "sigma2", "epsilon", "delta")
_FOUND = ("epsilon", "accuracy_mean", "accuracy_std", "seeds")
#: What papers that compare print of a system at an ε.
_COMPARED = "accuracy_at_epsilon"


def build(records: Records, published: Published) -> "pd.DataFrame":
    """One row per method; for each target the ε and the accuracy, NaN where all settings spend more."""
    import pandas as pd

    frames = [_students(records), _models(records), _published(published, records)]
    return _by_target(pd.concat([frame.astype(object) for frame in frames], ignore_index=True))


def together(tables: Sequence["pd.DataFrame"]) -> "pd.DataFrame":
    """One table of those of several runs, whose settings stand as if one run had made them.

    Raises PatebenchError where a method reaches different accuracies at one ε.
    """
    import pandas as pd

    settings = pd.concat(
        [
            table[[*METHOD, *named.values()]].rename(columns={written: name for name, written in named.items()})
            for table in tables
            for named in map(_at, TARGETS)
        ],
        ignore_index=True,
    )
    settings = settings.dropna(subset="epsilon").drop_duplicates()
    twice = settings[settings.duplicated([*METHOD, "epsilon"])]
    if not twice.empty:
        method = twice.iloc[0]
        raise PatebenchError(f"they differ in what {method['learner']} reaches at ε = {method['epsilon']:g}")
    return _by_target(settings)


def _at(target: float) -> dict[str, str]:
    """How the columns of a setting are called where it stands for a target."""
    named = {name: f"{name}_at_{target:g}" for name in ("epsilon", "seeds")}
    return named | {f"accuracy_{what}": f"accuracy_at_{target:g}_{what}" for what in ("mean", "std")}


def _by_target(settings: "pd.DataFrame") -> "pd.DataFrame":
    """A row per method from one per setting: the columns of METHOD and _FOUND."""
    methods = settings[list(METHOD)].drop_duplicates()
    for target in TARGETS:
        within = settings[settings["epsilon"] <= target].sort_values("epsilon", kind="stable")
        spent = within.drop_duplicates(list(METHOD), keep="last")
        methods = methods.merge(spent.rename(columns=_at(target)), on=list(METHOD), how="left")
    accuracies = [f"accuracy_at_{target:g}_mean" for target in TARGETS]
    numbers = methods.columns.difference([*METHOD])
    methods[numbers] = methods[numbers].astype(float)
    return arrange(methods.dropna(subset=accuracies, how="all"), list(METHOD))


def columns(frame: "pd.DataFrame") -> Sequence[Column]:
    """Those that say what the method is, and two for each ε."""
    found = [
        *SIZE_COLUMNS,
        Column("system", "System"),
        Column("way", "Mechanism or form"),
        Column("learner", "What learns"),
        Column("adjacency", "Protects"),
        Column("kind", "Kind of ε"),
        Column("delta", "δ", "number"),
    ]
    for target in TARGETS:
        group = f"At ε ≤ {target:g}"
        found.append(Column(f"epsilon_at_{target:g}", "ε", "epsilon", group=group))
        accuracy = Column(f"accuracy_at_{target:g}", "accuracy %", "percent", True, group=group)
        found.append(accuracy)
    return found


def _students(records: Records) -> "pd.DataFrame":
    frame = outcomes(records)
    frame = frame.assign(
        system=PATE,
        way=frame["mechanism"],
        learner=frame["method"].str.cat(frame["strategy"], sep=", ").str.removesuffix(", "),
        adjacency=str(Adjacency.REPLACE_TEACHER),
        kind=str(Kind.WORST_CASE),
        epsilon=frame["worst_case_epsilon_mean"],
    )
    frame = _told_apart(frame, frame[list(_OF_STUDENT)].map(_said))
    # Where queries cost nothing, methods that differ in their number alone would tie.
    tied = frame.duplicated([*METHOD, "epsilon"], keep=False)
    frame.loc[tied, "learner"] += ", T = " + frame.loc[tied, "queries"].astype(str)
    return frame[[*METHOD, *_FOUND]]


def _said(value: Any) -> str:
    import pandas as pd

    return "none" if pd.isna(value) or value == "" else f"{value:g}" if isinstance(value, float) else str(value)


def _models(records: Records) -> "pd.DataFrame":
    frame = private_models(records)
    frame = frame[frame["kind"].isin([Kind.WORST_CASE, Kind.CLAIMED])]
    frame = frame.assign(way=frame["form"], learner=frame["model"], epsilon=frame["epsilon_mean"])
    frame = _told_apart(frame, _chosen(frame, records))
    least = frame.sort_values("epsilon", kind="stable").drop_duplicates([*METHOD, "private_model"])
    return least[[*METHOD, *_FOUND]]


def _chosen(frame: "pd.DataFrame", records: Records) -> "pd.DataFrame":
    """The settings of private models but noise, as text."""
    import pandas as pd

    key = ["dataset", "setting", "private_model"]
    known = records.private_models.drop_duplicates(key).set_index(key)["parameters"]
    chosen = [known[each] for each in frame[key].itertuples(index=False, name=None)]
    settings = pd.DataFrame(chosen, index=frame.index, dtype=object)  # a whole number stays one
    return settings.drop(columns=list(_OF_NOISE), errors="ignore").astype(str)


def _told_apart(frame: "pd.DataFrame", settings: "pd.DataFrame") -> "pd.DataFrame":
    """The same, with `learner` saying in which of these settings, as text, rows of one method differ."""
    said = frame["learner"].copy()
    for _, group in frame.groupby(list(METHOD), dropna=False):
        mine = settings.loc[group.index]
        for name in mine:
            if mine[name].nunique(dropna=False) > 1:
                said[group.index] += f", {str(name).replace('_', ' ')}: " + mine[name]
    return frame.assign(learner=said)


def _published(published: Published, records: Records) -> "pd.DataFrame":
    """What papers print of one record's ε, and of teachers' by those that compare, on the data sets of this run."""
    import pandas as pd

    rows = []
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
            for (value, spent), learner in zip(known, _learners(known), strict=True)
        ]
    return pd.DataFrame(rows, columns=[*METHOD, *_FOUND])


def _learners(known: Sequence[tuple[Value, float]]) -> list[str]:
    """Paper and column of each number; its table, too, where another has other numbers in such a column at one ε."""
    columns = [(value.source, value.column, value.mechanism) for value, _ in known]
    cells: dict[tuple[object, ...], set[float]] = {}
    for (value, spent), column in zip(known, columns, strict=True):
        cells.setdefault((*column, spent), set()).add(value.value)
    several = {tuple(cell[:-1]) for cell, found in cells.items() if len(found) > 1}
    return [
        ", ".join([value.source, *([value.table] if column in several else []), value.column])
        for (value, _), column in zip(known, columns, strict=True)
    ]


def _printed(value: Value, learner: str, epsilon: float, accuracy: float) -> dict[str, object]:
    system = SYSTEMS.get(value.mechanism, PATE)
    protects = Adjacency.REPLACE_TEACHER if system == PATE else Adjacency.ADD_OR_REMOVE_RECORD
    return {
        **{"teachers": None, "system": system, "way": "published", "learner": learner, "adjacency": str(protects)},
        **{"kind": str(Kind.CLAIMED), "delta": value.delta, "epsilon": epsilon},
        **{"accuracy_mean": accuracy, "accuracy_std": None, "seeds": None},
    }


TABLE = Table(title="What each method reaches at the same ε", columns=columns, build=build)
