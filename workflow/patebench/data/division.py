"""Divide the public samples into disjoint pool and test set, shift images, and hash contents.

Samples with the same bytes count as one. Private data are not used here; a private sample that is also public is
removed from the teachers' shards (`partitions`).
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.text import plural


def identifiers(names: Iterable[str]) -> NDArray[np.int64]:
    """Return 63 bits of a hash of each name, so that a name keeps its number when others are added or removed."""
    digests = b"".join(hashlib.blake2b(os.fsencode(name), digest_size=8).digest() for name in names)
    return (np.frombuffer(digests, dtype="<u8") >> np.uint64(1)).astype(np.int64)


def content(x: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each sample of `x` (samples, …); −0.0 and 0.0 have the same hash.

    A collision would remove a sample too many, and never keep one that should be removed.
    """
    if x.dtype.kind == "f":
        x = np.where(x == 0, np.zeros((), x.dtype), x)
    digests = b"".join(hashlib.blake2b(sample, digest_size=8).digest() for sample in np.ascontiguousarray(x))
    return np.frombuffer(digests, dtype=np.uint64)


def records(x: NDArray[Any], y: NDArray[Any]) -> str:
    """Return a digest of all records, `x` (samples, …) with labels `y`, that does not depend on their order."""
    hashes = np.stack([content(x), y.astype(np.uint64)], axis=1)
    return hashlib.sha256(hashes[np.lexsort(hashes.T)].tobytes()).hexdigest()


def tallies(counts: NDArray[np.integer]) -> str:
    """Return a digest of vote counts (queries, classes), invariant to the order of queries, classes and teachers.

    It uses the counts of each query in descending order, without columns that are then all zero. Tables with the same
    digest are treated as the same data.
    """
    ordered = -np.sort(-np.asarray(counts, dtype="<i8"), axis=1)
    voted = ordered[:, : max(1, int(ordered.any(axis=0).sum()))]
    return hashlib.sha256(np.sort(content(voted)).tobytes()).hexdigest()


#: Transformations of uint8 images (samples, channels, height, width), by name.
SHIFTS: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "inverted": lambda x: 255 - x,
    "rotated": lambda x: np.ascontiguousarray(np.rot90(x, axes=(2, 3))),
}


def check_shift(shift: str, shape: tuple[int, ...]) -> None:
    """Refuse to shift samples of `shape` that are not images."""
    if len(shape) != 3:
        raise PatebenchError(
            f"these samples are not images, so they cannot be {shift}; leave out pool_shift", code="shape"
        )


def shifted(x: NDArray[Any], shift: str | None) -> NDArray[Any]:
    """Apply the named shift, if any, to images `x`; PatebenchError for tables.

    A shift of the pool makes public images differ from private ones, to test methods that learn from such a pool.
    """
    if shift is None:
        return x
    check_shift(shift, x.shape[1:])
    return SHIFTS[shift](x)


@dataclass(frozen=True, eq=False)
class PublicSplit:
    """Positions in the public data, and the number of samples left out of the test set because the pool has them."""

    pool: NDArray[np.int64]
    test: NDArray[np.int64]
    in_pool: int


def divide(public: NDArray[np.uint64], pool: int, test: int | None, rng: np.random.Generator) -> PublicSplit:
    """Shuffle the public samples; the first `pool` are queries and the next `test` (None: all others) the test set.

    `public` are hashes of the samples' contents. Test samples that also occur in the pool are skipped. Raises
    PatebenchError if too few remain.
    """
    if pool < 1 or (test is not None and test < 1):
        raise PatebenchError(f"pool = {pool} and test = {test} were asked for; both need at least one sample")
    order = rng.permutation(len(public))
    queries, others = order[:pool], order[pool:]
    unseen = others[~np.isin(public[others], public[queries])]
    split = PublicSplit(queries, unseen[:test], len(others) - len(unseen))
    if len(split.pool) < pool or len(split.test) < (test or 1):
        raise PatebenchError(
            f"{len(public)} public samples, less {split.in_pool} that are in the pool as well, are too few for a pool"
            f" of {pool} and {test or 'any'} test samples; choose smaller numbers"
        )
    return split


def check_apart(pool: NDArray[np.uint64], test: NDArray[np.uint64]) -> None:
    """Refuse a pool and a test set, given as hashes of contents, that share a sample."""
    shared = int(np.isin(pool, test).sum())
    if shared:
        raise PatebenchError(f"{plural(shared, 'sample')} of the pool also in the test set; make the split again")
