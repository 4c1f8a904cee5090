"""The command `audit --adjacency`: a configuration's own commands, rerun on changed private data.

For the first seed of each experiment and each of its ensembles, in a temporary folder: `data`, `split`, `partition`,
`train_teachers`, `join_votes` and the first round's `select_queries`, once on the data as they are and once on each
changed copy. The commands are the plan's, called in this process. Nothing is released.

Every copy goes through `data` again, as files of the user's own: so a loader or a stage that takes what is public from
private records is found whatever the data set is. `data` numbers the rows anew; here the others keep theirs.
"""

import hashlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    Records,
    Traces,
    World,
    choose,
    compare,
    public_moved,
    refused,
    render,
    shards_moved,
    teachers,
)
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, Layout, read_arrays, read_facts, read_json, write_arrays
from patebench.core.formats import CHUNK, PARTITION, POOL, SAMPLES, VOTES
from patebench.core.progress import progress
from patebench.core.seeds import generator
from patebench.data.content import records
from patebench.data.partitions import NOBODY
from patebench.plan.jobs import (
    Data,
    Ensemble,
    ExtractFeatures,
    File,
    Job,
    JoinVotes,
    Partition,
    SelectQueries,
    TrainTeachers,
)
from patebench.plan.plan import Plan
from patebench.plan.words import words
from patebench.stages.command import FILE, stage_command
from patebench.stages.terminal import show_on_terminal

if TYPE_CHECKING:
    from patebench.config import Config

#: So many neighbouring teachers are trained again together, unless all are: enough to see whether one tells of others.
_TOGETHER = 3

#: Facts that speak of the private data, or are measured with votes; all others are public.
_PRIVATE = {
    *("digest", "private", "records", "samples", "left_out", "partition", "chunks", "votes"),
    *("teacher_accuracies", "plurality_accuracy_pool", "plurality_accuracy_test", "gap_histogram", "gap_mean"),
}

_NAMES = "the names of files"
_OWNERS = "owners.npy"


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


def audit(config: "Config", folder: Path, changes: int = 1, thorough: bool = False) -> Iterator[Audited]:
    """Look at each data set and each ensemble of the first seeds; `changes` of each kind are made."""
    sets: dict[Data, _Given] = {}
    for ensemble, queries in _ensembles(config):
        data = ensemble.split.data
        if data not in sets:
            sets[data] = _Given.load(data, words(config.access_options()), folder / f"data-{len(sets)}")
            yield _audit_data(sets[data])
        runs = folder / "runs"
        yield _audit_ensemble(_Ways.of(_Asked(sets[data], queries, thorough), ensemble, runs), changes)
        shutil.rmtree(runs)


def _ensembles(config: "Config") -> Iterator[tuple[Ensemble, list[SelectQueries]]]:
    """Each ensemble of the first seeds, once, with the first rounds that query it."""
    found: dict[str, tuple[Ensemble, dict[str, SelectQueries]]] = {}
    for experiment in config.experiments:
        first = experiment.accounts[0].labels.ensemble.split.seed
        for labels in (account.labels for account in experiment.accounts):
            if labels.ensemble.split.seed == first:
                _, rounds = found.setdefault(labels.ensemble.folder, (labels.ensemble, {}))
                rounds |= {each.key: each for each in labels.rounds[:1]}
    return ((ensemble, list(rounds.values())) for ensemble, rounds in found.values())


@dataclass(frozen=True)
class _Given:
    """A data set as its own loader gives it, and the folder of all that is made from it here."""

    data: Data
    private: Artefact
    public: Artefact
    folder: Path

    @classmethod
    def load(cls, data: Data, access: Sequence[str], folder: Path) -> "_Given":
        plan = Plan((), str(folder / "given"))
        _call([*plan.command(data), *access])
        private, public = (read_arrays(plan.path(File(data, role)), SAMPLES) for role in ("private", "public"))
        return cls(data, private, public, folder)

    def job(self, x: Any, y: Any, name: str) -> Data:
        """The job that makes the same data set from files of the user's own, with these private records."""
        files = {role: self.folder / f"{name}-{role}.npz" for role in ("private", "public")}
        names, shown = self.public.meta["class_names"], range(int(self.public["y"].max()) + 1)
        # Named only where the labels do not show them, or counting the wrong ones could not be found.
        more: dict[str, Any] = {} if names == list(map(str, shown)) else {"class_names": np.array(names)}
        self.folder.mkdir(parents=True, exist_ok=True)
        np.savez(files["private"], x=x, y=y)
        np.savez(files["public"], x=self.public["x"], y=self.public["y"], **more)
        return replace(self.data, loader="npz", sources=tuple((role, str(path)) for role, path in files.items()))


