"""CIFAR-10: 50,000 private and 10,000 public colour images.

A. Krizhevsky, *Learning multiple layers of features from tiny images*, 2009. The official batches are pickles;
torchvision opens each only after its MD5 has proved it to be the published file.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.data._torchvision import Source
from patebench.data.dataset import Dataset

SOURCE = Source(
    name="cifar10",
    attribute="CIFAR10",
    folder="cifar-10-batches-py",
    files=dict.fromkeys((*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")),
)


def load(root: Path, download: bool) -> Dataset:
    """The official training set is private, the official test set public; images (3, 32, 32)."""
    train = SOURCE.open(root, download, train=True)
    test = SOURCE.open(root, download, train=False)
    return Dataset(*_arrays(train), *_arrays(test), tuple(train.classes))


def _arrays(opened: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    return np.ascontiguousarray(opened.data.transpose(0, 3, 1, 2)), np.asarray(opened.targets, dtype=np.int64)
