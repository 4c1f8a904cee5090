"""The stage `patebench audit`: one mechanism at one setting, audited for all votes of so many teachers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from patebench.audit.verdict import Audit, run_audit
from patebench.core import files, formats, seeds
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import make

AUDIT = "audit"


def audit(
    mechanism: str,
    parameters: Mapping[str, float],
    teachers: int,
    classes: int,
    queries: Sequence[int],
    delta: float,
    runs: int,
    confidence: float,
    seed: int,
    stream: str,
) -> Audit:
    """Audit a mechanism; what is drawn is derived from the seed and the stream.

    Raises PatebenchError for a mechanism, parameter, δ or confidence that will not do.
    """
    made = make(mechanism, parameters)
    for name, value in (("δ", delta), ("the confidence", confidence)):
        if not 0 < value < 1:
            raise PatebenchError(f"{name} = {value} is not in (0, 1)")

    def streams(name: str) -> np.random.Generator:
        return seeds.generator(seed, stream, name)

    return run_audit(mechanism, made, teachers, classes, queries, delta, runs, confidence, streams)


def write(audited: Audit, dataset: str, out: Path | str) -> None:
    """Write the audit as a JSON artefact; `dataset` is the one whose classes were meant, if any."""
    files.write_json(out, AUDIT, {"dataset": dataset, **audited.to_json()})


def task(samples: Path | str) -> tuple[str, int]:
    """Which data set these samples are of, and how many classes it has."""
    facts = files.read_facts(samples, formats.SAMPLES)
    return str(facts["dataset"]), int(facts["classes"])
