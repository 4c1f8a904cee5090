"""The stages `patebench answer` and `patebench charge`: a release of those queries that a student asked in rounds.

What was asked, and the student's predictions, follow from earlier answers and public samples. So worst-case bounds hold
as the queries are chosen on the way, those aside whose composition needs queries that are fixed beforehand: these are
left out. Data-dependent ones add up along the queries that were asked, as if they had been fixed: their source says so,
and like all of their kind they may not be published. None is sanitised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.core import seeds
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, write_arrays, write_json
from patebench.core.formats import LABELS, QUERIES
from patebench.mechanisms.base import NO_ANSWER, askable, make, plain
from patebench.mechanisms.stage import BOUNDS, read_votes

_MEND = "pass the files of one folder of rounds, first round first, or run snakemake again"


def answer(
    *,
    votes: Path,
    asked: Path,
    before: Path | None,
    mechanism: str,
    parameters: Mapping[str, float],
    seed: int,
    stream: str,
    out: Path,
) -> None:
    """Release labels for the queries of one round and write them to `out`, after those of the rounds `before`.

    Where the teachers give none, the student's own label is kept if the mechanism's public rule says so. Randomness is
    derived from the seed and the stream: the labels are for experiments.
    """
    rule = make(mechanism, parameters)
    askable(mechanism, rule)
    source, everything = read_votes(votes)
    round_ = Asked.read([asked], source)
    ours = round_.votes(everything)
    given = rule.release(ours, seeds.generator(seed, stream))
    own = np.where(given == NO_ANSWER, rule.own_labels(ours), NO_ANSWER)
    arrays = {"labels": np.maximum(given, own), "queries": round_.positions, "kept": own != NO_ANSWER}
    facts = {"votes": source.digest, "pool": source.meta["pool"], "classes": everything.classes, "mode": "seeded"}
    facts |= {"mechanism": mechanism, "parameters": plain(rule.parameters())}
    rounds = round_.facts()
    if before is not None:
        earlier = _before(before, asked, {name: facts[name] for name in ("votes", "mechanism", "parameters")})
        arrays = {name: np.concatenate([earlier[name], array]) for name, array in arrays.items()}
        rounds = {name: earlier.meta[name] + entries for name, entries in rounds.items()}
        _check_distinct(arrays["queries"], asked)
    write_arrays(out, LABELS, arrays, {**facts, **rounds})


def charge(
    *,
    votes: Path,
    asked: Sequence[Path],
    mechanism: str,
    parameters: Mapping[str, float],
    queries: int,
    delta: float,
    out: Path,
) -> None:
    """Bound the cost of all queries of these rounds, `queries` in number, by every theorem of the mechanism."""
    rule = make(mechanism, parameters)
    askable(mechanism, rule)
    source, everything = read_votes(votes)
    rounds = Asked.read(asked, source)
    if len(rounds.positions) != queries:
        raise ArtefactError(asked[-1], f"with the rounds before it asks {len(rounds.positions)} queries, not {queries}")
    bounds = rule.bounds(rounds.votes(everything), [queries], delta, chosen=True)
    payload = {
        "votes": source.digest,
        "mechanism": mechanism,
        "parameters": plain(rule.parameters()),
        "delta": delta,
        "mode": "seeded",
        "queries": [queries],
        **rounds.facts(),
        "bounds": [bound.to_json() for bound in bounds],
    }
    write_json(out, BOUNDS, payload)


@dataclass(frozen=True, eq=False)
class Asked:
    """Queries in the order asked: positions in the pool; strategies, sizes and the digests of the rounds' files."""

    positions: NDArray[np.integer]
    predictions: NDArray[np.floating] | None
    strategies: list[str]
    sizes: list[int]
    digests: list[str]

    @classmethod
    def read(cls, paths: Sequence[Path], source: Artefact) -> "Asked":
        """The QUERIES of one round or several in turn, of the pool of these VOTES."""
        rounds = [_read(path, source) for path in paths]
        positions = np.concatenate([each["queries"] for each in rounds])
        _check_distinct(positions, paths[-1])
        return cls(
            positions=positions,
            predictions=_predictions(rounds, source.meta["classes"]),
            strategies=[each.meta["strategy"] for each in rounds],
            sizes=[len(each["queries"]) for each in rounds],
            digests=[each.digest for each in rounds],
        )

    def votes(self, votes: Votes) -> Votes:
        """The votes on these queries, beside what the student thought of them."""
        return votes.at(self.positions).asked_by(self.predictions)

    def facts(self) -> dict[str, Any]:
        return {"strategies": self.strategies, "sizes": self.sizes, "asked": self.digests}


def _before(path: Path, asked: Path, facts: Mapping[str, Any]) -> Artefact:
    """The labels of the rounds before the one that asks `asked`; of the same release, and what it was asked after."""
    earlier = read_arrays(path, LABELS)
    if read_arrays(asked, QUERIES).meta["before"] != earlier.digest:
        raise ArtefactError(asked, f"it was not asked after {path}", _MEND)
    for entry, expected in facts.items():
        earlier.require(entry, expected, str(asked))
    return earlier


def _check_distinct(positions: NDArray[np.integer], path: Path) -> None:
    if len(np.unique(positions)) < len(positions):
        raise ArtefactError(path, "it asks again what was asked before", _MEND)


def _read(path: Path, source: Artefact) -> Artefact:
    asked = read_arrays(path, QUERIES)
    asked.require("pool", source.meta["pool"], str(source.path))
    asked.require("classes", source.meta["classes"], str(source.path))
    if asked["queries"].max() >= source["votes"].shape[1]:
        raise ArtefactError(path, f"it asks for a sample that {source.path} has no votes on", _MEND)
    return asked


def _predictions(rounds: Sequence[Artefact], classes: int) -> NDArray[np.floating] | None:
    """Those of all rounds; a round before there was a student thought nothing of any class."""
    if not any("predictions" in each.arrays for each in rounds):
        return None
    nothing = [np.zeros((len(each["queries"]), classes), np.float32) for each in rounds]
    return np.concatenate([each.arrays.get("predictions", zero) for each, zero in zip(rounds, nothing, strict=True)])
