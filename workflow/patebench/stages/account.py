"""The stage `account`: what a label set costs, by every theorem of its mechanism."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patebench.accounting.accountant import check_queries
from patebench.accounting.sanitised_accountant import seeded as seeded_noise
from patebench.accounting.votes import Votes
from patebench.core.bound import Bound
from patebench.core.curve import curves
from patebench.core.entropy import Draws
from patebench.core.errors import ArtefactError
from patebench.core.files import write_json
from patebench.core.seeds import Mode
from patebench.mechanisms.base import Mechanism, check_adaptive, check_budget, plain
from patebench.mechanisms.budget import budget_bounds
from patebench.plan.parameters import AccountParameters
from patebench.stages.command import file_option, mechanism, parameter_options, seeded_or_release, stage_command
from patebench.stages.reading import Selected, read_votes
from patebench.stages.releases import drawn_mechanism, origin, refuse_budget_and_release


def run(
    *,
    votes: Path,
    mechanism: str,
    parameters: Mapping[str, float],
    accounting: AccountParameters,
    out: Path,
    seed: int | None = None,
    stream: str | None = None,
    release: bool = False,
    selected: Sequence[Path] = (),
) -> None:
    """State every bound on ε that a label set has.

    The cost of the first T queries is bounded for each T, and that of many others is kept beside as curves, for
    figures. Sanitised bounds have no curves, since every draw is a release; their noise is derived from the seed and
    the stream: reproducible, hence for experiments only. For a release only those bounds are stated that hold for
    discrete noise.

    Of queries that rounds selected, the cost of all together is stated. Worst-case bounds hold as queries are selected
    on the way, but for those whose composition needs queries that are fixed beforehand: these are left out.
    Data-dependent ones add up along the queries that were put, as if they had been fixed: their source says so. None is
    sanitised.
    """
    made, draws = drawn_mechanism(mechanism, parameters, release, seed, stream)
    source, everything = read_votes(votes)
    payload: dict[str, Any] = {
        "votes": origin(source, draws.mode),
        "mechanism": mechanism,
        "parameters": plain(made.parameters()),
        "delta": accounting.delta,
        "mode": str(draws.mode),
        "queries": sorted(accounting.queries),
    }
    if selected:
        check_adaptive(mechanism, made)
        refuse_budget_and_release(accounting.budget, draws.mode)
        rounds = Selected.read(selected, source)
        total = len(rounds.positions)
        if accounting.queries != (total,):
            wanted = ", ".join(map(str, accounting.queries))
            raise ArtefactError(selected[-1], f"with the rounds before it selects {total} queries, not {wanted}")
        bounds = made.bounds(rounds.votes(everything), [total], accounting.delta, adaptive=True)
        stated: dict[str, Any] = {"bounds": [bound.to_json() for bound in bounds], "curves": [], "teacher_costs": []}
        payload |= rounds.facts()
    else:
        stated = _whole_pool(mechanism, made, everything, accounting, draws)
        payload |= {"rounds": [], "queries_files": []}
    write_json(out, "account", {**payload, **stated})


def _whole_pool(
    name: str, made: Mechanism, votes: Votes, accounting: AccountParameters, draws: Draws
) -> dict[str, Any]:
    """Bounds at the numbers of queries wanted, curves through many more, and what single teachers pay."""
    wanted, along = sorted(accounting.queries), spaced(votes.queries)
    noise = None if draws.seed is None else seeded_noise(draws.seed, str(draws.stream))
    discrete = draws.mode is Mode.RELEASE
    bounds: list[Bound] = made.bounds(votes, accounting.queries, accounting.delta, noise, along, discrete=discrete)
    if accounting.budget is not None:
        check_budget(name, made, votes.teachers, votes.classes)
        every = check_queries([*accounting.queries, *along], votes.queries)
        bounds += budget_bounds(accounting.budget, every, accounting.delta)
    return {
        "bounds": [bound.to_json() for bound in bounds if bound.queries in wanted],
        "curves": [curve for curve in curves(bounds) if set(along) <= set(curve["queries"])],
        "teacher_costs": [each.to_json() for each in made.teacher_costs(votes, wanted, accounting.delta)],
    }


def spaced(queries: int, most: int = 40) -> list[int]:
    """Numbers of queries from 1 to all, evenly spaced in their logarithms but for rounding; fewer for small pools."""
    return sorted({round(T) for T in np.geomspace(1, queries, min(most, 2 + queries // 20))})


command = stage_command(
    run,
    file_option("votes", "The ensemble's votes."),
    file_option(
        "selected",
        "The queries of each round, in order; without, the whole pool was labelled.",
        needed=False,
        several=True,
    ),
    mechanism,
    parameter_options(AccountParameters, "accounting"),
    seeded_or_release,
    file_option("out", "Where the bounds go."),
)
