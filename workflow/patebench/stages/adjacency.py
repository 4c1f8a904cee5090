"""Command `audit --adjacency`: rerun the stages of a configuration on changed private data.

For the first seed of each experiment and each of its ensembles, the stages `data`, `split`, `partition`,
`train_teachers`, `join_votes` and the first round's `select_queries` run in this process, in a temporary folder: once
on the unchanged data and once on each changed copy. Nothing is released. Each copy is loaded by `data` as the user's
own files with row numbers. This detects a loader that derives public facts from private records, for any data set.
"""

import hashlib
import importlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from patebench.audit import adjacent_data
from patebench.audit.adjacent_data import KINDS, AuditedData, ChangeFinding, Records, Traces, World
from patebench.cli.command import FILE, stage_command
from patebench.cli.terminal import show_on_terminal
from patebench.config.artefacts import Data, Ensemble, Round
from patebench.config.run import Run
from patebench.core.class_accuracy import BESIDE_ACCURACY
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays, read_facts, read_json, write_arrays
from patebench.core.formats import CHUNK, PARTITION, POOL, SAMPLES, VOTES
from patebench.core.progress import progress
from patebench.core.seeds import Mode, generator
from patebench.core.spelling import command_words
from patebench.data.declaration import TableDeclaration
from patebench.data.division import records
from patebench.data.own_table import expanded, public_by_hash, read_frame
from patebench.data.partitions import NOBODY

#: Number of neighbouring teachers that are retrained together, unless all are retrained.
_TOGETHER = 3

#: Metadata that depends on the private data or on votes; all other metadata is public.
_PRIVATE = {
    *("digest", "private", "records", "samples", "left_out", "partition", "chunks", "votes"),
    *("teacher_accuracies", "gap_histogram", "gap_mean"),
    *(f"plurality_{what}_{on}" for what in ("accuracy", *BESIDE_ACCURACY) for on in ("pool", "test")),
}

#: Files with private arrays and public metadata; every other file is public.
_LAYOUTS = {"private.npz": SAMPLES, "partition.npz": PARTITION, "votes.npz": VOTES}

#: Arrays of votes with one row per teacher; the second is missing if teachers vote only on queries.
_ROWS = ("votes", "test_votes")

_OWNERS = "owners.npy"


def run(*, adjacency: Path, changes: int, thorough: bool, as_json: bool) -> None:
    """Rerun the stages of the configuration CONFIG on changed private data, and report every difference.

    Each change concerns one record or one shard. Then at most one row of votes may differ, and no public output. The
    exit status is 1 if more differs than the partition claims. Only the first seed of each experiment is audited, and
    nothing is stored or released.
    """
    from patebench.config import load, validate

    config = validate(load(adjacency))
    with TemporaryDirectory(prefix="patebench-adjacency-") as folder:
        audited = list(audit(config, Path(folder), changes, thorough))
    if as_json:
        click.echo(json.dumps({"config": str(adjacency), "audited": [data.to_json() for data in audited]}, indent=1))
    else:
        show_on_terminal(adjacent_data.render(audited))
    sys.exit(1 if any(data.violations for data in audited) else 0)


def audit(config: Run, folder: Path, changes: int = 1, thorough: bool = False) -> Iterator[AuditedData]:
    """Audit each data set and each ensemble of the first seeds, with `changes` changes of each kind."""
    sets: dict[Data, DataSet] = {}
    for ensemble, voting, rounds in _ensembles(config):
        data = ensemble.split.data
        if data not in sets:
            sets[data] = DataSet.load(data, shlex.split(config.access_options()), folder / f"data-{len(sets)}")
            yield sets[data].audit()
        yield Comparison(sets[data], ensemble, voting, rounds, folder / "runs", thorough).audit(changes)
        shutil.rmtree(folder / "runs")


def _ensembles(config: Run) -> Iterator[tuple[Ensemble, Round | None, list[Round]]]:
    """Yield each ensemble of the first seeds once, with the round in which it votes and the first rounds that query it.

    An ensemble that votes in each round is yielded once for each selection of first queries, not once per noise
    setting.
    """
    ensembles: dict[tuple[str, str], tuple[Ensemble, Round | None, dict[str, Round]]] = {}
    for experiment in config.experiments:
        uses = [(labels.ensemble, labels.round) for labels in experiment.label_sets]
        uses += [(ensemble, None) for ensemble in experiment.ensembles]
        for ensemble, last in uses:
            first = last.rounds[0] if last else None
            voting = first if ensemble.votes_in_rounds else None
            if ensemble.split.seed != uses[0][0].split.seed or (ensemble.votes_in_rounds and voting is None):
                continue
            selected = voting.selection.slug if voting else ""
            *_, rounds = ensembles.setdefault((ensemble.name, selected), (ensemble, voting, {}))
            rounds |= {first.name: first} if first and not voting else {}
    return ((ensemble, voting, list(rounds.values())) for ensemble, voting, rounds in ensembles.values())


