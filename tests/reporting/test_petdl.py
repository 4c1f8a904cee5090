"""Test the table and figure of PET-DL: printed values next to their students, and lines of otherwise equal settings."""

import math
from pathlib import Path
from typing import Any

import pytest
from tests.reporting import made

from patebench.core.bound import Bound, Kind
from patebench.reporting.style import is_empty
from patebench.reporting.tables import TABLES
from patebench.reporting.verdicts import Verdict, verdicts

#: Verdicts on the numbers of all papers take seconds.
PUBLISHED = made.PRINTED.of("PET-DL 2019")
OF_FOUR = {"row": "PET-DL (n = 4)", "dataset": "mnist"}
USUAL = {
    **{"hint_epochs": 2, "distillation_epochs": 20, "batch": 128, "noise": 20.0, "compression": 6.83, "samples": 9000},
    **{"weighted": False, "clip": 4.0, "hint_clip": 1.0, "temperature": 1.0, "learning_rate": 4e-3, "guided": None},
    **{"hint_layer": "block2", "epsilon": None, "delta": 1e-5},
}


def student(form: str = "published", seed: int = 0, accuracy: float = 0.99, teachers: int = 4, **chosen: Any) -> Any:
    """Return a student record as the stage `train_petdl` writes it."""
    ensemble, claimed = made.ensemble(seed=seed, teachers=teachers), form == "published"
    kind = Kind.CLAIMED if claimed else Kind.WORST_CASE
    stated = {"epsilon": chosen.pop("stated", 1.21), "delta": 1e-5, "queries": 1562, "accountant": "gdp"}
    bound = Bound(**stated, kind=kind, publishable=False, source="made up")
    parameters = {**USUAL, **chosen}
    slug = "_".join(f"{name}-{value}" for name, value in parameters.items())
    facts = {name: ensemble[name] for name in ("dataset", "seed", "teachers", "partition", "ensemble")}
    facts |= {"split": {"pool": 9000, "test": None}, "system": "PET-DL", "form": form, "parameters": parameters}
    facts |= {"private_model": f"{teachers}_{slug}", "model": "conv, width 12", "model_parameters": 22_426}
    facts |= {"audited": "inf" if claimed else 1.2, "verdict": "violated" if claimed else "holds"}
    return {**facts, "accuracy": accuracy, "curve": [], "seconds": 10.0, "bounds": [bound.to_json()]}


def records(folder: Path, *students: Any) -> Any:
    sizes = sorted({(each["seed"], each["teachers"]) for each in students})
    ensembles = [made.ensemble_record(made.ensemble(seed=seed, teachers=n)) for seed, n in sizes]
    models = made.models(folder, *students, kind="train_petdl")
    return made.load_records(made.collected(folder, *ensembles), models=models)


def rows(found: Any) -> list[dict[str, Any]]:
    return TABLES.load("petdl").build(found, PUBLISHED).to_dict("records")


def test_published_values_are_in_rows_of_the_same_setting(tmp_path: Path) -> None:
    sizes = [student(teachers=n) for n in (2, 4)] + [student(compression=11.9), student(compression=3.0)]
    of_ten = [student(teachers=10), student(teachers=10, weighted=True), student("noisy-knowledge", teachers=10)]
    printed = {
        (each["form"], each["teachers"], each["compression"], each["weighted"]): (
            each["published_student_accuracy"],
            each["published_epsilon"],
        )
        for each in rows(records(tmp_path, *sizes, *of_ten))
    }
    assert printed["published", 2, 6.83, False] == (0.9912, 1.43)
    assert printed["published", 4, 6.83, False] == (0.9933, 1.21)
    assert printed["published", 4, 11.9, False] == (0.9923, pytest.approx(math.nan, nan_ok=True)), "no ε in Table 3"
    assert all(map(math.isnan, printed["published", 4, 3.0, False]))
    assert (printed["published", 10, 6.83, False][0], printed["published", 10, 6.83, True][0]) == (0.9726, 0.9869)
    assert math.isnan(printed["noisy-knowledge", 10, 6.83, False][0])


def test_only_a_claimed_epsilon_can_be_unsound(tmp_path: Path) -> None:
    """Without a student at the printed ε, all of the setting count."""
    found = records(tmp_path, student(accuracy=0.95))
    frame = verdicts(found, PUBLISHED)
    judged = {
        each: made.select(frame, **OF_FOUR, quantity=each)["verdict"].tolist()
        for each in ("student_accuracy", "epsilon")
    }
    assert judged == {"student_accuracy": [Verdict.SHORT], "epsilon": [Verdict.UNSOUND]}
    assert is_empty(made.draw_records("petdl-ablations", found)), "one student has no varied setting"
    frame = verdicts(records(tmp_path / "other", student(stated=3.0, accuracy=0.98)), PUBLISHED)
    assert made.select(frame, **OF_FOUR, quantity="student_accuracy")["measured_mean"].tolist() == [0.98]


