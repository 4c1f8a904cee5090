"""Declare the structure of the configuration file as pydantic models, built from the parameters of the stages.

The models check the value of each key. They also check combinations of keys: for example, the key `table` of a data set
requires the loader "table". `config.experiments` checks experiments against the requirements of the mechanisms, and
`config.validation` checks them against the data.
"""

from itertools import filterfalse
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, create_model, model_validator

from patebench.config.parameters import (
    AccountingParameters,
    AuditParameters,
    ClassParameters,
    DistilParameters,
    DpsgdParameters,
    FeatureMethodParameters,
    ImportParameters,
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
    single_kind,
)
from patebench.core.seeds import Mode
from patebench.data import DATASETS, reads_own_files
from patebench.data.declaration import ImageParameters, TableDeclaration
from patebench.features import ENCODERS, has_fixed_outputs
from patebench.models import by_recipe, on_queries
from patebench.students.interface import Recipe

#: Name of a mechanism → name of a parameter → its value, a number or a list of numbers.
Mechanisms = Annotated[Map[Map[OneOrMore[Number]]], Field(min_length=1)]


def _strategy_as_mapping(value: Any) -> Any:
    """Return {"strategy": `value`} if `value` is text, the name of a partition strategy; return a mapping unchanged."""
    return {"strategy": value} if isinstance(value, str) else value


def names(value: Any) -> Any:
    """Return `value` as a list of names; text, as given on a command line, is split at commas."""
    if isinstance(value, str):
        return [name for name in map(str.strip, value.split(",")) if name]
    return listed(value)


class SecureSettings(Parameters):
    """Settings of secure aggregation."""

    aggregators: Whole = Field(
        ge=2,
        le=100,
        description="Number of aggregators that receive shares of the votes. They learn nothing about the votes unless"
        " all of them collude.",
    )


class DatasetSettings(ClassParameters):
    """Settings of a user's own data set."""

    loader: Annotated[Text, one_of(lambda: DATASETS)] = Field(
        description="File format: table (CSV, TSV or Parquet), folder (images of any size, in one folder per class or"
        " listed in an index) or npz (arrays x and y). With `features` or `long_tail`, also a built-in data set."
    )
    features: OneOrMore[Annotated[Text, one_of(lambda: filter(has_fixed_outputs, ENCODERS))]] | None = Field(
        None,
        description="Encoders that are not trained on the pool. Their concatenated outputs replace the images, so all"
        " methods read the same features, which are computed once.",
    )
    long_tail: Annotated[Series[PositiveWhole], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="Numbers of private samples of the first and of the last class, such as [5000, 50]. The numbers of"
        " the classes between fall exponentially. Public samples are unchanged. Private labels decide which samples are"
        " used, so ε is for the data set after this selection, and a release is refused.",
    )
    private: Place | None = Field(None, description="File or folder with the private samples.")
    public: Place | None = Field(
        None, description="File or folder with the public samples, from which pool and test set are drawn."
    )
    index: Place | None = Field(
        None,
        description="With folder, a table with path, label, part and owner of each image, instead of one folder for"
        " private and one for public samples.",
    )
    table: TableDeclaration | None = Field(
        None, description="With table, declaration of the columns. The whole declaration is public."
    )
    images: ImageParameters | None = Field(None, description="With folder, conversion of the images to one size.")
    copy_of: Annotated[Text, one_of(lambda: filterfalse(reads_own_files, DATASETS))] | None = Field(
        None,
        description=(
            "If this data set is a modified copy, such as compressed images, the built-in original. Published values"
            " for the original are shown next to the results, but the results do not count as a reproduction."
        ),
    )

    @model_validator(mode="after")
    def _suits_the_loader(self) -> Self:
        for key, loader in (("table", "table"), ("images", "folder"), ("index", "folder")):
            if getattr(self, key) is not None and self.loader != loader:
                raise mistake(
                    f"'{key}' is only for the loader '{loader}', not for '{self.loader}'; leave '{key}' out", key
                )
        if self.loader == "table" and self.table is None:
            hint = "the key is missing; run patebench describe, which proposes a declaration from the public data"
            raise mistake(hint, "table", code="missing")
        given = [key for key in ("private", "public", "copy_of") if getattr(self, key) is not None]
        if not reads_own_files(self.loader):
            if self.features is None and self.long_tail is None:
                raise mistake(
                    f"the built-in data set '{self.loader}' needs no entry here; leave the entry out and set 'dataset: "
                    f"{self.loader}' in an experiment, or add 'features' or 'long_tail' to the entry",
                    "loader",
                )
            if given:
                raise mistake(
                    f"the built-in data set '{self.loader}' has its own files; leave '{given[0]}' out", given[0]
                )
            return self
        if self.index is not None:
            if given and given[0] != "copy_of":
                hint = f"'index' lists all images, so '{given[0]}' is not needed; give only one of the two keys"
                raise mistake(hint, given[0])
            return self
        if self.private is None:
            hint = "the key is missing; add it (the file or folder with the private samples)"
            raise mistake(hint, "private", code="missing")
        shared = self.table is not None and self.table.public_share is not None
        if shared and self.public is not None:
            hint = "'table.public_share' takes the public samples from the private file; leave out that key or 'public'"
            raise mistake(hint, "public")
        if not shared and self.public is None:
            hint = "the key is missing; add it (the file or folder with the public samples)"
            also = ", or set table.public_share to take a fraction of the private file" if self.table else ""
            raise mistake(hint + also, "public", code="missing")
        return self

    @property
    def files(self) -> dict[str, str]:
        """Return the paths of the given files and folders, as a dict from key ("private", "public" or "index")."""
        return {key: path for key in ("private", "public", "index") if (path := getattr(self, key)) is not None}

    @property
    def declared(self) -> dict[str, str]:
        """Return the values of the keys "table" and "images" as JSON text, in a dict with those keys that are given."""
        named = {"table": self.table, "images": self.images}
        return {key: model.model_dump_json(exclude_unset=True) for key, model in named.items() if model is not None}

    @property
    def original(self) -> str | None:
        """Return the built-in data set of which this one is a modified copy, or None."""
        return self.copy_of if reads_own_files(self.loader) else self.loader

    def options(self) -> dict[str, Any]:
        """Return the options of the command `data`, which loads the data set."""
        lists = {key: ",".join(map(str, values)) for key in ("features", "long_tail") if (values := getattr(self, key))}
        loaded = {"loader": self.loader, **self.files, **self.declared, **lists}
        return {"option": loaded, **ClassParameters.of(self).options()}


