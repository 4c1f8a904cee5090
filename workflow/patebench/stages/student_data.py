"""What a student is told and sees, for the stages that train one or select queries for it."""

import logging
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact
from patebench.plan.parameters import StudentParameters
from patebench.stages.reading import query_positions

if TYPE_CHECKING:
    from patebench.students.interface import StudentConfig, StudentData

log = logging.getLogger("patebench")


def config_of(parameters: StudentParameters) -> "StudentConfig":
    """What a student's method is told."""
    from patebench.students.interface import StudentConfig

    return StudentConfig(**parameters.model_dump(exclude={"hold_out"}))


def student_data(
    samples: Artefact, released: Artefact, queries: int, features: Artefact | None = None
) -> "StudentData":
    """What a student sees of a POOL and the first `queries` of its LABELS.

    Of a released table of noisy counts it sees the most likely labels: each query's by itself, or of all together with
    FEATURES of the pool. Those that are more likely wrong than right are left out where their class has enough others.
    """
    from patebench.students.interface import StudentData
    from patebench.students.query_clusters import QueryClusters
    from patebench.students.report_likelihood import pool_log_likelihood
    from patebench.students.table_likelihood import hidden, read

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
        clusters = None
        if features:
            features.require("pool", samples.digest, str(samples.path))
            clusters = QueryClusters.of(features["vectors"], asked)
        labels[asked], likelihood[asked] = read(released["noisy_counts"][:queries], released.meta, clusters)
        labels[asked[hidden(labels[asked], likelihood[asked])]] = -1
        _tell(released, queries, labels[asked])
    return StudentData(pool=samples["x"], labels=labels, classes=released.meta["classes"], log_likelihood=likelihood)


def _tell(released: Artefact, queries: int, read: NDArray[np.integer]) -> None:
    """Say how many labels that were read from a table are not those with the largest noisy counts."""
    hidden = read < 0
    other = ~hidden & (read != released["labels"][:queries])
    log.info(
        "table of %d queries: %d labels are not the largest count's, %d are left out",
        queries,
        other.sum(),
        hidden.sum(),
    )
