"""Test figures of released labels and of ensembles."""

import numpy as np
import pytest
from tests.reporting import made

from patebench.reporting.style import is_empty


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


def test_noisy_accuracy_draws_expectation_releases_and_the_published_point(tmp_path):
    figure = made.draw("noisy-accuracy", *made.files(tmp_path, seeds=(0, 2)))
    (axis,) = figure.axes
    lines = made.lines(axis)
    assert set(lines) == {"n = 10", "n = 250"}
    expected = [0.98 - 0.8 * 2.0 ** (-gamma * 250 / 3) + 0.001 for gamma in made.GAMMAS]
    assert lines["n = 250"].get_xdata() == pytest.approx(np.array(made.GAMMAS))
    assert lines["n = 250"].get_ydata() == pytest.approx(np.array(expected))
    points = {dots.get_label(): dots for dots in axis.collections}
    assert points["published: PATE 2017, n = 250"].get_offsets().tolist() == [[0.05, 0.9318]]
    drawn = [dots for dots in axis.collections if len(dots.get_offsets()) == 2 * len(made.GAMMAS)]
    assert len(drawn) == 2
    assert axis.get_xscale() == "log"
    assert "ε per query" in axis.get_xlabel()
    assert "2γ-DP" in axis.get_xlabel()


def test_labels_without_an_expectation_are_still_drawn(tmp_path):
    records = [made.label_set_record(made.label_set(made.ensemble(), "lnmax", 0.05), 0.9, None)]
    (axis,) = made.draw("noisy-accuracy", [made.write_collected(tmp_path / "c.json", records)]).axes
    assert [0.05, 0.9] in [offset for dots in axis.collections for offset in dots.get_offsets().tolist()]


def test_different_splits_and_epochs_are_told_apart(tmp_path):
    split = {**made.ensemble(teachers=10), "split": "seed-0_pool-100", "setting": "pool-100"}
    longer = {**made.ensemble(teachers=10), "epochs": 99, "ensemble": "teachers-10_iid_small-cnn_modern_epochs-99"}
    records = [
        made.label_set_record(made.label_set(facts, "lnmax", 0.05), 0.9, 0.9)
        for facts in (made.ensemble(teachers=10), split, longer)
    ]
    figure = made.draw("noisy-accuracy", [made.write_collected(tmp_path / "c.json", records)])
    assert [axis.get_title().rpartition(" · ")[2] for axis in figure.axes] == ["pool 100", "pool 9000"]
    assert set(made.lines(figure.axes[1])) == {"n = 10, 50 epochs", "n = 10, 99 epochs"}
