"""What a configuration may hold: the parameters of the stages, and how they are put together. The shape alone.

What the values mean is checked in `experiments`, against the registries and the mechanisms' own rules.
"""

from itertools import filterfalse
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from patebench.config.parameters import (
    AccountingParameters,
    AuditParameters,
    ClassParameters,
    DistilParameters,
    DpsgdParameters,
    LearnerParameters,
    LedgerSettings,
    PartitionParameters,
    PetdlParameters,
    Place,
    PositiveWhole,
    PrivateKnnParameters,
    SplitParameters,
    Strategy,
    StudentParameters,
    TeacherParameters,
    TrainingParameters,
    WholeFrom0,
)
from patebench.core.fields import (
    List,
    Map,
    Names,
    Number,
    OneOrMore,
    Parameters,
    Series,
    Text,
    Truth,
    Whole,
    listed,
    mistake,
    one_of,
    plain_name,
    with_lists,
)
from patebench.core.seeds import Mode
from patebench.data import DATASETS, reads_own_files
from patebench.data.declaration import ImageParameters, TableDeclaration
from patebench.models import on_queries

#: Each mechanism with its parameters: a number or a list each.
Mechanisms = Annotated[Map[Map[OneOrMore[Number]]], Field(min_length=1)]


def _strategy(value: Any) -> Any:
    """Return a strategy without settings for its name."""
    return {"strategy": value} if isinstance(value, str) else value


def names(value: Any) -> Any:
    """Names in one text, with commas between them as a command line has them, as a list."""
    if isinstance(value, str):
        return [name for name in map(str.strip, value.split(",")) if name]
    return listed(value)


class SecureSettings(Parameters):
    """Secure aggregation."""

    aggregators: Whole = Field(
        ge=2, le=100, description="How many aggregators share the votes among them; all but one of them learn nothing."
    )


class DatasetSettings(ClassParameters):
    """A data set of your own."""

    loader: Annotated[Text, one_of(lambda: filter(reads_own_files, DATASETS))] = Field(
        description="How to read it: table (CSV, TSV, Parquet), folder (images of any size, in a folder for each class"
        " or named by an index) or npz (arrays x and y)."
    )
    private: Place | None = Field(None, description="The file or folder with the private samples.")
    public: Place | None = Field(
        None, description="The file or folder with the public samples, from which pool and test set are drawn."
    )
    index: Place | None = Field(
        None, description="With folder, instead of two folders: a table of the images' path, label, part and owner."
    )
    table: TableDeclaration | None = Field(None, description="With table, what its columns mean; all of it is public.")
    images: ImageParameters | None = Field(None, description="With folder, how images become images of one size.")
    copy_of: Annotated[Text, one_of(lambda: filterfalse(reads_own_files, DATASETS))] | None = Field(
        None,
        description=(
            "The built-in data set whose samples these are, changed, such as compressed: what papers print of it stands"
            " beside what is measured here, but nothing counts as reproduced."
        ),
    )

    @model_validator(mode="after")
    def _suits_the_loader(self) -> Self:
        for key, loader in (("table", "table"), ("images", "folder"), ("index", "folder")):
            if getattr(self, key) is not None and self.loader != loader:
                raise mistake(f"is for the loader {loader}, and this is {self.loader}; leave it out", key)
        if self.loader == "table" and self.table is None:
            raise mistake("is missing; patebench describe proposes it from public data", "table", code="missing")
        if self.index is not None:
            needless = next((key for key in ("private", "public") if getattr(self, key) is not None), None)
            if needless:
                raise mistake("the index names all images; leave one of both out", needless)
            return self
        if self.private is None:
            raise mistake("is missing; add it (the file or folder with the private samples)", "private", code="missing")
        shared = self.table is not None and self.table.public_share is not None
        if shared and self.public is not None:
            raise mistake("table.public_share divides one file; leave one of both out", "public")
        if not shared and self.public is None:
            hint = "is missing; add it (the file or folder with the public samples)"
            also = ", or say which share of one file is public: table.public_share" if self.table is not None else ""
            raise mistake(hint + also, "public", code="missing")
        return self

    @property
    def files(self) -> tuple[tuple[str, str], ...]:
        """The user's own files and folders, by the loader's option."""
        named = (("private", self.private), ("public", self.public), ("index", self.index))
        return tuple((name, path) for name, path in named if path is not None)

    @property
    def declared(self) -> tuple[tuple[str, str], ...]:
        """What is declared of the data, as JSON, by the loader's option."""
        named = (("table", self.table), ("images", self.images))
        return tuple((name, each.model_dump_json(exclude_unset=True)) for name, each in named if each is not None)

    @property
    def names_owners(self) -> bool:
        """Whether the data name the owner of each record."""
        return self.table is not None and self.table.owner is not None


