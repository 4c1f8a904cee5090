"""Accounting of propose-test-release with the exact divergence: all labels of T queries are released, or none.

The gap of a query is the difference of its two largest counts. G(γ) is an upper bound on the Rényi divergence D_α
between the labels of one query on D and on a neighbour, in both directions, for all votes with a gap of γ or more. G
does not increase with γ. Let g_q be the gap of query q, B a bound on the divergence of the labels of all queries, and

    k(D) = the least k ≥ 0 with Σ_q G(g_q − 2k) > B.

So at least k(D) teachers must change their votes before the sum exceeds B. The labels are released with probability p_k
for k = k(D); otherwise nothing is released. If k(D) is 0, the sum exceeds B already. So the parameter p₀ must be small.

The decision to release depends on the votes, so it also has a cost. Let R ≥ B be a bound on the divergence of the
decision and the labels together. For this bound, the probabilities p and p′ with which two neighbours release labels
must satisfy

    ln( (1 − p)^α (1 − p′)^{1−α} + p^α p′^{1−α} e^{(α−1)B} ) / (α − 1)  ≤  R,                                        (*)

and the same inequality with p and p′ exchanged. Each p_{k+1} is the largest p that satisfies both inequalities for p′ =
p_k.

Theorem. Let M_α(R) be an ε for which every (α, R)-Rényi private release is (ε, δ)-DP. Then the release is (M_α(R),
δ)-DP for every δ ≥ p₀ and any votes. Queries must not depend on earlier labels.
p_k is a multiple of 2⁻⁵³, and sums of G are rounded correctly, so that k and p_k are exact.
Proof (ours, after Redberg, Zhu, Wang 2023): docs/explanation/proofs-mechanisms.md, "Propose, test, release".
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.accountant import RenyiAccountant
from patebench.accounting.logspace import Array
from patebench.accounting.searches import bisect

#: Probabilities are integer multiples of 1/UNITS.
UNITS = 2**53

#: Upper bound on the relative error of one operation on logarithms.
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


def steps(gap: NDArray[np.int64], cost: Array, budget: float) -> int | None:
    """Return the least number k of changed teachers for which the divergence bound exceeds `budget`; None if none does.

    One changed vote reduces a gap by at most 2, so k is the least number with Σ cost[max(gap − 2k, 0)] > `budget`.

    Parameters
    ----------
    gap : (queries,) gaps between the two largest counts
    cost : (teachers + 1,) bound G on the Rényi divergence of one label at gaps 0 … teachers, non-increasing
    budget : bound B on the divergence of the labels of all queries
    """

    def exceeds(k: int) -> bool:
        return math.fsum(cost[np.maximum(gap - 2 * k, 0)]) > budget

    last = (len(cost) + 1) // 2  # no gap remains above 0
    if not exceeds(last):
        return None
    if exceeds(0):
        return 0
    return bisect(exceeds, last, 0)


@dataclass(frozen=True)
class Decision:
    """Parameters of the decision whether labels may be released, by propose-test-release.

    Parameters
    ----------
    order : order α of Rényi divergences
    budget : bound B on the divergence of the labels of all queries, if they are released
    total : bound R ≥ B on the divergence of labels and decision together
    failure : probability p₀ that labels are released although their divergence may exceed B
    """

    order: float
    budget: float
    total: float
    failure: float

    def probability(self, k: int | None) -> float:
        """Return the probability p_k that labels are released, with `k` the result of `steps`; 1 if `k` is None."""
        return 1.0 if k is None else _pass_probabilities(self, k)[k] / UNITS

    def fulfils(self, units: int, previous_units: int) -> bool:
        """Return True if one data set may release labels with probability p, and its neighbour with probability p′.

        p is `units`/2⁵³, and p′ is `previous_units`/2⁵³. Condition (*) of the module must hold in both directions. The
        Rényi divergence of order α between the two releases is then at most `total`.
        """
        one, other = _log_probabilities(units), _log_probabilities(previous_units)
        return max(self._left_side(one, other), self._left_side(other, one)) <= (self.order - 1) * self.total

    def _left_side(self, one: tuple[float, float], other: tuple[float, float]) -> float:
        """Return the left side of condition (*) of the module, times α − 1 and rounded up.

        `one` is (ln p, ln(1 − p)), and `other` is (ln p′, ln(1 − p′)).
        """
        paid = (self.order - 1) * self.budget
        labels, nothing = (self.order * x + (1 - self.order) * y for x, y in zip(one, other, strict=True))
        sizes = self.order * -(sum(one) + sum(other)) + paid + (self.order - 1) * self.total
        return float(np.logaddexp(nothing, labels + paid)) + _ROUNDING * (sizes + 1)

    def curve(self, k: int | None, labels: Array, orders: Array) -> Array:
        """Return the Rényi divergence (… × orders) of the release: the decision and, if it is positive, the labels.

        `labels` (… × orders) is the divergence of the labels, if they are released. `k` is the result of `steps` for
        the votes. For a neighbour, `steps` returns k − 1, k or k + 1, or None if `k` is None. The returned divergence
        is the maximum over these cases and both directions.
        """
        near = {k} if k is None else {max(k - 1, 0), k, k + 1}
        pairs = [(self.probability(k), self.probability(other)) for other in near]
        both = [*pairs, *((q, p) for p, q in pairs)]
        return np.max([_release_divergence(p, q, labels, orders) for p, q in both], axis=0)


@lru_cache(maxsize=256)
def _pass_probabilities(decision: Decision, largest_k: int) -> tuple[int, ...]:
    """Return the probabilities p_k of releasing labels, for k = 0, …, `largest_k`, as integers in units of 1/UNITS.

    k is the result of `steps`.
    """
    result = [math.floor(decision.failure * UNITS)]
    while len(result) <= largest_k:
        result.append(bisect(partial(decision.fulfils, previous_units=result[-1]), result[-1], UNITS))
    return tuple(result)


def _log_probabilities(units: int) -> tuple[float, float]:
    """Return ln p and ln(1 − p) for the probability p = `units`/UNITS."""
    return math.log(units / UNITS), math.log((UNITS - units) / UNITS)


def _release_divergence(p: float, q: float, labels: Array, orders: Array) -> Array:
    """Return the Rényi divergence of a release that publishes labels with probability `p`, or `q` on the neighbour.

    With the remaining probability, nothing is published. `labels` (… × orders) is the Rényi divergence of the labels.
    """
    if p == q == 1:
        return labels
    (log_p, log_not_p), (log_q, log_not_q) = (_log_probabilities(round(chance * UNITS)) for chance in (p, q))
    nothing = orders * log_not_p - (orders - 1) * log_not_q
    released = orders * log_p - (orders - 1) * log_q + (orders - 1) * labels
    rounding = _ROUNDING * orders * (1 - log_p - log_q - log_not_p - log_not_q + labels)
    return np.maximum(np.logaddexp(nothing, released) + rounding, 0.0) / (orders - 1)


@dataclass(frozen=True, kw_only=True)
class WholeAccountant(RenyiAccountant):
    """Rényi accountant of propose-test-release, which converts to ε at the full δ.

    The failure probability p₀ is not subtracted from δ. The theorem of this module allows this for p₀ ≤ δ. If p₀
    exceeds δ, ε is ∞.
    """

    def remaining_delta(self, delta: float, queries: int) -> float:
        return delta if self.failure(queries) <= delta else 0.0
