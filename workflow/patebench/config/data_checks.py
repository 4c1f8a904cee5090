"""Check experiments against the outline of their data before any job runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from patebench import features, models
from patebench.config.artefacts import Data
from patebench.config.settings import EnsembleSettings, ExperimentSettings
from patebench.core.errors import PatebenchError, located
from patebench.core.fields import Parameters, key_path
from patebench.core.seeds import Mode
from patebench.data import known_outline, outline_of, reads_own_files
from patebench.data.dataset import Outline, check_numbers
from patebench.data.division import check_shift
from patebench.data.partitions import assigns_people, check_teachers, read_owners
from patebench.models import on_queries

Check = Callable[[], object]


def outline(data: Data, root: Path) -> Outline | None:
    """Return the outline of a data set (shape and numbers of samples), or None if it is unknown without downloading it.

    The outline of the user's own data is found by reading and checking the files. The number of features that an
    encoder computes is not known before the run; it counts as 1.
    """
    loader = data.loader or data.dataset
    if data.loader is None or not reads_own_files(loader):
        found = known_outline(loader)
    else:
        found = outline_of(loader, root, {**dict(data.sources), **dict(data.declared)}, data.classes.names)
    if not data.features or found is None:
        return found
    for encoder in data.features:
        features.check_input(encoder, found.shape)
    return replace(found, shape=(1,))


def checks(where: str, settings: ExperimentSettings, mode: Mode, data: Data, known: Outline) -> Iterator[Check]:
    """Yield functions, each of which checks one setting of an experiment against `known`, the outline of its data.

    `where` is the key of the experiment in the configuration.
    """
    yield partial(_check_public, where, settings, data.name, known)
    if settings.encoder is not None:
        yield partial(_at, f"{where}.encoder", features.check_input, settings.encoder, known.shape)
    if settings.pool_shift is not None:
        yield partial(_at, f"{where}.pool_shift", check_shift, settings.pool_shift, known.shape)
    for path, model in _models(where, settings):
        yield partial(_at, path, models.check_input, model, known.shape)
    for i, ensembles in enumerate(settings.ensembles):
        yield partial(_check_ensembles, key_path(f"{where}.ensembles", i), ensembles, mode, data, known)


def _at(where: str, check: Callable[..., object], *values: object) -> None:
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


def _check_ensembles(where: str, settings: EnsembleSettings, mode: Mode, data: Data, known: Outline) -> None:
    """Raise PatebenchError if an ensemble does not fit its private data.

    The owners must be one integer per private sample. The teachers must not outnumber the private samples or, if all
    records of a person go to one teacher, the people.
    """
    partition, people = settings.partition.chosen_in(mode, names_owners=data.names_owners), known.people
    if partition.owners is not None:
        with located(f"{where}.partition.owners"):
            check_numbers("owners", owners := read_owners(Path(partition.owners)), known.private)
        people = len(np.unique(owners))
    whole_people = assigns_people(partition.strategy) and not on_queries(settings.model)
    with located(f"{where}.teachers"):
        check_teachers(max(settings.teachers), known.private, people if whole_people else None)


def _models(where: str, settings: Parameters) -> Iterator[tuple[str, str]]:
    """Yield the path and value of every key `model` below the key `where`."""
    for key in type(settings).model_fields:
        value, path = getattr(settings, key), f"{where}.{key}"
        if key == "model" and value is not None:
            yield path, value
        for i, entry in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(entry, Parameters):
                yield from _models(key_path(path, i) if isinstance(value, list) else path, entry)