def _call(command: Sequence[str]) -> None:
    """Run a command of `patebench` here, by its words."""
    found = importlib.import_module(f"patebench.stages.{command[0]}").command
    found.main(list(command[1:]), standalone_mode=False)


# A data set: what its loader says in public.


def _audit_data(given: _Given) -> Audited:
    """Whether the public part of a data set stays where private records are such as no other is."""
    before = _loaded(given, given.data, "as-it-is")
    ours = _loaded(given, given.job(given.private["x"], given.private["y"], "own"), "own")
    if moved := public_moved(before, ours):
        raise PatebenchError(f"{given.data.dataset}: read from files of its own it has another {', '.join(moved)}")
    findings = []
    for kind, what, job in _strange(given):
        try:
            findings.append(compare(kind, what, before, _loaded(given, job, kind), claimed=True))
        except PatebenchError as fault:
            findings.append(refused(kind, what, True, str(fault).replace(f"{given.folder}/", "")))
    return Audited(f"{given.data.dataset}: the data set", {"dataset": given.data.dataset}, [], findings)


def _loaded(given: _Given, job: Data, name: str) -> Traces:
    """What `data` leaves in public."""
    plan = Plan((), str(given.folder / "loaded" / name))
    if job is given.data:
        plan = Plan((), str(given.folder / "given"))
    else:
        _call(plan.command(job))
    return Traces(_data_traces(plan, job))


