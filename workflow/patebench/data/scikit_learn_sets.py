"""Load data sets of scikit-learn, which come undivided, and divide them into private and public samples."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.seeds import generator
from patebench.data.dataset import Dataset, LabelledSamples


def _divide(name: str, x: NDArray[Any], table: Any, private: int) -> Dataset:
    """Divide the samples `x` into private and public samples: at random, but always in the same way.

    `private` is the number of private samples. The labels and class names are read from `table`, an object that
    scikit-learn loaded.
    """
    order = generator(0, name, "division").permutation(len(x))
    x, y = x[order], table.target[order].astype(np.int64)
    parts = LabelledSamples(x[:private], y[:private]), LabelledSamples(x[private:], y[private:])
    return Dataset(*parts, tuple(map(str, table.target_names)))


def digits(root: Path, download: bool) -> Dataset:
    """Load 1,197 private and 600 public images (1, 8, 8) of handwritten digits; grey values are scaled to 0 … 255.

    E. Alpaydin, C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998.
    """
    from sklearn.datasets import load_digits

    table = load_digits()
    images = np.round(table.images * (255 / 16)).astype(np.uint8)[:, None]
    return _divide("digits", images, table, 1197)


def wine(root: Path, download: bool) -> Dataset:
    """Load 108 private and 70 public rows of 13 raw features; the classes are three cultivars.

    S. Aeberhard, M. Forina, *Wine*, UCI Machine Learning Repository, 1992.
    """
    from sklearn.datasets import load_wine

    table = load_wine()
    return _divide("wine", table.data.astype(np.float32), table, 108)


def breast_cancer(root: Path, download: bool) -> Dataset:
    """Load 369 private and 200 public patients with 30 raw features; class 0 is malignant, 1 benign.

    W. Wolberg, O. Mangasarian, N. Street, W. Street, *Breast Cancer Wisconsin (Diagnostic)*, UCI Machine Learning
    Repository, 1995.
    """
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    return _divide("breast_cancer", table.data.astype(np.float32), table, 369)
