"""Compare cells of public features, and the votes of records in them, with plain loops."""

import numpy as np
import pytest

from patebench.accounting.votes import ABSTAINED
from patebench.core.errors import PatebenchError
from patebench.features import cells
from patebench.models import make_learner, on_queries


def test_a_query_stands_for_the_mean_of_the_samples_nearest_to_it():
    features = np.array([[0.0, 0], [1, 0], [10, 0], [12, 0], [11, 3]])
    assert cells.centres(features, np.array([3, 0])).tolist() == [[11.0, 1.0], [0.5, 0.0]]
    equal = cells.centres(np.array([[1.0], [1.0], [5.0]]), np.array([0, 1]))
    assert equal.tolist() == [[3.0], [1.0]], "equal samples are queries of their own"


@pytest.mark.parametrize("block", [1, 50, 1 << 22])
def test_cells_and_neighbours_are_those_of_a_plain_search_whatever_lies_beside(block, monkeypatch):
    monkeypatch.setattr(cells, "_CELLS", block)
    rng = np.random.default_rng(0)
    features, vectors, order = rng.normal(size=(50, 4)) / 4, rng.normal(size=(60, 4)) / 4, rng.permutation(60)
    queries = np.array([7, 3, 30, 22, 41, 8])
    centres, found = cells.centres(features, queries), cells.queries_voted_on(vectors, features, queries, 3)
    expected = [min(range(6), key=lambda c: float(np.sum((v - centres[c]) ** 2))) for v in vectors]
    assert cells.nearest(vectors, centres).tolist() == expected
    assert cells.queries_voted_on(vectors, features, queries)[:, 0].tolist() == expected, "without neighbours"
    for vector, near in zip(vectors, found, strict=True):
        assert set(near) == set(np.argsort(np.square(features[queries] - vector).sum(axis=1))[:3])
    assert np.array_equal(cells.queries_voted_on(vectors[order], features, queries, 3), found[order])


def test_a_vector_between_two_centres_falls_to_the_same_one_whatever_lies_beside_it():
    """Products of matrices add up in another order at another place, which moves last bits."""
    rng = np.random.default_rng(3)
    centres = rng.normal(size=(7, 32))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    for between in (centres[2] + centres[5]) / 2 + rng.normal(0, 1e-17, (20, 32)):
        found = set()
        for beside in range(40):
            vectors = rng.normal(size=(beside + 1, 32)) / 6
            place = rng.integers(beside + 1)
            vectors[place] = between
            found.add(int(cells.nearest(vectors, centres)[place]))
        assert len(found) == 1


def test_a_teacher_votes_for_the_most_frequent_label_of_its_records_at_each_query():
    rng = np.random.default_rng(1)
    teacher, query, label = rng.integers(0, 7, 80), rng.integers(0, 5, 80), rng.integers(0, 3, 80)
    found = cells.record_votes(teacher, query, label, (8, 5), 3)
    for t in range(8):
        for q in range(5):
            own = label[(teacher == t) & (query == q)]
            times = np.bincount(own, minlength=3)
            assert found[t, q] == (times.argmax() if len(own) else ABSTAINED)
    assert found.dtype == np.int8
    assert (found[7] == ABSTAINED).all()


def test_it_is_no_learner():
    assert on_queries("nearest-query")
    assert not on_queries("mlp")
    with pytest.raises(PatebenchError, match="is for teachers only"):
        make_learner("nearest-query", "modern", classes=3)
