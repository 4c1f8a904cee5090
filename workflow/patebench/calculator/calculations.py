"""What labels cost, and the noise or the number of queries that a budget (ε, δ) allows.

`patebench epsilon`, `patebench calibrate` and the Python interface share it. For a budget only bounds that hold
whatever the votes are count, so neither the noise nor the number of queries depends on votes. For a `release` they are
those of discrete noise, which the release then states; else of continuous noise.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from patebench.accounting import searches
from patebench.accounting.accountant import check_queries, valid_for_discrete_noise
from patebench.accounting.sanitised import SanitisingNoise
from patebench.accounting.votes import Votes
from patebench.core.bound import Bound, Kind, check_delta, large_delta
from patebench.core.errors import PatebenchError
from patebench.core.text import at_most, plural
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import Mechanism, check_releasable, make_mechanism, plain

#: More queries than this are not looked for.
MOST_QUERIES = 1_000_000

#: How near to the edge of the budget the search for discrete noise ends, whose every step takes seconds.
_NEAR = 1e-7

#: Numbers of classes and teachers, as far as they are known, and whether noise is that of a release.
Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Calibration:
    """A setting that keeps the target: all its parameters, the one `solved`, and every worst-case bound, least first.

    `solved` is "queries" or the name of a noise parameter; `classes` is None where the cost does not need it. `bounds`
    are those of discrete noise for a `release`; `released` is the least of these in any case, what the labels of a
    release would cost, or None where the mechanism has no discrete form, and at a δ of at least 1/teachers.
    """

    mechanism: str
    parameters: Mapping[str, float]
    delta: float
    target: float
    queries: int
    solved: str
    bounds: Sequence[Bound]
    classes: int | None = None
    teachers: int | None = None
    release: bool = False
    released: Bound | None = None

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that strict JSON can hold; its ε and accountant are those of the least bound."""
        return {
            "mechanism": self.mechanism,
            "parameters": plain(self.parameters),
            "delta": self.delta,
            "target": self.target,
            "queries": self.queries,
            "classes": self.classes,
            "solved": self.solved,
            "epsilon": self.bounds[0].epsilon,
            "accountant": self.bounds[0].accountant,
            "bounds": [bound.said_of(self.release).to_json() for bound in self.bounds],
            "release": self.release,
            "released": self.released.to_json() if self.released else None,
        }


def solve(
    mechanism: str,
    parameters: Mapping[str, float],
    epsilon: float,
    delta: float,
    queries: int | None = None,
    classes: int | None = None,
    teachers: int | None = None,
    release: bool = False,
) -> Calibration:
    """The least noise for that many queries, or, without `queries`, the most queries at the given noise.

    For the noise, `parameters` lacks exactly the one to find. `classes` and `teachers` are needed by mechanisms whose
    worst case depends on them. With `release` the target is kept by what a release with discrete noise states.
    Raises PatebenchError where nothing keeps the target, and for `release` of a mechanism without a discrete form.
    """
    if queries is None:
        return queries_for(make_mechanism(mechanism, parameters), mechanism, epsilon, delta, classes, teachers, release)
    _check(epsilon, delta)
    setting: Setting = {"classes": classes, "teachers": teachers, "release": release}
    return _noise_for(mechanism, dict(parameters), epsilon, delta, queries, setting)


def queries_for(
    mechanism: Mechanism,
    name: str,
    epsilon: float,
    delta: float,
    classes: int | None = None,
    teachers: int | None = None,
    release: bool = False,
) -> Calibration:
    """The most queries to a mechanism, of which messages speak by its `name`; see `solve`."""
    _check(epsilon, delta)
    setting: Setting = {"classes": classes, "teachers": teachers, "release": release}
    if release:
        check_releasable(name, type(mechanism))
    queries = searches.most(lambda T: worst_case(mechanism, T, delta, **setting)[0].epsilon, epsilon, MOST_QUERIES)
    if queries == 0:
        least = worst_case(mechanism, 1, delta, **setting)[0].epsilon
        raise PatebenchError(f"a single query costs ε = {at_most(least)}, above the target {epsilon:g}; add noise")
    return _found(mechanism, name, epsilon, delta, queries, "queries", setting)


