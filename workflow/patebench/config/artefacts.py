"""Describe the artefacts of a run (ensembles, label sets, rounds) and name their folders in the results folder.

The path of an artefact lists its settings in the order of the data flow: data set, split, ensemble, mechanism, student.
`core.seeds.stream_name` derives the name of the artefact's random stream from this path.
"""

from dataclasses import dataclass, field
from typing import Any

from patebench.config.parameters import (
    ImportParameters,
    PartitionParameters,
    SelectionParameters,
    SplitParameters,
    StudentParameters,
    TeacherParameters,
    TrainingParameters,
)
from patebench.config.settings import DatasetSettings
from patebench.core.seeds import Mode, stream_name
from patebench.core.spelling import parameters_slug, slug
from patebench.mechanisms import MECHANISMS
from patebench.models import on_queries
from patebench.students import selects_by_features

#: Options of a command, by name; `core.spelling.command_words` writes them as text.
Options = dict[str, Any]

_TRAINING = TeacherParameters()


@dataclass(frozen=True)
class Data:
    """Data set of an experiment: built-in, or declared under `datasets` in the configuration.

    `settings` contains the declaration, None for a built-in data set. Two instances with the same name are equal.
    """

    name: str
    settings: DatasetSettings | None = field(default=None, compare=False)

    @property
    def names_owners(self) -> bool:
        """Return True if the data set is a table with a declared column for the owner of each record."""
        table = self.settings.table if self.settings else None
        return table is not None and table.owner is not None


@dataclass(frozen=True)
class Split:
    """Random division of the public samples into the pool and the test set, determined by `seed`.

    `parameters` contains the sizes of pool and test set. `encoder_file` is the path of the user's own encoder network,
    or None for a built-in encoder.
    """

    data: Data
    seed: int
    parameters: SplitParameters
    encoder_file: str | None = None

    @property
    def name(self) -> str:
        return f"{self.data.name}/{slug(('seed', self.seed), self.parameters.slug)}"

    def random(self, folder: str) -> Options:
        """Return the command options `seed` and `stream`, which determine the random numbers of one artefact.

        The name of the stream is derived from `folder`, the folder of the artefact.
        """
        return {"seed": self.seed, "stream": stream_name(folder)}


@dataclass(frozen=True)
class Ensemble:
    """Teachers on disjoint shards of the private data.

    Parameters
    ----------
    split : division of the public samples; the pool contains the possible queries.
    teachers : number of teachers.
    partition : strategy that assigns the private samples to the teachers.
    training : settings of the teachers' training, such as the model. For imported votes, `training.model` is the name
        of these votes.
    work : settings of the training jobs that change no vote, such as the number of teachers per job.
    queries : strategy and number of the queries, if these are selected before the teachers vote. None if the teachers
        vote on the whole pool or in rounds of active learning (see `votes_in_rounds`).
    imported : name and classes of votes that are read from a file, or None for trained teachers.
    """

    split: Split
    teachers: int
    partition: PartitionParameters
    training: TrainingParameters
    work: TeacherParameters = _TRAINING
    queries: SelectionParameters | None = None
    imported: ImportParameters | None = None

    @property
    def slug(self) -> str:
        if self.imported:
            return slug(("teachers", self.teachers), self.imported.slug)
        queries = ("queries", self.queries.queries if self.queries else None)
        return slug(("teachers", self.teachers), queries, self.partition.slug, self.training.slug)

    @property
    def name(self) -> str:
        return f"{self.split.name}/{self.slug}"

    @property
    def chunks(self) -> list[str]:
        """Return the teachers of each training job as ranges of numbers, such as ["0-24", "25-49"]."""
        size = self.work.chunk
        return [f"{first}-{min(first + size, self.teachers) - 1}" for first in range(0, self.teachers, size)]

    @property
    def votes_by_query(self) -> bool:
        """Return True if each private record votes with its own label on public queries, so no teacher is trained.

        The teachers' votes then depend on features of the records and of the queries.
        """
        return self.imported is None and on_queries(self.training.model)

    @property
    def votes_in_rounds(self) -> bool:
        """Return True if the teachers vote in every round of active learning, on the queries of that round only.

        Otherwise they vote once, on all queries of the ensemble.
        """
        return self.votes_by_query and not self.queries

    @property
    def has_pool(self) -> bool:
        """Return True if the queries are samples of the pool; False for imported votes on unknown samples."""
        return self.imported is None or self.imported.classes is None


@dataclass(frozen=True)
class Setting:
    """Mechanism with values for its parameters.

    `parameters` are pairs of name and value, in the order in which the mechanism declares its parameters.
    """

    mechanism: str
    parameters: tuple[tuple[str, float], ...]

    @property
    def slug(self) -> str:
        return parameters_slug(dict(self.parameters))

    @property
    def name(self) -> str:
        return f"{self.mechanism}/{self.slug}"

    def options(self) -> Options:
        return {"mechanism": self.mechanism, "parameter": dict(self.parameters)}


