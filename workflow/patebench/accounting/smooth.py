"""Smooth sensitivity of data-dependent Rényi bounds (Nissim, Raskhodnikova, Smith 2007; Scalable PATE, appendix B).

The bound for data D is f(D) = Σ_i h(q_i) over queries i. q_i is an upper bound on the probability that the label is not
the plurality, and h(q) is the bound of a theorem on the Rényi divergence of order α. f and its smooth sensitivity
depend on the votes, so they must not be published; `sanitised.py` adds the noise for publication. The theorem must
satisfy two conditions, which both theorems of PATE do:

(1) q = min(Σ_j φ(Δ_j), 1 − 1/m). Here m is the number of classes, Δ_j ≥ 0 is the lead of the plurality over class j in
    votes, and φ(x) = Pr[Z > x] for a Z with symmetric log-concave density.
(2) h does not decrease in q.

Let H(g) be the value of h if the plurality leads every other class by the same number g of votes. The number g may be a
fraction, so every value of q belongs to such a g, the *even gap* of q. Two histograms are adjacent if they differ in
one vote. Then the values of h for the two histograms differ by at most W(g) = H(g − 2) − H(g), where g is the even gap
of the smaller one of the two values of q.

For query i, consider all adjacent pairs of which at least one histogram differs from the counts in at most d votes.
U_i(d) is an upper bound on W(g) for all these pairs. So Σ_i U_i(d) bounds the local sensitivity within d votes per
query, and S(D) = max_d e^{−βd} Σ_i U_i(d) is β-smooth. Every U_i(d) includes a small multiple of the data-independent
bound, which covers rounding.
Proof: docs/explanation/proofs-noise.md, "Smooth sensitivity".
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts
from patebench.core.blocks import blocks

_PER_VOTE = 32  # nodes of the table between even gaps g and g − 2
_NODES = 1 << 17  # maximum number of nodes of the table
_DISTANCES = 1 << 14  # maximum number of distances; one bound covers all larger ones
_CELLS = 1 << 20  # queries × distances × classes per block
_ROUNDING = 1e-12  # error of f per query, relative to the data-independent bound


@dataclass(frozen=True)
class PerQuery:
    """Data-dependent theorem that bounds the Rényi divergence of a query.

    The bound depends on the counts of the query only through q, an upper bound on the probability that the label is not
    the plurality. The theorem must satisfy conditions (1) and (2) of the module.
    """

    log_q: Callable[[NDArray[Any]], Array]  #: counts (queries × classes), integer or not → ln q per query
    curve: Callable[[Array, Array], Array]  #: ln q, orders → Rényi bound, queries × orders

    def __call__(self, counts: NDArray[Any], orders: Array) -> Array:
        """Return the Rényi bound of each query from `counts` (queries × classes), as (queries × orders)."""
        return self.curve(self.log_q(counts), orders)


@dataclass(frozen=True, eq=False)
class Steps:
    """Table of how much one changed vote can change the Rényi bound on a query.

    The nodes of the table are histograms in which the plurality leads every other class by g votes, with g from 0 to
    the number of teachers. Between nodes, values are interpolated linearly. The table does not depend on the votes. At
    orders where the data-independent bound is ∞, the table has no meaning.
    """

    log_q: Array  #: ln q at the nodes, decreasing
    change: Array  #: (orders, nodes) upper bounds on the change; they rise up to the node `peak`, and then fall
    peak: NDArray[np.intp]  #: (orders,)
    rounding: Array  #: rounding error of a query's bound, per order
    teachers: int
    per_query: PerQuery

    @classmethod
    def of(cls, per_query: PerQuery, teachers: int, classes: int, orders: Array) -> "Steps":
        """Create the table for the theorem `per_query`; the number of nodes depends only on the number of teachers."""
        even = np.zeros((min(teachers * _PER_VOTE // 2 + 1, _NODES), classes))
        even[:, 0] = np.linspace(0, teachers, len(even))
        vote = int(np.ceil(2 * (len(even) - 1) / teachers))  # nodes per step of 2 in the even gap, rounded up
        log_q = np.minimum.accumulate(per_query.log_q(even))
        bound = np.maximum.accumulate(per_query.curve(log_q, orders)[::-1])[::-1].T
        before = bound[:, np.maximum(np.arange(len(even) - 1) - vote, 0)]
        with np.errstate(invalid="ignore"):
            between = np.nan_to_num(before - bound[:, 1:], nan=0.0, posinf=0.0)
        nodes = np.maximum(np.pad(between, ((0, 0), (1, 0))), np.pad(between, ((0, 0), (0, 1))))
        peak = np.argmax(nodes, axis=1)
        rising = np.maximum.accumulate(nodes, axis=1)
        falling = np.maximum.accumulate(nodes[:, ::-1], axis=1)[:, ::-1]
        rounding = _ROUNDING * np.nan_to_num(bound[:, 0], posinf=0.0)
        return cls(log_q, np.minimum(rising, falling), peak, rounding, teachers, per_query)

    def position(self, histograms: Array) -> Array:
        """Return the position in this table of each of `histograms` (… × classes), as a real-valued index.

        Each entry of the table belongs to a value of q, an upper bound on the probability that the plurality does not
        win. If the q of a histogram lies between two entries, its index is interpolated linearly in ln q.
        """
        log_q = self.per_query.log_q(histograms.reshape(-1, histograms.shape[-1])).reshape(histograms.shape[:-1])
        return np.interp(-log_q, -self.log_q, np.arange(len(self.log_q), dtype=np.float64))


def local(steps: Steps, counts: Counts) -> Array:
    """Return upper bounds on the local sensitivity of the total Rényi bound on all queries, (distances × orders).

    Row d bounds the local sensitivity at all counts that differ from `counts` by at most d votes per query. The last
    row bounds it at any counts.
    """
    distances = np.arange(min(steps.teachers, _DISTANCES))
    total = np.zeros((len(distances) + 1, len(steps.peak)))
    total[-1] = len(counts) * steps.change.max(axis=1)
    ordered, times = np.unique(-np.sort(-counts, axis=1), axis=0, return_counts=True)
    classes = ordered.shape[1]
    span = min(len(distances), max(1, _CELLS // classes))
    for rows, some in product(blocks(len(ordered), _CELLS // (classes * span)), blocks(len(distances), span)):
        near, far = _bound_positions(steps, ordered[rows], distances[some])
        # As `change` rises and then falls, its maximum over an interval is at the point nearest to the peak.
        for order, (change, peak) in enumerate(zip(steps.change, steps.peak, strict=True)):
            total[some, order] += times[rows] @ _interpolate(change, np.clip(float(peak), near, far))
    return total + len(counts) * steps.rounding


def work(queries: int, classes: int, teachers: int) -> float:
    """Return an upper bound on the number of operations in `local`: queries × classes × numbers of changed votes."""
    return float(queries) * classes * min(teachers, _DISTANCES)


def smooth(local: Array, beta: Array | float) -> Array:
    """Return the β-smooth sensitivity per order: the maximum of e^{−βd}·local[d] over distances d.

    `local` (distances × orders) is the result of the function `local`; `beta` is one number, or one per order. The
    result is at least 10⁻¹² times the last row of `local`, which does not depend on the votes.
    """
    distances = np.arange(len(local), dtype=np.float64)
    discounted = np.exp(-np.multiply.outer(distances, beta)).reshape(len(local), -1) * local
    return np.maximum(discounted.max(axis=0), 1e-12 * local[-1])


def _bound_positions(steps: Steps, ordered: Counts, distances: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return, for each query and distance d, the range of positions in the table `steps` that pairs can have.

    A pair consists of two adjacent histograms, at least one of which differs from the counts of the query in at most d
    votes. Its position is that of the histogram with the smaller q (`Steps.position`).

    Parameters
    ----------
    ordered : (queries, classes) counts of each query in descending order
    distances : (distances,) numbers d of changed votes

    Returns
    -------
    Least position and greatest position, (queries, distances) each.
    """
    tied = 2 * distances >= (ordered[:, :1] - ordered[:, 1:2])
    near = np.where(tied, 0.0, steps.position(_move_towards_tie(ordered, distances)))
    far = steps.position(_move_towards_unanimity(ordered, distances + 1))
    return near, np.maximum(near, far)


