"""Exact data-dependent Rényi divergence of mechanisms that see one query at a time through its counts.

A release of T queries is a product of T independent outcomes, so its divergence is a sum over queries (Mironov 2017,
Definition 3 and Proposition 1). What is left is the worst neighbour: one teacher changes the vote from a to b.

- *Per query*: Σ_q max_{a,b} D_α(n(q) ‖ n(q) − e_a + e_b). It needs the counts alone.
- *Per teacher*: max_i Σ_q max_b D_α(n(q) ‖ n(q) − e_{v_i(q)} + e_b). The neighbour is one teacher, in all queries;
  nothing smaller holds for these votes and queries, so this is the divergence itself. It needs the vote matrix.

Differential privacy asks for D(M(D) ‖ M(D′)) and for D(M(D′) ‖ M(D)): both are computed, each consistently over all
queries, and the larger counts. Theorems of PATE bound the first.

Where the probabilities come from is the mechanism's business (`Neighbours`). Results are rounded outward by what the
probabilities may be wrong by, and are never below the truth.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.conversion import ORDERS, between, convert
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts, Votes, ranks
from patebench.core.bound import Bound, Conversion, Kind

Integers = NDArray[np.integer]

#: ln P of every outcome is known to this relative accuracy.
ERROR = 2e-14

#: Relative error of one exponential and its multiplication, with room to spare.
_ROUNDING = 8 * float(np.finfo(np.float64).eps)

#: Above this, the 1 in eˣ − 1 does not matter.
_NEAR = 30.0

#: Probabilities above e⁻¹⁰⁰ times exponentials below e⁶⁰⁰ need no log space.
_LIKELY, _LARGE_EXPONENT = 100.0, 600.0

_CELLS = 1 << 16  # of one block of pairs × outcomes × orders: what fits a processor's cache is fastest
_TABLE = 1 << 24  # numbers held at once for a block of queries
_KEPT = 1 << 24  # numbers of all distributions together that are kept for further orders
_BALLOTS = 1 << 20  # cells of one block of teachers × queries × ranks
_LEAST = 1e-300  # what is smaller is rounded up to it
_LARGE = 1e280  # stands for ∞ in sums with weight 0

#: Orders tried first; those between the best and its neighbours follow.
COARSE = ORDERS[::2]

#: Where the orders tried first are divided: beyond about 100 and 10⁴ they matter for few queries only.
_STAGES = (33, 49)

_CONVERSIONS = (Conversion.CLASSIC, Conversion.TIGHT)


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
    likely = np.min(log_p, initial=0.0, where=ratio > 0) > -_LIKELY
    near = exponents * np.max(ratio, initial=0.0) <= (_LARGE_EXPONENT if likely else _NEAR)
    result = np.empty((len(log_p), len(exponents)))
    for chosen, solve in ((near, _near), (~near, _far)):
        if np.any(chosen):
            result[:, chosen] = solve(log_p, ratio, linear[:, None], exponents[chosen])
    return np.maximum(result, 0.0)


def _near(log_p: Array, ratio: Array, linear: Array, t: Array) -> Array:
    """Where no term overflows, and none vanishes that could matter."""
    terms = ratio[:, :, None] * t
    np.expm1(terms, out=terms)
    total = linear * t + np.matmul(np.exp(log_p)[:, None, :], terms)[:, 0]
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

    Without `neighbours` the mechanism is one without noise, whose divergence is ∞.
    """

    votes: Votes
    neighbours: Neighbours | PerQueryNeighbours | None
    _solved: dict[tuple[tuple[int, ...], bytes], Directions] = field(default_factory=dict, repr=False)
    _cache: dict[int, list[Pairs]] = field(default_factory=dict, repr=False)

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
        if self.neighbours is None:
            boundless = np.full((len(queries), 2, len(orders)), np.inf)
            return Directions(boundless, boundless)
        if key not in self._solved:
            self._solved[key] = self._solve(queries, orders)
        return self._solved[key]

    def _block(self, votes: Votes) -> "tuple[_Block, Iterator[Pairs]]":
        """Some queries and their neighbours."""
        assert self.neighbours is not None
        if isinstance(self.neighbours, PerQueryNeighbours):
            return _Block.per_query(votes), self.neighbours.neighbours(votes)
        block, histograms = _Block.by_histogram(votes)
        return block, self.neighbours(histograms)

    @property
    def _most_ranks(self) -> int:
        """The most ranks that a histogram can have: distinct counts sum to the number of teachers at most."""
        if isinstance(self.neighbours, PerQueryNeighbours):
            return self.votes.classes
        return min(self.votes.classes, int(np.sqrt(2 * self.votes.teachers)) + 2)

    def orders(self, queries: Sequence[int], delta: float) -> Array:
        """Orders close to those that give the least ε for any T, in either form and conversion."""
        curves = self._coarse(queries, delta).reshape(-1, len(COARSE))
        best = {int(np.argmin(convert(how, COARSE, curve, delta))) for curve in curves for how in _CONVERSIONS}
        return np.unique(np.concatenate([between(COARSE, index, 33) for index in best]))

    def _coarse(self, queries: Sequence[int], delta: float) -> Array:
        """Divergences of both forms (2 × numbers of queries × orders) at coarse orders, ∞ where no ε can be least.

        Divergences grow with the order (van Erven & Harremoës 2014, Theorem 3), and no conversion gives less than
        D + ln(1 − 1/α) − δ. So where that has passed the least ε so far, higher orders need no work.
        """
        found = np.full((2, len(queries), len(COARSE)), np.inf)
        left, T = np.arange(len(queries)), np.array(queries)
        for low, high in pairwise((0, *_STAGES, len(COARSE))):
            forms = self.directions(T[left].tolist(), COARSE[low:high])
            found[:, left, low:high] = [form.max(axis=1) for form in forms]
            so_far, orders = found[:, left, :high], COARSE[:high]
            least = np.max([convert(how, orders, so_far, delta).min(axis=2) for how in _CONVERSIONS], axis=0)
            above = so_far[:, :, -1] + np.log1p(-1 / orders[-1]) - delta >= least
            left = left[~np.all(above, axis=0)]
            if not len(left):
                break
        return found

    def _solve(self, queries: Sequence[int], orders: Array) -> Directions:
        width, last = 2 * len(orders), max(queries)
        known = self.votes.matrix is not None
        each = np.zeros((self.votes.teachers if known else 1, width))
        one, found = np.zeros(width), {}
        step = max(1, _TABLE // (width * self._most_ranks))
        for start in range(0, last, step):
            block, portions = self._block(self.votes.at(slice(start, min(start + step, last))))
            table = _table(block, self._cached(last, portions) if last <= step else portions, orders)
            worst = table.max(axis=1)
            stops = {T - start for T in queries if start < T <= start + step}
            short = max(1, _BALLOTS // (len(each) * table.shape[1]))
            for low, high in pairwise(sorted({*range(0, len(block), short), len(block), *stops})):
                one = one + worst[block.number[low:high]].sum(axis=0)
                each = each + block.per_teacher(low, high, table) if known else np.full_like(each, _LARGE)
                found[start + high] = one, each.max(axis=0)
        totals = np.array([found[T] for T in queries])
        totals = np.where(totals < _LARGE, totals, np.inf).reshape(len(queries), 2, 2, len(orders))
        return Directions(totals[:, 0], totals[:, 1])

    def _cached(self, queries: int, portions: Iterator[Pairs]) -> Iterator[Pairs]:
        """The neighbours of the first `queries` queries, kept for further orders if they are few."""
        if queries in self._cache:
            yield from self._cache[queries]
            return
        kept, room = [], _KEPT
        for pairs in portions:
            room -= 3 * pairs.log_p.size
            if room > 0:
                kept.append(pairs)
            yield pairs
        if room > 0:
            self._cache[queries] = kept


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

    def per_teacher(self, low: int, high: int, table: Array) -> Array:
        """Sum of the table (histograms × ranks × …) over queries low … high − 1, for each teacher's own votes."""
        assert self.matrix is not None
        used, number = np.unique(self.number[low:high], return_inverse=True)
        voted = np.take_along_axis(self.rank[low:high].T, self.matrix[:, low:high].astype(np.intp), axis=0)
        cells = len(used) * self.ranks
        flat = np.arange(len(voted))[:, None] * cells + number.reshape(-1) * self.ranks + voted
        times = np.bincount(flat.ravel(), minlength=len(voted) * cells).reshape(len(voted), cells)
        result: Array = times.astype(np.float64) @ table[used].reshape(cells, -1)
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


@dataclass(frozen=True, kw_only=True)
class ExactAccountant(RenyiAccountant):
    """A Rényi accountant over orders that are found for all T and both forms at once, since the curves are dear."""

    divergence: ExactDivergence

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        chosen = replace(self, orders=self.divergence.orders(queries, delta))
        return super(ExactAccountant, chosen).bounds(queries, delta)


def accountants(votes: Votes, neighbours: Neighbours | PerQueryNeighbours | None) -> list[Accountant]:
    """The exact accountants of a mechanism; that per teacher where the vote matrix is known."""
    divergence = ExactDivergence(votes, neighbours)
    forms = [("exact", "exact", divergence.per_query, "the worst neighbour of each query")]
    if votes.matrix is not None:
        which = "the worst teacher over all queries"
        forms.append(("exact-per-teacher", "exact per teacher", divergence.per_teacher, which))
    return [
        ExactAccountant(
            name=name,
            label=label,
            exact=True,
            kind=Kind.DATA_DEPENDENT,
            source=f"Mironov 2017, Definition 4 and Proposition 1, computed: {which}, both directions",
            totals=totals,
            orders=COARSE,
            refine=False,
            divergence=divergence,
        )
        for name, label, totals, which in forms
    ]