class EnsembleSettings(TrainingParameters, TeacherParameters):
    """Settings of several ensembles of teachers, which differ only in the number of teachers."""

    recipe: Recipe = Field("fast", description=TrainingParameters.model_fields["recipe"].description)
    teachers: OneOrMore[PositiveWhole] = Field(
        description="Number of teachers; a list makes one ensemble for each number."
    )
    partition: Annotated[PartitionParameters, BeforeValidator(_strategy_as_mapping)] = Field(
        PartitionParameters(),
        description="Partition of the private samples among the teachers: a strategy's name, or a strategy with its"
        " settings.",
        json_schema_extra={"or_text": True},
    )

    @property
    def training(self) -> TrainingParameters:
        """Return the parameters of the teachers' training, without the other settings of the ensembles.

        Only networks use `recipe`. For all other models, the default of `recipe` is "modern".
        """
        training = super().training
        if "recipe" in self.model_fields_set or by_recipe(self.model):
            return training
        return training.model_copy(update={"recipe": TrainingParameters.model_fields["recipe"].default})

    @model_validator(mode="after")
    def _trains_a_network(self) -> Self:
        for key in ("soft", "hints"):
            if on_queries(self.model) and getattr(self, key):
                raise mistake(f"the model '{self.model}' computes no probabilities or hints; leave '{key}' out", key)
        return self


class VotesSettings(ImportParameters):
    """File of votes of an ensemble, in place of trained teachers."""

    teachers: PositiveWhole = Field(description="Number of teachers in the file.")
    file: Place = Field(description="File of votes (teachers × queries), relative to the folder of data sets.")


class _OfEnsembles(Parameters):
    """Base class of settings that apply to all ensembles or only to those with a number of teachers in `teachers`."""

    teachers: OneOrMore[PositiveWhole] | None = Field(
        None, description="Ensembles to use, by their number of teachers; all by default."
    )


