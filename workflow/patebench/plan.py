"""What a run makes: every artefact, where it lies, and the options of the command that makes it.

The classes below mirror the folders below `results/`, outermost first; each names its parent, its `slug` (one folder's
name) and its `folder` (all slugs so far, below `results/`), and `options()` gives the command's options, from which
`shell` makes text. `folder` is also the name of the stage's random stream.

    <Data.name> / <Split> / <Ensemble> / <Release: mechanism> / <Release: noise> / <StudentRun>
                                                                                 / <Round.asker> / <Round> / <Round> …
                                    / distillation / <Distillation>
                          / baseline / <Baseline>
                  / audit / teachers-<n> / <Audit: mechanism> / <Audit: noise>

Experiments that agree on a prefix agree on these values, so a `Plan` over several experiments holds each artefact once.
Nothing here reads or writes files, and nothing checks values: that is `config`'s part.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest
from patebench.core.seeds import Mode
from patebench.students.strategies import FEATURED

T = TypeVar("T")

#: Option name → value: text or a number, a truth value (--x or --no-x), a list (the option repeated), a mapping
#: (repeated as key=value), or None (left out).
Options = dict[str, Any]


def number(value: float) -> str:
    """A number as slugs and command lines spell it: 12 significant digits, no trailing zeros."""
    return format(value, ".12g")


def shell(options: Options) -> str:
    """Options as text for a shell, quoted."""
    return shlex.join(word for name, value in options.items() for word in _words(f"--{name}", value))


def _words(option: str, value: Any) -> Iterator[str]:
    match value:
        case None:
            return
        case bool():
            yield option if value else option.replace("--", "--no-", 1)
        case Mapping():
            yield from _words(option, [f"{key}={_text(item)}" for key, item in value.items()])
        case list() | tuple():
            for item in value:
                yield from _words(option, item)
        case _:
            yield from (option, _text(value))


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Data:
    """A data set: one of the registry, or the user's own with a loader and where its files lie."""

    name: str
    loader: str | None = None
    sources: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> str:
        return self.name

    @property
    def inputs(self) -> list[str]:
        """The user's files or folders that the data set is read from."""
        return [path for _, path in self.sources]

    def options(self) -> Options:
        return {"option": {"loader": self.loader, **dict(self.sources)}} if self.loader else {}


@dataclass(frozen=True)
class Learner:
    """A model and how it is trained; `epochs` replaces the recipe's when given."""

    model: str
    recipe: str
    epochs: int | None = None

    @property
    def slug(self) -> str:
        return f"{self.model}_{self.recipe}" + (f"_epochs-{self.epochs}" if self.epochs else "")

    def options(self) -> Options:
        return {"model": self.model, "recipe": self.recipe, "epochs": self.epochs}


@dataclass(frozen=True)
class Split:
    """The public data, shuffled by the seed and cut into `pool` queries and `test` samples (None: all that remain)."""

    data: Data
    seed: int
    pool: int
    test: int | None = None

    @property
    def slug(self) -> str:
        return f"seed-{self.seed}_pool-{self.pool}" + (f"_test-{self.test}" if self.test else "")

    @property
    def folder(self) -> str:
        return f"{self.data.folder}/{self.slug}"

    def options(self) -> Options:
        return {"pool": self.pool, "test": self.test, **self.randomness(self.folder)}

    def features_options(self) -> Options:
        return self.randomness(f"{self.folder}/features")

    def randomness(self, stream: str) -> Options:
        """The options that name a stage's random stream."""
        return {"seed": self.seed, "stream": stream}


@dataclass(frozen=True)
class Partition:
    """How the private data is dealt to the teachers: "iid", "skew" (with a share) or "owners" (with a column)."""

    strategy: str = "iid"
    share: float | None = None
    column: str | None = None

    @property
    def slug(self) -> str:
        return self.strategy if self.share is None else f"{self.strategy}-{number(self.share)}"

    @property
    def inputs(self) -> list[str]:
        """The user's file that says who owns which sample, if there is one."""
        return [self.column] if self.column else []

    def options(self) -> Options:
        return {"strategy": self.strategy, "share": self.share, "owners": self.column}


