"""Easy data for students: images whose class is the bright quadrant, and a table with two clusters."""

from dataclasses import replace

import numpy as np

from patebench.students import reads_table
from patebench.students.interface import NoisyTable, StudentData


def images(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images (samples, 1, 8, 8) of bytes, and their classes 0 … 3 (samples,)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, samples)
    x = rng.integers(0, 100, (samples, 1, 8, 8))
    for image, label in zip(x, y, strict=True):
        row, column = divmod(int(label), 2)
        image[0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 120
    return x.astype(np.uint8), y


def table(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table (samples, 6) of floats, and the classes 0 and 1 of its rows (samples,)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, samples)
    return (rng.normal(size=(samples, 6)) + 3 * y[:, None]).astype(np.float32), y


def student_data(x: np.ndarray, y: np.ndarray, answered: int, classes: int = 4) -> StudentData:
    """Return a pool of the samples `x`, in which only the first `answered` samples have their label."""
    labels = np.where(np.arange(len(x)) < answered, y, -1)
    return StudentData(pool=x, labels=labels, classes=classes)


def told(method: str, x: np.ndarray, y: np.ndarray, answered: int, classes: int = 4) -> StudentData:
    """Return `student_data` and, for a method that reads tables, a noisy table of votes on the `answered` samples.

    Each sample votes for its class on the two nearest of the answered samples, or on one for students in clusters.
    """
    data = student_data(x, y, answered, classes)
    if not reads_table(method):
        return data
    vectors = features(x)
    neighbours = None if method == "cluster-consistency" else 2
    near = np.square(vectors[:, None] - vectors[:answered]).sum(axis=2).argsort(axis=1)[:, : neighbours or 1]
    counts = np.random.default_rng(0).normal(size=(answered, classes))
    np.add.at(counts, (near, y[:, None]), 1)
    table = NoisyTable(counts=counts, queries=np.arange(answered), variance=1.0, records=len(x), neighbours=neighbours)
    return replace(data, features=features, table=table)


def features(x: np.ndarray) -> np.ndarray:
    """Return images as unit vectors (samples, pixels), after subtracting the mean of each image."""
    flat = x.reshape(len(x), -1).astype(float)
    flat -= flat.mean(axis=1, keepdims=True)
    return flat / np.linalg.norm(flat, axis=1, keepdims=True)
