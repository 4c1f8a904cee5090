"""Data set: labelled private and public samples as a loader returns them.

Samples are not standardised, because the mean and scale of the private data are themselves private. Each learner
standardises by its own shard or by the public pool.
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
class Dataset:
    """Data set with its fixed division into a private and a public part.

    Classes, shape and type are public, so a loader takes them from the public samples or from the configuration, never
    from private ones.

    Parameters
    ----------
    private_x, public_x : (samples, channels, height, width) uint8 images or (samples, features) float32 tables
    private_y, public_y : (samples,) int64 labels in 0 … len(class_names) − 1
    private_rows, public_rows : (samples,) int64
        Distinct, non-negative number of each record, which stays the same when other records are added or removed; by
        default its position.
    private_owners, public_owners : (samples,) int64
        Person of each record, non-negative; None if unknown. No person has records in both parts.
    notes
        Sentences about ignored or missing items, for the owner of the data.

    Raises
    ------
    PatebenchError
        If shapes, types, labels or rows are invalid.
    """

    private_x: NDArray[Any]
    private_y: NDArray[np.int64]
    public_x: NDArray[Any]
    public_y: NDArray[np.int64]
    class_names: tuple[str, ...]
    private_rows: NDArray[np.int64] | None = None
    public_rows: NDArray[np.int64] | None = None
    notes: tuple[str, ...] = ()
    private_owners: NDArray[np.int64] | None = None
    public_owners: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        # The public part comes first, as it is the reference.
        _check_samples("public", self.public_x, self.public_y, len(self.class_names))
        _check_samples("private", self.private_x, self.private_y, len(self.class_names))
        _check_rows("private", self.private_rows, len(self.private_x))
        _check_rows("public", self.public_rows, len(self.public_x))
        _check_owners("private", self.private_owners, len(self.private_x))
        _check_owners("public", self.public_owners, len(self.public_x))
        check_people(self.private_owners, self.public_owners)
        if self.private_x.shape[1:] != self.public_x.shape[1:]:
            raise PatebenchError(
                f"private samples have shape {self.private_x.shape[1:]}, but public samples have shape"
                f" {self.public_x.shape[1:]}; give both the same shape"
            )

    @property
    def classes(self) -> int:
        return len(self.class_names)


@dataclass(frozen=True)
class Outline:
    """Numbers of samples and shape of a data set, known before a run, against which its configuration is checked.

    Parameters
    ----------
    private, public : numbers of private and public samples
    shape : shape of one sample
    people : number of owners of the private records, or None if they are not named
    """

    private: int
    public: int
    shape: tuple[int, ...]
    people: int | None = None

    @classmethod
    def of(cls, data: Dataset) -> Self:
        people = None if data.private_owners is None else len(np.unique(data.private_owners))
        return cls(len(data.private_x), len(data.public_x), data.private_x.shape[1:], people)


def check_people(private: NDArray[np.int64] | None, public: NDArray[np.int64] | None) -> None:
    """Raise PatebenchError if an owner has both private and public samples; None means that owners are unknown."""
    if private is None or public is None:
        return
    both = np.intersect1d(private, public)
    if len(both):
        raise PatebenchError(
            f"{plural(len(both), 'person')} {'have' if both[1:].size else 'has'} both private and public records, for"
            f" example the owner of private sample {int(np.flatnonzero(private == both[0])[0])}, so ε would not protect"
            " them; put all records of a person into one part",
            code="person-in-both-parts",
        )


def not_finite(x: NDArray[Any]) -> str | None:
    """Describe where a table `x` (samples, features) has NaN or infinite values; return None if all are finite."""
    wrong = ~np.isfinite(x)
    if not wrong.any():
        return None
    row, column = map(int, np.argwhere(wrong)[0])
    rest = int(wrong.sum()) - 1
    more = f", and {plural(rest, 'more value')}" if rest else ""
    return f"NaN or infinite values: row {row}, column {column} (counted from 0){more}"


def _check_samples(role: str, x: NDArray[Any], y: NDArray[np.int64], classes: int) -> None:
    if (x.dtype, x.ndim) not in ((np.dtype(np.uint8), 4), (np.dtype(np.float32), 2)):
        raise PatebenchError(
            f"the {role} samples have dtype {x.dtype} and shape {x.shape}; images must be uint8 of shape (samples,"
            " channels, height, width), tables float32 of shape (samples, features)"
        )
    if y.shape != x.shape[:1]:
        raise PatebenchError(
            f"the {role} part has {len(x)} samples, but labels of shape {y.shape}; give one label for each sample"
        )
    if x.size == 0:
        raise PatebenchError(f"the {role} part has no samples; give at least one sample with features")
    if x.dtype.kind == "f" and (fault := not_finite(x)):
        raise PatebenchError(f"the {role} samples contain {fault}; fill or drop them first", code="not-finite")
    if y.min() < 0 or y.max() >= classes:
        raise PatebenchError(
            f"the {role} labels run from {y.min()} to {y.max()}, but the public data or the configuration declare the"
            f" classes 0 … {classes - 1}; correct the labels, or declare more classes by classes or class_names"
        )


def _check_owners(role: str, owners: NDArray[np.int64] | None, samples: int) -> None:
    if owners is not None and (owners.dtype != np.int64 or owners.shape != (samples,) or owners.min() < 0):
        raise PatebenchError(
            f"the owners of the {role} part have dtype {owners.dtype} and shape {owners.shape}; give one integer of at"
            f" least 0 for each of the {samples} samples"
        )


def _check_rows(role: str, rows: NDArray[np.int64] | None, samples: int) -> None:
    if rows is None:
        return
    if rows.dtype != np.int64 or rows.shape != (samples,):
        raise PatebenchError(
            f"the rows of the {role} part have dtype {rows.dtype} and shape {rows.shape}; give one integer for each of"
            f" the {samples} samples"
        )
    if rows.min() < 0:
        raise PatebenchError(f"a row of the {role} part is below 0 or above 2^63 - 1; number the records from 0")
    numbers, counts = np.unique(rows, return_counts=True)
    if (counts > 1).any():
        first, second = np.flatnonzero(rows == numbers[counts > 1][0])[:2]
        raise PatebenchError(
            f"the {role} samples {first} and {second} have the same row {rows[first]}; give each a different row"
        )


def with_long_tail(data: Dataset, first: int, last: int) -> Dataset:
    """Return the data set with at most `first` private samples of class 0 and at most `last` of the last class.

    The limits of the classes between fall exponentially. The first samples of each class are kept, in order. Raises
    PatebenchError if a class has too few.
    """
    limits = np.rint(np.geomspace(first, last, data.classes)).astype(np.int64)
    kept = np.zeros(len(data.private_y), dtype=bool)
    for label, limit in enumerate(limits):
        own = np.flatnonzero(data.private_y == label)
        if len(own) < limit:
            raise PatebenchError(
                f"long_tail: class {label} has fewer than {limit} private samples; use smaller numbers",
                code="long-tail",
            )
        kept[own[:limit]] = True
    names = ("private_x", "private_y", "private_rows", "private_owners")
    columns = {name: column[kept] for name in names if (column := getattr(data, name)) is not None}
    return replace(data, **columns)
