"""Shared by the data sets that come inside scikit-learn and have no official division."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.seeds import generator
from patebench.data.dataset import Dataset


def divide(name: str, x: NDArray[Any], table: Any, private: int) -> Dataset:
    """Shuffle by a generator fixed by `name`; the first `private` samples are private and the others public.

    `x` are the samples of scikit-learn's `table`, which has their labels and the names of the classes.
    """
    order = generator(0, name, "division").permutation(len(x))
    x, y = x[order], table.target[order].astype(np.int64)
    names = tuple(str(name) for name in table.target_names)
    return Dataset(x[:private], y[:private], x[private:], y[private:], names)
