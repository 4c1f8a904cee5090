"""Load data sets of scikit-learn, which have no official division, and divide them into private and public samples."""

from pathlib import Path

import numpy as np

from patebench.core.seeds import generator
from patebench.data.dataset import Dataset, LabelledSamples


def _divide(name: str, private: int) -> Dataset:
    """Load the data set `name` and divide it at random, but always in the same way; `private` samples are private."""
    from sklearn import datasets

    table = getattr(datasets, f"load_{name}")()
    if name == "digits":
        x = np.round(table.images * (255 / 16)).astype(np.uint8)[:, None]
    else:
        x = table.data.astype(np.float32)
    order = generator(0, name, "division").permutation(len(x))
    x, y = x[order], table.target[order].astype(np.int64)
    parts = LabelledSamples(x[:private], y[:private]), LabelledSamples(x[private:], y[private:])
    return Dataset(*parts, tuple(map(str, table.target_names)))


def digits(root: Path, download: bool) -> Dataset:
    """Load 1,197 private and 600 public images (1, 8, 8) of handwritten digits; grey values are scaled to 0 … 255.

    E. Alpaydin, C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998.
    """
    return _divide("digits", 1197)


def wine(root: Path, download: bool) -> Dataset:
    """Load 108 private and 70 public rows of 13 raw features; the classes are three cultivars.

    S. Aeberhard, M. Forina, *Wine*, UCI Machine Learning Repository, 1992.
    """
    return _divide("wine", 108)


def breast_cancer(root: Path, download: bool) -> Dataset:
    """Load 369 private and 200 public patients with 30 raw features; class 0 is malignant, 1 benign.

    W. Wolberg, O. Mangasarian, N. Street, W. Street, *Breast Cancer Wisconsin (Diagnostic)*, UCI Machine Learning
    Repository, 1995.
    """
    return _divide("breast_cancer", 369)
