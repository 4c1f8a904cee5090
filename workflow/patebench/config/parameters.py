"""The parameters of the stages, each declared once: type, default, bounds and sentence of help.

The configuration is put together from these models, the commands' options are made from them, and slugs spell them. To
add a parameter to a stage, add a field here and use it in the stage.
"""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from patebench.accounting.subsampled_gaussian import LEAST_DELTA
from patebench.baselines import DPSGD_FORMS, KNN_FORMS
from patebench.baselines.knn_accounting import KNNSettings
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
from patebench.data.partitions import PARTITIONS, default_strategy
from patebench.features import DEFAULT as DEFAULT_ENCODER
from patebench.features import ENCODERS
from patebench.models import by_recipe, check_compressible, on_queries
from patebench.petdl import FORMS as PETDL_FORMS
from patebench.students import STRATEGIES
from patebench.students.interface import Learner, Method, Model, Recipe, StudentConfig

PositiveWhole = Annotated[Whole, Field(ge=1)]
WholeFrom0 = Annotated[Whole, Field(ge=0)]
PositiveNumber = Annotated[Number, Field(gt=0)]
NumberFrom0 = Annotated[Number, Field(ge=0)]
ClassName = Annotated[Text, Field(min_length=1)]


def _path(path: str) -> str:
    """Return a path that Snakemake takes as it is: braces would be wildcards there."""
    if set(path) & set("{}"):
        raise mistake(f"is {show(path)}; a path without braces is needed")
    if path.startswith(("~", "-")):
        raise mistake(
            f"is {show(path)}, which commands would take for a home or an option; write ./{path} or a whole path"
        )
    return path


Place = Annotated[Text, AfterValidator(_path), Field(min_length=1)]

Strategy = Annotated[Text, known_to(STRATEGIES)]


