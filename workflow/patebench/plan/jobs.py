"""The table of stages: one class for each, which says what a job of the stage makes, from what, and with which options.

A class is named as its stage is: `TrainTeachers` is the stage, rule, command and module `train_teachers`. Its `files`
are what it makes, by the command's options; the words in braces are the rule's wildcards and attributes of the job.
From these follow the rules' inputs, outputs, constraints, logs and commands, and the lists of artefacts and jobs.

The path is the provenance: it spells how an artefact was made, from left to right,

    <data> / <split> / <ensemble> / <mechanism> / <noise> / <student>
                                                          / <student> / <round> / <round> …
                                  / distillation / <training>
                                  / petdl / <student>
                     / baseline / <training>
                     / dpsgd / <form, ε and training>
                     / private-knn / <form, queries and noise>
                     / queries / <strategy>
           / audit / teachers-<n> / <mechanism> / <noise>

so jobs that agree on a prefix share its files. The votes of an ensemble lie in its folder; those that are made in a
round, on its queries alone, in the round's. Nothing here reads or writes a file, or checks a value.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter
from typing import Any, ClassVar, Self

from patebench.baselines.dpsgd.forms import form_of
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Mode
from patebench.core.slugs import parameters_slug, slug
from patebench.mechanisms import MECHANISMS
from patebench.models import on_queries
from patebench.plan.parameters import (
    AuditParameters,
    ClassParameters,
    DistilParameters,
    DpsgdParameters,
    PartitionParameters,
    PetdlParameters,
    PrivateKnnParameters,
    SelectionParameters,
    SplitParameters,
    StudentParameters,
    TeacherParameters,
    TrainingParameters,
    baseline_slug,
)
from patebench.students import needs_features, reads_table
from patebench.students.strategies import needs_features as chooses_by_features

#: Option → value: text or a number, a truth value (--x or --no-x), a sequence (the option repeated), a mapping
#: (repeated as key=value), or None (left out). The option "" is an argument without a name.
Options = dict[str, Any]


@dataclass(frozen=True)
class File:
    """A file that a job makes: by the option that names it, and its place if the option names several."""

    job: "Job"
    option: str
    place: int = 0

    @property
    def path(self) -> str:
        """Below the job's root."""
        return self.job.paths(self.option)[self.place]


#: By name, one file of a job or several; those of the user's are paths.
Inputs = dict[str, File | Sequence[File | str]]


#: The folder of the ledgers, below the results.
LEDGER = "ledger"


class Below(str):
    """An option's value that is a path below the results."""


@dataclass(frozen=True)
class Job:
    """A job of one stage."""

    #: What it makes: the command's option for it → its path below `root`; "*" stands for each of `each`.
    files: ClassVar[Mapping[str, str]]
    #: What the paths are below: the "results" of all configurations, or the "pages" of one.
    root: ClassVar[str] = "results"
    #: Whether it trains networks, so that it may use a GPU and several processors.
    trains: ClassVar[bool] = False
    #: Whether its first file tells of a model that is private itself, as it can be handed out in place of labels.
    private_model: ClassVar[bool] = False

    def inputs(self) -> Inputs:
        """The files of other jobs that the command is told of."""
        return {}

    def dependencies(self) -> Inputs:
        """What must be there besides, of which the command is not told."""
        return {}

    def options(self) -> Options:
        """All else that the command is told."""
        return {}

    def joined(self, other: Self) -> Self:
        """The job that answers for two with the same files; PatebenchError if no one job can."""
        if self != other:
            raise PatebenchError(
                f"two jobs of {self.stage()} with different parameters make {self.key}; give both the same ones"
            )
        return self

    @classmethod
    def stage(cls) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def wildcards(cls) -> tuple[str, ...]:
        """The names of the wildcards in its files, which together tell its jobs apart."""
        found = (name for path in cls.files.values() for _, name, _, _ in Formatter().parse(path) if name)
        return tuple(dict.fromkeys(found))

    @property
    def values(self) -> dict[str, str]:
        """The wildcards' values."""
        return {name: str(getattr(self, name)) for name in self.wildcards()}

    @property
    def key(self) -> str:
        """What tells it from the stage's other jobs."""
        return "/".join(self.values.values())

    @property
    def name(self) -> str:
        """What its log and benchmark files are called, below a folder of the stage's name."""
        return self.key

    @property
    def file(self) -> File:
        """The first of its files, which is what most other jobs read of it."""
        return File(self, next(iter(self.files)))

    @property
    def each(self) -> Sequence[str]:
        """What "*" stands for, in the order of the files."""
        return ()

    def paths(self, option: str) -> list[str]:
        """Below `root`, the files that an option names."""
        path = self.files[option].format(**self.values)
        return [path.replace("*", name) for name in self.each] if "*" in path else [path]


