"""Test verdicts on printed numbers: by hand, at the limits of the tolerance, and for failing claims."""

import math
import shlex

import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.core.errors import PatebenchError
from patebench.reporting.findings import findings
from patebench.reporting.published import read_published
from patebench.reporting.tables import TABLES
from patebench.reporting.verdicts import Verdict, compare, verdicts

#: Verdicts on a thousand numbers take seconds, so most tests use one paper.
PATE = made.PRINTED.of("PATE 2017")


@pytest.mark.parametrize(
    ("quantity", "published", "mean", "deviation", "verdict"),
    [
        ("student_accuracy", 0.98, 0.9705, math.nan, Verdict.REPRODUCED),  # within a point
        ("student_accuracy", 0.98, 0.969, math.nan, Verdict.SHORT),
        ("student_accuracy", 0.98, 0.96, 0.025, Verdict.REPRODUCED),  # within the seeds' deviation
        ("student_accuracy", 0.95, 0.98, 0.001, Verdict.BETTER),
        ("epsilon", 2.04, 1.95, math.nan, Verdict.REPRODUCED),
        ("epsilon", 2.04, 1.49, math.nan, Verdict.BETTER),
        ("epsilon", 2.04, 2.5, math.nan, Verdict.SHORT),
        ("epsilon", 2.04, math.inf, math.nan, Verdict.SHORT),
        ("epsilon", 0.0, 1e-100, math.nan, Verdict.REPRODUCED),  # printed as "≈ 0"
        ("epsilon_above", 8.03, 9.0, math.nan, Verdict.REPRODUCED),
        ("epsilon_above", 8.03, 7.0, math.nan, Verdict.BETTER),
    ],
)
def test_compare_at_the_limits_of_the_tolerance(quantity, published, mean, deviation, verdict):
    assert compare(quantity, published, mean, deviation) == verdict


@pytest.fixture
def known_students(tmp_path):
    return made.load_records(*made.known_students(tmp_path))


def _collected(tmp_path, *records):
    return made.load_records(made.collected(tmp_path, *records))


def _private_models(tmp_path, *models):
    return made.load_records(models=made.models(tmp_path, *models))


AT_ONE = {"row": "PATE on MNIST at ε = 1", "column": "SimpleCNN"}
FIGURE_4 = {"paper": "PATE 2017", "row": "MNIST 100 queries"}


def test_verdicts_by_hand(known_students):
    printed = made.PRINTED.of("PATE 2017", "NZC 2020", "DP-SGD 2016")
    frame = verdicts(known_students, printed)
    student = made.one(frame, **FIGURE_4, quantity="student_accuracy")
    assert student["measured_mean"] == pytest.approx((0.97 + 0.98 + 0.985) / 3)
    assert (student["seeds"], student["student"], student["verdict"]) == (3, "supervised", Verdict.REPRODUCED)
    epsilon = made.one(frame, **FIGURE_4, quantity="epsilon")
    assert epsilon["measured_mean"] == pytest.approx(1.5)
    assert (epsilon["worst_case"], epsilon["exact"], epsilon["verdict"]) == (4.31, 0.5, Verdict.BETTER)
    other = made.one(frame, paper="PATE 2017", row="MNIST 1000 queries", quantity="epsilon")
    assert other["verdict"] == Verdict.NOT_RUN
    quoted = [shlex.split(why.partition(": ")[2]) for why in frame["why"] if ": patebench reproduce " in why]
    assert ["patebench", "reproduce", "PATE 2017, Figure 4, MNIST 1000 queries"] in quoted
    assert all(words[:2] == ["patebench", "reproduce"] and len(words) == 3 for words in quoted)
    nzc = made.one(frame, paper="NZC 2020", row="MNIST LNMax (γ=20) 100 queries", quantity="student_accuracy")
    assert nzc["verdict"] == Verdict.BETTER  # it prints 63.5 %
    assert set(frame["paper"]) == {"PATE 2017", "NZC 2020"}, "no value of other papers was measured"
    assert len(made.select(frame, paper="PATE 2017")) == len(made.PRINTED.of("PATE 2017").values)
    gaps = made.select(frame, quantity="gap_share_below")
    assert set(gaps["verdict"]) == {Verdict.NOT_COMPARABLE}, "the printed share cannot be right"
    assert not frame.loc[frame["measured_mean"].isna(), "why"].eq("").any()
    counts = TABLES.load("papers").build(known_students, printed).set_index("paper").loc["PATE 2017"]
    assert (
        counts[[str(each) for each in Verdict]].sum() == counts["printed"] == len(made.select(frame, paper="PATE 2017"))
    )
    assert counts["reproduced"] == 7  # the accuracies of student and baseline in three places each, and 5.80


