"""Which public samples become queries and which test samples, such that no sample lies on two sides.

What is public must not depend on the private data, so nothing here knows them. A private sample that is public too is
left out on the teachers' side (`partitions`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.text import plural


@dataclass(frozen=True, eq=False)
class Split:
    """Positions in the public data, and how many samples were left out of the test set because the pool has them."""

    pool: NDArray[np.int64]
    test: NDArray[np.int64]
    in_pool: int


def divide(public: NDArray[np.uint64], pool: int, test: int | None, rng: np.random.Generator) -> Split:
    """Shuffle the public samples; the first `pool` are queries and the next `test` (None: all others) the test set.

    `public` are the samples' contents. Test samples that occur in the pool are passed over. Raises PatebenchError when
    too few remain.
    """
    if pool < 1 or (test is not None and test < 1):
        raise PatebenchError(f"pool = {pool} and test = {test} were asked for; both need at least one sample")
    order = rng.permutation(len(public))
    queries, others = order[:pool], order[pool:]
    unseen = others[~np.isin(public[others], public[queries])]
    split = Split(queries, unseen[:test], len(others) - len(unseen))
    if len(split.pool) < pool or len(split.test) < (test or 1):
        raise PatebenchError(
            f"{len(public)} public samples, less {split.in_pool} that are in the pool as well, are too few for a pool"
            f" of {pool} and {test or 'any'} test samples; choose smaller numbers"
        )
    return split


def check_apart(pool: NDArray[np.uint64], test: NDArray[np.uint64]) -> None:
    """Refuse a pool and a test set that share a sample; both are given as contents. Raises PatebenchError."""
    shared = int(np.isin(pool, test).sum())
    if shared:
        raise PatebenchError(f"{plural(shared, 'sample')} of the pool in the test set as well; make the split anew")
