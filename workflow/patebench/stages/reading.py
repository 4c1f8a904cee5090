"""Artefacts that several stages read, with the checks that they belong together."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays
from patebench.core.formats import PARTITION, QUERIES, SAMPLES, VOTES
from patebench.core.seeds import Mode
from patebench.data.partitions import check_disjoint

_MEND = "pass the files of one sequence of rounds, first round first, or run snakemake again"


def read_samples(path: Path, role: str) -> Artefact:
    """Samples of the given role; ArtefactError when the file holds those of another."""
    samples = read_arrays(path, SAMPLES)
    if samples.meta["role"] != role:
        raise ArtefactError(
            path, f"it holds the {samples.meta['role']} samples where the {role} ones are needed", "give the right file"
        )
    return samples


def read_partition(path: Path, private: Artefact) -> Artefact:
    """A partition of exactly these private samples, with disjoint shards; ArtefactError otherwise."""
    shards = read_arrays(path, PARTITION)
    shards.require("private", private.digest, str(private.path))
    shards.require("teachers", len(shards["offsets"]) - 1, "its own offsets")
    try:
        check_disjoint(shards["indices"], shards["offsets"], len(private["y"]))
    except PatebenchError as fault:
        raise ArtefactError(path, str(fault)) from None
    return shards


def read_votes(path: Path | str) -> tuple[Artefact, Votes]:
    """The votes artefact and its votes on the pool."""
    source = read_arrays(path, VOTES)
    return source, Votes.of(source["votes"], int(source.meta["classes"]))


def origin(votes: Artefact, mode: Mode) -> str | None:
    """The digest of the votes; none for a release, since whoever guesses the votes could tell that the guess is right.

    With all votes but one teacher's known, a digest gives that teacher's away.
    """
    return votes.digest if mode is Mode.SEEDED else None


def refuse_second_release(out: Path | str, mode: Mode) -> None:
    """Refuse a second release in the place of a first: it would cost as much again."""
    if mode is Mode.RELEASE and Path(out).exists():
        raise ArtefactError(
            out,
            "it is a release already, and drawing another one spends as much privacy again",
            "hand out this one, or remove it first, write-protected as it is, and count both",
        )


def refuse_budget_and_release(budget: float | None, mode: Mode) -> None:
    """Refuse what queries that rounds selected do not have."""
    if budget is not None or mode is Mode.RELEASE:
        raise PatebenchError("queries that a round selected have neither a budget nor a release; leave them out")


@dataclass(frozen=True, eq=False)
class Selected:
    """Queries that rounds selected, in that order: positions in the pool, what the student predicted, and facts.

    `rounds` says of each round its strategy, for which student and how many queries it selected; `digests` are those of
    the files.
    """

    positions: NDArray[np.integer]
    predictions: NDArray[np.floating] | None
    rounds: list[dict[str, Any]]
    digests: list[str]

    @classmethod
    def read(cls, paths: Sequence[Path], votes: Artefact) -> "Selected":
        """The QUERIES of one round or several in turn, of the pool of these VOTES."""
        rounds = [_read_queries(path, votes) for path in paths]
        positions = np.concatenate([each["queries"] for each in rounds])
        check_distinct(positions, paths[-1])
        return cls(
            positions=positions,
            predictions=_predictions(rounds, votes.meta["classes"]),
            rounds=[_round(each) for each in rounds],
            digests=[each.digest for each in rounds],
        )

    def votes(self, votes: Votes) -> Votes:
        """The votes on these queries, beside what the student predicted for them."""
        return votes.at(self.positions).with_predictions(self.predictions)


def check_distinct(positions: NDArray[np.integer], path: Path) -> None:
    """Refuse a query that was put before."""
    if len(np.unique(positions)) < len(positions):
        raise ArtefactError(path, "it selects again what was selected before", _MEND)


def _round(queries: Artefact) -> dict[str, Any]:
    facts = {name: queries.meta[name] for name in ("strategy", "student")}
    return {**facts, "queries": len(queries["queries"])}


def _read_queries(path: Path, votes: Artefact) -> Artefact:
    queries = read_arrays(path, QUERIES)
    queries.require("pool", votes.meta["pool"], str(votes.path))
    queries.require("classes", votes.meta["classes"], str(votes.path))
    if queries["queries"].max() >= votes["votes"].shape[1]:
        raise ArtefactError(path, f"it selects a sample that {votes.path} has no votes on", _MEND)
    return queries


def _predictions(rounds: Sequence[Artefact], classes: int) -> NDArray[np.floating] | None:
    """Those of all rounds; a round before there was a student has nothing but zeros."""
    if not any("predictions" in each.arrays for each in rounds):
        return None
    nothing = [np.zeros((len(each["queries"]), classes), np.float32) for each in rounds]
    return np.concatenate([each.arrays.get("predictions", zero) for each, zero in zip(rounds, nothing, strict=True)])