@pytest.mark.slow
def test_measurements_on_a_copy_reproduce_nothing(tmp_path):
    facts = made.label_set(made.ensemble("squeezed"), "lnmax", 0.05)
    records = _collected(tmp_path, made.student_record(facts, 100, 0.98))
    printed = read_published(made.PUBLISHED, {"squeezed": "mnist"}).of("PATE 2017")
    frame = verdicts(records, printed)
    both = made.select(frame, **FIGURE_4, quantity="student_accuracy").set_index("dataset")
    copy = both.loc["squeezed"]
    assert (copy["verdict"], copy["measured_mean"]) == (Verdict.NOT_COMPARABLE, 0.98)
    assert copy["why"] == "measured on squeezed, a changed copy of MNIST"
    assert both.loc["mnist", "verdict"] == Verdict.NOT_RUN
    assert len(frame) == len(verdicts(records, printed.with_copies({"other": "mnist"})))
    counts = TABLES.load("papers").build(records, printed).set_index("paper").loc["PATE 2017"]
    assert counts["printed"] == len(made.PRINTED.of("PATE 2017").values), "no number counts twice"
    assert counts["reproduced"] == 0
    assert verdicts(records, PATE).empty, "without the copy, no value was measured"


@pytest.mark.parametrize("dataset", ["mnist", "squeezed"])
def test_a_claim_below_the_exact_epsilon_is_unsound(tmp_path, dataset):
    parameters = {"c": 1e100, "gamma": 1e-10, "distance": 0.0}
    facts = made.ensemble(dataset) | made.WHOLE_POOL
    facts |= {"mechanism": "immutable-lnmax", "noise": "c-1e+100_gamma-1e-10_distance-0", "parameters": parameters}
    claimed = made.bound_record(facts, 9000, 1e-90, "moments", Kind.CLAIMED) | {"conversion": "classic"}
    exact = made.bound_record(facts, 9000, math.inf, "exact", Kind.DATA_DEPENDENT) | {"epsilon": "inf"}
    records = _collected(tmp_path, claimed, exact, made.student_record(facts, 9000, 0.95))
    frame = verdicts(records, read_published(made.PUBLISHED, {"squeezed": "mnist"}).of("NZC 2020"))
    mine = made.select(frame, row="MNIST NZC (c=1e^100 γ=1e^10)", dataset=dataset).set_index("quantity")
    assert mine.loc["epsilon", "verdict"] == Verdict.UNSOUND
    assert mine.loc["epsilon", "why"] == "what is claimed loses at least ε = ∞"
    accuracies = set(mine.loc[["student_accuracy"], "verdict"])
    assert (Verdict.NOT_COMPARABLE in accuracies) == (dataset == "squeezed")


def test_a_copy_of_an_unknown_data_set_is_refused():
    with pytest.raises(PatebenchError, match=r"cifar11.*did you mean 'cifar10'"):
        read_published(made.PUBLISHED, {"squeezed": "cifar11"})


def _teachers_of_two_trainings(tmp_path):
    facts = [made.ensemble() | {"epochs": epochs, "ensemble": f"of-{epochs}"} for epochs in (10, 50)]
    means = zip(facts, (0.80, 0.84), strict=True)
    return _collected(tmp_path, *(made.ensemble_record(each, mean) for each, mean in means))


def _baselines_of_two_pools(tmp_path):
    models = [made.baseline(accuracy=0.84), made.baseline(accuracy=0.80) | {"split": {"pool": 1000, "test": None}}]
    return made.load_records(baselines=made.models(tmp_path, *models, kind="train_baseline"))


