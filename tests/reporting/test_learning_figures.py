"""Figures of ensembles and of how students learn."""

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


def test_learning_curves_draw_the_looks_of_each_student(tmp_path):
    figure = made.draw("learning-curves", *made.files(tmp_path, teachers=(250,), seeds=(0,)))
    (axis,) = figure.axes
    drawn = axis.get_lines()
    assert {tuple(line.get_xdata()) for line in drawn} == {(0.25, 0.5, 0.75, 1.0)}
    assert {line.get_label() for line in drawn} == {"T = 100", "T = 1000"}
    assert "supervised" in axis.get_title()


def test_a_learning_curve_is_the_mean_and_a_deviation_of_students_measured_at_different_epochs(tmp_path):
    often = [{"epoch": epoch, "accuracy": accuracy} for epoch, accuracy in ((1, 0.2), (2, 0.6), (3, 0.8), (4, 0.9))]
    seldom = [{"epoch": 2, "accuracy": 0.4}, {"epoch": 4, "accuracy": 0.8}]
    paths = []
    for seed, curve in enumerate((often, seldom)):
        facts = made.label_set(made.ensemble(seed=seed), "lnmax", 0.05)
        record = made.student_record(facts, 100, 0.9) | {"learning_curve": curve}
        paths.append(made.write_collected(tmp_path / f"{seed}.json", [record]))
    (axis,) = made.draw("learning-curves", paths).axes
    (line,), (band,) = axis.get_lines(), axis.collections
    assert line.get_xdata() == pytest.approx([0.5, 0.75, 1.0])
    assert line.get_ydata() == pytest.approx([0.5, 0.7, 0.85])
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(0.5 - np.std([0.6, 0.4], ddof=1))


def test_students_of_selected_queries_have_learning_curves_and_pictures_too(tmp_path):
    facts, pixels = made.label_set(made.ensemble(), "lnmax", 0.05), np.zeros((6, 8), np.uint8)
    students = [made.student_record(facts, 100, 0.9), made.selected_student_record(facts, 100, 0.96)]
    students[1] |= {"picture": made.picture(pixels)}
    path = made.write_collected(tmp_path / "c.json", students)
    panels = made.draw("learning-curves", [path]).axes
    ends = {axis.get_title(): [line.get_ydata()[-1] for line in axis.get_lines()] for axis in panels}
    assert ends == {"MNIST · supervised": [0.9], "MNIST · supervised · prototypes": [0.96]}
    assert len({axis.get_ylim() for axis in panels}) == 1, "curves of one data set can be compared"
    (picture,) = made.draw("generated-samples", [path]).axes
    assert picture.get_title().endswith("T = 100 prototypes")


def test_generated_samples_show_the_picture_itself(tmp_path):
    pixels = np.arange(48, dtype=np.uint8).reshape(6, 8) * 5
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    record = made.student_record(facts, 100, 0.9) | {"picture": made.picture(pixels)}
    figure = made.draw("generated-samples", [made.write_collected(tmp_path / "c.json", [record])])
    (image,) = figure.axes[0].get_images()
    assert np.array_equal(np.round(np.asarray(image.get_array()) * 255).astype(np.uint8), pixels)
    assert "T = 100" in figure.axes[0].get_title()


def test_students_without_curves_or_pictures_are_told(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    record = made.student_record(facts, 100, 0.9) | {"learning_curve": [{"epoch": 1}]}
    path = made.write_collected(tmp_path / "c.json", [record])
    assert is_empty(made.draw("learning-curves", [path]))
    assert is_empty(made.draw("generated-samples", [path]))


@pytest.mark.parametrize("name", ["gap", "distance"])
def test_records_that_vote_by_themselves_are_no_part_of_figures_of_ensembles(tmp_path, name):
    alone = made.ensemble_record(made.ensemble(teachers=60000, model="nearest-query"), 0.95)
    alone |= {"plurality_accuracy_test": None}
    path = made.write_collected(tmp_path / "c.json", [alone, made.ensemble_record(made.ensemble(teachers=50), 0.95)])
    words = made.words(made.draw(name, [path]))
    assert "small CNN" in words
    assert "nearest-query" not in words


def test_a_student_measured_once_is_among_the_learning_curves(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    record = made.student_record(facts, 100, 0.9) | {"learning_curve": [{"epoch": 4, "accuracy": 0.9}]}
    (axis,) = made.draw("learning-curves", [made.write_collected(tmp_path / "c.json", [record])]).axes
    (line,) = axis.get_lines()
    assert line.get_xydata().tolist() == [[1.0, 0.9]]


def test_models_that_are_private_themselves_have_learning_curves_too(tmp_path):
    epochs = [{"epoch": epoch, "accuracy": epoch / 10} for epoch in (2, 4)]
    steps = [{"step": step, "accuracy": step / 1000} for step in (100, 200, 400)]
    several = made.private_model(2.0) | {"curve": steps}
    several["bounds"] = [*several["bounds"], several["bounds"][0] | {"accountant": "rdp", "epsilon": 3.0}]
    facts = {"system": "PET-DL", "form": "noisy-knowledge", "curve": epochs}
    students = [made.private_model() | facts | {"teachers": n, "private_model": f"published-{n}"} for n in (2, 10)]
    models = [*students, several, made.private_model(4.0)]  # the last has no curve
    paths = [made.write_private_model(tmp_path / f"{n}.json", each) for n, each in enumerate(models)]
    dpsgd, petdl = made.draw("learning-curves", [], models=paths).axes
    assert [line.get_label() for line in petdl.get_lines()] == ["n = 2, ε = 1.00", "n = 10, ε = 1.00"]
    assert petdl.get_lines()[0].get_xydata().tolist() == [[0.5, 0.2], [1.0, 0.4]]
    (line,) = dpsgd.get_lines()
    assert line.get_label() == "ε = 2.00"
    assert line.get_xydata().tolist() == [[0.25, 0.1], [0.5, 0.2], [1.0, 0.4]]


def test_claims_tell_no_curves_of_an_ensemble_apart_and_no_two_lines_look_alike(tmp_path):
    curve = [{"epoch": 1, "accuracy": 0.5}]
    claims = []
    for n, epsilon, teachers in ((0, 1.0, 4), (1, 3.0, 4), (2, 1.0, None)):
        model = made.private_model(epsilon, form="published") | {"curve": curve, "teachers": teachers}
        model |= {"private_model": str(n), "system": "PET-DL" if teachers else "Private-kNN"}
        model["bounds"] = [each | {"kind": "claimed"} for each in model["bounds"]]
        claims.append(model)
    sound = [made.private_model(float(epsilon)) | {"curve": curve} for epsilon in range(1, 16)]
    paths = [made.write_private_model(tmp_path / f"{n}.json", each) for n, each in enumerate((*claims, *sound))]
    dpsgd, petdl, knn = (axis for axis in made.draw("learning-curves", [], models=paths).axes if axis.get_title())
    assert list(made.lines(petdl)) == ["n = 4"]
    assert list(made.lines(knn)) == ["ε = 1.00, claimed"]
    looks = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in dpsgd.get_lines()}
    assert len(looks) == 15


def test_distances_are_for_runs_with_a_mechanism_or_a_data_set_of_the_paper(tmp_path):
    records = [made.ensemble_record(made.ensemble(dataset)) for dataset in ("mine", "mnist")]
    one, both = (made.write_collected(tmp_path / f"{n}.json", records[:n]) for n in (1, 2))
    assert is_empty(made.draw("distance", [one]))
    assert not is_empty(made.draw("distance", [both]))
