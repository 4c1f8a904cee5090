"""Check a configuration and return its run."""

import copy
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from patebench import features, models
from patebench.config.artefacts import Data, Ensemble
from patebench.config.experiments import SharedValues, check_among, check_own_files, expand
from patebench.config.run import RESERVED, Run
from patebench.config.settings import ConfigSettings, DatasetSettings, EnsembleSettings, ExperimentSettings, names
from patebench.core.errors import PatebenchError, call_all, located
from patebench.core.fields import Parameters, key_path
from patebench.core.registry import check_groups
from patebench.core.seeds import Mode
from patebench.core.spelling import DATA_VARIABLE
from patebench.core.text import plural
from patebench.data import DATASETS, known_outline, outline_of, reads_own_files
from patebench.data.dataset import Outline, check_numbers
from patebench.data.division import check_shift
from patebench.data.partitions import PARTITIONS, assigns_people, check_teachers, protected, read_owners
from patebench.mechanisms import MECHANISMS
from patebench.models import MODELS, RECIPES, on_queries
from patebench.petdl import FORMS
from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES
from patebench.students import STRATEGIES, STUDENTS

_REGISTRIES = (DATASETS, MECHANISMS, MODELS, RECIPES, FORMS, STUDENTS, STRATEGIES, FIGURES, TABLES)