def _call(stage: str, options: Mapping[str, Any], *more: str) -> None:
    """Run the command of a stage in this process."""
    importlib.import_module(f"patebench.stages.{stage}").command.main(
        [*more, *command_words(options)], standalone_mode=False
    )


def _make_data(data: Data, folder: Path, *access: str) -> Traces:
    """Run the stage `data` with its output in `folder`, and return the public traces."""
    files = {role: folder / f"{role}.npz" for role in ("private", "public")}
    _call("data", {**data.options(), **files}, data.name, *access)
    return _public_traces(folder)


def _public_traces(folder: Path, chunks: Collection[Path] = ()) -> Traces:
    """Return the public traces in `folder`: file names, digests of public files and metadata of private files.

    Only the chunks of teachers in `chunks` are included.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _OWNERS)
    public = {"the names of files": "\n".join(str(path.relative_to(folder)) for path in files)}
    for path in files:
        name = "/".join(path.parts[-2:]) if path.parent.name.startswith("round-") else path.name
        facts: dict[str, Any] = {}
        if path.name == "ensemble.json":
            facts = read_json(path, "join_votes")
        elif path.name in _LAYOUTS or path in chunks:
            facts = read_facts(path, _LAYOUTS.get(path.name, CHUNK))
        elif path.parent.name != "chunks":
            public[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        public |= {f"{fact} in {name}": json.dumps(facts[fact], sort_keys=True) for fact in facts.keys() - _PRIVATE}
        if path.name == "private.npz":
            x = read_arrays(path, SAMPLES)["x"]
            public["the shape of private samples"] = f"{x.dtype} {x.shape[1:]}"
    return Traces(public)


@dataclass(frozen=True)
class DataSet:
    """Data set as loaded by its own loader, with its public traces and the folder of derived files."""

    data: Data
    folder: Path
    given: Traces
    private: Artefact
    public: Artefact

    @classmethod
    def load(cls, data: Data, access: Sequence[str], folder: Path) -> "DataSet":
        given = _make_data(data, folder / "given", *access)
        return cls(data, folder, given, *(_samples(folder / "given", role) for role in ("private", "public")))

    def changed(self, ours: Records, name: str) -> Data:
        """Return the same data set as the user's own files, with the private records `ours`."""
        names, shown = self.public.meta["class_names"], range(int(self.public["y"].max()) + 1)
        # State the names only if the labels do not show them, so that a wrong number of classes is detected.
        named = {} if names == list(map(str, shown)) else {"class_names": np.array(names)}
        files = {role: str(self.folder / f"{name}-{role}.npz") for role in ("private", "public")}
        private: dict[str, Any] = {column: ours[column] for column in self.private.arrays}
        public: dict[str, Any] = {**self.public.arrays, **named}
        np.savez(files["private"], **private)
        np.savez(files["public"], **public)
        return replace(self.data, loader="npz", sources=tuple(files.items()), declared=())

    def audit(self) -> AuditedData:
        """Check that public outputs do not change when a private record is unlike all others."""
        own, findings = _make_data(self.changed(self.private.arrays, "own"), self.folder / "own"), []
        if moved := self.given.public_moved(own):
            raise PatebenchError(f"{self.data.name}: read from its own copy, it differs in {', '.join(moved)}")
        for kind, what, data in self._unseen():
            try:
                after = _make_data(data, self.folder / "loaded" / kind)
                findings.append(adjacent_data.compare(kind, what, self.given, after, claimed=True))
            except PatebenchError as fault:
                why = str(fault).replace(f"{self.folder}/", "")
                findings.append(adjacent_data.refused(kind, what, False, why))
        return AuditedData(f"{self.data.name}: the data set", {"dataset": self.data.name}, [], findings)

    def _unseen(self) -> Iterator[tuple[str, str, Data]]:
        """Yield data sets in which one private record has a label, colour or folder that is not in the public data."""
        from patebench.data.folder import SUFFIXES

        rng, y = generator(0, "adjacency", self.data.name), np.array(self.private["y"])
        at = int(rng.integers(len(y)))
        y[at] = self.public.meta["classes"]
        what = f"record {at} has the label {y[at]}, which is no class"
        yield "new label", what, self.changed({**self.private.arrays, "y": y}, "new-label")
        sources = dict(self.data.sources)
        if self.data.loader == "table":
            yield from self._unseen_values(sources)
        if not Path(sources.get("private", os.devnull)).is_dir():
            return
        for name, what in (("colour", "one image has colours"), ("folder", "one image is in a folder of its own")):
            copy = self.folder / f"new-{name}"
            shutil.copytree(Path(sources["private"]).resolve(), copy, copy_function=os.symlink)
            image = min(path for path in copy.rglob("*") if path.suffix.lower() in SUFFIXES)
            if name == "colour":
                _paint(image, rng)
            else:
                (folder := image.parent.parent / "a class of its own").mkdir()
                image.rename(folder / image.name)
            yield f"new {name}", what, replace(self.data, sources=tuple({**sources, "private": str(copy)}.items()))

    def _unseen_values(self, sources: Mapping[str, str]) -> Iterator[tuple[str, str, Data]]:
        """Yield the table with one private record whose values occur in no other record."""
        declared = TableDeclaration.read(dict(self.data.declared)["table"], "table")
        path = Path(sources["private"])
        frame = read_frame(path, declared.missing_values).astype(object)
        declared = expanded(declared, frame, path)
        private = np.ones(len(frame), bool)
        if declared.public_share is not None:
            if declared.owner is None:
                return  # a changed record might become public, as a hash of the record decides
            private = ~public_by_hash(frame, declared.owner, declared.public_share)
        at = int(np.flatnonzero(private)[0])
        for name, feature in declared.features.items():
            unseen = "1e6" if feature.number else "1900-01-01" if feature.date else "a value of its own"
            frame.loc[frame.index[at], name] = unseen
        changed = self.folder / "new-values.csv"
        frame.to_csv(changed, index=False, na_rep=declared.missing_values[0] if declared.missing_values else "")
        what = f"record {at + 1} of {path} has values that no other record has"
        yield "new values", what, replace(self.data, sources=tuple({**sources, "private": str(changed)}.items()))


