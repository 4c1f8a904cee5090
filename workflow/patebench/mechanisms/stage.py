"""The stages `patebench aggregate` and `patebench account`: votes in, released labels or bound records out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patebench.accounting.accountant import DirectAccountant, check_queries
from patebench.accounting.filter import Costs, RenyiFilter, queries_within
from patebench.accounting.sanitised_accountant import seeded
from patebench.accounting.votes import Votes
from patebench.core import files, formats
from patebench.core.bound import Bound, Kind
from patebench.core.curve import curves
from patebench.core.entropy import Draws
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact
from patebench.core.seeds import Mode
from patebench.mechanisms.base import NO_ANSWER, Labels, Mechanism, budgeted, make, plain, releasable

BOUNDS = "bounds"


def aggregate(
    votes_path: Path | str,
    mechanism_name: str,
    parameters: Mapping[str, float],
    seed: int | None,
    stream: str | None,
    out: Path | str,
    *,
    release: bool = False,
    budget: float | None = None,
    delta: float | None = None,
) -> None:
    """Release one label per query of the pool and write them as LABELS.

    From seed and stream the labels can be drawn again: they are for experiments. With `release` the noise is discrete
    and the operating system's; that is done once, so nothing is written over. With a `budget` ε at `delta`, queries are
    put in order until the next one might exceed it.
    """
    draws = Draws.of(release, seed, stream)
    mechanism = _mechanism(mechanism_name, parameters, draws)
    once(out, draws.mode)
    source, votes = read_votes(votes_path)
    released = mechanism.released(votes, draws.source())
    kept: dict[str, Any] = {}
    if budget is not None:
        costs = budgeted(mechanism_name, mechanism, votes.teachers)
        released["labels"], asked = within(costs, released["labels"], budget, delta)
        if "reports" in released:
            released["reports"][:, asked:] = NO_ANSWER
        kept = {"budget": {"epsilon": budget, "delta": delta, "asked": asked}}
    meta = {
        "votes": origin(source, draws.mode),
        "pool": source.meta["pool"],
        "classes": votes.classes,
        "mechanism": mechanism_name,
        "parameters": plain(mechanism.parameters()),
        "mode": str(draws.mode),
        **kept,
    }
    files.write_arrays(out, formats.LABELS, released, meta)


def account(
    votes_path: Path | str,
    mechanism_name: str,
    parameters: Mapping[str, float],
    queries: Sequence[int],
    delta: float,
    seed: int | None,
    stream: str | None,
    out: Path | str,
    *,
    release: bool = False,
    budget: float | None = None,
) -> None:
    """Bound the cost of the first T queries, for each T in `queries`, by every theorem of the mechanism.

    The same bounds at many other T are kept beside them as `curves`, for figures; sanitised ones are not, since every
    draw is a release. Their noise is derived from the seed and the stream: reproducible, hence for experiments only.
    What single teachers pay, where they differ, goes into the file as `entities`.
    For a `release` only those bounds are stated that hold for discrete noise.
    """
    draws = Draws.of(release, seed, stream)
    mechanism = _mechanism(mechanism_name, parameters, draws)
    source, votes = read_votes(votes_path)
    wanted, along = set(queries), spaced(votes.queries)
    noise = None if draws.seed is None else seeded(draws.seed, str(draws.stream))
    bounds = mechanism.bounds(votes, queries, delta, noise, along, discrete=release)
    if budget is not None:
        budgeted(mechanism_name, mechanism, votes.teachers)
        bounds += kept_bounds(budget, check_queries([*queries, *along], votes.queries), delta)
    payload = {
        "votes": origin(source, draws.mode),
        "mechanism": mechanism_name,
        "parameters": plain(mechanism.parameters()),
        "delta": delta,
        "mode": str(draws.mode),
        "queries": sorted(wanted),
        "bounds": [bound.to_json() for bound in bounds if bound.queries in wanted],
        "curves": [curve for curve in curves(bounds) if set(along) <= set(curve["queries"])],
        "entities": [each.to_json() for each in mechanism.entities(votes, sorted(wanted), delta)],
    }
    files.write_json(out, BOUNDS, payload)


def spaced(queries: int, most: int = 40) -> list[int]:
    """Numbers of queries from 1 to all, evenly spaced in their logarithms but for rounding; fewer for small pools."""
    return sorted({round(T) for T in np.geomspace(1, queries, min(most, 2 + queries // 20))})


def read_votes(path: Path | str) -> tuple[Artefact, Votes]:
    """The votes artefact and its votes on the pool."""
    source = files.read_arrays(path, formats.VOTES)
    return source, Votes.of(source["votes"], int(source.meta["classes"]))


def origin(votes: Artefact, mode: Mode) -> str | None:
    """The digest of the votes; none for a release, since whoever guesses the votes could tell that the guess is right.

    With all votes but one teacher's known, a digest gives that teacher's away.
    """
    return votes.digest if mode is Mode.SEEDED else None


def once(out: Path | str, mode: Mode) -> None:
    """Refuse a second release in the place of a first: it would cost as much again."""
    if mode is Mode.RELEASE and Path(out).exists():
        raise ArtefactError(
            out,
            "it is a release already, and drawing another one spends as much privacy again",
            "hand out this one, or remove it first, write-protected as it is, and count both",
        )


def within(costs: Costs, labels: Labels, epsilon: float, delta: float | None) -> tuple[Labels, int]:
    """The labels that a budget allows, the rest without answer, and how many queries were put.

    Queries are drawn independently, so leaving the last ones out is the same as never having put them.
    """
    if delta is None:
        raise PatebenchError("a budget is an ε at a δ; give --delta with --budget")
    keeper = RenyiFilter.for_steps(costs.both, epsilon=epsilon, delta=delta)
    asked = queries_within(keeper, labels != NO_ANSWER, costs)
    if asked == 0:
        raise PatebenchError(
            f"a budget of ε = {epsilon:g} at δ = {delta:g} does not admit one query; "
            "give a larger one, or use more noise"
        )
    kept = labels.copy()
    kept[asked:] = NO_ANSWER
    return kept, asked


def kept_bounds(epsilon: float, queries: Sequence[int], delta: float) -> list[Bound]:
    """What the filter promises: no more than the budget, however many of the queries it admitted."""
    promise = DirectAccountant(
        name="rdp-filter",
        kind=Kind.WORST_CASE,
        source="Feldman & Zrnic 2021, section 3; Lécuyer 2021: the budget that the release was stopped at",
        epsilon=lambda T, delta: epsilon,
    )
    return promise.bounds(queries, delta)


def _mechanism(name: str, parameters: Mapping[str, float], draws: Draws) -> Mechanism:
    mechanism = make(name, parameters)
    if draws.mode is Mode.RELEASE:
        releasable(name, type(mechanism))
    return mechanism
