"""Command `check`: check the checksum of every artefact below a folder, and that its inputs have not changed.

Snakemake does not read files: times and parameters decide which files it recreates. A stage refuses damaged or
mismatched files only when it reads them, so this command finds them earlier. Each artefact stores the digests of its
inputs, so the command does not need the workflow. Figures, tables and pages have no checksum; they can be recreated
from `collected.json` in seconds.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import click

from patebench.cli.command import FILE, Json, stage_command
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_any_arrays, read_any_json
from patebench.core.formats import LAYOUTS
from patebench.core.progress import progress
from patebench.core.text import plural

#: Metadata entry with the digest of an input → name of the input's file, without suffix. Inputs from earlier rounds
#: are in a parent folder.
_INPUTS = {name: name for name in sorted({*LAYOUTS, "private", "public", "test"})}
_INPUTS |= {"earlier": "labels", "earlier_votes": "votes", "queries_files": "queries"}

#: Suffixes of artefacts.
SUFFIXES = (".npz", ".json")

_DIGEST = re.compile("[0-9a-f]{64}")
#: Pattern of the names of unfinished files that `core.files.atomic` leaves if a job is killed.
_LEFTOVER = re.compile(r"\..+\.[0-9]+\.tmp")
_AGAIN = "delete the older file (this one or the input) and all files made from it, then run snakemake again"


@dataclass
class Checked:
    """Result of `check`: number of artefacts, one message per fault, and unfinished files of killed jobs."""

    artefacts: int = 0
    faults: list[str] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)


def run(*, place: Path, as_json: Json) -> None:
    """Check every artefact below PLACE: its checksum, and that its inputs have not changed since it was made.

    One line is printed per fault, and the exit status is 1 if there is a fault. PLACE is a folder or a file [default:
    results].
    """
    checked = check(place)
    if as_json:
        facts = {"place": str(place), "artefacts": checked.artefacts, "faults": checked.faults}
        click.echo(json.dumps({**facts, "leftovers": list(map(str, checked.leftovers))}, indent=1, ensure_ascii=False))
    else:
        for line in checked.faults:
            click.echo(line)
        if checked.leftovers:
            files = plural(len(checked.leftovers), "file")
            click.echo(f"{files} left by killed jobs, which may be deleted: {checked.leftovers[0]}, …")
        faults = plural(len(checked.faults), "fault") if checked.faults else "no faults"
        click.echo(f"{place}: {plural(checked.artefacts, 'artefact')}, {faults}")
    sys.exit(1 if checked.faults else 0)


def check(place: Path) -> Checked:
    """Check every artefact below the folder `place`, or the single artefact `place`; return the result."""
    if not place.exists():
        raise PatebenchError(f"{place} does not exist; give the folder with your results, or a file in it")
    if place.is_file() and place.suffix not in SUFFIXES:
        raise PatebenchError(f"{place} is not a file of type {' or '.join(SUFFIXES)}; give such a file or a folder")
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    paths = [path for path in files if path.suffix in SUFFIXES]
    result, read = Checked(len(paths)), cache(_read_digests)
    with progress("checked", len(paths), "files") as done:
        for number, path in enumerate(paths):
            result.faults += _find_faults(path, read)
            done(number + 1)
    if any(isinstance(read(path), tuple) for path in paths):  # else this is not a folder of patebench's results
        result.leftovers = [path for path in files if _LEFTOVER.fullmatch(path.name)]
    return result


#: Digest of an artefact, and the digests of its inputs, by the metadata entry that stores them.
_Facts = tuple[str, dict[str, list[str]]]


def _read_digests(path: Path) -> _Facts | ArtefactError:
    """Return the digest of the artefact `path`, and the digests of its inputs that are stored in the artefact.

    The digests of inputs are a dict from the name of a metadata entry to the digests in this entry. An error in the
    file is returned, not raised, so that a cache stores it.
    """
    try:
        if path.suffix == ".json":
            content, digest = read_any_json(path)
        else:
            artefact = read_any_arrays(path, LAYOUTS)
            content, digest = dict(artefact.meta), artefact.digest
    except ArtefactError as fault:
        return fault
    parents: dict[str, list[str]] = {}
    for name in (*_INPUTS, "chunks"):
        fact = content.get(name)
        values: list[Any] = fact if isinstance(fact, list) else [fact]
        if values and all(isinstance(value, str) and _DIGEST.fullmatch(value) for value in values):
            parents[name] = values
    return digest, parents


def _find_faults(path: Path, read: Callable[[Path], _Facts | ArtefactError]) -> Iterator[str]:
    """Yield a message for each fault of the artefact `path`.

    There are three kinds of faults: the file is damaged, an input is missing, or an input has changed after the
    artefact was made. `read` is `_read_digests` with a cache.
    """
    facts = read(path)
    if isinstance(facts, ArtefactError):
        yield str(facts)
        return
    for entry, digests in facts[1].items():
        if entry == "chunks":
            files = sorted(path.parent.glob("chunks/*.npz"))
        else:
            folders = (path.parent, *path.parent.parents)
            files = [folder / f"{_INPUTS[entry]}.npz" for folder in folders]
            files = [file for file in files if file != path and file.exists()]
        inputs = [input[0] for input in map(read, files) if isinstance(input, tuple)]
        for digest in digests:
            if not files:
                yield str(
                    ArtefactError(path, f"the file of its input '{entry}' is missing", "run snakemake again to make it")
                )
            elif len(inputs) == len(files) and digest not in inputs:
                beside = "the files chunks/*.npz next to it" if entry == "chunks" else f"the file {files[0]}"
                fault = f"its input '{entry}' has changed: it was not made from {beside}"
                yield str(ArtefactError(path, fault, _AGAIN))
                break


command = stage_command(run, click.Argument(["place"], type=FILE, default="results"))
