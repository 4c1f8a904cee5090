"""The configuration: read, checked, and turned into the experiments of a `Plan` before any job starts.

The schema (workflow/schemas/config.schema.yaml) says what may be written; this module says what it means, and compares
it with the registries, with the mechanisms' own rules and with itself. Every mistake is one PatebenchError that starts
with the path of its key.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from patebench import secure
from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest
from patebench.core.seeds import Mode
from patebench.data import DATASETS, OWN
from patebench.data.partitions import PARTITIONS
from patebench.mechanisms import MECHANISMS
from patebench.models import MODELS, RECIPES
from patebench.plan import (
    Account,
    Audit,
    Baseline,
    Budget,
    Data,
    Distillation,
    Ensemble,
    Experiment,
    Learner,
    Options,
    Partition,
    Plan,
    Release,
    Round,
    Split,
    StudentRun,
    noise_slug,
    number,
)
from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES
from patebench.schema import conform, key_path, show
from patebench.students import STUDENTS, refuse_choice
from patebench.students.strategies import STRATEGIES, initial

SCHEMA = Path(__file__).parent.parent / "schemas" / "config.schema.yaml"

#: What lies directly below the results folder beside the data sets.
RESERVED = ("benchmarks", "figures", "logs", "reference", "tables")

#: A mechanism and its parameters, in the mechanism's order.
Setting = tuple[str, tuple[tuple[str, float], ...]]
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Config:
    """A checked configuration; `experiments` are the selected ones."""

    name: str
    results: str
    data_root: str
    download: bool
    mode: Mode
    aggregators: int | None
    seeds: tuple[int, ...]
    experiments: tuple[Experiment, ...]

    @property
    def pages(self) -> str:
        """The folder of the report, its figures and tables."""
        return f"{self.results}/{self.name}".rstrip("/")

    @property
    def run(self) -> str:
        """What logs and benchmark files call this configuration."""
        return self.name or "default"

    def jobs(self) -> list[str]:
        """A name for each job, which its log and benchmark file bear; all but the manifest and the page after it."""
        pages = [f"figure/{self.run}/{name}" for name in FIGURES] + [f"table/{self.run}/{name}" for name in TABLES]
        return self.plan().jobs() + pages

    def plan(self) -> Plan:
        """Everything that the selected experiments make."""
        return Plan(self.experiments, self.results)

    def access_options(self) -> Options:
        """How `patebench data` reaches data sets; no part of what they are, so no reason to make them anew."""
        return {"root": self.data_root, "download": self.download}


class _Loader(yaml.SafeLoader):
    """YAML in which a key written twice is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for i, key in enumerate(keys):
            if key.value in (earlier.value for earlier in keys[:i]):
                fault = f"the key '{key.value}' is given twice"
                raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
        return super().construct_mapping(node, deep)


def load(path: Path | str) -> dict[str, Any]:
    """The YAML mapping in `path`, unchecked; PatebenchError with the line for what YAML can not read."""
    try:
        settings = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except OSError as fault:
        raise PatebenchError(f"{path}: can not be read ({fault.strerror}); give the path of a YAML file") from None
    except UnicodeDecodeError:
        raise PatebenchError(f"{path}: is not UTF-8 text; save it as UTF-8") from None
    except yaml.MarkedYAMLError as fault:
        line = f", line {fault.problem_mark.line + 1}" if fault.problem_mark else ""
        raise PatebenchError(f"{path}{line}: {fault.problem}; mend the YAML there") from None
    except yaml.YAMLError as fault:
        raise PatebenchError(f"{path}: {fault}; mend the YAML there") from None
    if not isinstance(settings, dict):
        raise PatebenchError(f"{path}: holds {show(settings)} instead of a mapping; start from config/config.yaml")
    return settings