def released(
    mechanism: Mechanism, queries: int, delta: float, classes: int | None = None, teachers: int | None = None
) -> Bound | None:
    """The least bound that a release with discrete noise states, whatever the votes are; None if there is none."""
    return worst_case(mechanism, queries, delta, classes, teachers, release=True)[0] if mechanism.discrete else None


def worst_case(
    mechanism: Mechanism,
    queries: int,
    delta: float,
    classes: int | None = None,
    teachers: int | None = None,
    release: bool = False,
) -> list[Bound]:
    """Every bound that holds whatever the votes are, least first; with `release` those that hold for discrete noise."""
    if classes is None and "classes" in mechanism.cost_needs:
        raise PatebenchError(f"what {type(mechanism).__name__} costs depends on the number of classes; add --classes")
    if teachers is None and "teachers" in mechanism.cost_needs:
        raise PatebenchError(f"what {type(mechanism).__name__} costs depends on the number of teachers; add --teachers")
    any_votes = Votes.from_counts((teachers or 1) * np.eye(1, classes or 2, dtype=np.int64))
    accountants = mechanism.accountants(any_votes)
    found = [
        bound
        for accountant in (valid_for_discrete_noise(accountants) if release else accountants)
        if accountant.kind is Kind.WORST_CASE
        for bound in accountant.bounds([queries], delta)
    ]
    if not found:
        raise PatebenchError(f"{type(mechanism).__name__} has no bound that holds for all votes, so no budget is kept")
    return sorted(found, key=lambda bound: bound.epsilon)


def _check(epsilon: float, delta: float) -> None:
    if not 0 < epsilon < math.inf:
        raise PatebenchError(f"a target of ε = {epsilon} can not be calibrated for; give a positive, finite ε")
    check_delta(delta)


def _found(
    mechanism: Mechanism, name: str, epsilon: float, delta: float, queries: int, solved: str, setting: Setting
) -> Calibration:
    bounds = worst_case(mechanism, queries, delta, **setting)
    states, teachers = None, setting["teachers"]
    if teachers is None or not large_delta(delta, teachers):
        states = released(mechanism, queries, delta, setting["classes"], teachers)
    return Calibration(
        name, mechanism.parameters(), delta, epsilon, queries, solved, bounds, released=states, **setting
    )


def _noise_for(
    name: str, given: dict[str, float], epsilon: float, delta: float, queries: int, setting: Setting
) -> Calibration:
    kind: type[Mechanism] = MECHANISMS.load(name)
    if setting["release"]:
        check_releasable(name, kind)
    solved = _left_out(name, kind, given, queries)

    def with_noise(value: float) -> Mechanism:
        return make_mechanism(name, {**given, solved: value})

    def edge(setting: Setting, guess: float | None = None, **search: float) -> float:
        def cost(noise: float) -> float:
            return worst_case(with_noise(noise), queries, delta, **setting)[0].epsilon

        return searches.edge(cost, epsilon, *_range(kind, solved), guess=guess, **search)

    try:
        if setting["release"]:
            guess = None  # continuous noise needs nearly the same, and its bounds take a tenth of the time
            with suppress(PatebenchError):
                guess = edge({**setting, "release": False})
            value = edge(setting, guess=guess, near=_NEAR)
        else:
            value = edge(setting)
    except PatebenchError as fault:
        raise PatebenchError(f"no {solved} of '{name}' can be found for {plural(queries, 'query')}: {fault}") from None
    return _found(with_noise(value), name, epsilon, delta, queries, solved, setting)


def _left_out(name: str, kind: type[Mechanism], given: dict[str, float], queries: int) -> str:
    """The one parameter that is not given, which is the noise to find."""
    missing = [each for each in kind.parameter_names() if each not in given]
    if len(missing) == 1:
        return missing[0]
    found = f"{', '.join(missing)} are missing" if missing else "none is missing"
    raise PatebenchError(
        f"to find noise for {plural(queries, 'query')}, leave out exactly one parameter of '{name}' "
        f"({', '.join(kind.parameter_names())}), and {found}; or leave out the queries to find their number"
    )


def _range(kind: type[Mechanism], parameter: str) -> tuple[float, float]:
    """Where a parameter is looked for: its own range within that of any noise."""
    (limits,) = (item.metadata for item in fields(kind) if item.name == parameter)
    return max(searches.LEAST, limits["low"]), min(searches.GREATEST, limits["high"])


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
