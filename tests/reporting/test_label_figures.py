"""Figures of released labels: which accuracy, which ε, and what stands beside the axis."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reporting import made

from patebench.core.bound import Kind


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


def test_gaussian_accuracy_draws_sigma(tmp_path):
    (axis,) = made.draw("gaussian-accuracy", *made.files(tmp_path)).axes
    assert made.lines(axis)["n = 10"].get_xdata() == pytest.approx(np.array(made.SIGMAS))
    assert not any("published" in str(dots.get_label()) for dots in axis.collections)


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


Made = list[dict[str, Any]]


def draw(folder: Path, *ensembles: Made) -> Any:
    paths = [made.write_collected(folder / f"{number}.json", each) for number, each in enumerate(ensembles)]
    return made.draw("label-frontier", paths)


def setting(value: float, accuracy: float, epsilon: float, seed: int = 0, **facts: Any) -> Made:
    """A label set of LNMax and its bounds: the least of the most queries is `epsilon`."""
    of = made.label_set(made.ensemble(seed=seed), "lnmax", value)
    return [
        made.label_set_record(of, accuracy - 0.01, accuracy) | facts,
        made.bound_record(of, 100, epsilon / 3, "pld", Kind.WORST_CASE),
        made.bound_record(of, 1000, epsilon, "pld", Kind.WORST_CASE),
        made.bound_record(of, 1000, epsilon * 1.5, "rdp", Kind.WORST_CASE),
        made.bound_record(of, 1000, epsilon / 9, "moments", Kind.DATA_DEPENDENT),
    ]


def points(axis: Any, name: str = "LNMax") -> list[list[float]]:
    (line,) = [line for label, line in made.series(axis) if label == name]
    return line


def test_a_point_is_the_expected_accuracy_at_the_least_publishable_epsilon_of_most_queries(tmp_path: Path) -> None:
    made_up = [*setting(0.2, 0.97, 20.0), *setting(0.05, 0.9, 5.0), *setting(1.0, 0.99, 90.0)]
    made_up[10]["expected_label_accuracy"] = None
    (axis,) = draw(tmp_path, made_up).axes
    np.testing.assert_allclose(points(axis), [[5.0, 0.9], [20.0, 0.97], [90.0, 0.98]])
    assert axis.get_title().endswith("250 teachers, T = 1,000")
    assert "δ = 1e-5, worst case" in axis.get_xlabel()
    assert axis.get_xscale() == "log"


def test_seeds_make_a_mean_and_bars(tmp_path: Path) -> None:
    (axis,) = draw(tmp_path, *(setting(0.05, 0.9 + seed / 50, 5.0, seed) for seed in (0, 1))).axes
    np.testing.assert_allclose(points(axis), [[5.0, 0.91]])
    (bars,) = axis.containers
    upright = bars.lines[2][1].get_segments()[0][:, 1]
    np.testing.assert_allclose(upright, 0.91 + np.array([-1, 1]) * 0.02 / np.sqrt(2))


def test_what_was_accounted_for_otherwise_has_a_panel_of_its_own(tmp_path: Path) -> None:
    other = [row | ({"queries": 500} if row.get("queries") == 1000 else {}) for row in setting(0.2, 0.97, 9.0)]
    axes = draw(tmp_path, [*setting(0.05, 0.9, 5.0), *other]).axes
    assert [axis.get_title().rpartition(" ")[2] for axis in axes] == ["500", "1,000"]
    assert [points(axis) for axis in axes] == [[[9.0, pytest.approx(0.97)]], [[5.0, pytest.approx(0.9)]]]


def test_a_line_joins_settings_of_one_cap_on_the_votes_of_a_teacher(tmp_path: Path) -> None:
    made_up = []
    for k, value, accuracy, epsilon in [(1, 0.1, 0.9, 1), (4, 0.2, 0.8, 2), (1, 0.3, 0.95, 3), (4, 0.4, 0.9, 4)]:
        parameters = {"parameters": {"k": k, "gamma": value}}
        made_up += [row | (parameters if "parameters" in row else {}) for row in setting(value, accuracy, epsilon)]
    (axis,) = draw(tmp_path, made_up).axes
    assert [[x for x, _ in line] for label, line in made.series(axis) if label == "LNMax"] == [[1, 3], [2, 4]]


def test_a_line_joins_what_one_parameter_tells_apart(tmp_path: Path) -> None:
    made_up = []
    for value, unbiased, accuracy, cost in [
        (0.1, 0, 0.3, 1),
        (0.1, 1, 0.2, 1),
        (0.3, 0, 0.9, 3),
        (0.3, 1, 0.7, 3),
        (1, 1, 0.95, 9),
    ]:
        parameters = {
            "parameters": {"gamma": value, "unbiased": unbiased},
            "noise": f"gamma-{value}_unbiased-{unbiased}",
        }
        made_up += [
            row | {key: parameters[key] for key in parameters if key in row} for row in setting(value, accuracy, cost)
        ]
    (axis,) = draw(tmp_path, made_up).axes
    lines = [[y for _, y in line] for label, line in made.series(axis) if label == "LNMax"]
    assert lines == [pytest.approx([0.3, 0.9]), pytest.approx([0.2, 0.7, 0.95])]


def test_a_published_accuracy_stands_at_the_epsilon_of_its_setting_here(tmp_path: Path) -> None:
    (axis,) = draw(tmp_path, [*setting(0.05, 0.9, 5.0), *setting(0.2, 0.97, 20.0)]).axes
    hollow = {dots.get_label(): dots.get_offsets().tolist() for dots in axis.collections if "pub" in dots.get_label()}
    assert hollow == {"published: PATE 2017, LNMax": [[5.0, 0.9318]]}


def test_what_has_no_place_on_the_axis_is_said(tmp_path: Path) -> None:
    made_up = [*setting(0.05, 0.9, 5.0), *setting(0.2, 0.97, math.inf), *setting(0.01, 0.1, 0.0)]
    (axis,) = draw(tmp_path, made_up).axes
    assert len(points(axis)) == 1
    assert "ε = ∞: LNMax, γ = 0.2 (97%)\nε = 0: LNMax, γ = 0.01 (10%)" in axis.get_xlabel()


def test_abstaining_is_said_and_is_no_place_on_the_frontier(tmp_path: Path) -> None:
    silent = setting(0.1, 0.999, 9.0, answered=4500)
    (axis,) = draw(tmp_path, [*setting(0.05, 0.9, 5.0), *silent, *setting(0.2, 0.97, 20.0)]).axes
    assert [text.get_text() for text in axis.texts] == ["50% answered"]
    np.testing.assert_allclose(points(axis, "frontier of those that always answer"), [[5.0, 0.9], [20.0, 0.97]])
    assert len(points(axis)) == 3
