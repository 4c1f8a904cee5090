"""Test that bounds are rounded in the direction in which they remain valid."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.calculator.show import four_digits
from patebench.core.text import at_least, at_most, cell_in_json, decimal_places, downward, in_json, upward
from patebench.reporting.wording import epsilon_in_digits, epsilon_in_words

NUMBERS = st.floats(1e-290, 1e290)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (2.50301, "2.504", "2.503"),
        (2.504, "2.504", "2.504"),
        (0.1 + 0.2, "0.3001", "0.3"),
        (99999.9, "1e+05", "9.999e+04"),
        (0.0, "0", "0"),
        (math.inf, "∞", "∞"),
    ],
)
def test_a_bound_is_rounded_in_the_valid_direction(value: float, up: str, down: str) -> None:
    assert (at_most(value), at_least(value)) == (up, down)


@given(NUMBERS, st.integers(1, 8))
def test_rounding_to_significant_digits_keeps_bounds_valid(value: float, digits: int) -> None:
    assert value <= float(at_most(value, digits)) <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15)
    assert value * (1 - 10.0 ** (1 - digits)) * (1 - 1e-15) <= float(at_least(value, digits)) <= value


@given(st.floats(1e-3, 1e6), st.integers(1, 4))
def test_rounding_to_decimal_places_keeps_bounds_valid(value: float, digits: int) -> None:
    places = max(0, decimal_places(value, digits))
    assert value <= float(upward(value, places)) <= value + 10.0**-places * (1 + 1e-6)
    assert value - 10.0**-places * (1 + 1e-6) <= float(downward(value, places)) <= value


@pytest.mark.parametrize("digits", ["2.5000", "0.0185", "12.0000", "1000000.0000"])
def test_the_smallest_excess_is_rounded_up_and_an_equal_number_is_not(digits: str) -> None:
    value, places = float(digits), len(digits.partition(".")[2])
    above, below = math.nextafter(value, math.inf), math.nextafter(value, 0.0)
    assert (upward(value, places), downward(value, places)) == (digits, digits)
    assert (float(upward(above, places)), float(downward(below, places))) == pytest.approx(
        (value + 10.0**-places, value - 10.0**-places), rel=1e-12
    )


@given(st.floats(1e-300, 1e3))
def test_epsilon_on_the_terminal_and_in_tables_is_not_below_the_bound(epsilon: float) -> None:
    assert float(four_digits(epsilon)) >= epsilon
    assert float(epsilon_in_digits(epsilon)) >= epsilon
    assert float(epsilon_in_digits(epsilon, at_least=True)) <= epsilon
    assert float(epsilon_in_words(epsilon).removesuffix(" (weak)")) >= epsilon


def test_strict_json_accepts_infinite_and_missing_cells_but_no_bound_that_is_nan() -> None:
    written = [cell_in_json(value) for value in (1.5, math.inf, -math.inf, math.nan, 3, "text", None)]
    assert json.dumps(written, allow_nan=False) == '[1.5, "inf", "-inf", null, 3, "text", null]'
    assert (in_json(math.inf), in_json(2.5)) == ("inf", 2.5)
    with pytest.raises(ValueError, match="JSON"):
        json.dumps(in_json(math.nan), allow_nan=False)
