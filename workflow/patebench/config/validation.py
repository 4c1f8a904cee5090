"""Check a configuration as a whole, and return the run that it asks for."""

import copy
import os
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from patebench.config.artefacts import Data
from patebench.config.data_checks import checks, outline
from patebench.config.experiments import Agreement, check_among, check_own_files, check_single, expand, own_data
from patebench.config.run import LEDGER, Run
from patebench.config.settings import ConfigSettings, ExperimentSettings, names
from patebench.core.errors import PatebenchError, together
from patebench.core.fields import key_path
from patebench.core.registry import check_groups
from patebench.core.seeds import Mode
from patebench.core.spelling import DATA_VARIABLE
from patebench.data import DATASETS
from patebench.mechanisms import MECHANISMS
from patebench.models import MODELS, RECIPES
from patebench.petdl import FORMS
from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES
from patebench.students import STRATEGIES, STUDENTS

#: What lies directly below the results folder beside the data sets.
RESERVED = ("benchmarks", "figures", LEDGER, "logs", "reference", "tables")

_REGISTRIES = (DATASETS, MECHANISMS, MODELS, RECIPES, FORMS, STUDENTS, STRATEGIES, FIGURES, TABLES)


def shown(written: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the experiments that a configuration selects, which may be one of an older version."""
    return tuple(names(written.get("only") or ())) or tuple(written["experiments"])


def validate(written: Mapping[str, Any], *, files: bool = True) -> Run:
    """Check settings as read from YAML, with or without Snakemake's changes, and return what they ask for.

    Experiments that `only` leaves out are checked too, except for the files of their data sets; without `files`, no
    experiment's files are. Raises PatebenchError, one line, for the first mistake; what does not suit the data is
    looked for last, and all of it is raised together.
    """
    check_groups(_REGISTRIES)
    for registry in _REGISTRIES:
        registry.names()  # refuses packages that claim a name twice
    settings = ConfigSettings.checked(written)
    _check_folder("results", settings.results)
    for registry in (FIGURES, TABLES):  # of which every run makes all
        registry.check_offered()
    own = {name: own_data(name, each, RESERVED) for name, each in settings.datasets.items()}
    taken = [*DATASETS, *own, *RESERVED]
    if settings.name in taken:
        line = f"'{settings.name}' is a folder of data sets or pages; choose a name that is none of {', '.join(taken)}"
        raise PatebenchError(line, code="taken", where="name")
    listed = isinstance(written.get("only"), list | tuple)
    for i, name in enumerate(settings.only):
        check_among(key_path("only", i) if listed else "only", name, settings.experiments, "an experiment")
    chosen = settings.only or tuple(settings.experiments)
    if files:
        left_out = {each.dataset for name, each in settings.experiments.items() if name not in chosen}
        read = {settings.experiments[name].dataset for name in chosen}
        together(
            partial(check_own_files, name, each)
            for name, each in settings.datasets.items()
            if name in read or name not in left_out
        )
    seeds = {name: each.seeds or settings.seeds for name, each in settings.experiments.items()}
    run = Run(
        name=settings.name,
        results=str(Path(settings.results)),
        data_root=os.environ.get(DATA_VARIABLE) or settings.data_root,
        download=settings.download,
        mode=Mode(settings.mode),
        ledger=settings.ledger,
        aggregators=settings.secure.aggregators if settings.secure else None,
        seeds=tuple(dict.fromkeys(seed for name in chosen for seed in seeds[name])),
        written=dict(written),
    )
    beside, agreement = copy.deepcopy(run), Agreement()
    experiments = {
        name: expand(run if name in chosen else beside, own, agreement, name, each, seeds[name])
        for name, each in settings.experiments.items()
    }
    run.experiments = tuple(each for name, each in experiments.items() if name in chosen)
    if run.mode is Mode.RELEASE:
        _check_release(run)
    sought = {
        name: each
        for name, each in settings.experiments.items()
        if each.dataset not in own or (files and name in chosen)
    }
    _check_data(sought, run, own)
    return run


def _check_data(experiments: Mapping[str, ExperimentSettings], run: Run, own: Mapping[str, Data]) -> None:
    """Refuse experiments that do not suit their data; all faults are raised together.

    Built-in data sets are known by their sizes; a user's own files are read.
    """
    data = {each.dataset: own.get(each.dataset) or Data(each.dataset) for each in experiments.values()}
    read = together(partial(outline, each, Path(run.data_root)) for each in data.values())
    known = dict(zip(data, read, strict=True))
    together(
        check
        for name, each in experiments.items()
        if (about := known[each.dataset])
        for check in checks(key_path("experiments", name), each, run.mode, data[each.dataset], about)
    )


def _check_release(run: Run) -> None:
    """Refuse releases that no limit holds together, or whose limit is stated at a δ that protects nobody."""
    limit = run.ledger.limit if run.ledger else None
    if limit is None:
        check_single(run.experiments)
        return
    teachers = [labels.ensemble.teachers for each in run.experiments for labels in each.label_sets]
    run.check_size_of_delta("ledger.delta", limit.delta, max(teachers, default=None))


def _check_folder(where: str, path: str) -> None:
    """Refuse a folder for results that is a file, or that cannot be made or written to."""
    place = Path(path)
    there = next(each for each in (place, *place.absolute().parents) if each.exists())
    if not there.is_dir():
        raise PatebenchError(f"{there} is a file; give a folder", code="not-writable", where=where)
    try:
        with tempfile.TemporaryFile(dir=there):  # which leaves nothing; a user who may do all has rights in /proc too
            pass
    except OSError:
        line = f"{there} cannot be written to; give another folder"
        raise PatebenchError(line, code="not-writable", where=where) from None