def validate(settings: Settings) -> Config:
    """Check settings as read from YAML, with or without Snakemake's changes, and say what they ask for.

    Experiments that `only` leaves out are checked as well. Raises PatebenchError, one line, for the first mistake.
    """
    settings = conform(settings, yaml.safe_load(SCHEMA.read_text(encoding="utf-8")))
    for registry in (DATASETS, MECHANISMS, MODELS, RECIPES):
        registry.names()  # refuses packages that claim a name twice
    own = {name: _own_data(name, written) for name, written in settings["datasets"].items()}
    if settings["name"] in {*DATASETS, *own, *RESERVED}:
        raise PatebenchError(
            f"name: '{settings['name']}' is a folder of data sets or pages already; choose a name that is none of"
            f" {', '.join([*DATASETS, *own, *RESERVED])}"
        )
    agreement = _Agreement()
    mode, aggregators = Mode(settings["mode"]), settings.get("secure", {}).get("aggregators")
    manner = _Manner(mode, aggregators)
    seeds = {
        name: _listed(written.get("seeds", settings["seeds"])) for name, written in settings["experiments"].items()
    }
    experiments = {
        name: _experiment(name, written, own, seeds[name], manner, agreement)
        for name, written in settings["experiments"].items()
    }
    for where, name in _places("only", settings["only"]):
        _among(where, name, experiments, "an experiment")
    names = _listed(settings["only"]) or list(experiments)
    selected = tuple(experiment for name, experiment in experiments.items() if name in names)
    if mode is Mode.RELEASE:
        _check_single(selected)
    return Config(
        name=settings["name"],
        results=str(Path(settings["results"])),
        data_root=os.environ.get("PATEBENCH_DATA") or settings["data_root"],
        download=settings["download"],
        seeds=tuple(dict.fromkeys(seed for name in names for seed in seeds[name])),
        mode=mode,
        aggregators=aggregators,
        experiments=selected,
    )


@dataclass(frozen=True)
class _Manner:
    """How all releases of a configuration are made."""

    mode: Mode
    aggregators: int | None

    def aggregators_of(self, mechanism: str) -> int | None:
        return self.aggregators if mechanism == secure.MECHANISM else None


