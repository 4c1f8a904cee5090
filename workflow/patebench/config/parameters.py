"""Declare the parameters of the stages: type, default, limits and help text.

The configuration, the options of the commands and the folder names are derived from these models. To add a parameter
to a stage, add a field here and use it in the stage.
"""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from patebench.accounting.subsampled_gaussian import LEAST_DELTA
from patebench.baselines import DPSGD_FORMS, KNN_FORMS
from patebench.baselines.knn_accounting import KNNSettings
from patebench.baselines.on_features import CHANGES, FEATURE_METHODS, protects_only_labels
from patebench.core.bound import SMALLEST_DELTA
from patebench.core.fields import (
    NOT_IN_PATH,
    AnyNumber,
    Number,
    OneOrMore,
    Parameters,
    Text,
    Truth,
    Whole,
    blamed_on_key,
    known_to,
    mistake,
    one_of,
    plain_name,
    show,
)
from patebench.core.seeds import Mode
from patebench.core.spelling import slug
from patebench.data.division import SHIFTS
from patebench.data.partitions import LABELS, PARTITIONS, default_strategy
from patebench.features import DEFAULT as DEFAULT_ENCODER
from patebench.features import ENCODERS
from patebench.models import by_recipe, check_compressible, on_queries, weighted
from patebench.petdl import FORMS as PETDL_FORMS
from patebench.students import STRATEGIES
from patebench.students.interface import Learner, MethodOfLabels, Model, Recipe, StudentConfig

PositiveWhole = Annotated[Whole, Field(ge=1)]
WholeFrom0 = Annotated[Whole, Field(ge=0)]
PositiveNumber = Annotated[Number, Field(gt=0)]
NumberFrom0 = Annotated[Number, Field(ge=0)]
ClassName = Annotated[Text, Field(min_length=1)]


def _check_path(path: str) -> str:
    """Return `path`; raise a validation error if it contains braces or starts with "~" or "-".

    Snakemake reads braces as wildcards. Commands read "~" as the home folder, and "-" as the start of an option.
    """
    if set(path) & set("{}"):
        raise mistake(f"the path {show(path)} contains braces; use a path without braces")
    if path.startswith(("~", "-")):
        meaning = "a home folder" if path.startswith("~") else "an option"
        raise mistake(f"commands read {show(path)} as {meaning}; write ./{path} or the full path")
    return path


Place = Annotated[Text, AfterValidator(_check_path), Field(min_length=1)]

Strategy = Annotated[Text, known_to(STRATEGIES)]


