"""The noisy argmax, argmax(counts + independent noise per count), and the two mechanisms of PATE.

LNMax is from PATE 2017 (Papernot et al., *Semi-supervised knowledge transfer*, section 2.1), and GNMax from Scalable
PATE (Papernot et al. 2018, section 4.1).
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import discrete_gaussian, exact, exact_accountant, independent, label, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated, summed, with_added
from patebench.accounting.filter import PerQueryCost
from patebench.accounting.logspace import Array
from patebench.accounting.sanitised import SanitisingNoise
from patebench.accounting.sanitised import accountants as sanitised_accountants
from patebench.accounting.smooth import PerQuery
from patebench.accounting.votes import Counts, Votes, winners
from patebench.core.blocks import blocks
from patebench.core.bound import Conversion, Kind
from patebench.core.seeds import Source
from patebench.mechanisms.base import Labels, Mechanism, Shown, never_abstaining, parameter
from patebench.mechanisms.neighbours import of_noisy_argmax
from patebench.mechanisms.noise import GAUSSIAN, LAPLACE, Gaussian, Laplace, Noise
from patebench.mechanisms.quadrature import log_argmax_probabilities

#: Numbers drawn in one block of queries, which bounds memory.
_CELLS = 1 << 22


@dataclass(frozen=True)
class NoisyArgmax(Mechanism):
    """Noisy argmax, argmax(counts + noise), which answers every query; exact ties go to the lowest class."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """Return the noise of each count."""

    def release(self, votes: Votes, rng: Source) -> Labels:
        labels = np.empty(votes.queries, dtype=np.int32)
        for queries in blocks(votes.queries, _CELLS // votes.classes):
            counts = votes.counts[queries]
            labels[queries] = winners(counts + self.noise.draw(counts.shape, rng))
        return labels

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        answers = log_argmax_probabilities(votes.counts, self.noise)
        return never_abstaining(answers)

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        if self.noise.scale == 0:
            return super().neighbours(counts)
        return of_noisy_argmax(counts, self.noise)


@dataclass(frozen=True)
class GNMax(NoisyArgmax):
    """GNMax: argmax(counts + N(0, σ²)); each query has Rényi divergence at most α/σ² (Scalable PATE, Proposition 8)."""

    shown = Shown("GNMax", color="blue", marker="o")
    published = ("rdp", Conversion.CLASSIC)
    discrete = True
    example: ClassVar[Mapping[str, float]] = {"sigma": 20.0}

    sigma: float = parameter(low=0)

    @property
    def noise(self) -> Gaussian:
        return Gaussian(self.sigma)

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost:
        return PerQueryCost(label.per_query(label.gaussian, self.sigma))

    def accountants(self, votes: Votes) -> list[Accountant]:
        log_q = rdp.gaussian_log_q(votes.counts, self.sigma)
        return [
            *with_added([self._gdp(2)], [self._gdp(1)]),
            label.accountant(label.gaussian, self.sigma),
            RenyiAccountant(
                kind=Kind.WORST_CASE,
                source="Scalable PATE, Proposition 8",
                discrete=GAUSSIAN,
                totals=repeated(lambda orders: rdp.gaussian(self.sigma, orders)),
            ),
            RenyiAccountant(
                kind=Kind.DATA_DEPENDENT,
                source="Scalable PATE, Theorem 6 with Propositions 7, 8 and 10",
                totals=summed(lambda rows, orders: rdp.gaussian_data_dependent(rows, self.sigma, orders), log_q),
            ),
            *exact_accountant.accountants(votes, self.neighbours if self.noise.scale > 0 else None),
        ]

    def _gdp(self, changed_counts: int) -> Accountant:
        """Return the Gaussian DP accountant of noisy counts if a teacher changes `changed_counts` of them per query."""
        return DirectAccountant(
            name="gdp",
            kind=Kind.WORST_CASE,
            source="Balle & Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 3.3, with μ = √(2T)/σ",
            epsilon=lambda T, delta: independent.gaussian_dp(
                independent.cells_mu(self.sigma, changed_counts * T), delta
            ),
            discrete=discrete_gaussian.accountant(
                lambda T, delta: discrete_gaussian.epsilon(self.sigma, changed_counts * T, delta),
                "losses (T + Y)/σ², Y a sum of 2T draws",
            ),
        )

    def sanitised(self, votes: Votes, noise: SanitisingNoise) -> list[Accountant]:
        per_query = PerQuery(
            lambda counts: rdp.gaussian_log_q(counts, self.sigma),
            lambda log_q, orders: rdp.gaussian_data_dependent(log_q, self.sigma, orders),
        )
        theorem = "Scalable PATE, Theorem 6 with Propositions 7, 8 and 10"
        return sanitised_accountants(votes, per_query, lambda orders: rdp.gaussian(self.sigma, orders), theorem, noise)


#: Moments l tried by the unrestricted analysis; the published one stops at l = 8.
_MOMENTS = np.unique(np.round(np.geomspace(1, 1e6, 200)))


@dataclass(frozen=True)
class LNMax(NoisyArgmax):
    """LNMax: argmax(counts + Lap(1/γ)); each query is 2γ-DP (PATE 2017, Theorem 3).

    This is also true for discrete Laplace noise. Moving a vote changes two integer counts by one each, so the
    probability of any vector of noisy counts increases by a factor of at most e^{2γ}.
    """

    shown = Shown("LNMax", color="orange", marker="s")
    published = ("moments", Conversion.CLASSIC)
    discrete = True
    example: ClassVar[Mapping[str, float]] = {"gamma": 0.05}

    gamma: float = parameter(low=0, above=True)

    @property
    def noise(self) -> Laplace:
        return Laplace(1 / self.gamma)

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost:
        return PerQueryCost(label.per_query(label.laplace, self.gamma))

    def accountants(self, votes: Votes) -> list[Accountant]:
        log_q = rdp.laplace_log_q(votes.counts, self.gamma)
        pld, pure_rdp = independent.pure_accountants("PATE 2017, Theorem 3 (2γ-DP)", 2 * self.gamma, discrete=LAPLACE)
        return [
            DirectAccountant(
                name="strong-composition",
                label="strong composition",
                kind=Kind.WORST_CASE,
                source="PATE 2017, appendix B, after Theorem 3",
                discrete=LAPLACE,
                epsilon=lambda T, delta: independent.strong_composition(self.gamma, T, delta),
            ),
            pld,
            label.accountant(label.laplace, self.gamma),
            *self._moments("moments", "moments, l ≤ 8", rdp.PUBLISHED_MOMENTS, log_q),
            *self._moments("moments-unrestricted", "moments, every l", _MOMENTS, log_q, variant=True),
            pure_rdp,
            RenyiAccountant(
                kind=Kind.DATA_DEPENDENT,
                source="PATE 2017, Theorem 1 and Lemma 4, at moment α − 1; Mironov 2017, Proposition 10",
                totals=summed(lambda rows, orders: rdp.laplace_data_dependent(rows, self.gamma, orders), log_q),
            ),
            *exact_accountant.accountants(votes, self.neighbours if self.noise.scale > 0 else None),
        ]

    def sanitised(self, votes: Votes, noise: SanitisingNoise) -> list[Accountant]:
        per_query = PerQuery(
            lambda counts: rdp.laplace_log_q(counts, self.gamma),
            lambda log_q, orders: rdp.laplace_data_dependent(log_q, self.gamma, orders),
        )
        theorem = "PATE 2017, Theorem 1 and Lemma 4, at moment α − 1"
        return sanitised_accountants(votes, per_query, lambda orders: rdp.laplace(self.gamma, orders), theorem, noise)

    def _moments(
        self, name: str, label: str, moments: Array, log_q: Array, *, variant: bool = False
    ) -> list[Accountant]:
        """Return the worst-case and the data-dependent moments accountant of PATE 2017.

        `moments` are the moments l that both accountants use. `log_q` (queries,) is ln of Lemma 4's bound on Pr[label
        is not the plurality]. `name`, `label` and `variant` are stored in both accountants.
        """

        # A bound α(l) on moment l is equivalent to a bound α(l)/l on the Rényi divergence of order l + 1.
        def worst_case(orders: Array) -> Array:
            return rdp.moments_data_independent(self.gamma, orders - 1) / (orders - 1)

        def data_dependent(rows: Array, orders: Array) -> Array:
            return rdp.moments_data_dependent(rows, self.gamma, orders - 1) / (orders - 1)

        return [
            RenyiAccountant(
                name=name,
                label=label,
                variant=variant,
                kind=kind,
                source=source,
                discrete=LAPLACE if kind is Kind.WORST_CASE else None,
                totals=totals,
                orders=moments + 1,
                conversions=(Conversion.CLASSIC,),
                refine=False,
            )
            for kind, source, totals in (
                (Kind.WORST_CASE, "PATE 2017, Theorem 3", repeated(worst_case)),
                (Kind.DATA_DEPENDENT, "PATE 2017, Theorem 1 and Lemma 4", summed(data_dependent, log_q)),
            )
        ]
