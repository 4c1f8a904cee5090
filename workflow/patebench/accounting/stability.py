"""Stability: how many teachers must change their votes before another class can win, and what that hides.

A *stable release* says the plurality of a query or nothing. Which of the two is decided by tests that see of the votes
nothing but the distance d(q) of each query. In Thakurta & Smith 2013 that is propose-test-release (Dwork & Lei 2009).

Theorem. If the outcomes of the tests are (ε, δ)-private, and for every adjacent pair of votes the probability that some
query is answered whose plurality differs between them is at most F, then the release is (ε, δ + F)-private.

Proof. Let G be the event that no such query is answered. On G a release is one function of the outcomes of the tests,
the same for both sides: it names the plurality of answered queries only, and of these both have the same. So, for
every set E of releases, Pr[M(D) ∈ E] ≤ Pr[M(D) ∈ E, G] + F ≤ e^ε Pr[M(D′) ∈ E, G] + δ + F.

How large F is. Where pluralities differ, d ≤ 1 on both sides, and the mechanisms put their threshold where a query with
d ≤ 1 is answered with probability at most `failure`. So F = T·failure for T queries, whatever the votes are, and
F = failure·#{q: d(q) ≤ 1} for given votes and all their neighbours, in both directions.
"""

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Counts


def distance(counts: Counts) -> NDArray[np.int64]:
    """d = ⌈g/2⌉ per query, with g the gap between the two largest counts (queries × classes).

    The plurality of tied classes is the lowest. One teacher narrows the gap by 2 at most, so g must be at most 2k for k
    teachers to bring about a tie, and below 2k for them to let another class win. The plurality thus changes after d or
    d + 1 teachers, as the lower class is the other or the plurality. d itself ignores which it is: it is 0 for ties
    alone, one teacher changes it by at most 1, and it is at most 1 wherever one teacher can change the plurality.
    """
    top = np.partition(counts, -2, axis=1)[:, -2:]
    result: NDArray[np.int64] = (top[:, 1] - top[:, 0] + 1) // 2
    return result


def changeable(counts: Counts) -> NDArray[np.int64]:
    """For T = 0, 1, …: how many of the first T queries have d ≤ 1, so that one teacher may change their plurality."""
    return np.concatenate([[0], np.cumsum(distance(counts) <= 1)])