def shown(written: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the experiments that a configuration runs: those in its key `only`, by default all.

    `written` is the configuration as read from YAML, without checks.
    """
    return tuple(names(written.get("only") or ())) or tuple(written["experiments"])


def validate(written: Mapping[str, Any], *, files: bool = True) -> Run:
    """Check the settings of a configuration and return its run.

    Experiments that `only` leaves out are checked too, except the files of their data sets.

    Parameters
    ----------
    written : settings as read from YAML, or as Snakemake passes them
    files : False to skip the check of all files

    Raises
    ------
    PatebenchError
        If a setting is invalid. The error is about the first invalid setting, about all missing files, or about all
        settings that do not match the data.
    """
    _check_registries()
    settings = ConfigSettings.checked(written)
    _check_names(settings, listed=isinstance(written.get("only"), list | tuple))
    chosen = settings.only or tuple(settings.experiments)
    if files:
        _check_files(settings, chosen)
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
    )
    ignored_run, shared = copy.deepcopy(run), SharedValues()
    experiments = {
        name: expand(run if name in chosen else ignored_run, settings.datasets, shared, name, each, seeds[name])
        for name, each in settings.experiments.items()
    }
    run.experiments = tuple(each for name, each in experiments.items() if name in chosen)
    if run.mode is Mode.RELEASE:
        _check_budget(run)
    sought = {
        name: each
        for name, each in settings.experiments.items()
        if each.dataset not in settings.datasets or (files and name in chosen)
    }
    _check_data(sought, run, settings.datasets)
    return run


def _check_registries() -> None:
    """Raise PatebenchError if an entry that another package registers is faulty.

    Faults are an unknown kind of object, an invalid name, a name that is already taken, and a figure or table that
    cannot be loaded or used.
    """
    check_groups(_REGISTRIES)
    for registry in _REGISTRIES:
        registry.names()  # raises an error if another package registers an existing name
    for registry in (FIGURES, TABLES):  # a run uses all of their entries
        registry.check_offered()


def _check_names(settings: ConfigSettings, *, listed: bool) -> None:
    """Raise PatebenchError if a name in the configuration is invalid, or if the results folder is not writable.

    A user's data set must not have the name of a built-in data set or of a reserved folder (`RESERVED`). The run must
    not have the name of any data set or of a reserved folder. Names in `only` must be names of experiments. `listed` is
    True if `only` is a list; the key in the message is then that of an entry, such as `only[0]`.
    """
    for name in settings.datasets:
        if name in {*DATASETS, *RESERVED}:
            line = f"'{name}' is already the name of a built-in data set or of a folder of results; choose another name"
            raise PatebenchError(line, code="taken", where=key_path("datasets", name))
    _check_folder(settings.results)
    taken = [*DATASETS, *settings.datasets, *RESERVED]
    if settings.name in taken:
        line = f"'{settings.name}' is already a folder of results; choose a name other than {', '.join(taken)}"
        raise PatebenchError(line, code="taken", where="name")
    for i, name in enumerate(settings.only):
        check_among(key_path("only", i) if listed else "only", name, settings.experiments, "an experiment")


def _check_files(settings: ConfigSettings, chosen: Sequence[str]) -> None:
    """Raise PatebenchError if a file of a user's data set is missing.

    `chosen` are the experiments that run. A data set is not checked if only other experiments use it.
    """
    left_out = {each.dataset for name, each in settings.experiments.items() if name not in chosen}
    read = {settings.experiments[name].dataset for name in chosen}
    call_all(
        partial(check_own_files, name, each)
        for name, each in settings.datasets.items()
        if name in read or name not in left_out
    )


def _check_budget(run: Run) -> None:
    """Raise PatebenchError if the total budget of a release is missing or invalid.

    Without a total budget, a release may contain only one label set. The δ of the budget must be below 1/teachers. All
    label sets must protect the same unit, so that a total ε exists.
    """
    limit = run.ledger.limit if run.ledger else None
    if limit is None:
        _check_single_release(run)
    else:
        teachers = [labels.ensemble.teachers for each in run.experiments for labels in each.label_sets]
        run.check_size_of_delta("ledger.delta", limit.delta, max(teachers, default=None))
        _check_same_unit(run)


def _check_data(experiments: Mapping[str, ExperimentSettings], run: Run, own: Mapping[str, DatasetSettings]) -> None:
    """Raise PatebenchError if an experiment does not match the sizes and shapes of its data.

    `own` contains the user's data sets by name.
    """
    data = {each.dataset: Data(each.dataset, own.get(each.dataset)) for each in experiments.values()}
    # Outlines of built-in data sets are stored in the package; the user's own files are read.
    read = call_all(partial(_outline, each, Path(run.data_root)) for each in data.values())
    known = dict(zip(data, read, strict=True))
    call_all(
        check
        for name, each in experiments.items()
        if (about := known[each.dataset])
        for check in _data_checks(key_path("experiments", name), each, run, data[each.dataset], about)
    )


def _outline(data: Data, root: Path) -> Outline | None:
    """Return the outline of `data` (numbers and shape of the samples), or None if it is unknown before a download.

    `root` is the folder of downloaded data sets.
    """
    own = data.settings
    if own is None:
        return known_outline(data.name)
    if not reads_own_files(own.loader):
        found = known_outline(own.loader)
    else:
        found = outline_of(own.loader, root, {**own.files, **own.declared}, own.names)
    if not own.features or found is None:
        return found
    for encoder in own.features:
        features.check_input(encoder, found.shape)
    # The number of features is unknown before the run.
    return replace(found, shape=(1,))


def _data_checks(
    where: str, settings: ExperimentSettings, run: Run, data: Data, known: Outline
) -> Iterator[Callable[[], object]]:
    """Yield checks of an experiment against its data: functions that raise PatebenchError at a mismatch.

    `known` contains the numbers of samples in the data and their shape.
    """
    yield partial(_check_public, where, settings, data.name, known)
    if settings.encoder is not None:
        yield partial(_check_at_key, f"{where}.encoder", features.check_input, settings.encoder, known.shape)
    if settings.pool_shift is not None:
        yield partial(_check_at_key, f"{where}.pool_shift", check_shift, settings.pool_shift, known.shape)
    for path, model in _keyed_models(where, settings):
        yield partial(_check_at_key, path, models.check_input, model, known.shape)
    for i, ensembles in enumerate(settings.ensembles):
        yield partial(_check_ensembles, key_path(f"{where}.ensembles", i), ensembles, run, data, known)


def _check_at_key(where: str, check: Callable[..., object], *values: object) -> None:
    with located(where):
        check(*values)


def _check_public(where: str, settings: ExperimentSettings, name: str, known: Outline) -> None:
    pool, test, public = settings.pool, settings.test or 1, known.public
    if settings.protects:  # the pool consists of the training samples
        if pool > known.private:
            line = f"{pool} exceeds the {known.private} training samples of {name}; use at most {known.private}"
            raise PatebenchError(line, code="bound", where=f"{where}.pool")
        pool = 0
    if pool + test > public:
        key, value, most = ("test", test, public - pool) if pool < public else ("pool", pool, public - 1)
        part = "test set" if key == "test" else "pool"
        line = f"{value} exceeds the {most} public samples of {name} available for the {part}; use at most {most}"
        raise PatebenchError(line, code="bound", where=f"{where}.{key}")


def _check_ensembles(where: str, settings: EnsembleSettings, run: Run, data: Data, known: Outline) -> None:
    """Raise PatebenchError if the owners of records are missing or invalid, or the number of teachers does not fit.

    There may be at most as many teachers as private samples. If all records of an owner go to one teacher, there may be
    at most as many teachers as owners. Add a warning to `run` if some owners have several records and the partition
    ignores owners.
    """
    partition, people = settings.partition.chosen_in(run.mode, names_owners=data.names_owners), known.people
    by_owner = assigns_people(partition.strategy)
    if partition.owners is not None:
        with located(f"{where}.partition.owners"):
            check_numbers("owners", owners := read_owners(Path(partition.owners)), known.private)
        if people is not None and len(np.unique(owners)) > people:
            line = (
                f"the file names {len(np.unique(owners))} owners, but {data.name} names {plural(people, 'person')}, so"
                " some belong to several owners; leave 'owners' out, or give all records of a person to the same owner"
            )
            raise PatebenchError(line, code="owners", where=f"{where}.partition.owners")
        people = len(np.unique(owners))
    elif by_owner and people is None:
        line = (
            f"the strategy '{partition.strategy}' needs the owner of each record, but {data.name} names no owners; give"
            " a .npy file of owners as 'owners'"
        )
        raise PatebenchError(line, code="missing", where=f"{where}.partition.owners")
    if people is not None and people < known.private and not by_owner:
        _, kept = protected(partition.strategy, own_rows=False)  # the rows of most own data are positions
        line = (
            f"{where}.partition: '{partition.strategy}' protects {kept}, not a person with several records; to protect"
            " people, use 'hash-owners'"
        )
        if line not in run.warnings:
            run.warnings.append(line)
    if partition.strategy == "owners" and people is not None and set(settings.teachers) != {people}:
        line = f"with the strategy 'owners', each owner is a teacher; set the number of teachers to {people}"
        raise PatebenchError(line, code="bound", where=f"{where}.teachers")
    whole_people = by_owner and not on_queries(settings.model)
    with located(f"{where}.teachers"):
        check_teachers(max(settings.teachers), known.private, people if whole_people else None)


def _keyed_models(where: str, settings: Parameters) -> Iterator[tuple[str, str]]:
    """Yield a pair (path of the key `model`, name of the model) for each machine-learning model in `settings`.

    Nested settings are included. `where` is the path of the key of `settings`.
    """
    for key in type(settings).model_fields:
        value, path = getattr(settings, key), f"{where}.{key}"
        if key == "model" and value is not None:
            yield path, value
        for i, entry in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(entry, Parameters):
                yield from _keyed_models(key_path(path, i) if isinstance(value, list) else path, entry)


def _check_single_release(run: Run) -> None:
    """Raise PatebenchError if `run`, which has no total budget, releases more than one label set.

    The ε of several releases adds up, so they need a total budget.
    """
    folders: dict[str, set[str]] = {}
    for labels in (labels for experiment in run.experiments for labels in experiment.label_sets):
        # Different data sets count too: without names, two of them may hold the same records.
        folders.setdefault(labels.ensemble.split.data.name, set()).add(labels.name)
    if sum(map(len, folders.values())) > 1:
        sets = " and ".join(f"{plural(len(names), 'label set')} of {data}" for data, names in folders.items())
        line = (
            f"this configuration releases {sets}, whose ε adds up; set their total budget"
            " ('ledger: {budget: …, delta: …}'), or keep one data set, one seed, one ensemble, one noise setting and"
            " one round"
        )
        raise PatebenchError(line, code="several-releases", where="mode")


def _check_same_unit(run: Run) -> None:
    """Raise PatebenchError if releases of `run` that share a ledger do not protect the same unit, such as a record.

    A partition states the changes of the data against which it protects. These changes must be the same for all
    releases. Otherwise, the ledger may refuse a release after others were paid for. Partitions by owner must also read
    the owners from the same file and column. Imported votes are not checked.
    """
    partitions: dict[str, set[str]] = {}
    owners: dict[str, set[str]] = {}
    private = run.ledger.private if run.ledger else None
    for ensemble in (labels.ensemble for experiment in run.experiments for labels in experiment.label_sets):
        if not ensemble.imported:
            # Two data sets may name different columns of one file, whose records share a ledger.
            records = _records(ensemble.split.data)
            data = private or records
            partitions.setdefault(data, set()).add(ensemble.partition.strategy)
            if assigns_people(ensemble.partition.strategy):
                # Under one permanent name, owners of different records cannot be compared.
                named = f"{_owners(ensemble)} for {records}" if private else _owners(ensemble)
                owners.setdefault(data, set()).add(named)
    for data, strategies in partitions.items():
        if len({frozenset(PARTITIONS.fact(strategy, "protects")) for strategy in strategies}) > 1:
            line = (
                f"the releases of {data} use the partitions {' and '.join(sorted(strategies))}, which may protect"
                " against different changes of the data, so one ε cannot cover all; use one of these partitions"
            )
            raise PatebenchError(line, code="other-unit", where="ledger")
    for data, sources in owners.items():
        if len(sources) > 1:
            line = (
                f"the releases of {data} take the owners of records from {' and '.join(sorted(sources))}, so one ε"
                " cannot cover the owners of all; take them from one of these"
            )
            raise PatebenchError(line, code="other-unit", where="ledger")


def _records(data: Data) -> str:
    """Return the file with the private records of `data`; for built-in data, their name."""
    return data.settings.private if data.settings and data.settings.private else data.name


def _owners(ensemble: Ensemble) -> str:
    """Return the file, and the column if one is declared, that names the owners of the records of `ensemble`."""
    if ensemble.partition.owners is not None:
        return str(ensemble.partition.owners)
    data = ensemble.split.data
    column = data.settings.table.owner if data.settings and data.settings.table else None
    return f"{_records(data)}{f' (column {column})' if column else ''}"


def _check_folder(path: str) -> None:
    """Raise PatebenchError if the results folder `path` is a file or not writable."""
    place = Path(path)
    there = next(each for each in (place, *place.absolute().parents) if each.exists())
    if not there.is_dir():
        raise PatebenchError(f"{there} is a file, not a folder; give a folder", code="not-writable", where="results")
    try:
        with tempfile.TemporaryFile(dir=there):  # os.access would succeed for root, even in /proc
            pass
    except OSError:
        line = f"{there} cannot be written to; give another folder"
        raise PatebenchError(line, code="not-writable", where="results") from None
