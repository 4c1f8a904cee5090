"""Test names and numbers in words."""

import math

import pytest

from patebench.reporting.findings import duration, paper_line
from patebench.reporting.wording import delta_in_words, epsilon_in_digits, epsilon_in_words, parameters_in_words

SHORT = [
    *((0.0, "1.0e-04"), (0.0185, "0.019"), (0.5, "0.5"), (0.9999, "1.0")),
    *((2.01, "2.1"), (10.0, "10.0"), (10.01, "10.1 (weak)"), (math.inf, "∞ (weak)")),
]


@pytest.mark.parametrize(("epsilon", "words"), SHORT)
def test_an_epsilon_is_rounded_up_and_above_ten_called_weak(epsilon: float, words: str) -> None:
    assert epsilon_in_words(epsilon) == words


@pytest.mark.parametrize(
    ("delta", "words"), [(1e-5, "1e-5"), (1 / 70000, "1.42858e-5"), (1.2345612345614e-5, "1.23457e-5")]
)
def test_a_delta_is_rounded_up(delta: float, words: str) -> None:
    assert delta_in_words(delta) == words


DIGITS = [
    *((2.04, "2.04", "2.04"), (2.0051, "2.01", "2.00"), (0.01848, "0.0185", "0.0184"), (0.1831, "0.19", "0.18")),
    *((0.0, "1.0e-04", "0.00"), (9.11e-8, "9.2e-08", "9.1e-08"), (5e-324, "0.1e-300", "0.0e-300")),
    (math.inf, "∞", "∞"),
]


@pytest.mark.parametrize(("epsilon", "bound", "audited"), DIGITS)
def test_bounds_are_rounded_up_and_audits_down(epsilon: float, bound: str, audited: str) -> None:
    assert (epsilon_in_digits(epsilon), epsilon_in_digits(epsilon, at_least=True)) == (bound, audited)


def test_durations_parameters_and_counts_as_text() -> None:
    assert [duration(seconds) for seconds in (4.21, 59.97, 3720)] == ["4.2 s", "1 min 00 s", "1 h 02 min"]
    immutable = {"c": 1e100, "gamma": 1e-10, "distance": math.inf}
    assert parameters_in_words("immutable-lnmax", immutable) == "c = 1e100, γ = 1e-10, distance = ∞"
    row = {"printed": 4, "unsound": 0, "reproduced": 3, "better": 0, "short": 0, "not comparable": 0, "not run": 1}
    said = "Of 4 printed numbers: 3 reproduced and 1 not run"
    assert paper_line({**row, "short_otherwise": 0}) == f"{said}."
    assert paper_line({**row, "short_otherwise": 2}) == f"{said} (other settings fell short of 2)."
