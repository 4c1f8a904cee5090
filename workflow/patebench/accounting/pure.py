"""Accountants of queries that are each ε-DP, of which no more is known."""

from patebench.accounting import conversion, independent, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated
from patebench.core.bound import Kind


def pure_accountants(theorem: str, epsilon: float, *, discrete: str | None = None) -> list[Accountant]:
    """What T queries cost, whatever the votes are, if each is `epsilon`-DP by the `theorem`.

    `discrete` says why the theorem holds with discrete noise too; None: it may not (see `Accountant`).
    """
    return [
        DirectAccountant(
            name="pld",
            label="Gaussian DP, PLD",
            kind=Kind.WORST_CASE,
            source=f"{theorem}; Kairouz, Oh, Viswanath 2015, Theorem 3.3",
            discrete=discrete,
            epsilon=lambda T, delta: independent.pure_composition(epsilon, T, delta),
        ),
        RenyiAccountant(
            name="rdp",
            label="Rényi",
            kind=Kind.WORST_CASE,
            source=f"{theorem}; Mironov 2017, Proposition 10",
            discrete=discrete,
            totals=repeated(lambda orders: rdp.pure(epsilon, orders)),
            orders=conversion.ORDERS,
        ),
    ]