@dataclass(frozen=True)
class Ensemble:
    """Teachers on disjoint shards of the private data, trained by jobs of `chunk` teachers each."""

    split: Split
    teachers: int
    partition: Partition
    learner: Learner
    chunk: int = 25
    keep_weights: bool = False
    every_class: bool = False
    #: The temperatures at which the teachers' probabilities are kept too, for distillation; they change no vote.
    soft: tuple[float, ...] = ()

    @property
    def slug(self) -> str:
        return f"teachers-{self.teachers}_{self.partition.slug}_{self.learner.slug}"

    @property
    def folder(self) -> str:
        return f"{self.split.folder}/{self.slug}"

    def chunks(self) -> list["Chunk"]:
        """The jobs that together train every teacher once."""
        starts = range(0, self.teachers, self.chunk)
        return [Chunk(self, first, min(first + self.chunk, self.teachers) - 1) for first in starts]

    def partition_options(self) -> Options:
        strict = {"need-every-class": True} if self.every_class else {}
        return {"teachers": self.teachers, **self.partition.options(), **strict, **self.split.randomness(self.folder)}


@dataclass(frozen=True)
class Chunk:
    """Teachers number `first` to `last`, both included. How an ensemble is cut changes no teacher."""

    ensemble: Ensemble
    first: int
    last: int

    @property
    def file(self) -> str:
        return f"{self.ensemble.folder}/chunks/{self.first}-{self.last}.npz"

    def options(self) -> Options:
        randomness = self.ensemble.split.randomness(self.ensemble.folder)
        soft = {"soft": self.ensemble.soft}
        return {"teachers": f"{self.first}-{self.last}", **self.ensemble.learner.options(), **soft, **randomness}


@dataclass(frozen=True)
class Budget:
    """The ε at δ at which a release stops answering."""

    epsilon: float
    delta: float

    @property
    def slug(self) -> str:
        return f"budget-{number(self.epsilon)}_delta-{number(self.delta)}"


@dataclass(frozen=True)
class Release:
    """An ensemble's answers to the whole pool under one mechanism with its parameters, in the mechanism's order."""

    ensemble: Ensemble
    mechanism: str
    parameters: tuple[tuple[str, float], ...]
    mode: Mode = Mode.SEEDED
    budget: Budget | None = None
    #: Number of aggregators of the secure path; without, one party sums the votes.
    aggregators: int | None = None

    @property
    def noise(self) -> str:
        """The parameters, and whatever else is not as usual."""
        return self._plain_noise + (f"_secure-{self.aggregators}" if self.aggregators else "")

    @property
    def _plain_noise(self) -> str:
        mode = [str(self.mode)] if self.mode is Mode.RELEASE else []
        return "_".join([noise_slug(self.parameters), *mode, *([self.budget.slug] if self.budget else [])])

    @property
    def folder(self) -> str:
        return f"{self.ensemble.folder}/{self.mechanism}/{self.noise}"

    @property
    def stream(self) -> str:
        """The secure path draws what the plain path draws, so that both give the same labels."""
        return f"{self.ensemble.folder}/{self.mechanism}/{self._plain_noise}"

    def mechanism_options(self) -> Options:
        return {"mechanism": self.mechanism, "parameter": dict(self.parameters)}

    def randomness(self) -> Options:
        """A stream to draw again, or none."""
        return {"release": True} if self.mode is Mode.RELEASE else self.ensemble.split.randomness(self.stream)

    def options(self) -> Options:
        budget = {"budget": self.budget.epsilon, "delta": self.budget.delta} if self.budget else {}
        return {**self.mechanism_options(), **budget, **self.randomness()}

    def share_options(self) -> Options:
        """What a chunk of teachers needs to know to cut its votes into shares."""
        return {**self.mechanism_options(), "teachers": self.ensemble.teachers, **self.randomness()}

    def share_files(self, aggregator: int) -> list[str]:
        """What an aggregator gets, one file from each chunk of teachers."""
        chunks = self.ensemble.chunks()
        return [f"{self.folder}/secure/aggregator-{aggregator}/{chunk.first}-{chunk.last}.npz" for chunk in chunks]


