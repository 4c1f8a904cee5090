"""The student that `patebench.train_student` returns, as a scikit-learn classifier."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from patebench.core.checks import MOST_CLASSES, check_array, check_whole, frame_of
from patebench.core.errors import PatebenchError
from patebench.students.interface import StudentConfig, StudentData

if TYPE_CHECKING:
    from patebench.students.interface import StudentTrainer

#: The label of a sample without one, as in `sklearn.semi_supervised`.
_NO_LABEL = -1


class StudentInputError(PatebenchError, ValueError):
    """Error for samples or labels that a student cannot use; it is also a ValueError, as scikit-learn expects."""


class Student(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A student that learns from released labels, as a scikit-learn classifier.

    Parameters
    ----------
    method : name of a student method in the registry `students.STUDENTS`.
    model, recipe, epochs : name of the model, name of the training recipe, and number of passes over the training data;
        if None, the method chooses by the type and size of the pool. Some methods do not accept a model or a recipe.
    classes : number of classes; by default one more than the largest label, and at least 2.
    seed : base of all random draws; the same arguments give the same student on the same machine.

    Attributes
    ----------
    classes_ : (classes,) int array 0 … classes − 1.
    curve_ : learning curve: a list with a dict of measured values per epoch.
    shape_ : shape of one sample.
    trainer_ : the trained student.
    n_features_in_, feature_names_in_ : for a table, the number of its columns, and their names if it was a DataFrame.
    """

    def __init__(
        self,
        method: str = "consistency",
        *,
        model: str | None = None,
        recipe: str | None = None,
        epochs: int | None = None,
        classes: int | None = None,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.model = model
        self.recipe = recipe
        self.epochs = epochs
        self.classes = classes
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from a public pool and the labels that were released for some of its samples.

        Parameters
        ----------
        X : the pool: uint8 images (samples, channels, height, width), uint8 grey images (samples, height, width), or a
            table of numbers (samples, features), also as a DataFrame.
        y : (samples,) int array or Series: labels 0 … classes − 1, and −1 for samples without a label.

        Raises
        ------
        PatebenchError
            For arrays of a wrong shape, type or range, an unknown name, or an option that the method does not accept.
        """
        options = {name: getattr(self, name) for name in StudentConfig.model_fields}
        config = StudentConfig.checked({name: value for name, value in options.items() if value is not None})
        samples = _convert_samples(X)
        _check_index(X, y)
        labels, number = _check_labels(y, len(samples), self.classes)
        data = StudentData(pool=samples, labels=labels, classes=number)
        from patebench.students.student_training import train  # imports torch, so arguments are checked first

        self.trainer_: StudentTrainer
        self.trainer_, self.curve_ = train(data, config, seed=check_whole("seed", self.seed, 0))
        self.classes_, self.shape_ = np.arange(number), samples.shape[1:]
        if samples.ndim == 2:
            self.n_features_in_ = samples.shape[1]
        if (frame := frame_of(X)) is not None:
            self.feature_names_in_ = np.array(frame.columns, dtype=object)
        return self

    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return class log-probabilities (samples, classes) of samples `X`, which have the pool's type and shape."""
        check_is_fitted(self)
        samples = _convert_samples(X)
        if samples.ndim == 2 == len(self.shape_) + 1 and samples.shape[1:] != self.shape_:
            features = f"X has {samples.shape[1]} features, but Student is expecting {self.n_features_in_} features"
            raise StudentInputError(f"{features} as input; give the features of the pool")
        if samples.shape[1:] != self.shape_:
            raise StudentInputError(
                f"samples have shape {samples.shape[1:]}, but those of the pool have {self.shape_}; give samples"
                " of the pool's shape"
            )
        names = getattr(self, "feature_names_in_", None)
        if names is not None and (frame := frame_of(X)) is not None and list(frame.columns) != list(names):
            raise StudentInputError(
                f"the columns differ from those of the pool; give {', '.join(map(str, names))}, in this order"
            )
        return self.trainer_.log_probabilities(samples)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return class probabilities (samples, classes) of samples `X`; each row sums to 1."""
        shares = np.exp(self.predict_log_proba(X))
        return shares / shares.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the most probable class (samples,) of each sample of `X`."""
        return np.argmax(self.predict_log_proba(X), axis=1)


def _convert_samples(x: ArrayLike) -> NDArray[Any]:
    """Return a checked copy of samples `x`: uint8 images (samples, channels, height, width) or a float32 table."""
    array = check_array("samples", x)
    images = array.ndim in (3, 4) and array.dtype == np.uint8
    table = array.ndim == 2 and array.dtype.kind in ("fiub" if frame_of(x) is not None else "fiu")
    if array.size == 0 or not (images or table):
        raise StudentInputError(
            f"samples are {array.dtype} of shape {array.shape}; give images as uint8 (samples, channels, height, width)"
            " or (samples, height, width), or a table of numbers (samples, features), not sparse"
        )
    if images:
        return np.array(array[:, None] if array.ndim == 3 else array, order="C")
    with np.errstate(over="ignore"):
        numbers = np.array(array, dtype=np.float32, order="C")
    if not np.isfinite(numbers).all():
        raise StudentInputError("samples contain NaN or infinite values; replace these values, or drop the samples")
    return numbers


def _check_index(x: ArrayLike, y: ArrayLike) -> None:
    frame = frame_of(x)
    if frame is not None and hasattr(y, "index") and hasattr(y, "reindex") and not frame.index.equals(y.index):
        raise StudentInputError(
            "labels and samples have different pandas indices; give labels.reindex(samples.index, fill_value=-1)"
        )


def _check_labels(labels: ArrayLike, samples: int, classes: int | None) -> tuple[NDArray[np.int64], int]:
    """Return the checked `labels` (`samples`,) and the number of classes.

    The number is `classes` or, if None, one more than the largest label, but at least 2.
    """
    array = check_array("labels", labels)
    if array.shape != (samples,) or array.dtype.kind not in "iu":
        raise StudentInputError(
            f"labels are {array.dtype} of shape {array.shape}; give whole numbers of shape ({samples},), one for each "
            "sample of the pool, −1 for a sample without a label"
        )
    least, largest = int(array.min()), int(array.max())
    if largest >= MOST_CLASSES:
        raise StudentInputError(
            f"labels go up to {largest}, but at most {MOST_CLASSES:,} classes are possible; number classes from 0"
        )
    number = max(largest + 1, 2) if classes is None else check_whole("classes", classes, 2, MOST_CLASSES)
    if largest == _NO_LABEL:
        raise StudentInputError(
            "no sample of the pool has a label, so there is nothing to learn from; give at least"
            " one label other than −1"
        )
    if least < _NO_LABEL or largest >= number:
        raise StudentInputError(f"labels run from {least} to {largest}; give −1 (no label) or 0 to {number - 1}")
    return array.astype(np.int64), number
