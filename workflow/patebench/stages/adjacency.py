"""The command `audit --adjacency`: a configuration's own stages, rerun on changed private data.

For the first seed of each experiment and each of its ensembles, in a temporary folder: `data`, `split`, `partition`,
`train_teachers`, `join_votes` and the first round's `select_queries`, once on the data as they are and once on each
changed copy. Nothing is released.

Every copy goes through `data` again, as files of the user's own: so a loader or a stage that takes what is public from
private records is found whatever the data set is. The files say the rows, so the others keep theirs.
"""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from patebench.audit.adjacency import (
    KINDS,
    Audited,
    Changed,
    Finding,
    Kind,
    Traces,
    World,
    choose,
    choose_of_first,
    choose_of_smallest,
    compare,
    public_moved,
    refused,
    render,
    shards_moved,
    teachers,
)
from patebench.cli.command import FILE, stage_command
from patebench.cli.terminal import show_on_terminal
from patebench.config.artefacts import Data, Ensemble, Round
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays
from patebench.core.formats import PARTITION, POOL, SAMPLES
from patebench.core.progress import progress
from patebench.core.seeds import generator
from patebench.data.partitions import NOBODY
from patebench.stages.adjacency_way import OWNERS, Asked, Given, Way, data_traces, make_data

if TYPE_CHECKING:
    from patebench.config.run import Run

#: So many neighbouring teachers are trained again together, unless all are: enough to see whether one tells of others.
_TOGETHER = 3


def run(*, adjacency: Path, changes: int, thorough: bool, as_json: bool) -> None:
    """Rerun the stages of the configuration CONFIG on changed private data, and say what moves.

    One record or one shard is changed; one row of votes may then differ, and nothing that is public. Exit status 1 if
    more moves than the partition claims. The first seed of each experiment is looked at; nothing is kept or released.
    """
    from patebench.config import load, validate

    config = validate(load(adjacency))
    with TemporaryDirectory(prefix="patebench-adjacency-") as folder:
        found = list(audit(config, Path(folder), changes, thorough))
    if as_json:
        click.echo(json.dumps({"config": str(adjacency), "audited": [each.to_json() for each in found]}, indent=1))
    else:
        show_on_terminal(render(found))
    sys.exit(1 if any(each.violated for each in found) else 0)


def audit(config: "Run", folder: Path, changes: int = 1, thorough: bool = False) -> Iterator[Audited]:
    """Look at each data set and each ensemble of the first seeds; `changes` of each kind are made."""
    sets: dict[Data, Given] = {}
    for ensemble, first, rounds in _ensembles(config):
        data = ensemble.split.data
        if data not in sets:
            access = shlex.split(config.access_options())
            sets[data] = Given.load(data, access, folder / f"data-{len(sets)}")
            yield _audit_data(sets[data])
        runs = folder / "runs"
        yield _audit_ensemble(_Ways.of(Asked(sets[data], rounds, thorough), ensemble, first, runs), changes)
        shutil.rmtree(runs)


def _ensembles(config: "Run") -> Iterator[tuple[Ensemble, Round | None, list[Round]]]:
    """Yield each ensemble of the first seeds, once, with the first rounds that query it.

    One that votes in each round is there once for each selection of first queries, whatever their noise.
    """
    found: dict[tuple[str, str], tuple[Ensemble, Round | None, dict[str, Round]]] = {}
    for experiment in config.experiments:
        asked = [(labels.ensemble, labels.round) for labels in experiment.label_sets]
        asked += [(ensemble, None) for ensemble in experiment.ensembles]
        for ensemble, each in asked:
            first = each.rounds[0] if each else None
            if ensemble.split.seed == asked[0][0].split.seed:
                voting = first if ensemble.votes_in_rounds else None
                if ensemble.votes_in_rounds and voting is None:
                    continue
                selected = voting.selection.slug if voting else ""
                *_, rounds = found.setdefault((ensemble.name, selected), (ensemble, voting, {}))
                rounds |= {first.name: first} if first and not voting else {}
    return ((ensemble, voting, list(rounds.values())) for ensemble, voting, rounds in found.values())


# A data set: what its loader says in public.


