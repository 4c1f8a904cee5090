"""Test tables of ensembles, labels, active learning and distillation against values worked out by hand."""

import math

import pandas as pd
import pytest
from tests.reporting import made

from patebench.core.errors import ArtefactError
from patebench.reporting.figures import FIGURES
from patebench.reporting.style import themed
from patebench.reporting.tables import TABLES

PUBLISHED = made.PRINTED


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


def test_gains_are_over_random_queries_of_the_same_seed(table):
    rows = {row["strategy"]: row for row in table.to_dict("records")}
    assert set(rows) == {"random", "least-confident", "siamese"}
    assert {row["queries"] for row in rows.values()} == {200}
    assert rows["random"]["gain_mean"] == 0
    assert rows["least-confident"]["gain_mean"] == pytest.approx(0.03)
    assert rows["least-confident"]["gain_std"] == pytest.approx(0.02 / 2**0.5)
    assert rows["siamese"]["gain_mean"] == pytest.approx(-0.01)
    printed = [rows[strategy]["published_gain"] for strategy in ("least-confident", "random")]
    assert (printed[0], pd.isna(printed[1])) == ("4–10", True)


def test_first_rounds_are_compared_where_they_differ(tmp_path):
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


def test_gains_are_over_the_plurality_of_the_same_seed_and_samples(records):
    rows = TABLES.load("distillation").build(records, PUBLISHED).set_index(["labels", "temperature", "samples"])
    gains = rows["gain_mean"]
    assert gains["plurality", 1, 100] == gains["plurality", 1, 1000] == 0
    found = [gains["soft", 1, 100], gains["soft", 5, 100], gains["soft", 5, 1000]]
    assert found == pytest.approx([0.03, 0, 0.03])
    first = rows.loc[("soft", 1, 100)]
    assert (first["gain_std"], first["accuracy_mean"]) == pytest.approx((0.02 / 2**0.5, 0.58))


def test_the_figure_has_a_line_for_each_kind_of_label(records):
    with themed():
        figure = FIGURES.load("distillation")(records, PUBLISHED)
        figure.draw_without_rendering()
    (axis,) = figure.axes
    lines = {bars.get_label(): bars.lines[0] for bars in axis.containers}
    assert list(lines) == ["plurality", "soft, T = 1", "soft, T = 5"]
    assert lines["soft, T = 1"].get_xydata().ravel() == pytest.approx([100, 0.58, 1000, 0.81])
    assert "n = 50" in axis.get_title()


def test_nothing_shows_it_without_saying_that_it_is_not_private(records):
    table = TABLES.load("distillation")
    text = table.markdown(table.build(records, PUBLISHED))
    assert "not private" in text.splitlines()[0]
    assert all("∞" in line for line in text.splitlines()[2:])
    with themed():
        (axis,) = FIGURES.load("distillation")(records, PUBLISHED).axes
    assert "ε = ∞" in axis.get_xlabel()
    for kind in ("figures", "tables"):
        caption = (made.CAPTIONS / kind / "distillation.rst").read_text(encoding="utf-8")
        assert "of this is private" in caption.replace("\n", " ")
    assert TABLES.load("utility-privacy").build(records, PUBLISHED).empty, "it stands beside no private student"


def test_an_epsilon_of_a_distillation_cannot_be_omitted(tmp_path, records):
    row = {name: value for name, value in records.distillations.iloc[0].to_dict().items() if value == value}
    del row["epsilon"]
    with pytest.raises(ArtefactError, match="lacks 'epsilon'"):
        made.load_records(made.collected(tmp_path, {"record": "distillation", **row, "seed": 0, "samples": 1}))