_CLASSES = ClassParameters()


@dataclass(frozen=True)
class Data(Job):
    """A data set: one of the registry, or the user's own with a loader, its files and perhaps its classes.

    `copy_of` makes no other data: it is for those who read of it what papers print.
    """

    files = {"private": "{dataset}/private.npz", "public": "{dataset}/public.npz"}

    dataset: str
    loader: str | None = None
    sources: tuple[tuple[str, str], ...] = ()
    classes: ClassParameters = _CLASSES
    copy_of: str | None = None

    @property
    def folder(self) -> str:
        return self.dataset

    def dependencies(self) -> Inputs:
        return {"sources": [path for _, path in self.sources]}

    def options(self) -> Options:
        own = {"option": {"loader": self.loader, **dict(self.sources)}} if self.loader else {}
        return {"": self.dataset, **own, **self.classes.options()}


@dataclass(frozen=True)
class Split(Job):
    """The public data, shuffled by the seed and cut into the pool and the test set."""

    files = {"pool-out": "{split}/pool.npz", "truth-out": "{split}/truth.npz", "test-out": "{split}/test.npz"}

    data: Data
    seed: int
    parameters: SplitParameters

    @property
    def slug(self) -> str:
        return slug(("seed", self.seed), self.parameters.slug)

    @property
    def split(self) -> str:
        return f"{self.data.folder}/{self.slug}"

    folder = split

    @property
    def pool(self) -> File:
        return File(self, "pool-out")

    @property
    def truth(self) -> File:
        return File(self, "truth-out")

    @property
    def test(self) -> File:
        return File(self, "test-out")

    def inputs(self) -> Inputs:
        return {"public": File(self.data, "public")}

    def options(self) -> Options:
        return {**self.parameters.options(), **self.randomness(self.folder)}

    def randomness(self, stream: str) -> Options:
        """The options that name a stage's random stream."""
        return {"seed": self.seed, "stream": stream}


_USUAL = TeacherParameters()


@dataclass(frozen=True)
class Ensemble:
    """Teachers on disjoint shards of the private data: what several stages make together."""

    split: Split
    teachers: int
    partition: PartitionParameters
    training: TrainingParameters
    work: TeacherParameters = _USUAL
    #: What alone is put to the teachers; without it, every sample of the pool.
    queries: SelectionParameters | None = None
    #: The round whose queries alone are put to them, after those of the rounds before.
    round: "SelectQueries | None" = None

    @property
    def slug(self) -> str:
        asked = ("queries", self.queries.queries if self.queries else None)
        return slug(("teachers", self.teachers), asked, self.partition.slug, self.training.slug)

    @property
    def in_cells(self) -> bool:
        """Whether each of its queries stands for those that are nearer to it than to any other."""
        return self.queries is not None and self.training.neighbours is None

    @property
    def asked(self) -> "Sequence[SelectBeforehand | SelectQueries]":
        """The jobs that select its queries, one for each round so far; none for the whole pool."""
        if self.round:
            return self.round.rounds
        return [SelectBeforehand(self.split, self.queries)] if self.queries else []

    @property
    def votes_by_round(self) -> bool:
        """Whether its teachers vote in each round anew, on that round's queries alone."""
        return on_queries(self.training.model) and not self.queries

    def at(self, selection: "SelectQueries | None") -> "Ensemble":
        """The same teachers as they vote on what a round selected."""
        return replace(self, round=selection) if self.votes_by_round else self

    @property
    def dealt(self) -> "Partition":
        """Who owns which private sample, in all rounds."""
        return Partition(replace(self, round=None))

    @property
    def folder(self) -> str:
        return self.round.folder if self.round else f"{self.split.folder}/{self.slug}"

    def chunks(self) -> list["TrainTeachers"]:
        """The jobs that together train every teacher once."""
        size = self.work.chunk
        return [
            TrainTeachers(self, first, min(first + size, self.teachers) - 1) for first in range(0, self.teachers, size)
        ]

    @property
    def votes(self) -> File:
        return JoinVotes(self).file

    def randomness(self) -> Options:
        return self.split.randomness(self.folder)


