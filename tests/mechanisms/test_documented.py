"""The table of bounds is generated from the mechanisms; docs/explanation/which-epsilon.md states what ties cost."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from patebench.cli import bounds_page
from patebench.mechanisms import MECHANISMS
from patebench.reporting.wording import in_words

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "explanation" / "which-epsilon.md").read_text(encoding="utf-8")
DELTA = 1e-5


@pytest.mark.slow
def test_the_table_of_bounds_is_the_one_that_mechanisms_state() -> None:
    """`make pages` writes it."""
    assert (DOCS / "reference" / "bounds.md").read_text(encoding="utf-8") == bounds_page.page()


def test_every_mechanism_has_a_row() -> None:
    cells = re.findall(
        r"^\| ([^|]+) \| `", (DOCS / "reference" / "bounds.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = [name for cell in cells for name in cell.split(", ")]
    assert sorted(named) == sorted(map(in_words, MECHANISMS.names()))


def test_what_labels_of_tied_classes_lose() -> None:
    """One vote of 250 moves where two classes tie in all of 286 queries: the label is one of two, with these odds."""
    (told,) = re.findall(r"^\| GNMax σ = 40, T = 286 \| [0-9.]+ \| [0-9.]+ \| ([0-9.]+) \|$", PAGE, re.MULTILINE)
    odds = [norm.cdf(gap / (40 * np.sqrt(2))) for gap in (0, -2)]
    drawn = np.arange(287)
    here, there = (binom.logpmf(drawn, 286, odd) for odd in odds)

    def delta(epsilon: float) -> float:
        return max(
            np.maximum(np.exp(one) - np.exp(epsilon + other), 0).sum() for one, other in ((here, there), (there, here))
        )

    assert brentq(lambda epsilon: delta(epsilon) - DELTA, 0, 10) == pytest.approx(float(told), abs=5e-4)
