"""Test that the figure of the README shows the values of the reference tables."""

import csv
from pathlib import Path

import pytest

from patebench.reporting.figures.headline import draw_headline, read_tables
from patebench.reporting.style import themed

KEPT = Path(__file__).parents[2] / "results" / "reference"
TABLES = sorted(KEPT.glob("equal-epsilon*/tables/equal-epsilon.csv"))


@pytest.fixture(scope="module")
def axes():
    with themed():
        return draw_headline(read_tables(TABLES), (1.97, 0.985)).axes


def own_lines(axis):
    """Return lines and lone points, without the caps of error bars."""
    return [line for line in axis.lines if line.get_linestyle() != "None"]


def test_it_has_two_panels_of_at_most_six_lines_and_one_published_reference_each(axes):
    assert len(axes) == 2
    lines = [line for axis in axes for line in own_lines(axis)]
    assert 2 < len([line for line in lines if len(line.get_xdata()) > 1]) <= 6
    for axis in axes:
        words = [text.get_text() for text in axis.texts]
        assert sum("published" in text for text in words) == 1
        assert len(words) == len(own_lines(axis))


def test_every_point_is_a_cell_of_a_kept_table(axes):
    cells = set()
    for path in TABLES:
        with path.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                for name in (name for name in row if name.startswith("epsilon_at_") and row[name]):
                    accuracy = row[name.replace("epsilon", "accuracy") + "_mean"]
                    cells.add((float(row[name]), float(accuracy)))
    drawn = {(x, y) for axis in axes for line in own_lines(axis) for x, y in line.get_xydata()}
    points = {point for point in drawn if point != (1.97, 0.985)}
    assert len(points) > 20
    assert points <= cells