@dataclass(frozen=True)
class _OfEnsemble(Job):
    """A job of which there is one for each ensemble."""

    of: Ensemble

    @property
    def ensemble(self) -> str:
        return self.of.folder

    folder = ensemble


@dataclass(frozen=True)
class Partition(_OfEnsemble):
    """Who owns which private sample."""

    files = {"out": "{ensemble}/partition.npz"}

    def inputs(self) -> Inputs:
        data = self.of.split.data
        return {"private": File(data, "private"), "public": File(data, "public")}

    def dependencies(self) -> Inputs:
        owners = self.of.partition.owners
        return {"owners": [owners] if owners else []}

    def options(self) -> Options:
        silent = {"empty": True} if on_queries(self.of.training.model) else {}
        return {"teachers": self.of.teachers, **self.of.partition.options(), **silent, **self.of.randomness()}


@dataclass(frozen=True)
class TrainTeachers(_OfEnsemble):
    """Teachers number `first` to `last`, both included. How an ensemble is cut into jobs changes no teacher."""

    files = {"out": "{ensemble}/chunks/{chunk}.npz"}
    trains = True

    first: int
    last: int

    @property
    def chunk(self) -> str:
        return f"{self.first}-{self.last}"

    def inputs(self) -> Inputs:
        split = self.of.split
        found: Inputs = {"private": File(split.data, "private"), "partition": self.of.dealt.file}
        found |= {"pool": split.pool, "test": split.test}
        if self.of.asked:
            found["selected"] = [each.file for each in self.of.asked]
        if on_queries(self.of.training.model):
            features = ExtractFeatures(split)
            found |= {"features": features.file, "encoder": File(features, "encoder")}
        return found

    def options(self) -> Options:
        kept = {"weights": Below(f"{self.ensemble}/weights")} if self.of.work.keep_weights else {}
        soft = {"soft": self.of.work.soft, "hints": self.of.work.hints}
        return {"teachers": self.chunk, **self.of.training.options(), **soft, **kept, **self.of.randomness()}


@dataclass(frozen=True)
class JoinVotes(_OfEnsemble):
    """The vote matrix of an ensemble, of all rounds so far, and how well its teachers vote."""

    files = {"out": "{ensemble}/votes.npz", "summary": "{ensemble}/ensemble.json"}

    @property
    def rounds(self) -> list["SelectQueries"]:
        """The rounds that selected its queries, which wait for students; none of other votes."""
        return self.of.round.rounds if self.of.round else []

    def inputs(self) -> Inputs:
        split = self.of.split
        found: Inputs = {
            "partition": self.of.dealt.file,
            "pool": split.pool,
            "truth": split.truth,
            "test": split.test,
            "chunk": [chunk.file for chunk in self.of.chunks()],
        }
        if self.rounds[1:]:
            found["earlier"] = self.of.at(self.rounds[-2]).votes
        return found


@dataclass(frozen=True)
class ExtractFeatures(Job):
    """Features of a pool, learnt without a label, and the encoder that learnt them."""

    files = {"out": "{split}/features.npz", "encoder": "{split}/encoder.npz"}
    trains = True

    of: Split

    @property
    def split(self) -> str:
        return self.of.folder

    folder = split

    def inputs(self) -> Inputs:
        return {"pool": self.of.pool}

    def options(self) -> Options:
        return self.of.randomness(f"{self.folder}/features")


@dataclass(frozen=True)
class Setting:
    """A mechanism with its parameters, in the mechanism's order."""

    mechanism: str
    parameters: tuple[tuple[str, float], ...]

    @property
    def slug(self) -> str:
        return parameters_slug(dict(self.parameters))

    @property
    def folder(self) -> str:
        return f"{self.mechanism}/{self.slug}"

    def options(self) -> Options:
        return {"mechanism": self.mechanism, "parameter": dict(self.parameters)}


