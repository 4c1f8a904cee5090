"""Test figures of released labels and of ensembles, and sweeps over clusters, pools and caps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
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
    trained = made.ensemble_record(made.ensemble(teachers=50), 0.95)
    words = made.words(made.draw(name, made.collected(tmp_path, alone, trained)))
    assert "small CNN" in words
    assert "nearest-query" not in words


def test_distances_are_for_runs_with_a_mechanism_or_a_data_set_of_the_paper(tmp_path):
    mine, mnist = (made.ensemble_record(made.ensemble(dataset)) for dataset in ("mine", "mnist"))
    assert is_empty(made.draw("distance", made.collected(tmp_path, mine)))
    assert not is_empty(made.draw("distance", made.collected(tmp_path, mine, mnist)))


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


def test_different_splits_and_epochs_are_told_apart_and_an_expectation_may_lack(tmp_path):
    facts = made.ensemble(teachers=10)
    split = {**facts, "split": "seed-0_pool-100", "setting": "pool-100"}
    longer = {**facts, "epochs": 99, "ensemble": "teachers-10_iid_small-cnn_modern_epochs-99"}
    expected = {"pool-9000": 0.9, "pool-100": None}
    records = [
        made.label_set_record(made.label_set(each, "lnmax", 0.05), 0.8, expected[each["setting"]])
        for each in (facts, split, longer)
    ]
    other, usual = made.draw("noisy-accuracy", made.collected(tmp_path, *records)).axes
    assert [axis.get_title().rpartition(" · ")[2] for axis in (other, usual)] == ["pool 100", "pool 9000"]
    assert set(made.lines(usual)) == {"n = 10, 50 epochs", "n = 10, 99 epochs"}
    assert [0.05, 0.8] in [offset for dots in other.collections for offset in dots.get_offsets().tolist()]


Row = dict[str, Any]


def student(
    accuracy: float, *, clusters: int = 50, k: int = 1, sigma: float = 50.0, pool: int = 9000, seed: int = 0
) -> list[Row]:
    """Return records of cluster labels at ε = 4·√k/σ and their student."""
    facts = made.ensemble(seed=seed, teachers=600, model="nearest-query")
    facts |= {"clusters": clusters, "ensemble": f"teachers-600_queries-{clusters}", "pool": pool}
    facts |= {"setting": f"pool-{pool}", "split": f"seed-{seed}_pool-{pool}"}
    noise = {"mechanism": "sparse-gnmax", "noise": f"k-{k}_sigma-{sigma:g}", "parameters": {"k": k, "sigma": sigma}}
    of = {**facts, **made.WHOLE_POOL, **noise}
    labels = made.label_set_record(of, 0.9, 0.9) | {"queries": clusters, "answered": clusters}
    bound = made.bound_record(of, clusters, 4 * k**0.5 / sigma, "gdp", Kind.WORST_CASE)
    return [labels, bound, made.student_record(of, clusters, accuracy)]


def draw_students(name: str, folder: Path, students: list[list[Row]], namings: tuple[dict[str, Any], ...] = ()) -> Any:
    collected = [path for each in students for path in made.collected(folder, *each)]
    return made.draw(name, collected, made.models(folder, *namings, kind="name_clusters"))


def points(axis: Any) -> dict[str, list[list[float]]]:
    found = {bars.get_label(): bars.lines[0].get_xydata() for bars in axis.containers}
    return {name: np.round(points, 9).tolist() for name, points in found.items()}


def test_each_noise_has_a_line_over_the_clusters_and_named_ones_have_theirs(tmp_path: Path) -> None:
    students = [student(accuracy, clusters=clusters) for clusters, accuracy in ((20, 0.9), (100, 0.95))]
    students += [student(0.8, clusters=clusters, sigma=200) for clusters in (20, 100)]
    alone = student(0.99, clusters=30, sigma=10)
    namings = tuple(made.naming(clusters, accuracy) for clusters, accuracy in ((20, 0.7), (100, 0.75), (70, 0.1)))
    (axis,) = draw_students("clusters", tmp_path, [*students, alone], namings).axes
    assert points(axis) == {
        "k = 1, σ = 50, ε = 0.0800": [[20, 0.9], [100, 0.95]],
        "k = 1, σ = 200, ε = 0.0200": [[20, 0.8], [100, 0.8]],
        "ε = 0: as many clusters named by true labels": [[20, 0.7], [100, 0.75]],
    }
    assert list(points(axis))[1:] == ["k = 1, σ = 200, ε = 0.0200", "k = 1, σ = 50, ε = 0.0800"], "the least ε first"
    assert axis.get_title() == "MNIST · 600 teachers, nearest query\nstudent: supervised"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["20", "100"]


def test_seeds_make_a_mean_and_bars(tmp_path: Path) -> None:
    students = [student(0.9 + seed / 50, clusters=c, seed=seed) for c in (20, 100) for seed in (0, 1)]
    (axis,) = draw_students("clusters", tmp_path, students).axes
    assert points(axis) == {"k = 1, σ = 50, ε = 0.0800": [[20, 0.91], [100, 0.91]]}
    upright = axis.containers[0].lines[2][0].get_segments()[0][:, 1]
    np.testing.assert_allclose(upright, 0.91 + np.array([-1, 1]) * 0.02 / np.sqrt(2))


def test_pools_have_a_line_of_their_own_and_one_place_on_the_axis_is_no_figure(tmp_path: Path) -> None:
    students = [student(accuracy, pool=pool) for pool, accuracy in ((1000, 0.9), (3000, 0.93), (9000, 0.99))]
    (axis,) = draw_students("pool", tmp_path, students).axes
    assert points(axis) == {"T = 50, k = 1, σ = 50, ε = 0.0800": [[1000, 0.9], [3000, 0.93], [9000, 0.99]]}
    assert all(is_empty(draw_students(name, tmp_path, [student(0.9)])) for name in ("clusters", "pool", "cap"))


def test_caps_share_a_line_where_epsilon_is_the_same(tmp_path: Path) -> None:
    students = [student(0.9, k=1, sigma=50), student(0.95, k=4, sigma=100), student(0.99, k=4, sigma=50)]
    (axis,) = draw_students("cap", tmp_path, students).axes
    assert points(axis) == {"ε = 0.0800": [[1, 0.9], [4, 0.95]]}


def test_the_frontier_shows_what_public_data_alone_tell_apart(tmp_path: Path) -> None:
    namings = (made.naming(10, 0.6), made.naming(50, 0.8), made.naming(50, 0.82, seed=1))
    figure = draw_students("frontier", tmp_path, [student(0.9)], namings)
    (line,) = [each for each in figure.axes[0].get_lines() if str(each.get_label()).startswith("ε = 0")]
    assert line.get_label() == "ε = 0: 50 public clusters, named by true labels"
    assert line.get_ydata()[0] == pytest.approx(0.81)
