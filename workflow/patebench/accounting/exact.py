"""Compute the exact data-dependent Rényi divergence of mechanisms that see one query at a time through its counts.

- *Per query*: Σ_q max_{a,b} D_α(n(q) ‖ n(q) − e_a + e_b), from the counts alone.
- *Per teacher*: max_i Σ_q max_b D_α(n(q) ‖ n(q) − e_{v_i(q)} + e_b), from the vote matrix: the divergence itself.

Both D(M(D) ‖ M(D′)) and D(M(D′) ‖ M(D)) are computed, each consistently over all queries, and the larger counts. A
mechanism gives the probabilities (`Neighbours`). Results are rounded outward. See
docs/explanation/proofs-mechanisms.md.
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
from patebench.accounting.votes import Counts, Votes, ranks
from patebench.core.progress import progress
from patebench.core.workers import in_order

Integers = NDArray[np.integer]

#: ln P of every outcome is known to this relative accuracy.
ERROR = 2e-14

#: Relative error of one exponential and its multiplication, with room to spare.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)

#: Above this, the 1 in eˣ − 1 does not matter.
_NEAR = 30.0

#: Exponentials below this need no log space: probabilities are held e³⁰⁰ times as large, and those that vanish even so
#: make less than `_LEAST`.
_LARGE_EXPONENT = 300.0

_CELLS = 1 << 16  # of one block of pairs × outcomes × orders: what fits a processor's cache is fastest
_PIECE = 1 << 10  # histograms of one piece
_TABLE = 1 << 23  # numbers held at once for a piece
_HELD = 1 << 22  # votes, or counts, of a piece
_KEPT = 1 << 24  # numbers of distributions that are kept for further orders
_BALLOTS = 1 << 20  # votes that are looked up at a time
_WORTH_SHARING = 5_000_000  # queries × pairs of ranks that are worth the start of processes
_LEAST = 1e-300  # what is smaller is rounded up to it
_LARGE = 1e280  # stands for ∞ in sums with weight 0


@dataclass(frozen=True, eq=False)
class Pairs:
    """Outcome distributions of histograms beside those of their neighbours, one row per neighbour.

    `histogram` (ascending) and `loses` (ascending within a histogram) say whose neighbour it is: the number of the
    histogram, and the rank of the class that loses a vote (0: most votes; equal counts have equal ranks). `gains` is
    the rank of the class that gains the vote. `log_p` and `log_p_neighbour` (neighbours × outcomes) are ln Pr of each
    outcome for the histogram and for its neighbour; `multiplicity` says how many outcomes a column stands for.
    """

    histogram: Integers
    loses: Integers
    gains: Integers
    log_p: Array
    log_p_neighbour: Array
    multiplicity: Integers


#: All neighbours of histograms given as counts in descending order (histograms × classes), in portions.
Neighbours = Callable[[Counts], Iterator[Pairs]]


@dataclass(frozen=True)
class PerQueryNeighbours:
    """Neighbours under a mechanism that uses more of a query than its counts: each query is worked out by itself.

    In the `Pairs` of such votes, `histogram` is the number of the query, and `loses` and `gains` are classes.
    """

    neighbours: Callable[[Votes], Iterator[Pairs]]


def divergence(log_p: Array, log_p_neighbour: Array, multiplicity: Integers, orders: Array) -> Array:
    """D_α(P ‖ P′) per row and order, from ln P and ln P′ (rows × outcomes), never below the truth.

    With r = ln P − ln P′ and Σ P = Σ P′ = 1 it is ln(1 + Σ P·f(r))/(α−1), f(r) = (e^{(α−1)r} − 1) + (α−1)(e^{−r} − 1).
    f ≥ 0, so nothing cancels between outcomes however small the divergence, and f grows with |r|, so enlarging |r| and
    P by their errors rounds outward.
    """
    log_weight, ratio = _outward(log_p, log_p_neighbour, multiplicity)
    unbounded = np.any(np.isposinf(ratio), axis=1)
    ratio[unbounded] = 0.0
    little = np.exp(log_weight) * np.expm1(np.minimum(-ratio, _NEAR))
    rest = np.where(ratio < -_NEAR, multiplicity * np.exp(log_p_neighbour * (1 - ERROR)), little)
    linear = np.sum(rest + _ROUNDING * np.abs(rest), axis=1)
    result = np.empty((len(log_p), len(orders)))
    block = max(1, _CELLS // (len(orders) * log_p.shape[1]))
    for start in range(0, len(log_p), block):
        rows = slice(start, start + block)
        result[rows] = _log_moments(log_weight[rows], ratio[rows], linear[rows], orders - 1)
    result[unbounded] = np.inf
    return result * (1 + _ROUNDING) / (orders - 1) + _LEAST


def _outward(log_p: Array, log_p_neighbour: Array, multiplicity: Integers) -> tuple[Array, Array]:
    """ln Pr of each column's outcomes together, and r = ln P − ln P′, both moved away from 0 by their error.

    Columns whose outcomes are impossible on both sides have −∞ and 0.
    """
    possible = (multiplicity > 0) & ((log_p > -np.inf) | (log_p_neighbour > -np.inf))
    with np.errstate(invalid="ignore", divide="ignore"):
        log_weight = np.where(possible, log_p * (1 - ERROR) + np.log(multiplicity), -np.inf)
        ratio = np.where(possible, log_p - log_p_neighbour, 0.0)
    error = ERROR * np.maximum(np.abs(log_p), np.abs(log_p_neighbour))
    ratio += np.where(possible & np.isfinite(error), np.copysign(error, ratio), 0.0)
    return log_weight, np.maximum(ratio, -_LARGE)


def _log_moments(log_p: Array, ratio: Array, linear: Array, exponents: Array) -> Array:
    """ln(1 + Σ_j p_j (e^{tr_j} − 1) + t·linear) per row and exponent t."""
    near = exponents * np.max(ratio, initial=0.0) <= _LARGE_EXPONENT
    result = np.empty((len(log_p), len(exponents)))
    for chosen, solve in ((near, _near), (~near, _far)):
        if np.any(chosen):
            result[:, chosen] = solve(log_p, ratio, linear[:, None], exponents[chosen])
    return np.maximum(result, 0.0)


def _near(log_p: Array, ratio: Array, linear: Array, t: Array) -> Array:
    """Where no term overflows, and none vanishes that could matter."""
    terms = ratio[:, :, None] * t
    np.expm1(terms, out=terms)
    large = np.matmul(np.exp(log_p + _LARGE_EXPONENT)[:, None, :], terms)[:, 0]
    total = linear * t + large * math.exp(-_LARGE_EXPONENT)
    result: Array = np.log1p(np.maximum(total, 0.0))
    return result


def _far(log_p: Array, ratio: Array, linear: Array, t: Array) -> Array:
    """Anywhere: large terms in log space, all scaled by the largest once that is needed."""
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
    result: Array = np.where(top > 0, scaled, np.log1p(total))
    return result


class Directions(NamedTuple):
    """Divergences (numbers of queries × 2 × orders) from the worst neighbour of each query, and the worst teacher.

    The middle axis tells D(M(D) ‖ M(D′)), which the theorems of PATE bound, from D(M(D′) ‖ M(D)). Without a vote matrix
    nothing is known per teacher, and those numbers are ∞.
    """

    per_query: Array
    per_teacher: Array


@dataclass(eq=False)
class ExactDivergence:
    """Divergences of the first T queries of a label set from its worst neighbour, per query and per teacher.

    Without `neighbours` the mechanism is one without noise, whose divergence is ∞. With `times` each query counts so
    often (queries), as if it stood for others that were left out.

    Queries are worked out in pieces, which several processes share (`core.workers`). Sums are the same to the last bit
    however many there are: pieces do not depend on it, and are added up in their order.
    """

    votes: Votes
    neighbours: Neighbours | PerQueryNeighbours | None
    times: Array | None = None
    _solved: dict[tuple[tuple[int, ...], bytes], Directions] = field(default_factory=dict, repr=False)
    _kept: "_Kept" = field(default_factory=lambda: _Kept(), repr=False)

    def per_query(self, queries: Sequence[int], orders: Array) -> Array:
        """The worst neighbour of each query by itself, which may be another teacher each time."""
        result: Array = self.directions(queries, orders).per_query.max(axis=1)
        return result

    def per_teacher(self, queries: Sequence[int], orders: Array) -> Array:
        """The worst teacher over all queries together."""
        result: Array = self.directions(queries, orders).per_teacher.max(axis=1)
        return result

    def directions(self, queries: Sequence[int], orders: Array) -> Directions:
        """Both sums in both directions; asking again for the same costs nothing."""
        orders = np.asarray(orders, dtype=np.float64)
        key = tuple(queries), orders.tobytes()
        if key not in self._solved:
            stops, place = np.unique(np.asarray(queries), return_inverse=True)
            found = self.sums(stops, orders, np.ones((len(stops), len(orders)), dtype=bool))
            self._solved[key] = Directions(found.per_query[place], found.per_teacher[place])
        return self._solved[key]

    def sums(self, stops: Integers, orders: Array, wanted: NDArray[np.bool_]) -> Directions:
        """Both sums of the first T queries for each T of `stops`, ascending, at the orders `wanted` (stops × orders).

        What is wanted of many queries is worked out for fewer too; elsewhere there is ∞.
        """
        forms = np.full((2, len(stops), 2, len(orders)), np.inf)
        if self.neighbours is None:
            return Directions(*forms)
        used = reaching(wanted)
        one = np.zeros((2, len(orders)))
        each = np.zeros((self.votes.teachers, 2, len(orders))) if self.votes.matrix is not None else None
        pieces = [(i, rows) for i, rows in self._pieces(stops, int(used.sum(axis=1).max()))]
        parts = (self._part(rows, orders[used[i]]) for i, rows in pieces)
        shared = self.is_long(int(stops[-1]))
        solve = partial(in_order, _sums) if shared else partial(map, partial(_sums, kept=self._kept))
        said = progress("exact divergences", int(stops[-1]), "queries") if shared else nullcontext(_say_nothing)
        done = 0
        with said as report:
            for place, ((i, rows), (of_one, of_each)) in enumerate(zip(pieces, solve(parts), strict=True)):
                one[:, used[i]] += of_one
                if each is not None:
                    each[:, :, used[i]] += of_each
                if place + 1 == len(pieces) or pieces[place + 1][0] > i:
                    forms[0, i][:, used[i]] = one[:, used[i]]
                    if each is not None:
                        forms[1, i][:, used[i]] = each[:, :, used[i]].max(axis=0)
                done += len(rows)
                report(done)
        return Directions(*np.where(forms < _LARGE, forms, np.inf))

    def is_long(self, queries: int) -> bool:
        """Whether the divergences of so many queries take long enough to be shared among processes."""
        return queries * self._most_ranks**2 > _WORTH_SHARING

    def _pieces(self, stops: Integers, orders: int) -> Iterator[tuple[int, Integers]]:
        """Queries that are worked out together: the number of the first of `stops` that they belong to, and their own.

        Where most histograms repeat, those with the same one are in one piece.
        """
        held = self.votes.classes if self.votes.matrix is None else max(self.votes.classes, self.votes.teachers)
        most = max(1, min(_PIECE, _TABLE // (2 * orders * self._most_ranks)))
        for i, (low, high) in enumerate(pairwise([0, *stops.tolist()])):
            rows, new = np.arange(low, high), np.ones(high - low, dtype=bool)
            if not isinstance(self.neighbours, PerQueryNeighbours):
                alike = _alike(self.votes.counts[low:high])
                order = np.argsort(alike, kind="stable")
                first = np.diff(alike[order], prepend=alike[order[0]] - np.uint64(1)) != 0
                if 2 * np.sum(first) <= high - low:
                    rows, new = rows[order], first
            number, start = np.cumsum(new) - 1, 0
            while start < len(rows):
                end = min(int(np.searchsorted(number, number[start] + most)), start + max(1, _HELD // held))
                yield i, rows[start:end]
                start = end

    def _part(self, rows: Integers, orders: Array) -> "_Part":
        """A piece, as it is handed to a process."""
        assert self.neighbours is not None
        few = self.votes.at(slice(rows[0], rows[-1] + 1) if len(rows) == rows[-1] + 1 - rows[0] else rows)
        times = np.ones(len(rows)) if self.times is None else self.times[rows]
        return _Part(few, times, self.neighbours, orders, int(rows[0]))

    @property
    def _most_ranks(self) -> int:
        """The most ranks that a histogram can have: distinct counts sum to the number of teachers at most."""
        if isinstance(self.neighbours, PerQueryNeighbours):
            return self.votes.classes
        return min(self.votes.classes, int(np.sqrt(2 * self.votes.teachers)) + 2)


def reaching(wanted: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """What is worked out for each of so many numbers of queries: what is wanted of it or of any greater one."""
    result: NDArray[np.bool_] = np.logical_or.accumulate(wanted[::-1], axis=0)[::-1]
    return result


def _say_nothing(done: int, of: int | None = None) -> None:
    pass


def _alike(counts: Counts) -> NDArray[np.uint64]:
    """A number per histogram that does not see the names of classes; different ones hardly ever share it."""
    words = np.random.default_rng(0).integers(0, 1 << 64, int(counts.max()) + 1, dtype=np.uint64, endpoint=False)
    step = max(1, _CELLS // counts.shape[1])
    blocks = (counts[start : start + step] for start in range(0, len(counts), step))
    return np.concatenate([words[block].sum(axis=1, dtype=np.uint64) for block in blocks])


class _Part(NamedTuple):
    """Some queries, how often each counts, and the orders that are wanted of them; `name` tells it from others."""

    votes: Votes
    times: Array
    neighbours: Neighbours | PerQueryNeighbours
    orders: Array
    name: int


class _Kept(dict[tuple[int, int], list[Pairs]]):
    """Neighbours of pieces, kept for further orders while they are few."""

    room = _KEPT

    def of(self, part: _Part, portions: Iterator[Pairs]) -> Iterator[Pairs]:
        key = part.name, len(part.times)
        if key in self:
            yield from self[key]
            return
        found, size = [], 0
        for pairs in portions:
            size += 3 * pairs.log_p.size
            if size <= self.room:
                found.append(pairs)
            yield pairs
        if size <= self.room:
            self.room -= size
            self[key] = found


def _sums(part: _Part, kept: _Kept | None = None) -> tuple[Array, Array | None]:
    """The sum over these queries of the worst neighbours' divergences (2 × orders), and for each teacher."""
    if isinstance(part.neighbours, PerQueryNeighbours):
        block, portions = _Block.per_query(part.votes), part.neighbours.neighbours(part.votes)
    else:
        block, histograms = _Block.by_histogram(part.votes)
        portions = part.neighbours(histograms)
    table = _table(block, portions if kept is None else kept.of(part, portions), part.orders)
    shape = 2, len(part.orders)
    worst = np.bincount(block.number, part.times, block.histograms) @ table.max(axis=1)
    if block.matrix is None:
        return worst.reshape(shape), None
    return worst.reshape(shape), block.per_teacher(part.times, table).reshape(-1, *shape)