def _mode_part(mode: Mode) -> str | None:
    """What a path says of where noise comes from: nothing where it is as usual."""
    return str(mode) if mode is Mode.RELEASE else None


@dataclass(frozen=True)
class SelectQueries(Job):
    """One round's queries, selected by a strategy that knows what the rounds before taught the student."""

    files = {"out": "{label_set}/queries.npz"}
    trains = True

    ensemble: Ensemble
    setting: Setting
    parameters: SelectionParameters
    student: StudentParameters
    uses_features: bool = False
    before: "TrainStudent | None" = None
    mode: Mode = Mode.SEEDED

    @property
    def rounds(self) -> list["SelectQueries"]:
        """All rounds so far, this one last."""
        earlier = self.before.labels.rounds if self.before else []
        return [*earlier, self]

    @property
    def total(self) -> int:
        """The number of queries so far, this round's included."""
        return sum(each.parameters.queries for each in self.rounds)

    @property
    def label_set(self) -> str:
        noise = slug(self.setting.slug, _mode_part(self.mode))
        first = f"{self.ensemble.folder}/{self.setting.mechanism}/{noise}/{self.student.slug()}"
        above = self.before.folder if self.before else first
        return f"{above}/round-{len(self.rounds) - 1}_{self.parameters.slug}"

    folder = label_set

    def inputs(self) -> Inputs:
        found: Inputs = {"pool": self.ensemble.split.pool}
        if self.uses_features:
            found["features"] = ExtractFeatures(self.ensemble.split).file
        if self.before:
            found |= {"labels": self.before.labels.file, "predictions": File(self.before, "predictions")}
        return found

    def options(self) -> Options:
        chosen = {**self.parameters.options(), **self.student.options()}
        return {**chosen, **self.ensemble.split.randomness(self.folder)}


@dataclass(frozen=True)
class SelectBeforehand(Job):
    """All queries of an ensemble, selected by what is public before any teacher votes: a job of `select_queries`."""

    files = SelectQueries.files
    trains = SelectQueries.trains

    of: Split
    parameters: SelectionParameters

    @classmethod
    def stage(cls) -> str:
        return SelectQueries.stage()

    @property
    def label_set(self) -> str:
        return f"{self.of.folder}/queries/{self.parameters.slug}"

    folder = label_set

    def inputs(self) -> Inputs:
        by_features = (
            {"features": ExtractFeatures(self.of).file} if chooses_by_features(self.parameters.strategy) else {}
        )
        return {"pool": self.of.pool, **by_features}

    def options(self) -> Options:
        return {**self.parameters.options(), **self.of.randomness(self.folder)}


@dataclass(frozen=True)
class Budget:
    """The ε at δ at which a release stops answering."""

    epsilon: float
    delta: float

    @property
    def slug(self) -> str:
        return slug(("budget", self.epsilon), ("delta", self.delta))


@dataclass(frozen=True)
class Aggregate(Job):
    """An ensemble's labels for a set of queries under one mechanism: the whole pool, or what rounds selected."""

    files = {"out": "{label_set}/labels.npz"}

    ensemble: Ensemble
    setting: Setting
    mode: Mode = Mode.SEEDED
    budget: Budget | None = None
    selection: SelectQueries | None = None

    @property
    def noise(self) -> str:
        """The parameters, and whatever else is not as usual."""
        return slug(self.setting.slug, _mode_part(self.mode), self.budget.slug if self.budget else None)

    @property
    def stream(self) -> str:
        plain = f"{self.ensemble.folder}/{self.setting.mechanism}/{self.noise}"
        return self.selection.folder if self.selection else plain

    @property
    def label_set(self) -> str:
        return self.stream

    @property
    def folder(self) -> str:
        return self.label_set

    @property
    def rounds(self) -> list[SelectQueries]:
        """The rounds that selected its queries, which wait for students; none for the whole pool."""
        return self.selection.rounds if self.selection else []

    @property
    def read_by_features(self) -> bool:
        """Whether they are a table of queries that features selected or voted on, by which students read it."""
        by_features = self.selection.uses_features if self.selection else self.ensemble.in_cells
        by_features = by_features or self.voters.round is not None
        return by_features and MECHANISMS.load(self.setting.mechanism).releases_table

    @property
    def voters(self) -> Ensemble:
        """Whose votes they are of: the ensemble, as it votes in its last round."""
        return self.ensemble.at(self.selection)

    def inputs(self) -> Inputs:
        found: Inputs = {"votes": self.voters.votes}
        if self.selection:
            found["selected"] = self.selection.file
            if self.selection.before:
                found["earlier"] = self.selection.before.labels.file
        return found

    def options(self) -> Options:
        budget = {"budget": self.budget.epsilon, "delta": self.budget.delta} if self.budget else {}
        return {**self.setting.options(), **budget, **self.randomness()}

    def randomness(self) -> Options:
        """A stream to draw again; or none, and the ledger of what was drawn for good."""
        release = {"release": True, "ledger": Below(LEDGER)}
        return release if self.mode is Mode.RELEASE else self.ensemble.split.randomness(self.stream)


