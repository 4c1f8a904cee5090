"""One way of private data through the stages, and what it leaves behind; `adjacency` compares two of them.

The stages run in this process, in a folder of their own, with the options of the configuration. What is compared is
everything but what speaks of the private data by itself: bytes of public files, facts inside files, names of files,
shards, and votes.
"""

import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from patebench.audit.adjacency import Records, Traces
from patebench.config.artefacts import Data, Ensemble, Options, Round
from patebench.config.run import Run
from patebench.core.files import Artefact, Layout, read_arrays, read_facts, read_json, write_arrays
from patebench.core.formats import CHUNK, PARTITION, SAMPLES, VOTES
from patebench.core.seeds import Mode
from patebench.core.spelling import command_words
from patebench.data.content import records

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
        make_data(data, folder / "given", access)
        private, public = (read_arrays(folder / "given" / f"{role}.npz", SAMPLES) for role in ("private", "public"))
        return cls(data, private, public, folder)

    @property
    def records(self) -> Records:
        return Records(self.private["x"], self.private["y"], self.private["row"])

    def changed(self, ours: Records, name: str) -> Data:
        """Return the same data set read from files of the user's own, with these private records and rows."""
        files = {role: self.folder / f"{name}-{role}.npz" for role in ("private", "public")}
        names, shown = self.public.meta["class_names"], range(int(self.public["y"].max()) + 1)
        # Named only where the labels do not show them, or counting the wrong ones could not be found.
        more: dict[str, Any] = {} if names == list(map(str, shown)) else {"class_names": np.array(names)}
        self.folder.mkdir(parents=True, exist_ok=True)
        np.savez(files["private"], x=ours.x, y=ours.y, row=ours.rows)
        np.savez(files["public"], x=self.public["x"], y=self.public["y"], row=self.public["row"], **more)
        return replace(self.data, loader="npz", sources=tuple((role, str(path)) for role, path in files.items()))


def make_data(data: Data, folder: Path, access: Sequence[str] = ()) -> None:
    """Run the stage `data`, whose files go to `folder`."""
    files = {role: folder / f"{role}.npz" for role in ("private", "public")}
    call("data", data.options(), files, data.dataset, *access)


def call(stage: str, options: Options, files: Mapping[str, Path | Sequence[Path]], *more: str) -> None:
    """Run a command of `patebench` in this process."""
    found = importlib.import_module(f"patebench.stages.{stage}").command
    found.main([*more, *command_words({**options, **files})], standalone_mode=False)


@dataclass(frozen=True)
class Asked:
    """What all ways of an ensemble have in common: its data, its first rounds of queries, and how much is rerun."""

    given: Given
    rounds: Sequence[Round]
    thorough: bool

    @property
    def waiting(self) -> list[Round]:
        """The rounds that need features of the pool, which take long to extract."""
        return [each for each in self.rounds if each.uses_features and not self.thorough]


