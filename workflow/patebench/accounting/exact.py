"""Exact data-dependent Rényi divergence of mechanisms that answer each query from its counts.

Let n(q) be the counts of query q, e_a one vote for class a, and v_i(q) the vote of teacher i. D_α(n ‖ n′) is the Rényi
divergence of order α between the answers on the counts n and on the counts n′. The divergence of all queries is
computed in two forms:

- *Per query*: Σ_q max_{a,b} D_α(n(q) ‖ n(q) − e_a + e_b), from the counts alone.
- *Per teacher*: max_i Σ_q max_b D_α(n(q) ‖ n(q) − e_{v_i(q)} + e_b), from the vote matrix.

The form per teacher is the exact divergence for the worst teacher. The form per query is an upper bound on the form per
teacher.

Both forms are also computed with D_α(n′ ‖ n) in place of D_α(n ‖ n′), and the larger sum is used. The mechanism
provides the probabilities of its answers (`Neighbours`). Results are rounded up. See
docs/explanation/proofs-composition.md, "The exact divergence".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts, Votes, sort_with_ranks
from patebench.core.blocks import blocks
from patebench.core.progress import progress, silent
from patebench.core.workers import map_in_order

Integers = NDArray[np.integer]

#: Relative error of ln P of every outcome.
ERROR = 2e-14

#: Upper bound on the relative error of one exponential and its multiplication.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)

#: Smallest x for which the 1 in eˣ − 1 is negligible.
_NEAR = 30.0

#: Largest exponent that needs no log space. Probabilities below e^`_TINY` are multiplied by e³⁰⁰. A probability that
#: underflows even then contributes less than `_LEAST`.
_LARGE_EXPONENT = 300.0

#: ln of a probability below which doubles lose digits.
_TINY = -700.0

_CELLS = 1 << 16  # pairs × outcomes × orders per block, chosen to fit a processor's cache
_PIECE = 1 << 10  # histograms per piece
_TABLE = 1 << 23  # numbers in memory per piece
_HELD = 1 << 22  # votes or counts per piece
_KEPT = 1 << 24  # numbers of distributions cached for further orders
_BALLOTS = 1 << 20  # votes looked up per block
_WORTH_SHARING = 5_000_000  # minimum work, in queries × pairs of ranks, for several processes
_LEAST = 1e-300  # smaller results are rounded up to this
_LARGE = 1e280  # replaces ∞ in sums with weight 0


@dataclass(frozen=True, eq=False)
class Pairs:
    """Outcome distributions of histograms and of their neighbours. A histogram is the counts of one query.

    There is one row per neighbour. A neighbour is a histogram after one vote has moved to another class.

    Parameters
    ----------
    histogram : (neighbours,) index of the histogram, ascending
    loses : (neighbours,) rank of the class that loses a vote (0: most votes; equal counts have equal ranks), ascending
        within a histogram
    gains : (neighbours,) rank of the class that gains this vote
    log_p, log_p_neighbour : (neighbours, outcomes) ln Pr of each outcome for the histogram and for its neighbour
    multiplicity : (neighbours, outcomes) number of outcomes that are stored as one, because they are equally likely
    """

    histogram: Integers
    loses: Integers
    gains: Integers
    log_p: Array
    log_p_neighbour: Array
    multiplicity: Integers


#: Function of histograms (histograms × classes, counts in descending order) that yields their neighbours in portions.
Neighbours = Callable[[Counts], Iterator[Pairs]]


@dataclass(frozen=True)
class PerQueryNeighbours:
    """Neighbours for a mechanism whose outcome also depends on other data of the query, such as a predicted class.

    `neighbours(votes)` yields `Pairs`. In these, the field `histogram` is the index of the query. The fields `loses`
    and `gains` are classes instead of ranks.
    """

    neighbours: Callable[[Votes], Iterator[Pairs]]


def divergence(log_p: Array, log_p_neighbour: Array, multiplicity: Integers, orders: Array) -> Array:
    """Return the Rényi divergences D_α(P ‖ Q) (rows × orders), rounded up.

    `log_p` is ln P and `log_p_neighbour` is ln Q (rows × outcomes). `multiplicity` (rows × outcomes) is the number of
    outcomes that are stored as one, because they are equally likely.
    """
    # Let r = ln P − ln Q and f(r) = (e^{(α−1)r} − 1) + (α−1)(e^{−r} − 1). As Σ P = Σ Q = 1, the divergence equals
    # ln(1 + Σ P·f(r))/(α−1). As f ≥ 0, terms of different outcomes do not cancel. As f grows with |r|, the result is an
    # upper bound if |r| and P are increased by their errors.
    log_weight, ratio = _round_outward(log_p, log_p_neighbour, multiplicity)
    unbounded = np.any(np.isposinf(ratio), axis=1)
    ratio[unbounded] = 0.0
    small = np.exp(log_weight) * np.expm1(np.minimum(-ratio, _NEAR))
    terms = np.where(ratio < -_NEAR, multiplicity * np.exp(log_p_neighbour * (1 - ERROR)), small)
    linear = np.sum(terms + _ROUNDING * np.abs(terms), axis=1)
    result = np.empty((len(log_p), len(orders)))
    for rows in blocks(len(log_p), _CELLS // (len(orders) * log_p.shape[1])):
        result[rows] = _log_moments(log_weight[rows], ratio[rows], linear[rows], orders - 1)
    result[unbounded] = np.inf
    return result * (1 + _ROUNDING) / (orders - 1) + _LEAST


def _round_outward(log_p: Array, log_p_neighbour: Array, multiplicity: Integers) -> tuple[Array, Array]:
    """Return ln(`multiplicity`·P), rounded up, and the privacy loss ln P − ln Q, rounded away from zero."""
    possible = (multiplicity > 0) & ((log_p > -np.inf) | (log_p_neighbour > -np.inf))
    with np.errstate(invalid="ignore", divide="ignore"):
        log_weight = np.where(possible, log_p * (1 - ERROR) + np.log(multiplicity), -np.inf)
        ratio = np.where(possible, log_p - log_p_neighbour, 0.0)
    error = ERROR * np.maximum(np.abs(log_p), np.abs(log_p_neighbour))
    ratio += np.where(possible & np.isfinite(error), np.copysign(error, ratio), 0.0)
    return log_weight, np.maximum(ratio, -_LARGE)


def _log_moments(log_p: Array, ratio: Array, linear: Array, exponents: Array) -> Array:
    """Return t·D_{t+1}(P ‖ Q) for each row and each t in `exponents` (rows × exponents).

    The result is ln(1 + Σ_j p_j (e^{t·r_j} − 1) + t·linear), where outcome j has the probability p_j = e^`log_p` and
    the privacy loss r_j = `ratio` (rows × outcomes). `linear` (rows,) is Σ_j p_j (e^{−r_j} − 1). This sum is 0 for
    exact probabilities. For rounded ones, the summand t·linear ensures that rounding cannot make the result too small.
    """
    near = exponents * np.max(ratio, initial=0.0) <= _LARGE_EXPONENT
    result = np.empty((len(log_p), len(exponents)))
    for chosen, solve in ((near, _log_moments_plain), (~near, _log_moments_in_log_space)):
        if np.any(chosen):
            result[:, chosen] = solve(log_p, ratio, linear[:, None], exponents[chosen])
    return np.maximum(result, 0.0)


def _log_moments_plain(log_p: Array, ratio: Array, linear: Array, t: Array) -> Array:
    """Return the result of `_log_moments`, computed directly. `t`·`ratio` must be at most `_LARGE_EXPONENT`."""
    terms = np.expm1(ratio[:, :, None] * t)
    # In first order of `ratio`, `linear` and the terms cancel; `linear` uses the same rounded probabilities e^`log_p`.
    total = linear * t + np.matmul(np.exp(log_p)[:, None, :], terms)[:, 0]
    tiny = (log_p < _TINY) & np.isfinite(log_p)
    if np.any(tiny):  # probabilities that underflow, of outcomes with large terms
        shifted = np.exp(np.where(tiny, log_p + _LARGE_EXPONENT, -np.inf))
        total += np.matmul(shifted[:, None, :], terms)[:, 0] * math.exp(-_LARGE_EXPONENT)
    return np.log1p(np.maximum(total, 0.0))


def _log_moments_in_log_space(log_p: Array, ratio: Array, linear: Array, t: Array) -> Array:
    """Return the result of `_log_moments` for any exponents `t`, with large terms in log space."""
    x = ratio[:, :, None] * t
    log_terms = log_p[:, :, None] + x
    top = np.max(log_terms, axis=1, initial=0.0)
    top[top < 300] = 0.0
    unit = np.exp(-top)
    large = np.exp(np.minimum(log_terms - top[:, None], 300.0))
    small = np.expm1(np.minimum(x, _NEAR)) * (np.exp(log_p)[:, :, None] * unit[:, None])
    total = np.maximum(linear * t * unit + np.sum(np.where(x > _NEAR, large, small), axis=1), 0.0)
    with np.errstate(divide="ignore"):
        scaled = top + np.log(total + unit)
    return np.where(top > 0, scaled, np.log1p(total))


@dataclass(eq=False)
class ExactDivergence:
    """Exact Rényi divergences between the labels of the first T queries on `votes` and on the worst neighbour.

    Methods return arrays with four axes: form, number of queries T, direction and order.

    - Form 0, per query: the sum over queries of the divergence for the worst neighbour of each query.
    - Form 1, per teacher: the largest sum over queries for one teacher whose votes change; ∞ without a vote matrix.
    - Direction 0: D_α(labels on the votes ‖ labels on the neighbour), which the theorems of PATE bound.
    - Direction 1: D_α(labels on the neighbour ‖ labels on the votes).

    Parameters
    ----------
    neighbours : function that yields the neighbours; None for a mechanism without noise, whose divergence is ∞
    times : (queries,) weights of the queries in sums, if `votes` are a sample of the queries; None: all weights are 1
    """

    votes: Votes
    neighbours: Neighbours | PerQueryNeighbours | None
    times: Array | None = None
    _neighbour_cache: "_NeighbourCache" = field(default_factory=lambda: _NeighbourCache(), repr=False)

    def directions(self, queries: Sequence[int], orders: Array) -> Array:
        """Return the divergences of the first T queries at `orders`, for each T in `queries`.

        The result is (2 forms × numbers T × 2 directions × orders); see `ExactDivergence`.
        """
        orders = np.asarray(orders, dtype=np.float64)
        stops, place = np.unique(np.asarray(queries), return_inverse=True)
        return self.sums(stops, orders, np.ones((len(stops), len(orders)), dtype=bool))[:, place]

    def sums(self, stops: Integers, orders: Array, wanted: NDArray[np.bool_]) -> Array:
        """Return the divergences of the first T queries, for each T in `stops`, at the orders selected by `wanted`.

        The result is (2 forms × stops × 2 directions × orders), ∞ where not computed; see `ExactDivergence`.

        Parameters
        ----------
        stops : numbers of queries T, ascending
        orders : (orders,) Rényi orders
        wanted : (stops, orders) True for each T and order to compute. An order that is computed for one T is also
            computed for all smaller T
        """
        forms = np.full((2, len(stops), 2, len(orders)), np.inf)
        if self.neighbours is None:
            return forms
        used = reaching(wanted)
        per_query = np.zeros((2, len(orders)))
        per_teacher = np.zeros((0 if self.votes.matrix is None else self.votes.teachers, 2, len(orders)))
        pieces = list(self._pieces(stops, int(used.sum(axis=1).max())))
        parts = (self._piece_input(rows, orders[used[i]]) for i, rows in pieces)
        shared = self.is_long(int(stops[-1]))
        solve = partial(map_in_order, _sums) if shared else partial(map, partial(_sums, cache=self._neighbour_cache))
        bar = progress("exact divergences", int(stops[-1]), "queries") if shared else nullcontext(silent)
        done = 0
        with bar as report:
            for (i, rows), (query_sums, teacher_sums) in zip(pieces, solve(parts), strict=True):
                per_query[:, used[i]] += query_sums
                forms[0, i] = np.where(used[i], per_query, np.inf)
                if teacher_sums is not None:
                    per_teacher[:, :, used[i]] += teacher_sums
                    forms[1, i] = np.where(used[i], per_teacher.max(axis=0), np.inf)
                done += len(rows)
                report(done)
        return np.where(forms < _LARGE, forms, np.inf)

    def is_long(self, queries: int) -> bool:
        """Return True if computing the divergences of `queries` queries justifies several processes."""
        return queries * self._most_ranks**2 > _WORTH_SHARING

    def _pieces(self, stops: Integers, orders: int) -> Iterator[tuple[int, Integers]]:
        """Split the queries into pieces that fit in memory; yield a pair (i, query indices) for each piece.

        The queries of a piece are among the first `stops[i]` queries, but not among the first `stops[i - 1]`. `orders`
        is the number of Rényi orders.
        """
        per_query = self.votes.classes if self.votes.matrix is None else max(self.votes.classes, self.votes.teachers)
        most = max(1, min(_PIECE, _TABLE // (2 * orders * self._most_ranks)))
        for i, (low, high) in enumerate(pairwise([0, *stops.tolist()])):
            rows, new = np.arange(low, high), np.ones(high - low, dtype=bool)
            if not isinstance(self.neighbours, PerQueryNeighbours):
                hashes = _hash_histograms(self.votes.counts[low:high])
                by_hash = np.argsort(hashes, kind="stable")
                first = np.diff(hashes[by_hash], prepend=hashes[by_hash[0]] - np.uint64(1)) != 0
                # If most histograms repeat, queries with the same histogram go to the same piece.
                if 2 * np.sum(first) <= high - low:
                    rows, new = rows[by_hash], first
            number, start = np.cumsum(new) - 1, 0
            while start < len(rows):
                end = min(int(np.searchsorted(number, number[start] + most)), start + max(1, _HELD // per_query))
                yield i, rows[start:end]
                start = end

    def _piece_input(self, rows: Integers, orders: Array) -> "_PieceInput":
        assert self.neighbours is not None
        votes = self.votes.at(slice(rows[0], rows[-1] + 1) if len(rows) == rows[-1] + 1 - rows[0] else rows)
        times = np.ones(len(rows)) if self.times is None else self.times[rows]
        return _PieceInput(votes, times, self.neighbours, orders, rows.tobytes())

    @property
    def _most_ranks(self) -> int:
        """Return an upper bound on the number of distinct counts in a histogram."""
        if isinstance(self.neighbours, PerQueryNeighbours):
            return self.votes.classes
        # The counts add up to at most `teachers`.
        return min(self.votes.classes, int(np.sqrt(2 * self.votes.teachers)) + 2)


def reaching(wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask `wanted` (numbers T × orders, T ascending), with each True extended to all smaller T.

    The sum over T queries needs the sums over fewer queries.
    """
    return np.logical_or.accumulate(wanted[::-1], axis=0)[::-1]


