"""Records as teachers: each record votes its own label for the query that it lies nearest to; none is trained.

With `neighbours` it votes for so many queries, the nearest ones, and not for the one in whose cell it lies.

Nearness is that of features learnt from the public pool alone, so where a record lies tells of no other private record.
Teachers of this model are made by `patebench.teachers.nearest_query`.
"""

from typing import NoReturn

from patebench.core.errors import PatebenchError
from patebench.models.recipes import Recipe


def learner(recipe: Recipe, classes: int) -> NoReturn:
    """Refuse to make a learner: what votes on given queries alone predicts no other sample."""
    raise PatebenchError("'nearest-query' votes on queries and predicts no other sample; it can only be a teacher")
