"""Find the best evidence on every published value among all kept runs (runs whose results are stored).

A kept run may store its table of verdicts. Verdicts on students and private models are also computed from the other
tables of kept runs, which contain means over seeds.
"""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from patebench.core.bound import Kind
from patebench.core.text import listing
from patebench.reporting.frames import Records, Settings, records_of
from patebench.reporting.outcomes import PETDL_CHOSEN, PETDL_TEACHERS, STUDENT
from patebench.reporting.published import ALL_SYSTEMS, PETDL, Published, Value
from patebench.reporting.tables.table import read_csv
from patebench.reporting.verdicts import NUMBER, Verdict, best_of_each_number, verdicts
from patebench.reporting.wording import in_words

_MEASURED = ("run", "how", "measured_mean", "measured_std", "seeds")
#: Columns of `best_evidence`; those in `_MEASURED` are missing for values that no kept run measured.
EVIDENCE = (*NUMBER, "dataset", "quantity", "published", *_MEASURED, "verdict", "why")
#: Columns of kept tables that records lack: the run, standard deviations and the number of seeds.
_FURTHER = ("run", "accuracy_std", "epsilon_std", "answered_std", "seeds")


def best_evidence(reference: Path, published: Published) -> pd.DataFrame:
    """Return, for each printed value, its best verdict and the measurement on which the verdict rests.

    A value can be compared with several settings and kept runs (runs whose results are stored). The best verdict is the
    one that comes first in `Verdict`. A value without a measurement has the verdict `not comparable` or `not run`, with
    the reason.

    Parameters
    ----------
    reference : folder that contains a folder per kept run, with its tables in `tables`.
    published : values that papers print.

    Returns
    -------
    One row per value in `published`, in the same order, with the columns `EVIDENCE`.
    """
    best = best_of_each_number(measured_verdicts(reference, published))
    found = {tuple(row[name] for name in NUMBER): row for row in best.to_dict("records")}
    tables = [read_table(run, name) for run in kept_runs(reference) for name in ("utility-privacy", "petdl")]
    datasets = {str(name) for table in tables if not table.empty for name in table["dataset"]}
    rows: list[dict[Any, Any]] = []
    for value in published.values:
        place = {name: getattr(value, name) for name in (*NUMBER, "dataset", "quantity")}
        evidence = None if value.not_comparable else found.get(tuple(place[name] for name in NUMBER))
        rows.append({**place, "published": value.value, **(evidence or _without_evidence(value, datasets))})
    return pd.DataFrame(rows, columns=list(EVIDENCE))


def kept_runs(reference: Path) -> list[Path]:
    """Return the folders of the kept (stored) runs in the folder `reference`, in alphabetical order."""
    return sorted(folder.parent for folder in reference.glob("*/tables") if folder.is_dir())


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """Return the table `name` of the kept run in `folder`; an empty frame if the run has no such table."""
    path = folder / "tables" / f"{name}.csv"
    return read_csv(path.read_text(encoding="utf-8")) if path.is_file() else pd.DataFrame()


@lru_cache(maxsize=2)
def measured_verdicts(reference: Path, published: Published) -> pd.DataFrame:
    """Return one row per comparison of a published value with a kept run, with the verdict, the run and the setting.

    A kept run is a run whose results are stored. Verdicts stored in the runs come first. Verdicts computed here from
    other tables of the runs follow. The frame is cached and must not be changed.
    """
    runs = {folder.name: read_table(folder, "verdicts") for folder in kept_runs(reference)}
    kept = [_select_measured(frame.assign(run=run)) for run, frame in runs.items() if not frame.empty]
    computed = verdicts(records_of_tables(reference), published)
    computed = computed[computed["how"].notna()]
    parts = [str(how).partition(", ") for how in computed["how"]]  # a description begins with the run
    computed = computed.assign(run=[run for run, *_ in parts], how=[how for *_, how in parts])
    return pd.concat([*kept, _select_measured(computed)], ignore_index=True)


