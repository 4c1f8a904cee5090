"""Test the table and figure of PET-DL: printed values next to their students, and lines of otherwise equal settings."""

import math
from pathlib import Path
from typing import Any

import pytest
from tests.reporting import made

from patebench.core.bound import Bound, Kind
from patebench.reporting.figures import FIGURES
from patebench.reporting.style import is_empty, themed
from patebench.reporting.tables import TABLES
from patebench.reporting.verdicts import Verdict, verdicts

#: Verdicts on the numbers of all papers take seconds.
PUBLISHED = made.PRINTED.of("PET-DL 2019")
USUAL = {
    **{"hint_epochs": 2, "distillation_epochs": 20, "batch": 128, "noise": 20.0, "compression": 6.83, "samples": 9000},
    **{"weighted": False, "clip": 4.0, "hint_clip": 1.0, "temperature": 1.0, "learning_rate": 4e-3, "guided": None},
    **{"hint_layer": "block2", "epsilon": None, "delta": 1e-5},
}


def student(form: str = "published", seed: int = 0, accuracy: float = 0.99, teachers: int = 4, **chosen: Any) -> Any:
    """Return a student record as the stage `train_petdl` writes it."""
    ensemble = made.ensemble(seed=seed, teachers=teachers)
    claimed = form == "published"
    bound = Bound(
        epsilon=chosen.pop("stated", 1.21), delta=1e-5, queries=1562, accountant="gdp", source="made up",
        kind=Kind.CLAIMED if claimed else Kind.WORST_CASE, publishable=False,
    )  # fmt: skip
    parameters = {**USUAL, **chosen}
    slug = "_".join(f"{name}-{value}" for name, value in parameters.items())
    facts = {name: ensemble[name] for name in ("dataset", "seed", "teachers", "partition", "ensemble")}
    return {
        **facts, "split": {"pool": 9000, "test": None}, "system": "PET-DL", "form": form,
        "private_model": f"{teachers}_{slug}", "parameters": parameters, "model": "conv, width 12",
        "model_parameters": 22_426, "accuracy": accuracy, "curve": [], "seconds": 10.0, "bounds": [bound.to_json()],
        "audited": "inf" if claimed else 1.2, "verdict": "violated" if claimed else "holds",
    }  # fmt: skip


def records(folder: Path, *students: Any) -> Any:
    sizes = sorted({(each["seed"], each["teachers"]) for each in students})
    ensembles = [made.ensemble_record(made.ensemble(seed=seed, teachers=n)) for seed, n in sizes]
    collected = [made.write_collected(folder / f"c{i}.json", [each]) for i, each in enumerate(ensembles)]
    models = [
        made.write_private_model(folder / f"m{i}.json", each, kind="train_petdl") for i, each in enumerate(students)
    ]
    return made.load_records(collected, models=models)


def rows(found: Any) -> list[dict[str, Any]]:
    return TABLES.load("petdl").build(found, PUBLISHED).to_dict("records")


def test_printed_values_stand_beside_the_students_that_they_are_of(tmp_path: Path) -> None:
    sizes = [student(teachers=n) for n in (2, 4)] + [student(compression=11.9), student(compression=3.0)]
    found = rows(records(tmp_path, *sizes))
    printed = {
        (each["teachers"], each["compression"]): (each["published_student_accuracy"], each["published_epsilon"])
        for each in found
    }
    assert printed[2, 6.83] == (0.9912, 1.43)
    assert printed[4, 6.83] == (0.9933, 1.21)
    assert printed[4, 11.9] == (0.9923, pytest.approx(math.nan, nan_ok=True)), "Table 3 prints no ε"
    assert all(map(math.isnan, printed[4, 3.0]))


def test_an_accuracy_is_never_unsound_though_the_claim_beside_it_is(tmp_path: Path) -> None:
    frame = verdicts(records(tmp_path, student(accuracy=0.95)), PUBLISHED)
    judged = frame[(frame["row"] == "PET-DL (n = 4)") & frame["column"].str.startswith("MNIST")]
    found = judged.set_index("quantity")["verdict"]
    assert (found["student_accuracy"], found["epsilon"]) == (Verdict.SHORT, Verdict.UNSOUND)


def test_weighted_and_sound_students_have_printed_values_of_their_own_or_none(tmp_path: Path) -> None:
    of_ten = [student(teachers=10), student(teachers=10, weighted=True), student("noisy-knowledge", teachers=10)]
    found = rows(records(tmp_path, *of_ten))
    printed = {(each["form"], each["weighted"]): each["published_student_accuracy"] for each in found}
    assert printed["published", False] == 0.9726
    assert printed["published", True] == 0.9869
    assert math.isnan(printed["noisy-knowledge", False])


def test_rows_are_over_seeds_with_the_verdict(tmp_path: Path) -> None:
    (row,) = rows(records(tmp_path, student(accuracy=0.98), student(seed=1, accuracy=0.99)))
    assert (row["seeds"], row["verdict"], row["audited"]) == (2, "violated", math.inf)
    assert row["accuracy_mean"] == pytest.approx(0.985)
    assert row["teacher_accuracy_mean"] > 0
    text = TABLES.load("petdl").markdown(TABLES.load("petdl").build(records(tmp_path, student()), PUBLISHED))
    assert "violated" in text
    assert "∞" in text