def noise_slug(parameters: Iterable[tuple[str, float]]) -> str:
    """A mechanism's parameters as a folder's name."""
    return "_".join(f"{name}-{number(value)}" for name, value in parameters)


@dataclass(frozen=True)
class Account:
    """ε of a release at `delta`, after each of the numbers of queries."""

    release: Release
    queries: tuple[int, ...]
    delta: float

    @property
    def folder(self) -> str:
        return self.release.folder

    def options(self) -> Options:
        release, budget = self.release, self.release.budget
        told = {"queries": self.queries, "delta": self.delta, "budget": budget.epsilon if budget else None}
        return {**release.mechanism_options(), **told, **release.randomness()}

    def joined(self, other: "Account") -> "Account":
        """The account of the same release that answers for both."""
        return replace(self, queries=tuple(sorted({*self.queries, *other.queries})))


@dataclass(frozen=True)
class StudentRun:
    """A student trained on the labels that a release gave to its first `queries` queries."""

    release: Release
    method: str
    queries: int
    model: str | None = None
    recipe: str | None = None
    epochs: int | None = None
    hold_out: float | None = None

    @property
    def slug(self) -> str:
        """The method and what was chosen for it; what is left to the method is not spelt."""
        words = [self.method, f"queries-{self.queries}", self.model, self.recipe]
        words += [f"epochs-{self.epochs}"] if self.epochs else []
        words += [f"hold-out-{number(self.hold_out)}"] if self.hold_out else []
        return "_".join(filter(None, words))

    @property
    def folder(self) -> str:
        return f"{self.release.folder}/{self.slug}"

    def options(self) -> Options:
        randomness = self.release.ensemble.split.randomness(self.folder)
        chosen = {"model": self.model, "recipe": self.recipe, "epochs": self.epochs, "hold-out": self.hold_out}
        return {"method": self.method, "queries": self.queries, **chosen, **randomness}


@dataclass(frozen=True)
class Round:
    """`queries` more samples of the pool that a student asks for, chosen by `strategy` with what the rounds before
    taught it; then it learns anew from all labels so far. A release in rounds answers these queries and no others.

    `delta` is that of the bounds on all queries so far. Round 0 has no student yet.
    """

    release: Release
    method: str
    strategy: str
    queries: int
    delta: float
    model: str | None = None
    recipe: str | None = None
    epochs: int | None = None
    before: "Round | None" = None

    @property
    def split(self) -> Split:
        return self.release.ensemble.split

    @property
    def number(self) -> int:
        return self.before.number + 1 if self.before else 0

    @property
    def asked(self) -> int:
        """The number of queries so far, this round's included."""
        return self.queries + (self.before.asked if self.before else 0)

    @property
    def history(self) -> list["Round"]:
        """All rounds so far, this one last."""
        return [*(self.before.history if self.before else ()), self]

    @property
    def asker(self) -> str:
        return _joined(self.method, self.model, self.recipe, self.epochs and f"epochs-{self.epochs}")

    @property
    def slug(self) -> str:
        """The path below the release: who asks, and round after round what it asked."""
        above = self.before.slug if self.before else self.asker
        return f"{above}/round-{self.number}_{self.strategy}-{self.queries}"

    @property
    def folder(self) -> str:
        return f"{self.release.folder}/{self.slug}"

    def ask_options(self) -> Options:
        asks = {"strategy": self.strategy, "queries": self.queries, "method": self.method}
        return {**asks, **self._learner(), **self._randomness()}

    def answer_options(self) -> Options:
        return {**self.release.mechanism_options(), **self._randomness()}

    def account_options(self) -> Options:
        stated = {"queries": self.asked, "delta": self.delta}
        return {**self.release.mechanism_options(), **stated}

    def learn_options(self) -> Options:
        return {"method": self.method, "queries": self.asked, **self._learner(), **self._randomness()}

    def _learner(self) -> Options:
        return {"model": self.model, "recipe": self.recipe, "epochs": self.epochs}

    def _randomness(self) -> Options:
        return self.split.randomness(self.folder)


