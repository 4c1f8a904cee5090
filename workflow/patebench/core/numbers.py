"""How numbers are written: a bound on the side where it still holds, and an infinite one where strict JSON has none.

A bound is rounded from the shortest digits that name its floating-point number, so that the written number, read again,
is never on the wrong side, not even by a unit in the last place.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

#: Digits of the largest floating-point number with many places after the point.
_PRECISION = 400

#: Upper bounds below the first number are shown as the second one. Their exact value is rounding error or, at a large
#: δ, zero, and no release that depends on private data is stated to cost nothing.
_NEXT_TO_NOTHING, _SHOWN_INSTEAD = 1e-12, 1e-4


def in_json(value: float) -> float | str:
    """The same, or "inf" for what is infinite. NaN stays, for strict JSON to refuse."""
    return str(float(value)) if math.isinf(value) else value


def cell_in_json(cell: Any) -> Any:
    """A cell of a table: None where a number is missing, and "inf" where it is infinite."""
    if not isinstance(cell, float):
        return cell
    return None if math.isnan(cell) else in_json(cell)


def at_most(bound: float, digits: int = 4) -> str:
    """An upper bound in so many digits that count, rounded up: "2.504" for 2.50301; or "∞"."""
    return _counted(bound, digits, ROUND_CEILING)


def at_least(found: float, digits: int = 4) -> str:
    """A lower bound in so many digits that count, rounded down; or "∞"."""
    return _counted(found, digits, ROUND_FLOOR)


def above_zero(epsilon: float) -> float:
    """Return an upper bound ε as it may be shown: never 0."""
    return _SHOWN_INSTEAD if epsilon < _NEXT_TO_NOTHING else epsilon


def upward(bound: float | Decimal, digits: int) -> str:
    """A finite upper bound with so many digits after the point, rounded up."""
    return _placed(bound, digits, ROUND_CEILING)


def downward(found: float | Decimal, digits: int) -> str:
    """A finite lower bound with so many digits after the point, rounded down."""
    return _placed(found, digits, ROUND_FLOOR)


def significant(value: float, digits: int) -> int:
    """How many digits after the point give so many that count, of a positive value."""
    return digits - 1 - math.floor(math.log10(value))


def exactly(value: float) -> Decimal:
    """The shortest decimal number that names this floating-point number."""
    return Decimal(repr(float(value)))


def _counted(value: float, digits: int, rounding: str) -> str:
    if math.isinf(value):
        return "∞"
    return f"{float(Context(digits, rounding).create_decimal(exactly(value))):.{digits}g}"


def _placed(value: float | Decimal, digits: int, rounding: str) -> str:
    exact = value if isinstance(value, Decimal) else exactly(value)
    rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding, Context(_PRECISION))
    return f"{rounded or abs(rounded):f}"