@dataclass(frozen=True)
class _OfLabels(Job):
    """A job of a label set."""

    labels: Aggregate

    @property
    def label_set(self) -> str:
        return self.labels.folder

    folder = label_set


@dataclass(frozen=True)
class SecureShare(_OfLabels):
    """The votes of a chunk of teachers, cut into shares: one file for each aggregator."""

    files = {"out": "{label_set}/secure/aggregator-*/{chunk}.npz"}

    labels: "SecureOpen"
    votes: TrainTeachers

    @property
    def chunk(self) -> str:
        return self.votes.chunk

    @property
    def each(self) -> Sequence[str]:
        return [str(i + 1) for i in range(self.labels.parties)]

    def inputs(self) -> Inputs:
        return {"chunk": self.votes.file}

    def options(self) -> Options:
        teachers = {"teachers": self.labels.ensemble.teachers}
        return {**self.labels.setting.options(), **teachers, **self.labels.randomness()}


@dataclass(frozen=True)
class SecureSum(_OfLabels):
    """The sum of what one aggregator got."""

    files = {"out": "{label_set}/secure/aggregator-{aggregator}/sum.npz"}

    labels: "SecureOpen"
    aggregator: int

    def inputs(self) -> Inputs:
        chunks = self.labels.ensemble.chunks()
        return {"shares": [File(SecureShare(self.labels, chunk), "out", self.aggregator - 1) for chunk in chunks]}


@dataclass(frozen=True)
class SecureOpen(Aggregate):
    """The labels of an ensemble's queries by the secure path: the sums of all aggregators, opened."""

    files = {"labels": "{label_set}/labels.npz", "counts": "{label_set}/noisy_counts.npz"}

    parties: int = 2

    @property
    def label_set(self) -> str:
        return f"{self.stream}_secure-{self.parties}"

    def inputs(self) -> Inputs:
        return {"sums": [SecureSum(self, i + 1).file for i in range(self.parties)]}

    def options(self) -> Options:
        return {}


@dataclass(frozen=True)
class Account(_OfLabels):
    """ε of a label set at `delta`, after each of the numbers of queries: all of them, of a release and of rounds."""

    files = {"out": "{label_set}/bounds.json"}

    queries: tuple[int, ...]
    delta: float

    @property
    def rounds(self) -> list[SelectQueries]:
        return self.labels.rounds

    def inputs(self) -> Inputs:
        selected = [each.file for each in self.rounds]
        return {"votes": self.labels.voters.votes, "labels": self.labels.file, "selected": selected}

    def options(self) -> Options:
        if self.labels.mode is Mode.RELEASE:
            return {"delta": self.delta, "ledger": Below(LEDGER)}
        if self.rounds:
            return {"delta": self.delta}
        return {"queries": self.queries, "delta": self.delta, **self.labels.randomness()}

    def joined(self, other: "Account") -> "Account":
        return replace(self, queries=_united(self.queries, other.queries))


