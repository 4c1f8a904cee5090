"""The command `patebench epsilon`: every bound on ε that a release of these votes has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patebench.accounting.accountant import check_queries
from patebench.accounting.sanitised_accountant import fresh
from patebench.accounting.votes import Votes
from patebench.core.bound import Bound
from patebench.mechanisms.base import make_mechanism, plain


@dataclass(frozen=True)
class Account:
    """Every bound on the first `queries` queries to a mechanism, at one δ."""

    mechanism: str
    parameters: Mapping[str, float]
    delta: float
    queries: int
    bounds: Sequence[Bound]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; infinities become the string "inf", which strict JSON can hold."""
        return {
            "mechanism": self.mechanism,
            "parameters": plain(self.parameters),
            "delta": self.delta,
            "queries": self.queries,
            "bounds": [bound.to_json() for bound in self.bounds],
        }


def epsilon(
    votes: Votes,
    mechanism: str,
    parameters: Mapping[str, float],
    delta: float,
    queries: int | None = None,
    sanitise: bool = False,
) -> Account:
    """Account for the first `queries` queries of these votes (all by default).

    With `sanitise` the sanitised bounds are drawn too, with noise from the operating system's entropy.

    Raises PatebenchError for a mechanism, parameter or number of queries that will not do.
    """
    wanted = make_mechanism(mechanism, parameters)
    (count,) = check_queries([queries or votes.queries], votes.queries)
    bounds = wanted.bounds(votes.at(slice(count)), [count], delta, fresh if sanitise else None)
    return Account(mechanism, wanted.parameters(), delta, count, bounds)
