"""Entry of the leaderboard: one method on one data set at one ε, as JSON.

Entries written by hand are files of `leaderboard/entries/` at the root of the repository. All other entries are
computed whenever they are needed: from the tables of kept runs, and from the published values in
`config/published.csv`. To read all entries:

    for assessed in patebench.leaderboard.collection.assess_all(root):
        assessed.entry        # Entry: statements of the paper or run
        assessed.status       # Status: proved, unproved, violated or unchecked; only proved entries are ranked
        assessed.bound        # worst-case bound that our accountants compute, with its theorem, or None
        assessed.lower        # largest known lower bound on ε, or None
        assessed.problems     # problems, each with a code and a sentence

A field is null if the source does not state it; `assessment` lists such fields. Accuracies are fractions.
"""

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, ValidationError, model_validator

from patebench.core.bound import SMALLEST_DELTA, Kind
from patebench.core.errors import FaultsError, PatebenchError
from patebench.core.text import in_json

#: An ε; in JSON, infinity is the text "inf".
Epsilon = Annotated[float, Field(ge=0, allow_inf_nan=True), PlainSerializer(in_json, when_used="json")]

#: Maximum of the counts in an entry, which limits the memory needed to compute its bounds to a few gigabytes.
MOST = 10**7

_Count = Annotated[int, Field(ge=1, le=MOST, strict=True)]  # strict: JSON true is not the number 1
_Fraction = Annotated[float, Field(ge=0, le=1)]


class Unit(StrEnum):
    """Unit of privacy: what differs between adjacent data sets."""

    RECORD = "record"
    LABEL = "label"
    SHARD = "teacher's shard"
    OWNER = "owner"


class Change(StrEnum):
    """Change of one unit of privacy (a record, label, shard or owner) between adjacent data sets."""

    REPLACED = "replaced"
    ADDED_OR_REMOVED = "added or removed"


class Origin(StrEnum):
    """Origin of an entry: a kept run, a published value, or a file written by hand."""

    KEPT = "kept run"
    PUBLISHED = "published value"
    WRITTEN = "written by hand"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Paper(_Part):
    """Paper, or run of patebench, that states the numbers of an entry."""

    title: str = Field(min_length=1, description="Short name with the year, such as “PATE 2017”, or the full title.")
    authors: str | None = Field(None, description="Authors, separated by commas.")
    year: int | None = Field(None, ge=1990, le=2100)
    url: str | None = Field(None, description="Address of the paper.")
    code: str | None = Field(None, description="Address of the code.")
    place: str | None = Field(None, description="Table, row and column, or file and line, that state the numbers.")


class Data(_Part):
    """Names and sizes of the private and public data that an entry used."""

    private: str = Field(min_length=1, description="Name of the private data set.")
    records: int | None = Field(None, ge=1, le=10**15, description="Number n of private records.")
    public: str | None = Field(None, description="Public data and their use; “none” if there are none.")
    public_samples: int | None = Field(None, ge=0, le=10**15, description="Number of public samples.")
    encoder: str | None = Field(None, description="Pretrained or public encoder; “none” if there is none.")


class Privacy(_Part):
    """Statement of privacy: unit, adjacency and δ."""

    unit: Unit | None = Field(None, description="What differs between adjacent data sets.")
    adjacency: Change | None = Field(None, description="Change of that unit between adjacent data sets.")
    delta: float | None = Field(None, ge=SMALLEST_DELTA, lt=1)


class Claim(_Part):
    """Reported ε of an entry, and its kind, such as worst case."""

    epsilon: Epsilon
    kind: Kind = Field(description="Kind of the reported ε; worst_case if it holds for all data.")


