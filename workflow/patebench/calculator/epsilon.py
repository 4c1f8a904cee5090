"""The command `patebench epsilon`: every bound on ε that a release of these votes has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from patebench.accounting.accountant import check_queries
from patebench.accounting.sanitised import SanitisingNoise
from patebench.accounting.votes import Votes
from patebench.calculator.calibrate import released
from patebench.core.bound import Bound, large_delta
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import check_releasable, make_mechanism, plain


@dataclass(frozen=True)
class Account:
    """Every bound on the first `queries` queries to a mechanism, at one δ: those of discrete noise for a `release`.

    `released` is the least bound that a release with discrete noise states, whatever the votes are, in any case; None
    where the mechanism has no discrete form, at a δ of at least 1/teachers, and where `unprotected` says why an ε of
    these votes protects nobody.
    """

    mechanism: str
    parameters: Mapping[str, float]
    delta: float
    queries: int
    bounds: Sequence[Bound]
    release: bool
    released: Bound | None
    teachers: int
    unprotected: str | None = None

    def beside(self, other: "Account") -> "Account":
        """This account with the bounds of another of the same release after its own."""
        return replace(self, bounds=[*self.bounds, *other.bounds])

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; infinities become the string "inf", which strict JSON can hold."""
        return {
            "mechanism": self.mechanism,
            "parameters": plain(self.parameters),
            "delta": self.delta,
            "queries": self.queries,
            "bounds": [bound.said_of(self.release).to_json() for bound in self.bounds],
            "release": self.release,
            "released": None if self.unprotected or not self.released else self.released.to_json(),
        }


def epsilon(
    votes: Votes,
    mechanism: str,
    parameters: Mapping[str, float],
    delta: float,
    queries: int | None = None,
    noise: SanitisingNoise | None = None,
    release: bool = False,
    publishable: bool | None = None,
) -> Account:
    """Account for the first `queries` queries of these votes (all by default).

    With `noise` the sanitised bounds are drawn too: each draw is a release of its own. With `release` only those bounds
    are stated that hold for labels drawn with discrete noise; no sanitised one does. `publishable` leaves the bounds
    that may be told, or the others.

    Raises PatebenchError for a mechanism, parameter or number of queries that will not do, and for `release` of a
    mechanism without a discrete form.
    """
    wanted = make_mechanism(mechanism, parameters)
    if release:
        check_releasable(mechanism, type(wanted))
        if noise is not None:
            raise PatebenchError("no sanitised bound holds for the discrete noise of a release; leave one of both out")
    (count,) = check_queries([queries or votes.queries], votes.queries)
    bounds = wanted.bounds(votes.at(slice(count)), [count], delta, noise, discrete=release, publishable=publishable)
    states = None
    if not large_delta(delta, votes.teachers):
        states = released(wanted, count, delta, votes.classes, votes.teachers)
    return Account(mechanism, wanted.parameters(), delta, count, bounds, release, states, votes.teachers)
