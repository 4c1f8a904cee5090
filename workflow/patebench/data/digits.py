"""Scikit-learn's 1,797 handwritten digits of 8×8 pixels; they come with the package, so no network is needed.

E. Alpaydin, C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998.
"""

from pathlib import Path

import numpy as np

from patebench.data._embedded import divide
from patebench.data.dataset import Dataset

PRIVATE = 1197


def load(root: Path, download: bool) -> Dataset:
    """1,197 private and 600 public images (1, 8, 8); the grey values 0 … 16 are spread over 0 … 255."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.round(digits.images * (255 / 16)).astype(np.uint8)[:, None]
    return divide("digits", images, digits, PRIVATE)
