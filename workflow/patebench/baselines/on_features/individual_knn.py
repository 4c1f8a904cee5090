"""Ind-kNN (Zhu, Zhao, Guo, Liu, Wang, UAI 2023): private records near a public sample vote on its label.

The queries are random samples of the pool. The records within the radius of a query vote on it with their labels, and
the weight of a vote falls with the distance. Each record has a budget, to which its votes are charged query by query;
it stops voting when the budget is used up. The labels of the queries train two models: a linear classifier and a
student.

Differences from the paper:

- The radius of a query is its distance to its `neighbours`-th nearest sample of the pool. The paper has one radius for
  all queries.
- All queries have the same noise, and all answers are released at once, since no vote depends on an answer. The paper
  releases a noisy count of the records within the radius of each query, and adapts the query's noise to this count.
- At distance d from a query of radius r, the weight of a vote is 1 − d²/(2r²): 1 at the query and ½ at the radius. For
  vectors of unit length, this weight is linear in their cosine. The authors' code also has other kernels.
"""

from dataclasses import dataclass

import numpy as np

from patebench.baselines.on_features.feature_method import (
    Array,
    Fitted,
    GaussianSums,
    PrivateRecords,
    linear_scores,
)
from patebench.baselines.on_features.feature_sums import UNIT, Units, class_sums
from patebench.features.cells import squared_distances

#: Budget of a record: the squared L2 norm of all its votes together, with a margin for rounding.
_BUDGET = 1 - 1e-9


@dataclass(frozen=True, kw_only=True)
class IndividualNearest(GaussianSums):
    """Ind-kNN: near private records vote with their labels on `queries` public samples.

    The radius of a query is its distance to its `neighbours`-th nearest sample of the pool. Records within the radius
    vote on the query. A record has a budget: the squared L2 norm of all its votes together is at most 1. Votes are not
    negative, so replacing a record changes the sums of votes by at most 2 in squared L2 norm.
    """

    squared_changes = 2.0, 1.0

    queries: int = 200
    neighbours: int = 90

    def fit(self, private: PrivateRecords, pool: Array, classes: int, rng: np.random.Generator) -> Fitted:
        query_positions = rng.permutation(len(pool))[: self.queries]
        queries = pool[query_positions]
        of_pool = np.concatenate([distances for _, distances in squared_distances(pool, queries)])
        rank = min(self.neighbours, len(pool) - 1)
        squared_radii = np.maximum(np.partition(of_pool, rank, axis=0)[rank], 1.0)
        # At this scale, an average sample of the pool would use up its budget.
        scale = len(pool) ** 0.5 / np.linalg.norm(_vote_weights(of_pool, squared_radii))
        votes = np.empty((len(private.labels), len(queries)), np.float32)
        for rows, distances in squared_distances(private.features, queries):
            votes[rows] = _within_budget(scale * _vote_weights(distances, squared_radii))
        table = self.noisy(class_sums(votes, private.labels, classes), rng)
        class_weights, labels = np.zeros((len(pool), classes)), np.full(len(pool), -1)
        class_weights[query_positions], labels[query_positions] = np.maximum(table, 0), table.argmax(axis=1)
        return Fitted(linear_scores(pool, class_weights), "linear on labelled samples", pool.shape[1] * classes, labels)


def _vote_weights(squared_distances: Array, squared_radii: Array) -> Array:
    """Return the weights (samples, queries) of the samples' votes, from their `squared_distances` to the queries.

    A weight falls from 1 at the query to ½ at the squared distance `squared_radii` (queries,), and is 0 beyond.
    """
    return np.where(squared_distances <= squared_radii, 1 - squared_distances / squared_radii / 2, 0)


def _within_budget(votes: Array) -> Units:
    """Reduce `votes` (records, queries) so that the squares of each record's votes add up to at most 1, its budget.

    Votes are processed in the order of the queries. The vote that would exceed the budget is reduced, and later votes
    of the record become 0. The result (records, queries) contains integers in units of 1/`UNIT`.
    """
    spent = np.cumsum(np.square(votes), axis=1) - np.square(votes)
    return np.trunc(np.minimum(votes, np.sqrt(np.maximum(_BUDGET - spent, 0))) * UNIT).astype(np.float32)