def _audit_data(given: Given) -> Audited:
    """Whether the public part of a data set stays where private records are such as no other is."""
    before = Traces(data_traces(given.folder / "given"))
    ours = _loaded(given, given.changed(given.records, "own"), "own")
    if moved := public_moved(before, ours):
        raise PatebenchError(f"{given.data.dataset}: read from files of its own it has another {', '.join(moved)}")
    findings = []
    for kind, what, job in _strange(given):
        try:
            findings.append(compare(kind, what, before, _loaded(given, job, kind), claimed=True))
        except PatebenchError as fault:
            findings.append(refused(kind, what, False, str(fault).replace(f"{given.folder}/", "")))
    return Audited(f"{given.data.dataset}: the data set", {"dataset": given.data.dataset}, [], findings)


def _loaded(given: Given, job: Data, name: str) -> Traces:
    """What `data` leaves in public."""
    folder = given.folder / "loaded" / name
    make_data(job, folder)
    return Traces(data_traces(folder))


def _strange(given: Given) -> Iterator[tuple[str, str, Data]]:
    """Data sets with one private record of a label, a colour or a folder that is not seen in public."""
    rng = generator(0, "adjacency", given.data.dataset)
    ours = given.records
    y = np.array(ours.y)
    at = int(rng.integers(len(y)))
    y[at] = given.public.meta["classes"]
    what = f"record {at} has the label {y[at]}, which is no class"
    yield "new label", what, given.changed(replace(ours, y=y), "new-label")
    sources = dict(given.data.sources)
    if "private" not in sources or not Path(sources["private"]).is_dir():
        return
    for kind, what, change in (
        ("new colour", "one image has colours", _paint),
        ("new folder", "one image is in a folder of its own", _move),
    ):
        copy = given.folder / kind.replace(" ", "-")
        shutil.copytree(
            sources["private"], copy, copy_function=lambda source, to: os.symlink(Path(source).resolve(), to)
        )
        change(_first_image(copy), rng)
        yield kind, what, replace(given.data, sources=tuple({**sources, "private": str(copy)}.items()))


def _first_image(folder: Path) -> Path:
    from patebench.data.folder import SUFFIXES

    return min(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)


def _paint(image: Path, rng: np.random.Generator) -> None:
    from PIL import Image

    with Image.open(image) as opened:
        width, height = opened.size
    image.unlink()  # a link to the user's own
    Image.fromarray(rng.integers(0, 256, (height, width, 3)).astype(np.uint8)).save(image.with_suffix(".png"))


def _move(image: Path, rng: np.random.Generator) -> None:
    other = image.parent.parent / "a class of its own"
    other.mkdir()
    image.rename(other / image.name)


# An ensemble: every way through its stages.


