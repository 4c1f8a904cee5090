"""The plan of a run: the jobs of all its experiments, each once, found by stage and by Snakemake's wildcards."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest
from patebench.plan.jobs import (
    BY_STAGE,
    STAGES,
    Account,
    Aggregate,
    Audit,
    Below,
    Collect,
    Distil,
    Ensemble,
    File,
    Inputs,
    Job,
    NameClusters,
    SecureOpen,
    TrainBaseline,
    TrainPetdl,
    TrainStudent,
)
from patebench.plan.words import shell, words


@dataclass(frozen=True)
class Experiment:
    """All that one experiment of the configuration asks for, over all seeds; what these need follows from them."""

    name: str
    accounts: tuple[Account, ...]
    students: tuple[TrainStudent, ...] = ()
    baselines: tuple[TrainBaseline, ...] = ()
    namings: tuple[NameClusters, ...] = ()
    audits: tuple[Audit, ...] = ()
    distillations: tuple[Distil, ...] = ()
    private_models: tuple[Job, ...] = ()

    def jobs(self) -> Iterator[Job]:
        yield from (*self.accounts, *self.students, *self.distillations, *self.baselines, *self.audits)
        yield from (*self.namings, *self.private_models)


def united(parts: Sequence[Experiment]) -> Experiment:
    """One experiment that asks for all that these do, which have one name; what several ask for is there once."""
    made: dict[str, dict[Job, None]] = {each.name: {} for each in fields(Experiment) if each.name != "name"}
    for part in parts:
        for name, jobs in made.items():
            jobs.update(dict.fromkeys(getattr(part, name)))
    return Experiment(parts[0].name, **{name: tuple(jobs) for name, jobs in made.items()})  # type: ignore[arg-type]


class Plan:
    """Jobs and all that they need, by stage and name.

    `results` and `pages` are the folders of everything that is made, and of one configuration's figures, tables and
    report.
    """

    def __init__(self, jobs: Iterable[Job], results: str = "results", pages: str = "results") -> None:
        self.roots = {"results": results, "pages": pages}
        self.jobs: dict[str, dict[str, Job]] = {stage.stage(): {} for stage in STAGES}
        for job in jobs:
            self.add(job)
        for job in self._collections():
            self.add(job)

    def __iter__(self) -> Iterator[Job]:
        return (job for jobs in self.jobs.values() for job in jobs.values())

    def of(self, stage: type[Job]) -> list[Any]:
        """The jobs of a stage."""
        return list(self.jobs[stage.stage()].values())

    def label_sets(self) -> list[Aggregate]:
        return [account.labels for account in self.of(Account)]

    @property
    def aggregators(self) -> int:
        """How many aggregators share the votes among them; 0 where none do."""
        return max((labels.parties for labels in self.of(SecureOpen)), default=0)

    # What the rules ask for.

    def find(self, stage: str, wildcards: Any) -> Job:
        """The job of a stage that these wildcards (attributes of any object) name; PatebenchError if there is none."""
        kind = BY_STAGE[stage]
        values = {name: str(getattr(wildcards, name)) for name in kind.wildcards()}
        key, jobs = "/".join(values.values()), self.jobs[stage]
        if key not in jobs:
            raise PatebenchError(f"no experiment asks for {stage} {key}{nearest(key, jobs)}")
        return jobs[key]

    def inputs(self, job: Job) -> dict[str, list[str]]:
        """All files that a job reads or waits for, by name."""
        return self._paths({**job.inputs(), **job.dependencies()})

    def outputs(self, stage: str) -> dict[str, str | list[str]]:
        """The patterns of what a stage makes, with its wildcards in braces."""
        kind = BY_STAGE[stage]
        each = next((job.each for job in self.jobs[stage].values()), ())
        found: dict[str, str | list[str]] = {}
        root = self._escaped(kind.root)
        for option, pattern in kind.files.items():
            several = [f"{root}/{pattern.replace('*', name)}" for name in each]
            found[option.replace("-", "_")] = several if "*" in pattern else f"{root}/{pattern}"
        return found

    def made(self, job: Job) -> dict[str, list[str]]:
        """The files that a job makes, by option."""
        return {option: [f"{self.roots[job.root]}/{path}" for path in job.paths(option)] for option in job.files}

    def constraints(self, stage: str) -> dict[str, str]:
        """For each wildcard of a stage, a pattern that matches what its jobs have there and nothing else."""
        values = [job.values for job in self.jobs[stage].values()]
        kind = BY_STAGE[stage]
        return {name: _either(each[name] for each in values) for name in kind.wildcards()}

    def place(self, stage: str, folder: str, suffix: str, run: str) -> str:
        """The pattern of a stage's log or benchmark files."""
        kind = BY_STAGE[stage]
        names = [*([run] if kind.root == "pages" else []), *(f"{{{name}}}" for name in kind.wildcards())]
        return f"{self._escaped('results')}/{folder}/{stage}/{'/'.join(names)}.{suffix}"

    def command(self, job: Job) -> list[str]:
        """The words of a job's command after `patebench`, but for its log and its number of threads."""
        options = {name: self._located(value) for name, value in job.options().items()}
        first = {"": options.pop("")} if "" in options else {}
        return [job.stage(), *words({**first, **self._paths(job.inputs()), **options, **self.made(job)})]

    def shell(self, job: Job) -> str:
        """The same as text for a shell."""
        return shell(self.command(job), Path(self.roots["results"]) / "logs" / job.stage() / f"{job.name}.words")

    def artefacts(self) -> dict[str, list[str]]:
        """Every file that the plan makes, by stage."""
        return {
            stage: [path for job in jobs.values() for paths in self.made(job).values() for path in paths]
            for stage, jobs in self.jobs.items()
        }

    def modes(self) -> dict[str, str]:
        """Where the noise of each label set comes from, by its file."""
        return {self.path(labels.file): str(labels.mode) for labels in self.label_sets()}

    def names(self) -> list[str]:
        """A name for each job, which its log and benchmark file bear: its stage, then what tells it from others."""
        return [f"{job.stage()}/{job.name}" for job in self]

    def path(self, file: File) -> str:
        return f"{self.roots[file.job.root]}/{file.path}"

    def add(self, job: Job) -> None:
        """Add a job and all that it needs; one that makes the same files as a known job is joined with it."""
        jobs = self.jobs[job.stage()]
        if known := jobs.get(job.key):
            job = known.joined(job)
        jobs[job.key] = job
        for files in (*job.inputs().values(), *job.dependencies().values()):
            for file in _several(files):
                if isinstance(file, File) and file.job.key not in self.jobs[file.job.stage()]:
                    self.add(file.job)

    def _collections(self) -> Iterator[Collect]:
        """For each ensemble, and for each round in which it votes anew, the job that collects all that is known."""
        found: dict[Ensemble, tuple[list[Account], list[TrainStudent], list[Distil]]] = {}
        for account in self.of(Account):
            found.setdefault(account.labels.voters, ([], [], []))[0].append(account)
        for student in self.of(TrainStudent):
            found.setdefault(student.labels.voters, ([], [], []))[1].append(student)
        for each in self.of(Distil):
            found.setdefault(each.ensemble, ([], [], []))[2].append(each)
        for model in self.of(TrainPetdl):
            found.setdefault(model.ensemble, ([], [], []))
        return (Collect(ensemble, *map(tuple, jobs)) for ensemble, jobs in found.items())  # type: ignore[arg-type]

    def _paths(self, inputs: Inputs) -> dict[str, list[str]]:
        return {
            name: [self.path(file) if isinstance(file, File) else file for file in _several(files)]
            for name, files in inputs.items()
        }

    def _located(self, value: Any) -> Any:
        return f"{self.roots['results']}/{value}" if isinstance(value, Below) else value

    def _escaped(self, root: str) -> str:
        """A root in a pattern, where braces would be wildcards."""
        return self.roots[root].replace("{", "{{").replace("}", "}}")


def _several(files: File | Sequence[File | str]) -> Sequence[File | str]:
    return [files] if isinstance(files, File) else files


def _either(values: Iterable[str]) -> str:
    # (?!) matches nothing; an empty alternative would match the empty name.
    return "|".join(re.escape(value) for value in dict.fromkeys(values)) or "(?!)"
