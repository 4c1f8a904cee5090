"""Test the tables and the figure of NZC: claimed and true ε, and published values."""

import math

import pytest
from tests.reporting import made

from patebench.core.bound import Conversion, Kind
from patebench.mechanisms import MECHANISMS
from patebench.reporting.published import NZC_2020
from patebench.reporting.tables import TABLES

NZC = "c-1e+100_gamma-1e-10_distance-0"

#: Copied from Table 1 of the paper: data set, teachers, noise, queries, ε, student.
TABLE_1 = [
    *[("mnist", 250, "gamma-0.05", 100, 2.04, 63.5), ("mnist", 250, "gamma-0.05", 1000, 8.03, 89.8)],
    *[("mnist", 250, "gamma-0.05", 5000, None, 94.1), ("mnist", 250, "gamma-0.05", 9000, None, 93.4)],
    *[("svhn", 250, "gamma-0.05", 500, 5.04, 54.0), ("svhn", 250, "gamma-0.05", 1000, 8.19, 64.0)],
    *[("svhn", 250, "gamma-0.05", 5000, None, 79.5), ("svhn", 250, "gamma-0.05", 10000, None, 84.6)],
    *[("mnist", 250, NZC, 9000, 0, 95.1), ("mnist", 5, NZC, 9000, 0, 97.8)],
    *[("svhn", 250, NZC, 10000, 0, 85.7), ("svhn", 5, NZC, 10000, 0, 87.1)],
    *[("mnist", 250, "sigma-0", 9000, None, 94.5), ("mnist", 5, "sigma-0", 9000, None, 97.5)],
    *[("svhn", 250, "sigma-0", 10000, None, 85.8), ("svhn", 5, "sigma-0", 10000, None, 87.1)],
]


def test_holds_tables_1_to_3():
    paper = made.PRINTED.of(NZC_2020)
    for dataset, teachers, noise, queries, epsilon, student in TABLE_1:
        keys = {"dataset": dataset, "teachers": teachers, "noise": noise, "queries": queries}
        assert paper.lookup("epsilon", **keys) == epsilon, keys
        assert paper.lookup("student_accuracy", **keys) == pytest.approx(student / 100), keys
        above = {"mnist": 8.03, "svhn": 8.19}[dataset] if noise == "gamma-0.05" and epsilon is None else None
        assert paper.lookup("epsilon_above", **keys) == above, keys
    teachers = [paper.lookup("teacher_accuracy", dataset="mnist", teachers=n) for n in (1, 5, 10, 25, 50, 100, 250)]
    assert teachers == [0.9899, 0.9831, 0.9671, 0.9503, 0.9194, 0.9145, 0.8118]
    assert paper.lookup("teacher_accuracy", dataset="svhn", teachers=250) == 0.7593
    labels = [paper.lookup("label_accuracy", dataset="mnist", mechanism=name) for name in ("lnmax", "immutable-lnmax")]
    assert [*labels, paper.lookup("plurality_accuracy", dataset="mnist")] == [0.9302, 0.9433, 0.9437]


def facts(mechanism, noise, parameters, teachers=250):
    of = {"mechanism": mechanism, "noise": noise, "parameters": parameters}
    return {**made.ensemble(teachers=teachers), **made.WHOLE_POOL, **of}


