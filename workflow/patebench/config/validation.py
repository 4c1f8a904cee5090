"""Check a configuration and turn it into a run."""

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
from patebench.core.errors import PatebenchError, call_all
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

#: Names of folders directly below the results that are not data sets.
RESERVED = ("benchmarks", "figures", LEDGER, "logs", "reference", "tables")

_REGISTRIES = (DATASETS, MECHANISMS, MODELS, RECIPES, FORMS, STUDENTS, STRATEGIES, FIGURES, TABLES)


def shown(written: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the experiments in a configuration that `only` selects, by default all.

    `written` is not validated, as it may come from an older version of patebench.
    """
    return tuple(names(written.get("only") or ())) or tuple(written["experiments"])


def validate(written: Mapping[str, Any], *, files: bool = True) -> Run:
    """Check settings as read from YAML, with or without Snakemake's changes, and return their run.

    Experiments that `only` leaves out are checked too, except the files of their data sets.

    Parameters
    ----------
    files : False to skip the check of all files

    Raises
    ------
    PatebenchError : the first error, or all settings that do not match the data, which are checked last
    """
    check_groups(_REGISTRIES)
    for registry in _REGISTRIES:
        registry.names()  # raises an error if another package registers an existing name
    settings = ConfigSettings.checked(written)
    _check_folder("results", settings.results)
    for registry in (FIGURES, TABLES):  # a run uses all of their entries
        registry.check_offered()
    own = {name: own_data(name, dataset, RESERVED) for name, dataset in settings.datasets.items()}
    taken = [*DATASETS, *own, *RESERVED]
    if settings.name in taken:
        line = f"'{settings.name}' is already a folder of results; choose a name other than {', '.join(taken)}"
        raise PatebenchError(line, code="taken", where="name")
    listed = isinstance(written.get("only"), list | tuple)
    for i, name in enumerate(settings.only):
        check_among(key_path("only", i) if listed else "only", name, settings.experiments, "an experiment")
    chosen = settings.only or tuple(settings.experiments)
    if files:
        left_out = {each.dataset for name, each in settings.experiments.items() if name not in chosen}
        read = {settings.experiments[name].dataset for name in chosen}
        call_all(
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
        limit = run.ledger.limit if run.ledger else None
        if limit is None:
            check_single(run.experiments)
        else:
            teachers = [labels.ensemble.teachers for each in run.experiments for labels in each.label_sets]
            run.check_size_of_delta("ledger.delta", limit.delta, max(teachers, default=None))
    sought = {
        name: each
        for name, each in settings.experiments.items()
        if each.dataset not in own or (files and name in chosen)
    }
    _check_data(sought, run, own)
    return run


def _check_data(experiments: Mapping[str, ExperimentSettings], run: Run, own: Mapping[str, Data]) -> None:
    """Check experiments against the sizes and shapes of their data; raise all errors together.

    The outlines of built-in data sets are stored in the package; the user's own files are read.
    """
    data = {each.dataset: own.get(each.dataset) or Data(each.dataset) for each in experiments.values()}
    read = call_all(partial(outline, each, Path(run.data_root)) for each in data.values())
    known = dict(zip(data, read, strict=True))
    call_all(
        check
        for name, each in experiments.items()
        if (about := known[each.dataset])
        for check in checks(key_path("experiments", name), each, run.mode, data[each.dataset], about)
    )


def _check_folder(where: str, path: str) -> None:
    """Refuse a results folder that is a file, or that cannot be created or written to."""
    place = Path(path)
    there = next(each for each in (place, *place.absolute().parents) if each.exists())
    if not there.is_dir():
        raise PatebenchError(f"{there} is a file; give a folder", code="not-writable", where=where)
    try:
        with tempfile.TemporaryFile(dir=there):  # os.access would succeed for root, even in /proc
            pass
    except OSError:
        line = f"{there} cannot be written to; give another folder"
        raise PatebenchError(line, code="not-writable", where=where) from None
