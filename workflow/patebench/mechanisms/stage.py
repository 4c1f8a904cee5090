"""The stages `patebench aggregate` and `patebench account`: votes in, released labels or bound records out."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from patebench.accounting.sanitised_accountant import seeded
from patebench.accounting.votes import Votes
from patebench.core import files, formats, seeds
from patebench.core.curve import curves
from patebench.core.files import Artefact
from patebench.mechanisms.base import make, plain

BOUNDS = "bounds"


def aggregate(
    votes_path: Path | str,
    mechanism_name: str,
    parameters: Mapping[str, float],
    seed: int,
    stream: str,
    out: Path | str,
) -> None:
    """Release one label per query of the pool and write them as LABELS.

    Randomness is derived from the seed and the stream, so the labels can be reproduced: they are for experiments.
    """
    mechanism = make(mechanism_name, parameters)
    source, votes = read_votes(votes_path)
    labels = mechanism.release(votes, seeds.generator(seed, stream))
    meta = {
        "votes": source.digest,
        "pool": source.meta["pool"],
        "classes": votes.classes,
        "mechanism": mechanism_name,
        "parameters": plain(mechanism.parameters()),
        "mode": "seeded",
    }
    files.write_arrays(out, formats.LABELS, {"labels": labels}, meta)


def account(
    votes_path: Path | str,
    mechanism_name: str,
    parameters: Mapping[str, float],
    queries: Sequence[int],
    delta: float,
    seed: int,
    stream: str,
    out: Path | str,
) -> None:
    """Bound the cost of the first T queries, for each T in `queries`, by every theorem of the mechanism.

    The same bounds at many other T are kept beside them as `curves`, for figures; sanitised ones are not, since every
    draw is a release. Their noise is derived from the seed and the stream: reproducible, hence for experiments only.
    What single teachers pay, where they differ, goes into the file as `entities`.
    """
    mechanism = make(mechanism_name, parameters)
    source, votes = read_votes(votes_path)
    wanted, along = set(queries), spaced(votes.queries)
    bounds = mechanism.bounds(votes, queries, delta, seeded(seed, stream), along)
    payload = {
        "votes": source.digest,
        "mechanism": mechanism_name,
        "parameters": plain(mechanism.parameters()),
        "delta": delta,
        "mode": "seeded",
        "queries": sorted(wanted),
        "bounds": [bound.to_json() for bound in bounds if bound.queries in wanted],
        "curves": [curve for curve in curves(bounds) if set(along) <= set(curve["queries"])],
        "entities": [each.to_json() for each in mechanism.entities(votes, sorted(wanted), delta)],
    }
    files.write_json(out, BOUNDS, payload)


def spaced(queries: int, per_decade: int = 10) -> list[int]:
    """Numbers of queries from 1 to all, evenly spaced in their logarithms but for rounding."""
    points = 1 + math.ceil(per_decade * math.log10(queries))
    return sorted({round(T) for T in np.geomspace(1, queries, points)})


def read_votes(path: Path | str) -> tuple[Artefact, Votes]:
    """The votes artefact and its votes on the pool."""
    source = files.read_arrays(path, formats.VOTES)
    return source, Votes.of(source["votes"], int(source.meta["classes"]))
