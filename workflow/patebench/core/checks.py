"""Check arguments of functions and results of models. A failed check raises a PatebenchError of one line."""

import operator
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patebench.core.errors import PatebenchError

if TYPE_CHECKING:
    import pandas as pd

#: Largest integer argument: the largest 64-bit integer.
LARGEST = 2**63 - 1
#: Largest number of classes; it limits the memory of tables of counts, which have one column per class.
MOST_CLASSES = 1_000_000


def check_array(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return `values` as an array.

    Raises PatebenchError if `values` cannot be converted, or if a DataFrame contains text or missing values. `name` is
    the name of the values in the message.
    """
    if (frame := frame_of(values)) is not None:
        return _frame_values(name, frame)
    try:
        return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    except Exception as fault:  # an arbitrary object may raise anything
        raise PatebenchError(f"{name} cannot be converted to an array ({fault}); give an array or a table") from None


def frame_of(values: object) -> "pd.DataFrame | None":
    """Return `values` if it is a pandas DataFrame, else None; does not import pandas."""
    pandas = sys.modules.get("pandas")
    return values if pandas is not None and isinstance(values, pandas.DataFrame) else None


def _frame_values(name: str, frame: "pd.DataFrame") -> NDArray[Any]:
    columns = []
    for label, column in frame.items():
        if column.dtype.kind not in "iufb":
            raise PatebenchError(f"the column {quote(label)} of {name} has the type {column.dtype}; give numbers")
        if column.isna().any():
            raise PatebenchError(
                f"the column {quote(label)} of {name} contains NaN or missing values; fill or drop them first"
            )
        columns.append(column.to_numpy())
    return np.column_stack(columns) if columns else np.empty(frame.shape)


def check_whole(name: str, value: Any, least: int = 1, most: int = LARGEST) -> int:
    """Return `value` as an int; raise PatebenchError about `name` unless it is an integer from `least` to `most`."""
    try:
        number = operator.index(value)
    except Exception:  # an arbitrary object may raise anything
        raise PatebenchError(f"{name} = {quote(value)} is not a whole number; give an integer") from None
    if isinstance(value, bool | np.bool_):
        raise PatebenchError(f"{name} = {value} is not a whole number; give an integer")
    if number < least:
        raise PatebenchError(f"{name} = {quote(number)} is too small; it must be at least {least}")
    if number > most:
        raise PatebenchError(f"{name} = {quote(number)} is too large; it must be at most {most}")
    return number


def check_real(name: str, value: Any) -> float:
    """Return `value` as a float, possibly infinite or NaN; raise PatebenchError about `name` unless it is a number."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        with suppress(OverflowError):  # an integer beyond floating-point numbers
            return float(value)
    raise PatebenchError(f"{name} = {quote(value)} is not a number; give a number")


def check_truth(name: str, value: Any) -> bool:
    """Return `value` as a bool; raise PatebenchError about `name` unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise PatebenchError(f"{name} = {quote(value)} is not a truth value; give True or False")
    return bool(value)


def quote(value: object) -> str:
    """Return the representation of `value` for messages: one line of at most 60 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # Python refuses to print integers of thousands of digits; an object may raise anything
        text = "a very long number" if isinstance(value, int) else f"a {type(value).__name__}"
    return shorten(text)


def shorten(text: str) -> str:
    """Return `text`, shortened to at most 60 characters."""
    return text if len(text) <= 60 else f"{text[:57]}..."


class NotFiniteError(PatebenchError):
    """Error about NaN or infinite numbers that a model computed from the samples `x`.

    Parameters
    ----------
    what : start of the message, which names the model and the numbers that are not finite
    x : (samples, …) training or prediction samples of the model
    rows : (samples,) row of each sample in the user's data, if known
    """

    def __init__(self, what: str, x: NDArray[Any], rows: NDArray[np.integer] | None = None) -> None:
        super().__init__(f"{what}; {_advice(x, rows)}")
        self.what, self.x = what, x


def check_finite(what: str, numbers: Any, x: NDArray[Any], *, infinite: bool = False) -> None:
    """Raise NotFiniteError if `numbers`, computed from the samples `x`, contain NaN or ±∞.

    If `infinite` is True, ±∞ is allowed. `what` is the start of the message, which names the model and the numbers.
    """
    values = np.asarray(numbers, np.float64)
    if np.isnan(values).any() or not (infinite or np.isfinite(values).all()):
        raise NotFiniteError(what, x)


def _advice(x: NDArray[Any], rows: NDArray[np.integer] | None) -> str:
    """Return advice on the largest value in the samples `x`, which may have caused NaN or infinities.

    `rows` contains the row of each sample in the user's data, if known.
    """
    if x.dtype.kind != "f":
        return "8-bit images cannot be the cause: choose another model or recipe, or fewer epochs"
    flat = np.abs(x.reshape(len(x), -1).astype(np.float64))
    sample, feature = map(int, np.unravel_index(flat.argmax(), flat.shape))
    value = x.reshape(len(x), -1)[sample, feature]
    where = f"sample {sample}" if rows is None else f"sample {sample} (row {rows[sample]} of the data)"
    return (
        f"the largest value is {value:.3g}, in feature {feature} of {where}; the median absolute value"
        f" of that feature is {np.median(flat[:, feature]):.3g}: replace such values, or choose another model or recipe"
    )