class _Agreement:
    """What must be the same wherever an artefact is asked for, because its path does not say it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, object]] = {}

    def settle(self, folder: str, where: str, value: object) -> None:
        """Note the value at `where` for `folder`; refuse it if it was noted otherwise elsewhere."""
        kind = where.rsplit(".", 1)[-1]
        place, known = self._known.setdefault((folder, kind), (where, value))
        if known != value:
            raise PatebenchError(
                f"{where}: is {show(value)}, but {place} is {show(known)} and both make {folder}; give both one value"
            )


def _experiment(
    name: str, written: Settings, own: Mapping[str, Data], seeds: Sequence[int], manner: _Manner, agreement: _Agreement
) -> Experiment:
    where = key_path("experiments", name)
    data = _data(f"{where}.dataset", written["dataset"], own)
    accounting = written["accounting"]
    _check_queries(f"{where}.accounting.queries", accounting["queries"], written["pool"])
    settings = _settings(f"{where}.mechanisms", written["mechanisms"])
    budget = Budget(accounting["budget"], accounting["delta"]) if "budget" in accounting else None
    sizes = [size for each in written["ensembles"] for size in _listed(each["teachers"])]
    _check_settings(f"{where}.mechanisms", settings, manner, budget, sizes)
    accounts: list[Account] = []
    students: list[StudentRun] = []
    baselines: list[Baseline] = []
    rounds: list[Round] = []
    distillations: list[Distillation] = []
    for seed in seeds:
        split = Split(data, seed, written["pool"], written.get("test"))
        ensembles = list(_ensembles(f"{where}.ensembles", written["ensembles"], split, agreement))
        queries, delta = tuple(sorted(_listed(accounting["queries"]))), accounting["delta"]
        ours = [
            Account(Release(ensemble, *setting, manner.mode, budget, manner.aggregators_of(setting[0])), queries, delta)
            for ensemble in ensembles
            for setting in settings
        ]
        for account in ours:
            agreement.settle(account.folder, f"{where}.accounting.delta", delta)
        accounts += ours
        for i, student in enumerate(written["students"]):
            students += _students(key_path(f"{where}.students", i), student, ours)
        if written["rounds"] and manner.mode is Mode.RELEASE:
            raise PatebenchError(
                f"{where}.rounds: are for experiments, with noise that can be drawn again; leave them out"
            )
        for i, asking in enumerate(written["rounds"]):
            rounds += _rounds(key_path(f"{where}.rounds", i), asking, ensembles, delta, agreement)
        for i, distilling in enumerate(written["distillation"]):
            distillations += _distillations(key_path(f"{where}.distillation", i), distilling, ensembles, manner)
        if "baseline" in written:
            baselines.append(Baseline(split, _learner(f"{where}.baseline", written["baseline"])))
        if "truth" in written:
            baselines += _truthful(f"{where}.truth", written["truth"], split)
    audits = _audits(f"{where}.audit", written["audit"], accounts, agreement) if "audit" in written else []
    asked, distilled = tuple(rounds), tuple(distillations)
    return Experiment(name, tuple(accounts), tuple(students), tuple(baselines), tuple(audits), asked, distilled)


def _check_settings(
    where: str, settings: Iterable[Setting], manner: _Manner, budget: Budget | None, sizes: Sequence[int]
) -> None:
    """Whether the mechanisms suit the ensembles, and can be released and keep a budget, where that is asked for."""
    from patebench.mechanisms.base import budgeted, make, releasable

    for name, parameters in settings:
        with _at(key_path(where, name)):
            if manner.mode is Mode.RELEASE:
                releasable(name, MECHANISMS.load(name))
            mechanism = make(name, dict(parameters))
            for teachers in sizes:
                mechanism.costs(teachers)  # refuses what so few teachers can not do
            if budget is not None:
                budgeted(name, mechanism, min(sizes))
                if manner.aggregators_of(name):
                    raise PatebenchError("the secure path opens all queries at once, so it can not stop at a budget")


def _check_single(experiments: Iterable[Experiment]) -> None:
    """Refuse several releases of one data set: every ε is that of one, and together they cost more."""
    releases: dict[str, set[str]] = {}
    for account in (account for experiment in experiments for account in experiment.accounts):
        releases.setdefault(account.release.ensemble.split.data.name, set()).add(account.folder)
    for data, folders in releases.items():
        if len(folders) > 1:
            raise PatebenchError(
                f"mode: is release, and this configuration makes {len(folders)} label sets of {data}, which cost more "
                "together than any ε that would be stated; keep one seed, one ensemble and one noise setting"
            )


def _data(where: str, name: str, own: Mapping[str, Data]) -> Data:
    _among(where, name, [*(each for each in DATASETS if each not in OWN), *own], "a data set")
    return own.get(name, Data(name))


def _own_data(name: str, written: Settings) -> Data:
    where = key_path("datasets", name)
    if name in {*DATASETS, *RESERVED}:
        raise PatebenchError(f"{where}: the name '{name}' is taken; call your data set otherwise")
    _among(f"{where}.loader", written["loader"], OWN, "a loader")
    for role in ("private", "public"):
        _check_exists(f"{where}.{role}", written[role])
    return Data(name, written["loader"], tuple((role, written[role]) for role in ("private", "public")))


def _ensembles(where: str, written: Sequence[Settings], split: Split, agreement: _Agreement) -> Iterator[Ensemble]:
    for i, each in enumerate(written):
        here = key_path(where, i)
        partition = _partition(f"{here}.partition", each["partition"])
        learner = _learner(here, each)
        for teachers in _listed(each["teachers"]):
            work = {key: each[key] for key in ("chunk", "keep_weights", "every_class")}
            work["soft"] = tuple(map(_spelt, _listed(each["soft"])))
            ensemble = Ensemble(split, teachers, partition, learner, **work)
            for key in work:
                agreement.settle(ensemble.folder, f"{here}.{key}", each[key])
            agreement.settle(ensemble.folder, f"{here}.partition.column", partition.column)
            yield ensemble


def _partition(where: str, written: str | Settings) -> Partition:
    partition = Partition(strategy=written) if isinstance(written, str) else Partition(**written)
    with _at(where if isinstance(written, str) else f"{where}.strategy"):
        PARTITIONS.check(partition.strategy)
    for strategy, key, value in (("skew", "share", partition.share), ("owners", "column", partition.column)):
        if partition.strategy == strategy and value is None:
            raise PatebenchError(f"{where}.{key}: is missing; write {{strategy: {strategy}, {key}: ...}}")
        if partition.strategy != strategy and value is not None:
            raise PatebenchError(
                f"{where}.{key}: is {show(value)}, but only the strategy '{strategy}' has a {key} and this one is"
                f" '{partition.strategy}'; leave it out"
            )
    if partition.column is not None:
        _check_exists(f"{where}.column", partition.column)
    return partition


def _learner(where: str, written: Settings) -> Learner:
    with _at(f"{where}.model"):
        MODELS.check(written["model"])
    with _at(f"{where}.recipe"):
        RECIPES.check(written["recipe"])
    return Learner(written["model"], written["recipe"], written.get("epochs"))


def _truthful(where: str, written: Settings, split: Split) -> list[Baseline]:
    _check_queries(f"{where}.queries", written["queries"], split.pool)
    learner = _learner(where, written)
    return [Baseline(split, learner, queries) for queries in _listed(written["queries"])]


def _settings(where: str, written: Mapping[str, Settings]) -> list[Setting]:
    """Every mechanism with every combination of its parameters' values."""
    from patebench.mechanisms.base import make

    settings = []
    for name, grid in written.items():
        here = key_path(where, name)
        with _at(here):
            allowed = MECHANISMS.load(name).parameter_names()
        for parameter in grid:
            _among(f"{here}.{parameter}", parameter, allowed, f"a parameter of {name}")
        columns = [
            [(place, key, _spelt(value)) for place, value in _places(f"{here}.{key}", grid[key])] for key in grid
        ]
        for row in itertools.product(*columns):
            with _at(row[0][0] if len(row) == 1 else here):
                mechanism = make(name, {key: value for _, key, value in row})
            settings.append((name, tuple(mechanism.parameters().items())))
    return settings


