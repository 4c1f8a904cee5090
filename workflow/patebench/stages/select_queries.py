"""Stage `select_queries`: select the pool samples that the ensemble labels, in a round or before any vote.

The stage reads only public files: the pool, its features, the labels released so far, and the student's predictions.
"""

import logging
from pathlib import Path
from typing import Annotated

import numpy as np

from patebench.artefacts.reading import check_together, query_positions
from patebench.cli.command import OutputFile, stage_command, threads
from patebench.config.parameters import SelectionParameters, StudentParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, write_arrays
from patebench.core.formats import FEATURES, LABELS, POOL, PREDICTIONS, QUERIES
from patebench.core.seeds import derive
from patebench.core.text import plural
from patebench.students import STRATEGIES, initial_strategy, selects_by_features
from patebench.students.interface import AcquisitionState, StudentData

log = logging.getLogger("patebench")


def run(
    *,
    pool: Annotated[Path, "Public pool."],
    labels: Annotated[Path | None, "Labels of earlier rounds, from the second round on."],
    predictions: Annotated[Path | None, "Predictions of the student trained on --labels."],
    features: Annotated[Path | None, "Features of the pool, for strategies that use them."],
    selection: SelectionParameters,
    student: StudentParameters | None,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the queries."],
) -> None:
    """Select the queries of one round: positions of pool samples that were not selected before.

    In the first round, leave out --labels and --predictions. To select all queries before the teachers vote, without
    further rounds, also leave out the options of the student, such as --method.
    """
    from patebench.artefacts.student_data import student_data

    strategy = selection.strategy
    if (labels is None) != (predictions is None):
        raise PatebenchError(
            "only one of --labels and --predictions is given; in the first round give neither, in a later round give"
            " both from the previous round"
        )
    if labels is not None and student is None:
        raise PatebenchError(
            "--labels needs --method; give the method with which the student was trained on these labels"
        )
    if labels is None and strategy != initial_strategy(strategy):
        able = " or ".join(name for name in STRATEGIES if name == initial_strategy(name))
        raise PatebenchError(
            f"the strategy '{strategy}' needs a student of an earlier round, but --labels is missing; give --labels and"
            f" --predictions of that round, or in the first round use the strategy {able}"
        )
    if (features is not None) != selects_by_features(strategy):
        able = ", ".join(name for name in STRATEGIES if selects_by_features(name))
        if features is None:
            line = f"the strategy '{strategy}' needs --features of the pool; make them by `patebench extract_features`"
        else:
            line = f"the strategy '{strategy}' uses no features (only {able} use them); leave --features out"
        raise PatebenchError(line)
    samples = read_arrays(pool, POOL)
    released = read_arrays(labels, LABELS) if labels else None
    predicted = read_arrays(predictions, PREDICTIONS) if predictions else None
    extracted = read_arrays(features, FEATURES) if features else None
    check_together(pool=samples, labels=released, predictions=predicted, features=extracted)
    if released:
        data = student_data(samples, released, len(released["labels"]), extracted)
        queried = query_positions(released, len(samples["x"]), samples.path)
    else:
        nothing = np.full(len(samples["x"]), -1, np.int64)
        data = StudentData(pool=samples["x"], labels=nothing, classes=samples.meta["classes"])
        queried = np.array([], np.intp)
    state = AcquisitionState(
        data=data,
        queried=queried,
        predictions=predicted["probabilities"] if predicted else None,
        config=student,
        features=extracted["vectors"] if extracted else None,
    )
    if selection.queries > len(state.unqueried):
        raise PatebenchError(
            f"--queries is {selection.queries}, but only {plural(len(state.unqueried), 'sample')} of {pool} "
            f"remain unselected; use at most {len(state.unqueried)}"
        )
    chosen = STRATEGIES.load(strategy)(state, selection.queries, derive(seed, stream))
    if len(np.unique(chosen)) != selection.queries or not np.isin(chosen, state.unqueried).all():
        raise PatebenchError(
            f"the strategy '{strategy}' did not return {selection.queries} distinct positions of unselected samples; "
            "correct its code"
        )
    log.info("%s: %d queries after %d", strategy, selection.queries, len(state.queried))
    arrays = {"queries": chosen}
    if state.predictions is not None:
        arrays["predictions"] = state.predictions[chosen]
    parents = {"labels": released, "predictions": predicted, "features": extracted}
    facts = {
        "pool": samples.digest,
        "classes": samples.meta["classes"],
        "strategy": strategy,
        "student": student.model_dump() if student else None,
        **{name: parent.digest if parent else None for name, parent in parents.items()},
    }
    write_arrays(out, QUERIES, arrays, facts)


command = stage_command(run, threads)