class ClassParameters(Parameters):
    """What the classes of a user's own data are, where the public samples do not tell. Private data never do."""

    classes: Whole | None = Field(
        None,
        ge=1,
        le=100_000,
        description="How many classes there are, short for the names 0, 1, …; by default what the public data show.",
    )
    class_names: OneOrMore[ClassName] | None = Field(
        None,
        description="The names of the classes, that of label 0 first; by default what the public data show. Private"
        " data may have no others.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.classes is not None and self.class_names is not None:
            raise mistake("is given beside class_names, which tell as much; leave one of them out", "classes")
        if self.class_names is not None and len(self.class_names) == 1 and "," in self.class_names[0]:
            raise mistake(
                f"is one name, {show(self.class_names[0])}; give a list, or --class-names once for each class",
                "class_names",
            )
        return self

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of all classes, if they are given here."""
        return self.class_names if self.classes is None else tuple(map(str, range(self.classes)))


class SplitParameters(Parameters):
    """How the public data is cut, and what learns the features of its pool."""

    pool: Whole = Field(ge=1, description="How many public samples are offered to the ensemble as queries.")
    test: Whole | None = Field(
        None, ge=1, description="How many of the other public samples measure accuracy; all by default."
    )
    encoder: Annotated[Text, one_of(lambda: ENCODERS)] | None = Field(
        None,
        description="What learns features of the pool without a label: "
        + "; ".join(f"{name} ({ENCODERS.fact(name, 'about')})" for name in ENCODERS)
        + f". {DEFAULT_ENCODER} by default.",
    )
    pool_shift: Annotated[Text, one_of(lambda: SHIFTS)] | None = Field(
        None,
        description="Makes the pool one from elsewhere, inverted or rotated by a quarter turn; private and test images"
        " stay as they are. To show what that does.",
    )


class PartitionParameters(Parameters):
    """How the private data is dealt to the teachers."""

    strategy: Annotated[Text, known_to(PARTITIONS)] = Field(
        default_strategy(Mode.SEEDED),
        description=", ".join(f"{name} ({PARTITIONS.fact(name, 'about')})" for name in PARTITIONS)
        + f"; a release has {default_strategy(Mode.RELEASE)} where nothing is said.",
    )
    share: Number | None = Field(None, gt=0, le=1, description="With skew, the share of each shard that has one label.")
    owners: Place | None = Field(
        None,
        description="With owners or hash-owners, a .npy file with the number of the owner of each private sample, if"
        " the data do not name it.",
        json_schema_extra=NOT_IN_PATH,
    )
    every_class: Truth = Field(
        False,
        description="Whether a shard that lacks a class is refused, for models that need them all.",
        json_schema_extra=NOT_IN_PATH,
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        for key in ("share", "owners"):
            value, taken = getattr(self, key), PARTITIONS.fact(self.strategy, "parameter") == key
            if taken and value is None and key != "owners":  # the data may name the owners
                raise mistake(f"is missing; the strategy '{self.strategy}' needs it", key)
            if not taken and value is not None:
                takers = " and ".join(f"'{each}'" for each in PARTITIONS if PARTITIONS.fact(each, "parameter") == key)
                raise mistake(
                    f"is {show(value)}, but {key} is for {takers} and this is '{self.strategy}'; leave it out", key
                )
        return self

    def chosen_in(self, mode: Mode, *, names_owners: bool = False) -> Self:
        """Return these with a strategy: hash-owners for data that name owners, else the mode's, where none is given."""
        if "strategy" in self.model_fields_set:
            return self
        return self.model_copy(update={"strategy": "hash-owners" if names_owners else default_strategy(mode)})

    @property
    def slug(self) -> str:
        dealt = self.strategy if self.share is None else (self.strategy, self.share)
        return slug(dealt, *self.parts("strategy", "share"))


class TrainingParameters(Parameters):
    """A model and how it is trained."""

    model: Model = Field(description="The model, a name of the registry of models.")
    recipe: Recipe = Field(
        "modern",
        description="How networks are trained, modern, fast, plain, paper, one that oversamples rare classes"
        " (modern-oversampled, plain-oversampled) or one of your own; other models ignore it.",
    )
    epochs: Whole | None = Field(None, ge=1, description="Passes over the training data, in place of the recipe's.")
    neighbours: Whole | None = Field(
        None,
        ge=1,
        description="With nearest-query, on how many queries a record votes, those that it is nearest to; by default on"
        " the one in whose cell it lies.",
    )

    @model_validator(mode="after")
    def _belong_together(self, info: ValidationInfo) -> Self:
        if info.context:
            return self
        if self.neighbours is not None and not on_queries(self.model):
            raise mistake(f"'{self.model}' votes on every query; leave it out", "neighbours")
        if self.epochs is not None and not by_recipe(self.model):
            raise mistake(f"'{self.model}' is not trained in epochs; leave it out", "epochs")
        return self

    @property
    def training(self) -> "TrainingParameters":
        """Return the parameters of training alone, of a model that has more."""
        return TrainingParameters.of(self)


class LearnerParameters(TrainingParameters):
    """The training of a model that predicts any sample."""

    model: Learner = Field(description="The model, a name of the registry of models.")


def baseline_slug(training: TrainingParameters, true_labels: int | None) -> str:
    """Return the name of a model trained without privacy, on `true_labels` of the pool or on all private data."""
    return slug(("truth", true_labels), training.slug)


class KeptOutputs(Parameters):
    """What is kept of the teachers' outputs beside their votes; it changes no vote."""

    soft: AnyNumber[PositiveNumber] = Field(
        (),
        description="For distillation, the temperatures at which the teachers' probabilities of the pool are summed.",
        json_schema_extra=NOT_IN_PATH,
    )
    hints: Text | None = Field(
        None,
        min_length=1,
        description="For PET-DL, the layer whose hints are kept beside each teacher's probabilities of the pool:"
        " block1, block2 or block3 of conv-small and conv-middle, or probabilities for these alone.",
        json_schema_extra=NOT_IN_PATH,
    )


class TeacherParameters(KeptOutputs):
    """How teachers are trained by jobs; nothing of it changes a vote."""

    chunk: Whole = Field(
        25,
        ge=1,
        description="How many teachers one job trains; it changes no result, except for rounding on a GPU, which trains"
        " them all at once, so 1000.",
        json_schema_extra=NOT_IN_PATH,
    )


class LedgerParameters(Parameters):
    """What all releases from one private data set may cost together."""

    budget: PositiveNumber = Field(description="The ε, at `delta`, that all releases together keep.")
    delta: Number = Field(ge=SMALLEST_DELTA, lt=1, description="The δ of that budget.")


class LedgerSettings(Parameters):
    """How releases are entered into the ledger: the limit for all of them together, and the name of the data."""

    budget: PositiveNumber | None = Field(None, description="The ε, at `delta`, that all releases together keep.")
    delta: Number | None = Field(None, ge=SMALLEST_DELTA, lt=1, description="The δ of that budget.")
    private: Annotated[Text, AfterValidator(plain_name)] | None = Field(
        None,
        description="A permanent name of the private data: all releases of one name are counted together, whatever the"
        " files hold.",
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        for key, other in (("budget", "delta"), ("delta", "budget")):
            if getattr(self, key) is None and (getattr(self, other) is not None or self.private is None):
                hint = "is missing; a limit is a budget and a delta"
                raise mistake(hint, key)
        return self

    @property
    def limit(self) -> LedgerParameters | None:
        """Return the (ε, δ) of all releases together; None if there is only a name."""
        if self.budget is None or self.delta is None:
            return None
        return LedgerParameters(budget=self.budget, delta=self.delta)


class AccountParameters(Parameters):
    """What ε is reported for."""

    delta: Number = Field(
        ge=SMALLEST_DELTA, lt=1, description="The δ of every reported (ε, δ); below 1/n for n teachers."
    )
    queries: AnyNumber[PositiveWhole] = Field(
        (),
        description="ε is reported for the first so many queries, each number in turn; by default for all. Of a release"
        " for all alone, as that is what was handed out.",
    )


class AccountingParameters(AccountParameters):
    """The same, and when releases stop."""

    budget: Number | None = Field(
        None, gt=0, description="Releases stop answering before this ε, at delta, is exceeded, whatever the votes are."
    )


class StudentParameters(StudentConfig):
    """A student, and how many of its labels are kept from it."""

    hold_out: Number | None = Field(
        None,
        gt=0,
        lt=1,
        description="The share of its labels that it does not see, to compare settings without a true label.",
    )

    def slug_of(self, queries: int) -> str:
        """Return the name of a student of so many labels: the method, their number and what was chosen."""
        return slug(self.method, ("queries", queries), *self.parts("method"))


class SelectionParameters(Parameters):
    """How a round's queries are chosen."""

    strategy: Strategy = Field(description="How queries are selected, a name of the registry of strategies.")
    queries: Whole = Field(ge=1, description="How many queries this round selects.")

    @property
    def slug(self) -> str:
        return slug((self.strategy, self.queries), *self.parts("strategy", "queries"))


class DistilParameters(LearnerParameters):
    """What learns from the teachers' probabilities."""

    samples: OneOrMore[PositiveWhole] = Field(
        description="How many samples of the pool are learnt from, in turn.", json_schema_extra=NOT_IN_PATH
    )


class DpsgdParameters(Parameters):
    """What DP-SGD trains and how, and the privacy that it keeps; what is left out is the form's own choice."""

    form: Annotated[Text, one_of(lambda: DPSGD_FORMS)] = Field(
        description=", ".join(f"{name} ({form.about})" for name, form in DPSGD_FORMS.items()) + "."
    )
    model: Model | None = Field(
        None,
        description="The network, a name of the registry of models, only for scratch; tanh-cnn or mlp by the data's"
        " shape.",
    )
    compression: PositiveNumber | None = Field(
        None,
        description="With conv-small or conv-middle, how many times as many parameters it has as the network that"
        " learns, as for students of PET-DL; 1 by default.",
    )
    rate: Number | None = Field(
        None,
        gt=0,
        le=1,
        description="The probability with which each private sample takes part in a step. Choose it from public"
        " knowledge: how many samples there are is private.",
    )
    steps: Whole | None = Field(None, ge=1, description="How many noisy steps are taken.")
    clip: Number | None = Field(None, gt=0, description="The norm that no sample's gradient exceeds.")
    learning_rate: Number | None = Field(None, gt=0, description="Adam's at the first step; it falls to 0.")
    views: Whole | None = Field(
        None,
        ge=1,
        description="Of how many random views of an image its gradient is the mean; 1 is the image itself.",
    )
    ema: Number | None = Field(None, ge=0, lt=1, description="The decay of the average of the weights that predicts.")
    epsilon: PositiveNumber = Field(
        description="The ε that the model keeps, at `delta`; it protects one private sample."
    )
    delta: Number = Field(ge=LEAST_DELTA, lt=1, description="The δ of that ε.")

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        network = self.form == "scratch"
        for key, fits in (("model", network), ("compression", network), ("views", self.form != "linear")):
            if getattr(self, key) is not None and not fits:
                value = show(getattr(self, key))
                raise mistake(f"is {value}, and the form {self.form} has none to choose; leave it out", key)
        if self.compression is not None:
            with blamed_on_key("compression"):
                check_compressible(self.model)
        return self

    @property
    def slug(self) -> str:
        privacy = (("epsilon", self.epsilon), ("delta", self.delta))
        return slug(self.form, *privacy, *self.parts("form", "epsilon", "delta"))

    def chosen(self) -> dict[str, float]:
        """Return the numbers that steer the training: those given here, else the form's own."""
        form = DPSGD_FORMS[self.form]
        names = ("rate", "steps", "clip", "learning_rate", "views", "ema")
        given = {name: getattr(self, name) for name in names}
        return {name: getattr(form, name) if value is None else value for name, value in given.items()}


class PrivateKnnParameters(Parameters):
    """How the nearest private records label public samples, and what learns from these labels."""

    form: Annotated[Text, one_of(lambda: KNN_FORMS)] = Field(
        description="; ".join(f"{name}: {about}" for name, about in KNN_FORMS.items()) + "."
    )
    rate: Number = Field(gt=0, le=1, description="The share of the private records that is drawn for a query.")
    neighbours: PositiveWhole = Field(description="How many of these, the nearest ones, vote on it.")
    threshold: Number = Field(ge=0, description="The noisy count of a class above which a query is answered.")
    sigma1: Number = Field(ge=0, description="The noise of that test.")
    sigma2: Number = Field(ge=0, description="The noise of each count of an answer.")
    queries: PositiveWhole = Field(description="How many samples of the pool are asked about, the first ones.")
    answers: PositiveWhole | None = Field(
        None, description="With sound, how many answers are given at most; by default one for each query."
    )
    student: Method = Field("consistency", description="How the student learns, a name of the registry.")
    delta: Number = Field(ge=LEAST_DELTA, lt=1, description="The δ of the ε of all labels.")

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if self.form == "published" and self.answers is not None:
            raise mistake(
                f"is {self.answers}, and the form published answers all queries that pass; leave it out", "answers"
            )
        return self

    @property
    def settings(self) -> KNNSettings:
        """Return what the cost of the labels follows from."""
        return KNNSettings(**self.model_dump(exclude={"form", "student", "delta"}))


class PetdlParameters(Parameters):
    """How a student of PET-DL learns; what is left out is the form's own choice."""

    form: Annotated[Text, known_to(PETDL_FORMS)] = Field(
        description="published, or a sound form: noisy-gradient or noisy-knowledge."
    )
    noise: NumberFrom0 | None = Field(
        None, description="The standard deviation of the noise, in clips; or epsilon, from which it follows."
    )
    epsilon: PositiveNumber | None = Field(
        None, description="The ε of the whole training, in place of the noise: the least noise that keeps it is taken."
    )
    delta: Number = Field(ge=SMALLEST_DELTA, lt=1, description="The δ of that ε and of what is reported.")
    hint_epochs: WholeFrom0 | None = Field(
        None, description="Passes of hint learning, before distillation; 0 for none."
    )
    distillation_epochs: PositiveWhole | None = Field(None, description="Passes of distillation.")
    batch: PositiveWhole | None = Field(None, description="Public samples in a batch, which is one query.")
    clip: PositiveNumber | None = Field(
        None,
        description="What one teacher may add: PET-DL's B of a loss, the norm of a gradient, or that of an output.",
    )
    hint_clip: PositiveNumber | None = Field(None, description="With noisy-knowledge, the norm of a teacher's hints.")
    temperature: PositiveNumber | None = Field(None, description="The temperature of softened outputs.")
    weighted: Truth | None = Field(None, description="Whether teachers count by their confidence.")
    compression: PositiveNumber | None = Field(
        None, description="How many times as many parameters a teacher has as the student; 1 by default."
    )
    samples: PositiveWhole | None = Field(None, description="How many of the pool's first samples; all by default.")
    guided: Text | None = Field(
        None, description="The student's layer that learns the hints, block1, block2 or block3; by default theirs."
    )
    learning_rate: PositiveNumber | None = Field(None, description="The highest learning rate of its one cycle.")

    @model_validator(mode="after")
    def _noise_or_target(self) -> Self:
        if (self.noise is None) == (self.epsilon is None):
            raise mistake(
                "is needed, or epsilon in its place" if self.noise is None else "and epsilon are two ways to say one",
                "noise",
            )
        return self


class AuditParameters(Parameters):
    """How a mechanism is audited."""

    runs: Whole = Field(
        100_000, ge=1000, description="How often each mechanism is run on each of two adjacent data sets."
    )
    confidence: Number = Field(0.999, gt=0, lt=1, description="The confidence of what those runs show.")
