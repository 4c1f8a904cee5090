"""The configuration: read (`loading`), its shape checked (`settings`), and turned into jobs (`experiments`).

Every mistake is one PatebenchError that starts with the path of its key.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patebench.config.checks import Agreement, check_among, check_folder
from patebench.config.experiments import Expansion, check_own_files, check_single, own_data
from patebench.config.loading import load
from patebench.config.run import LEDGER, Run
from patebench.config.settings import ConfigSettings, names
from patebench.core.errors import PatebenchError
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

__all__ = ["RESERVED", "Run", "load", "run_name", "shown", "validate", "with_preset"]

#: What lies directly below the results folder beside the data sets.
RESERVED = ("benchmarks", "figures", LEDGER, "logs", "reference", "tables")


def with_preset(settings: ConfigSettings) -> ConfigSettings:
    """The settings that the chosen preset gives; PatebenchError for one that there is not."""
    if not settings.preset:
        return settings
    check_among("preset", settings.preset, settings.presets, "a preset of this configuration")
    chosen = settings.presets[settings.preset]
    name = run_name(settings.name, settings.preset)
    return settings.model_copy(update={"name": name, "only": chosen.only, "seeds": chosen.seeds or settings.seeds})


def run_name(name: str, preset: str) -> str:
    """What a run is called, as are its page and the folder of its results: the configuration with its preset."""
    return "-".join(filter(None, (name, preset)))


def shown(written: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the experiments that a configuration selects, unchecked: it may be one of long ago."""
    preset = written.get("preset")
    only = written["presets"][preset]["only"] if preset else written.get("only")
    return tuple(names(only or ())) or tuple(written["experiments"])


def _check_own_files(settings: ConfigSettings) -> None:
    """Refuse a data set whose files are not there, unless only experiments that `only` leaves out would read them."""
    uses = [(name in (settings.only or (name,)), each.dataset) for name, each in settings.experiments.items()]
    needless = {dataset for _, dataset in uses} - {dataset for chosen, dataset in uses if chosen}
    for name, each in settings.datasets.items():
        if name not in needless:
            check_own_files(name, each)


def validate(written: Mapping[str, Any], *, files: bool = True) -> Run:
    """Check settings as read from YAML, with or without Snakemake's changes, and say what they ask for.

    Experiments that `only` leaves out are checked as well, but for the files of their data sets. Without `files`, those
    of no experiment are asked for: for who wants to know what could be run. Raises PatebenchError, one line, for the
    first mistake.
    """
    settings = with_preset(ConfigSettings.checked(written))
    check_folder("results", settings.results)
    registries = (DATASETS, MECHANISMS, MODELS, RECIPES, FORMS, STUDENTS, STRATEGIES, FIGURES, TABLES)
    check_groups(registries)
    for registry in registries:
        registry.names()  # refuses packages that claim a name twice
    for registry in (FIGURES, TABLES):  # of which every run makes all
        registry.check_offered()
    own = {name: own_data(name, each, RESERVED) for name, each in settings.datasets.items()}
    if files:
        _check_own_files(settings)
    taken = [*DATASETS, *own, *RESERVED]
    if settings.name in taken:
        raise PatebenchError(
            f"name: '{settings.name}' is a folder of data sets or pages already; choose a name that is none of"
            f" {', '.join(taken)}"
        )
    seeds = {name: each.seeds or settings.seeds for name, each in settings.experiments.items()}
    where = f"presets.{settings.preset}.only" if settings.preset else "only"
    listed = settings.preset or isinstance(written.get("only"), list | tuple)
    for i, name in enumerate(settings.only):
        check_among(key_path(where, i) if listed else where, name, settings.experiments, "an experiment")
    chosen = settings.only or tuple(settings.experiments)
    run, left_out = (
        Run(
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
        for _ in range(2)
    )
    agreement = Agreement()
    experiments = {}
    for name, each in settings.experiments.items():
        expansion = Expansion(run if name in chosen else left_out, own, agreement)
        experiments[name] = expansion.experiment(name, each, seeds[name])
    run.experiments = tuple(experiments[name] for name in experiments if name in chosen)
    limit = settings.ledger.limit if settings.ledger else None
    if run.mode is Mode.RELEASE and limit is None:
        check_single(run.experiments)
    if run.mode is Mode.RELEASE and limit is not None:
        teachers = [labels.ensemble.teachers for each in run.experiments for labels in each.label_sets]
        run.check_size_of_delta("ledger.delta", limit.delta, max(teachers, default=None))
    return run
