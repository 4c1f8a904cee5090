"""Divide the public samples into a pool and a disjoint test set, shift images, and hash samples.

Samples with the same bytes count as the same sample. The division never depends on private data.
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


def hash_names(names: Iterable[str]) -> NDArray[np.int64]:
    """Return a 63-bit hash (names,) of each name; the hash of a name does not depend on the other names."""
    digests = b"".join(hashlib.blake2b(os.fsencode(name), digest_size=8).digest() for name in names)
    return (np.frombuffer(digests, dtype="<u8") >> np.uint64(1)).astype(np.int64)


def hash_samples(x: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each sample of `x` (samples, …); −0.0 and 0.0 have the same hash.

    Samples with equal hashes are treated as duplicates. At worst, a collision of two hashes removes a sample that is in
    fact unique.
    """
    if x.dtype.kind == "f":
        x = np.where(x == 0, np.zeros((), x.dtype), x)
    digests = b"".join(hashlib.blake2b(sample, digest_size=8).digest() for sample in np.ascontiguousarray(x))
    return np.frombuffer(digests, dtype=np.uint64)


def order_by_content(arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.intp]:
    """Return the positions (samples,) that sort samples by a hash of their content, independently of their labels.

    Use this order if only labels are private, since the order in which a loader returns samples may reveal labels.
    `arrays` are the arrays of a data set. The hash is that of `arrays["images"]` if this array exists, otherwise of
    `arrays["x"]`. Raises PatebenchError for identical samples, because their order could depend on the labels.
    """
    hashes = hash_samples(arrays.get("images", arrays["x"]))
    order = np.argsort(hashes, kind="stable")
    if copies := len(hashes) - len(np.unique(hashes)):
        found = f"the pool contains {plural(copies, 'copy')} of other samples"
        line = f"{found}, and the order of copies could reveal private labels; remove the copies"
        raise PatebenchError(line, code="labels")
    return order


def digest_records(x: NDArray[Any], y: NDArray[Any]) -> str:
    """Return a SHA-256 digest of the records `x` (samples, …) with labels `y`, independent of their order."""
    hashes = _hash_records(x, y)
    return hashlib.sha256(hashes[np.lexsort(hashes.T)].tobytes()).hexdigest()


def digest_owners(x: NDArray[Any], y: NDArray[Any], owners: NDArray[Any], rows: NDArray[Any]) -> str:
    """Return a SHA-256 digest of the grouping of the records `x` (samples, …) with labels `y` by their `owners`.

    The digest does not depend on the numbers of the owners. It depends on the row numbers `rows`, and so on the order
    of the records, only if some records are identical: identical records could be swapped between owners.
    """
    hashes = _hash_records(x, y)
    if len(np.unique(hashes, axis=0)) < len(hashes):
        hashes = np.concatenate([hashes, rows.astype(np.uint64)[:, None]], axis=1)
    order = np.lexsort((*hashes.T, owners))
    starts = np.flatnonzero(np.diff(owners[order])) + 1
    groups = sorted(hashlib.sha256(group.tobytes()).digest() for group in np.split(hashes[order], starts))
    return hashlib.sha256(b"".join(groups)).hexdigest()


def _hash_records(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.uint64]:
    """Return the hash of each sample of `x` beside its label in `y`, (samples, 2)."""
    return np.stack([hash_samples(x), y.astype(np.uint64)], axis=1)


def digest_counts(counts: NDArray[np.integer]) -> str:
    """Return a SHA-256 digest of vote counts (queries, classes), independent of the order of queries and of classes.

    The counts of each query are sorted in descending order, and columns of zeros are left out. Tables of counts with
    the same digest are treated as the same data.
    """
    ordered = -np.sort(-np.asarray(counts, dtype="<i8"), axis=1)
    voted = ordered[:, : max(1, int(ordered.any(axis=0).sum()))]
    return hashlib.sha256(np.sort(hash_samples(voted)).tobytes()).hexdigest()


#: Transformations of uint8 images (samples, channels, height, width), by name.
SHIFTS: Mapping[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "inverted": lambda x: 255 - x,
    "rotated": lambda x: np.ascontiguousarray(np.rot90(x, axes=(2, 3))),
}


def check_shift(shift: str, shape: tuple[int, ...]) -> None:
    """Raise PatebenchError if a sample of `shape` is not an image, since `shift` only transforms images."""
    if len(shape) != 3:
        raise PatebenchError(
            f"samples of shape {shape} are not images and cannot be {shift}; leave 'pool_shift' out", code="shape"
        )


def shift_images(x: NDArray[Any], shift: str | None) -> NDArray[Any]:
    """Return the images `x` after the transformation `shift`, one of `SHIFTS`; None stands for no transformation.

    A shifted pool has another distribution than the private images. Raises PatebenchError if `x` is a table, unless
    `shift` is None.
    """
    if shift is None:
        return x
    check_shift(shift, x.shape[1:])
    return SHIFTS[shift](x)


@dataclass(frozen=True, eq=False)
class PublicSplit:
    """Positions of the samples in the pool and in the test set, as drawn by `divide`.

    Parameters
    ----------
    pool : positions among the public samples or, if only labels are private, among the samples with private labels
    test : positions among the public samples
    in_pool : number of public samples that are left out of the test set because the pool contains an identical sample
    """

    pool: NDArray[np.int64]
    test: NDArray[np.int64]
    in_pool: int


def divide(
    public: NDArray[np.uint64],
    pool: int,
    test: int | None,
    rng: np.random.Generator,
    training: NDArray[np.uint64] | None = None,
) -> PublicSplit:
    """Draw a random pool and a disjoint test set.

    Parameters
    ----------
    public : (samples,) hashes of the public samples
    pool : number of samples in the pool
    test : number of public samples in the test set; None for all that are not in the pool
    rng : generator of the random numbers
    training : (samples,) hashes of the samples with private labels, from which the pool is drawn if only labels are
        private. If None, the pool is drawn from the public samples

    Raises
    ------
    PatebenchError
        If there are too few samples for the pool or the test set. A public sample that is identical to a sample in the
        pool cannot be in the test set.
    """
    if pool < 1 or (test is not None and test < 1):
        raise PatebenchError(f"pool = {pool} and test = {test} are too small; use at least one sample for each")
    order = rng.permutation(len(public))
    queries, others = order[:pool], order[pool:]
    if training is not None:
        queries, others = rng.permutation(len(training))[:pool], order
    source = public if training is None else training
    unseen = others[~np.isin(public[others], source[queries])]
    split = PublicSplit(queries, unseen[:test], len(others) - len(unseen))
    if len(split.pool) < pool or len(split.test) < (test or 1):
        raise PatebenchError(
            f"{len(public)} public samples, {split.in_pool} of them copies of pool samples, are too few for a pool of"
            f" {pool} and {plural(test or 1, 'test sample')}; choose a smaller pool or test set"
        )
    return split


def check_pool_and_test(pool: NDArray[np.uint64], test: NDArray[np.uint64]) -> None:
    """Raise PatebenchError if pool and test set share a sample; `pool` and `test` are hashes of their samples."""
    shared = int(np.isin(pool, test).sum())
    if shared:
        raise PatebenchError(
            f"the test set contains {plural(shared, 'sample')} of the pool; leave them out of the test set"
        )
