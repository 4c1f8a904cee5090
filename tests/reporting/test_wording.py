"""Test names and numbers in words."""

import math

import pytest

from patebench.reporting.wording import (
    differing_words,
    epsilon_in_digits,
    epsilon_in_words,
)

SHORT = [
    *((0.0, "1.0e-04"), (0.0185, "0.019"), (0.0858, "0.086"), (0.5, "0.5"), (0.9999, "1.0"), (1.0, "1.0")),
    *((2.01, "2.1"), (10.0, "10.0"), (10.01, "10.1 (weak)"), (math.inf, "∞ (weak)")),
]


@pytest.mark.parametrize(("epsilon", "words"), SHORT)
def test_an_epsilon_is_rounded_up_and_above_ten_called_weak(epsilon: float, words: str) -> None:
    assert epsilon_in_words(epsilon) == words


DIGITS = [
    *((2.04, "2.04", "2.04"), (2.0051, "2.01", "2.00"), (0.01848, "0.0185", "0.0184"), (0.1831, "0.19", "0.18")),
    *((0.0, "1.0e-04", "0.00"), (9.11e-8, "9.2e-08", "9.1e-08"), (5e-324, "0.1e-300", "0.0e-300")),
    (math.inf, "∞", "∞"),
]


@pytest.mark.parametrize(("epsilon", "bound", "audited"), DIGITS)
def test_digits_of_a_bound_hold_and_those_of_an_audit_were_found(epsilon: float, bound: str, audited: str) -> None:
    assert (epsilon_in_digits(epsilon), epsilon_in_digits(epsilon, at_least=True)) == (bound, audited)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([["a = 1", "b = 2", "c = 3"], ["a = 1", "b = 3", "c = 4"]], ["b = 2, c = 3", "b = 3, c = 4"]),
        ([["a = 1"], ["b = 1"]], ["a = 1", "b = 1"]),
        ([["a = 1", "b = 1"], ["a = 1"]], ["b = 1", ""]),
        ([["a = 1"], ["a = 1"]], ["", ""]),
        ([], []),
    ],
)
def test_of_settings_what_differs(settings: list[list[str]], words: list[str]) -> None:
    assert differing_words(settings) == words