@dataclass(frozen=True, eq=False)
class _Block:
    """Some queries: which of so many `histograms` each has (`number`), and the rank of each class in it, below `ranks`.

    `matrix` holds the votes of these queries, if known.
    """

    histograms: int
    ranks: int
    number: Integers
    rank: Integers
    matrix: NDArray[np.integer] | None

    def __len__(self) -> int:
        return len(self.number)

    @classmethod
    def by_histogram(cls, votes: Votes) -> tuple["_Block", Counts]:
        """Queries that differ in the names of classes alone are worked out once; their histograms in descending order.

        Classes with equal counts share a rank.
        """
        order = np.argsort(-votes.counts, axis=1, kind="stable")
        ordered = np.take_along_axis(votes.counts, order, axis=1)
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, ranks(ordered), axis=1)
        histograms, number = np.unique(ordered, axis=0, return_inverse=True)
        block = cls(len(histograms), int(rank.max()) + 1, number.reshape(-1), rank, votes.matrix)
        return block, histograms

    @classmethod
    def per_query(cls, votes: Votes) -> "_Block":
        """Every query has a histogram, and every class a rank, of its own."""
        rank = np.broadcast_to(np.arange(votes.classes), votes.counts.shape)
        return cls(votes.queries, votes.classes, np.arange(votes.queries), rank, votes.matrix)

    def per_teacher(self, times: Array, table: Array) -> Array:
        """Sum of the table (histograms × ranks × …) over queries, each so many times, for each teacher's own votes."""
        from scipy.sparse import csr_array

        assert self.matrix is not None
        cells, teachers = self.histograms * self.ranks, len(self.matrix)
        flat = table.reshape(cells, -1)
        result = np.zeros((teachers, flat.shape[1]))
        step = max(1, _BALLOTS // teachers)
        for start in range(0, len(self), step):
            some = slice(start, start + step)
            voted = np.take_along_axis(self.rank[some].T, self.matrix[:, some].astype(np.intp), axis=0)
            cell = voted + self.number[some] * self.ranks
            width = cell.shape[1]
            weights = np.broadcast_to(times[some], cell.shape).ravel()
            ends = np.arange(0, (teachers + 1) * width, width)
            result += csr_array((weights, cell.ravel(), ends), shape=(teachers, cells)) @ flat
        return result


def _table(block: _Block, portions: Iterable[Pairs], orders: Array) -> Array:
    """The worst neighbour per histogram and rank of the class that loses a vote, in both directions.

    Shape: histograms × ranks × (2 · orders); 0 for ranks that a histogram does not have.
    """
    table = np.zeros((block.histograms, block.ranks, 2 * len(orders)))
    for pairs in portions:
        forward = divergence(pairs.log_p, pairs.log_p_neighbour, pairs.multiplicity, orders)
        backward = divergence(pairs.log_p_neighbour, pairs.log_p, pairs.multiplicity, orders)
        cell = pairs.histogram * block.ranks + pairs.loses
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        worst = np.maximum.reduceat(np.minimum(np.hstack([forward, backward]), _LARGE), first, axis=0)
        rows, loses = pairs.histogram[first], pairs.loses[first]
        table[rows, loses] = np.maximum(table[rows, loses], worst)
    return table
