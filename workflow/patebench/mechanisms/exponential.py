"""The exponential mechanism (McSherry & Talwar 2007) on the counts, and permute-and-flip (McKenna & Sheldon 2020)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import exact_accountant, independent
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated
from patebench.accounting.independent import pure_accountants
from patebench.accounting.logspace import exp_multiple
from patebench.accounting.votes import Votes, winners
from patebench.core.blocks import blocks
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import Labels, Mechanism, Shown, never_abstaining, parameter
from patebench.mechanisms.neighbours import refine_near_certain


@dataclass(frozen=True)
class Exponential(Mechanism):
    """Exponential mechanism: Pr[class j] ∝ exp(ε·n_j/2) for the count n_j of class j; each query is ε-DP.

    The mechanism has bounded range ε: the privacy loss of a query lies in an interval of length ε (Durfee & Rogers
    2019). Proof: docs/explanation/proofs-mechanisms.md, "The exponential mechanism".
    """

    shown = Shown("exponential", color="sky", marker="<")
    published = ("bounded-range", Conversion.NONE)
    example: ClassVar[Mapping[str, float]] = {"epsilon": 0.2}

    epsilon: float = parameter(low=0, above=True, high=1e6, words="ε of a query")

    def release(self, votes: Votes, rng: Source) -> Labels:
        below = np.cumsum(np.exp(self.log_outcome_probabilities(votes)[:, :-1]), axis=1)
        below[:, -1] = 1.0
        labels = np.argmax(rng.random(size=votes.queries)[:, None] < below, axis=1)
        return np.asarray(labels, dtype=np.int32)

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        behind = votes.counts - votes.counts.max(axis=1, keepdims=True)
        weights = exp_multiple(self.epsilon / 2, behind)
        np.put_along_axis(weights, votes.plurality[:, None], 0.0, axis=1)  # log1p adds its weight, 1
        total = np.log1p(weights.sum(axis=1))
        return never_abstaining(self.epsilon / 2 * behind - total[:, None])

    def accountants(self, votes: Votes) -> list[Accountant]:
        return [
            DirectAccountant(
                name="bounded-range",
                label="Gaussian DP, PLD",
                kind=Kind.WORST_CASE,
                source="Dong, Durfee, Rogers 2020, optimal non-adaptive composition of T steps of range ε",
                adaptive=False,
                epsilon=lambda T, delta: independent.bounded_range_composition(self.epsilon, T, delta),
            ),
            RenyiAccountant(
                kind=Kind.WORST_CASE,
                source="Durfee & Rogers 2019 (range ε); Dong, Durfee, Rogers 2020, worst step, its Rényi divergence",
                totals=repeated(lambda orders: independent.bounded_range_rdp(self.epsilon, orders)),
            ),
            *exact_accountant.accountants(votes, self.neighbours),
        ]


#: Numbers in one block of the quadrature, which bounds memory.
_CELLS = 1 << 20


@dataclass(frozen=True)
class PermuteAndFlip(Mechanism):
    """Permute-and-flip: argmax(counts + exponential noise of scale 2/ε); each query is ε-DP.

    Theorem: McKenna & Sheldon 2020, Theorem 1; the form as an argmax: Ding et al. 2021. Unlike the exponential
    mechanism, permute-and-flip does not have bounded range ε, so only theorems on pure DP apply. Proof:
    docs/explanation/proofs-mechanisms.md, "Permute and flip".
    """

    shown = Shown("permute and flip", color="sky", marker=">")
    published = ("pld", Conversion.NONE)
    example: ClassVar[Mapping[str, float]] = {"epsilon": 0.2}

    epsilon: float = parameter(low=0, above=True, high=1e6, words="ε of a query")

    def release(self, votes: Votes, rng: Source) -> Labels:
        return winners(votes.counts + rng.exponential(scale=2 / self.epsilon, size=votes.counts.shape))

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        """Return ln Pr of each label and of "no answer", which has probability 0, (queries, classes + 1).

        Class j has probability w_j ∫₀¹ Π_{k≠j} (1 − s·w_k) ds, with w_k = exp(ε(n_k − max n)/2) for counts n. Proof:
        let each class k have an independent coin that shows heads with probability w_k, and an independent uniform time
        in [0, 1]. The label is the class with the earliest time among all classes with heads. Class j with heads and
        time s is the label if no other class k has heads and an earlier time, which has probability 1 − s·w_k for each
        k.
        """
        behind = votes.counts - votes.counts.max(axis=1, keepdims=True)
        log_p = self.epsilon / 2 * behind + np.log(_acceptance_integrals(exp_multiple(self.epsilon / 2, behind)))
        log_p = refine_near_certain(log_p, np.ones(log_p.shape, dtype=np.int64))
        return never_abstaining(log_p)

    def accountants(self, votes: Votes) -> list[Accountant]:
        theorem = "McKenna & Sheldon 2020, Theorem 1 (ε-DP)"
        return [
            *pure_accountants(theorem, self.epsilon),
            *exact_accountant.accountants(votes, self.neighbours),
        ]


def _acceptance_integrals(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ∫₀¹ Π_{k≠j} (1 − s·w_k) ds for each class j, (queries, classes), with w_k the `weights` of classes."""
    # The integrand is a polynomial, so Gauss–Legendre quadrature is exact. Its factors are not negative, so no terms
    # cancel.
    classes = weights.shape[1]
    nodes, node_weights = np.polynomial.legendre.leggauss(classes // 2 + 1)
    result = np.empty(weights.shape)
    for queries in blocks(len(weights), _CELLS // (classes * len(nodes))):
        refused = 1 - (1 + nodes)[:, None] / 2 * weights[queries, None, :]
        everyone = refused.prod(axis=2, keepdims=True)
        result[queries] = np.einsum("s,qsj->qj", node_weights / 2, everyone / refused)
    return result