def _strange(given: _Given) -> Iterator[tuple[str, str, Data]]:
    """Data sets with one private record of a label, a colour or a folder that is not seen in public."""
    rng = generator(0, "adjacency", given.data.dataset)
    y = np.array(given.private["y"])
    at = int(rng.integers(len(y)))
    y[at] = given.public.meta["classes"]
    what = f"record {at} has the label {y[at]}, which is no class"
    yield "new label", what, given.job(given.private["x"], y, "new-label")
    sources = dict(given.data.sources)
    if not Path(sources.get("private", "")).is_dir() or not sources:
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
    base: "_Way"
    dealt: Traces
    world: World
    protects: Sequence[str]

    @classmethod
    def of(cls, asked: "_Asked", ensemble: Ensemble, folder: Path) -> "_Ways":
        """Make what all changes are compared with."""
        size = ensemble.teachers if ensemble.teachers <= 2 * _TOGETHER else _TOGETHER
        chunk = {} if asked.thorough else {"chunk": size}
        ensemble = replace(ensemble, work=ensemble.work.model_copy(update={**chunk, "keep_weights": False}))
        base, given = _Way(asked, ensemble, folder / "as-it-is"), asked.given
        as_they_are = Records(given.private["x"], given.private["y"], given.private["row"])
        dealt = base.deal(as_they_are)
        if (owners := ensemble.partition.owners) is not None:
            as_they_are = replace(as_they_are, owners=np.load(owners, allow_pickle=False))
        partition = read_arrays(base.path(Partition(ensemble).file), PARTITION)
        protects, split = partition.meta["protects"], ensemble.split
        pool, test = read_arrays(base.path(split.pool), POOL)["x"], read_arrays(base.path(split.test), SAMPLES)["x"]
        return cls(ensemble, base, dealt, World(as_they_are, _holders(partition), pool, test, not protects), protects)

    def changed(self, kind: Kind, repeat: int) -> Finding:
        """What one change moves."""
        stream = "adjacency", self.ensemble.folder
        rng = generator(self.ensemble.split.seed, *stream, kind.name, repeat)
        # All kinds change the same record, so that the same teachers are trained on the data as they are.
        at = choose(self.world, repeat, generator(self.ensemble.split.seed, *stream, repeat))
        change, claimed = kind.change(self.world, at, rng), kind.claimed(self.protects)
        folder = self.base.folder.parent / "changed"
        try:
            return compare(kind.name, change.words, *self._compared(change, folder), claimed)
        except PatebenchError as fault:
            return refused(kind.name, change.words, claimed, str(fault).replace(f"{folder}/", ""))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _compared(self, change: Changed, folder: Path) -> tuple[Traces, Traces]:
        """What was left before the change and after it; teachers are trained where that can still tell anything."""
        way = _Way(self.base.asked, self._of(change, folder), folder)
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
        path = folder / _OWNERS
        folder.mkdir(parents=True)
        np.save(path, change.records.owners)
        partition = self.ensemble.partition.model_copy(update={"owners": str(path)})
        return replace(self.ensemble, partition=partition)

    def _places(self, moved: Sequence[int]) -> list[int]:
        """Which chunks are trained: that of the teacher whose shard moved, and one far away; or all of them."""
        chunks = self.ensemble.chunks()
        if self.base.asked.thorough or len(chunks) < 2:
            return list(range(len(chunks)))
        here = (moved[0] if moved else 0) // self.ensemble.work.chunk
        return sorted({here, (here + len(chunks) // 2) % len(chunks)})

    def notes(self) -> list[str]:
        """How it was looked at."""
        numbers = [i for place in sorted(self.base.trained) for i in _numbers(self.ensemble.chunks()[place])]
        left = self.ensemble.teachers - len(numbers)
        found = [
            f"Trained again: {teachers(numbers)}"
            + (f"; the other {left} are not, or with --thorough." if left else ".")
        ]
        if self.base.asked.waiting:
            strategies = ", ".join(sorted({each.parameters.strategy for each in self.base.asked.waiting}))
            found.append(f"Not selected again: {strategies}, which reads the pool alone, or with --thorough.")
        return found


@dataclass(frozen=True)
class _Asked:
    """What all ways of an ensemble have in common: its data, its first rounds of queries, and how much is rerun."""

    given: _Given
    queries: Sequence[SelectQueries]
    thorough: bool

    @property
    def waiting(self) -> list[SelectQueries]:
        """The rounds that need features of the pool, which take long to learn."""
        return [each for each in self.queries if each.uses_features and not self.thorough]


@dataclass(frozen=True)
class _Way:
    """One way through the stages of an ensemble, in a folder of its own; `trained` are the places of chunks."""

    asked: _Asked
    ensemble: Ensemble
    folder: Path
    trained: set[int] = field(default_factory=set)

    def deal(self, ours: Records) -> Traces:
        """Make the data, the split, the partition and the first queries."""
        split, partition = self.ensemble.split, Partition(self.ensemble)
        self._make(self.asked.given.job(ours.x, ours.y, "changed"))
        self._keep_rows(ours)
        queries = [each for each in self.asked.queries if each not in self.asked.waiting]
        features = [ExtractFeatures(split)] if any(each.uses_features for each in queries) else []
        public = _data_traces(self.plan, split.data)
        for job in (split, *features, *queries):
            self._make(job)
            public |= {_name(path): _bytes(Path(path)) for paths in self.plan.made(job).values() for path in paths}
        self._make(partition)
        public |= self._facts(partition.file, PARTITION)
        return Traces({**public, _NAMES: self._names()}, self._shards())

    def vote(self, dealt: Traces, places: Sequence[int]) -> Traces:
        """Train the chunks at `places`, and join them with blank ones for all that were never trained."""
        chunks, joined = self.ensemble.chunks(), JoinVotes(self.ensemble)
        for place in set(places) - self.trained:
            self._make(chunks[place])
        self.trained.update(places)
        model = read_arrays(self.path(chunks[places[0]].file), CHUNK)
        for place in set(range(len(chunks))) - self.trained:
            _blank(model, chunks[place], Path(self.path(chunks[place].file)))
        self._make(joined)
        votes = read_arrays(self.path(joined.file), VOTES)
        summary = read_json(self.path(File(joined, "summary")), "join_votes")
        public = {**dealt.public, **self._facts(joined.file, VOTES), **_facts("ensemble.json", summary)}
        for place in places:
            public |= self._facts(chunks[place].file, CHUNK)
        public["the size of votes.npz"] = str(votes.path.stat().st_size)
        rows = votes["votes"], votes["test_votes"], summary["teacher_accuracies"]
        said = {i: _digest(*(row[i] for row in rows)) for place in places for i in _numbers(chunks[place])}
        return Traces({**public, _NAMES: self._names()}, dealt.shards, said)

    @property
    def plan(self) -> Plan:
        return Plan((), str(self.folder))

    def path(self, file: File) -> str:
        return self.plan.path(file)

    def _make(self, job: Job) -> None:
        _call(self.plan.command(job))

    def _keep_rows(self, ours: Records) -> None:
        """Give the private records the rows that they have, where `data` numbered them anew."""
        path = self.path(File(self.ensemble.split.data, "private"))
        private = read_arrays(path, SAMPLES)
        if not np.array_equal(private["row"], ours.rows):
            write_arrays(path, SAMPLES, {**private.arrays, "row": ours.rows}, private.meta)

    def _facts(self, file: File, layout: Layout) -> dict[str, str]:
        return _facts(_name(self.path(file)), read_facts(self.path(file), layout))

    def _names(self) -> str:
        every = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return "\n".join(sorted(str(path) for path in every if path.name != _OWNERS))

    def _shards(self) -> list[str]:
        """A digest of each shard's records, whatever their order."""
        private = read_arrays(self.path(File(self.ensemble.split.data, "private")), SAMPLES)
        partition = read_arrays(self.path(Partition(self.ensemble).file), PARTITION)
        shards = np.split(partition["indices"], partition["offsets"][1:-1])
        return [records(private["x"][held], private["y"][held]) for held in shards]


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
    return Audited(ways.ensemble.folder, facts, ways.notes(), findings)


def _holders(partition: Artefact) -> Any:
    """The teacher of each private sample."""
    holders = np.full(partition.meta["samples"], NOBODY)
    holders[partition["indices"]] = np.repeat(np.arange(partition.meta["teachers"]), np.diff(partition["offsets"]))
    return holders


def _numbers(chunk: TrainTeachers) -> range:
    """The teachers of a chunk."""
    return range(chunk.first, chunk.last + 1)


def _blank(model: Artefact, chunk: TrainTeachers, path: Path) -> None:
    """A chunk of teachers that all vote for class 0, so that chunks can be joined where not all were trained."""
    numbers = np.array(_numbers(chunk))
    blank = {
        name: np.zeros((len(numbers), *model[name].shape[1:]), model[name].dtype) for name in ("votes", "test_votes")
    }
    soft = {name: np.zeros_like(model[name]) for name in ("soft",) if name in model.arrays}
    write_arrays(path, CHUNK, {"teachers": numbers, **blank, **soft}, model.meta)


def _data_traces(plan: Plan, data: Data) -> dict[str, str]:
    """What `data` says in public: the public file, and all facts of the private one but its records."""
    private = read_arrays(plan.path(File(data, "private")), SAMPLES)
    public = {"public.npz": _bytes(Path(plan.path(File(data, "public")))), **_facts("private.npz", private.meta)}
    return {**public, "the shape of private samples": f"{private['x'].dtype} {private['x'].shape[1:]}"}


def _facts(name: str, facts: Mapping[str, Any]) -> dict[str, str]:
    """The public facts of a file."""
    return {f"{fact} in {name}": json.dumps(facts[fact], sort_keys=True) for fact in facts if fact not in _PRIVATE}


def _name(path: str) -> str:
    """What a file is called in a sentence: of queries, with their round."""
    return "/".join(Path(path).parts[-2:]) if Path(path).parent.name.startswith("round-") else Path(path).name


def _bytes(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(*parts: Any) -> str:
    state = hashlib.sha256()
    for part in parts:
        state.update(np.ascontiguousarray(part).tobytes())
    return state.hexdigest()


command = stage_command(
    run,
    click.option("--adjacency", type=FILE, required=True, metavar="CONFIG", help="The configuration to rerun."),
    click.option("--changes", type=click.IntRange(min=1), default=1, show_default=True, help="Changes of each kind."),
    click.option("--thorough", is_flag=True, help="Train every teacher again, in the configuration's own chunks."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)  # fmt: skip
command.name = "audit"