def test_rows_are_over_seeds_with_the_verdict(tmp_path: Path) -> None:
    (row,) = rows(records(tmp_path, student(accuracy=0.98), student(seed=1, accuracy=0.99)))
    assert (row["seeds"], row["verdict"], row["audited"]) == (2, "violated", math.inf)
    assert row["accuracy_mean"] == pytest.approx(0.985)
    assert row["teacher_accuracy_mean"] > 0
    text = TABLES.load("petdl").markdown(TABLES.load("petdl").build(records(tmp_path, student()), PUBLISHED))
    assert "violated" in text
    assert "∞" in text


def test_each_varied_setting_has_a_panel(tmp_path: Path) -> None:
    two = (0, 1)
    batches = [student(batch=n, seed=s, accuracy=0.9 + s / 50, stated=1 + 10 / n) for n in (64, 128, 256) for s in two]
    sizes = [student(teachers=2, accuracy=0.8)]
    sound = [student("noisy-knowledge", noise=z, epsilon=e, stated=e) for z, e in ((80.0, 1.0), (10.0, 8.0))]
    figure = made.draw_records("petdl-ablations", records(tmp_path, *batches, *sizes, *sound))
    panels = {axis.get_title(): axis for axis in figure.axes if axis.get_visible()}
    assert set(panels) == {"MNIST: ε stated of the student", "MNIST: batch size", "MNIST: number of teachers n"}
    (line,) = panels["MNIST: batch size"].containers
    assert line.lines[0].get_xydata().tolist() == [[n, pytest.approx(0.91)] for n in (64, 128, 256)]
    (line,) = panels["MNIST: number of teachers n"].containers
    assert line.lines[0].get_xydata()[:, 0].tolist() == [2, 4]
    (line,) = panels["MNIST: ε stated of the student"].containers
    assert line.get_label() == "noisy knowledge, n = 4"
    assert line.lines[0].get_xydata()[:, 0].tolist() == [1, 8]


def test_lines_with_different_numbers_of_teachers_have_different_styles(tmp_path: Path) -> None:
    """Ignore the noise, which follows from a target ε, when distinguishing lines."""
    students = [
        student("noisy-knowledge", teachers=n, epsilon=target, stated=target, noise=samples / target, samples=samples)
        for n in (4, 10)
        for samples in (100, 1000)
        for target in (1.0, 8.0)
    ]
    epsilon, *_ = (
        axis for axis in made.draw_records("petdl-ablations", records(tmp_path, *students)).axes if axis.get_title()
    )
    lines = {each.get_label(): each for each in epsilon.containers}
    assert set(lines) == {
        *(f"noisy knowledge, n = {n}" for n in (4, 10)),
        *(f"noisy knowledge, n = {n}, but public samples asked for: 1000" for n in (4, 10)),
    }
    assert len({line[0].get_color() for line in lines.values()}) == 4


def test_students_at_the_published_epsilon_are_compared(tmp_path: Path) -> None:
    """Use four teachers, for which 99.33 % is printed at ε = 1.21; other ε are ignored, other epochs are a setting."""
    usual = [student(seed=seed, accuracy=accuracy, epsilon=1.21) for seed, accuracy in ((0, 0.99), (1, 0.994))]
    others = [student(stated=13.5, noise=11.0, accuracy=0.5), student(stated=1.2, distillation_epochs=2, accuracy=0.97)]
    frame = verdicts(records(tmp_path, *usual, *others), PUBLISHED)
    (_, few), (_, accuracy) = made.select(frame, **OF_FOUR, quantity="student_accuracy").iterrows()
    assert (accuracy["how"], accuracy["measured_mean"]) == ("conv, width 12, iid, 2 + 20 epochs", pytest.approx(0.992))
    assert (few["how"], few["measured_mean"]) == ("conv, width 12, iid, 2 + 2 epochs", 0.97)
    assert (accuracy["verdict"], few["verdict"]) == (Verdict.REPRODUCED, Verdict.SHORT)
    claimed = made.select(frame, **OF_FOUR, quantity="epsilon")
    assert claimed["measured_mean"].tolist() == [1.2, pytest.approx(1.21)]