def _select_measured(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the verdicts in `frame` that rest on a measurement, with the columns that `best_evidence` needs.

    Verdicts on changed copies of data sets (`copy_of`) are left out.
    """
    frame = frame[frame["measured_mean"].notna() & frame["copy_of"].isna()]
    frame = frame[[*NUMBER, *_MEASURED, "verdict", "why"]].astype(object)
    return frame.assign(verdict=frame["verdict"].map(str))


def _without_evidence(value: Value, kept_datasets: set[str]) -> dict[str, Any]:
    """Return verdict and reason, as a dictionary, for a published value without a measurement in kept (stored) runs.

    `kept_datasets` are the data sets of the kept runs. If `value` states no reason, the reason is that the runs lack
    its setting or its data set.
    """
    verdict = Verdict.NOT_COMPARABLE if value.not_comparable else Verdict.NOT_RUN
    lacks = "has this setting" if value.dataset in kept_datasets else f"uses the data set {in_words(value.dataset)}"
    where = f"config/papers/{value.configuration}.yaml, {listing(value.experiments)}"
    why = value.not_comparable or value.not_run or f"no kept run {lacks} ({where})"
    return {"verdict": str(verdict), "why": why}


def records_of_tables(reference: Path) -> Records:
    """Return one record per run and setting, for students and private models in the tables of all kept (stored) runs.

    The tables contain means over the seeds, so accuracies and ε in the records are means too. The additional columns
    `_FURTHER` contain the name of the run, standard deviations and the number of seeds.
    """
    records = records_of([])
    students, models, petdl = (_table_rows(reference, name) for name in ("utility-privacy", "private-models", "petdl"))
    students[["rounds", "strategy"]] = students[["rounds", "strategy"]].astype(object).fillna("")
    costs = students.rename(columns={"worst_case_epsilon": "epsilon", "worst_case_accountant": "accountant"})
    student = ["run", *(name for name in STUDENT if name in students)]
    chosen: list[Any] = [
        Settings({name: row[name] for name in PETDL_CHOSEN if name in row}) for row in petdl.to_dict("records")
    ]
    names = [str(place) for place in range(len(petdl))]
    petdl = petdl.assign(system=ALL_SYSTEMS[PETDL], ensemble=names, model="", parameters=chosen)
    teachers = petdl.drop(columns="model").rename(
        columns={name: name.removeprefix("teacher_") for name in PETDL_TEACHERS}
    )
    private = pd.concat([models[models["system"] != ALL_SYSTEMS[PETDL]], petdl], ignore_index=True)
    return replace(
        records,
        students=_conform(records.students, students.drop_duplicates(student)),
        bounds=_conform(records.bounds, costs.assign(kind=str(Kind.WORST_CASE), conversion="none", exact=False)),
        private_models=_conform(records.private_models, private),
        ensembles=_conform(records.ensembles, teachers.rename(columns={"teacher_accuracy": "teacher_accuracy_mean"})),
    )


def _table_rows(reference: Path, name: str) -> pd.DataFrame:
    """Return the rows of the table `name` of all kept (stored) runs in one frame, with columns as in `Records`."""
    frames = [read_table(folder, name).assign(run=folder.name) for folder in kept_runs(reference)]
    rows = pd.concat([frame for frame in frames if len(frame)], ignore_index=True)
    rows.columns = [str(column).removesuffix("_mean") for column in rows.columns]
    # Placeholders for columns that tables lack.
    further: dict[str, Any] = {"seed": 0, "split": "", "parameters": [Settings()] * len(rows)}
    return rows.assign(**further, ensemble=rows.get("ensemble", ""))


def _conform(frame: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` with exactly the columns of `frame` and `_FURTHER`.

    A column that `rows` lacks becomes NaN. All recalls become None.
    """
    rows = rows.reindex(columns=list(dict.fromkeys([*frame.columns, *_FURTHER]))).reset_index(drop=True)
    for name in [name for name in rows if "recall" in str(name)]:
        rows[name] = pd.Series([None] * len(rows), dtype=object)
    return rows
