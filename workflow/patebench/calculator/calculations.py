"""Compute the ε of labels, and the noise or the number of queries that a budget (ε, δ) allows.

`patebench epsilon`, `patebench calibrate` and the Python interface use this module. A budget is compared with
worst-case bounds only, so neither the noise nor the number of queries depends on votes. If the argument `release` is
True, bounds are valid for the discrete noise of a release, otherwise for continuous noise.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from patebench.accounting import searches
from patebench.accounting.accountant import check_queries, valid_for_adaptive_queries, valid_for_discrete_noise
from patebench.accounting.sanitised import SanitisingNoise
from patebench.accounting.votes import Votes, WeightedVotes
from patebench.core.bound import Bound, Kind, check_delta, large_delta
from patebench.core.errors import PatebenchError
from patebench.core.text import at_most, plural
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import Mechanism, check_covers, check_releasable, json_parameters, make_mechanism

#: Largest number of queries that the search considers.
MOST_QUERIES = 1_000_000

#: Relative tolerance of the search for discrete noise, where each step takes seconds.
_NEAR = 1e-7


@dataclass(frozen=True)
class Calibration:
    """Result of `solve`: a mechanism and a number of queries whose worst-case ε at `delta` is at most `target`.

    Parameters
    ----------
    mechanism, parameters : name and parameters of the mechanism
    delta, target : the budget: δ, and the largest allowed ε
    queries : number of queries
    solved : name of the computed value: "queries" or a noise parameter
    bounds : all worst-case bounds on ε, smallest first
    classes, teachers : numbers of classes and teachers, if given
    release : True if `bounds` are valid for discrete noise, False for continuous noise
    released : bound on the ε to publish with released labels: the smallest worst-case bound that is valid for discrete
        noise. None if the mechanism has no discrete form, or if δ is not below 1/`teachers`
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
        """Return the result as a dictionary for strict JSON.

        The entries `epsilon` and `accountant` state the smallest bound.
        """
        return {
            "mechanism": self.mechanism,
            "parameters": json_parameters(self.parameters),
            "delta": self.delta,
            "target": self.target,
            "queries": self.queries,
            "classes": self.classes,
            "solved": self.solved,
            "epsilon": self.bounds[0].epsilon,
            "accountant": self.bounds[0].accountant,
            "bounds": [bound.state_for(self.release).to_json() for bound in self.bounds],
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
    """Find the least noise, or the largest number of queries, with a worst-case ε of at most `epsilon` at `delta`.

    With `queries`, the noise for this number of queries is found. Without `queries`, the number of queries is found for
    the noise in `parameters`.

    Parameters
    ----------
    parameters
        Parameters of the mechanism by name. With `queries`, exactly one must be missing: the noise to find.
    epsilon, delta
        Budget: the largest allowed ε, and the δ at which ε is computed.
    classes, teachers
        Number of classes and of teachers; required by mechanisms whose worst case depends on them.
    release
        Use the bounds for the discrete noise of a release instead of those for continuous noise.

    Raises
    ------
    PatebenchError
        If no noise or number of queries has an ε of at most `epsilon`, or if `release` is set and the mechanism has
        no discrete form.
    """
    if queries is None:
        names = set(MECHANISMS.load(mechanism).parameter_names())
        if set(parameters) < names and len(missing := names - set(parameters)) == 1:
            raise PatebenchError(
                f"the mechanism '{mechanism}' lacks its parameter '{missing.pop()}'; give its value, or give the number"
                " of queries ('queries' or --queries) for which to find it"
            )
        return queries_for(make_mechanism(mechanism, parameters), mechanism, epsilon, delta, classes, teachers, release)
    _check(epsilon, delta)
    kind: type[Mechanism] = MECHANISMS.load(mechanism)
    if release:
        check_releasable(mechanism, kind)
    solved = _missing_parameter(mechanism, kind, parameters)

    (limits,) = (item.metadata for item in fields(kind) if item.name == solved)
    if limits["whole"]:
        raise PatebenchError(
            f"the parameter '{solved}' of '{mechanism}' is a whole number, and only noise can be found; give its value,"
            " and leave out another parameter"
        )
    ends = max(searches.LEAST, limits["low"]), min(searches.GREATEST, limits["high"])

    def with_noise(value: float) -> Mechanism:
        return make_mechanism(mechanism, {**parameters, solved: value})

    def edge(release: bool, guess: float | None = None, **search: float) -> float:
        def cost(noise: float) -> float:
            return worst_case(with_noise(noise), queries, delta, classes, teachers, release)[0].epsilon

        return searches.edge(cost, epsilon, *ends, guess=guess, **search)

    try:
        if release:
            guess = None  # continuous noise needs nearly the same scale, and its bounds take a tenth of the time
            with suppress(PatebenchError):
                guess = edge(release=False)
            value = edge(release=True, guess=guess, near=_NEAR)
        else:
            value = edge(release=False)
    except PatebenchError as fault:
        line = f"no {solved} of '{mechanism}' can be found for {plural(queries, 'query')}: {fault}"
        raise PatebenchError(line) from None
    return _calibration(with_noise(value), mechanism, epsilon, delta, queries, solved, classes, teachers, release)


def queries_for(
    mechanism: Mechanism,
    name: str,
    epsilon: float,
    delta: float,
    classes: int | None = None,
    teachers: int | None = None,
    release: bool = False,
) -> Calibration:
    """Find the largest number of queries to `mechanism` with a worst-case ε of at most `epsilon` at `delta`.

    `name` is the name of the mechanism in messages and in the result. For the remaining parameters, see `solve`.
    """
    _check(epsilon, delta)
    if release:
        check_releasable(name, type(mechanism))

    def cost(queries: int) -> float:
        return worst_case(mechanism, queries, delta, classes, teachers, release)[0].epsilon

    queries = searches.most(cost, epsilon, MOST_QUERIES)
    if queries == 0:
        raise PatebenchError(
            f"a single query already costs ε = {at_most(cost(1))}, above the target ε = {epsilon:g}; use more noise, or"
            " raise the target"
        )
    return _calibration(mechanism, name, epsilon, delta, queries, "queries", classes, teachers, release)


def worst_case(
    mechanism: Mechanism,
    queries: int,
    delta: float,
    classes: int | None = None,
    teachers: int | None = None,
    release: bool = False,
    adaptive: bool = False,
    weighted: bool = False,
) -> list[Bound]:
    """Return the worst-case bounds on the ε of the labels of `queries` queries at `delta`, smallest first.

    Parameters
    ----------
    classes, teachers : numbers of classes and teachers; required by mechanisms whose worst case depends on them
    release : return only bounds that are valid for discrete noise
    adaptive : return only bounds that are valid if queries depend on earlier answers
    weighted : return the bounds for votes with weights, which also need `classes`

    Raises
    ------
    PatebenchError
        If a required number is None, or if the mechanism has no worst-case bound, or none for votes with weights.
    """
    kind = type(mechanism).__name__
    if classes is None and (weighted or "classes" in mechanism.cost_needs):
        raise PatebenchError(f"the cost of {kind} depends on the number of classes; add --classes")
    if teachers is None and "teachers" in mechanism.cost_needs:
        raise PatebenchError(f"the cost of {kind} depends on the number of teachers; add --teachers")
    if weighted:
        check_covers(mechanism, abstentions=True, weights=True, labels_only=False)
        none = np.zeros(0, dtype=np.int64)
        rows = WeightedVotes(np.zeros((0, queries), dtype=np.int64), none, none)
        any_votes = Votes.from_weights(rows, teachers or 1, classes or 2)
    else:
        any_votes = Votes.from_counts((teachers or 1) * np.eye(1, classes or 2, dtype=np.int64))
    accountants = mechanism.accountants(any_votes)
    if adaptive:
        accountants = valid_for_adaptive_queries(accountants)
    bounds = [
        bound
        for accountant in (valid_for_discrete_noise(accountants) if release else accountants)
        if accountant.kind is Kind.WORST_CASE
        for bound in accountant.bounds_of_both([queries], delta)
    ]
    if not bounds:
        raise PatebenchError(f"{kind} has no worst-case bound on ε to compare with a target; choose another mechanism")
    return sorted(bounds, key=lambda bound: bound.epsilon)


def _check(epsilon: float, delta: float) -> None:
    if not 0 < epsilon < math.inf:
        raise PatebenchError(f"the target ε = {epsilon} is invalid; choose a positive, finite ε")
    check_delta(delta)


def _calibration(
    mechanism: Mechanism,
    name: str,
    epsilon: float,
    delta: float,
    queries: int,
    solved: str,
    classes: int | None,
    teachers: int | None,
    release: bool,
) -> Calibration:
    bounds, released = worst_case(mechanism, queries, delta, classes, teachers, release), None
    if mechanism.discrete and (teachers is None or not large_delta(delta, teachers)):
        released = worst_case(mechanism, queries, delta, classes, teachers, release=True)[0]
    return Calibration(
        name, mechanism.parameters(), delta, epsilon, queries, solved, bounds, classes, teachers, release, released
    )


def _missing_parameter(name: str, kind: type[Mechanism], parameters: Mapping[str, float]) -> str:
    """Return the name of the one parameter of the mechanism that `parameters` lacks.

    Raises PatebenchError if no parameter or several parameters are missing.
    """
    missing = [parameter for parameter in kind.parameter_names() if parameter not in parameters]
    if len(missing) == 1:
        return missing[0]
    names = ", ".join(kind.parameter_names())
    if missing:
        raise PatebenchError(
            f"'{name}' needs the parameters {names}, but {', '.join(missing)} are missing, and only one can be found;"
            " leave out exactly one"
        )
    raise PatebenchError(
        f"all parameters of '{name}' ({names}) and the number of queries are given, so nothing is left to find; leave"
        " out one of them"
    )


@dataclass(frozen=True)
class Account:
    """Result of `epsilon`: bounds on the ε at `delta` for the labels of the first `queries` queries to a mechanism.

    Parameters
    ----------
    mechanism, parameters : name and parameters of the mechanism
    bounds : bounds on the ε
    release : True if `bounds` are valid for discrete noise, False for continuous noise
    released : bound on the ε to publish with released labels: the smallest worst-case bound that is valid for discrete
        noise. None if there is no such bound, if δ is not below 1/`teachers`, or if ε protects only the label of a
        record
    teachers : number of teachers
    unreleasable : reason why labels of the queries must not be released; None if they may be released
    """

    mechanism: str
    parameters: Mapping[str, float]
    delta: float
    queries: int
    bounds: Sequence[Bound]
    release: bool
    released: Bound | None
    teachers: int
    unreleasable: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the account as a dictionary for strict JSON, in which infinity is the string "inf"."""
        return {
            "mechanism": self.mechanism,
            "parameters": json_parameters(self.parameters),
            "delta": self.delta,
            "queries": self.queries,
            "bounds": [bound.state_for(self.release).to_json() for bound in self.bounds],
            "release": self.release,
            "released": None if self.unreleasable or not self.released else self.released.to_json(),
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
    """Compute bounds on ε at `delta` for the labels that a mechanism releases for `votes`.

    Parameters
    ----------
    votes, mechanism, parameters
        Votes of the teachers, name of the mechanism, and its parameters by name.
    queries
        Number of queries, counted from the first one. Default: all queries in `votes`.
    noise
        Noise for sanitised bounds, which are data-dependent bounds plus noise. If `noise` is given, the result contains
        sanitised bounds as well. Every call draws new noise, and publishing its bounds costs privacy each time. Not
        allowed with `release`.
    release
        Return the bounds for labels drawn with discrete noise instead of continuous noise.
    publishable
        Return only bounds that may be published (True), only bounds that must not be published (False), or all (None).

    Raises
    ------
    PatebenchError
        For an invalid mechanism, parameter or number of queries, or if `release` is set and the mechanism has no
        discrete form.
    """
    checked = make_mechanism(mechanism, parameters)
    if release:
        check_releasable(mechanism, type(checked))
        if noise is not None:
            raise PatebenchError(
                "noise=… adds sanitised bounds, which do not cover the discrete noise of release=True; leave one of"
                " them out"
            )
    (count,) = check_queries([queries or votes.queries], votes.queries)
    votes = votes.first(count)
    bounds = checked.bounds(votes, [count], delta, noise, discrete=release, publishable=publishable)
    release_bound = None
    if checked.discrete and not votes.labels_only and not large_delta(delta, votes.teachers):
        stated = checked.bounds(votes, [count], delta, discrete=True, publishable=True)
        release_bound = min(stated, key=lambda bound: bound.epsilon, default=None)
    return Account(mechanism, checked.parameters(), delta, count, bounds, release, release_bound, votes.teachers)