@dataclass(frozen=True)
class _Ways:
    """The ways through the stages of one ensemble: on the data as they are, and on changed ones."""

    ensemble: Ensemble
    base: Way
    dealt: Traces
    world: World
    protects: Sequence[str]

    @classmethod
    def of(cls, asked: Asked, ensemble: Ensemble, first: Round | None, folder: Path) -> "_Ways":
        """Make what all changes are compared with."""
        size = ensemble.teachers if ensemble.teachers <= 2 * _TOGETHER else _TOGETHER
        chunk = {} if asked.thorough else {"chunk": size}
        ensemble = replace(ensemble, work=ensemble.work.model_copy(update={**chunk, "keep_weights": False}))
        first = first and replace(first, ensemble=ensemble)  # the same votes, in other chunks
        base, given = Way(asked, ensemble, first, folder / "as-it-is"), asked.given
        as_they_are = given.records
        dealt = base.deal(as_they_are)
        if (owners := ensemble.partition.owners) is not None:
            as_they_are = replace(as_they_are, owners=np.load(owners, allow_pickle=False))
        partition = read_arrays(base.partition, PARTITION)
        protects = partition.meta["protects"]
        pool, test = read_arrays(base.split("pool.npz"), POOL)["x"], read_arrays(base.split("test.npz"), SAMPLES)["x"]
        return cls(ensemble, base, dealt, World(as_they_are, _holders(partition), pool, test, not protects), protects)

    def changed(self, kind: Kind, repeat: int) -> Finding:
        """What one change moves."""
        stream = "adjacency", self.base.voters
        rng = generator(self.ensemble.split.seed, *stream, kind.name, repeat)
        # Most kinds change the same record, so that the same teachers are trained on the data as they are.
        at = choose(self.world, repeat, generator(self.ensemble.split.seed, *stream, repeat))
        at = choose_of_smallest(self.world, at, rng) if kind.of_smallest else at
        at = choose_of_first(self.world, at, self.ensemble.work.chunk) if kind.of_first else at
        self.base.train(self._places([int(self.world.holders[at])]))
        change, claimed = kind.change(self.world, at, rng), kind.claimed(self.protects)
        folder = self.base.folder.parent / "changed"
        try:
            return compare(kind.name, change.words, *self._compared(change, folder), claimed)
        except Exception as fault:  # whatever ends the run: that there is no release depends on the change
            words = str(fault) if isinstance(fault, PatebenchError) else f"{type(fault).__name__}: {fault}"
            return refused(kind.name, change.words, claimed, " ".join(words.replace(f"{folder}/", "").split()))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _compared(self, change: Changed, folder: Path) -> tuple[Traces, Traces]:
        """What was left before the change and after it; teachers are trained where that can still tell anything."""
        way = Way(self.base.asked, self._of(change, folder), self.base.first, folder)
        dealt = way.deal(change.records)
        shards = shards_moved(self.dealt, dealt)
        if public_moved(self.dealt, dealt) or len(shards) > 1:
            return self.dealt, dealt
        places = self._places(shards)
        return self.base.vote(self.dealt, places), way.vote(dealt, places)

    def _of(self, change: Changed, folder: Path) -> Ensemble:
        """The ensemble, with the owners of the changed records."""
        if change.records.owners is None:
            return self.ensemble
        path = folder / OWNERS
        folder.mkdir(parents=True)
        np.save(path, change.records.owners)
        partition = self.ensemble.partition.model_copy(update={"owners": str(path)})
        return replace(self.ensemble, partition=partition)

    def _places(self, moved: Sequence[int]) -> list[int]:
        """Which chunks are trained: that of the teacher whose shard moved, and one far away; or all of them."""
        chunks = self.ensemble.chunks
        if self.base.asked.thorough or len(chunks) < 2:
            return list(range(len(chunks)))
        here = (moved[0] if moved else 0) // self.ensemble.work.chunk
        return sorted({here, (here + len(chunks) // 2) % len(chunks)})

    def notes(self) -> list[str]:
        """How it was looked at."""
        numbers = [i for place in sorted(self.base.trained) for i in self.base.numbers(place)]
        left = self.ensemble.teachers - len(numbers)
        found = [f"Trained again: {teachers(numbers)}{f'; --thorough trains the other {left} too' if left else ''}."]
        if waiting := self.base.asked.waiting:
            strategies = ", ".join(sorted({each.selection.strategy for each in waiting}))
            found.append(f"Not selected again: {strategies}, which reads the pool alone; --thorough does so.")
        return found


def _audit_ensemble(ways: _Ways, changes: int) -> Audited:
    kinds = [kind for kind in KINDS if not kind.needs_owners or ways.world.records.owners is not None]
    todo = [(kind, repeat) for repeat in range(changes) for kind in kinds]
    findings: list[Finding] = []
    with progress(f"{ways.ensemble.slug}: changed data", len(todo), "changes") as done:
        for kind, repeat in todo:
            findings.append(ways.changed(kind, repeat))
            done(len(findings))
    ensemble = ways.ensemble
    dealt = {"partition": ensemble.partition.slug, "protects": list(ways.protects)}
    facts = {"dataset": ensemble.split.data.dataset, "teachers": ensemble.teachers, **dealt}
    return Audited(ways.base.voters, facts, ways.notes(), findings)


def _holders(partition: Artefact) -> Any:
    """The teacher of each private sample."""
    holders = np.full(partition.meta["samples"], NOBODY)
    holders[partition["indices"]] = np.repeat(np.arange(partition.meta["teachers"]), np.diff(partition["offsets"]))
    return holders


command = stage_command(
    run,
    click.option("--adjacency", type=FILE, required=True, metavar="CONFIG", help="The configuration to rerun."),
    click.option("--changes", type=click.IntRange(min=1), default=1, show_default=True, help="Changes of each kind."),
    click.option("--thorough", is_flag=True, help="Train every teacher again, in the configuration's own chunks."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)  # fmt: skip
command.name = "audit"