def drawn(found: Any) -> Any:
    with themed():
        return FIGURES.load("petdl-ablations")(found, PUBLISHED)


def test_a_panel_for_each_choice_that_was_varied_with_all_else_equal(tmp_path: Path) -> None:
    two = (0, 1)
    batches = [student(batch=n, seed=s, accuracy=0.9 + s / 50, stated=1 + 10 / n) for n in (64, 128, 256) for s in two]
    sizes = [student(teachers=2, accuracy=0.8)]
    sound = [student("noisy-knowledge", noise=z, epsilon=e, stated=e) for z, e in ((80.0, 1.0), (10.0, 8.0))]
    figure = drawn(records(tmp_path, *batches, *sizes, *sound))
    panels = {axis.get_title(): axis for axis in figure.axes if axis.get_visible()}
    assert set(panels) == {"MNIST: ε stated of the student", "MNIST: batch size", "MNIST: number of teachers n"}
    (line,) = panels["MNIST: batch size"].containers
    assert line.lines[0].get_xydata().tolist() == [[n, pytest.approx(0.91)] for n in (64, 128, 256)]
    (line,) = panels["MNIST: number of teachers n"].containers
    assert line.lines[0].get_xydata()[:, 0].tolist() == [2, 4]
    (line,) = panels["MNIST: ε stated of the student"].containers
    assert line.get_label() == "noisy knowledge, n = 4"
    assert line.lines[0].get_xydata()[:, 0].tolist() == [1, 8]


def test_two_lines_of_one_form_say_what_was_chosen_otherwise(tmp_path: Path) -> None:
    found = [student(compression=size, distillation_epochs=epochs) for size in (2.0, 4.0) for epochs in (10, 15)]
    panels = {axis.get_title(): axis for axis in drawn(records(tmp_path, *found)).axes if axis.get_visible()}
    lines = {bars.get_label(): bars.lines[0] for bars in panels["MNIST: compression"].containers}
    assert list(lines) == ["published, n = 4", "published, n = 4, but epochs of distillation: 15"]
    faces = [line.get_markerfacecolor() for line in lines.values()]
    assert faces[0] != faces[1] == "white"
    assert panels["MNIST: epochs of distillation"].get_xticks().tolist() == [10, 15]


def test_lines_of_several_numbers_of_teachers_look_different(tmp_path: Path) -> None:
    """Ignore the noise, which follows from a target ε, when distinguishing lines."""
    students = [
        student("noisy-knowledge", teachers=n, epsilon=target, stated=target, noise=samples / target, samples=samples)
        for n in (4, 10)
        for samples in (100, 1000)
        for target in (1.0, 8.0)
    ]
    epsilon, *_ = (axis for axis in drawn(records(tmp_path, *students)).axes if axis.get_title())
    lines = {each.get_label(): each for each in epsilon.containers}
    assert set(lines) == {
        *(f"noisy knowledge, n = {n}" for n in (4, 10)),
        *(f"noisy knowledge, n = {n}, but public samples asked for: 1000" for n in (4, 10)),
    }
    assert len({line[0].get_color() for line in lines.values()}) == 4


def test_one_student_varies_nothing(tmp_path: Path) -> None:
    assert is_empty(drawn(records(tmp_path, student())))


def test_a_verdict_is_on_the_students_at_the_printed_epsilon(tmp_path: Path) -> None:
    """Use four teachers, for which 99.33 % is printed at ε = 1.21; other ε are ignored, other epochs are a setting."""
    usual = [student(seed=seed, accuracy=accuracy, epsilon=1.21) for seed, accuracy in ((0, 0.99), (1, 0.994))]
    others = [student(stated=13.5, noise=11.0, accuracy=0.5), student(stated=1.2, distillation_epochs=2, accuracy=0.97)]
    frame = verdicts(records(tmp_path, *usual, *others), PUBLISHED)
    (_, few), (_, accuracy) = _on(frame, "PET-DL (n = 4)", "student_accuracy").iterrows()
    assert (accuracy["how"], accuracy["measured_mean"]) == ("conv, width 12, iid, 2 + 20 epochs", pytest.approx(0.992))
    assert (few["how"], few["measured_mean"]) == ("conv, width 12, iid, 2 + 2 epochs", 0.97)
    assert (accuracy["verdict"], few["verdict"]) == (Verdict.REPRODUCED, Verdict.SHORT)
    claimed = _on(frame, "PET-DL (n = 4)", "epsilon")
    assert claimed["measured_mean"].tolist() == [1.2, pytest.approx(1.21)]


def test_without_a_student_at_the_printed_epsilon_all_of_the_setting_count(tmp_path: Path) -> None:
    frame = verdicts(records(tmp_path, student(stated=3.0, accuracy=0.98)), PUBLISHED)
    (found,) = _on(frame, "PET-DL (n = 4)", "student_accuracy")["measured_mean"]
    assert found == 0.98


def _on(frame: Any, row: str, quantity: str) -> Any:
    return frame[(frame["row"] == row) & (frame["quantity"] == quantity) & (frame["dataset"] == "mnist")]