class ClassParameters(Parameters):
    """Number `classes` or names `class_names` of the classes of a user's own data set; at most one of the two is given.

    By default, the classes are read from public data. Private samples never determine the classes.
    """

    classes: Whole | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Number of classes, with the names 0, 1, …; by default read from the public samples.",
    )
    class_names: OneOrMore[ClassName] | None = Field(
        None,
        description="Names of the classes, that of label 0 first; by default read from the public samples. Private"
        " samples with another class are an error.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.classes is not None and self.class_names is not None:
            raise mistake("'class_names' already determines the number of classes; leave 'classes' out", "classes")
        if self.class_names is not None and len(self.class_names) == 1 and "," in self.class_names[0]:
            raise mistake(
                f"{show(self.class_names[0])} is text, not a list of names; give a list, or --class-names once"
                " for each class",
                "class_names",
            )
        return self

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of all classes; None if neither `classes` nor `class_names` is given.

        If the number `classes` is given, the names are "0", "1", and so on. Otherwise, they are `class_names`.
        """
        return self.class_names if self.classes is None else tuple(map(str, range(self.classes)))


class SplitParameters(Parameters):
    """Parameters of the public pool, of the test set and of the unit of privacy."""

    pool: Whole = Field(ge=1, description="Number of public samples in the pool, which are the possible queries.")
    test: Whole | None = Field(
        None, ge=1, description="Number of the remaining public samples used as test set; all by default."
    )
    encoder: Annotated[Text, AfterValidator(plain_name)] | None = Field(
        None,
        description="Encoder that learns features of the pool without labels: "
        + "; ".join(f"{name} ({ENCODERS.fact(name, 'about')})" for name in ENCODERS)
        + f"; or a name of your own, with `encoder_data`. Default: {DEFAULT_ENCODER}.",
    )
    encoder_data: Annotated[Text, Field(min_length=1)] | None = Field(
        None,
        description="Public data, besides the pool, on which your own encoder was trained, such as LAION-400M.",
        json_schema_extra=NOT_IN_PATH,
    )
    pool_shift: Annotated[Text, one_of(lambda: SHIFTS)] | None = Field(
        None,
        description="Distribution shift of the pool's images: inverted, or rotated by 90 degrees. Private and test"
        " images stay unchanged.",
    )
    protects: Annotated[Text, one_of(lambda: (LABELS,))] | None = Field(
        None,
        description=f"Unit of privacy: `{LABELS}` for private labels of public samples. The pool then consists of the"
        " training samples, and each teacher is one record. By default whole records are private.",
    )

    @model_validator(mode="after")
    def _check_encoder_data(self, info: ValidationInfo) -> Self:
        """Check that `encoder_data`, the public training data of an encoder, is given for a user's own encoder.

        For a built-in encoder, these data are known, so `encoder_data` is an error.
        """
        # Parameters of a stored result (with a context) are not checked.
        if info.context or (self.encoder is not None and self.encoder not in ENCODERS) == (
            self.encoder_data is not None
        ):
            return self
        if self.encoder_data is not None:
            hint = f"the public data of {self.encoder or DEFAULT_ENCODER} is known; leave 'encoder_data' out"
            raise mistake(hint, "encoder_data")
        with blamed_on_key("encoder"):
            ENCODERS.check(str(self.encoder))
        return self

    @model_validator(mode="after")
    def _distinct_in_paths(self) -> Self:
        if self.encoder in SHIFTS or str(self.encoder).startswith("test-"):
            hint = f"{show(self.encoder)} is reserved for names of result folders; choose another name"
            raise mistake(hint, "encoder", code="name")
        return self


class PartitionParameters(Parameters):
    """Partition of the private samples among the teachers."""

    strategy: Annotated[Text, known_to(PARTITIONS)] = Field(
        default_strategy(Mode.SEEDED),
        description="Partition strategy: "
        + ", ".join(f"{name} ({PARTITIONS.fact(name, 'about')})" for name in PARTITIONS)
        + f". Default in mode release: {default_strategy(Mode.RELEASE)}.",
    )
    share: Number | None = Field(
        None, gt=0, le=1, description="With skew, fraction of each shard that comes from one label."
    )
    owners: Place | None = Field(
        None,
        description="With owners or hash-owners, a .npy file with each private sample's owner as a number. Not"
        " needed if the data set names the owners.",
        json_schema_extra=NOT_IN_PATH,
    )
    every_class: Truth = Field(
        False,
        description="Stop with an error if a shard lacks a class; for models that need samples of all classes.",
        json_schema_extra=NOT_IN_PATH,
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        for key in ("share", "owners"):
            value, taken = getattr(self, key), PARTITIONS.fact(self.strategy, "parameter") == key
            if taken and value is None and key != "owners":  # the data may name the owners
                raise mistake(f"the key is missing; add '{key}', which the strategy '{self.strategy}' needs", key)
            if not taken and value is not None:
                users = " and ".join(f"'{name}'" for name in PARTITIONS if PARTITIONS.fact(name, "parameter") == key)
                line = f"'{key}' is only for the strategy {users}, not for '{self.strategy}'; leave '{key}' out"
                raise mistake(line, key)
        return self

    def chosen_in(self, mode: Mode, *, names_owners: bool = False) -> Self:
        """Return these parameters, with the default strategy if none is given.

        The default is hash-owners if the data set names the owners of its records (`names_owners`). Otherwise it is iid
        in seeded mode and hash in release mode.
        """
        if "strategy" in self.model_fields_set:
            return self
        return self.model_copy(update={"strategy": "hash-owners" if names_owners else default_strategy(mode)})

    @property
    def slug(self) -> str:
        strategy = self.strategy if self.share is None else (self.strategy, self.share)
        return slug(strategy, *self.parts("strategy", "share"))


class ImportParameters(Parameters):
    """Parameters of imported votes, which are read from a file instead of cast by trained teachers.

    The name identifies the votes in paths and tables.
    """

    name: Annotated[Text, AfterValidator(plain_name)] = Field(description="Name of the votes in paths and tables.")
    classes: Whole | None = Field(
        None,
        ge=2,
        description="Number of classes of a plain table of votes (.npy, .npz or CSV). Its queries are unknown samples,"
        " so there are no accuracies and no students. Leave it out for a file of `patebench export_votes`.",
        json_schema_extra=NOT_IN_PATH,
    )

    @property
    def slug(self) -> str:
        return slug("imported", *self.parts())


class TrainingParameters(Parameters):
    """Machine-learning model of a teacher or baseline, and its training."""

    model: Model = Field(description="Name of the model in the registry of models.")
    recipe: Recipe = Field(
        "modern",
        description="Training recipe of a network: modern, fast, plain, paper, modern-oversampled or plain-oversampled"
        " (repeat rare classes), or your own.",
    )
    epochs: Whole | None = Field(None, ge=1, description="Number of training epochs; by default that of the recipe.")
    neighbours: Whole | None = Field(
        None,
        ge=1,
        description="With nearest-query, number of nearest queries that each record votes on; by default each record"
        " votes on its nearest query.",
    )

    @model_validator(mode="after")
    def _belong_together(self, info: ValidationInfo) -> Self:
        if info.context:
            return self
        if self.neighbours is not None and (not on_queries(self.model) or weighted(self.model)):
            hint = f"'neighbours' belongs to the model 'nearest-query', not to '{self.model}'; leave 'neighbours' out"
            raise mistake(hint, "neighbours")
        if self.epochs is not None and not by_recipe(self.model):
            hint = f"the model '{self.model}' is not trained in epochs; leave 'epochs' out"
            raise mistake(hint, "epochs")
        return self

    @property
    def training(self) -> "TrainingParameters":
        """Return the training parameters alone, without the parameters that a subclass adds."""
        return TrainingParameters.of(self)


class LearnerParameters(TrainingParameters):
    """Parameters of a machine-learning model and its training; `model` cannot be a model that only teachers can use."""

    model: Learner = Field(description="Name of the model in the registry of models.")


def baseline_slug(training: TrainingParameters, true_labels: int | None) -> str:
    """Return the folder name of a baseline, a non-private model.

    The baseline is trained on `true_labels` true labels of the pool or, if this is None, on the private data.
    """
    return slug(("truth", true_labels), training.slug)


class KeptOutputs(Parameters):
    """Teacher outputs that are stored in addition to the votes; they do not change any vote."""

    soft: AnyNumber[PositiveNumber] = Field(
        (),
        description="For distillation, temperatures at which the teachers' softened probabilities on the pool are"
        " summed.",
        json_schema_extra=NOT_IN_PATH,
    )
    hints: Text | None = Field(
        None,
        min_length=1,
        description="For PET-DL, layer whose outputs (hints) are stored with each teacher's probabilities on the pool:"
        " block1, block2 or block3 of conv-small and conv-middle, or `probabilities` to store no hints.",
        json_schema_extra=NOT_IN_PATH,
    )


class TeacherParameters(KeptOutputs):
    """Number of teachers per training job, and teacher outputs to store; neither changes a vote."""

    chunk: Whole = Field(
        25,
        ge=1,
        description="Number of teachers that one job trains. It changes no result, except for rounding on a GPU. A GPU"
        " trains all teachers of a job at once, so use up to 1000 there.",
        json_schema_extra=NOT_IN_PATH,
    )


class LedgerParameters(Parameters):
    """Privacy budget (ε, δ) for all releases from one private data set."""

    budget: PositiveNumber = Field(description="Total ε budget, at `delta`, for all releases from this private data.")
    delta: Number = Field(ge=SMALLEST_DELTA, lt=1, description="δ of the total budget.")


class LedgerSettings(Parameters):
    """Ledger of all releases from one private data set: their total budget, and the name of the data set."""

    budget: PositiveNumber | None = Field(
        None, description="Total ε budget, at `delta`, for all releases from this private data."
    )
    delta: Number | None = Field(None, ge=SMALLEST_DELTA, lt=1, description="δ of the total budget.")
    private: Annotated[Text, AfterValidator(plain_name)] | None = Field(
        None,
        description="Permanent name of the private data. All releases under one name share a budget, even if the files"
        " change.",
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        for key, other in (("budget", "delta"), ("delta", "budget")):
            if getattr(self, key) is None and (getattr(self, other) is not None or self.private is None):
                hint = "the key is missing; give 'budget' and 'delta'"
                raise mistake(hint, key)
        return self

    @property
    def limit(self) -> LedgerParameters | None:
        """Return the total budget (ε, δ) of all releases; None if only a name of the private data is given."""
        if self.budget is None or self.delta is None:
            return None
        return LedgerParameters(budget=self.budget, delta=self.delta)


class AccountParameters(Parameters):
    """δ and the numbers of queries for which ε is reported."""

    delta: Number = Field(
        ge=SMALLEST_DELTA, lt=1, description="δ of every reported (ε, δ); choose it below 1/n for n teachers."
    )
    queries: AnyNumber[PositiveWhole] = Field(
        (),
        description="Numbers of queries T; ε is reported for the first T queries, for each T. By default, and always"
        " for a release, T is the number of all queries.",
    )


class AccountingParameters(AccountParameters):
    """δ and the numbers of queries for which ε is reported, and the budget at which answering stops."""

    budget: Number | None = Field(
        None,
        gt=0,
        description="Worst-case ε budget, at `delta`, of one label set: answering stops before it is exceeded.",
    )


class StudentParameters(StudentConfig):
    """Method and model of a student, and the fraction of the released labels held out for validation."""

    hold_out: Number | None = Field(
        None,
        gt=0,
        lt=1,
        description="Fraction of the released labels held out for validation, to compare settings without true labels.",
    )

    def slug_of(self, queries: int) -> str:
        """Return the folder name of a student trained on the labels of `queries` queries."""
        return slug(self.method, ("queries", queries), *self.parts("method"))


class SelectionParameters(Parameters):
    """Strategy that selects queries, and number of queries that it selects.

    Queries are selected either once, before any teacher votes, or in each round of active learning.
    """

    strategy: Strategy = Field(description="Name of the selection strategy in the registry of strategies.")
    queries: Whole = Field(ge=1, description="Number of queries selected in this round.")

    @property
    def slug(self) -> str:
        return slug((self.strategy, self.queries), *self.parts("strategy", "queries"))


class DistilParameters(LearnerParameters):
    """Parameters of non-private networks, trained on labels or on the teachers' probabilities to compare the two."""

    samples: OneOrMore[PositiveWhole] = Field(
        description="Number of pool samples used for training; a list trains one network for each number.",
        json_schema_extra=NOT_IN_PATH,
    )


#: Field of a private classifier for its student.
_STUDENT: Any = Field(
    None,
    description="Method of a student trained on the classifier's labels of the pool; by default, there is no student,"
    " and the classifier itself is evaluated.",
)


class DpsgdParameters(Parameters):
    """Training by DP-SGD to a target (ε, δ).

    `form` states what is trained, such as a network from scratch. It also gives the default of each parameter that is
    None.
    """

    form: Annotated[Text, one_of(lambda: DPSGD_FORMS)] = Field(
        description="Form of training: "
        + ", ".join(f"{name} ({form.about})" for name, form in DPSGD_FORMS.items())
        + "."
    )
    model: Model | None = Field(
        None,
        description="With scratch, name of the network in the registry of models; default tanh-cnn or mlp, depending on"
        " the shape of the data.",
    )
    compression: PositiveNumber | None = Field(
        None,
        description="With conv-small or conv-middle, compression factor: number of parameters of the model divided by"
        " that of the trained, smaller network, as for students of PET-DL; default 1.",
    )
    rate: Number | None = Field(
        None,
        gt=0,
        le=1,
        description="Sampling probability of each private sample per step. Choose it from public knowledge: the number"
        " of private samples is itself private.",
    )
    steps: Whole | None = Field(None, ge=1, description="Number of noisy gradient steps.")
    clip: Number | None = Field(None, gt=0, description="Clipping norm of the gradient of each sample.")
    learning_rate: Number | None = Field(None, gt=0, description="Initial learning rate of Adam; it decays to 0.")
    views: Whole | None = Field(
        None,
        ge=1,
        description="Number of random augmentations of an image over which its gradient is averaged; 1 uses the image"
        " itself.",
    )
    ema: Number | None = Field(
        None, ge=0, lt=1, description="Decay of the exponential moving average of the weights used for prediction."
    )
    epsilon: PositiveNumber = Field(description="Target ε of the model, at `delta`; it protects one private sample.")
    delta: Number = Field(ge=LEAST_DELTA, lt=1, description="δ of the target ε.")
    student: MethodOfLabels | None = _STUDENT

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        network = self.form == "scratch"
        for key, fits in (("model", network), ("compression", network), ("views", self.form != "linear")):
            if getattr(self, key) is not None and not fits:
                value = show(getattr(self, key))
                raise mistake(f"{value} has no effect on the form '{self.form}'; leave '{key}' out", key)
        if self.compression is not None:
            with blamed_on_key("compression"):
                check_compressible(self.model)
        return self

    @property
    def slug(self) -> str:
        privacy = (("epsilon", self.epsilon), ("delta", self.delta))
        return slug(self.form, *privacy, *self.parts("form", "epsilon", "delta"))

    def chosen(self) -> dict[str, float]:
        """Return the training parameters by name, with the default of `form` for each that is None."""
        form = DPSGD_FORMS[self.form]
        names = ("rate", "steps", "clip", "learning_rate", "views", "ema")
        values = {name: getattr(self, name) for name in names}
        return {name: getattr(form, name) if value is None else value for name, value in values.items()}


class PrivateKnnParameters(Parameters):
    """Private-kNN: the nearest private records label public samples, and a student learns from these labels."""

    form: Annotated[Text, one_of(lambda: KNN_FORMS)] = Field(
        description="Form of Private-kNN: " + "; ".join(f"{name}: {about}" for name, about in KNN_FORMS.items()) + "."
    )
    rate: Number = Field(gt=0, le=1, description="Fraction of the private records sampled for each query.")
    neighbours: PositiveWhole = Field(description="Number of nearest sampled records that vote on a query.")
    threshold: Number = Field(
        ge=0, description="Threshold on the noisy largest count of votes above which a query is answered."
    )
    sigma1: Number = Field(ge=0, description="Standard deviation of the noise in the threshold test.")
    sigma2: Number = Field(ge=0, description="Standard deviation of the noise on each count of an answered query.")
    queries: PositiveWhole = Field(description="Number of queries, taken from the start of the pool.")
    answers: PositiveWhole | None = Field(
        None, description="With sound, maximum number of answered queries; by default all queries."
    )
    student: MethodOfLabels = Field(
        "consistency", description="Name of the student's method in the registry of methods."
    )
    delta: Number = Field(ge=LEAST_DELTA, lt=1, description="δ of the ε of all labels.")

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if self.form == "published" and self.answers is not None:
            raise mistake(
                "the form 'published' answers all queries above the threshold; leave 'answers' out",
                "answers",
            )
        return self

    @property
    def settings(self) -> KNNSettings:
        """Return the parameters that determine the privacy cost of the labels."""
        return KNNSettings(**self.model_dump(exclude={"form", "student", "delta"}))


class FeatureMethodParameters(Parameters):
    """Parameters of a private classifier, which `method` trains on features of private records.

    A public encoder computes the features. If `student` is given, a student learns from the classifier's labels of the
    pool. Otherwise, the classifier itself is tested.
    """

    method: Annotated[Text, known_to(FEATURE_METHODS)] = Field(
        description="Name of the method: "
        + "; ".join(f"{name} ({FEATURE_METHODS.fact(name, 'about')})" for name in FEATURE_METHODS)
        + "."
    )
    epsilon: PositiveNumber = Field(description="Target ε for the `change`.")
    delta: Number = Field(ge=LEAST_DELTA, lt=1, description="δ of the target ε.")
    change: Annotated[Text, one_of(lambda: CHANGES)] = Field(
        "replaced",
        description="Neighbouring relation of the target `epsilon`: one record replaced, or added-or-removed. The"
        " results state ε for both.",
    )
    dimensions: PositiveWhole | None = Field(
        None,
        description="With dppl-mean, least-squares and least-squares-private, number of the pool's principal axes to"
        " use; all by default.",
    )
    prototypes: PositiveWhole | None = Field(
        None, description="With dppl-public, number of public samples chosen as prototypes per class; default 1."
    )
    rounds: PositiveWhole | None = Field(
        None, description="With private-evolution, number of noisy histograms; default 1."
    )
    candidates: PositiveWhole | None = Field(
        None, description="With private-evolution, number of candidate samples in a histogram; default 300."
    )
    queries: PositiveWhole | None = Field(None, description="With ind-knn, number of queries; default 200.")
    neighbours: PositiveWhole | None = Field(
        None, description="With ind-knn, number of samples of the pool within a query's radius; default 90."
    )
    clusters: PositiveWhole | None = Field(
        None,
        description="With cluster-histograms and cluster-resampling, number of clusters, default 100; with"
        " randomised-response, number of clusters whose histograms are the prior, which is uniform by default.",
    )
    student: MethodOfLabels | None = _STUDENT

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if protects_only_labels(self.method) and self.change != "replaced":
            raise mistake(f"the method '{self.method}' supports only 'change: replaced'; leave 'change' out", "change")
        for key in sorted({key for name in FEATURE_METHODS for key in FEATURE_METHODS.fact(name, "options")}):
            if getattr(self, key) is not None and key not in FEATURE_METHODS.fact(self.method, "options"):
                raise mistake(f"the method '{self.method}' has no parameter '{key}'; leave '{key}' out", key)
        return self

    @property
    def settings(self) -> dict[str, int]:
        """Return the options of `method` that are not None, as a dict from name to value."""
        names = FEATURE_METHODS.fact(self.method, "options")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def slug(self) -> str:
        privacy = (("epsilon", self.epsilon), ("delta", self.delta), ("change", self.change))
        return slug(self.method, *privacy, *self.parts("method", "epsilon", "delta", "change"))


class PetdlParameters(Parameters):
    """Training of a student by PET-DL (Sun et al. 2019), as published or in a form with a proven ε.

    `form` gives the default of each parameter that is None.
    """

    form: Annotated[Text, known_to(PETDL_FORMS)] = Field(
        description="Form of PET-DL: published, or a sound form (noisy-gradient or noisy-knowledge)."
    )
    noise: NumberFrom0 | None = Field(
        None, description="Standard deviation of the noise, in multiples of the clip. Give either noise or epsilon."
    )
    epsilon: PositiveNumber | None = Field(
        None, description="Target ε of the whole training; the smallest noise that reaches it is used."
    )
    delta: Number = Field(ge=SMALLEST_DELTA, lt=1, description="δ of the target and of the reported ε.")
    hint_epochs: WholeFrom0 | None = Field(
        None, description="Number of epochs of hint learning, before distillation; 0 for none."
    )
    distillation_epochs: PositiveWhole | None = Field(None, description="Number of epochs of distillation.")
    batch: PositiveWhole | None = Field(None, description="Number of public samples per batch; a batch is one query.")
    clip: PositiveNumber | None = Field(
        None,
        description="Bound on the contribution of one teacher: on its loss (B in the paper), or on the norm of its"
        " gradient or output, depending on the form.",
    )
    hint_clip: PositiveNumber | None = Field(
        None, description="With noisy-knowledge, bound on the norm of a teacher's hints."
    )
    temperature: PositiveNumber | None = Field(None, description="Temperature of the softened outputs.")
    weighted: Truth | None = Field(None, description="Weight the teachers by their confidence.")
    compression: PositiveNumber | None = Field(
        None,
        description="Compression factor: number of parameters of a teacher divided by that of the student; default 1.",
    )
    samples: PositiveWhole | None = Field(
        None, description="Number of public samples, taken from the start of the pool; all by default."
    )
    guided: Text | None = Field(
        None,
        description="Layer of the student that learns the hints: block1, block2 or block3; by default the layer of the"
        " hints.",
    )
    learning_rate: PositiveNumber | None = Field(None, description="Maximum learning rate of the one-cycle schedule.")

    @model_validator(mode="after")
    def _noise_or_target(self) -> Self:
        if (self.noise is None) == (self.epsilon is None):
            raise mistake(
                "the key is missing; give it or 'epsilon'"
                if self.noise is None
                else "'epsilon' already determines the noise; leave 'noise' out",
                "noise",
            )
        return self


class AuditParameters(Parameters):
    """Settings of an audit, which estimates a lower bound on a mechanism's ε from many runs."""

    runs: Whole = Field(
        100_000, ge=1000, description="Number of runs of each mechanism on each of two neighbouring data sets."
    )
    confidence: Number = Field(0.999, gt=0, lt=1, description="Confidence level of the lower bound on ε.")
