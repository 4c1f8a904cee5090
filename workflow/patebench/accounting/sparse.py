"""One table of noisy counts, in which each teacher has at most k votes of each round: what it costs.

**The change.** Neighbours differ in one teacher's row of votes. The mechanism itself leaves the first k votes of a
row in each round, in an order that its place fixes, and cuts off the rest (`votes.capped`). So the two capped tables,
queries × classes, differ by at most k votes that vanish and k that appear in each round, one in each query. A cell
holds at most one vote of a teacher; where a vote moves within a query, one cell falls and another rises, and where it
is the same, none changes. So at most 2m cells change, by one each, m = Σ min(k, T_r) over rounds of T_r queries: the
L1 distance is at most 2m and the L2 distance at most √(2m), whatever T is. Which queries a teacher votes on may
depend on its private data.

**Rounds.** The queries of a round may follow from what was released before, as a function of that alone. Given it, both
data sets have the same queries, so each round is one more table of the kind; they compose adaptively with these bounds
(Dong, Roth, Su 2022, Theorem 3.2, for Gaussian DP; Mironov 2017, Proposition 1, for Rényi divergence; Kairouz, Oh,
Viswanath 2015, Theorem 3.3, for pure DP).

**What is read from it.** Labels, likelihoods and whatever else is a function of the table, which is released whole: no
query is paid for by itself, and no answer is cheaper than its table.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import SILENT

_CELLS = 1 << 20  # of one block of teachers × queries


def participations(most: int, queries: int, rounds: Sequence[int] = ()) -> int:
    """m: in how many of the first `queries` queries a teacher's vote is counted at most, `most` in each round."""
    ends = [min(end, queries) for end in accumulate(rounds)] if rounds else [queries]
    return sum(min(most, end - start) for start, end in zip([0, *ends[:-1]], ends, strict=True))


def most_votes(votes: NDArray[np.integer]) -> NDArray[np.int64]:
    """For T = 1, 2, …, the most votes that one teacher has in the first T queries of a matrix (teachers × queries)."""
    result = np.zeros(votes.shape[1], dtype=np.int64)
    block = max(1, _CELLS // votes.shape[1])
    for start in range(0, len(votes), block):
        given = np.cumsum(votes[start : start + block] != SILENT, axis=1)
        result = np.maximum(result, given.max(axis=0))
    return result