def _spelt(value: float) -> float:
    """The value that the slug spells, so that no path stands for two values."""
    return float(number(value))


def _audits(where: str, written: Settings, accounts: Sequence[Account], agreement: _Agreement) -> Iterator[Audit]:
    """An audit of each release's mechanism, whatever the seed; by default at the most queries accounted for."""
    sizes = sorted({account.release.ensemble.teachers for account in accounts})
    for place, size in _places(f"{where}.teachers", written.get("teachers", sizes)):
        _among(place, size, sizes, "a number of teachers of this experiment's ensembles")
    queries = written.get("queries", max(accounts[0].queries))
    for place, value in _places(f"{where}.queries", queries):
        _among(place, value, accounts[0].queries, "among this experiment's accounting.queries")
    how = {key: written[key] for key in ("runs", "confidence")}
    for account in accounts:
        release, asked = account.release, tuple(sorted(_listed(queries)))
        data, teachers = release.ensemble.split.data, release.ensemble.teachers
        if teachers in _listed(written.get("teachers", sizes)):
            audit = Audit(data, teachers, release.mechanism, release.parameters, asked, account.delta, **how)
            for key, value in {**how, "delta": account.delta}.items():
                agreement.settle(audit.folder, f"{where}.{key}", value)
            yield audit


def _students(where: str, written: Settings, accounts: Sequence[Account]) -> list[StudentRun]:
    """The students that learn from some of these accounts' releases."""
    approach = _approach(where, written)
    teachers = _teachers(where, written, (account.release.ensemble for account in accounts))
    for place, queries in _places(f"{where}.queries", written["queries"]):
        _among(place, queries, accounts[0].queries, "among this experiment's accounting.queries")
    wanted = _settings(f"{where}.releases", written["releases"])
    declared = dict.fromkeys(_release_slug(each.release.mechanism, each.release.parameters) for each in accounts)
    for setting in wanted:
        _among(
            f"{where}.releases.{setting[0]}", _release_slug(*setting), declared, "among this experiment's mechanisms"
        )
    return [
        StudentRun(account.release, written["method"], queries, **approach)
        for account in accounts
        if account.release.ensemble.teachers in teachers
        and (account.release.mechanism, account.release.parameters) in wanted
        for queries in _listed(written["queries"])
    ]