@dataclass(frozen=True)
class Way:
    """One way through the stages of an ensemble, in a folder of its own; `trained` are the places of chunks.

    `first` is the first round of teachers that vote in each round, and None for others.
    """

    asked: Asked
    ensemble: Ensemble
    first: Round | None
    folder: Path
    trained: set[int] = field(default_factory=set)

    def deal(self, ours: Records) -> Traces:
        """Make the data, the split, the partition and the first queries."""
        data = self.asked.given.changed(ours, "changed")
        make_data(data, self.data("private.npz").parent)
        rounds = [each for each in self.asked.rounds if each not in self.asked.waiting]
        outs = {f"{name}-out": self.split(f"{name}.npz") for name in ("pool", "truth", "test")}
        made = self._make("split", self.split("pool.npz"), {"public": self.data("public.npz")}, outs)
        selections = [each.name for each in (*rounds, *([self.first] if self.first else []))]
        selections += [f"{self.ensemble.split.name}/queries/{slug}" for slug in self.run.selections.get(self.name, [])]
        needed = {f"{each}/queries.npz" for each in selections} | {f"{self.voters}/votes.npz"}
        if needed & self.run.uses_features:
            outs = {"out": self.split("features.npz"), "encoder": self.split("encoder.npz")}
            made += self._make("extract_features", outs["out"], {"pool": self.split("pool.npz")}, outs)
        for each in selections:
            queries = self.folder / each / "queries.npz"
            by_features = f"{each}/queries.npz" in self.run.uses_features
            known = {"features": self.split("features.npz")} if by_features else {}
            made += self._make("select_queries", queries, {"pool": self.split("pool.npz"), **known}, {"out": queries})
        public = data_traces(self.data("private.npz").parent) | {_name(str(path)): _bytes(path) for path in made}
        private = {role: self.data(f"{role}.npz") for role in ("private", "public")}
        self._make("partition", self.partition, private, {"out": self.partition})
        public |= self._facts(self.partition, PARTITION)
        return Traces({**public, _NAMES: self._names()}, self._shards())

    def train(self, places: Sequence[int]) -> None:
        """Train the chunks at `places`, where that was not done yet."""
        read: dict[str, Path | Sequence[Path]] = {"private": self.data("private.npz"), "partition": self.partition}
        read |= {name: self.split(f"{name}.npz") for name in ("pool", "test")}
        if self.ensemble.votes_by_query:
            read |= {name: self.split(f"{name}.npz") for name in ("features", "encoder")}
        selections = [self.split(f"queries/{each}/queries.npz") for each in self.run.selections.get(self.name, [])]
        read["selected"] = [self.folder / self.first.name / "queries.npz"] if self.first else selections
        for place in sorted(set(places) - self.trained):
            self._make("train_teachers", self.chunk(place), read, {"out": self.chunk(place)})
            self.trained.add(place)

    def vote(self, dealt: Traces, places: Sequence[int]) -> Traces:
        """Train the chunks at `places`, and join them with blank ones for all that were never trained."""
        self.train(places)
        everywhere = range(len(self.ensemble.chunks))
        model = read_arrays(self.chunk(places[0]), CHUNK)
        for place in set(everywhere) - self.trained:
            _blank(model, self.numbers(place), self.chunk(place))
        read: dict[str, Path | Sequence[Path]] = {name: self.split(f"{name}.npz") for name in ("pool", "truth", "test")}
        read |= {"partition": self.partition, "chunk": [self.chunk(place) for place in everywhere]}
        outs = {"out": self.votes("votes.npz"), "summary": self.votes("ensemble.json")}
        self._make("join_votes", outs["out"], read, outs)
        votes, summary = read_arrays(outs["out"], VOTES), read_json(outs["summary"], "join_votes")
        public = {**dealt.public, **self._facts(outs["out"], VOTES), **_facts("ensemble.json", summary)}
        for place in places:
            public |= self._facts(self.chunk(place), CHUNK)
        public["the size of votes.npz"] = str(votes.path.stat().st_size)
        rows = [
            *(votes[name] for name in _ROWS if name in votes.arrays),
            np.array(summary["teacher_accuracies"], float),
        ]
        said = {i: _digest(*(row[i] for row in rows)) for place in places for i in self.numbers(place)}
        return Traces({**public, _NAMES: self._names()}, dealt.shards, said)

    # Files, where the workflow has them.

    @cached_property
    def run(self) -> Run:
        """The options of all stages of the ensemble."""
        run = Run("", str(self.folder), "", False, Mode.SEEDED, None, None)
        run.add_ensemble(self.ensemble)
        for each in (*self.asked.rounds, *([self.first] if self.first else [])):
            run.add_round(each)
        return run

    @property
    def name(self) -> str:
        return self.ensemble.name

    @property
    def voters(self) -> str:
        return self.first.name if self.first else self.name

    @property
    def partition(self) -> Path:
        return self.folder / self.name / "partition.npz"

    def data(self, file: str) -> Path:
        return self.folder / self.ensemble.split.data.name / file

    def split(self, file: str) -> Path:
        return self.folder / self.ensemble.split.name / file

    def votes(self, file: str) -> Path:
        return self.folder / self.voters / file

    def chunk(self, place: int) -> Path:
        return self.votes(f"chunks/{self.ensemble.chunks[place]}.npz")

    def numbers(self, place: int) -> range:
        """The teachers of a chunk."""
        first, _, last = self.ensemble.chunks[place].partition("-")
        return range(int(first), int(last) + 1)

    def _make(
        self, stage: str, target: Path, read: Mapping[str, Path | Sequence[Path]], outs: Mapping[str, Path]
    ) -> list[Path]:
        """Run a stage with the options of its target, and return what it made."""
        call(stage, self.run.options[str(target.relative_to(self.folder))], {**read, **outs})
        return list(outs.values())

    def _facts(self, path: Path, layout: Layout) -> dict[str, str]:
        return _facts(_name(str(path)), read_facts(path, layout))

    def _names(self) -> str:
        every = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return "\n".join(sorted(str(path) for path in every if path.name != OWNERS))

    def _shards(self) -> list[str]:
        """A digest of each shard's records, whatever their order."""
        private = read_arrays(self.data("private.npz"), SAMPLES)
        partition = read_arrays(self.partition, PARTITION)
        shards = np.split(partition["indices"], partition["offsets"][1:-1])
        return [records(private["x"][held], private["y"][held]) for held in shards]


def _blank(model: Artefact, teachers: range, path: Path) -> None:
    """A chunk of teachers that all vote for class 0, so that chunks can be joined where not all were trained."""
    numbers = np.array(teachers)
    blank = {
        name: np.zeros((len(numbers), *model[name].shape[1:]), model[name].dtype)
        for name in _ROWS
        if name in model.arrays
    }
    soft = {name: np.zeros_like(model[name]) for name in ("soft",) if name in model.arrays}
    asked = {name: model[name] for name in ("queries",) if name in model.arrays}
    write_arrays(path, CHUNK, {"teachers": numbers, **blank, **soft, **asked}, model.meta)


def data_traces(folder: Path) -> dict[str, str]:
    """What `data` says in public: the public file, and all facts of the private one but its records."""
    private = read_arrays(folder / "private.npz", SAMPLES)
    public = {"public.npz": _bytes(folder / "public.npz"), **_facts("private.npz", private.meta)}
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