class EnsembleSettings(TrainingParameters, TeacherParameters):
    """Ensembles of teachers."""

    teachers: OneOrMore[PositiveWhole] = Field(
        description="How many teachers; a list makes one ensemble for each number."
    )
    partition: Annotated[PartitionParameters, BeforeValidator(_strategy)] = Field(
        PartitionParameters(),
        description="How the private data is dealt to the teachers, a strategy's name or a strategy with its settings.",
        json_schema_extra={"or_text": True},
    )

    @model_validator(mode="after")
    def _trains_a_network(self) -> Self:
        for key in ("soft", "hints"):
            if on_queries(self.model) and getattr(self, key):
                raise mistake(f"'{self.model}' trains no network; leave it out", key)
        return self


class _OfEnsembles(Parameters):
    """Something that is made for some of the ensembles."""

    teachers: OneOrMore[PositiveWhole] | None = Field(
        None, description="Which of the ensembles, by their number of teachers; all by default."
    )


class StudentSettings(_OfEnsembles, StudentParameters):
    """Students of labels of the whole pool."""

    mechanisms: Mechanisms = Field(
        description="The mechanisms whose labels it learns from, written like `mechanisms` above and among them."
    )
    queries: OneOrMore[PositiveWhole] | None = Field(
        None,
        description="How many labels it sees, one student for each number; among those of `accounting`, the largest by"
        " default.",
    )


class RoundsSettings(_OfEnsembles, StudentParameters):
    """Students whose queries are selected in rounds."""

    strategy: OneOrMore[Strategy] = Field(
        description="How queries are selected, a name of the registry; the first round is random for those that need a"
        " student, and of prototypes for teachers that vote on queries alone. A list compares."
    )
    mechanisms: Mechanisms = Field(
        description="The mechanisms that answer, written like `mechanisms` above; only what is selected is answered."
    )
    queries: Series[PositiveWhole] = Field(description="How many queries each round selects, in turn.")


class DistilSettings(_OfEnsembles, DistilParameters):
    """Networks that learn from plain labels and from probabilities."""


_DELTA = {"delta": "by default that of `accounting`."}
_PETDL_LISTS = [name for name in PetdlParameters.model_fields if name != "delta"]


class DpsgdSettings(with_lists(DpsgdParameters, "epsilon", by_default=_DELTA)):  # type: ignore[misc]
    """Models trained by DP-SGD, one for each ε."""


class PrivateKnnSettings(with_lists(PrivateKnnParameters, by_default=_DELTA)):  # type: ignore[misc]
    """Students of labels by the nearest private records."""


class PetdlSettings(_OfEnsembles, with_lists(PetdlParameters, *_PETDL_LISTS, by_default=_DELTA)):  # type: ignore[misc]
    """Students of PET-DL: one for each ensemble and each combination of what is listed."""


class TrueLabelSettings(LearnerParameters):
    """A model trained on true labels of the pool."""

    queries: OneOrMore[PositiveWhole] = Field(description="How many of the pool's first samples.")


class PublicReferenceSettings(Parameters):
    """What public data alone knows of the classes."""

    clusters: OneOrMore[PositiveWhole] = Field(description="How many clusters of the pool are named, in turn.")


class AuditSettings(_OfEnsembles, AuditParameters):
    """An audit of every mechanism of the experiment."""

    queries: OneOrMore[PositiveWhole] | None = Field(
        None,
        description="The numbers of queries audited, beside one; among those of `accounting`, the largest by default.",
    )


