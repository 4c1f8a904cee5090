"""Distillation in figure and table: gains worked out by hand, and never without the word that it is not private."""

import pytest
from tests.reporting import made

from patebench.core.errors import ArtefactError
from patebench.reporting.figures import FIGURES
from patebench.reporting.published import read_published
from patebench.reporting.style import themed
from patebench.reporting.tables import TABLES

PUBLISHED = read_published(made.PUBLISHED)
#: Accuracies at 100 and 1000 samples of seeds 0 and 1.
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
        files.append(made.write_collected(tmp_path / f"{seed}.json", [made.ensemble_record(facts), *learnt]))
    return made.load_records(files)


def test_gains_are_over_the_plurality_of_the_same_seed_and_samples(records):
    rows = TABLES.load("distillation").build(records, PUBLISHED).to_dict("records")
    gains = {(row["labels"], row["temperature"], row["samples"]): row["gain_mean"] for row in rows}
    assert gains["plurality", 1, 100] == gains["plurality", 1, 1000] == 0
    assert gains["soft", 1, 100] == pytest.approx(0.03)
    assert gains["soft", 5, 100] == pytest.approx(0.0)
    assert gains["soft", 5, 1000] == pytest.approx(0.03)
    (first,) = [row for row in rows if (row["labels"], row["temperature"], row["samples"]) == ("soft", 1, 100)]
    assert first["gain_std"] == pytest.approx(0.02 / 2**0.5)
    assert first["accuracy_mean"] == pytest.approx(0.58)


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
    for name in ("utility-privacy", "frontier"):
        assert TABLES.load(name).build(records, PUBLISHED).empty, "it stands beside no private student"


def test_an_epsilon_of_a_distillation_can_not_be_left_out(tmp_path, records):
    row = records.distillations.iloc[0].to_dict()
    broken = {"record": "distillation", **{name: value for name, value in row.items() if name != "epsilon"}}
    with pytest.raises(ArtefactError, match="lacks 'epsilon'"):
        made.load_records([made.write_collected(tmp_path / "broken.json", [{**broken, "seed": 0, "samples": 1}])])
