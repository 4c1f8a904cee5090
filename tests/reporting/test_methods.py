"""The headline: one point per method."""

import math
from pathlib import Path
from typing import Any

import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.figures import FIGURES
from patebench.reporting.per_method import methods
from patebench.reporting.published import Published, Value, read_published

NONE = Published(())


def records(tmp_path: Path, *settings: tuple[str, float, float, float | None]) -> Any:
    """Students of labels of the whole pool: mechanism, accuracy, worst-case ε and data-dependent ε."""
    found: list[dict[str, Any]] = []
    for place, (mechanism, accuracy, epsilon, leaky) in enumerate(settings):
        facts = made.label_set(made.ensemble(), mechanism, 1.0 + place)
        found += [
            made.student_record(facts, 100, accuracy),
            made.bound_record(facts, 100, epsilon, "pld", Kind.WORST_CASE),
        ]
        if leaky is not None:
            found.append(made.bound_record(facts, 100, leaky, "rdp", Kind.DATA_DEPENDENT))
    return made.load_records([made.write_collected(tmp_path / "c.json", found)], [])


def points(frame: Any) -> list[tuple[str, str, float, float]]:
    columns = ["method", "kind", "epsilon", "accuracy_mean"]
    return sorted(frame[columns].itertuples(index=False, name=None))


def test_a_method_stands_at_its_most_accurate_setting_that_is_not_weak(tmp_path: Path) -> None:
    settings = [("gnmax", 0.90, 2.0, 1.0), ("gnmax", 0.95, 9.9, 3.0), ("gnmax", 0.99, 10.1, 4.0)]
    found = methods(records(tmp_path, *settings, ("lnmax", 0.8, 20.0, None), ("lnmax", 0.9, 30.0, None)), NONE)
    assert points(found) == [
        *[("gnmax", "data_dependent", 3.0, 0.95), ("gnmax", "worst_case", 9.9, 0.95)],
        ("lnmax", "worst_case", 20.0, 0.8),  # all are weak: the one that costs least
    ]


def test_one_epsilon_is_one_point_and_none_at_infinity(tmp_path: Path) -> None:
    found = methods(records(tmp_path, ("gnmax", 0.9, 2.0, 2.0), ("lnmax", 0.9, math.inf, None)), NONE)
    assert points(found) == [("gnmax", "worst_case", 2.0, 0.9)]


def test_a_printed_point_is_of_the_same_data_and_has_one_accuracy(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"paper": "PATE 2017", "version": "v4", "table": "Figure 4", "teachers": 250}
    facts |= {"mechanism": "lnmax", "parameters": None, "queries": 100, "delta": 1e-5, "dataset": "mnist"}
    rows = [("a", "epsilon", 2.04), ("a", "student_accuracy", 0.98), ("b", "epsilon", 8.0)]
    rows += [("c", "epsilon", 3.0), ("c", "student_accuracy", 0.9), ("c", "student_accuracy", 0.8)]
    values = [
        Value(**facts, row=row, column=f"{name} {value}", quantity=name, value=value) for row, name, value in rows
    ]
    elsewhere = Value(**{**facts, "dataset": "svhn"}, row="a", column="x", quantity="epsilon", value=5.0)
    found = methods(records(tmp_path, ("gnmax", 0.9, 2.0, None)), Published((*values, elsewhere)))
    printed = found[found["published"].astype(bool)]
    assert points(printed) == [("printed: PATE 2017", "data_dependent", 2.04, 0.98)]


def test_a_paper_stands_with_its_own_method_and_on_the_same_data(tmp_path: Path) -> None:
    """What it quotes of others stands with those; a row may be of several data sets."""
    frame = methods(records(tmp_path, ("gnmax", 0.9, 2.0, 1.0)), read_published(made.PUBLISHED))
    shown = set(frame[["method", "epsilon", "accuracy_mean"]].itertuples(index=False, name=None))
    assert {("printed: PET-DL 2019", 1.43, 0.9912), ("printed: Private-kNN 2020", 0.47, 0.988)} <= shown
    assert {epsilon for method, epsilon, _ in shown if method == "printed: PATE 2017"} == {2.04, 8.03}
    assert {epsilon for method, epsilon, _ in shown if method == "printed: Scalable PATE 2018"} == {1.97}


def test_a_point_says_that_an_owner_is_protected(tmp_path: Path) -> None:
    found = records(tmp_path, ("gnmax", 0.9, 2.0, None))
    for frame in (found.students, found.bounds):
        frame["partition"] = "hash-owners"
    assert set(methods(found, NONE)["adjacency"]) == {"all records of one owner"}


@pytest.mark.parametrize("accuracy", [1.0, 0.0])
def test_accuracies_that_a_logit_scale_has_no_place_for(tmp_path: Path, accuracy: float) -> None:
    figure = FIGURES.load("methods")(records(tmp_path, ("gnmax", accuracy, 2.0, None)), NONE)
    figure.draw_without_rendering()
    (low, high), (line, *_) = figure.axes[0].get_ylim(), figure.axes[0].get_lines()
    assert low < line.get_ydata()[0] < high