def _move_towards_tie(ordered: Counts, distances: NDArray[np.intp]) -> Array:
    """Return the counts after `distances` votes have moved from the plurality to the runner-up, at most to a tie.

    The result is (queries × distances × classes).
    """
    moved = np.minimum(distances, (ordered[:, :1] - ordered[:, 1:2]) // 2)
    result = np.repeat(ordered[:, None].astype(np.float64), len(distances), axis=1)
    result[..., 0] -= moved
    result[..., 1] += moved
    return result


def _move_towards_unanimity(ordered: Counts, distances: NDArray[np.intp]) -> Array:
    """Return the counts after `distances` votes have moved to the plurality, always from the largest other class.

    Fractions of votes are moved too. The result is (queries × distances × classes).
    """
    others = ordered[:, None, 1:].astype(np.float64)
    # Counts c_j above a level λ are lowered to λ, with Σ_j (c_j − λ)⁺ = d; so λ = max_k (c_1 + … + c_k − d)/k.
    # The q after moving fractions of votes is at most the q after moving whole votes.
    sums = np.cumsum(others, axis=-1) - distances[:, None]
    level = np.maximum(np.max(sums / np.arange(1, others.shape[-1] + 1), axis=-1, keepdims=True), 0.0)
    levelled = np.minimum(others, level)
    plurality = ordered.sum(axis=1)[:, None, None] - levelled.sum(axis=-1, keepdims=True)
    return np.concatenate([plurality, levelled], axis=-1)


def _interpolate(table: Array, position: Array) -> Array:
    """Return the values of `table` at the real-valued `position`, by linear interpolation."""
    node = np.minimum(position.astype(np.intp), len(table) - 2)
    rest = position - node
    return table[node] * (1 - rest) + table[node + 1] * rest