@dataclass(frozen=True)
class TrainStudent(Job):
    """A student trained on the labels of the first `queries` queries of a label set."""

    files = {"out": "{student}/student.json", "predictions": "{student}/predictions.npz"}
    trains = True

    labels: Aggregate
    parameters: StudentParameters
    queries: int

    @property
    def student(self) -> str:
        """In rounds the path names the student before its queries."""
        own = self.parameters.slug(("queries", self.queries))
        return self.labels.folder if self.labels.selection else f"{self.labels.folder}/{own}"

    folder = student

    def inputs(self) -> Inputs:
        split = self.labels.ensemble.split
        found: Inputs = {"pool": split.pool, "labels": self.labels.file, "test": split.test}
        if needs_features(self.parameters.method):
            found["encoder"] = File(ExtractFeatures(split), "encoder")
        if self.labels.read_by_features and not reads_table(self.parameters.method):
            found["features"] = ExtractFeatures(split).file
        return found

    def options(self) -> Options:
        randomness = self.labels.ensemble.split.randomness(self.folder)
        return {"queries": self.queries, **self.parameters.options(), **randomness}


@dataclass(frozen=True)
class Distil(Job):
    """Networks that learn from an ensemble's plurality and from its probabilities, without privacy."""

    files = {"out": "{distillation}/distillation.json"}
    trains = True

    ensemble: Ensemble
    parameters: DistilParameters

    @property
    def distillation(self) -> str:
        return f"{self.ensemble.folder}/distillation/{self.parameters.slug}"

    folder = distillation

    def inputs(self) -> Inputs:
        split = self.ensemble.split
        return {"votes": self.ensemble.votes, "pool": split.pool, "test": split.test}

    def options(self) -> Options:
        return {**self.parameters.options(), **self.ensemble.split.randomness(self.folder)}

    def joined(self, other: "Distil") -> "Distil":
        samples = _united(self.parameters.samples, other.parameters.samples)
        return replace(self, parameters=self.parameters.model_copy(update={"samples": samples}))


@dataclass(frozen=True)
class TrainPetdl(Job):
    """A student of PET-DL, which learns from all that the teachers of an ensemble say of the pool.

    Its stream is that of all students of the ensemble: those that differ in their noise alone differ in nothing else.
    """

    files = {"out": "{petdl}/petdl.json"}
    trains = True
    private_model = True

    ensemble: Ensemble
    parameters: PetdlParameters

    @property
    def petdl(self) -> str:
        return f"{self.ensemble.folder}/petdl/{self.parameters.slug}"

    folder = petdl

    def inputs(self) -> Inputs:
        joined, split = JoinVotes(self.ensemble), self.ensemble.split
        return {
            "ensemble": File(joined, "summary"),
            "votes": joined.file,
            "chunk": [chunk.file for chunk in self.ensemble.chunks()],
            "pool": split.pool,
            "test": split.test,
        }

    def options(self) -> Options:
        stream = f"{self.ensemble.folder}/petdl"
        return {**self.parameters.options(), **self.ensemble.split.randomness(stream)}


@dataclass(frozen=True)
class TrainBaseline(Job):
    """One model trained without privacy: on all private data, or on so many true labels of the pool."""

    files = {"out": "{baseline}/baseline.json"}
    trains = True

    split: Split
    training: TrainingParameters
    true_labels: int | None = None

    @property
    def baseline(self) -> str:
        return f"{self.split.folder}/baseline/{baseline_slug(self.training, self.true_labels)}"

    folder = baseline

    def inputs(self) -> Inputs:
        private = {"private": File(self.split.data, "private")}
        labelled = {"pool": self.split.pool, "truth": self.split.truth}
        return {**(labelled if self.true_labels else private), "test": self.split.test}

    def options(self) -> Options:
        learnt = {"true-labels": self.true_labels}
        return {**learnt, **self.training.options(), **self.split.randomness(self.folder)}


@dataclass(frozen=True)
class NameClusters(Job):
    """The clusters of so many queries, named by true labels of the pool: what public data alone tells apart."""

    files = {"out": "{clusters}/naming.json"}

    of: SelectBeforehand

    @property
    def clusters(self) -> str:
        return self.of.folder

    folder = clusters

    def inputs(self) -> Inputs:
        split, features = self.of.of, ExtractFeatures(self.of.of)
        cut = {"pool": split.pool, "truth": split.truth, "test": split.test}
        learnt = {"features": features.file, "encoder": File(features, "encoder")}
        return {**cut, **learnt, "selected": self.of.file}


