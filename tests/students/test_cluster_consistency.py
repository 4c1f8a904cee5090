"""Test the consistency student that learns the class shares of each cluster from a noisy table."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.students.world import images

from patebench.core.errors import PatebenchError
from patebench.students.consistency import ClusterAlignment
from patebench.students.interface import NoisyTable, StudentConfig, StudentData
from patebench.students.student_training import train

#: Number of clusters: four have samples of one class, and eight have 70 % of one class and 30 % of another.
CLUSTERS = 12


def mixed_clusters() -> StudentData:
    """Return a pool and its votes; the queries of mixed clusters have the rarer class."""
    x, y = images(400, seed=0)
    rng = np.random.default_rng(1)
    own, rival, pure = np.arange(CLUSTERS) % 4, (np.arange(CLUSTERS) + 1) % 4, np.arange(CLUSTERS) < 4
    weight = np.where(own == y[:, None], np.where(pure, 0.4, 0.7), np.where((rival == y[:, None]) & ~pure, 0.3, 0.0))
    cluster = np.array([rng.choice(CLUSTERS, p=row / row.sum()) for row in weight])
    rare = np.where(pure, own, rival)
    queries = np.array([np.flatnonzero((cluster == k) & (y == rare[k]))[0] for k in range(CLUSTERS)])
    counts = rng.normal(size=(CLUSTERS, 4))
    np.add.at(counts, (cluster, y), 1)
    labels = np.full(len(x), -1)
    labels[queries] = counts.argmax(axis=1)
    table = NoisyTable(counts=counts, queries=queries, variance=1.0, records=len(x))
    return StudentData(pool=x, labels=labels, classes=4, features=lambda x: np.eye(CLUSTERS)[cluster], table=table)


@pytest.mark.slow
def test_it_learns_mixed_clusters_although_the_labels_of_their_queries_are_wrong() -> None:
    data, (unseen, truth) = mixed_clusters(), images(200, seed=1)
    accuracy = {}
    for method in ("consistency", "cluster-consistency"):
        student, _ = train(data, StudentConfig(method=method, epochs=30), seed=0)
        accuracy[method] = np.mean(student.log_probabilities(unseen).argmax(1) == truth)
    assert accuracy["cluster-consistency"] > 0.95
    assert accuracy["consistency"] < 0.7


def test_predictions_of_each_cluster_are_aligned_to_its_shares() -> None:
    shares = torch.tensor([[0.9, 0.1], [0.3, 0.7]])
    alignment = ClusterAlignment(torch.tensor([0, 0, 1]), shares)
    rows, guess = torch.tensor([0, 1, 2, 0]), torch.tensor([[0.8, 0.2], [0.4, 0.6], [0.5, 0.5], [0.6, 0.4]])
    for _ in range(2000):
        aligned = alignment(guess, rows, 1)
    assert alignment.guessed.flatten().tolist() == pytest.approx([0.6, 0.4, 0.5, 0.5], abs=1e-3)
    # 0.6 · 0.9/0.6 against 0.4 · 0.1/0.4 in the first cluster, and equal predictions become the shares in the second
    assert aligned[3].tolist() == pytest.approx([0.9, 0.1], abs=1e-3)
    assert aligned[2].tolist() == pytest.approx([0.3, 0.7], abs=1e-3)
    assert alignment(guess, rows, 0).flatten().tolist() == pytest.approx(guess.flatten().tolist())


def test_a_cluster_without_samples_in_a_batch_keeps_its_mean() -> None:
    alignment = ClusterAlignment(torch.tensor([0, 1]), torch.full((2, 2), 0.5))
    alignment(torch.tensor([[0.9, 0.1]]), torch.tensor([0]), 1)
    assert alignment.guessed[1].tolist() == [0.5, 0.5]
    assert alignment.guessed[0].tolist() == pytest.approx([0.97 * 0.5 + 0.03 * 0.9, 0.97 * 0.5 + 0.03 * 0.1])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"neighbours": 2}, "one vote"),
        ({"weighted": True}, "one vote"),
        ({"variance": 1e6}, "has a class whose count stands out from the noise"),
    ],
)
def test_refuses_tables_that_do_not_fit(changes: dict[str, float], words: str) -> None:
    data = mixed_clusters()
    assert data.table
    data = replace(data, table=replace(data.table, **changes))
    with pytest.raises(PatebenchError, match=words):
        train(data, StudentConfig(method="cluster-consistency", epochs=1), seed=0)
