"""Teachers that are records: the votes of many shards at once, by public features (`models/nearest_query.py`).

Each query has a cell of the pool (`models/cells.py`). A private record belongs to the query whose cell it is nearest
to, and its teacher votes on that query with the record's label. So a shard of one record has one vote, and a teacher
keeps silent on all queries that no record of its own belongs to.

A record may also belong to several queries, those that it is nearest to. Then a row of the table stands for no cluster,
but for a neighbourhood that others overlap, and the whole table is read at once (`students/table_regression.py`).
"""

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import SILENT


def votes(
    teacher: NDArray[np.integer],
    query: NDArray[np.integer],
    label: NDArray[np.integer],
    shape: tuple[int, int],
    classes: int,
) -> NDArray[np.integer]:
    """The vote matrix (teachers × queries, its `shape`) of records, each with its teacher, query and label.

    Where several records of a teacher belong to one query, it votes for their most frequent label, the lowest of tied
    ones. A row follows from that teacher's records alone.
    """
    result = np.full(shape, SILENT, dtype=np.min_scalar_type(-classes))
    place = (teacher.astype(np.int64) * shape[1] + query) * classes + label
    cell, times = np.unique(place, return_counts=True)
    ascending = np.lexsort((-cell, times))  # of each query the most frequent label comes last, of tied ones the lowest
    result.reshape(-1)[cell[ascending] // classes] = cell[ascending] % classes
    return result
