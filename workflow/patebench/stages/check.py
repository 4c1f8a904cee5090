"""The command `check`: every artefact below a folder, by its checksum and by what it was made from.

Snakemake decides by times and parameters what to make anew and looks into no file. A stage that reads a damaged file,
or one that does not belong to its partners, refuses it; this finds such files before any stage does. Figures, tables
and pages carry no checksum: they are made anew from `collected.json` in seconds.
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

#: Facts that are the digest of a parent: the file of that name in the nearest folder upwards.
PARENTS = (
    *("private", "public", "pool", "truth", "test", "partition", "features"),
    *("votes", "labels", "predictions", "earlier", "earlier_votes"),
)

#: Where a fact means another file than its own name says.
RENAMED = {"earlier": "labels", "earlier_votes": "votes"}

#: Facts about the round before, whose folder is further up: kinds of artefact and fact.
BEFORE = {("labels", "earlier"), ("votes", "earlier_votes"), ("queries", "labels"), ("queries", "predictions")}

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
    """Look at every artefact of the folder `place`, or at one file."""
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
    """What one artefact says of itself and of its parents."""

    digest: str
    kind: str
    parents: Mapping[str, Any]


@dataclass
class _Known:
    """Artefacts by path, each read once; of one that can not be read, the fault."""

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
        """Whether any file is ours, so that the folder may be."""
        return any(isinstance(facts, _Facts) for facts in self.found.values())

    def digest(self, path: Path) -> str | None:
        """None where a fault was found already."""
        facts = self[path]
        return facts.digest if isinstance(facts, _Facts) else None


def _read(path: Path) -> _Facts:
    if path.suffix == ".json":
        content, digest = read_any_json(path)
    else:
        artefact = read_any_arrays(path, LAYOUTS)
        content, digest = dict(artefact.meta), artefact.digest
    kind = str(content["kind"])
    parents = {name: content[name] for name in (*PARENTS, "chunks", "queries_files") if _names_files(content.get(name))}
    return _Facts(digest, kind, parents)


def _names_files(fact: Any) -> bool:
    """Some artefacts say in words what others name by a digest, and releases do not say it at all."""
    digests = fact if isinstance(fact, list) else [fact]
    return bool(digests) and all(isinstance(each, str) and _DIGEST.fullmatch(each) for each in digests)


def _faults(path: Path, known: _Known) -> Iterator[str]:
    facts = known[path]
    if isinstance(facts, ArtefactError):
        yield str(facts)
        return
    for entry, expected in facts.parents.items():
        if entry == "chunks":
            continue
        for parent, digest in _parents(path, facts.kind, entry, expected):
            if parent is None:
                yield str(ArtefactError(path, f"what it was made from is not here ({entry})", _AGAIN))
            elif known.digest(parent) not in (None, digest):
                yield str(ArtefactError(path, f"it was made with other {entry} than {parent}", _AGAIN))
    if chunks := facts.parents.get("chunks"):
        here = {known.digest(chunk) for chunk in path.parent.glob("chunks/*.npz")}
        if None not in here and set(chunks) - here:
            yield str(ArtefactError(path, "it was made with other chunks than those beside it", _AGAIN))


def _parents(path: Path, kind: str, entry: str, expected: Any) -> Iterator[tuple[Path | None, str]]:
    """The files that a fact of an artefact speaks of, None for one that is gone, each with the digest that it had."""
    if entry == "queries_files":  # one for each round so far, the last one beside the artefact, others further up
        folder = path.parent.parent if kind == "chunk" else path.parent
        for digest in reversed(expected):
            file = folder / "queries.npz"
            yield file if file.exists() else None, digest
            folder = folder.parent
        return
    start = path.parent.parent if (kind, entry) in BEFORE else path.parent
    yield _upwards(start, f"{RENAMED.get(entry, entry)}.npz"), expected


def _upwards(folder: Path, name: str) -> Path | None:
    """The file of that name in this folder or in the nearest one above it that has it."""
    return next((each / name for each in (folder, *folder.parents) if (each / name).exists()), None)


command = stage_command(
    run,
    click.argument("place", type=FILE, default="results"),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)