def _samples(folder: Path, role: str) -> Artefact:
    return read_arrays(folder / f"{role}.npz", SAMPLES)


def _paint(image: Path, rng: np.random.Generator) -> None:
    """Replace a link to an image by an image of the same size with random colours."""
    from PIL import Image

    with Image.open(image) as opened:
        width, height = opened.size
    image.unlink()
    Image.fromarray(rng.integers(0, 256, (height, width, 3)).astype(np.uint8)).save(image.with_suffix(".png"))


@dataclass(frozen=True)
class Way:
    """Run of an ensemble's stages in a separate folder.

    `voting` is the first round if the teachers vote in each round, else None. `rounds` are the first rounds for which
    queries are selected. `trained` are the positions of the chunks that were trained.
    """

    data: DataSet
    ensemble: Ensemble
    voting: Round | None
    rounds: Sequence[Round]
    folder: Path
    trained: set[int] = field(default_factory=set)

    @cached_property
    def run(self) -> Run:
        """Return a run with the options of all stages of the ensemble."""
        run = Run("", str(self.folder), "", False, Mode.SEEDED, None, None)
        run.add_ensemble(self.ensemble)
        for first in self.first_rounds:
            run.add_round(first)
        return run

    @property
    def first_rounds(self) -> list[Round]:
        return [*self.rounds, *([self.voting] if self.voting else [])]

    @property
    def voters(self) -> str:
        return self.voting.name if self.voting else self.ensemble.name

    @property
    def selected(self) -> list[Path]:
        """Return the files of queries that are selected before any teacher votes."""
        slugs = self.run.selections.get(self.ensemble.name, [])
        return [self.folder / self.ensemble.split.name / "queries" / slug / "queries.npz" for slug in slugs]

    @cached_property
    def files(self) -> dict[str, Path]:
        """Return the files of the stages, by the option that reads them."""
        split = self.ensemble.split
        folders = dict.fromkeys(("pool", "truth", "test", "features", "encoder"), split.name)
        folders |= {"private": split.data.name, "public": split.data.name}
        folders |= {"partition": self.ensemble.name, "votes": self.voters}
        return {name: self.folder / folder / f"{name}.npz" for name, folder in folders.items()}

    def chunk(self, place: int) -> Path:
        return self.folder / self.voters / "chunks" / f"{self.ensemble.chunks[place]}.npz"

    def numbers(self, place: int) -> range:
        """Return the numbers of the teachers of a chunk."""
        first, _, last = self.ensemble.chunks[place].partition("-")
        return range(int(first), int(last) + 1)

    def _make(self, stage: str, inputs: str, outs: Mapping[str, Path], **more: Any) -> None:
        """Run a stage with the options of its first output and with the files named in `inputs`."""
        options = self.run.options[str(next(iter(outs.values())).relative_to(self.folder))]
        _call(stage, {**options, **{name: self.files[name] for name in inputs.split()}, **more, **outs})

    def deal(self, ours: Records) -> Traces:
        """Make data, split, first queries and partition from the private records `ours`."""
        files = self.files
        _make_data(self.data.changed(ours, "changed"), files["private"].parent)
        self._make("split", "public", {f"{name}-out": files[name] for name in ("pool", "truth", "test")})
        queries = [*(self.folder / first.name / "queries.npz" for first in self.first_rounds), *self.selected]
        by_features = {self.folder / file for file in self.run.uses_features}
        if by_features & {*queries, files["votes"]}:
            self._make("extract_features", "pool", {"out": files["features"], "encoder": files["encoder"]})
        for path in queries:
            self._make("select_queries", "pool features" if path in by_features else "pool", {"out": path})
        self._make("partition", "private public", {"out": files["partition"]})
        private, partition = _samples(files["private"].parent, "private"), read_arrays(files["partition"], PARTITION)
        shards = np.split(partition["indices"], partition["offsets"][1:-1])
        public = _public_traces(self.folder).public
        return Traces(public, [records(private["x"][held], private["y"][held]) for held in shards])

    def train(self, places: Collection[int]) -> None:
        """Train the chunks at `places`, except those already trained."""
        inputs = "private partition pool test" + (" features encoder" if self.ensemble.votes_by_query else "")
        selected = [self.folder / self.voting.name / "queries.npz"] if self.voting else self.selected
        for place in sorted({*places} - self.trained):
            self._make("train_teachers", inputs, {"out": self.chunk(place)}, selected=selected)
            self.trained.add(place)

    def vote(self, dealt: Traces, places: Sequence[int]) -> Traces:
        """Train the chunks at `places`, and join them with blank chunks (votes for class 0) for the untrained ones."""
        self.train(places)
        chunks = [self.chunk(place) for place in range(len(self.ensemble.chunks))]
        like = read_arrays(chunks[places[0]], CHUNK)
        for place in {*range(len(chunks))} - self.trained:
            numbers = np.array(self.numbers(place))
            blank = {name: like[name] for name in ("queries",) if name in like.arrays}
            blank |= {name: np.zeros_like(like[name]) for name in ("soft",) if name in like.arrays}
            for name in like.arrays.keys() & set(_ROWS):
                blank[name] = np.zeros((len(numbers), *like[name].shape[1:]), like[name].dtype)
            write_arrays(chunks[place], CHUNK, {"teachers": numbers, **blank}, like.meta)
        outs = {"out": self.files["votes"], "summary": self.files["votes"].with_name("ensemble.json")}
        self._make("join_votes", "pool truth test partition", outs, chunk=chunks)
        votes, quality = read_arrays(outs["out"], VOTES), read_json(outs["summary"], "join_votes")
        public = {**_public_traces(self.folder, [chunks[place] for place in places]).public}
        public["the size of votes.npz"] = str(outs["out"].stat().st_size)
        rows = [
            *(votes[name] for name in _ROWS if name in votes.arrays),
            np.array(quality["teacher_accuracies"], float),
        ]
        voters = [i for place in places for i in self.numbers(place)]
        digests = {i: hashlib.sha256(b"".join(row[i].tobytes() for row in rows)).hexdigest() for i in voters}
        return Traces(public, dealt.shards, digests)


