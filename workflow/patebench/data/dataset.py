"""Data set: labelled private and public samples as a loader returns them.

Samples are not standardised, because the mean and scale of the private data are themselves private. Each model
standardises samples by its own training data or by public data.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.text import plural

#: Reference to the documentation in messages about a user's own files.
OWN_DATA = "see docs/how-to/own-data.md for the layout of your own data"


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """The private or the public part of a data set.

    Parameters
    ----------
    x : (samples, channels, height, width) uint8 images or (samples, features) float32 table
    y : (samples,) int64 labels
    rows : (samples,) int64
        Distinct, non-negative number of each record. None: the number of a record is its position.
    owners : (samples,) int64
        Non-negative number that identifies the person of each record; None if unknown.
    positional : bool
        True if the numbers of records are positions, so removing a record changes the numbers of later records. If
        `rows` is None, this is always True.

    Raises
    ------
    PatebenchError
        If shapes, types, values or rows are invalid.
    """

    x: NDArray[Any]
    y: NDArray[np.int64]
    rows: NDArray[np.int64] | None = None
    owners: NDArray[np.int64] | None = None
    positional: bool = False

    def __post_init__(self) -> None:
        x, y = self.x, self.y
        if self.rows is None:
            object.__setattr__(self, "positional", True)
        if (x.dtype, x.ndim) not in ((np.dtype(np.uint8), 4), (np.dtype(np.float32), 2)):
            raise PatebenchError(
                f"the samples have dtype {x.dtype} and shape {x.shape}; give images as uint8 of shape (samples,"
                " channels, height, width), or a table as float32 of shape (samples, features)"
            )
        if y.shape != x.shape[:1]:
            raise PatebenchError(f"{len(x)} samples have labels of shape {y.shape}; give one label for each sample")
        if x.size == 0:
            raise PatebenchError("the array of samples is empty; give at least one sample with at least one feature")
        if x.dtype.kind == "f" and not (finite := np.isfinite(x)).all():
            row, column = map(int, np.argwhere(~finite)[0])
            raise PatebenchError(
                f"{plural(int((~finite).sum()), 'value')} of the samples, for example in row {row}, column {column}"
                " (counted from 0), are NaN, infinite or beyond ±3.4e38; replace these values or drop the samples",
                code="not-finite",
            )
        for name, numbers in (("rows", self.rows), ("owners", self.owners)):
            if numbers is not None:
                check_numbers(name, numbers, len(x))
        if self.rows is not None:
            order = np.argsort(self.rows, kind="stable")
            if len(same := np.flatnonzero(np.diff(self.rows[order]) == 0)):
                first, second = order[same[0]], order[same[0] + 1]
                raise PatebenchError(
                    f"samples {first} and {second} have the same row number {self.rows[first]}; give each a"
                    " different one"
                )

    def __len__(self) -> int:
        return len(self.y)

    def where(self, mask: NDArray[np.bool_]) -> Self:
        """Return the samples for which `mask` (samples,) is True, with their row numbers.

        If `rows` is None, the row number of a returned sample is its position before the selection.
        """
        rows = np.flatnonzero(mask) if self.rows is None else self.rows[mask]
        owners = None if self.owners is None else self.owners[mask]
        return replace(self, x=self.x[mask], y=self.y[mask], rows=rows, owners=owners)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Data set that consists of a private and a public part; no person has records in both.

    Labels are positions in `class_names`. `notes` are messages for the user, for example about ignored files. Classes,
    shape and type are public: a loader takes them from the public samples or from the configuration, never from private
    samples. Raises PatebenchError if the parts differ in shape or share a person, or if a label is not a class.
    """

    private: LabelledSamples
    public: LabelledSamples
    class_names: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for role, y in (("public", self.public.y), ("private", self.private.y)):
            if y.min() < 0 or y.max() >= self.classes:
                raise PatebenchError(
                    f"the {role} labels run from {y.min()} to {y.max()}, but the public data or the configuration"
                    f" declare the classes 0 … {self.classes - 1}; correct the labels, or declare more classes in"
                    " 'classes' or 'class_names'"
                )
        check_people(self.private.owners, self.public.owners)
        private, public = self.private.x.shape[1:], self.public.x.shape[1:]
        if private != public:
            raise PatebenchError(
                f"private samples have shape {private}, but public samples have shape {public}; give both the same"
                " shape"
            )

    @property
    def classes(self) -> int:
        return len(self.class_names)


@dataclass(frozen=True)
class Outline:
    """Sizes of a data set and shape of a sample, to check a configuration before the data are loaded.

    Parameters
    ----------
    private, public : numbers of private and public samples
    shape : shape of one sample
    people : number of owners of the private records, or None if owners are unknown
    """

    private: int
    public: int
    shape: tuple[int, ...]
    people: int | None = None

    @classmethod
    def of(cls, data: Dataset) -> Self:
        people = None if data.private.owners is None else len(np.unique(data.private.owners))
        return cls(len(data.private), len(data.public), data.private.x.shape[1:], people)


def check_people(private: NDArray[np.int64] | None, public: NDArray[np.int64] | None) -> None:
    """Raise PatebenchError if an owner has both private and public samples.

    `private` and `public` (samples,) are the owners of the private and the public samples, or None if unknown.
    """
    if private is None or public is None:
        return
    both = np.intersect1d(private, public)
    if len(both):
        raise PatebenchError(
            f"ε would not protect {plural(len(both), 'person')} with both private and public records, for example the"
            f" owner of private sample {int(np.flatnonzero(private == both[0])[0])}; make all records of a person"
            " private or all public",
            code="person-in-both-parts",
        )


def check_numbers(name: str, numbers: NDArray[Any], samples: int) -> None:
    """Raise PatebenchError unless `numbers` are non-negative integers (samples,); the message names them `name`."""
    if numbers.dtype.kind not in "iu" or numbers.shape != (samples,):
        raise PatebenchError(
            f"the {name} have dtype {numbers.dtype} and shape {numbers.shape}; give one integer for each of the"
            f" {samples} samples"
        )
    if numbers.min() < 0:
        raise PatebenchError(f"the {name} contain {numbers.min()}; give numbers from 0 to 2^63 - 1")


def long_tail_sizes(first: int, last: int, classes: int) -> NDArray[np.int64]:
    """Return the number of samples of each of `classes` classes, which falls exponentially from `first` to `last`."""
    return np.rint(np.geomspace(first, last, classes)).astype(np.int64)


def with_long_tail(data: Dataset, first: int, last: int) -> Dataset:
    """Return `data` with fewer private samples, such that class sizes fall exponentially from `first` to `last`.

    `first` is the size of class 0 and `last` the size of the last class. A class keeps those of its samples that come
    first in `data`, with the same row numbers. The selection depends on private labels, so ε holds only for the data
    set after the selection. Raises PatebenchError if a class has too few samples.
    """
    limits, y = long_tail_sizes(first, last, data.classes), data.private.y
    kept = np.zeros(len(y), dtype=bool)
    for label, limit in enumerate(limits):
        own = np.flatnonzero(y == label)
        if len(own) < limit:
            raise PatebenchError(
                f"'long_tail' needs {limit} private samples of class {label}, but there are fewer; use smaller numbers"
                " in 'long_tail'",
                code="long-tail",
            )
        kept[own[:limit]] = True
    return replace(data, private=data.private.where(kept))
