"""One way of private data through the stages, and what it leaves behind; `adjacency` compares two of them.

The commands are the plan's, called in this process, in a folder of its own. What is compared is everything but what
speaks of the private data by itself: bytes of public files, facts inside files, names of files, shards, and votes.
"""

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from patebench.audit.adjacency import Records, Traces
from patebench.core.files import Artefact, Layout, read_arrays, read_facts, read_json, write_arrays
from patebench.core.formats import CHUNK, PARTITION, SAMPLES, VOTES
from patebench.data.content import records
from patebench.models import on_queries
from patebench.plan.jobs import (
    Data,
    Ensemble,
    ExtractFeatures,
    File,
    Job,
    JoinVotes,
    SelectQueries,
    TrainTeachers,
)
from patebench.plan.plan import Plan

#: Facts that speak of the private data, or are measured with votes; all others are public.
_PRIVATE = {
    *("digest", "private", "records", "samples", "left_out", "partition", "chunks", "votes"),
    *("teacher_accuracies", "plurality_accuracy_pool", "plurality_accuracy_test", "gap_histogram", "gap_mean"),
}

_NAMES = "the names of files"

#: The arrays of votes, a row for each teacher; teachers that vote on queries alone lack the second.
_ROWS = ("votes", "test_votes")

#: The file of the owners of changed records.
OWNERS = "owners.npy"


@dataclass(frozen=True)
class Given:
    """A data set as its own loader gives it, and the folder of all that is made from it here."""

    data: Data
    private: Artefact
    public: Artefact
    folder: Path

    @classmethod
    def load(cls, data: Data, access: Sequence[str], folder: Path) -> "Given":
        plan = _given(folder)
        call([*plan.command(data), *access])
        private, public = (read_arrays(plan.path(File(data, role)), SAMPLES) for role in ("private", "public"))
        return cls(data, private, public, folder)

    @property
    def plan(self) -> Plan:
        return _given(self.folder)

    @property
    def records(self) -> Records:
        return Records(self.private["x"], self.private["y"], self.private["row"])

    def job(self, ours: Records, name: str) -> Data:
        """The job that makes the same data set from files of the user's own, with these private records and rows."""
        files = {role: self.folder / f"{name}-{role}.npz" for role in ("private", "public")}
        names, shown = self.public.meta["class_names"], range(int(self.public["y"].max()) + 1)
        # Named only where the labels do not show them, or counting the wrong ones could not be found.
        more: dict[str, Any] = {} if names == list(map(str, shown)) else {"class_names": np.array(names)}
        self.folder.mkdir(parents=True, exist_ok=True)
        np.savez(files["private"], x=ours.x, y=ours.y, row=ours.rows)
        np.savez(files["public"], x=self.public["x"], y=self.public["y"], row=self.public["row"], **more)
        return replace(self.data, loader="npz", sources=tuple((role, str(path)) for role, path in files.items()))


def _given(folder: Path) -> Plan:
    return Plan((), str(folder / "given"))


def call(command: Sequence[str]) -> None:
    """Run a command of `patebench` here, by its words."""
    found = importlib.import_module(f"patebench.stages.{command[0]}").command
    found.main(list(command[1:]), standalone_mode=False)


@dataclass(frozen=True)
class Asked:
    """What all ways of an ensemble have in common: its data, its first rounds of queries, and how much is rerun."""

    given: Given
    queries: Sequence[SelectQueries]
    thorough: bool

    @property
    def waiting(self) -> list[SelectQueries]:
        """The rounds that need features of the pool, which take long to learn."""
        return [each for each in self.queries if each.uses_features and not self.thorough]


@dataclass(frozen=True)
class Way:
    """One way through the stages of an ensemble, in a folder of its own; `trained` are the places of chunks."""

    asked: Asked
    ensemble: Ensemble
    folder: Path
    trained: set[int] = field(default_factory=set)

    def deal(self, ours: Records) -> Traces:
        """Make the data, the split, the partition and the first queries."""
        split, partition = self.ensemble.split, self.ensemble.dealt
        self._make(self.asked.given.job(ours, "changed"))
        queries = [each for each in self.asked.queries if each not in self.asked.waiting]
        asked = self.ensemble.asked
        featured = asked or on_queries(self.ensemble.training.model) or any(each.uses_features for each in queries)
        features = [ExtractFeatures(split)] if featured else []
        public = data_traces(self.plan, split.data)
        for job in (split, *features, *asked, *queries):
            self._make(job)
            public |= {_name(path): _bytes(Path(path)) for paths in self.plan.made(job).values() for path in paths}
        self._make(partition)
        public |= self._facts(partition.file, PARTITION)
        return Traces({**public, _NAMES: self._names()}, self._shards())

    def train(self, places: Sequence[int]) -> None:
        """Train the chunks at `places`, where that was not done yet."""
        chunks = self.ensemble.chunks()
        for place in sorted(set(places) - self.trained):
            self._make(chunks[place])
            self.trained.add(place)

    def vote(self, dealt: Traces, places: Sequence[int]) -> Traces:
        """Train the chunks at `places`, and join them with blank ones for all that were never trained."""
        self.train(places)
        chunks, joined = self.ensemble.chunks(), JoinVotes(self.ensemble)
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
        rows = [
            *(votes[name] for name in _ROWS if name in votes.arrays),
            np.array(summary["teacher_accuracies"], float),
        ]
        said = {i: _digest(*(row[i] for row in rows)) for place in places for i in numbers_of(chunks[place])}
        return Traces({**public, _NAMES: self._names()}, dealt.shards, said)

    @property
    def plan(self) -> Plan:
        return Plan((), str(self.folder))

    def path(self, file: File) -> str:
        return self.plan.path(file)

    def _make(self, job: Job) -> None:
        call(self.plan.command(job))

    def _facts(self, file: File, layout: Layout) -> dict[str, str]:
        return _facts(_name(self.path(file)), read_facts(self.path(file), layout))

    def _names(self) -> str:
        every = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return "\n".join(sorted(str(path) for path in every if path.name != OWNERS))

    def _shards(self) -> list[str]:
        """A digest of each shard's records, whatever their order."""
        private = read_arrays(self.path(File(self.ensemble.split.data, "private")), SAMPLES)
        partition = read_arrays(self.path(self.ensemble.dealt.file), PARTITION)
        shards = np.split(partition["indices"], partition["offsets"][1:-1])
        return [records(private["x"][held], private["y"][held]) for held in shards]


def numbers_of(chunk: TrainTeachers) -> range:
    """The teachers of a chunk."""
    return range(chunk.first, chunk.last + 1)


def _blank(model: Artefact, chunk: TrainTeachers, path: Path) -> None:
    """A chunk of teachers that all vote for class 0, so that chunks can be joined where not all were trained."""
    numbers = np.array(numbers_of(chunk))
    blank = {
        name: np.zeros((len(numbers), *model[name].shape[1:]), model[name].dtype)
        for name in _ROWS
        if name in model.arrays
    }
    soft = {name: np.zeros_like(model[name]) for name in ("soft",) if name in model.arrays}
    asked = {name: model[name] for name in ("queries",) if name in model.arrays}
    write_arrays(path, CHUNK, {"teachers": numbers, **blank, **soft, **asked}, model.meta)


def data_traces(plan: Plan, data: Data) -> dict[str, str]:
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