def _hash_histograms(counts: Counts) -> NDArray[np.uint64]:
    """Return a hash of the counts of each query that does not depend on the order of the classes."""
    words = np.random.default_rng(0).integers(0, 1 << 64, int(counts.max()) + 1, dtype=np.uint64, endpoint=False)
    portions = (counts[rows] for rows in blocks(len(counts), _CELLS // counts.shape[1]))
    return np.concatenate([words[portion].sum(axis=1, dtype=np.uint64) for portion in portions])


class _PieceInput(NamedTuple):
    """Input for the divergences of one piece, which is a group of queries that fits in memory."""

    votes: Votes  # votes on the queries
    times: Array  # weights of the queries
    neighbours: Neighbours | PerQueryNeighbours
    orders: Array  # orders to compute
    rows: bytes  # indices of the queries, by which neighbours are cached


class _NeighbourCache(dict[bytes, list[Pairs]]):
    """Cache of `Pairs` for groups of queries. The key is the query indices of a group.

    The pairs do not depend on the Rényi order, so each is computed once for all orders. A group is not cached if there
    is not enough room left.
    """

    room = _KEPT

    def of(self, part: _PieceInput, portions: Iterator[Pairs]) -> Iterator[Pairs]:
        if part.rows in self:
            yield from self[part.rows]
            return
        stored, size = [], 0
        for pairs in portions:
            size += 3 * pairs.log_p.size
            if size <= self.room:
                stored.append(pairs)
            yield pairs
        if size <= self.room:
            self.room -= size
            self[part.rows] = stored


def _sums(part: _PieceInput, cache: _NeighbourCache | None = None) -> tuple[Array, Array | None]:
    """Return the divergences of the queries in `part`, summed over queries, in two arrays.

    The first array (2 directions × orders) is for the worst neighbour of each query. The second array (teachers × 2
    directions × orders) has one row for each teacher whose votes may change. It is None without a vote matrix.
    """
    if isinstance(part.neighbours, PerQueryNeighbours):
        block, portions = _Block.with_own_histograms(part.votes), part.neighbours.neighbours(part.votes)
    else:
        block, histograms = _Block.by_histogram(part.votes)
        portions = part.neighbours(histograms)
    table = _worst_divergences(block, portions if cache is None else cache.of(part, portions), part.orders)
    shape = 2, len(part.orders)
    worst = np.bincount(block.histogram_of_query, part.times, block.histogram_count) @ table.max(axis=1)
    if block.matrix is None:
        return worst.reshape(shape), None
    return worst.reshape(shape), block.sum_per_teacher(part.times, table).reshape(-1, *shape)


@dataclass(frozen=True, eq=False)
class _Block:
    """Queries of one piece, and the index of each query's histogram (its counts).

    Queries with equal counts share a histogram, so that each divergence is computed once.
    """

    histogram_count: int  # number of distinct histograms
    rank_count: int  # number of distinct ranks
    histogram_of_query: Integers  # index of the histogram of each query (queries,)
    rank: Integers  # rank of each class by its count (queries × classes)
    matrix: NDArray[np.integer] | None  # votes (teachers × queries), if known

    @classmethod
    def by_histogram(cls, votes: Votes) -> tuple["_Block", Counts]:
        """Return the queries of `votes` grouped by histogram, and the distinct histograms (histograms × classes).

        A histogram contains the counts of a query in descending order. So queries share a histogram if their counts
        differ only in the order of the classes.
        """
        ordered, rank = sort_with_ranks(votes.counts)
        histograms, number = np.unique(ordered, axis=0, return_inverse=True)
        block = cls(len(histograms), int(rank.max()) + 1, number.reshape(-1), rank, votes.matrix)
        return block, histograms

    @classmethod
    def with_own_histograms(cls, votes: Votes) -> "_Block":
        """Return the queries of `votes` without grouping: each query has its own histogram, with classes as ranks."""
        rank = np.broadcast_to(np.arange(votes.classes), votes.counts.shape)
        return cls(votes.queries, votes.classes, np.arange(votes.queries), rank, votes.matrix)

    def sum_per_teacher(self, times: Array, table: Array) -> Array:
        """Return the divergence for each teacher whose votes change, summed over queries (teachers × 2·orders).

        `table` (histograms × ranks × 2·orders) is the result of `_worst_divergences`. A query contributes the entry of
        its histogram and of the rank of the class that the teacher votes for, weighted by `times` (queries,).
        """
        from scipy.sparse import csr_array

        assert self.matrix is not None
        cells, teachers = self.histogram_count * self.rank_count, len(self.matrix)
        flat = table.reshape(cells, -1)
        result = np.zeros((teachers, flat.shape[1]))
        for queries in blocks(len(self.histogram_of_query), _BALLOTS // teachers):
            voted = np.take_along_axis(self.rank[queries].T, self.matrix[:, queries].astype(np.intp), axis=0)
            cell = voted + self.histogram_of_query[queries] * self.rank_count
            width = cell.shape[1]
            weights = np.broadcast_to(times[queries], cell.shape).ravel()
            ends = np.arange(0, (teachers + 1) * width, width)
            result += csr_array((weights, cell.ravel(), ends), shape=(teachers, cells)) @ flat
        return result


def _worst_divergences(block: _Block, portions: Iterable[Pairs], orders: Array) -> Array:
    """Return the largest divergence of each histogram from its neighbours, by the rank of the class that loses a vote.

    The result is (histograms × ranks × 2·orders). Along the last axis, the divergences of the histogram from the
    neighbour come first, then the reverse ones. Entries of ranks that a histogram does not have are 0.
    """
    table = np.zeros((block.histogram_count, block.rank_count, 2 * len(orders)))
    for pairs in portions:
        forward = divergence(pairs.log_p, pairs.log_p_neighbour, pairs.multiplicity, orders)
        backward = divergence(pairs.log_p_neighbour, pairs.log_p, pairs.multiplicity, orders)
        cell = pairs.histogram * block.rank_count + pairs.loses
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        worst = np.maximum.reduceat(np.minimum(np.hstack([forward, backward]), _LARGE), first, axis=0)
        rows, loses = pairs.histogram[first], pairs.loses[first]
        table[rows, loses] = np.maximum(table[rows, loses], worst)
    return table
