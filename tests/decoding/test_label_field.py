"""Compare jointly decoded labels with sums over all labelings of few queries."""

from itertools import product

import numpy as np
import pytest

from patebench.decoding import label_field
from patebench.features.query_clusters import QueryClusters

RNG = np.random.default_rng(0)


def clusters(queries: int) -> QueryClusters:
    near = np.triu(RNG.random((queries, queries)) * (RNG.random((queries, queries)) < 0.5), 1)
    return QueryClusters(RNG.dirichlet(np.full(queries, 3.0)), near + near.T)


def summed(log_likelihood: np.ndarray, known: QueryClusters) -> tuple[np.ndarray, np.ndarray]:
    """Return the likeliest labeling under the likeliest field, and the posterior of each label, by enumeration.

    Fields are as the module's docstring defines them.
    """
    queries, classes = log_likelihood.shape
    labelings = np.array(list(product(range(classes), repeat=queries)))
    own = log_likelihood[np.arange(queries), labelings].sum(axis=1)
    shares = np.stack([np.bincount(each, known.sizes, classes) for each in labelings])
    pairs = [(q, r) for q in range(queries) for r in range(q)]
    same = sum(known.nearness[q, r] * (labelings[:, q] == labelings[:, r]) for q, r in pairs)
    fields = []
    for beta, rho in product(label_field._NEARNESS, label_field._SPREAD):
        field = np.exp(beta * same - np.square(shares - 1 / classes).sum(axis=1) / 2 / (rho / classes) ** 2)
        fields.append(field / field.sum() * np.exp(own))
    likeliest, total = max(fields, key=np.sum).argmax(), np.sum(fields, axis=0)
    each = [[total[labelings[:, q] == k].sum() for k in range(classes)] for q in range(queries)]
    return labelings[likeliest], np.array(each) / total.sum()


@pytest.mark.parametrize(("queries", "classes"), [(6, 3), (4, 4), (7, 2), (1, 3)])
def test_the_posterior_is_the_sum_over_all_labelings(queries, classes):
    known = clusters(queries)
    rows = RNG.normal(scale=1.5, size=(queries, classes))
    labels, found = label_field.read(rows, known)
    likeliest, posterior = summed(rows, known)
    assert np.array_equal(label_field.read(rows, known)[1], found)
    assert np.exp(found) == pytest.approx(posterior, abs=0.04)
    assert np.exp(found).sum(axis=1) == pytest.approx(1)
    assert labels.tolist() == likeliest.tolist()


def test_where_every_class_has_one_cluster_labels_are_matched():
    queries = 8
    known = QueryClusters(np.full(queries, 1 / queries), np.zeros((queries, queries)))
    rows = 6.0 * np.eye(queries)
    rows[5] = 0.0  # says nothing, and 5 is the only label that is left
    rows[6] = [0, 3, 0, 0, 0, 0, 2.5, 0]
    assert label_field.read(rows, known)[0].tolist() == list(range(queries))


def test_a_sure_table_is_read_as_it_is_however_uneven_its_classes():
    known = QueryClusters(np.full(10, 0.1), np.ones((10, 10)) - np.eye(10))
    labels = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
    found, _ = label_field.read(40.0 * np.eye(3)[labels], known)
    assert found.tolist() == labels.tolist()
