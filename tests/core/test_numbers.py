"""How numbers are written."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.core.numbers import at_least, at_most, cell_in_json, downward, in_json, significant, upward

NUMBERS = st.floats(1e-290, 1e290)


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (2.50301, "2.504", "2.503"),
        (2.504, "2.504", "2.504"),
        (0.1 + 0.2, "0.3", "0.3"),
        (0.018477, "0.01848", "0.01847"),
        (99999.9, "1e+05", "9.999e+04"),
        (1e-12, "1e-12", "1e-12"),
        (0.0, "0", "0"),
        (math.inf, "∞", "∞"),
    ],
)
def test_a_bound_is_rounded_to_where_it_holds(value: float, up: str, down: str) -> None:
    assert (at_most(value), at_least(value)) == (up, down)


@given(NUMBERS, st.integers(1, 8))
def test_no_digits_say_less_than_a_bound_nor_more_than_was_found(value: float, digits: int) -> None:
    assert value * (1 - 2e-9) <= float(at_most(value, digits)) <= value * (1 + 10.0 ** (1 - digits))
    assert value * (1 - 10.0 ** (1 - digits)) <= float(at_least(value, digits)) <= value * (1 + 2e-9)


@given(st.floats(1e-3, 1e6), st.integers(1, 4))
def test_places_after_the_point_are_rounded_likewise(value: float, digits: int) -> None:
    places = max(0, significant(value, digits))
    assert value * (1 - 2e-9) <= float(upward(value, places)) <= value + 10.0**-places * (1 + 1e-6)
    assert value - 10.0**-places * (1 + 1e-6) <= float(downward(value, places)) <= value * (1 + 2e-9)


def test_strict_json_holds_what_is_infinite_or_missing_in_a_table() -> None:
    written = [cell_in_json(value) for value in (1.5, math.inf, -math.inf, math.nan, 3, "text", None)]
    assert json.dumps(written, allow_nan=False) == '[1.5, "inf", "-inf", null, 3, "text", null]'


def test_a_bound_that_is_no_number_is_not_hidden() -> None:
    assert (in_json(math.inf), in_json(2.5)) == ("inf", 2.5)
    with pytest.raises(ValueError, match="JSON"):
        json.dumps(in_json(math.nan), allow_nan=False)