def _joined(*parts: object) -> str:
    return "_".join(str(part) for part in parts if part)


@dataclass(frozen=True)
class Distillation:
    """Networks that learn from an ensemble's plurality and from its probabilities, without privacy.

    The first of the pool's samples, each of the numbers of them in turn.
    """

    ensemble: Ensemble
    learner: Learner
    samples: tuple[int, ...]

    @property
    def folder(self) -> str:
        return f"{self.ensemble.folder}/distillation/{self.learner.slug}"

    def options(self) -> Options:
        return {"samples": self.samples, **self.learner.options(), **self.ensemble.split.randomness(self.folder)}

    def joined(self, other: "Distillation") -> "Distillation":
        """The distillation of the same ensemble by the same learner that answers for both."""
        return replace(self, samples=tuple(sorted({*self.samples, *other.samples})))


@dataclass(frozen=True)
class Baseline:
    """One learner trained without privacy: on all private data, or on `truth` true labels of the pool."""

    split: Split
    learner: Learner
    truth: int | None = None

    @property
    def slug(self) -> str:
        return (f"truth-{self.truth}_" if self.truth else "") + self.learner.slug

    @property
    def folder(self) -> str:
        return f"{self.split.folder}/baseline/{self.slug}"

    @property
    def samples(self) -> dict[str, str]:
        """The files that hold what it learns from, below the results."""
        if self.truth is None:
            return {"private": f"{self.split.data.folder}/private.npz"}
        return {name: f"{self.split.folder}/{name}.npz" for name in ("pool", "truth")}

    def options(self) -> Options:
        return {"queries": self.truth, **self.learner.options(), **self.split.randomness(self.folder)}


@dataclass(frozen=True)
class Audit:
    """What a mechanism loses at least, whatever so many teachers vote: it needs no votes, so all seeds share it."""

    data: Data
    teachers: int
    mechanism: str
    parameters: tuple[tuple[str, float], ...]
    queries: tuple[int, ...]
    delta: float
    runs: int
    confidence: float

    @property
    def noise(self) -> str:
        """The parameters alone: how a release is made changes no mechanism."""
        return noise_slug(self.parameters)

    @property
    def folder(self) -> str:
        return f"{self.data.folder}/audit/teachers-{self.teachers}/{self.mechanism}/{self.noise}"

    def options(self) -> Options:
        what = {"mechanism": self.mechanism, "parameter": dict(self.parameters), "teachers": self.teachers}
        how = {"queries": self.queries, "delta": self.delta, "runs": self.runs, "confidence": self.confidence}
        return {**what, **how, "seed": 0, "stream": self.folder}

    def joined(self, other: "Audit") -> "Audit":
        """The audit of the same mechanism that answers for both."""
        return replace(self, queries=tuple(sorted({*self.queries, *other.queries})))


@dataclass(frozen=True)
class Experiment:
    """All that one experiment of the configuration makes, over all seeds."""

    name: str
    accounts: tuple[Account, ...]
    students: tuple[StudentRun, ...] = ()
    baselines: tuple[Baseline, ...] = ()
    audits: tuple[Audit, ...] = ()
    rounds: tuple[Round, ...] = ()
    distillations: tuple[Distillation, ...] = ()


