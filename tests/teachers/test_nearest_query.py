"""Records that vote for the query that they are nearest to, against plain loops."""

import numpy as np
import pytest

from patebench.accounting.votes import SILENT
from patebench.core.errors import PatebenchError
from patebench.models import on_queries
from patebench.models.learner import make_learner
from patebench.teachers import nearest_query


def test_a_teacher_votes_for_the_most_frequent_label_of_its_records_at_each_query():
    rng = np.random.default_rng(1)
    teacher, query, label = rng.integers(0, 7, 80), rng.integers(0, 5, 80), rng.integers(0, 3, 80)
    found = nearest_query.votes(teacher, query, label, (8, 5), 3)
    for t in range(8):
        for q in range(5):
            own = label[(teacher == t) & (query == q)]
            times = np.bincount(own, minlength=3)
            assert found[t, q] == (times.argmax() if len(own) else SILENT)
    assert found.dtype == np.int8
    assert (found[7] == SILENT).all()


def test_another_record_of_one_teacher_changes_its_row_alone():
    rng = np.random.default_rng(2)
    teacher, query, label = np.repeat(np.arange(30), 2), rng.integers(0, 5, 60), rng.integers(0, 3, 60)
    before = nearest_query.votes(teacher, query, label, (30, 5), 3)
    query[8], label[8] = (query[8] + 1) % 5, (label[8] + 1) % 3
    after = nearest_query.votes(teacher, query, label, (30, 5), 3)
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [4]


def test_it_is_no_learner():
    assert on_queries("nearest-query")
    assert not on_queries("mlp")
    with pytest.raises(PatebenchError, match="can only be a teacher"):
        make_learner("nearest-query", "modern", classes=3)
