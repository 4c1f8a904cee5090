"""The stage `patebench ask`: which samples a student asks its teachers for in one round; and `patebench features`, by
which it can choose.

They read public files alone: the pool, the labels released so far, and what the student made of them.
"""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import BELIEFS, FEATURES, LABELS, POOL, QUERIES
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.students import contrast
from patebench.students.lesson import Approach, Lesson
from patebench.students.stage import asked_of, lesson_of
from patebench.students.strategies import FEATURED, INITIAL, STRATEGIES, initial
from patebench.students.strategies.situation import Situation

log = logging.getLogger("patebench")


def ask(
    *,
    pool: Path,
    labels: Path | None,
    beliefs: Path | None,
    features: Path | None = None,
    strategy: str,
    queries: int,
    approach: Approach,
    seed: int,
    stream: str,
    out: Path,
) -> None:
    """Write the positions of `queries` samples of the pool, chosen by `strategy`, as QUERIES to `out`.

    `labels` and `beliefs` are those of the round before; without them it is the first round. `features` are of the
    pool, for strategies that choose by them.
    """
    STRATEGIES.check(strategy)
    if (labels is None) != (beliefs is None):
        raise PatebenchError("labels and beliefs of the round before go together; give both, or none in the first one")
    if labels is None and strategy != initial(strategy):
        raise PatebenchError(
            f"{strategy} chooses by what was learnt, and nothing was yet; let the first round be {' or '.join(INITIAL)}"
        )
    if (features is None) == (strategy in FEATURED):
        needed = "give them, as `patebench features` makes them" if features is None else "give none"
        raise PatebenchError(f"{', '.join(FEATURED)} choose by features of the pool, no others do; {needed}")
    samples = read_arrays(pool, POOL)
    situation, before = _situation(samples, labels, beliefs, approach)
    if features:
        described = read_arrays(features, FEATURES)
        described.require("pool", samples.digest, str(pool))
        situation = replace(situation, features=described["vectors"])
    if queries > len(situation.unasked):
        raise PatebenchError(
            f"{queries} queries are asked for, and {len(situation.unasked)} of {pool} were not asked yet"
        )
    chosen = STRATEGIES.load(strategy)(situation, queries, derive(seed, stream))
    if len(np.unique(chosen)) != queries or not np.isin(chosen, situation.unasked).all():
        raise PatebenchError(f"the strategy '{strategy}' did not choose {queries} different samples that are open")
    log.info("%s: %d queries after %d", strategy, queries, len(situation.asked))
    arrays = {"queries": chosen}
    if situation.predictions is not None:
        arrays["predictions"] = situation.predictions[chosen]
    facts = {"pool": samples.digest, "classes": situation.lesson.classes}
    write_arrays(out, QUERIES, arrays, {**facts, "strategy": strategy, "before": before})


def describe(*, pool: Path, seed: int, stream: str, out: Path) -> None:
    """Write features of the samples of `pool` as FEATURES to `out`."""
    samples = read_arrays(pool, POOL)
    with torch.random.fork_rng(devices=[]), progress(f"features of {len(samples['x'])} samples", None, "steps") as done:
        torch.manual_seed(derive(seed, stream))
        vectors = contrast.features(samples["x"], done)
    write_arrays(out, FEATURES, {"vectors": vectors}, {"pool": samples.digest})


def _situation(
    samples: Artefact, labels: Path | None, beliefs: Path | None, approach: Approach
) -> tuple[Situation, str | None]:
    """What is known before this round, and the digest of the labels of the round before."""
    if labels is None or beliefs is None:
        nothing = np.full(len(samples["x"]), -1, np.int64)
        lesson = Lesson(pool=samples["x"], labels=nothing, classes=samples.meta["classes"])
        return Situation(lesson=lesson, asked=np.array([], np.intp), predictions=None, approach=approach), None
    released, thoughts = read_arrays(labels, LABELS), read_arrays(beliefs, BELIEFS)
    thoughts.require("pool", samples.digest, str(samples.path))
    thoughts.require("labels", released.digest, str(labels))
    lesson = lesson_of(samples, released, len(released["labels"]))
    asked, predictions = asked_of(released, samples), thoughts["probabilities"]
    return Situation(lesson=lesson, asked=asked, predictions=predictions, approach=approach), released.digest
