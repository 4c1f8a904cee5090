"""Exact accountants, and the choice of the orders at which they compute divergences.

Every order gives a valid bound, but exact divergences are expensive to compute at an order. So for each number of
queries T, a sample of the queries predicts the order at which ε is least. The divergences of all T queries are computed
at a few orders around the predicted one. If ε is least at the highest or lowest of these orders, further orders beyond
it are computed. The stated ε uses all T queries; the sample only selects orders.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import conversion
from patebench.accounting.accountant import Accountant, RenyiAccountant
from patebench.accounting.exact import ExactDivergence, Neighbours, PerQueryNeighbours, reaching
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind

Integers = NDArray[np.int64]

#: Orders tried on the sample.
COARSE = conversion.ORDERS[::2]

#: Indices that divide `COARSE` at orders of about 100 and 10⁴; higher orders matter only for few queries.
_STAGES = (33, 49)

#: Orders at which bounds are computed. Only every fourth order is tried. The least ε at these orders is at most a
#: relative 10⁻⁴ above the least ε at all orders, because ε is flat near its minimum. For few queries, one order between
#: two tried orders is predicted and tried as well.
ORDERS: Array = 1.0 + np.geomspace(1e-2, 1e6, 2985)
_STEP, _EVERY = float(np.log((ORDERS[1] - 1) / (ORDERS[0] - 1))), 4

#: Number of orders tried on either side of the predicted one: if the sample contains all queries, and if not.
_SURE, _UNSURE = 3, 6

#: If ε is least at the edge of the computed orders: number of orders added beyond this edge, and maximum number of
#: times that the search computes orders.
_FURTHER, _TURNS = 8, 6

#: Size of each part of the sample. The first part is the first 512 queries. Each further part is 512 evenly spaced
#: queries from the next interval: indices 512 to 1,023, 1,024 to 2,047, and so on.
_SAMPLE = 512

_CONVERSIONS = (Conversion.CLASSIC, Conversion.TIGHT)


def sampled(queries: int) -> tuple[Integers, Array]:
    """Return the indices and weights of a sample of the first `queries` queries.

    The weighted sum over the sampled queries with index below T estimates the sum over the first T queries, for any T.
    """
    rows, times, low, step = [np.arange(min(queries, _SAMPLE))], [1], _SAMPLE, 1
    while low < queries:
        rows.append(np.arange(low, min(2 * low, queries), step))
        times.append(step)
        low, step = 2 * low, 2 * step
    return np.concatenate(rows), np.repeat(np.array(times, dtype=np.float64), [len(part) for part in rows])


@dataclass(eq=False)
class OrderSearch:
    """Search for the Rényi orders at which ε is least, with the exact divergences `divergence`."""

    divergence: ExactDivergence
    _cache: dict[tuple[tuple[int, ...], float], tuple[Array, Array]] = field(default_factory=dict, repr=False)

    def __call__(self, queries: Sequence[int], delta: float) -> tuple[Array, Array]:
        """Return the orders tried near the least ε, and the divergences of the first T queries for each T in `queries`.

        The divergences are (2 forms × numbers of queries × orders), per query and per teacher as in `ExactDivergence`;
        ∞ where not computed. Results are cached.
        """
        key = tuple(queries), delta
        if key not in self._cache:
            stops, place = np.unique(np.asarray(queries), return_inverse=True)
            forms, known = self._search_near(stops, self.predict_orders(stops, delta), delta)
            used = known.any(axis=0)
            self._cache[key] = ORDERS[used], forms[:, place][:, :, used]
        return self._cache[key]

    def totals(self, form: int, queries: Sequence[int], orders: Array) -> Array:
        """Return the exact divergences of the first T queries (numbers T × orders), for each T in `queries`.

        They are the larger of D_α(votes ‖ neighbour) and D_α(neighbour ‖ votes). `form` is 0 for the worst neighbour of
        each query, and 1 for the worst teacher over all queries.
        """
        return self.divergence.directions(queries, orders)[form].max(axis=1)

    def _search_near(self, stops: Integers, wanted: NDArray[np.bool_], delta: float) -> tuple[Array, NDArray[np.bool_]]:
        """Search for the order with the least ε at `delta`, for each number of queries T in `stops`.

        The search starts from the orders in the mask `wanted` (stops × `ORDERS`).

        Returns
        -------
        Divergences of the first T queries (2 forms × stops × `ORDERS`; see `ExactDivergence`), ∞ where not computed,
        and a mask (stops × `ORDERS`) of the computed ones.
        """
        forms, known = np.full((2, *wanted.shape), np.inf), np.zeros_like(wanted)
        for _ in range(_TURNS):
            self._add_missing(forms, known, stops, wanted)
            wanted = _select_orders_beyond(forms, known, delta)
            if not wanted.any():
                break
        if not self.divergence.is_long(int(stops[-1])):
            self._add_missing(forms, known, stops, _select_orders_between(forms, delta))
        return forms, known

    def _add_missing(self, forms: Array, known: NDArray[np.bool_], stops: Integers, wanted: NDArray[np.bool_]) -> None:
        """Compute the divergences at orders that are `wanted` but not `known`, for each number of queries in `stops`.

        Store them in `forms` (2 forms × stops × `ORDERS`; see `ExactDivergence`), and set `known` to True there.
        """
        new = wanted & ~known
        rows, columns = np.flatnonzero(new.any(axis=1)), np.flatnonzero(new.any(axis=0))
        if not len(rows):
            return
        requested = new[np.ix_(rows, columns)]
        sums = self.divergence.sums(stops[rows], ORDERS[columns], requested).max(axis=2)
        for i, (row, used) in enumerate(zip(rows, reaching(requested), strict=True)):
            forms[:, row, columns[used]] = sums[:, i, used]
            known[row, columns[used]] = True

    def predict_orders(self, stops: Integers, delta: float) -> NDArray[np.bool_]:
        """Return a mask (stops × `ORDERS`) of the orders to compute, predicted from a sample of the queries."""
        rows, times = sampled(int(stops[-1]))
        votes = self.divergence.votes
        sample = self.divergence
        if len(rows) < int(stops[-1]):
            sample = ExactDivergence(votes.at(rows), self.divergence.neighbours, times)
        curves = _compute_coarse_divergences(sample, np.searchsorted(rows, stops), delta)
        wanted = np.zeros((len(stops), len(ORDERS)), dtype=bool)
        for form in curves:
            for how in _CONVERSIONS:
                for i, (T, curve) in enumerate(zip(stops, form, strict=True)):
                    if np.isfinite(curve).any():
                        place, wide = _predict_index(how, curve, delta), _SURE if T <= _SAMPLE else _UNSURE
                        wanted[i, max(place - wide, 0) * _EVERY : (place + wide) * _EVERY + 1 : _EVERY] = True
        # If the divergence is so small that ε is 0 (`conversion.tight`), the lowest order suffices.
        negligible = -np.expm1(-curves[:, :, 0].min(axis=0)) <= 2 * delta * delta
        wanted[negligible | ~wanted.any(axis=1), 0] = True
        return wanted


def _predict_index(how: Conversion, curve: Array, delta: float) -> int:
    """Predict the order with the least ε at `delta` by the conversion `how`; return its index in `ORDERS[::_EVERY]`.

    `curve` contains the Rényi divergences at other orders, `COARSE`. A parabola is put through the least ε at the
    orders `COARSE` and the ε at the two adjacent ones. Its minimum is the predicted order.
    """
    epsilons = conversion.unclipped(how, COARSE, curve, delta)
    best = int(np.argmin(epsilons))
    shift = _parabola_minimum(*epsilons[best - 1 : best + 2]) if 0 < best < len(COARSE) - 1 else 0.0
    step = float(np.log((COARSE[1] - 1) / (COARSE[0] - 1)))
    return min(round((best + shift) * step / (_STEP * _EVERY)), (len(ORDERS) - 1) // _EVERY)


def _parabola_minimum(left: float, middle: float, right: float) -> float:
    """Return the minimiser of the parabola through (−1, `left`), (0, `middle`), (1, `right`); 0 if there is none."""
    bend = left - 2 * middle + right
    return (left - right) / (2 * bend) if 0 < bend < np.inf else 0.0


def _select_orders_beyond(forms: Array, known: NDArray[np.bool_], delta: float) -> NDArray[np.bool_]:
    """Return a mask (stops × `ORDERS`) of orders to compute next, because ε may be still smaller there.

    A stop is a number of queries. If ε of a stop is least at its highest or lowest computed order, the next orders
    beyond are selected. No orders are selected for other stops. `forms` (2 forms × stops × `ORDERS`) contains the
    divergences, and `known` is True where they were computed.
    """
    wanted = np.zeros_like(known)
    for i, at, _ in _find_minima(forms, delta):
        if at > 0 and not known[i, at - _EVERY]:
            wanted[i, max(at - _FURTHER * _EVERY, 0) : at : _EVERY] = True
        if at + 1 < len(ORDERS) and not known[i, at + _EVERY]:
            wanted[i, at + _EVERY : at + _FURTHER * _EVERY + 1 : _EVERY] = True
    return wanted


def _select_orders_between(forms: Array, delta: float) -> NDArray[np.bool_]:
    """Return a mask (stops × `ORDERS`) of orders between the computed ones at which ε is predicted to be least.

    Stops are numbers of queries. `forms` (2 forms × stops × `ORDERS`; see `ExactDivergence`) contains the divergences.
    """
    wanted = np.zeros(forms.shape[1:], dtype=bool)
    for i, at, epsilons in _find_minima(forms, delta):
        if 0 < at < len(ORDERS) - 1:
            wanted[i, at + round(_EVERY * _parabola_minimum(*epsilons[[at - _EVERY, at, at + _EVERY]]))] = True
    return wanted


def _find_minima(forms: Array, delta: float) -> Iterator[tuple[int, int, Array]]:
    """Yield a triple (i, j, ε) for each combination of a form, a conversion and a number of queries T.

    The index of T is i. The array ε contains the ε at each of `ORDERS`, and ε[j] is the least entry. Combinations with
    a least entry of 0 or ∞ are left out. `forms` (2 forms × numbers T × `ORDERS`) contains the divergences (see
    `ExactDivergence`).
    """
    for form in forms:
        for how in _CONVERSIONS:
            for i, epsilons in enumerate(conversion.convert(how, ORDERS, form, delta)):
                at = int(np.argmin(epsilons))
                if 0 < epsilons[at] < np.inf:
                    yield i, at, epsilons


def _compute_coarse_divergences(divergence: ExactDivergence, queries: Integers, delta: float) -> Array:
    """Return the divergences of the first T queries at the orders `COARSE`, for each T in `queries`.

    The result is (2 forms × numbers T × orders); see `ExactDivergence`. High orders at which ε cannot be least are not
    computed; the divergences there are ∞.
    """
    divergences = np.full((2, len(queries), len(COARSE)), np.inf)
    remaining = np.arange(len(queries))
    for low, high in pairwise((0, *_STAGES, len(COARSE))):
        directions = divergence.directions(queries[remaining].tolist(), COARSE[low:high])
        divergences[:, remaining, low:high] = directions.max(axis=2)
        so_far, orders = divergences[:, remaining, :high], COARSE[:high]
        least = np.max([conversion.convert(how, orders, so_far, delta).min(axis=2) for how in _CONVERSIONS], axis=0)
        # Divergences grow with the order (van Erven & Harremoës 2014, Theorem 3), and every conversion of a divergence
        # D of order α gives an ε of at least D + ln(1 − 1/α) − δ.
        above = so_far[:, :, -1] + np.log1p(-1 / orders[-1]) - delta >= least
        remaining = remaining[~np.all(above, axis=0)]
        if not len(remaining):
            break
    return divergences


@dataclass(frozen=True, kw_only=True)
class ExactAccountant(RenyiAccountant):
    """Rényi accountant that computes the exact divergence, at the orders that `search` selects.

    `form` is 0 for the worst neighbour of each query, and 1 for the worst teacher over all queries.
    """

    search: OrderSearch
    form: int

    def curves(self, queries: Sequence[int], delta: float) -> tuple[Array, Array]:
        orders, forms = self.search(queries, delta)
        return orders, forms[self.form]


def accountants(votes: Votes, neighbours: Neighbours | PerQueryNeighbours | None) -> list[Accountant]:
    """Return the exact accountants of a mechanism: for the worst neighbour of each query, and for the worst teacher.

    Without a vote matrix in `votes`, only the first is returned. `neighbours` yields outcome distributions (see
    `ExactDivergence`); None for a mechanism without noise.
    """
    search = OrderSearch(ExactDivergence(votes, neighbours))
    forms = {"exact": "the worst neighbour of each query"}
    if votes.matrix is not None:
        forms["exact-per-teacher"] = "the worst teacher over all queries"
    return [
        ExactAccountant(
            name=name,
            label=name.replace("-", " "),
            exact=True,
            kind=Kind.DATA_DEPENDENT,
            source=f"Mironov 2017, Definition 4 and Proposition 1, computed: {which}, both directions",
            totals=partial(search.totals, form),
            orders=COARSE,
            refine=False,
            search=search,
            form=form,
        )
        for form, (name, which) in enumerate(forms.items())
    ]
