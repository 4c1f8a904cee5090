"""What a student is told and sees, for the stages that train one or select queries for it."""

from typing import TYPE_CHECKING

import numpy as np

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact
from patebench.plan.parameters import StudentParameters
from patebench.stages.reading import query_positions

if TYPE_CHECKING:
    from patebench.students.interface import StudentConfig, StudentData


def config_of(parameters: StudentParameters) -> "StudentConfig":
    """What a student's method is told."""
    from patebench.students.interface import StudentConfig

    return StudentConfig(**parameters.model_dump(exclude={"hold_out"}))


def student_data(samples: Artefact, released: Artefact, queries: int) -> "StudentData":
    """What a student sees of a POOL and the first `queries` of its LABELS.

    Labels that a released table of noisy counts shows to be more likely wrong than right are left out, unless all are.
    """
    from patebench.students.interface import StudentData
    from patebench.students.report_likelihood import pool_log_likelihood
    from patebench.students.table_likelihood import hidden, log_likelihood

    released.require("pool", samples.digest, str(samples.path))
    given = released["labels"]
    if queries > len(given):
        raise PatebenchError(f"{queries} queries are asked for, and {released.path} holds {len(given)}")
    if not (given[:queries] >= 0).any():
        raise ArtefactError(
            released.path, f"none of its first {queries} queries was answered", "use less noise or more queries"
        )
    labels = np.full(len(samples["x"]), -1, np.int64)
    asked = query_positions(released, len(labels), samples.path)[:queries]
    labels[asked] = given[:queries]
    likelihood = None
    if "reports" in released.arrays:
        likelihood = np.zeros((len(labels), released.meta["classes"]))
        reports = released["reports"][:, :queries]
        likelihood[asked] = pool_log_likelihood(reports, released.meta, queries)
    if "noisy_counts" in released.arrays:
        likelihood = np.zeros((len(labels), released.meta["classes"]))
        likelihood[asked] = log_likelihood(released["noisy_counts"][:queries], released.meta)
        covered = hidden(given[:queries], likelihood[asked])
        if not covered.all():
            labels[asked[covered]] = -1
    return StudentData(pool=samples["x"], labels=labels, classes=released.meta["classes"], log_likelihood=likelihood)