class StudentSettings(_OfEnsembles, StudentParameters):
    """Settings of students, which are trained on labels from a mechanism."""

    mechanisms: Mechanisms = Field(
        description="Mechanisms whose labels the student is trained on, a subset of the experiment's `mechanisms`."
    )
    queries: OneOrMore[PositiveWhole] | None = Field(
        None,
        description="Number of labels, one student for each number. Choose among `queries` of `accounting`; by default"
        " the largest of these.",
    )


class RoundsSettings(_OfEnsembles, StudentParameters):
    """Students of active learning, whose queries are selected in rounds."""

    strategy: OneOrMore[Strategy] = Field(
        description="Name of the selection strategy in the registry of strategies; a list compares several. If the"
        " strategy needs a student, the first round is random, or prototypes with the model nearest-query."
    )
    mechanisms: Mechanisms = Field(
        description="Mechanisms that label the selected queries, written like the experiment's `mechanisms`."
    )
    queries: Series[PositiveWhole] = Field(description="Number of queries of each round, in order.")


class DistilSettings(_OfEnsembles, DistilParameters):
    """Settings of non-private networks, which are trained on labels or on the teachers' probabilities."""


def _with_lists(model: type[Parameters], *lists: str) -> type[Parameters]:
    """Return a class with the parameters of the class `model`, for use as a base class of settings in configurations.

    Each parameter named in `lists` may be given as a list of values, and `delta` is optional.
    """
    fields: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind: Any = single_kind(field)
        if name in lists:
            kind = OneOrMore[kind]
        about, default = field.description or "", ... if field.is_required() else field.default
        if name == "delta":
            about, default = f"{about.rstrip('.')}; by default that of `accounting`.", None
        fields[name] = (kind | None if default is None else kind, Field(default, description=about))
    return create_model(f"{model.__name__}Lists", __base__=Parameters, **fields)


_PETDL_LISTS = [name for name in PetdlParameters.model_fields if name != "delta"]


class DpsgdSettings(_with_lists(DpsgdParameters, "epsilon")):  # type: ignore[misc]
    """Models trained by DP-SGD, one for each ε."""


class PrivateKnnSettings(_with_lists(PrivateKnnParameters)):  # type: ignore[misc]
    """Settings of Private-kNN: the nearest private records vote on labels, and students learn from these labels."""


class FeatureMethodSettings(_with_lists(FeatureMethodParameters, "epsilon")):  # type: ignore[misc]
    """Settings of private classifiers, which are trained on features of private records, one classifier for each ε."""


class PetdlSettings(_OfEnsembles, _with_lists(PetdlParameters, *_PETDL_LISTS)):  # type: ignore[misc]
    """Students of PET-DL, one for each ensemble and each combination of listed values."""


class TrueLabelSettings(LearnerParameters):
    """Model trained on true labels of the pool."""

    queries: OneOrMore[PositiveWhole] = Field(
        description="Number of true labels, taken from the start of the pool; a list trains one model for each number."
    )


class PublicReferenceSettings(Parameters):
    """Settings of a baseline without private data: clusters of the public pool, each labelled by true labels."""

    clusters: OneOrMore[PositiveWhole] = Field(
        description="Number of clusters of the pool; a list gives one reference for each number."
    )


class AuditSettings(_OfEnsembles, AuditParameters):
    """Settings of the audits of all mechanisms of the experiment."""

    queries: OneOrMore[PositiveWhole] | None = Field(
        None,
        description="Number of queries audited together, in addition to a single query. Choose among `queries` of"
        " `accounting`; by default the largest of these.",
    )


