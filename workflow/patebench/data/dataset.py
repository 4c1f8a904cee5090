"""Hold labelled private and public samples as a loader returns them.

Nothing is standardised here. A mean or scale of the private data would be a further release; each learner standardises
by its own shard or by the public pool.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.text import plural

#: Reference to the documentation in messages about a user's own files.
OWN_DATA = "docs/how-to/own-data.md shows how own data are laid out"


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
        Identifiers that records keep when others are added or removed, distinct and non-negative; None: the position.
    private_owners, public_owners : (samples,) int64
        Person of each record, non-negative; None if unknown. No person has records in both parts.
    notes
        Sentences for the owner of the data on ignored or missing items.

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
                f"a private sample has shape {self.private_x.shape[1:]} and a public one {self.public_x.shape[1:]};"
                " bring them to one shape"
            )

    @property
    def classes(self) -> int:
        return len(self.class_names)


@dataclass(frozen=True)
class Outline:
    """Facts on a data set that are needed before a run.

    Parameters
    ----------
    private, public : numbers of samples.
    shape : the shape of one sample.
    people : number of people in the private part, where their records name them.
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
    """Refuse owners who have both private and public samples, if owners are known."""
    if private is None or public is None:
        return
    both = np.intersect1d(private, public)
    if len(both):
        raise PatebenchError(
            f"{plural(len(both), 'person')} own private and public records, such as private sample "
            f"{int(np.flatnonzero(private == both[0])[0])}; ε would not protect them: divide the data by person",
            code="person-in-both-parts",
        )


def not_finite(x: NDArray[Any]) -> str | None:
    """Describe the positions of NaN and infinite values in a table `x` (samples, features); None if there are none."""
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
            f"the {role} samples are {x.dtype} of shape {x.shape}; images must be uint8 (samples, channels, height,"
            " width), tables float32 (samples, features)"
        )
    if y.shape != x.shape[:1]:
        raise PatebenchError(f"the {role} part has {len(x)} samples and labels of shape {y.shape}; give one label each")
    if x.size == 0:
        raise PatebenchError(f"the {role} part is empty")
    if x.dtype.kind == "f" and (fault := not_finite(x)):
        raise PatebenchError(f"the {role} samples hold {fault}; fill or drop them first", code="not-finite")
    if y.min() < 0 or y.max() >= classes:
        raise PatebenchError(
            f"the {role} labels run from {y.min()} to {y.max()}, and the classes are 0 … {classes - 1}, as given by the"
            " public data or the configuration; correct the labels or give classes or class_names"
        )


def _check_owners(role: str, owners: NDArray[np.int64] | None, samples: int) -> None:
    if owners is not None and (owners.dtype != np.int64 or owners.shape != (samples,) or owners.min() < 0):
        raise PatebenchError(
            f"the {role} part has {samples} samples and owners that are {owners.dtype} of shape {owners.shape}; number"
            " the owner of each from 0"
        )


def _check_rows(role: str, rows: NDArray[np.int64] | None, samples: int) -> None:
    if rows is None:
        return
    if rows.dtype != np.int64 or rows.shape != (samples,):
        raise PatebenchError(
            f"the {role} part has {samples} samples and rows that are {rows.dtype} of shape {rows.shape}; give one"
            " integer for each"
        )
    if rows.min() < 0:
        raise PatebenchError(f"the {role} rows hold numbers below 0 or above 2^63 - 1; give others")
    numbers, counts = np.unique(rows, return_counts=True)
    if (counts > 1).any():
        first, second = np.flatnonzero(rows == numbers[counts > 1][0])[:2]
        raise PatebenchError(
            f"the {role} samples {first} and {second} have the same row {rows[first]}; give each a row of its own"
        )
