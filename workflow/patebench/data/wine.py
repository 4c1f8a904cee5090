"""The wine recognition table (178 wines, 13 features); it comes with scikit-learn, so no network is needed.

S. Aeberhard, M. Forina, *Wine*, UCI Machine Learning Repository, 1992.
"""

from pathlib import Path

import numpy as np

from patebench.data._embedded import divide
from patebench.data.dataset import Dataset

PRIVATE = 108


def load(root: Path, download: bool) -> Dataset:
    """108 private and 70 public rows of 13 raw features; the classes are three cultivars."""
    from sklearn.datasets import load_wine

    table = load_wine()
    return divide("wine", table.data.astype(np.float32), table, PRIVATE)