@dataclass(frozen=True)
class TrainDpsgd(Job):
    """One model trained by DP-SGD on all private data: it is private itself."""

    files = {"out": "{dpsgd}/dpsgd.json"}
    trains = True
    private_model = True

    split: Split
    parameters: DpsgdParameters

    @property
    def dpsgd(self) -> str:
        return f"{self.split.folder}/dpsgd/{self.parameters.slug}"

    folder = dpsgd

    def inputs(self) -> Inputs:
        found: Inputs = {"private": File(self.split.data, "private"), "pool": self.split.pool, "test": self.split.test}
        if form_of(self.parameters.form).from_encoder:
            found["encoder"] = File(ExtractFeatures(self.split), "encoder")
        return found

    def options(self) -> Options:
        return {**self.parameters.options(), **self.split.randomness(self.folder)}


@dataclass(frozen=True)
class TrainPrivateKnn(Job):
    """A student of labels that the nearest private records vote for."""

    files = {"out": "{private_knn}/private_knn.json"}
    trains = True
    private_model = True

    split: Split
    parameters: PrivateKnnParameters

    @property
    def private_knn(self) -> str:
        return f"{self.split.folder}/private-knn/{self.parameters.slug}"

    folder = private_knn

    def inputs(self) -> Inputs:
        encoder = File(ExtractFeatures(self.split), "encoder")
        public = {"pool": self.split.pool, "truth": self.split.truth, "test": self.split.test, "encoder": encoder}
        return {"private": File(self.split.data, "private"), **public}

    def options(self) -> Options:
        return {**self.parameters.options(), **self.split.randomness(self.folder)}


@dataclass(frozen=True)
class Audit(Job):
    """What a mechanism loses at least, whatever so many teachers vote: it needs no votes, so all seeds share it."""

    files = {"out": "{audit}/audit.json"}

    data: Data
    teachers: int
    setting: Setting
    queries: tuple[int, ...]
    delta: float
    parameters: AuditParameters

    @property
    def audit(self) -> str:
        return f"{self.data.folder}/audit/teachers-{self.teachers}/{self.setting.folder}"

    folder = audit

    def inputs(self) -> Inputs:
        return {"samples": File(self.data, "private")}

    def options(self) -> Options:
        world = {"teachers": self.teachers, "queries": self.queries, "delta": self.delta}
        return {**self.setting.options(), **world, **self.parameters.options(), "seed": 0, "stream": self.folder}

    def joined(self, other: "Audit") -> "Audit":
        return replace(self, queries=_united(self.queries, other.queries))


@dataclass(frozen=True)
class Collect(_OfEnsemble):
    """Everything known of one ensemble, or of its votes in one round, as flat records."""

    files = {"out": "{ensemble}/collected.json"}

    accounts: tuple[Account, ...] = ()
    students: tuple[TrainStudent, ...] = ()
    distillations: tuple[Distil, ...] = ()

    def inputs(self) -> Inputs:
        joined = JoinVotes(self.of)
        return {
            "ensemble": File(joined, "summary"),
            "votes": joined.file,
            "truth": self.of.split.truth,
            "labels": [account.labels.file for account in self.accounts],
            "bounds": [account.file for account in self.accounts],
            "students": [student.file for student in self.students],
            "distilled": [each.file for each in self.distillations],
        }


@dataclass(frozen=True)
class _Page(Job):
    """A job for the page of one configuration, which `run` names."""

    root = "pages"

    run: str

    @property
    def name(self) -> str:
        return "/".join([self.run, *self.values.values()])


@dataclass(frozen=True)
class Results:
    """What figures and tables read: all records, by where they come from, and what papers print."""

    published: str
    collected: tuple[Collect, ...]
    baselines: tuple[Job, ...]
    audits: tuple[Audit, ...]
    private_models: tuple[Job, ...]
    copies: tuple[tuple[str, str], ...] = ()

    def inputs(self) -> Inputs:
        kinds: dict[str, tuple[Job, ...]] = {"collected": self.collected, "baselines": self.baselines}
        kinds |= {"audits": self.audits, "models": self.private_models}
        return {kind: [job.file for job in jobs] for kind, jobs in kinds.items()}

    def options(self) -> Options:
        copies = {"copy": dict(self.copies)} if self.copies else {}
        return {"published": self.published, **copies}


