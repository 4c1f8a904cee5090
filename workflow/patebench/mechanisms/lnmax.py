"""LNMax, the noisy plurality of PATE 2017 (Papernot et al., *Semi-supervised knowledge transfer*, section 2.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from patebench.accounting import conversion, independent, label, moments, plurality, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated, summed
from patebench.accounting.filter import PerQueryCost
from patebench.accounting.label import LabelCost
from patebench.accounting.logspace import Array
from patebench.accounting.sanitised_accountant import SanitisingNoise
from patebench.accounting.sanitised_accountant import accountants as sanitised_accountants
from patebench.accounting.smooth import PerQuery
from patebench.accounting.votes import Votes
from patebench.core.bound import Conversion, Kind
from patebench.mechanisms.base import parameter
from patebench.mechanisms.noise import LAPLACE, Laplace
from patebench.mechanisms.noisy_argmax import NoisyArgmax

#: All moments tried by the unrestricted analysis, as Rényi orders l + 1; the published one stops at l = 8.
_MOMENTS = np.unique(np.round(np.geomspace(1, 1e6, 200)))


@dataclass(frozen=True)
class LNMax(NoisyArgmax):
    """argmax(counts + Lap(1/γ)); each query is 2γ-DP (PATE 2017, Theorem 3).

    So it is with the discrete Laplace distribution: a vote changes two integer counts by one each, which makes no noisy
    counts more than e^{2γ} times as likely, and the label is computed from these.
    """

    published = ("moments", Conversion.CLASSIC)
    discrete = True
    example: ClassVar[Mapping[str, float]] = {"gamma": 0.05}

    gamma: float = parameter(low=0, above=True)

    @property
    def noise(self) -> Laplace:
        return Laplace(1 / self.gamma)

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost:
        return PerQueryCost(label.per_query(*self._label_costs()))

    def _label_costs(self) -> tuple[LabelCost, LabelCost]:
        """What the label of one query costs at most, with continuous noise and with discrete."""
        return label.laplace(self.gamma), label.laplace(self.gamma, discrete=True)

    def accountants(self, votes: Votes) -> list[Accountant]:
        log_q = plurality.laplace_log_q(votes.counts, self.gamma)
        return [
            DirectAccountant(
                name="strong-composition",
                label="strong composition",
                kind=Kind.WORST_CASE,
                source="PATE 2017, appendix B, after Theorem 3",
                discrete=LAPLACE,
                epsilon=lambda T, delta: independent.strong_composition(self.gamma, T, delta),
            ),
            DirectAccountant(
                name="pld",
                label="Gaussian DP, PLD",
                kind=Kind.WORST_CASE,
                source="PATE 2017, Theorem 3 (2γ-DP); Kairouz, Oh, Viswanath 2015, Theorem 3.3",
                discrete=LAPLACE,
                epsilon=lambda T, delta: independent.pure_composition(2 * self.gamma, T, delta),
            ),
            label.accountant(*self._label_costs()),
            *self._moments("moments", "moments, l ≤ 8", moments.PUBLISHED, log_q),
            *self._moments("moments-unrestricted", "moments, every l", _MOMENTS, log_q, variant=True),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.WORST_CASE,
                source="PATE 2017, Theorem 3 (2γ-DP); Mironov 2017, Proposition 10",
                discrete=LAPLACE,
                totals=repeated(lambda orders: rdp.laplace(self.gamma, orders)),
                orders=conversion.ORDERS,
            ),
            RenyiAccountant(
                name="rdp",
                label="Rényi",
                kind=Kind.DATA_DEPENDENT,
                source="PATE 2017, Theorem 1 and Lemma 4, at moment α − 1; Mironov 2017, Proposition 10",
                totals=summed(lambda rows, orders: rdp.laplace_data_dependent(rows, self.gamma, orders), log_q),
                orders=conversion.ORDERS,
            ),
            *self.exact_accountants(votes),
        ]

    def sanitised(self, votes: Votes, noise: SanitisingNoise) -> list[Accountant]:
        per_query = PerQuery(
            lambda counts: plurality.laplace_log_q(counts, self.gamma),
            lambda log_q, orders: rdp.laplace_data_dependent(log_q, self.gamma, orders),
        )
        theorem = "PATE 2017, Theorem 1 and Lemma 4, at moment α − 1"
        return sanitised_accountants(votes, per_query, lambda orders: rdp.laplace(self.gamma, orders), theorem, noise)

    def _moments(self, name: str, label: str, tried: Array, log_q: Array, *, variant: bool = False) -> list[Accountant]:
        """The moments accountant, α(l) seen as the Rényi curve α(l)/l of order l + 1, converted as published."""

        def worst_case(orders: Array) -> Array:
            return moments.data_independent(self.gamma, orders - 1) / (orders - 1)

        def data_dependent(rows: Array, orders: Array) -> Array:
            return moments.data_dependent(rows, self.gamma, orders - 1) / (orders - 1)

        return [
            RenyiAccountant(
                name=name,
                label=label,
                variant=variant,
                kind=kind,
                source=source,
                discrete=LAPLACE if kind is Kind.WORST_CASE else None,
                totals=totals,
                orders=tried + 1,
                conversions=(Conversion.CLASSIC,),
                refine=False,
            )
            for kind, source, totals in (
                (Kind.WORST_CASE, "PATE 2017, Theorem 3", repeated(worst_case)),
                (Kind.DATA_DEPENDENT, "PATE 2017, Theorem 1 and Lemma 4", summed(data_dependent, log_q)),
            )
        ]