class Comparison:
    """Comparison of one ensemble's stages on unchanged data (`base`, with traces `dealt`) and on changed data."""

    def __init__(
        self, data: DataSet, ensemble: Ensemble, voting: Round | None, rounds: Sequence[Round], folder: Path,
        thorough: bool,
    ) -> None:  # fmt: skip
        size = ensemble.teachers if ensemble.teachers <= 2 * _TOGETHER else _TOGETHER
        chunk = {} if thorough else {"chunk": size}
        ensemble = replace(ensemble, work=ensemble.work.model_copy(update=chunk))
        voting = voting and replace(voting, ensemble=ensemble)  # the same votes, in other chunks
        waiting = [first for first in rounds if first.uses_features and not thorough]  # features take long to extract
        base = Way(data, ensemble, voting, [first for first in rounds if first not in waiting], folder / "as-it-is")
        self.ensemble, self.base, self.thorough = ensemble, base, thorough
        self.waiting = sorted({first.selection.strategy for first in waiting})
        self.dealt, ours = base.deal(data.private.arrays), data.private.arrays
        if (owners := ensemble.partition.owners) is not None:
            ours = {**ours, "owners": np.load(owners, allow_pickle=False)}
        elif "owner" in ours:
            ours = {**ours, "owners": ours["owner"]}
        partition = read_arrays(base.files["partition"], PARTITION)
        self.protects: list[str] = partition.meta["protects"]
        holders = np.full(partition.meta["samples"], NOBODY)
        holders[partition["indices"]] = np.repeat(np.arange(ensemble.teachers), np.diff(partition["offsets"]))
        pool, test = (
            read_arrays(base.files[name], layout)["x"] for name, layout in (("pool", POOL), ("test", SAMPLES))
        )
        self.world = World(ours, holders, pool, test, labels_deal=not self.protects, chunk=ensemble.work.chunk)

    def audit(self, changes: int) -> AuditedData:
        """Apply every kind of change `changes` times, and return the findings."""
        kinds = [kind for kind in KINDS if "owners" in self.world.records or not kind.startswith("owner")]
        findings: list[ChangeFinding] = []
        with progress(f"{self.ensemble.slug}: changed data", changes * len(kinds), "changes") as done:
            for repeat in range(changes):
                for kind in kinds:
                    findings.append(self._changed(kind, repeat))
                    done(len(findings))
        trained = [i for place in sorted(self.base.trained) for i in self.base.numbers(place)]
        left = self.ensemble.teachers - len(trained)
        others = f"; --thorough retrains the other {left} too" if left else ""
        notes = [f"Retrained: {adjacent_data.teachers(trained)}{others}."]
        if waiting := ", ".join(self.waiting):
            notes.append(f"Not selected again: {waiting}, which read only the pool; --thorough selects again.")
        facts = {"dataset": self.ensemble.split.data.name, "teachers": self.ensemble.teachers}
        dealt = {"partition": self.ensemble.partition.slug, "protects": self.protects}
        return AuditedData(self.base.voters, {**facts, **dealt}, notes, findings)

    def _changed(self, kind: str, repeat: int) -> ChangeFinding:
        """Change the private data once, and return the finding."""
        seed, stream = self.ensemble.split.seed, ("adjacency", self.base.voters)
        rng = generator(seed, *stream, kind, repeat)
        at = self.world.choose(kind, repeat, generator(seed, *stream, repeat), rng)
        self.base.train(self._places([int(self.world.holders[at])]))
        what, ours = self.world.change(kind, at, rng)
        claimed, folder = adjacent_data.claimed(kind, self.protects), self.base.folder.parent / "changed"
        try:
            return adjacent_data.compare(kind, what, *self._compared(ours, folder), claimed)
        except Exception as fault:  # any failure counts: a run that stops on changed data leaks information
            why = str(fault) if isinstance(fault, PatebenchError) else f"{type(fault).__name__}: {fault}"
            return adjacent_data.refused(kind, what, claimed, " ".join(why.replace(f"{folder}/", "").split()))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _compared(self, ours: Records, folder: Path) -> tuple[Traces, Traces]:
        """Return the traces before and after a change; train teachers only if the earlier stages show no violation."""
        partition = self.ensemble.partition
        if "owners" in ours:
            folder.mkdir(parents=True)
            np.save(folder / _OWNERS, ours["owners"])
            partition = partition.model_copy(update={"owners": str(folder / _OWNERS)})
        ensemble = replace(self.ensemble, partition=partition)
        way = Way(self.base.data, ensemble, self.base.voting, self.base.rounds, folder)
        dealt = way.deal(ours)
        shards = self.dealt.shards_moved(dealt)
        if self.dealt.public_moved(dealt) or len(shards) > 1:
            return self.dealt, dealt
        places = self._places(shards)
        return self.base.vote(self.dealt, places), way.vote(dealt, places)

    def _places(self, moved: Sequence[int]) -> list[int]:
        """Return the chunks to train: that of the teacher whose shard changed and a distant one, or all chunks."""
        chunks = len(self.ensemble.chunks)
        if self.thorough or chunks < 2:
            return list(range(chunks))
        here = (moved[0] if moved else 0) // self.ensemble.work.chunk
        return sorted({here, (here + chunks // 2) % chunks})


command = stage_command(
    run,
    click.option("--adjacency", type=FILE, required=True, metavar="CONFIG", help="Configuration to rerun."),
    click.option(
        "--changes", type=click.IntRange(min=1), default=1, show_default=True, help="Number of changes of each kind."
    ),
    click.option("--thorough", is_flag=True, help="Retrain every teacher, in the chunks of the configuration."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)
command.name = "audit"
