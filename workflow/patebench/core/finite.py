"""Models whose numbers are no longer finite: what is wrong, and with which sample."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError


class NotFiniteError(PatebenchError):
    """A model computed NaN or infinities from the samples `x` (samples, …).

    Parameters
    ----------
    what : which numbers of which model are not finite, as a sentence.
    x : the samples that the model learns from or predicts.
    rows : (samples,) the row of each sample in the user's data; None if there is none to name.
    """

    def __init__(self, what: str, x: NDArray[Any], rows: NDArray[np.integer] | None = None) -> None:
        super().__init__(f"{what}; {_explanation(x, rows)}")
        self.what, self.x = what, x


def check_finite(what: str, numbers: Any, x: NDArray[Any], *, infinite: bool = False) -> None:
    """Raise NotFiniteError if `numbers`, computed from the samples `x`, hold NaN, or infinities unless `infinite`."""
    values = np.asarray(numbers, np.float64)
    if np.isnan(values).any() or not (infinite or np.isfinite(values).all()):
        raise NotFiniteError(what, x)


def _explanation(x: NDArray[Any], rows: NDArray[np.integer] | None) -> str:
    """Say which value of `x` is the largest, and what to do."""
    if x.dtype.kind != "f":
        return "its images hold bytes, which are not to blame: choose another model or recipe, or fewer epochs"
    flat = np.abs(x.reshape(len(x), -1).astype(np.float64))
    sample, feature = map(int, np.unravel_index(flat.argmax(), flat.shape))
    value = x.reshape(len(x), -1)[sample, feature]
    where = f"sample {sample}" if rows is None else f"sample {sample} (row {rows[sample]} of the data)"
    return (
        f"{where} has the largest value, {value:.3g} in feature {feature}, where the median is"
        f" {np.median(flat[:, feature]):.3g} in absolute value: replace such values, or choose another model or recipe"
    )
