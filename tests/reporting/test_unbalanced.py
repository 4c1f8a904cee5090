"""Test unbalanced classes: the share of the largest class is shown with every accuracy, and compared in findings."""

from pathlib import Path
from typing import Any

import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.findings import findings
from patebench.reporting.publishable import Release, Student
from patebench.reporting.rows import rows
from patebench.reporting.tables import TABLES
from patebench.reporting.tables.table import read_csv
from patebench.stages.compare import compare_records

RECALLS = ({"healthy": 0.98, "mild": 0.12, "severe": None}, {"healthy": 0.96, "mild": 0.2, "severe": 0.0})


def student(seed: int, accuracy: float, largest: float = 0.693, recall: Any = None) -> list[dict[str, Any]]:
    """Return records of a student of unbalanced classes and a bound on its labels."""
    facts = made.label_set(made.ensemble("patients", seed), "lnmax", 0.05)
    recall = recall or RECALLS[seed]
    known = [share for share in recall.values() if share is not None]
    beside = {"largest_class": largest, "balanced_accuracy": sum(known) / len(known), "recall": recall}
    labels = {f"label_{name}": value for name, value in beside.items()} | {"uncovered": ["severe"] if seed else []}
    record = made.student_record(facts, 100, accuracy) | beside | labels
    return [record, made.bound_record(facts, 100, 2.5, "pld", Kind.WORST_CASE)]


def records(folder: Path, accuracies: tuple[float, float], **more: Any) -> Any:
    students = [student(seed, accuracy, **more) for seed, accuracy in enumerate(accuracies)]
    return made.load_records([path for each in students for path in made.collected(folder, *each)])


def utility(loaded: Any) -> Any:
    return TABLES.load("utility-privacy").build(loaded, made.PRINTED)


def test_the_table_shows_base_rate_balanced_accuracy_and_recall(tmp_path: Path) -> None:
    frame = utility(records(tmp_path, (0.714, 0.716)))
    (row,) = frame.to_dict("records")
    assert row["largest_class_mean"] == pytest.approx(0.693)
    assert row["balanced_accuracy_mean"] == pytest.approx((0.55 + 1.16 / 3) / 2)
    assert row["recall_mean"] == pytest.approx({"healthy": 0.97, "mild": 0.16, "severe": 0.0})
    assert row["uncovered"] == "“severe”"
    table = TABLES.load("utility-privacy")
    cells = dict(zip(*table.rows(frame), strict=True))
    assert cells["Largest class %"] == "69.30"
    assert cells["Recall %"] == "healthy 97.0, mild 16.0, severe 0.0"
    assert read_csv(table.csv(frame))["recall_in_words"].tolist() == [cells["Recall %"]]


def test_balanced_classes_show_the_base_rate_alone_and_older_records_nothing(tmp_path: Path) -> None:
    balanced = {"largest": 0.35, "recall": {"a": 0.9, "b": 0.9, "c": 0.9}}
    headings = TABLES.load("utility-privacy").rows(utility(records(tmp_path, (0.9, 0.9), **balanced)))[0]
    assert "Largest class %" in headings
    assert not {"Recall %", "Balanced accuracy %"} & set(headings)
    frame = utility(made.load_records(*made.files(tmp_path)))
    assert "Largest class %" not in TABLES.load("utility-privacy").rows(frame)[0]
    assert not any("largest class" in line for line in findings({"utility-privacy": frame}))


@pytest.mark.parametrize(("accuracies", "better"), [((0.714, 0.716), True), ((0.68, 0.693), False)])
def test_a_finding_states_the_base_rate(tmp_path: Path, accuracies: tuple[float, float], better: bool) -> None:
    found = findings({"utility-privacy": utility(records(tmp_path, accuracies))})
    (best,) = [line for line in found if "best student" in line]
    assert "predicting the largest class" in best
    assert "69.30 %" in best
    assert ("no better than" in best) is not better
    assert any("severe" in line and "no released label" in line for line in found)


def test_a_class_named_by_a_number_keeps_its_name_in_files(tmp_path: Path) -> None:
    record, bound = student(0, 0.9)
    record["uncovered"] = ["3", "a, b"]
    frame = utility(made.load_records(made.collected(tmp_path, record, bound)))
    read = read_csv(TABLES.load("utility-privacy").csv(frame))
    (line,) = [line for line in findings({"utility-privacy": read}) if "no released label" in line]
    assert "classes “3” and “a, b” in 1 of 1 label set" in line


def test_rows_contain_recall_by_class(tmp_path: Path) -> None:
    (row,) = rows(records(tmp_path, (0.714, 0.716)), made.PRINTED).rows
    assert row.accuracy.largest_class == pytest.approx(0.693)
    assert row.accuracy.recall == pytest.approx({"healthy": 0.97, "mild": 0.16, "severe": 0.0})
    assert row.label_accuracy is not None
    assert row.label_accuracy.balanced_accuracy == pytest.approx((0.55 + 1.16 / 3) / 2)


def test_two_runs_are_compared_class_by_class(tmp_path: Path) -> None:
    frame = compare_records(records(tmp_path, (0.714, 0.716)), records(tmp_path / "other", (0.73, 0.74)))
    lines = frame.set_index("what")
    assert lines.loc["student accuracy", "largest_class_other"] == pytest.approx(0.693)
    assert lines.loc["recall of a student, class severe", "seeds_one"] == 1, "one test set has no such sample"
    assert lines.loc["balanced accuracy of a student", "one"] == pytest.approx((0.55 + 1.16 / 3) / 2)


def test_publishable_page_shows_recall_and_classes_without_a_label() -> None:
    learnt = Student(
        method="supervised", model="mlp", queries=3, labels=3, accuracy=0.7,
        largest_class=0.69, balanced_accuracy=0.4, recall={"healthy": 1.0, "mild": 0.2, "severe": 0.0},
    )  # fmt: skip
    assert [heading for heading, _ in learnt.shares] == ["Accuracy", "Largest class", "Balanced accuracy", "Recall %"]
    pool = {"dataset": "patients", "class_names": ["healthy", "mild", "severe"]}
    released = Release(labels=[0, -1, 0], facts={}, bounds=[], protection=None, pool=pool, students=[learnt])
    assert released.uncovered == ["mild", "severe"]
