"""SVHN, cropped digits: 73,257 + 531,131 private (train and extra) and 26,032 public (test) colour images.

Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu, A. Ng, *Reading digits in natural images with unsupervised feature
learning*, 2011. PATE 2017 uses train and extra as the private data.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.data._torchvision import Source
from patebench.data.dataset import Dataset

SOURCE = Source(
    name="svhn",
    attribute="SVHN",
    folder="",
    files=dict.fromkeys(("train_32x32.mat", "extra_32x32.mat", "test_32x32.mat")),
)


def load(root: Path, download: bool) -> Dataset:
    """Train, then extra, are private and test is public; images (3, 32, 32). Takes about 5 GB of memory."""
    private = [_read(split, root, download) for split in ("train", "extra")]
    public_x, public_y = _read("test", root, download)
    return Dataset(
        np.concatenate([x for x, _ in private]),
        np.concatenate([y for _, y in private]),
        public_x,
        public_y,
        tuple("0123456789"),
    )


def _read(split: str, root: Path, download: bool) -> tuple[NDArray[Any], NDArray[np.int64]]:
    opened = SOURCE.open(root, download, split=split)
    return np.ascontiguousarray(opened.data), opened.labels.astype(np.int64)
