"""The figure of labels against ε: which accuracy, which ε, and what stands beside the axis."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.figures import FIGURES
from patebench.reporting.published import read_published
from patebench.reporting.style import themed

Made = list[dict[str, Any]]


def draw(folder: Path, *ensembles: Made) -> Any:
    paths = [made.write_collected(folder / f"{number}.json", each) for number, each in enumerate(ensembles)]
    with themed():
        figure = FIGURES.load("label-frontier")(made.load_records(paths), read_published(made.PUBLISHED))
        figure.draw_without_rendering()
    return figure


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
    (line,) = [line for line in axis.get_lines() if line.get_label() == name]
    found: list[list[float]] = line.get_xydata().tolist()
    return found


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
    lines = [line.get_xdata().tolist() for line in axis.get_lines() if line.get_label() == "LNMax"]
    assert lines == [[1, 3], [2, 4]]


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
    lines = [line.get_ydata().tolist() for line in axis.get_lines() if line.get_label() == "LNMax"]
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
