"""The network that learns what a regression of the table says: of stripes, which no mirror changes."""

import numpy as np
from tests.features.test_patches import photographs

from patebench.students.interface import NoisyTable, StudentConfig, StudentData
from patebench.students.student_training import train


def brightness(x: np.ndarray) -> np.ndarray:
    """How much an image changes across and down, as unit vectors: (samples, 2)."""
    flat = x.astype(float).mean(axis=1)
    found = np.stack([np.abs(np.diff(flat, axis=axis)).mean(axis=(1, 2)) for axis in (1, 2)], axis=1)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def test_it_predicts_unseen_images_and_their_mirror_images_alike() -> None:
    pool, kind = photographs(200)
    unseen, truth = photographs(100, seed=1)
    points, queries = brightness(pool), np.arange(20)
    near = np.square(points[:, None] - points[queries]).sum(axis=2).argsort(axis=1)[:, :5]
    counts = np.random.default_rng(0).normal(size=(20, 2))
    np.add.at(counts, (near, kind[:, None]), 1)
    table = NoisyTable(counts=counts, queries=queries, variance=1.0, records=200, neighbours=5)
    labels = np.where(np.arange(200) < 20, counts.argmax(axis=1).repeat(10), -1)
    data = StudentData(pool=pool, labels=labels, classes=2, features=brightness, table=table)
    student, curve = train(data, StudentConfig(method="table-network", epochs=6), seed=0)
    found = student.log_probabilities(unseen)
    assert np.mean(found.argmax(1) == truth) > 0.95
    np.testing.assert_allclose(student.log_probabilities(np.ascontiguousarray(unseen[..., ::-1])), found, atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=1e-6)
    assert curve[-1]["loss"] < curve[0]["loss"]