def bound(release, epsilon, accountant, kind, conversion=Conversion.CLASSIC):
    return {**made.bound_record(release, 9000, epsilon, accountant, kind), "conversion": conversion}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Return records of two ensembles under LNMax and the immutable noisy argmax, with students of 9,000 labels."""
    folder, found = tmp_path_factory.mktemp("records"), []
    for n in (5, 250):
        immutable = facts("immutable-lnmax", NZC, {"c": 1e100, "gamma": 1e-10, "distance": 0.0}, n)
        gated = facts("immutable-lnmax", NZC[:-1] + "3", {"c": 1e100, "gamma": 1e-10, "distance": 3.0}, n)
        clean = facts("gnmax", "sigma-0", {"sigma": 0.0}, n)
        other = facts("permute-and-flip", "epsilon-1", {"epsilon": 1.0}, n)
        laplace = facts("lnmax", "gamma-0.05", {"gamma": 0.05}, n)
        votes = (immutable, gated, laplace)
        histogram = [2, 1, 3, 4, *[0] * (n - 4), 90]
        found += [
            {**made.ensemble_record(made.ensemble(teachers=n)), "gap_histogram": histogram},
            bound(immutable, 9.1e-8, "strong-composition", Kind.CLAIMED, Conversion.NONE),
            bound(immutable, 9.2e-8, "moments", Kind.CLAIMED),
            bound(immutable, math.inf, "pld", Kind.WORST_CASE, Conversion.NONE),
            bound(immutable, math.inf, "exact", Kind.DATA_DEPENDENT),
            bound(clean, math.inf, "gdp", Kind.WORST_CASE, Conversion.NONE),
            bound(laplace, 135.0, "moments", Kind.WORST_CASE),
            bound(laplace, 60.0, "pld", Kind.WORST_CASE, Conversion.NONE),
            bound(laplace, 17.0, "moments", Kind.DATA_DEPENDENT),
            bound(laplace, 3.5, "exact-per-teacher", Kind.DATA_DEPENDENT),
            *(made.label_set_record(of, drawn, drawn) for of, drawn in zip(votes, (0.97, 0.98, 0.96), strict=True)),
            *(made.student_record(each, 9000, 0.9) for each in (immutable, clean, other, laplace)),
        ]
    ceilings = [made.baseline(), made.baseline(accuracy=0.985) | {"true_labels": 9000}]
    return made.load_records(made.collected(folder, *found), made.models(folder, *ceilings, kind="train_baseline"))


def test_students_have_claimed_and_proven_epsilon(records):
    table = TABLES.load("nzc-students")
    frame = table.build(records, made.PRINTED)
    rows = {(row["teachers"], row["mechanism"]): row for row in frame.to_dict("records")}
    assert set(rows) == {(n, name) for n in (5, 250) for name in ("immutable-lnmax", "gnmax", "lnmax")}
    claimed = rows[250, "immutable-lnmax"]
    assert (claimed["stated_epsilon_mean"], claimed["stated_kind"]) == (9.2e-8, "claimed")
    assert claimed["worst_case_epsilon_mean"] == claimed["exact_epsilon_mean"] == math.inf
    assert (claimed["published_epsilon"], claimed["published_student_accuracy"]) == ("≈ 0", 0.951)
    sound = rows[250, "lnmax"]
    assert (sound["stated_epsilon_mean"], sound["stated_kind"]) == (17.0, "data_dependent")
    assert (sound["worst_case_epsilon_mean"], sound["exact_epsilon_mean"]) == (60.0, 3.5)
    assert (sound["published_epsilon"], sound["published_student_accuracy"]) == ("> 8.03", 0.934)
    clean = rows[250, "gnmax"]
    assert clean["worst_case_epsilon_mean"] == math.inf
    assert math.isnan(clean["stated_epsilon_mean"])
    noiseless = [(5, "immutable-lnmax"), (5, "gnmax"), (250, "gnmax")]
    assert [rows[each]["published_student_accuracy"] for each in noiseless] == [0.978, 0.975, 0.945]
    assert math.isnan(rows[5, "lnmax"]["published_student_accuracy"])
    assert (clean["true_label_accuracy_mean"], clean["published_true_label_accuracy"]) == (0.985, 0.981)
    (shown,) = (line for line in table.markdown(frame).splitlines() if "≈ 0" in line and "| 250 |" in line)
    assert "| ≈ 0 | 9.2e-08 | claimed | ∞ | ∞ |" in shown


def test_a_mechanism_that_tests_stability_is_compared(records, monkeypatch):
    monkeypatch.setattr(MECHANISMS.load("permute-and-flip"), "tests_stability", True)
    frame = TABLES.load("nzc-students").build(records, made.PRINTED)
    assert set(frame["mechanism"]) == {"immutable-lnmax", "gnmax", "lnmax", "permute-and-flip"}


def test_ensembles_by_hand(records):
    frame = TABLES.load("nzc-ensembles").build(records, made.PRINTED)
    few, many = frame.to_dict("records")
    assert (few["teachers"], many["teachers"]) == (5, 250)
    assert few["far_mean"] == many["far_mean"] == pytest.approx(0.94)
    assert [many[f"{name}_accuracy_mean"] for name in ("lnmax", "immutable", "gated")] == [0.96, 0.97, 0.98]
    printed = [many[f"published_{name}_accuracy"] for name in ("teacher", "lnmax", "immutable", "plurality")]
    assert printed == [0.8118, 0.9302, 0.9433, 0.9437]
    assert few["published_teacher_accuracy"] == 0.9831
    assert math.isnan(few["published_immutable_accuracy"])


def test_a_run_without_the_mechanism_has_empty_tables(tmp_path):
    collected, baselines = made.files(tmp_path)
    for name in ("nzc-students", "nzc-ensembles"):
        assert made.table(name, collected, baselines).empty


def test_the_figure_has_the_shares_and_the_published_points(records):
    accuracy, distances, over = made.draw_records("distance", records).axes
    (curve,) = (line for line in distances.get_lines() if line.get_label().startswith("MNIST"))
    assert curve.get_ydata()[:6] == pytest.approx([1, 0.98, 0.97, 0.94, 0.9, 0.9])
    assert len(curve.get_xdata()) == 251, "the largest number of teachers"
    (bars,) = over.containers
    assert bars.lines[0].get_xydata().tolist() == [pytest.approx([5, 0.94]), pytest.approx([250, 0.94])]
    hollow = {tuple(point) for dots in accuracy.collections for point in getattr(dots, "get_offsets", list)().tolist()}
    assert {(1, 0.9899), (250, 0.8118), (250, 0.9437)} <= hollow
    assert [bars.lines[0].get_ydata().tolist() for bars in accuracy.containers] == [[0.97, 0.97], [0.95, 0.95]]
