"""Which public samples become queries and which test samples, such that no sample lies on two sides."""

import hashlib
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError


@dataclass(frozen=True, eq=False)
class Split:
    """Positions in the public data, and how many samples were left out because they occur elsewhere too."""

    pool: NDArray[np.int64]
    test: NDArray[np.int64]
    in_private: int
    in_pool: int


def content(x: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.uint64]:
    """A hash of each sample's content; x is (samples, …), and the two floating-point zeros count as one.

    Should two samples collide, one too many is left out and none is let through.
    """
    if x.dtype.kind == "f":
        x = np.where(x == 0, np.zeros((), x.dtype), x)
    digests = b"".join(hashlib.blake2b(sample, digest_size=8).digest() for sample in np.ascontiguousarray(x))
    return np.frombuffer(digests, dtype=np.uint64)


def divide(
    private: NDArray[np.uint64], public: NDArray[np.uint64], pool: int, test: int | None, rng: np.random.Generator
) -> Split:
    """Shuffle the public samples; the first `pool` are queries and the next `test` (None: all others) the test set.

    `private` and `public` are the samples' contents. Public samples that occur in the private data are passed over, and
    so are test samples that occur in the pool. Raises PatebenchError when too few remain.
    """
    if pool < 1 or (test is not None and test < 1):
        raise PatebenchError(f"pool = {pool} and test = {test} were asked for; both need at least one sample")
    order = rng.permutation(len(public))
    fresh = order[~np.isin(public[order], private)]
    queries, others = fresh[:pool], fresh[pool:]
    unseen = others[~np.isin(public[others], public[queries])]
    split = Split(queries, unseen[:test], len(order) - len(fresh), len(others) - len(unseen))
    if len(split.pool) < pool or len(split.test) < (test or 1):
        raise PatebenchError(
            f"{len(public)} public samples, less {split.in_private} that are private and {split.in_pool} that are in"
            f" the pool, are too few for a pool of {pool} and {test or 'any'} test samples; choose smaller numbers"
        )
    return split


def check_apart(**parts: NDArray[np.uint64]) -> None:
    """Refuse parts of which two share a sample; each is given as its contents, and PatebenchError names both."""
    for (name, part), (other, rest) in combinations(parts.items(), 2):
        shared = int(np.isin(part, rest).sum())
        if shared:
            raise PatebenchError(
                f"{shared} samples are in the {name} part and in the {other} part; make the split anew"
            )
