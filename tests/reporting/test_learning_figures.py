"""Test figures of ensembles and students."""

import numpy as np
import pytest
from tests.reporting import made

from patebench.reporting.style import (
    is_empty,
)


def test_gap_draws_mean_and_deviation(tmp_path):
    (axis,) = made.draw("gap", *made.files(tmp_path, seeds=(0, 2))).axes
    (bars,) = axis.containers
    line, _, (upright,) = bars.lines
    assert line.get_xdata() == pytest.approx([10, 250])
    assert line.get_ydata() == pytest.approx([0.94, 0.892])
    low, high = upright.get_segments()[0][:, 1]
    assert high - low == pytest.approx(2 * 0.004 / np.sqrt(2))


@pytest.mark.parametrize("name", ["gap", "distance"])
def test_records_that_vote_by_themselves_are_no_part_of_figures_of_ensembles(tmp_path, name):
    alone = made.ensemble_record(made.ensemble(teachers=60000, model="nearest-query"), 0.95)
    alone |= {"plurality_accuracy_test": None}
    path = made.write_collected(tmp_path / "c.json", [alone, made.ensemble_record(made.ensemble(teachers=50), 0.95)])
    words = made.words(made.draw(name, [path]))
    assert "small CNN" in words
    assert "nearest-query" not in words


def test_distances_are_for_runs_with_a_mechanism_or_a_data_set_of_the_paper(tmp_path):
    records = [made.ensemble_record(made.ensemble(dataset)) for dataset in ("mine", "mnist")]
    one, both = (made.write_collected(tmp_path / f"{n}.json", records[:n]) for n in (1, 2))
    assert is_empty(made.draw("distance", [one]))
    assert not is_empty(made.draw("distance", [both]))
