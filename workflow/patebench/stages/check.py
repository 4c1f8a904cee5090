"""The command `check`: every artefact below a folder, by its checksum and by what it was made from.

Snakemake decides by times and parameters what to make again and reads no file. Stages refuse a damaged file, and one
that does not belong to its partners; this command finds such files before any stage does. Each artefact stores the
digests of what it was made from, so no knowledge of the workflow is needed. Figures, tables and pages have no checksum:
they are made again from `collected.json` in seconds.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from patebench.cli.command import FILE, stage_command
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_any_arrays, read_any_json
from patebench.core.formats import LAYOUTS
from patebench.core.progress import progress
from patebench.core.text import plural

#: Facts by which artefacts name what they were made from: a digest under the name of that file.
_PARENTS = {*LAYOUTS, "private", "public", "test"}
#: Facts under another name than that of the file: of earlier rounds, in folders further up.
_RENAMED = {"earlier": "labels", "earlier_votes": "votes", "queries_files": "queries"}

#: What the name of every artefact ends in.
SUFFIXES = (".npz", ".json")

_DIGEST = re.compile("[0-9a-f]{64}")
#: What `core.files.atomic` calls a file that it has not finished.
_LEFTOVER = re.compile(r"\..+\.[0-9]+\.tmp")
_AGAIN = "delete the older of the two and what was made from it, then run snakemake again"


@dataclass
class Checked:
    """How many artefacts were looked at, a line for each fault, and what killed jobs left behind."""

    artefacts: int = 0
    faults: list[str] = field(default_factory=list)
    leftovers: list[Path] = field(default_factory=list)


def run(*, place: Path, as_json: bool) -> None:
    """Check every artefact below PLACE: its checksum, and that it belongs to what it was made from.

    One line for each fault, and exit status 1 if there is any. PLACE is a folder or a file [default: results].
    """
    found = check(place)
    if as_json:
        told = {"place": str(place), "artefacts": found.artefacts, "faults": found.faults}
        click.echo(json.dumps({**told, "leftovers": list(map(str, found.leftovers))}, indent=1, ensure_ascii=False))
        sys.exit(1 if found.faults else 0)
    for line in found.faults:
        click.echo(line)
    if found.leftovers:
        files = plural(len(found.leftovers), "file")
        click.echo(f"{files} left by killed jobs, which may be deleted: {found.leftovers[0]}, …")
    faults = plural(len(found.faults), "fault") if found.faults else "no faults"
    click.echo(f"{place}: {plural(found.artefacts, 'artefact')}, {faults}")
    sys.exit(1 if found.faults else 0)


def check(place: Path) -> Checked:
    """Check every artefact of the folder `place`, or one file."""
    if not place.exists():
        raise PatebenchError(f"{place}: there is no such folder or file; give the one that holds your results")
    if place.is_file() and place.suffix not in SUFFIXES:
        raise PatebenchError(f"{place}: is no artefact, which are {' and '.join(SUFFIXES)}; give one, or their folder")
    every = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    paths = [path for path in every if path.suffix in SUFFIXES]
    result, known = Checked(len(paths)), _Known()
    with progress("checked", len(paths), "files") as done:
        for number, path in enumerate(paths):
            result.faults += _faults(path, known)
            done(number + 1)
    if known.sound:
        result.leftovers = [path for path in every if _LEFTOVER.fullmatch(path.name)]
    return result


@dataclass(frozen=True)
class _Facts:
    """The digest of one artefact, and those of what it was made from, by fact."""

    digest: str
    parents: Mapping[str, list[str]]


@dataclass
class _Known:
    """Artefacts by path, each read once; the fault of one that cannot be read."""

    found: dict[Path, _Facts | ArtefactError] = field(default_factory=dict)

    def __getitem__(self, path: Path) -> _Facts | ArtefactError:
        if path not in self.found:
            try:
                self.found[path] = _read(path)
            except ArtefactError as fault:
                self.found[path] = fault
        return self.found[path]

    @property
    def sound(self) -> bool:
        """True if any file is ours, so that the folder may be."""
        return any(isinstance(facts, _Facts) for facts in self.found.values())

    def may_be(self, path: Path, digest: str) -> bool:
        """True if a file has this digest, or is damaged, which is a fault of its own."""
        facts = self[path]
        return isinstance(facts, ArtefactError) or facts.digest == digest


def _read(path: Path) -> _Facts:
    if path.suffix == ".json":
        content, digest = read_any_json(path)
    else:
        artefact = read_any_arrays(path, LAYOUTS)
        content, digest = dict(artefact.meta), artefact.digest
    named = {name: _digests(content.get(name)) for name in (*sorted(_PARENTS), *_RENAMED, "chunks")}
    return _Facts(digest, {name: digests for name, digests in named.items() if digests})


def _digests(fact: Any) -> list[str]:
    """Return the digests in a fact; none where it says in words what others name by a digest."""
    values = fact if isinstance(fact, list) else [fact]
    return values if all(isinstance(value, str) and _DIGEST.fullmatch(value) for value in values) else []


def _faults(path: Path, known: _Known) -> Iterator[str]:
    facts = known[path]
    if isinstance(facts, ArtefactError):
        yield str(facts)
        return
    for entry, digests in facts.parents.items():
        if entry == "chunks":
            files = sorted(path.parent.glob("chunks/*.npz"))
        else:
            folders = (path.parent, *path.parent.parents)
            files = [folder / f"{_RENAMED.get(entry, entry)}.npz" for folder in folders]
            files = [file for file in files if file != path and file.exists()]
        for digest in digests:
            if not files:
                yield str(ArtefactError(path, f"what it was made from is not here ({entry})", _AGAIN))
            elif not any(known.may_be(file, digest) for file in files):
                beside = "those beside it" if entry == "chunks" else files[0]
                yield str(ArtefactError(path, f"it was made with other {entry} than {beside}", _AGAIN))
                break


command = stage_command(
    run,
    click.argument("place", type=FILE, default="results"),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)