class VoteMechanism(_Part):
    """Mechanism of patebench that answers queries by teachers' votes."""

    type: Literal["votes"]
    name: str = Field(description="Name in the registry of mechanisms.")
    parameters: dict[str, float]
    queries: _Count = Field(description="Number of queries, answered or not.")
    answers: int | None = Field(
        None,
        ge=0,
        le=MOST,
        description="Maximum number of answers, fixed before the first vote, of a mechanism that tests each query.",
    )
    teachers: _Count | None = Field(None, description="Number of teachers.")
    partition: Literal["one record each", "one shard changes"] | None = Field(
        None,
        description="How records belong to teachers; needed if the unit of privacy is a record or label: “one record"
        " each” if every teacher has exactly one record, “one shard changes” if a changed record or label changes the"
        " shard of one teacher only; null if it may move other records.",
    )
    votes_per_teacher: _Count | None = Field(
        None, description="Maximum number of votes that a teacher casts in a round; null if it may vote on all queries."
    )
    weighted: bool | None = Field(
        None,
        description="True if a teacher's votes are weights, whose squares sum to at most the parameter k; false if each"
        " vote counts as 1; null if that is unknown, so that ε covers both.",
    )
    classes: int | None = Field(None, ge=2, le=10_000, description="Number of classes.")
    rounds: _Count = Field(1, description="Number of rounds; a limit on a teacher's votes applies to each round.")


class Steps(_Part):
    """Noisy steps with equal parameters, each on a random sample of the records."""

    sampling: Literal["poisson", "shuffled"] | None = Field(
        None,
        description="Poisson sampling, or a fixed number of batches of shuffled records without privacy amplification.",
    )
    rate: float = Field(gt=0, le=1, description="Share of the records in a step: batch size / number of records.")
    noise: float = Field(ge=0, description="Noise multiplier: standard deviation divided by the clipping norm.")
    steps: _Count = Field(description="Number of steps: epochs / rate.")


class SampledGaussian(_Part):
    """DP-SGD, or any other Gaussian mechanisms that are each applied to a random sample of the records."""

    type: Literal["dp-sgd"]
    parts: list[Steps] = Field(min_length=1, max_length=100, description="Steps of each kind.")

    @property
    def unknown_sampling(self) -> bool:
        """Return True if it is not stated how the records of a step are sampled."""
        return any(part.sampling is None and part.rate < 1 for part in self.parts)


class Table(_Part):
    """Noisy tables of votes: each is the sum of the records' vectors of votes, with Gaussian noise on each cell.

    A record's vector has an L2 norm of at most 1. If the unit of privacy is a label, votes for different labels are in
    different cells.
    """

    type: Literal["table"]
    sigma: float = Field(gt=0, description="Standard deviation of the noise, for votes with an L2 norm of at most 1.")
    tables: _Count = Field(1, description="Number of tables.")
    non_negative: bool = Field(False, description="True if no two votes have a negative inner product.")
    records_per_owner: _Count | None = Field(
        None, description="Maximum number of records of one owner; needed if the unit of privacy is an owner."
    )


class GaussianComposition(_Part):
    """Composition of Gaussian mechanisms that together are μ-GDP for the stated unit and adjacency."""

    type: Literal["gaussian"]
    mu: float = Field(ge=0, description="μ of Gaussian differential privacy.")
    because: str = Field(min_length=1, description="Sensitivity, noise and number of releases that give μ.")


class PureSteps(_Part):
    """Composition of steps that are each ε-differentially private without δ, for the stated unit and adjacency."""

    type: Literal["pure"]
    epsilon: float = Field(ge=0, description="ε of one step.")
    steps: _Count = 1
    because: str = Field(min_length=1, description="Mechanism, sensitivity and noise that give this ε.")


class NoNoise(_Part):
    """Release without effective noise, so its ε is ∞."""

    type: Literal["no noise"]
    because: str = Field(min_length=1, description="Reason why the stated noise does not protect.")


Release = Annotated[
    VoteMechanism | SampledGaussian | Table | GaussianComposition | PureSteps | NoNoise, Field(discriminator="type")
]


