"""The interface of a student method: its data, its configuration and its result.

The module needs neither torch nor files.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from patebench.core.fields import Parameters, Text, Whole, blamed_on_key, known_to, mistake
from patebench.models import MODELS, RECIPES, on_features, on_queries
from patebench.students import STUDENTS, reads_table, refuse_choice

#: Function that maps samples (samples, …) to public features (samples, features). Similar samples have similar
#: features.
Features = Callable[[NDArray[Any]], NDArray[np.floating]]


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyTable:
    """A released table of noisy vote counts, and public facts about its votes.

    Parameters
    ----------
    counts : (queries, classes) noisy counts
    queries : (queries,) positions of the queries in the pool
    variance : variance of the noise on each count
    records : number of private records that voted
    neighbours : number of nearest queries on which each record voted. None: each record voted once, on the query of its
        cluster
    weighted : True if each record voted on all queries, with weights; `neighbours` is then not used
    """

    counts: NDArray[np.float64]
    queries: NDArray[np.integer]
    variance: float
    records: int
    neighbours: int | None = None
    weighted: bool = False


@dataclass(frozen=True, kw_only=True)
class StudentData:
    """All data from which a student may learn; they are public.

    Parameters
    ----------
    pool : (samples, …) all samples of the pool, uint8 for images and float32 for tables
    labels : (samples,) the released label of each sample, −1 for samples that were not queried or not answered
    classes : number of classes
    log_likelihood : (samples, classes) log-probabilities, for methods that take the noise into account. If each teacher
        randomised its own votes, they are ln Pr[release | class of the sample], up to a constant per sample. If a table
        of noisy counts was released and `table` is None, they are ln Pr[class of the sample | table]. For other
        releases, and if `table` is given, None instead of an array. Rows of samples that were not queried are 0
    features : function from samples to public features, for methods that need features
    table : the released table of noisy counts, for methods that use the whole table
    """

    pool: NDArray[Any]
    labels: NDArray[np.int64]
    classes: int
    log_likelihood: NDArray[np.float64] | None = None
    features: Features | None = None
    table: NoisyTable | None = None

    @property
    def labelled(self) -> NDArray[np.intp]:
        """Return the positions in the pool (labels,) of the samples that have a label."""
        return np.flatnonzero(self.labels >= 0)

    def without(self, held_out: NDArray[np.integer]) -> "StudentData":
        """Return a copy without the labels at the positions `held_out` in the pool; the samples stay."""
        labels = self.labels.copy()
        labels[held_out] = -1
        return replace(self, labels=labels)


def _check_student_model(model: str, info: ValidationInfo) -> str:
    """Return `model` if a student can use it; raise an error for models that only teachers can use."""
    if not info.context and on_queries(model):
        raise mistake(f"'{model}' votes on queries but predicts no labels; use it for teachers only", code="learner")
    if not info.context and on_features(model):
        raise mistake(f"'{model}' is a model of features, not of samples; use it for teachers only", code="learner")
    return model


def _check_method_of_labels(method: str, info: ValidationInfo) -> str:
    """Return the student method `method` if it learns from labels; raise an error if it needs a table of votes."""
    if not info.context and reads_table(method):
        raise mistake(
            f"'{method}' needs a released table of votes, but this student has only labels of the pool; use another"
            " method, such as label-spreading"
        )
    return method


#: Registered names of models, recipes and student methods.
Model = Annotated[Text, known_to(MODELS)]
Recipe = Annotated[Text, known_to(RECIPES)]
Method = Annotated[Text, known_to(STUDENTS)]
#: A method of a student that learns from the labels of a private classifier.
MethodOfLabels = Annotated[Method, AfterValidator(_check_method_of_labels)]
#: A model that learns from samples.
Learner = Annotated[Model, AfterValidator(_check_student_model)]


class StudentConfig(Parameters):
    """Name of a student method, and its options. If an option is None, the method uses its own default."""

    method: Method = Field(description="Name of the student's method in the registry of student methods.")
    model: Learner | None = Field(
        None,
        description="Name of the model in the registry of models; by default the method chooses by the data's shape.",
    )
    recipe: Recipe | None = Field(
        None,
        description="Name of the training recipe in the registry of recipes; only for methods that use one.",
    )
    epochs: Whole | None = Field(
        None, ge=1, description="Number of passes over the training data; by default the method chooses it."
    )

    @model_validator(mode="after")
    def _belong_together(self, info: ValidationInfo) -> Self:
        for key in ("model", "recipe"):
            if getattr(self, key) is not None and not info.context:
                with blamed_on_key(key):
                    refuse_choice(self.method, key)
        return self


@dataclass(frozen=True, kw_only=True)
class AcquisitionState:
    """Inputs of an acquisition strategy, which selects the next queries; all are public.

    Parameters
    ----------
    data : the pool, and the labels released so far
    queried : (queries,) positions of all earlier queries in the pool, answered or not
    predictions : (samples, classes) the student's class probabilities for the whole pool; None before the first student
    config : the student's configuration; None if there is no student
    features : (samples, features) features of the pool; None for strategies that need none
    """

    data: StudentData
    queried: NDArray[np.integer]
    predictions: NDArray[np.floating] | None
    config: StudentConfig | None
    features: NDArray[np.floating] | None = None

    @property
    def unqueried(self) -> NDArray[np.intp]:
        """Return the positions in the pool (samples,) that were not queried yet, in ascending order."""
        return np.setdiff1d(np.arange(len(self.data.pool)), self.queried)


class Student(Protocol):
    """A trained student, which predicts class probabilities."""

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return class log-probabilities (samples, classes) for samples `x` (samples, …)."""


class StudentTrainer(Student, Protocol):
    """A student in training: `epoch` is called at most `epochs` times, and the student can predict after each call.

    Random draws come from torch's global generator, or from generators that are part of `state`.
    """

    #: The model, the recipe ("own" if it is not registered) and the maximum number of epochs.
    model: str
    recipe: str
    epochs: int
    #: The method's further settings, for the record: numbers and text by name.
    settings: dict[str, Any]

    def epoch(self) -> dict[str, float]:
        """Train for one epoch; return values for the learning curve, such as mean losses, by name."""

    def state(self) -> dict[str, Any]:
        """Return everything on which the remaining epochs depend: tensors, numbers, text, and containers of these."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a `state` that the method `state` returned, possibly in another process."""