class ExperimentSettings(SplitParameters):
    """Settings of one experiment."""

    seeds: OneOrMore[WholeFrom0] | None = Field(
        None, description="Base seeds of this experiment; by default those of the configuration."
    )
    dataset: Text = Field(description="Name of a built-in data set, or of one in `datasets`.")
    encoder_file: Place | None = Field(
        None,
        description="TorchScript or ONNX file of an encoder of your own: it maps images (1, channels, height, width)"
        " with values from 0 to 1 to vectors (1, numbers).",
    )
    queries: OneOrMore[PositiveWhole] | None = Field(
        None,
        description="Number of queries that the teachers vote on; by default every sample of the pool. The queries are"
        " prototypes of the pool, selected by its public features, or random samples if `neighbours` is given. A list"
        " repeats the experiment for each number.",
    )
    ensembles: list[EnsembleSettings] = Field([], min_length=1, description="Ensembles of teachers.")
    votes: list[VotesSettings] = Field(
        [], description="Ensembles whose votes come from a file; only for public data sets."
    )
    mechanisms: Mechanisms = Field(
        {},
        description="Mechanisms that label the whole pool, each with its parameters: a number, or a list to run all"
        " combinations. Not needed if `rounds` select all queries.",
    )
    accounting: AccountingParameters = Field(description="Queries and δ for which ε is reported.")
    students: list[StudentSettings] = Field([], description="Students trained on released labels.")
    audit: AuditSettings | None = Field(
        None, description="Audit: empirical lower bounds on ε of the mechanisms, compared with their stated ε."
    )
    rounds: list[RoundsSettings] = Field(
        [], description="Students whose queries are selected in rounds, using the student of the previous round."
    )
    distillation: list[DistilSettings] = Field(
        [],
        description="Networks trained on labels and on the teachers' probabilities, without privacy, for comparison.",
    )
    petdl: list[PetdlSettings] = Field(
        [],
        description="Students of PET-DL, trained on the teachers' probabilities and hints on the pool, as published or"
        " in a sound form.",
    )
    baseline: LearnerParameters | None = Field(
        None, description="Model trained on all private data without privacy, for comparison."
    )
    public_reference: PublicReferenceSettings | None = Field(
        None,
        description="Clusters of the pool, labelled by the pool's true labels, for comparison: the accuracy that public"
        " data alone reach, at ε = 0. A release cannot use these labels.",
    )
    dpsgd: list[DpsgdSettings] = Field(
        [], description="Private models trained by DP-SGD on all private data, for comparison."
    )
    private_knn: list[PrivateKnnSettings] = Field(
        [],
        description="Students trained on labels from votes of the nearest private records (Private-kNN), as published"
        " or in a sound form.",
    )
    feature_methods: list[FeatureMethodSettings] = Field(
        [],
        description="Other private methods: classifiers on features of a public encoder, for comparison.",
    )
    true_label_baseline: TrueLabelSettings | None = Field(
        None, description="Model trained on true labels of the pool, for comparison with students."
    )

    @model_validator(mode="after")
    def _file_of_own_encoder(self) -> Self:
        if (self.encoder_file is None) != (self.encoder_data is None):
            given, missing = sorted(("encoder_file", "encoder_data"), key=lambda key: getattr(self, key) is None)
            raise mistake(
                f"the key is missing; add '{missing}', since your own encoder needs both it and '{given}'",
                missing,
                code="missing",
            )
        return self


class ConfigSettings(Parameters):
    """Settings of a whole configuration file."""

    name: Annotated[Text, AfterValidator(lambda name: plain_name(name) if name else name)] = Field(
        "",
        description="Name of the run: report, figures and tables are written to <results>/<name>/; empty for the"
        " default run.",
    )
    results: Place = Field("results", description="Folder for all outputs.")
    data_root: Text = Field(
        "data",
        min_length=1,
        description="Folder of downloaded data sets; the environment variable PATEBENCH_DATA overrides it.",
    )
    download: Truth = Field(True, description="Download data sets that are missing.")
    mode: Annotated[Text, one_of(lambda: Mode)] = Field(
        "seeded",
        description="seeded: reproducible noise, for experiments. release: discrete noise from the operating system's"
        " entropy, drawn once, for labels to publish; only one label set without `ledger.budget`.",
    )
    secure: SecureSettings | None = Field(
        None,
        description="Secure aggregation, for the mechanisms that support it: distributed-gnmax and"
        " distributed-sparse-gnmax.",
    )
    ledger: LedgerSettings | None = Field(
        None,
        description="Total privacy budget of all releases from one private data set, and the data set's name. The"
        " first release fixes the budget. Without a budget, later releases may only use teachers not used before.",
    )
    seeds: OneOrMore[WholeFrom0] = Field(
        description="Base seeds; an experiment without its own seeds runs once per base seed."
    )
    only: Annotated[tuple[Text, ...], BeforeValidator(names)] = Field(
        (), description="Experiments to run, as a list or as names separated by commas; empty for all."
    )
    datasets: Names[DatasetSettings] = Field({}, description="Your own data sets, by name.")
    experiments: Annotated[Names[ExperimentSettings], Field(min_length=1)] = Field(
        description="Experiments to run, by name."
    )
