"""Shared by the data sets that come inside scikit-learn and have no official division."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.seeds import generator
from patebench.data.dataset import Dataset


def divide(name: str, x: NDArray[Any], y: NDArray[Any], private: int, class_names: tuple[str, ...]) -> Dataset:
    """Shuffle by a generator fixed by `name`; the first `private` samples are private and the others public."""
    order = generator(0, name, "division").permutation(len(x))
    x, y = x[order], y[order].astype(np.int64)
    return Dataset(x[:private], y[:private], x[private:], y[private:], class_names)
