"""The exact accountants: at which orders the exact divergences of a label set are worked out.

Every order gives a valid bound, and each is dear. So a sample of the queries foretells for each number of queries T the
order at which its ε is least; the divergences of all T queries are worked out at a few orders around it, and at further
ones while the least ε is at the last of these. What is stated follows from all T queries, the sample only says where to
look.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion
from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.exact import ExactDivergence, Neighbours, PerQueryNeighbours, reaching
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Votes
from patebench.core.bound import Bound, Conversion, Kind

Integers = NDArray[np.int64]

#: Orders tried on the sample.
COARSE = conversion.ORDERS[::2]

#: Where they are divided: beyond about 100 and 10⁴ they matter for few queries only.
_STAGES = (33, 49)

#: Orders that are stated. Every fourth is tried, and so misses the least ε by a relative 10⁻⁴ at most, as it is flat
#: there; then, where that costs little, the one of all that is foretold from those.
ORDERS: Array = 1.0 + np.geomspace(1e-2, 1e6, 2985)
_STEP, _EVERY = float(np.log((ORDERS[1] - 1) / (ORDERS[0] - 1))), 4

#: How many are tried on either side of the one foretold: where the sample holds all queries, and elsewhere.
_SURE, _UNSURE = 3, 6

#: How many more beyond the last where the least ε is there, and how often.
_FURTHER, _TURNS = 8, 6

#: The sample holds the first so many queries, and as many of each further doubling.
_SAMPLE = 512

_CONVERSIONS = (Conversion.CLASSIC, Conversion.TIGHT)


def sampled(queries: int) -> tuple[Integers, Array]:
    """Queries that stand for the first 1, 2, … of so many, and for how many each does."""
    rows, times, low, step = [np.arange(min(queries, _SAMPLE))], [1], _SAMPLE, 1
    while low < queries:
        rows.append(np.arange(low, min(2 * low, queries), step))
        times.append(step)
        low, step = 2 * low, 2 * step
    return np.concatenate(rows), np.repeat(np.array(times, dtype=np.float64), [len(each) for each in rows])


@dataclass(frozen=True, eq=False)
class Curves:
    """Rényi curves (2 forms × numbers of queries × orders) of a label set: per query and per teacher; ∞ if unknown."""

    orders: Array
    forms: Array


@dataclass(eq=False)
class OrderSearch:
    """Exact divergences at the orders that matter, for any numbers of queries."""

    divergence: ExactDivergence
    _found: dict[tuple[tuple[int, ...], float], Curves] = field(default_factory=dict, repr=False)

    def __call__(self, queries: Sequence[int], delta: float) -> Curves:
        """The curves of the first T queries, for each T, near the orders of the least ε; once for both accountants."""
        key = tuple(queries), delta
        if key not in self._found:
            stops, place = np.unique(np.asarray(queries), return_inverse=True)
            forms, known = self._near(stops, self.foretold(stops, delta), delta)
            used = known.any(axis=0)
            self._found[key] = Curves(ORDERS[used], forms[:, place][:, :, used])
        return self._found[key]

    def _near(self, stops: Integers, wanted: NDArray[np.bool_], delta: float) -> tuple[Array, NDArray[np.bool_]]:
        """Curves at all `ORDERS`, and which of them are known (stops × orders)."""
        forms, known = np.full((2, *wanted.shape), np.inf), np.zeros_like(wanted)
        for _ in range(_TURNS):
            self._add(forms, known, stops, wanted)
            wanted = _beyond(forms, known, delta)
            if not wanted.any():
                break
        if not self.divergence.is_long(int(stops[-1])):
            self._add(forms, known, stops, _between(forms, delta))
        return forms, known

    def _add(self, forms: Array, known: NDArray[np.bool_], stops: Integers, wanted: NDArray[np.bool_]) -> None:
        """Work out what is wanted and not yet known."""
        new = wanted & ~known
        rows, columns = np.flatnonzero(new.any(axis=1)), np.flatnonzero(new.any(axis=0))
        if not len(rows):
            return
        asked = new[np.ix_(rows, columns)]
        found = self.divergence.sums(stops[rows], ORDERS[columns], asked)
        for i, (row, used) in enumerate(zip(rows, reaching(asked), strict=True)):
            for form, sums in zip(forms, found, strict=True):
                form[row, columns[used]] = sums[i][:, used].max(axis=0)
            known[row, columns[used]] = True

    def foretold(self, stops: Integers, delta: float) -> NDArray[np.bool_]:
        """Which of `ORDERS` to work out for each T (stops × orders), by the sample."""
        rows, times = sampled(int(stops[-1]))
        votes = self.divergence.votes
        sample = self.divergence
        if len(rows) < int(stops[-1]):
            sample = ExactDivergence(votes.at(rows), self.divergence.neighbours, times)
        curves = _coarse(sample, np.searchsorted(rows, stops), delta)
        wanted = np.zeros((len(stops), len(ORDERS)), dtype=bool)
        for form in curves:
            for how in _CONVERSIONS:
                for i, (T, curve) in enumerate(zip(stops, form, strict=True)):
                    if np.isfinite(curve).any():
                        place, wide = _foretold(how, curve, delta), _SURE if T <= _SAMPLE else _UNSURE
                        wanted[i, max(place - wide, 0) * _EVERY : (place + wide) * _EVERY + 1 : _EVERY] = True
        # Where so little is given away that δ is enough, the lowest order shows it (`conversion.tight`).
        little = -np.expm1(-curves[:, :, 0].min(axis=0)) <= 2 * delta * delta
        wanted[little | ~wanted.any(axis=1), 0] = True
        return wanted


def _foretold(how: Conversion, curve: Array, delta: float) -> int:
    """Which of those `ORDERS` that are tried is nearest to the least ε of this curve at `COARSE` orders."""
    epsilons = conversion.unclipped(how, COARSE, curve, delta)
    best = int(np.argmin(epsilons))
    shift = _vertex(*epsilons[best - 1 : best + 2]) if 0 < best < len(COARSE) - 1 else 0.0
    step = float(np.log((COARSE[1] - 1) / (COARSE[0] - 1)))
    return min(round((best + shift) * step / (_STEP * _EVERY)), (len(ORDERS) - 1) // _EVERY)


def _vertex(before: float, least: float, after: float) -> float:
    """Where the parabola through three points is least, in steps from the middle one, which is the least of them."""
    bend = before - 2 * least + after
    return (before - after) / (2 * bend) if 0 < bend < np.inf else 0.0


def _beyond(forms: Array, known: NDArray[np.bool_], delta: float) -> NDArray[np.bool_]:
    """Orders beyond those known, where the least ε is at the last that is."""
    wanted = np.zeros_like(known)
    for i, at, _ in _bests(forms, delta):
        if at > 0 and not known[i, at - _EVERY]:
            wanted[i, max(at - _FURTHER * _EVERY, 0) : at : _EVERY] = True
        if at + 1 < len(ORDERS) and not known[i, at + _EVERY]:
            wanted[i, at + _EVERY : at + _FURTHER * _EVERY + 1 : _EVERY] = True
    return wanted


def _between(forms: Array, delta: float) -> NDArray[np.bool_]:
    """The one of all orders where the least ε is foretold from those that were tried."""
    wanted = np.zeros(forms.shape[1:], dtype=bool)
    for i, at, epsilons in _bests(forms, delta):
        if 0 < at < len(ORDERS) - 1:
            wanted[i, at + round(_EVERY * _vertex(*epsilons[[at - _EVERY, at, at + _EVERY]]))] = True
    return wanted


def _bests(forms: Array, delta: float) -> Iterator[tuple[int, int, Array]]:
    """For each T, form and conversion with an ε: which T, at which order ε is least, and ε at all orders."""
    for form in forms:
        for how in _CONVERSIONS:
            for i, epsilons in enumerate(conversion.convert(how, ORDERS, form, delta)):
                at = int(np.argmin(epsilons))
                if 0 < epsilons[at] < np.inf:
                    yield i, at, epsilons


def _coarse(divergence: ExactDivergence, queries: Integers, delta: float) -> Array:
    """Divergences of both forms (2 × numbers of queries × orders) at coarse orders, ∞ where no ε can be least.

    Divergences grow with the order (van Erven & Harremoës 2014, Theorem 3), and no conversion gives less than
    D + ln(1 − 1/α) − δ. So where that has passed the least ε so far, higher orders need no work.
    """
    found = np.full((2, len(queries), len(COARSE)), np.inf)
    left = np.arange(len(queries))
    for low, high in pairwise((0, *_STAGES, len(COARSE))):
        forms = divergence.directions(queries[left].tolist(), COARSE[low:high])
        found[:, left, low:high] = [form.max(axis=1) for form in forms]
        so_far, orders = found[:, left, :high], COARSE[:high]
        least = np.max([conversion.convert(how, orders, so_far, delta).min(axis=2) for how in _CONVERSIONS], axis=0)
        above = so_far[:, :, -1] + np.log1p(-1 / orders[-1]) - delta >= least
        left = left[~np.all(above, axis=0)]
        if not len(left):
            break
    return found


@dataclass(frozen=True, kw_only=True)
class ExactAccountant(RenyiAccountant):
    """A Rényi accountant over orders that are found for all T and both forms at once, since the curves are dear."""

    search: OrderSearch
    form: int

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        curves = self.search(queries, delta)
        chosen = replace(self, orders=curves.orders, totals=lambda T, orders: curves.forms[self.form])
        return super(ExactAccountant, chosen).bounds(queries, delta)


def accountants(votes: Votes, neighbours: Neighbours | PerQueryNeighbours | None) -> list[Accountant]:
    """The exact accountants of a mechanism; that per teacher where the vote matrix is known."""
    divergence = ExactDivergence(votes, neighbours)
    search = OrderSearch(divergence)
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
            search=search,
            form=form,
        )
        for form, (name, label, totals, which) in enumerate(forms)
    ]