def _rounds(
    where: str, written: Settings, ensembles: Sequence[Ensemble], delta: float, agreement: _Agreement
) -> Iterator[Round]:
    """The last round of every student that asks in rounds, one for each ensemble, release and strategy."""
    from patebench.mechanisms.base import askable, make

    approach = _approach(where, written)
    for place, strategy in _places(f"{where}.strategy", written["strategy"]):
        with _at(place):
            STRATEGIES.check(strategy)
    teachers = _teachers(where, written, ensembles)
    each_time = _listed(written["queries"])
    _check_queries(f"{where}.queries", sum(each_time), ensembles[0].split.pool)
    asked = [Release(ensemble, *setting) for ensemble in ensembles if ensemble.teachers in teachers
             for setting in _settings(f"{where}.releases", written["releases"])]  # fmt: skip
    for name, parameters in {(release.mechanism, release.parameters) for release in asked}:
        with _at(f"{where}.releases.{name}"):
            askable(name, make(name, dict(parameters)))
    for release, strategy in itertools.product(asked, _listed(written["strategy"])):
        last = Round(release, written["method"], initial(strategy), each_time[0], delta, **approach)
        for queries in each_time[1:]:
            last = replace(last, strategy=strategy, queries=queries, before=last)
        for round_ in last.history:
            agreement.settle(round_.folder, f"{where}.accounting.delta", delta)
        yield last


def _distillations(
    where: str, written: Settings, ensembles: Sequence[Ensemble], manner: _Manner
) -> Iterator[Distillation]:
    """What learns from the probabilities of each of the ensembles."""
    if manner.mode is Mode.RELEASE:
        raise PatebenchError(f"{where}: is not private, and this configuration makes a release; leave it out")
    samples = tuple(sorted(_listed(written["samples"])))
    _check_queries(f"{where}.samples", list(samples), ensembles[0].split.pool)
    teachers = _teachers(where, written, ensembles)
    learner = _learner(where, written)
    for ensemble in ensembles:
        if ensemble.teachers in teachers:
            if not ensemble.soft:
                raise PatebenchError(
                    f"{where}: needs the probabilities of {ensemble.slug}; give that ensemble soft: [1, 5]"
                )
            yield Distillation(ensemble, learner, samples)


def _teachers(where: str, written: Settings, ensembles: Iterable[Ensemble]) -> list[int]:
    """Which of the ensembles are meant, by their number of teachers; all, where nothing is said."""
    sizes = sorted({ensemble.teachers for ensemble in ensembles})
    teachers = written.get("teachers", sizes)
    for place, size in _places(f"{where}.teachers", teachers):
        _among(place, size, sizes, "a number of teachers of this experiment's ensembles")
    return _listed(teachers)


def _approach(where: str, written: Settings) -> dict[str, Any]:
    """What the configuration chooses for a student's method."""
    with _at(f"{where}.method"):
        method = STUDENTS.check(written["method"])
    for key, registry in (("model", MODELS), ("recipe", RECIPES)):
        if key in written:
            with _at(f"{where}.{key}"):
                registry.check(written[key])
                refuse_choice(method, key)
    return {key: written[key] for key in ("model", "recipe", "epochs", "hold_out") if key in written}


def _release_slug(mechanism: str, parameters: Iterable[tuple[str, float]]) -> str:
    return f"{mechanism}/{noise_slug(parameters)}"


def _check_queries(where: str, queries: int | Sequence[int], pool: int) -> None:
    for place, value in _places(where, queries):
        if value > pool:
            raise PatebenchError(
                f"{place}: is {value}, but the pool holds {pool} samples; ask for at most {pool} queries"
            )


def _check_exists(where: str, path: str) -> None:
    if not Path(path).exists():
        raise PatebenchError(f"{where}: there is no {path}; give a path that exists, from {Path.cwd()}")


def _among(where: str, value: object, allowed: Iterable[Any], what: str) -> None:
    allowed = list(allowed)
    if value not in allowed:
        names = [str(each) for each in allowed]
        raise PatebenchError(
            f"{where}: {show(value)} is not {what}{nearest(value, names)}; allowed: {', '.join(names)}"
        )


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Let a message start with the path of the key that it is about."""
    try:
        yield
    except PatebenchError as fault:
        raise PatebenchError(f"{where}: {fault}") from None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _places(where: str, value: Any) -> list[tuple[str, Any]]:
    """Each value of a list, or the one value, with the path of its key."""
    if isinstance(value, list):
        return [(key_path(where, i), each) for i, each in enumerate(value)]
    return [(where, value)]
