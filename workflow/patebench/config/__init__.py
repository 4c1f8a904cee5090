"""The configuration: read (`loading`), its shape checked (`settings`), and turned into jobs (`experiments`).

Every mistake is one PatebenchError that starts with the path of its key.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patebench.config.checks import check_among, check_folder
from patebench.config.experiments import Expansion, check_own_files, check_single, own_data
from patebench.config.loading import load
from patebench.config.settings import ConfigSettings, names
from patebench.core import variables
from patebench.core.errors import PatebenchError
from patebench.core.parameters import key_path
from patebench.core.registry import check_groups
from patebench.core.seeds import Mode
from patebench.data import DATASETS
from patebench.mechanisms import MECHANISMS
from patebench.models import MODELS, RECIPES
from patebench.petdl import FORMS
from patebench.plan.jobs import (
    LEDGER,
    Audit,
    Collect,
    Data,
    Figures,
    Job,
    Manifest,
    NameClusters,
    Options,
    Report,
    Results,
    Rows,
    Tables,
    TrainBaseline,
)
from patebench.plan.parameters import LedgerSettings
from patebench.plan.plan import Experiment, Plan
from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES
from patebench.students import STUDENTS
from patebench.students.strategies import STRATEGIES

__all__ = ["RESERVED", "Config", "load", "run_name", "shown", "validate", "with_preset"]

#: What lies directly below the results folder beside the data sets.
RESERVED = ("benchmarks", "figures", LEDGER, "logs", "reference", "tables")


@dataclass(frozen=True)
class Config:
    """A checked configuration; `experiments` are the selected ones, `written` is all of it as it was given."""

    name: str
    results: str
    data_root: str
    download: bool
    mode: Mode
    seeds: tuple[int, ...]
    ledger: LedgerSettings | None
    experiments: tuple[Experiment, ...]
    written: Mapping[str, Any] = field(compare=False)
    #: What is allowed but probably not meant, each line with the path of its key.
    warnings: tuple[str, ...] = ()

    @property
    def pages(self) -> str:
        """The folder of the report, its figures and tables."""
        return f"{self.results}/{self.name}".rstrip("/")

    @property
    def run(self) -> str:
        """What logs and benchmark files call this configuration."""
        return self.name or "default"

    def plan(self, home: Path | str = ".") -> Plan:
        """Everything that the selected experiments make, and their page.

        `home` is the folder of the repository, with what papers print, the captions and how to cite.
        """
        plan = Plan((job for each in self.experiments for job in each.jobs()), self.results, self.pages)
        for job in self._pages(plan, Path(home)):
            plan.add(job)
        return plan

    def _pages(self, plan: Plan, home: Path) -> Iterator[Job]:
        published = str(home / "config" / "published.csv")
        compared = (*plan.of(TrainBaseline), *plan.of(NameClusters))
        models = tuple(job for job in plan if job.private_model)
        copies = tuple(sorted((job.dataset, job.copy_of) for job in plan.of(Data) if job.copy_of is not None))
        results = Results(published, tuple(plan.of(Collect)), compared, tuple(plan.of(Audit)), models, copies)
        figures, tables = Figures(self.run, results, tuple(FIGURES)), Tables(self.run, results, tuple(TABLES))
        manifest = Manifest(
            self.run, figures, tables, Rows(self.run, results), json.dumps(self.written, sort_keys=True)
        )
        yield Report(self.run, manifest, str(home / "report"), str(home / "CITATION.cff"))

    def access_options(self) -> Options:
        """How `patebench data` reaches data sets; no part of what they are, so no reason to make them anew."""
        return {"root": self.data_root, "download": self.download}

    def ledger_environment(self) -> dict[str, str]:
        """Return the limit and the name of the private data for the commands that release: empty where not given."""
        given = self.ledger.model_dump() if self.ledger and self.mode is Mode.RELEASE else {}
        return {variable: str(given.get(name) or "") for name, variable in variables.LEDGER.items()}


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


def validate(written: Mapping[str, Any], *, files: bool = True) -> Config:
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
    mode = Mode(settings.mode)
    expansion = Expansion(own, mode, settings.secure.aggregators if settings.secure else None)
    seeds = {name: each.seeds or settings.seeds for name, each in settings.experiments.items()}
    experiments = {name: expansion.experiment(name, each, seeds[name]) for name, each in settings.experiments.items()}
    where = f"presets.{settings.preset}.only" if settings.preset else "only"
    listed = settings.preset or isinstance(written.get("only"), list | tuple)
    for i, name in enumerate(settings.only):
        check_among(key_path(where, i) if listed else where, name, experiments, "an experiment")
    chosen = settings.only or tuple(experiments)
    selected = tuple(experiment for name, experiment in experiments.items() if name in chosen)
    if mode is Mode.RELEASE and not (settings.ledger and settings.ledger.limit):
        check_single(selected)
    if mode is Mode.RELEASE and settings.ledger and (limit := settings.ledger.limit):
        teachers = [account.labels.ensemble.teachers for each in selected for account in each.accounts]
        expansion.check_size_of_delta("ledger.delta", limit.delta, max(teachers, default=None))
    return Config(
        name=settings.name,
        results=str(Path(settings.results)),
        data_root=os.environ.get(variables.DATA) or settings.data_root,
        download=settings.download,
        mode=mode,
        ledger=settings.ledger,
        seeds=tuple(dict.fromkeys(seed for name in chosen for seed in seeds[name])),
        experiments=selected,
        written=dict(written),
        warnings=tuple(expansion.warnings),
    )