@dataclass(frozen=True)
class _OfResults(_Page):
    """A job that shows results."""

    results: Results

    def inputs(self) -> Inputs:
        return self.results.inputs()

    def dependencies(self) -> Inputs:
        return {"published": [self.results.published]}

    def options(self) -> Options:
        return self.results.options()


@dataclass(frozen=True)
class _Shown(_OfResults):
    """A job that shows results in several ways, each under a name."""

    names: tuple[str, ...]

    @property
    def each(self) -> Sequence[str]:
        return self.names

    @property
    def first_files(self) -> list[File]:
        """Of each way the first file, which is what the page reads."""
        return [File(self, self.file.option, place) for place in range(len(self.names))]


@dataclass(frozen=True)
class Figures(_Shown):
    """All figures, by one process: starting it takes longer than drawing one."""

    files = {"png": "figures/*.png", "pdf": "figures/*.pdf"}


@dataclass(frozen=True)
class Tables(_Shown):
    """All tables, by one process."""

    files = {"csv": "tables/*.csv", "markdown": "tables/*.md", "latex": "tables/*.tex"}


@dataclass(frozen=True)
class Rows(_OfResults):
    """What a run found, for other programs."""

    files = {"out": "rows.json"}


@dataclass(frozen=True)
class Manifest(_Page):
    """What ran, with which versions, on which machine, how long, from which configuration."""

    files = {"out": "manifest.json"}

    figures: Figures
    tables: Tables
    rows: Rows
    config: str

    def dependencies(self) -> Inputs:
        return {
            "figures": self.figures.first_files,
            "tables": self.tables.first_files,
            "rows": self.rows.file,
        }

    def options(self) -> Options:
        return {"config": self.config, "benchmarks": Below("benchmarks")}


@dataclass(frozen=True)
class Report(_Page):
    """The page that shows everything, and of releases a second one that holds only what may be published."""

    files = {"out": "report.html", "publishable": "*.html"}

    manifest: Manifest
    captions: str
    citation: str

    def inputs(self) -> Inputs:
        shown = {name: self.manifest.dependencies()[name] for name in ("figures", "tables")}
        return {**shown, "manifest": self.manifest.file, **self._released()}

    @property
    def each(self) -> Sequence[str]:
        return ("publishable",) if self._released() else ()

    def _released(self) -> Inputs:
        """The files that the page reads that may be published; none where nothing is a release."""
        collected = self.manifest.tables.results.collected
        accounts = [each for job in collected for each in job.accounts if each.labels.mode is Mode.RELEASE]
        students = [each for job in collected for each in job.students if each.labels.mode is Mode.RELEASE]
        if not accounts:
            return {}
        return {
            "labels": [each.labels.file for each in accounts],
            "bounds": [each.file for each in accounts],
            "students": [each.file for each in students],
            "pools": list(dict.fromkeys(each.labels.ensemble.split.pool for each in accounts)),
        }

    def options(self) -> Options:
        return {"captions": self.captions, "citation": self.citation}


def _united(numbers: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    """Numbers that are among the ones or the others, in order."""
    return tuple(sorted({*numbers, *others}))


#: Every stage, in the order of the way of the data.
STAGES: tuple[type[Job], ...] = (
    *(Data, Split, Partition, TrainTeachers, JoinVotes, ExtractFeatures, SelectQueries, Aggregate),
    *(SecureShare, SecureSum, SecureOpen, Account, TrainStudent),
    *(Distil, TrainPetdl, TrainBaseline, NameClusters, TrainDpsgd, TrainPrivateKnn, Audit),
    *(Collect, Figures, Tables, Rows, Manifest, Report),
)
BY_STAGE = {each.stage(): each for each in STAGES}
#: Those whose jobs may use a GPU; the profile for SLURM and the documentation name the same.
TRAINING = tuple(each.stage() for each in STAGES if each.trains)