class Accuracy(_Part):
    """Mean and spread of the test accuracy over the seeds."""

    mean: _Fraction
    std: float | None = Field(None, ge=0, description="Sample standard deviation over the seeds.")
    seeds: _Count | None = Field(None, description="Number of seeds or repetitions.")
    by_seed: dict[str, _Fraction] | None = Field(None, description="Accuracy of each seed.")
    test_samples: _Count | None = Field(None, description="Size of the test set.")

    @property
    def binomial_error(self) -> float | None:
        """Return the binomial standard error of the mean accuracy; None if the size of the test set is unknown."""
        return None if self.test_samples is None else math.sqrt(self.mean * (1 - self.mean) / self.test_samples)


class Hygiene(_Part):
    """Choices made with true labels or on the test set, which bias the accuracy."""

    true_labels: str | None = Field(None, description="Choices made with true labels; “none” if there were none.")
    best_on_test: bool | None = Field(None, description="True if the best of several test accuracies is reported.")


class Making(_Part):
    """Hardware, time and command that produced the numbers."""

    hardware: str | None = None
    minutes: float | None = Field(None, ge=0)
    command: str | None = None
    commit: str | None = Field(None, description="Commit of the code.")


class Attachment(_Part):
    """Labels or votes in an .npz file beside the entry."""

    file: str = Field(pattern=r"^[A-Za-z0-9._-]+\.npz$", description="Name of the file, in the entry's folder.")
    array: str = Field(
        min_length=1,
        description="Name of the integer array: labels (queries,), −1 for no answer, or votes (teachers, queries).",
    )


class Entry(_Part):
    """Entry of the leaderboard: one method on one data set at one ε."""

    method: str = Field(min_length=1, description="Name of the method.")
    paper: Paper
    data: Data
    privacy: Privacy
    claim: Claim = Field(description="ε as reported.")
    mechanism: Release | None = Field(None, description="Mechanism with all parameters of its worst-case ε.")
    audited: Epsilon | None = Field(None, description="Largest lower bound on ε that an audit found.")
    accuracy: Accuracy | None = Field(None, description="Null if only labels were released.")
    hygiene: Hygiene = Hygiene()
    making: Making = Making()
    attachment: Attachment | None = None
    note: str = Field("", description="Anything else that a reader must know.")
    #: Set by the reader, not in the file.
    name: str = Field("", exclude=True, description="Name of the file, or of the row from which it is derived.")
    origin: Origin = Field(Origin.WRITTEN, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _without_comment(cls, content: Any) -> Any:
        """Return `content` without the key `$schema`, which only text editors need."""
        return {key: content[key] for key in content if key != "$schema"} if isinstance(content, dict) else content


def schema_text() -> str:
    """Return the JSON schema (2020-12) of an entry as formatted text."""
    schema = Entry.model_json_schema()
    for name in ("name", "origin"):
        del schema["properties"][name]
    schema["properties"]["$schema"] = {"type": "string"}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "patebench leaderboard entry"}
    return json.dumps(head, indent=1, ensure_ascii=False) + "\n"


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of name and value in a JSON object as a dictionary; raise ValueError for a repeated name."""
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is stated twice")
    return content


def read_entry(path: Path) -> Entry:
    """Return the entry in the JSON file `path`; the name of the entry is that of the file.

    Raises PatebenchError if the file is not an entry; the error lists all invalid fields.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_without_repetition)
        json.dumps(content, ensure_ascii=False).encode()  # raises a ValueError for an unpaired surrogate
    except (OSError, ValueError, RecursionError) as fault:
        raise PatebenchError(
            f"it cannot be read as JSON ({fault}); correct the file", code="not-json", where=path
        ) from None
    try:
        return Entry.model_validate(content).model_copy(update={"name": path.stem, "origin": Origin.WRITTEN})
    except ValidationError as fault:
        faults = [
            PatebenchError(
                f"{'.'.join(map(str, error['loc'])) or 'the file'}: {error['msg']}; see docs/how-to/submit-entry.md",
                code="invalid-entry",
                where=path,
            )
            for error in fault.errors()
        ]
        raise FaultsError(faults) from None
