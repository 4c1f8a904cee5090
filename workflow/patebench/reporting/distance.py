"""Gaps between the two largest counts as NZC (Sun et al. 2020) sees them: the share of queries "of distance k"."""

from collections.abc import Sequence

#: The distance from which NZC takes one changed vote to be harmless.
DISTANCE = 3


def shares(gap_histogram: Sequence[int]) -> list[float]:
    """Shares of the queries whose gap is at least k, for k = 0 … n, from the numbers of queries with each gap."""
    total, left, found = sum(gap_histogram), sum(gap_histogram), []
    for count in gap_histogram:
        found.append(left / total)
        left -= count
    return found


def share(gap_histogram: Sequence[int], distance: int) -> float:
    """The share of the queries whose gap is at least `distance`; 0 where there are fewer votes than that."""
    return shares(gap_histogram)[distance] if distance < len(gap_histogram) else 0.0
