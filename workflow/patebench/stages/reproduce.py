"""The command `reproduce`: one row of a paper's table, by the configuration that runs it, and the verdicts on it."""

import json
import math
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patebench.calculator.calibrate import worst_case
from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest
from patebench.core.slugs import parameters_slug
from patebench.mechanisms.base import make_mechanism
from patebench.plan.jobs import Job, Split, TrainBaseline, TrainDpsgd, TrainPetdl, TrainPrivateKnn
from patebench.plan.parameters import PrivateKnnParameters
from patebench.plan.plan import Experiment
from patebench.reporting.petdl import alike
from patebench.reporting.published import CONFIGURATIONS, DP_SGD, PETDL, PRIVATE_KNN, Published, Value, read_published
from patebench.reporting.verdicts import at_epsilon, no_way, why_not
from patebench.stages.command import home_option, in_home, stage_command
from patebench.stages.terminal import show_on_terminal

if TYPE_CHECKING:
    import pandas as pd

    from patebench.config import Config

#: What Snakemake need not say: reasons of jobs, which may hold the whole configuration. Its errors stay.
_QUIET = "reason"
#: Columns of the table of verdicts that are shown, and their headings.
_SHOWN_COLUMNS = {name: name for name in ("what", "printed", "measured", "seeds", "how", "verdict", "why")}
_SHOWN_COLUMNS["how"] = "by our"
#: Rows that may be meant, of which no more are named.
_SHOWN = 8
#: Of MNIST, SVHN and CIFAR-10 alike: what some labels cost depends on it.
_CLASSES = 10


def run(
    *, row: str | None, only: str, seeds: str, data_root: str, cores: str, dry: bool, compare: bool, home: Path
) -> None:
    """Run what a ROW of a paper's table needs, and compare what it prints with what was measured.

    Without ROW, list all rows; part of a name will do where one row alone has it. The command that is run is printed
    first; --dry stops there, and --compare runs nothing but compares what is there. What is there already is not made
    again. The experiments are those that measure most of the row with the fewest jobs; --only names others. Data sets
    are looked for in --data-root, or where the environment variable PATEBENCH_DATA says.
    """
    published = read_published(in_home(home, "config/published.csv"))
    rows = _rows(published)
    if row is None:
        _list(rows)
        return
    asked, row = row, _named(row, rows)
    if row != asked:
        click.echo(f"row: {row}")
    file, config, experiments = _experiments(home, rows[row], published)
    verdicts = home / config.pages / "tables" / "verdicts.csv"
    if compare:
        if only or seeds or data_root or dry:
            raise PatebenchError(
                "--compare runs nothing, so it goes with none of --only, --seeds, --data-root and --dry"
            )
        _show(_verdicts(verdicts, rows[row]))
        return
    experiments = only.split(",") if only else experiments
    if not experiments:
        raise PatebenchError(f"no experiment of {file.parent} measures '{row}'{_reasons(rows[row], published)}")
    command = _command(file, experiments, seeds, cores)
    # The variable overrides every configuration, so it is what says where data lie.
    variables = {"PATEBENCH_DATA": str(Path(data_root).expanduser().resolve())} if data_root else {}
    said = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    click.echo(" ".join([*said, shlex.join(command)]))
    if dry:
        return
    if subprocess.run(command, cwd=home, env={**os.environ, **variables}, check=False).returncode:
        raise PatebenchError("Snakemake stopped before the end; mend what it names, and give the same command again")
    _show(_verdicts(verdicts, rows[row]))


def _list(rows: Mapping[str, Sequence[Value]]) -> None:
    for name, values in rows.items():
        click.echo(f"{name}   ({', '.join(dict.fromkeys(value.column for value in values))})")


def _command(file: Path, experiments: Sequence[str], seeds: str, cores: str) -> list[str]:
    chosen = [f"only=[{','.join(experiments)}]", *([f"seeds=[{seeds}]"] if seeds else [])]
    quiet = ["--quiet", _QUIET]
    return ["snakemake", "--cores", cores, *quiet, "--configfile", str(file.resolve()), "--config", *chosen]


