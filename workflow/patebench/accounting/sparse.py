"""Sensitivity to one teacher of a table of noisy counts, if at most k votes of each teacher count per round.

The mechanism keeps the first k votes of a teacher in each round (`votes.capped`), so neighbours differ in at most 2m
cells, by one each, with m = Σ min(k, T_r) over rounds of T_r queries: L1 distance 2m, L2 distance √(2m), for any T.
A removed teacher changes at most m cells: its row abstains, and the other rows keep their positions, which decide which
of more than k votes count.
Rounds compose adaptively (Dong, Roth, Su 2022, Theorem 3.2; Mironov 2017, Proposition 1; Kairouz, Oh, Viswanath 2015,
Theorem 3.3). Votes may also have weights. Let a teacher with label y add votes v ⊗ e_y, with weights v for the queries,
‖v‖² ≤ k. Then tables differ by an L2 distance of at most 2√k in each round. If only the label y of a teacher's single
record is private, v is public, and ‖v ⊗ e_y − v ⊗ e_y'‖ = √2·‖v‖ ≤ √(2k). Labels and all other results are functions of
the table, which is released completely.
Proof: docs/explanation/proofs-systems.md, "Tables with few votes of a teacher".
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import ABSTAINED

_CELLS = 1 << 20  # teachers × queries per block


def participations(most: int, queries: int, rounds: Sequence[int] = ()) -> int:
    """Return the maximum number of counted votes of one teacher in the first `queries` queries.

    At most `most` votes of a teacher count per round. `rounds` are the numbers of queries of the rounds; empty: one
    round.
    """
    ends = [min(end, queries) for end in accumulate(rounds)] if rounds else [queries]
    return sum(min(most, end - start) for start, end in zip([0, *ends[:-1]], ends, strict=True))


def weighted_distance(most: int, rounds: Sequence[int] = (), *, labels: bool = False) -> int:
    """Return the squared L2 sensitivity of the tables of weighted counts, summed over rounds, to one teacher's votes.

    If the teacher's votes are replaced by their negative, the table changes by twice their L2 norm. So the squared
    distance is at most 4·`most` per round.

    Parameters
    ----------
    most : largest squared L2 norm of a teacher's votes per round
    rounds : numbers of queries of each round; empty: one round
    labels : True if neighbours differ only in the label of a teacher's single record, which moves the same weights to
        another column; the squared distance per round is then at most 2·`most`
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
    block = max(1, _CELLS // votes.shape[1])
    for start in range(0, len(votes), block):
        cast = np.cumsum(votes[start : start + block] != ABSTAINED, axis=1)
        result = np.maximum(result, cast.max(axis=0))
    return result
