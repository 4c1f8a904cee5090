"""Test tables and figures of ensembles, labels, active learning, distillation and sweeps against values by hand."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.reporting import made
from tests.reporting.made import cluster_student as student

from patebench.core.errors import ArtefactError
from patebench.reporting.style import is_empty
from patebench.reporting.tables import TABLES


def test_ensembles_with_published_values(tmp_path):
    frame = made.table("ensembles", *made.files(tmp_path, ("mnist", "svhn"), seeds=(0, 2)))
    large = frame[frame["teachers"] == 250]
    assert large["published_teacher_accuracy"].tolist() == [0.8386, 0.8318]
    assert large["published_label_accuracy"].tolist() == [0.9318, 0.8779]
    assert frame[frame["teachers"] == 10]["published_label_accuracy"].isna().all()
    row, _ = large.to_dict("records")
    assert row["teacher_accuracy_mean"] == pytest.approx((0.94 + 0.944) / 2)
    assert row["teacher_accuracy_std"] == pytest.approx(0.004 / math.sqrt(2))
    assert row["gap_mean"] == pytest.approx(0.892)
    expected = 0.98 - 0.8 * 2.0 ** (-0.05 * 250 / 3)
    assert row["label_accuracy_mean"] == pytest.approx(expected)  # drawn: seed adds and takes the same
    assert (row["teacher_accuracy_min"], row["teacher_accuracy_max"]) == (0.9, 0.99)


def test_noisy_accuracy_lists_every_setting_in_order(tmp_path):
    frame = made.table("noisy-accuracy", *made.files(tmp_path))
    assert len(frame) == 14
    noises = ["sigma-10", "sigma-40", "sigma-100", "gamma-0.01", "gamma-0.05", "gamma-0.2", "gamma-1"]
    assert frame["noise"].tolist()[:7] == noises
    row = frame[(frame["teachers"] == 250) & (frame["noise"] == "gamma-0.05")].iloc[0]
    assert row["published_label_accuracy"] == 0.9318
    assert row["expected_label_accuracy_mean"] == pytest.approx(0.98 - 0.8 * 2.0 ** (-12.5 / 3) + 0.0005)


def rounds(seed, strategy, accuracy, opening="random"):
    """Return records of a student that selects 100 samples by an opening and then 100 by a strategy."""
    facts = made.label_set(made.ensemble(seed=seed), "lnmax", 0.05)
    how = {"student": "supervised_mlp", "method": "supervised", "student_model": "mlp", "student_recipe": "modern"}
    got = {"answered": 100, "kept": 0, "label_accuracy": 0.9, "accuracy": 0.5}
    first = {"record": "student", **made.selected(facts, (opening, 100)), **how, **got, "queries": 100}
    again = {"record": "student", **made.selected(facts, (opening, 100), (strategy, 100)), **how, **got}
    return [first, again | {"queries": 200, "answered": 200, "accuracy": accuracy}]


@pytest.fixture
def table(tmp_path):
    """Return a table of two seeds, in which each strategy gains 2 and 4 points, or loses 1 and 1."""
    files = []
    for seed, base in ((0, 0.6), (1, 0.7)):
        reached = {"random": base, "least-confident": base + (0.02, 0.04)[seed], "siamese": base - 0.01}
        later = [rounds(seed, strategy, accuracy)[1] for strategy, accuracy in reached.items()]
        files += made.collected(tmp_path, *made.records(seed=seed), rounds(seed, "random", base)[0], *later)
    return made.table("active-learning", files)


def test_gain_is_relative_to_random_queries_of_the_same_seed(table):
    rows = {row["strategy"]: row for row in table.to_dict("records")}
    assert set(rows) == {"random", "least-confident", "siamese"}
    assert {row["queries"] for row in rows.values()} == {200}
    assert rows["random"]["gain_mean"] == 0
    assert rows["least-confident"]["gain_mean"] == pytest.approx(0.03)
    assert rows["least-confident"]["gain_std"] == pytest.approx(0.02 / 2**0.5)
    assert rows["siamese"]["gain_mean"] == pytest.approx(-0.01)
    printed = [rows[strategy]["published_gain"] for strategy in ("least-confident", "random")]
    assert (printed[0], pd.isna(printed[1])) == ("4–10", True)


def test_first_rounds_with_different_strategies_are_compared(tmp_path):
    records = [*made.records(), rounds(0, "random", 0.6)[0], rounds(0, "prototypes", 0.7, "prototypes")[0]]
    records[-1]["accuracy"] = 0.58
    built = made.table("active-learning", [made.write_collected(tmp_path / "c.json", records)])
    gains = dict(zip(built["strategy"], built["gain_mean"], strict=True))
    assert gains == {"prototypes": pytest.approx(0.08), "random": 0}
    assert set(built["queries"]) == {100}


#: Accuracies at 100 and 1000 samples for seeds 0 and 1.
REACHED = {
    ("plurality", 1.0): {100: (0.50, 0.60), 1000: (0.80, 0.80)},
    ("soft", 1.0): {100: (0.52, 0.64), 1000: (0.81, 0.81)},
    ("soft", 5.0): {100: (0.51, 0.59), 1000: (0.83, 0.83)},
}


@pytest.fixture
def records(tmp_path):
    files = []
    for seed in (0, 1):
        facts = made.ensemble(seed=seed, teachers=50)
        student = {"student_model": "small-cnn", "student_recipe": "modern", "student_epochs": 20}
        common = {"record": "distillation", **facts, **student, "distilled": "small-cnn_modern", "epsilon": "inf"}
        learnt = [
            {**common, "labels": labels, "temperature": temperature, "samples": samples, "accuracy": accuracies[seed]}
            for (labels, temperature), grid in REACHED.items()
            for samples, accuracies in grid.items()
        ]
        files += made.collected(tmp_path, made.ensemble_record(facts), *learnt)
    return made.load_records(files)


def test_gain_is_relative_to_plurality_labels_of_the_same_seed(records):
    rows = TABLES.load("distillation").build(records, made.PRINTED).set_index(["labels", "temperature", "samples"])
    gains = rows["gain_mean"]
    assert gains["plurality", 1, 100] == gains["plurality", 1, 1000] == 0
    found = [gains["soft", 1, 100], gains["soft", 5, 100], gains["soft", 5, 1000]]
    assert found == pytest.approx([0.03, 0, 0.03])
    first = rows.loc[("soft", 1, 100)]
    assert (first["gain_std"], first["accuracy_mean"]) == pytest.approx((0.02 / 2**0.5, 0.58))


def test_the_figure_has_a_line_for_each_kind_of_label(records):
    (axis,) = made.draw_records("distillation", records).axes
    lines = {bars.get_label(): bars.lines[0] for bars in axis.containers}
    assert list(lines) == ["plurality", "soft, T = 1", "soft, T = 5"]
    assert lines["soft, T = 1"].get_xydata().ravel() == pytest.approx([100, 0.58, 1000, 0.81])
    assert "n = 50" in axis.get_title()


def test_distillation_is_always_marked_as_not_private(records):
    table = TABLES.load("distillation")
    text = table.markdown(table.build(records, made.PRINTED))
    assert "not private" in text.splitlines()[0]
    assert all("∞" in line for line in text.splitlines()[2:])
    (axis,) = made.draw_records("distillation", records).axes
    assert "ε = ∞" in axis.get_xlabel()
    for kind in ("figures", "tables"):
        caption = (made.CAPTIONS / kind / "distillation.rst").read_text(encoding="utf-8")
        assert "of this is private" in caption.replace("\n", " ")
    assert TABLES.load("utility-privacy").build(records, made.PRINTED).empty, "the table has private students only"


def test_an_epsilon_of_a_distillation_cannot_be_omitted(tmp_path, records):
    row = {name: value for name, value in records.distillations.iloc[0].to_dict().items() if value == value}
    del row["epsilon"]
    with pytest.raises(ArtefactError, match="lacks 'epsilon'"):
        made.load_records(made.collected(tmp_path, {"record": "distillation", **row, "seed": 0, "samples": 1}))


def test_gap_draws_mean_and_deviation(tmp_path):
    (axis,) = made.draw("gap", *made.files(tmp_path, seeds=(0, 2))).axes
    (bars,) = axis.containers
    line, _, (upright,) = bars.lines
    assert line.get_xdata() == pytest.approx([10, 250])
    assert line.get_ydata() == pytest.approx([0.94, 0.892])
    low, high = upright.get_segments()[0][:, 1]
    assert high - low == pytest.approx(2 * 0.004 / np.sqrt(2))


def test_figures_of_ensembles_omit_voting_records(tmp_path):
    alone = made.ensemble_record(made.ensemble(teachers=60000, model="nearest-query"), 0.95)
    alone |= {"plurality_accuracy_test": None}
    trained = made.ensemble_record(made.ensemble(teachers=50), 0.95)
    written = made.collected(tmp_path, alone, trained)
    for words in (made.words(made.draw(name, written)) for name in ("gap", "distance")):
        assert "small CNN" in words
        assert "nearest-query" not in words


def test_distance_figure_needs_a_mechanism_or_data_set_of_the_paper(tmp_path):
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


def test_noisy_accuracy_separates_splits_and_epochs(tmp_path):
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


def draw_students(name: str, folder: Path, students: Any, namings: Any = ()) -> Any:
    collected = [path for each in students for path in made.collected(folder, *each)]
    return made.draw(name, collected, made.models(folder, *namings, kind="name_clusters"))


def points(axis: Any) -> dict[str, list[list[float]]]:
    found = {bars.get_label(): bars.lines[0].get_xydata() for bars in axis.containers}
    return {name: np.round(points, 9).tolist() for name, points in found.items()}


def test_clusters_figure_has_a_line_per_noise_and_for_named_clusters(tmp_path: Path) -> None:
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
    assert list(points(axis))[1:] == ["k = 1, σ = 200, ε = 0.0200", "k = 1, σ = 50, ε = 0.0800"], "the smallest ε first"
    assert axis.get_title() == "MNIST · 600 teachers, nearest query\nstudent: supervised"
    (without,) = draw_students("clusters", tmp_path / "without", students).axes
    assert list(points(without)) == list(points(axis))[1:]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["20", "100"]


def test_pool_figure_has_a_line_and_one_point_is_no_figure(tmp_path: Path) -> None:
    students = [student(accuracy, pool=pool) for pool, accuracy in ((1000, 0.9), (3000, 0.93), (9000, 0.99))]
    (axis,) = draw_students("pool", tmp_path, students).axes
    assert points(axis) == {"T = 50, k = 1, σ = 50, ε = 0.0800": [[1000, 0.9], [3000, 0.93], [9000, 0.99]]}
    assert all(is_empty(draw_students(name, tmp_path, [student(0.9)])) for name in ("clusters", "pool", "cap"))


def test_cap_figure_has_a_line_per_epsilon(tmp_path: Path) -> None:
    students = [student(0.9, k=1, sigma=50), student(0.95, k=4, sigma=100), student(0.99, k=4, sigma=50)]
    (axis,) = draw_students("cap", tmp_path, students).axes
    assert points(axis) == {"ε = 0.0800": [[1, 0.9], [4, 0.95]]}


def test_frontier_shows_the_accuracy_of_named_clusters(tmp_path: Path) -> None:
    namings = (made.naming(10, 0.6), made.naming(50, 0.8), made.naming(50, 0.82, seed=1))
    figure = draw_students("frontier", tmp_path, [student(0.9)], namings)
    (line,) = [each for each in figure.axes[0].get_lines() if str(each.get_label()).startswith("ε = 0")]
    assert line.get_label() == "ε = 0: 50 public clusters, named by true labels"
    assert line.get_ydata()[0] == pytest.approx(0.81)