def _students_of_two_recipes(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    students = [
        made.student_record(facts, 100, accuracy) | {"student": f"supervised_{recipe}", "student_recipe": recipe}
        for recipe, accuracy in (("fast", 0.80), ("modern", 0.84))
    ]
    return _collected(tmp_path, *students, made.bound_record(facts, 100, 1.5, "moments", Kind.DATA_DEPENDENT))


def _students_of_two_noises(tmp_path):
    """Return students of two noise settings with the ε at which a paper prints an accuracy."""
    records = []
    for sigma, accuracy in ((40, 0.80), (41, 0.84)):
        records += made.costing(made.label_set(made.ensemble(), "gnmax", sigma), 100, accuracy, 0.95, "label")
    return _collected(tmp_path, *records)


@pytest.mark.parametrize(
    ("records", "keys", "ends"),
    [
        (_teachers_of_two_trainings, {"quantity": "teacher_accuracy"}, ["for 10 epochs", "for 50 epochs"]),
        (_baselines_of_two_pools, FIGURE_4 | {"quantity": "baseline_accuracy"}, ["pool-1000", "modern, pool-9000"]),
        (_students_of_two_recipes, FIGURE_4 | {"quantity": "student_accuracy"}, ["iid, fast", "iid, modern"]),
        (_students_of_two_noises, AT_ONE, ["small-cnn, σ = 40", "small-cnn, σ = 41"]),
    ],
)
def test_different_settings_have_separate_verdicts(tmp_path, records, keys, ends):
    """Use settings that differ only in one field; averaging them would mix settings."""
    printed = made.PRINTED.of("DPMLBench 2023" if keys is AT_ONE else "PATE 2017")
    found = made.select(verdicts(records(tmp_path), printed), dataset="mnist", **keys).dropna(subset="measured_mean")
    found = found.sort_values("how")
    assert [how.endswith(end) for how, end in zip(found["how"], ends, strict=True)] == [True, True], found["how"]
    assert list(found["measured_mean"]) == [0.80, 0.84]


def test_private_models_are_compared_at_the_published_epsilon(tmp_path):
    """Compare models at ε = 1.93 and 2.0 with the 67 % printed for CIFAR-10 at ε = 2, but not a model at ε = 1."""
    models = [
        made.private_model(epsilon, accuracy, dataset="cifar10", seed=seed)
        for epsilon, accuracies in ((1.93, (0.60, 0.61)), (2.0, (0.70, 0.71)), (1.0, (0.5, 0.5)))
        for seed, accuracy in enumerate(accuracies)
    ]
    mine = made.select(
        verdicts(_private_models(tmp_path, *models), made.PRINTED.of("DP-SGD 2016")), row="CIFAR-10 at ε = 2"
    )
    found = mine.dropna(subset="measured_mean")
    assert [how.rpartition(", ")[2] for how in found["how"]] == ["ε = 1.93", "ε = 2"]
    assert list(found["measured_mean"]) == pytest.approx([0.605, 0.705])
    assert list(found["seeds"]) == [2, 2]
    assert list(found["verdict"]) == [Verdict.SHORT, Verdict.BETTER]
    assert made.one(mine, quantity="epsilon")["why"] == "chosen, and not found"


def test_students_are_compared_at_the_published_epsilon(tmp_path):
    facts, costly = (made.label_set(made.ensemble(), "gnmax", sigma) for sigma in (40, 20))
    student, bound = made.costing(facts, 100, 0.97, 0.95, "label")
    records = [student, bound, bound | {"delta": 1e-6}, *made.costing(costly, 100, 0.99, 1.2, "label")]
    frame = verdicts(_collected(tmp_path, *records), made.PRINTED.of("DPMLBench 2023"))
    found = made.select(frame, **AT_ONE)
    assert list(found["measured_mean"]) == [0.97, 0.97], "one setting at each δ, without the student at ε = 1.2"
    assert set(found["verdict"]) == {Verdict.BETTER}
    assert list(found["seeds"]) == [1, 1]
    assert list(found["measured_std"].isna()) == [True, True], "one seed has no deviation"
    assert made.one(frame, row="PATE on MNIST at ε = 8", column="VGG")["verdict"] == Verdict.NOT_RUN


def test_values_without_a_configuration_have_a_reason(tmp_path):
    parameters = {"threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0}
    facts = made.ensemble() | made.WHOLE_POOL | {"mechanism": "confident-gnmax", "parameters": parameters}
    facts |= {"noise": "threshold-200_sigma1-150_sigma2-40"}
    frame = verdicts(_collected(tmp_path, made.student_record(facts, 640, 0.98)), made.PRINTED.of("Scalable PATE 2018"))
    glyph = made.select(frame, paper="Scalable PATE 2018", table="Table 1", dataset="glyph", quantity="answered")
    assert set(glyph["verdict"]) == {Verdict.NOT_RUN}
    assert set(glyph["why"]) == {"the authors keep Glyph to themselves"}
    frame = verdicts(_private_models(tmp_path, made.private_model(8.0)), made.PRINTED.of("DPMLBench 2023"))
    found = made.select(frame, row="DP-SGD on MNIST at ε = 100", quantity="accuracy_at_epsilon")
    assert set(found["why"]) == {"nothing here spends ε = 100, which says little of privacy"}


def test_private_knn_is_compared_with_its_published_form(tmp_path):
    claimed, proven = made.private_model(1.3, 0.97, "published"), made.private_model(0.9, 0.98, "sound")
    claimed["bounds"][0] |= {"kind": "claimed"}
    models = _private_models(tmp_path, *(each | {"system": "Private-kNN"} for each in (claimed, proven)))
    frame = verdicts(models, made.PRINTED.of("Private-kNN 2020"))
    for quantity, published, measured in (("epsilon", 0.47, 1.3), ("private_model_accuracy", 0.988, 0.97)):
        row = made.one(frame, row="MNIST Private-kNN 735 queries", quantity=quantity)
        assert (row["published"], row["measured_mean"], row["verdict"]) == (published, measured, Verdict.SHORT)


def test_papers_count_settings_that_fall_short(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    other = {"method": "gan", "student": "gan_queries-100"}
    learnt = [made.student_record(facts, 100, 0.98), made.student_record(facts, 100, 0.9) | other]
    records = _collected(tmp_path, *learnt)
    counts = TABLES.load("papers").build(records, PATE).set_index("paper").loc["PATE 2017"]
    assert (counts["reproduced"], counts["short"], counts["short_otherwise"]) == (3, 0, 3)
    tables = {name: TABLES.load(name).build(records, PATE) for name in ("papers", "verdicts")}
    (told,) = (each for each in findings(tables) if "comparable numbers in 1 paper" in each)
    assert "by 2 results of this run" in told
    assert "unsound (other settings fell short of 3)" in told  # one accuracy, printed in three places


def test_results_are_counted_by_measurement(tmp_path):
    """Count two equally accurate students as two results, and a private model compared with many numbers as one."""
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    learnt = [made.student_record(facts, queries, 0.98) for queries in (100, 1000)]
    frame = verdicts(_collected(tmp_path, *learnt), PATE)
    assert frame["result"].nunique() == 2
    assert frame["result"].notna().sum() > 2  # several numbers, some quoted, are compared with each
    records = _private_models(tmp_path, made.private_model(8.0, 0.96))
    printed = made.PRINTED.of("DP-SGD 2016", "DPMLBench 2023")
    tables = {name: TABLES.load(name).build(records, printed) for name in ("papers", "verdicts")}
    assert tables["verdicts"]["result"].nunique() == 1
    assert not [each for each in findings({"papers": tables["papers"]}) if " by 0 results" in each]


def test_measured_values_are_first_and_settings_of_papers_last(known_students, tmp_path):
    table = TABLES.load("verdicts").build(known_students, PATE)
    measured = table["measured"].notna()
    assert list(measured) == sorted(measured, reverse=True)
    row = table[table["row"] == "MNIST 100 queries"].set_index("what")["measured"]
    assert (row["epsilon"], row["student accuracy"]) == ("1.5 ± 0.1", "97.83 % ± 0.76")
    assert set(table["what"].tail(3)) <= {value.column for value in made.PRINTED.of("PATE 2017").values}
    assert "setting" not in set(table["what"])
    empty = _collected(tmp_path, made.ensemble_record(made.ensemble("digits")))
    assert [len(TABLES.load(name).build(empty, PATE)) for name in ("papers", "verdicts")] == [0, 0]
