"""Sensitivity of a table of noisy counts to one teacher's votes, if few votes of each teacher are counted.

A table has one cell per query and class. In each round of queries, the mechanism counts only the first k votes of a
teacher (`votes.capped`). So the tables of two neighbours differ in at most 2m cells, by one each. Here m is Σ_r min(k,
T_r), and T_r is the number of queries of round r. The L1 distance of the tables is at most 2m, and their L2 distance is
at most √(2m), for any number of queries.

If neighbours remove a teacher's votes instead of replacing them, the tables differ in at most m cells. The rows of the
other teachers keep their indices in the vote matrix, so the same votes of these teachers are counted.

Rounds compose adaptively (Dong, Roth, Su 2022, Theorem 3.2; Mironov 2017, Proposition 1; Kairouz, Oh, Viswanath 2015,
Theorem 3.3).

Votes may also have weights. A teacher with label y then adds the weight v_q to the cell of query q and class y, and
‖v‖² ≤ c holds in each round. If all votes of a teacher may change, tables differ by an L2 distance of at most 2√c per
round. If only the label y of a teacher's single record is private, v is public, and the distance is √2·‖v‖ ≤ √(2c).
With Laplace noise of scale 1/γ, a count that changes by s is γs-DP and so (γs)²/2-zCDP. A table of d counts at an L2
distance of D is γD√d-DP and (γD)²/2-zCDP.

The noisy table itself is released. Labels and all other results are computed from the noisy table.
Proof: docs/explanation/proofs-systems.md, "Tables with few votes of a teacher".
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import ABSTAINED
from patebench.core.blocks import blocks

_CELLS = 1 << 20  # teachers × queries per block


def participations(most: int, queries: int, rounds: Sequence[int] = ()) -> int:
    """Return the maximum number of counted votes of one teacher in the first `queries` queries.

    At most `most` votes of a teacher count per round. `rounds` are the numbers of queries of the rounds; empty: one
    round.
    """
    ends = [min(end, queries) for end in accumulate(rounds)] if rounds else [queries]
    return sum(min(most, end - start) for start, end in zip([0, *ends[:-1]], ends, strict=True))


def weighted_distance(most: int, rounds: Sequence[int] = (), *, labels: bool = False) -> int:
    """Return the largest squared L2 distance between the tables of weighted counts of two neighbours.

    The distance covers the tables of all rounds together. If all weights of a teacher may change, the result is
    4·`most` per round. In the worst case, each weight becomes its negative.

    Parameters
    ----------
    most : largest squared L2 norm of a teacher's votes per round
    rounds : numbers of queries of each round; empty: one round
    labels : True if neighbours differ only in the label of a teacher's single record. The same weights are then added
        to another class, and the result is 2·`most` per round
    """
    return (2 if labels else 4) * most * max(1, len(rounds))


def most_votes(votes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the maximum number of votes of one teacher in the first T queries of `votes`, for T = 1, 2, ….

    Parameters
    ----------
    votes : (teachers, queries) int array

    Returns
    -------
    (queries,) int array
    """
    result = np.zeros(votes.shape[1], dtype=np.int64)
    for teachers in blocks(len(votes), _CELLS // votes.shape[1]):
        cast = np.cumsum(votes[teachers] != ABSTAINED, axis=1)
        result = np.maximum(result, cast.max(axis=0))
    return result
