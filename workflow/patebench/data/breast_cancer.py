"""The Wisconsin breast cancer table (569 patients, 30 features); it comes with scikit-learn, so no network is needed.

W. Wolberg, O. Mangasarian, N. Street, W. Street, *Breast Cancer Wisconsin (Diagnostic)*, UCI Machine Learning
Repository, 1995.
"""

from pathlib import Path

import numpy as np

from patebench.data._embedded import divide
from patebench.data.dataset import Dataset

PRIVATE = 369


def load(root: Path, download: bool) -> Dataset:
    """369 private and 200 public rows of 30 raw features; class 0 is malignant, 1 benign."""
    from sklearn.datasets import load_breast_cancer

    table = load_breast_cancer()
    return divide("breast_cancer", table.data.astype(np.float32), table, PRIVATE)