class ExperimentSettings(SplitParameters):
    """One experiment."""

    seeds: OneOrMore[WholeFrom0] | None = Field(
        None, description="Base seeds of this experiment, in place of those above."
    )
    dataset: Text = Field(description="A built-in data set, or one of `datasets`.")
    queries: OneOrMore[PositiveWhole] | None = Field(
        None,
        description="How many queries are put to the teachers: so many prototypes of the pool, which its public"
        " features choose, or random samples of it where records have several `neighbours` among them; a list makes"
        " everything for each number. Every sample of the pool by default.",
    )
    ensembles: List[EnsembleSettings] = Field(min_length=1, description="The ensembles of teachers.")
    mechanisms: Mechanisms = Field(
        {},
        description="The mechanisms that label the whole pool, each with its parameters: numbers, or lists that"
        " multiply. May be left out where `rounds` select all queries.",
    )
    accounting: AccountingParameters = Field(description="What ε is reported for.")
    students: List[StudentSettings] = Field([], description="The students, trained on released labels.")
    audit: AuditSettings | None = Field(
        None, description="What mechanisms lose at least, searched for and measured, beside what is stated of them."
    )
    rounds: List[RoundsSettings] = Field(
        [], description="Students whose queries are selected round by round, from what they have learnt so far."
    )
    distillation: List[DistilSettings] = Field(
        [],
        description="Networks that learn from plain labels and from probabilities, without privacy, to compare these.",
    )
    petdl: List[PetdlSettings] = Field(
        [],
        description="Students of PET-DL, which learn from all that teachers say of the pool, as published or in sound"
        " forms.",
    )
    baseline: LearnerParameters | None = Field(
        None, description="A model trained on all private data, without privacy, for comparison."
    )
    public_reference: PublicReferenceSettings | None = Field(
        None,
        description="Clusters of the pool named by its true labels, for comparison: what public data alone tells apart,"
        " at ε = 0. No release can name them so.",
    )
    dpsgd: List[DpsgdSettings] = Field(
        [], description="Models trained on all private data by DP-SGD, which are private themselves, for comparison."
    )
    private_knn: List[PrivateKnnSettings] = Field(
        [],
        description="Students of labels that the nearest private records vote for (Private-kNN), as published or in a"
        " sound form.",
    )
    true_label_baseline: TrueLabelSettings | None = Field(
        None, description="A model trained on so many true labels of the pool, for comparison with students."
    )


class ConfigSettings(Parameters):
    """A whole configuration."""

    name: Annotated[Text, AfterValidator(lambda name: plain_name(name) if name else name)] = Field(
        "", description="The report, figures and tables go to <results>/<name>/; empty for the default run."
    )
    results: Place = Field("results", description="The folder for everything that is made.")
    data_root: Text = Field(
        "data",
        min_length=1,
        description="Where data sets are looked for and downloaded to; the environment variable PATEBENCH_DATA"
        " overrides it.",
    )
    download: Truth = Field(True, description="Whether a missing data set may be downloaded.")
    mode: Annotated[Text, one_of(lambda: Mode)] = Field(
        "seeded",
        description="seeded: noise that can be drawn again, for experiments. release: discrete noise from the operating"
        " system's entropy, drawn once, for labels that are handed out; one label set of each data set.",
    )
    secure: SecureSettings | None = Field(
        None,
        description="Turns on secure aggregation for the mechanisms that have it: distributed-gnmax and "
        "distributed-sparse-gnmax.",
    )
    ledger: LedgerSettings | None = Field(
        None,
        description="What all releases from one private data set may cost together, and the name of that data. The"
        " limit is given with the first release; without it there may be one alone.",
    )
    seeds: OneOrMore[WholeFrom0] = Field(
        description="Base seeds; every experiment without seeds of its own is run once for each."
    )
    only: Annotated[tuple[Text, ...], BeforeValidator(names)] = Field(
        (), description="The experiments to run, a list or names with commas between them; empty for all."
    )
    datasets: Names[DatasetSettings] = Field({}, description="Your own data sets, by name.")
    experiments: Annotated[Names[ExperimentSettings], Field(min_length=1)] = Field(description="What to run, by name.")
