"""What a student is told and sees, for the stages that train one or select queries for it."""

import logging
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from patebench.artefacts.reading import check_together, query_positions
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact
from patebench.core.text import plural

if TYPE_CHECKING:
    from patebench.students.interface import NoisyTable, StudentData

log = logging.getLogger("patebench")


def student_data(
    samples: Artefact, released: Artefact, queries: int, features: Artefact | None = None, *, whole_table: bool = False
) -> "StudentData":
    """Return what a student sees of a POOL and the first `queries` of its LABELS; with `whole_table` the table.

    Of a released table of noisy counts it sees the most likely labels: each query's by itself, or of all together with
    FEATURES of the pool. Those that are more likely wrong than right are left out where their class has enough others.
    """
    from patebench.decoding.report_likelihood import pool_log_likelihood
    from patebench.decoding.table_likelihood import hidden, read
    from patebench.features.query_clusters import QueryClusters
    from patebench.students.interface import StudentData

    check_together(pool=samples, labels=released, features=features)
    given = released["labels"]
    if queries > len(given):
        raise PatebenchError(f"{plural(queries, 'query')} asked for, and {released.path} holds {len(given)}")
    if not (given[:queries] >= 0).any():
        raise ArtefactError(
            released.path,
            f"none of its first {plural(queries, 'query')} was answered",
            "use less noise or more queries",
        )
    labels = np.full(len(samples["x"]), -1, np.int64)
    asked = query_positions(released, len(labels), samples.path)[:queries]
    labels[asked] = given[:queries]
    likelihood = None
    if "reports" in released.arrays:
        likelihood = np.zeros((len(labels), released.meta["classes"]))
        reports = released["reports"][:, :queries]
        likelihood[asked] = pool_log_likelihood(reports, released.meta, queries)
    table = _table(released, asked) if whole_table else None
    if "noisy_counts" in released.arrays and not whole_table:
        likelihood = np.zeros((len(labels), released.meta["classes"]))
        clusters = None
        if features:
            clusters = QueryClusters.of(features["vectors"], asked, _rounds(released, queries))
        labels[asked], likelihood[asked] = read(released["noisy_counts"][:queries], released.meta, clusters)
        labels[asked[hidden(labels[asked], likelihood[asked])]] = -1
        _tell(released, queries, labels[asked])
    classes = released.meta["classes"]
    return StudentData(pool=samples["x"], labels=labels, classes=classes, log_likelihood=likelihood, table=table)


def _table(released: Artefact, asked: NDArray[np.integer]) -> "NoisyTable":
    """Return the table of LABELS of all their queries, at the positions `asked`; ArtefactError if there is none."""
    from patebench.decoding.table_likelihood import noise_of
    from patebench.students.interface import NoisyTable

    if "noisy_counts" not in released.arrays or "neighbours" not in released.meta or released.meta["rounds"]:
        raise ArtefactError(
            released.path,
            "it holds no table of votes by records on the queries nearest to them",
            "give labels by sparse-gnmax or sparse-lnmax of teachers of nearest-query",
        )
    if len(asked) < len(released["labels"]):
        raise ArtefactError(
            released.path, "its table is read as a whole", f"ask for all {len(released['labels'])} queries"
        )
    neighbours, most = released.meta["neighbours"], released.meta["parameters"]["k"]
    if most < (neighbours or 1):
        raise ArtefactError(
            released.path,
            f"its mechanism counts {most:g} of the {neighbours} votes of a record, so a row is of no neighbourhood",
            "give labels of a mechanism whose k is that number",
        )
    variance = noise_of(released.meta).variance
    if variance == 0:
        raise ArtefactError(released.path, "its table has no noise, so nothing says how far to trust it", "add noise")
    counts, records = released["noisy_counts"].astype(np.float64), int(released.meta["teachers"])
    return NoisyTable(counts=counts, queries=asked, variance=variance, records=records, neighbours=neighbours)


def _rounds(released: Artefact, queries: int) -> list[int]:
    """Return how many of the first `queries` each round selected; nothing without rounds."""
    ends = [0, *accumulate(each["queries"] for each in released.meta["rounds"])]
    return [min(end, queries) - start for start, end in pairwise(ends) if start < queries]


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