@dataclass(frozen=True)
class Round:
    """One round of active learning: queries are selected and labelled, and a student is trained on all labels so far.

    Parameters
    ----------
    ensemble : teachers that vote on the queries.
    setting : mechanism that labels the queries.
    selection : strategy and number of the queries. From the second round on, the strategy may use the predictions of
        the student of the previous round.
    student : method and model of the student.
    mode : source of the noise.
    previous : round before this one; None for the first round.
    """

    ensemble: Ensemble
    setting: Setting
    selection: SelectionParameters
    student: StudentParameters
    mode: Mode
    previous: "Round | None" = None

    @property
    def rounds(self) -> list["Round"]:
        """Return all rounds from the first to this one."""
        return [*(self.previous.rounds if self.previous else []), self]

    @property
    def total(self) -> int:
        """Return the total number of queries in all rounds up to this one."""
        return sum(round.selection.queries for round in self.rounds)

    @property
    def slugs(self) -> str:
        """Return the path "round-0_…/round-1_…/…" with one folder for each round up to this one."""
        return "/".join(f"round-{i}_{round.selection.slug}" for i, round in enumerate(self.rounds))

    @property
    def name(self) -> str:
        noise = slug(self.setting.slug, _mode_part(self.mode))
        return f"{self.ensemble.name}/{self.setting.mechanism}/{noise}/{self.student.slug}/{self.slugs}"

    @property
    def uses_features(self) -> bool:
        """Return True if the selection strategy of this round reads the features of the pool."""
        return selects_by_features(self.selection.strategy)

    def options(self) -> Options:
        random = self.ensemble.split.random(self.name)
        return {**self.selection.options(), **self.student.options(), **random}


@dataclass(frozen=True)
class LabelSet:
    """Labels that one mechanism gives to the queries of an ensemble.

    Parameters
    ----------
    ensemble : the teachers whose votes are aggregated.
    setting : the mechanism and its parameters.
    mode : source of the noise.
    budget : (ε, δ) at which answering stops, or None to answer all queries.
    round : round of active learning; the label set contains the labels of this round and of all earlier ones. None
        without active learning.
    aggregators : number of parties that sum secret shares of the votes, or None if a single party sums the votes.
    """

    ensemble: Ensemble
    setting: Setting
    mode: Mode = Mode.SEEDED
    budget: tuple[float, float] | None = None
    round: Round | None = None
    aggregators: int | None = None

    @property
    def plain_name(self) -> str:
        """Return the folder name of these labels without the suffix for secure aggregation.

        Random streams are named after this folder, so labels with and without secure aggregation use the same random
        numbers.
        """
        if self.round:
            return self.round.name
        limit = slug(*zip(("budget", "delta"), self.budget, strict=True)) if self.budget else None
        noise = slug(self.setting.slug, _mode_part(self.mode), limit)
        return f"{self.ensemble.name}/{self.setting.mechanism}/{noise}"

    @property
    def name(self) -> str:
        return f"{self.plain_name}_secure-{self.aggregators}" if self.aggregators else self.plain_name

    @property
    def voters(self) -> str:
        """Return the folder of the votes: that of `round` if teachers vote in each round, else that of `ensemble`."""
        return self.round.name if self.round and self.ensemble.votes_in_rounds else self.ensemble.name

    @property
    def read_by_features(self) -> bool:
        """Return True if students need the pool's features to compute labels from the released table of noisy counts.

        Labels are then computed for all queries together, and the features show which queries are similar.
        """
        ensemble = self.ensemble
        by_features = ensemble.queries is not None and ensemble.training.neighbours is None
        if self.round:
            by_features = self.round.uses_features or ensemble.votes_in_rounds
        return by_features and MECHANISMS.load(self.setting.mechanism).answering == "as table"

    def noise_options(self, ledger: str) -> Options:
        """Return the command options that select the source of the noise.

        For seeded noise, these are the options `seed` and `stream`. In release mode, they are the option `release`,
        which is True, and the option `ledger`, the folder in which releases are recorded.
        """
        if self.mode is Mode.RELEASE:
            return {"release": True, "ledger": ledger}
        return self.ensemble.split.random(self.plain_name)


def _mode_part(mode: Mode) -> str | None:
    return str(mode) if mode is Mode.RELEASE else None


@dataclass
class Experiment:
    """Label sets and ensembles of one experiment for all its seeds.

    The dicts `label_sets` and `ensembles` serve as ordered sets: only their keys are used.
    """

    name: str
    label_sets: dict[LabelSet, None] = field(default_factory=dict)
    ensembles: dict[Ensemble, None] = field(default_factory=dict)
