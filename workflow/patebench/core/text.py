"""Format words and numbers for people and JSON.

Upper bounds are rounded up and lower bounds down. A printed upper bound, converted back to a float, is therefore never
below the original float. A printed lower bound is never above it.
"""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: 1 fault, 2,000 faults, 2 classes, 2 queries."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'ch')) else 's'}"


def listing(names: Sequence[object], most: int = 8) -> str:
    """Join `names` by commas; after the first `most` names, state only the number of further names."""
    shown = ", ".join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


#: Decimal precision: enough digits for the largest float with many decimal places.
_PRECISION = 400

#: Upper bounds on ε below the first number are shown as the second one. Smaller values are rounding errors or, at a
#: large δ, zero, but no release that depends on private data is reported as ε = 0.
_NEXT_TO_NOTHING, _SHOWN_INSTEAD = 1e-12, 1e-4


def in_json(value: float) -> float | str:
    """Return `value`, or the text "inf" or "-inf" if it is infinite; NaN is unchanged."""
    return str(float(value)) if math.isinf(value) else value


def cell_in_json(cell: Any) -> Any:
    """Return `cell`, a value in a table, for JSON: NaN (a missing number) becomes None, and ∞ becomes "inf"."""
    if not isinstance(cell, float):
        return cell
    return None if math.isnan(cell) else in_json(cell)


def at_most(bound: float, digits: int = 4) -> str:
    """Return the upper bound `bound` as text, rounded up to `digits` significant digits: "2.504" for 2.50301."""
    return _counted(bound, digits, ROUND_CEILING)


def at_least(bound: float, digits: int = 4) -> str:
    """Return the lower bound `bound` as text, rounded down to `digits` significant digits: "2.503" for 2.50371."""
    return _counted(bound, digits, ROUND_FLOOR)


def above_zero(epsilon: float) -> float:
    """Return `epsilon`, or 10⁻⁴ if it is below 10⁻¹², so that no upper bound on ε is shown as 0.

    A value below 10⁻¹² may be a rounding error.
    """
    return _SHOWN_INSTEAD if epsilon < _NEXT_TO_NOTHING else epsilon


def upward(bound: float | Decimal, digits: int) -> str:
    """Return the finite upper bound `bound` as text, rounded up to `digits` digits after the point."""
    return _placed(bound, digits, ROUND_CEILING)


def downward(bound: float | Decimal, digits: int) -> str:
    """Return the finite lower bound `bound` as text, rounded down to `digits` digits after the point."""
    return _placed(bound, digits, ROUND_FLOOR)


def decimal_places(value: float, digits: int) -> int:
    """Return the number of decimal places with which the positive `value` has `digits` significant digits."""
    return digits - 1 - math.floor(math.log10(value))


def shortest_decimal(value: float) -> Decimal:
    """Return the decimal number with the fewest digits that rounds to the float `value`."""
    return Decimal(repr(float(value)))


def _counted(value: float, digits: int, rounding: str) -> str:
    if math.isinf(value):
        return "∞"
    return f"{float(Context(digits, rounding).create_decimal(shortest_decimal(value))):.{digits}g}"


def _placed(value: float | Decimal, digits: int, rounding: str) -> str:
    exact = value if isinstance(value, Decimal) else shortest_decimal(value)
    rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding, Context(_PRECISION))
    return f"{rounded or abs(rounded):f}"