def _named(row: str, rows: Iterable[str]) -> str:
    """The row of that name, or the only one whose name has these words in their order; raises PatebenchError for
    others.

    Where several do, whole parts of the name are enough: "Table 10, MNIST" is not Fashion MNIST's.
    """
    wanted, parts = _words(row), _parts(row)
    found = [name for name in rows if _words(name) == wanted]
    found = found or [name for name in rows if _in_order(wanted, name)]
    found = [name for name in found if parts <= _parts(name)] or found
    if len(found) == 1:
        return found[0]
    if not found:
        raise PatebenchError(f"there is no row '{row}'{nearest(row, rows)}; `patebench reproduce` lists all")
    shown = ", ".join(f"'{name}'" for name in found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
    raise PatebenchError(f"'{row}' may be each of {len(found)} rows: {shown}; give the whole name of one")


def _words(name: str) -> list[str]:
    return re.findall(r"[^\s,()-]+", name.lower())


def _parts(name: str) -> set[tuple[str, ...]]:
    """The words of each part between commas: the paper, the table, the row."""
    return {tuple(_words(part)) for part in name.split(", ")}


def _in_order(wanted: Sequence[str], name: str) -> bool:
    """Whether a name has these words, others between them allowed."""
    left = iter(_words(name))
    return bool(wanted) and all(word in left for word in wanted)


def _rows(published: Published) -> dict[str, list[Value]]:
    """What papers print, by the names of their rows."""
    found: dict[str, list[Value]] = {}
    for value in published.values:
        found.setdefault(value.name, []).append(value)
    return found


def _experiments(home: Path, values: Sequence[Value], published: Published) -> "tuple[Path, Config, list[str]]":
    """The configuration that measures most of these numbers, and those of its experiments that do so with few jobs.

    What a paper quotes is measured by the configuration of the paper that it quotes; of several the paper's own.
    """
    from patebench.config import load, shown, validate

    wanted, most = len({value.column for value in values if _hindrance(value, published) is None}), -1
    own = CONFIGURATIONS.get(values[0].paper)  # none of a paper that a user added
    for name in dict.fromkeys(filter(None, (own, *CONFIGURATIONS.values()))):
        file = in_home(home, f"config/papers/{name}.yaml")
        written = load(file)
        config = validate({**written, "only": ()}, files=False)
        quicker = {name for preset in written.get("presets", {}) for name in shown({**written, "preset": preset})}
        quicker -= set(shown(written))  # presets alone run them, as quicker forms of others
        fair = [each for each in config.experiments if each.name not in quicker]
        chosen, measured = _covering(fair, values, published)
        if measured > most:
            most, found = measured, (file, config, chosen)
        if most == wanted:
            break
    return found


def _covering(
    experiments: Iterable[Experiment], values: Sequence[Value], published: Published
) -> tuple[list[str], int]:
    """The names of experiments that together measure all of the numbers that any of them does, with few jobs, and how
    many numbers these are."""
    covered = {each: {value.column for value in values if _measures(each, value, published)} for each in experiments}
    measured: set[str] = set().union(*covered.values())
    missing, chosen = set(measured), []
    while missing:
        best = max(covered, key=lambda each: (len(covered[each] & missing), -len(list(each.jobs()))))
        chosen.append(best.name)
        missing -= covered[best]
    return chosen, len(measured)


def _hindrance(value: Value, published: Published) -> str | None:
    """Why no run here can measure a number, where that is known."""
    return why_not(value) or no_way(value, published)


def _measures(experiment: Experiment, value: Value, published: Published) -> bool:
    """Whether an experiment's page will have a verdict on a number that says more than "not run"."""
    if _hindrance(value, published) is not None:
        return False
    models = [job for job in experiment.private_models if _split(job).data.dataset == value.dataset]
    if value.mechanism == PETDL:
        return any(isinstance(job, TrainPetdl) and alike(value, _student(job)) for job in models)
    if value.mechanism == DP_SGD:
        spent, most = published.spent(value), value.delta or 0.0
        kept = (job.parameters for job in models if isinstance(job, TrainDpsgd) and job.parameters.delta <= most)
        return any(at_epsilon(each.epsilon, spent) for each in kept)
    if value.quantity == "accuracy_at_epsilon":
        return any(at_epsilon(epsilon, published.spent(value)) for epsilon in _spending(experiment, models, value))
    if value.mechanism == PRIVATE_KNN and value.quantity != "baseline_accuracy":
        return any(isinstance(job, TrainPrivateKnn) and job.parameters.form == "published" for job in models)
    if value.quantity in ("baseline_accuracy", "ground_truth_student_accuracy"):
        wanted = value.queries if value.quantity.startswith("ground") else None
        return any(_of(job, value) and job.true_labels == wanted for job in experiment.baselines)
    if value.quantity == "teacher_accuracy" and any(
        isinstance(job, TrainPetdl) and job.ensemble.teachers == value.teachers for job in models
    ):
        return True
    return any(_is_asked(experiment, value))


def _spending(experiment: Experiment, models: Sequence[Job], value: Value) -> Iterator[float]:
    """The worst-case ε of each student or private model of the system that a number is printed of, at a δ of the run
    that is no larger than the number's."""
    most = value.delta or 0.0
    if value.mechanism == PRIVATE_KNN:
        for job in models:
            if isinstance(job, TrainPrivateKnn) and job.parameters.form == "sound" and job.parameters.delta <= most:
                yield _of_private_knn(job.parameters, job.parameters.delta)
        return
    deltas = {(account.labels, account.delta) for account in experiment.accounts if account.delta <= most}
    for student in experiment.students:
        ensemble, setting = student.labels.ensemble, student.labels.setting
        if ensemble.split.data.dataset == value.dataset:
            for delta in sorted(delta for labels, delta in deltas if labels == student.labels):
                yield _of_labels(setting.mechanism, setting.parameters, student.queries, delta, ensemble.teachers)


@cache
def _of_private_knn(parameters: PrivateKnnParameters, delta: float) -> float:
    from patebench.baselines.private_knn.accounting import Settings, sound

    chosen = {field.name: getattr(parameters, field.name) for field in fields(Settings)}
    return sound(Settings(**chosen), delta).epsilon


@cache
def _of_labels(
    mechanism: str, parameters: tuple[tuple[str, float], ...], queries: int, delta: float, teachers: int
) -> float:
    """What labels cost whatever the votes are; ∞ where no bound holds for all of them."""
    try:
        made = make_mechanism(mechanism, dict(parameters))
        return worst_case(made, queries, delta, classes=_CLASSES, teachers=teachers)[0].epsilon
    except PatebenchError:
        return math.inf


def _split(job: Job) -> Split:
    """Where a model that is private itself is measured."""
    found: Split = job.ensemble.split if isinstance(job, TrainPetdl) else job.split  # type: ignore[attr-defined]
    return found


def _student(job: TrainPetdl) -> dict[str, object]:
    """What a record of a student of PET-DL says of how it was chosen."""
    chosen = job.parameters
    return {
        **{"form": chosen.form, "dataset": job.ensemble.split.data.dataset, "teachers": job.ensemble.teachers},
        **{"compression": chosen.compression or 1.0, "weighted": bool(chosen.weighted)},
    }


def _of(job: TrainBaseline, value: Value) -> bool:
    return job.split.data.dataset == value.dataset


def _is_asked(experiment: Experiment, value: Value) -> Iterable[bool]:
    """For each label set, and for each student where its accuracy is printed, whether it is the one that is meant."""
    asked = [(account.labels, account.queries) for account in experiment.accounts]
    if value.quantity in ("student_accuracy", "answered"):
        asked = [(student.labels, (student.queries,)) for student in experiment.students]
    counts = value.quantity not in ("teacher_accuracy", "plurality_accuracy", "label_accuracy")
    for labels, queries in asked:
        same = labels.ensemble.split.data.dataset == value.dataset and value.teachers in (
            None,
            labels.ensemble.teachers,
        )
        setting = labels.setting
        named = value.mechanism in (None, setting.mechanism)
        noise = value.parameters is None or parameters_slug(value.parameters) == setting.slug
        yield same and named and noise and (not counts or value.queries is None or value.queries in queries)


def _reasons(values: Sequence[Value], published: Published) -> str:
    """Why no number of a row can be compared, where that is known."""
    found = dict.fromkeys(filter(None, (_hindrance(value, published) for value in values)))
    return f": {'; '.join(found)}" if found else ""


def _verdicts(path: Path, values: Sequence[Value]) -> "pd.DataFrame":
    import pandas as pd

    if not path.exists():
        raise PatebenchError(f"{path}: is not there, so there is nothing to compare; run it without --compare")
    try:
        frame = pd.read_csv(path, keep_default_na=False, na_values=[""])
        first = values[0]
        mine = (frame["paper"] == first.paper) & (frame["table"] == first.table) & (frame["row"] == first.row)
        found = frame.loc[mine, list(_SHOWN_COLUMNS)]
    except (OSError, ValueError, KeyError):
        raise PatebenchError(f"{path}: is no table of verdicts; run it without --compare") from None
    if found.empty:
        raise PatebenchError(f"{path}: has no verdict on '{first.name}', for that run measured nothing of its paper")
    return found


def _show(frame: "pd.DataFrame") -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in _SHOWN_COLUMNS.values():
        table.add_column(heading, overflow="fold")
    for row in json.loads(frame.to_json(orient="records")):
        shown = [row[name] for name in _SHOWN_COLUMNS]
        table.add_row(
            *("" if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in shown)
        )
    show_on_terminal(table)


command = stage_command(
    run,
    click.argument("row", required=False),
    click.option("--only", default="", help="The experiments to run, such as mnist,svhn [default: see above]."),
    click.option("--seeds", default="", help="Base seeds, such as 0,1,2 [default: the configuration's]."),
    click.option(
        "--data-root", default="", help="Where data sets lie [default: PATEBENCH_DATA, or the configuration]."
    ),
    click.option("--cores", default="all", show_default=True, help="For Snakemake."),
    click.option("--dry", is_flag=True, help="Print the command alone."),
    click.option("--compare", is_flag=True, help="Run nothing, and compare what the last run left."),
    home_option,
)
