"""Who votes: of chosen private records the k that are nearest to a query, each for its own label."""

import numpy as np
from numpy.typing import NDArray

from patebench.features.cells import on_grid


class NearestVotes:
    """Private records and public queries, by public features (…, features) of at most unit length."""

    def __init__(
        self,
        records: NDArray[np.floating],
        labels: NDArray[np.integer],
        queries: NDArray[np.floating],
        *,
        neighbours: int,
        classes: int,
    ) -> None:
        self._records, self._queries = on_grid(records), on_grid(queries)
        self._square = np.square(self._records).sum(axis=1)
        self._labels, self._neighbours, self._classes = labels, neighbours, classes

    def __len__(self) -> int:
        """How many private records there are."""
        return len(self._records)

    def counts(self, query: int, chosen: NDArray[np.integer]) -> NDArray[np.int64]:
        """The counts (classes,) of a query, by the records at positions `chosen`; one of them may stand there twice.

        Of equally near ones, the first are taken. Distances are exact on their grid (`teachers/nearest_query.py`), so
        how two records stand to each other depends on no third one.
        """
        distance = self._square[chosen] - 2 * (self._records[chosen] @ self._queries[query])
        nearest = chosen[np.argsort(distance, kind="stable")[: self._neighbours]]
        found: NDArray[np.int64] = np.bincount(self._labels[nearest], minlength=self._classes)
        return found
