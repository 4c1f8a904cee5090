"""Collect the data that a student sees, for stages that train a student or select queries."""

import logging
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from patebench.artefacts.reading import check_together, query_positions
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact
from patebench.core.text import plural
from patebench.decoding.report_likelihood import report_log_likelihood
from patebench.decoding.table_likelihood import hidden, noise_of, read
from patebench.features.query_clusters import QueryClusters
from patebench.students.interface import NoisyTable, StudentData

log = logging.getLogger("patebench")


def student_data(
    samples: Artefact, released: Artefact, queries: int, features: Artefact | None = None, *, whole_table: bool = False
) -> StudentData:
    """Return the data that a student learns from: the pool `samples` and the first `queries` labels in `released`.

    If a table of noisy counts was released, the most likely labels are decoded from this table. With the `features` of
    the pool, all queries are decoded jointly; if `features` is None, each query is decoded separately. Labels that are
    probably wrong are left out (see `table_likelihood.hidden`). If `whole_table` is True, no labels are decoded, and
    the result contains the table itself.
    """
    check_together(pool=samples, labels=released, features=features)
    released_labels = released["labels"]
    if queries > len(released_labels):
        raise PatebenchError(
            f"--queries is {queries}, but {released.path} contains {plural(len(released_labels), 'label')}; use at"
            f" most {len(released_labels)}"
        )
    if not (released_labels[:queries] >= 0).any():
        raise ArtefactError(
            released.path,
            f"none of its first {plural(queries, 'query')} was answered, so no label is left for training",
            "train on more queries (--queries), or draw labels with less noise",
        )
    if released.meta.get("weighted") and not whole_table:
        raise ArtefactError(
            released.path,
            "it contains sums of weighted votes, from which this student method cannot read a label for each query",
            "use --method table-regression or --method table-network, which learn from the sums themselves",
            code="weights",
        )
    labels = np.full(len(samples["x"]), -1, np.int64)
    positions = query_positions(released, len(labels), samples.path)[:queries]
    labels[positions] = released_labels[:queries]
    likelihood = None
    if "reports" in released.arrays:
        likelihood = np.zeros((len(labels), released.meta["classes"]))
        likelihood[positions] = report_log_likelihood(released["reports"][:, :queries], released.meta)
    table = _noisy_table(released, positions) if whole_table else None
    if "noisy_counts" in released.arrays and not whole_table:
        likelihood = np.zeros((len(labels), released.meta["classes"]))
        clusters = None
        if features:
            clusters = QueryClusters.of(features["vectors"], positions, _queries_per_round(released, queries))
        labels[positions], likelihood[positions] = read(released["noisy_counts"][:queries], released.meta, clusters)
        labels[positions[hidden(labels[positions], likelihood[positions])]] = -1
        left_out = labels[positions] < 0
        other = ~left_out & (labels[positions] != released_labels[:queries])
        line = "table of %d queries: %d labels are not the class with the largest count, %d queries get no label"
        log.info(line, queries, other.sum(), left_out.sum())
    classes = released.meta["classes"]
    return StudentData(pool=samples["x"], labels=labels, classes=classes, log_likelihood=likelihood, table=table)


def _noisy_table(released: Artefact, positions: NDArray[np.integer]) -> NoisyTable:
    """Return the released table of noisy counts, for a student that learns from the whole table.

    `positions` (queries,) are the positions in the pool of the queries that the student uses. ArtefactError is raised
    unless all of the following hold:

    - The table contains the votes of private records, without trained teachers, on the whole pool.
    - `positions` are all queries of the table.
    - The mechanism counts all votes of each record.
    - The table has noise.
    """
    if "noisy_counts" not in released.arrays or "neighbours" not in released.meta or released.meta["rounds"]:
        raise ArtefactError(
            released.path,
            "this student method learns from a table of noisy vote counts on the whole pool, which the file lacks",
            "give labels drawn by 'sparse-gnmax' or 'sparse-lnmax' from teachers of the model 'nearest-query'",
        )
    if len(positions) < len(released["labels"]):
        raise ArtefactError(
            released.path,
            f"this student method needs all {len(released['labels'])} queries of the table, but --queries is"
            f" {len(positions)}",
            f"give --queries {len(released['labels'])}",
        )
    neighbours, most = released.meta["neighbours"], released.meta["parameters"]["k"]
    if most < (neighbours or 1):
        raise ArtefactError(
            released.path,
            f"this student method needs all {neighbours} votes of each record, but the table was drawn with k ="
            f" {most:g}, so it counts fewer",
            f"give labels drawn with k = {neighbours}",
        )
    variance = noise_of(released.meta).variance
    if variance == 0:
        raise ArtefactError(
            released.path,
            "its counts were drawn without noise, but this student method needs a noise scale above 0",
            "give labels drawn with noise",
        )
    counts, records = released["noisy_counts"].astype(np.float64), int(released.meta["teachers"])
    return NoisyTable(
        counts=counts,
        queries=positions,
        variance=variance,
        records=records,
        neighbours=neighbours,
        weighted=bool(released.meta.get("weighted", False)),
    )


def _queries_per_round(released: Artefact, queries: int) -> list[int]:
    """Return the number of queries of each round among the first `queries` queries of `released`.

    Rounds without any of these queries are left out.
    """
    ends = [0, *accumulate(facts["queries"] for facts in released.meta["rounds"])]
    return [min(end, queries) - start for start, end in pairwise(ends) if start < queries]