class Plan:
    """The union of experiments: each artefact once, found by its folder or by Snakemake's wildcards.

    Lookups take any object with the attributes that the artefact's path needs, of `dataset`, `split`, `ensemble`,
    `first`, `last`, `mechanism`, `noise`, `student`, `rounds`, `learner` and `teachers`, and raise PatebenchError when
    no experiment asks for it.
    """

    #: The names of what `collect_inputs` gives, which are options of the command too.
    COLLECTED = ("labels", "bounds", "students", "answers", "charges", "askers", "distilled")

    def __init__(self, experiments: Iterable[Experiment], results: str = "results") -> None:
        self.results = results
        self.accounts: dict[str, Account] = {}
        self.students: dict[str, StudentRun] = {}
        self.baselines: dict[str, Baseline] = {}
        self.audits: dict[str, Audit] = {}
        self.rounds: dict[str, Round] = {}
        self.distillations: dict[str, Distillation] = {}
        for experiment in experiments:
            for account in experiment.accounts:
                known = self.accounts.get(account.folder, account)
                self.accounts[account.folder] = known.joined(account)
            self.students |= {student.folder: student for student in experiment.students}
            self.baselines |= {baseline.folder: baseline for baseline in experiment.baselines}
            for audit in experiment.audits:
                self.audits[audit.folder] = self.audits.get(audit.folder, audit).joined(audit)
            self.rounds |= {each.folder: each for last in experiment.rounds for each in last.history}
            for each in experiment.distillations:
                self.distillations[each.folder] = self.distillations.get(each.folder, each).joined(each)
        self.releases = {folder: account.release for folder, account in self.accounts.items()}
        self.ensembles = {each.ensemble.folder: each.ensemble for each in self.releases.values()}
        splits = [each.split for each in self.ensembles.values()] + [each.split for each in self.baselines.values()]
        self.splits = {split.folder: split for split in splits}
        self.datasets = {each.data.name: each.data for each in self.splits.values()}

    # One lookup for each rule.

    def data(self, wildcards: Any) -> Data:
        return _find("data set", self.datasets, wildcards.dataset)

    def split(self, wildcards: Any) -> Split:
        return _find("split", self.splits, wildcards.dataset, wildcards.split)

    def ensemble(self, wildcards: Any) -> Ensemble:
        return _find("ensemble", self.ensembles, wildcards.dataset, wildcards.split, wildcards.ensemble)

    def chunk(self, wildcards: Any) -> Chunk:
        ensemble = self.ensemble(wildcards)
        chunks = {chunk.file: chunk for chunk in ensemble.chunks()}
        return _find("chunk", chunks, ensemble.folder, "chunks", f"{wildcards.first}-{wildcards.last}.npz")

    def release(self, wildcards: Any) -> Release:
        return self.account(wildcards).release

    def account(self, wildcards: Any) -> Account:
        ensemble = self.ensemble(wildcards)
        return _find("release", self.accounts, ensemble.folder, wildcards.mechanism, wildcards.noise)

    def student(self, wildcards: Any) -> StudentRun:
        return _find("student", self.students, self.release(wildcards).folder, wildcards.student)

    def round(self, wildcards: Any) -> Round:
        ensemble = self.ensemble(wildcards)
        return _find("round", self.rounds, ensemble.folder, wildcards.mechanism, wildcards.noise, wildcards.rounds)

    def distillation(self, wildcards: Any) -> Distillation:
        ensemble = self.ensemble(wildcards)
        return _find("distillation", self.distillations, ensemble.folder, "distillation", wildcards.learner)

    def baseline(self, wildcards: Any) -> Baseline:
        return _find("baseline", self.baselines, self.split(wildcards).folder, "baseline", wildcards.learner)

    def audit(self, wildcards: Any) -> Audit:
        place = "audit", f"teachers-{wildcards.teachers}", wildcards.mechanism, wildcards.noise
        return _find("audit", self.audits, self.data(wildcards).folder, *place)

    # Inputs and options that no pattern can spell, and the targets.

    def chunk_files(self, wildcards: Any) -> list[str]:
        """The chunks that make an ensemble's votes."""
        return self._below(chunk.file for chunk in self.ensemble(wildcards).chunks())

    def share_files(self, wildcards: Any) -> list[str]:
        """What an aggregator of a secure release gets."""
        return self._below(self.release(wildcards).share_files(int(wildcards.aggregator)))

    def ask_inputs(self, wildcards: Any) -> dict[str, str]:
        """What a round's strategy chooses by besides the pool: features of it, and what the round before taught."""
        this = self.round(wildcards)
        files = {"features": f"{this.split.folder}/features.npz"} if this.strategy in FEATURED else {}
        if this.before:
            files |= {name: f"{this.before.folder}/{name}.npz" for name in ("labels", "beliefs")}
        return dict(zip(files, self._below(files.values()), strict=True))

    def answered_before(self, wildcards: Any) -> list[str]:
        """The labels of the rounds before a round."""
        before = self.round(wildcards).before
        return self._below([f"{before.folder}/labels.npz"] if before else [])

    def all_asked(self, wildcards: Any) -> list[str]:
        """The queries of a round and all before it, in the order asked."""
        return self._below(f"{each.folder}/queries.npz" for each in self.round(wildcards).history)

    def weights_options(self, wildcards: Any) -> Options:
        """Where the weights of an ensemble's teachers go, if they are kept."""
        ensemble = self.ensemble(wildcards)
        return {"weights": f"{self.results}/{ensemble.folder}/weights" if ensemble.keep_weights else None}

    def collect_inputs(self, wildcards: Any) -> dict[str, list[str]]:
        """What an ensemble's collected.json joins: labels and bounds of its releases and rounds, and their students."""
        ensemble = self.ensemble(wildcards)
        releases = [folder for folder, release in self.releases.items() if release.ensemble == ensemble]
        students = [folder for folder, student in self.students.items() if student.release.ensemble == ensemble]
        rounds = [folder for folder, each in self.rounds.items() if each.release.ensemble == ensemble]
        distilled = [folder for folder, each in self.distillations.items() if each.ensemble == ensemble]
        return {
            "labels": self._below(f"{folder}/labels.npz" for folder in releases),
            "bounds": self._below(f"{folder}/bounds.json" for folder in releases),
            "students": self._below(f"{folder}/student.json" for folder in students),
            "answers": self._below(f"{folder}/labels.npz" for folder in rounds),
            "charges": self._below(f"{folder}/bounds.json" for folder in rounds),
            "askers": self._below(f"{folder}/student.json" for folder in rounds),
            "distilled": self._below(f"{folder}/distillation.json" for folder in distilled),
        }

    def collected(self) -> list[str]:
        """One file for each ensemble; together they need every artefact but the baselines."""
        return self._below(f"{folder}/collected.json" for folder in self.ensembles)

    def baseline_inputs(self, wildcards: Any) -> dict[str, str]:
        """What a baseline learns from."""
        samples = self.baseline(wildcards).samples
        return dict(zip(samples, self._below(samples.values()), strict=True))

    def baseline_files(self) -> list[str]:
        return self._below(f"{folder}/baseline.json" for folder in self.baselines)

    def modes(self) -> dict[str, str]:
        """Where the noise of each label set comes from."""
        return {f"{self.results}/{folder}/labels.npz": str(release.mode) for folder, release in self.releases.items()}

    def audit_files(self) -> list[str]:
        return self._below(f"{folder}/audit.json" for folder in self.audits)

    def secure_releases(self) -> list[Release]:
        return [release for release in self.releases.values() if release.aggregators]

    def noises(self, *, secure: bool) -> str:
        """A pattern for the noise of all releases that are made in the one way or the other."""
        return _either(release.noise for release in self.releases.values() if bool(release.aggregators) == secure)

    def artefacts(self) -> dict[str, list[str]]:
        """Every file of the plan below the pages, by the stage that makes it."""
        chunks = [chunk.file for ensemble in self.ensembles.values() for chunk in ensemble.chunks()]
        return {
            "data": self._files(self.datasets, "private.npz", "public.npz"),
            "split": self._files(self.splits, "pool.npz", "truth.npz", "test.npz"),
            "partition": self._files(self.ensembles, "partition.npz"),
            "teach": self._below(chunks),
            "votes": self._files(self.ensembles, "votes.npz", "ensemble.json"),
            "aggregate": self._files(self.releases, "labels.npz"),
            "account": self._files(self.accounts, "bounds.json"),
            "student": self._files(self.students, "student.json"),
            "features": self._files(self._featured(), "features.npz"),
            "ask": self._files(self.rounds, "queries.npz"),
            "answer": self._files(self.rounds, "labels.npz"),
            "charge": self._files(self.rounds, "bounds.json"),
            "learn": self._files(self.rounds, "student.json", "beliefs.npz"),
            "distil": self._files(self.distillations, "distillation.json"),
            "baseline": self.baseline_files(),
            "audit": self.audit_files(),
            "collect": self.collected(),
        }

    def jobs(self) -> list[str]:
        """A name for each job below the pages: its rule, then what tells it from the rule's other jobs."""
        by_rule: dict[str, Iterable[str]] = {
            "data": self.datasets,
            "split": self.splits,
            "partition": self.ensembles,
            "teach": [
                f"{ensemble.folder}/{chunk.first}-{chunk.last}"
                for ensemble in self.ensembles.values()
                for chunk in ensemble.chunks()
            ],
            "votes": self.ensembles,
            "aggregate": [folder for folder, release in self.releases.items() if not release.aggregators],
            "secure_share": [
                f"{release.folder}/{chunk.first}-{chunk.last}"
                for release in self.secure_releases()
                for chunk in release.ensemble.chunks()
            ],
            "secure_sum": [
                f"{release.folder}/{aggregator}"
                for release in self.secure_releases()
                for aggregator in range(1, (release.aggregators or 0) + 1)
            ],
            "secure_open": [release.folder for release in self.secure_releases()],
            "account": self.accounts,
            "student": self.students,
            "features": self._featured(),
            **dict.fromkeys(("ask", "answer", "charge", "learn"), self.rounds),
            "distil": [f"{each.ensemble.folder}/{each.learner.slug}" for each in self.distillations.values()],
            "baseline": [f"{each.split.folder}/{each.slug}" for each in self.baselines.values()],
            "audit": [folder.replace("/audit/", "/", 1) for folder in self.audits],
            "collect": self.ensembles,
        }
        return [f"{rule}/{name}" for rule, names in by_rule.items() for name in names]

    def wildcard_constraints(self) -> dict[str, str]:
        """A pattern for each wildcard that matches what the plan holds, and nothing else."""
        releases = [*self.releases.values(), *(each.release for each in self.rounds.values())]
        noises = [*(each.noise for each in releases), *(each.noise for each in self.audits.values())]
        learners = [each.slug for each in self.baselines.values()]
        learners += [each.learner.slug for each in self.distillations.values()]
        return {
            "dataset": _either(self.datasets),
            "split": _either(split.slug for split in self.splits.values()),
            "ensemble": _either(ensemble.slug for ensemble in self.ensembles.values()),
            "first": r"\d+",
            "last": r"\d+",
            "mechanism": _either(release.mechanism for release in releases),
            "noise": _either(noises),
            "rounds": _either(each.slug for each in self.rounds.values()),
            "student": _either(student.slug for student in self.students.values()),
            "teachers": r"\d+",
            "learner": _either(learners),
        }

    def _featured(self) -> list[str]:
        """The folders of the splits whose pool is asked about by its features."""
        return list(dict.fromkeys(each.split.folder for each in self.rounds.values() if each.strategy in FEATURED))

    def _files(self, folders: Iterable[str], *names: str) -> list[str]:
        return self._below(f"{folder}/{name}" for folder in folders for name in names)

    def _below(self, paths: Iterable[str]) -> list[str]:
        return [f"{self.results}/{path}" for path in paths]


def _find(kind: str, table: Mapping[str, T], *slugs: str) -> T:
    folder = "/".join(slugs)
    if folder not in table:
        raise PatebenchError(f"no experiment asks for the {kind} {folder}{nearest(folder, table)}")
    return table[folder]


def _either(words: Iterable[str]) -> str:
    # (?!) matches nothing; an empty alternative would match the empty name.
    return "|".join(re.escape(word) for word in dict.fromkeys(words)) or "(?!)"
