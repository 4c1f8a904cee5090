"""GNMax, the Gaussian noisy plurality of Scalable PATE (Papernot et al. 2018, section 4.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from patebench.accounting import conversion, discrete_gaussian, independent, label, plurality, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated, summed
from patebench.accounting.filter import PerQueryCost
from patebench.accounting.label import LabelCost
from patebench.accounting.sanitised_accountant import SanitisingNoise
from patebench.accounting.sanitised_accountant import accountants as sanitised_accountants
from patebench.accounting.smooth import PerQuery
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.base import parameter
from patebench.mechanisms.noise import GAUSSIAN, Gaussian
from patebench.mechanisms.noisy_argmax import NoisyArgmax


@dataclass(frozen=True)
class GNMax(NoisyArgmax):
    """argmax(counts + N(0, σ²)); each query has Rényi divergence α/σ² at most (Scalable PATE, Proposition 8)."""

    published = ("rdp", Conversion.CLASSIC)
    discrete = True
    example: ClassVar[Mapping[str, float]] = {"sigma": 20.0}

    sigma: float = parameter(low=0)

    @property
    def noise(self) -> Gaussian:
        return Gaussian(self.sigma)

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost:
        return PerQueryCost(label.per_query(*self.label_costs()))

    def label_costs(self) -> tuple[LabelCost, LabelCost]:
        """What the label of one query costs at most, with continuous noise and with discrete."""
        return label.gaussian(self.sigma), label.gaussian(self.sigma, discrete=True)

    def accountants(self, votes: Votes) -> list[Accountant]:
        log_q = plurality.gaussian_log_q(votes.counts, self.sigma)
        return [
            DirectAccountant(
                name="gdp",
                label="Gaussian DP, PLD",
                kind=Kind.WORST_CASE,
                source="Balle & Wang 2018, Theorem 8; Dong, Roth, Su 2022, Corollary 3.3, with μ = √(2T)/σ",
                epsilon=lambda T, delta: independent.gaussian_dp(independent.gnmax_mu(self.sigma, T), delta),
                discrete=discrete_gaussian.accountant(
                    lambda T, delta: discrete_gaussian.epsilon(self.sigma, 2 * T, delta),
                    "losses (T + Y)/σ², Y a sum of 2T draws",
                ),
            ),
            label.accountant(*self.label_costs()),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source="Scalable PATE, Proposition 8",
                discrete=GAUSSIAN,
                totals=repeated(lambda orders: rdp.gaussian(self.sigma, orders)),
                orders=conversion.ORDERS,
            ),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.DATA_DEPENDENT,
                source="Scalable PATE, Theorem 6 with Propositions 7, 8 and 10",
                totals=summed(lambda rows, orders: rdp.gaussian_data_dependent(rows, self.sigma, orders), log_q),
                orders=conversion.ORDERS,
            ),
            *self.exact_accountants(votes),
        ]

    def sanitised(self, votes: Votes, noise: SanitisingNoise) -> list[Accountant]:
        per_query = PerQuery(
            lambda counts: plurality.gaussian_log_q(counts, self.sigma),
            lambda log_q, orders: rdp.gaussian_data_dependent(log_q, self.sigma, orders),
        )
        theorem = "Scalable PATE, Theorem 6 with Propositions 7, 8 and 10"
        return sanitised_accountants(votes, per_query, lambda orders: rdp.gaussian(self.sigma, orders), theorem, noise)
