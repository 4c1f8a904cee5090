"""Verdicts on printed numbers: by hand, at the edges of the tolerance, and where a claim fails."""

import math
import shlex

import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.core.errors import PatebenchError
from patebench.reporting.findings import findings
from patebench.reporting.published import read_published
from patebench.reporting.tables import TABLES
from patebench.reporting.verdicts import COUNTING, Verdict, compare, verdicts

PUBLISHED = read_published(made.PUBLISHED)


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
def test_what_is_reproduced(quantity, published, mean, deviation, verdict):
    assert compare(quantity, published, mean, deviation) == verdict


def _records(tmp_path, *extra):
    """One student of 100 queries to LNMax for each of three seeds, at an ε of the paper's accountant."""
    collected = []
    for seed, (accuracy, epsilon) in enumerate(((0.97, 1.4), (0.98, 1.5), (0.985, 1.6))):
        facts = made.label_set(made.ensemble(seed=seed), "lnmax", 0.05)
        records = [
            made.student_record(facts, 100, accuracy),
            made.bound_record(facts, 100, epsilon, "moments", Kind.DATA_DEPENDENT),
            made.bound_record(facts, 100, 0.3, "exact", Kind.DATA_DEPENDENT),
            made.bound_record(facts, 100, 4.31, "pld", Kind.WORST_CASE),
        ]
        collected.append(made.write_collected(tmp_path / f"{seed}.json", [*records, *extra]))
    return made.load_records(collected)


def _of(frame, **keys):
    for key, wanted in keys.items():
        frame = frame[frame[key] == wanted]
    return frame


def test_verdicts_by_hand(tmp_path):
    frame = verdicts(_records(tmp_path), PUBLISHED)
    (student,) = _of(frame, paper="PATE 2017", row="MNIST 100 queries", quantity="student_accuracy").to_dict("records")
    assert student["measured_mean"] == pytest.approx((0.97 + 0.98 + 0.985) / 3)
    assert (student["seeds"], student["verdict"]) == (3, Verdict.REPRODUCED)
    (epsilon,) = _of(frame, paper="PATE 2017", row="MNIST 100 queries", quantity="epsilon").to_dict("records")
    assert epsilon["measured_mean"] == pytest.approx(1.5)
    assert (epsilon["worst_case"], epsilon["exact"], epsilon["verdict"]) == (4.31, 0.3, Verdict.BETTER)
    (other,) = _of(frame, paper="PATE 2017", row="MNIST 1000 queries", quantity="epsilon").to_dict("records")
    assert other["verdict"] == Verdict.NOT_RUN
    assert other["why"] == "this run has no such setting: patebench reproduce 'PATE 2017, Figure 4, MNIST 1000 queries'"
    quoted = [shlex.split(why.partition(": ")[2]) for why in frame["why"] if ": patebench reproduce " in why]
    assert all(words[:2] == ["patebench", "reproduce"] and len(words) == 3 for words in quoted)
    (nzc,) = _of(frame, paper="NZC 2020", row="MNIST LNMax (γ=20) 100 queries", quantity="student_accuracy").to_dict(
        "records"
    )
    assert nzc["verdict"] == Verdict.BETTER  # it prints 63.5 %


def test_what_was_measured_on_a_copy_stands_beside_and_reproduces_nothing(tmp_path):
    facts = made.label_set(made.ensemble("squeezed"), "lnmax", 0.05)
    path = made.write_collected(tmp_path / "c.json", [made.student_record(facts, 100, 0.98)])
    printed = read_published(made.PUBLISHED, {"squeezed": "mnist"})
    frame = verdicts(made.load_records([path]), printed)
    both = _of(frame, paper="PATE 2017", row="MNIST 100 queries", quantity="student_accuracy").to_dict("records")
    found = {each["dataset"]: (each["verdict"], each["measured_mean"]) for each in both}
    assert found["squeezed"] == (Verdict.NOT_COMPARABLE, 0.98)
    assert found["mnist"][0] == Verdict.NOT_RUN
    (why,) = (each["why"] for each in both if each["dataset"] == "squeezed")
    assert why == "measured on squeezed, a changed copy of MNIST"
    assert len(frame) == len(verdicts(made.load_records([path]), printed.with_copies({"other": "mnist"})))
    counts = TABLES.load("papers").build(made.load_records([path]), printed).set_index("paper").loc["PATE 2017"]
    assert counts["printed"] == len(PUBLISHED.of("PATE 2017").values), "no number counts twice"
    assert counts["reproduced"] == 0
    alone = verdicts(made.load_records([path]), PUBLISHED)
    assert alone.empty, "without the copy nothing was measured, so with it nothing more is compared or runs"
    of_pate = _of(frame, paper="PATE 2017")
    assert counts["not comparable"] == (of_pate["copy_of"].isna() & (of_pate["verdict"] == "not comparable")).sum()


def test_a_claim_that_fails_on_a_copy_fails(tmp_path):
    parameters = {"c": 1e100, "gamma": 1e-10, "distance": 0.0}
    facts = made.ensemble("squeezed") | made.WHOLE_POOL
    facts |= {"mechanism": "immutable-lnmax", "noise": "c-1e+100_gamma-1e-10_distance-0", "parameters": parameters}
    claimed = made.bound_record(facts, 9000, 1e-90, "moments", Kind.CLAIMED) | {"conversion": "classic"}
    exact = made.bound_record(facts, 9000, math.inf, "exact", Kind.DATA_DEPENDENT) | {"epsilon": "inf"}
    path = made.write_collected(tmp_path / "nzc.json", [claimed, exact, made.student_record(facts, 9000, 0.95)])
    frame = verdicts(made.load_records([path]), read_published(made.PUBLISHED, {"squeezed": "mnist"}))
    found = _of(frame, row="MNIST NZC (c=1e^100 γ=1e^10)", dataset="squeezed").set_index("quantity")["verdict"]
    assert (found["epsilon"], found["student_accuracy"]) == (Verdict.UNSOUND, Verdict.NOT_COMPARABLE)


def test_a_copy_of_nothing_is_refused():
    with pytest.raises(PatebenchError, match=r"cifar11.*did you mean 'cifar10'"):
        read_published(made.PUBLISHED, {"squeezed": "cifar11"})


def test_only_papers_that_were_touched_have_verdicts(tmp_path):
    frame = verdicts(_records(tmp_path), PUBLISHED)
    assert set(frame["paper"]) == {"PATE 2017", "NZC 2020"}
    assert len(_of(frame, paper="PATE 2017")) == len(PUBLISHED.of("PATE 2017").values)
    digits = made.write_collected(tmp_path / "digits.json", [made.ensemble_record(made.ensemble("digits"))])
    assert verdicts(made.load_records([digits]), PUBLISHED).empty


def test_a_claim_below_what_is_exact_is_unsound(tmp_path):
    parameters = {"c": 1e100, "gamma": 1e-10, "distance": 0.0}
    facts = made.ensemble() | made.WHOLE_POOL
    facts |= {"mechanism": "immutable-lnmax", "noise": "c-1e+100_gamma-1e-10_distance-0", "parameters": parameters}
    claimed = made.bound_record(facts, 9000, 1e-90, "moments", Kind.CLAIMED) | {"conversion": "classic"}
    exact = made.bound_record(facts, 9000, math.inf, "exact", Kind.DATA_DEPENDENT) | {"epsilon": "inf"}
    path = made.write_collected(tmp_path / "nzc.json", [claimed, exact, made.student_record(facts, 9000, 0.95)])
    frame = verdicts(made.load_records([path]), PUBLISHED)
    (row,) = _of(frame, row="MNIST NZC (c=1e^100 γ=1e^10)", quantity="epsilon").to_dict("records")
    assert row["verdict"] == Verdict.UNSOUND
    assert row["why"] == "what is claimed loses at least ε = ∞"


def test_teachers_of_several_epochs_are_several_settings(tmp_path):
    facts = [made.ensemble() | {"epochs": epochs, "ensemble": f"of-{epochs}"} for epochs in (10, 50)]
    records = [made.ensemble_record(each, mean) for each, mean in zip(facts, (0.80, 0.84), strict=True)]
    path = made.write_collected(tmp_path / "e.json", records)
    frame = verdicts(made.load_records([path]), PUBLISHED.of("PATE 2017"))
    found = _of(frame, quantity="teacher_accuracy").dropna(subset="measured_mean")
    assert list(found["how"]) == [f"small-cnn, modern, iid, trained for {epochs} epochs" for epochs in (10, 50)]
    assert list(found["verdict"]) == [Verdict.SHORT, Verdict.REPRODUCED]


def test_models_by_dpsgd_are_compared_at_what_they_spend(tmp_path):
    paths = [
        made.write_private_model(tmp_path / f"{epsilon}.json", made.private_model(epsilon, accuracy))
        for epsilon, accuracy in ((0.998, 0.97), (0.5, 0.93))
    ]
    frame = verdicts(made.load_records([], models=paths), PUBLISHED)
    (row,) = _of(frame, row="DP-SGD at ε = 1", quantity="private_model_accuracy").to_dict("records")
    assert (row["measured_mean"], row["verdict"]) == (0.97, Verdict.REPRODUCED)
    (chosen,) = _of(frame, row="DP-SGD at ε = 1", quantity="epsilon").to_dict("records")
    assert (chosen["verdict"], chosen["why"]) == (Verdict.NOT_COMPARABLE, "chosen, and not found")


def test_accuracies_at_an_epsilon_are_compared_with_students_whose_labels_cost_as_much(tmp_path):
    facts = made.label_set(made.ensemble(), "gnmax", 40)
    labels = [made.student_record(facts, 100, 0.97), made.bound_record(facts, 100, 0.95, "label", Kind.WORST_CASE)]
    dear = made.label_set(made.ensemble(), "gnmax", 20)
    labels += [made.student_record(dear, 100, 0.99), made.bound_record(dear, 100, 1.2, "label", Kind.WORST_CASE)]
    frame = verdicts(made.load_records([made.write_collected(tmp_path / "c.json", labels)]), PUBLISHED)
    found = _of(frame, paper="DPMLBench 2023", row="PATE on MNIST at ε = 1", column="SimpleCNN").to_dict("records")
    assert [(each["published"], each["measured_mean"], each["verdict"]) for each in found] == [
        (0.2797, 0.97, Verdict.BETTER)
    ]
    (other,) = _of(frame, paper="DPMLBench 2023", row="PATE on MNIST at ε = 8", column="VGG").to_dict("records")
    assert other["verdict"] == Verdict.NOT_RUN


def test_models_of_other_pools_have_a_verdict_each(tmp_path):
    """Their mean would be of no setting."""
    split = {"split": {"pool": 1000, "test": None}}
    models = [made.baseline(accuracy=0.992), made.baseline(accuracy=0.95) | split]
    paths = [made.write_baseline(tmp_path / f"{n}.json", each) for n, each in enumerate(models)]
    frame = verdicts(made.load_records([], paths), PUBLISHED)
    found = _of(frame, paper="PATE 2017", quantity="baseline_accuracy", row="MNIST 100 queries")
    assert dict(zip(found["how"], found["measured_mean"], strict=True)) == {
        "small-cnn, modern, pool-9000": 0.992,
        "small-cnn, modern, pool-1000": 0.95,
    }


def test_private_models_of_two_epsilons_have_a_verdict_each(tmp_path):
    """DP-SGD printed 67 % of CIFAR-10 at ε = 2: a model at 1.93 and another at 2.0 are two settings."""
    models = [
        made.private_model(epsilon, accuracy, dataset="cifar10", seed=seed)
        for epsilon, accuracies in ((1.93, (0.60, 0.61)), (2.0, (0.70, 0.71)))
        for seed, accuracy in enumerate(accuracies)
    ]
    paths = [made.write_private_model(tmp_path / f"{n}.json", each) for n, each in enumerate(models)]
    frame = verdicts(made.load_records([], models=paths), PUBLISHED)
    found = _of(frame, paper="DP-SGD 2016", row="CIFAR-10 at ε = 2").dropna(subset="measured_mean")
    assert [how.rpartition(", ")[2] for how in found["how"]] == ["ε = 1.93", "ε = 2"]
    assert list(found["measured_mean"]) == pytest.approx([0.605, 0.705])
    assert list(found["seeds"]) == [2, 2]
    assert list(found["verdict"]) == [Verdict.SHORT, Verdict.BETTER]


def test_students_that_differ_in_anything_have_a_verdict_each(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    records = []
    for recipe, accuracy in (("fast", 0.90), ("modern", 0.98)):
        student = made.student_record(facts, 100, accuracy)
        records.append(student | {"student": f"supervised_small-cnn_{recipe}", "student_recipe": recipe})
    records.append(made.bound_record(facts, 100, 1.5, "moments", Kind.DATA_DEPENDENT))
    frame = verdicts(made.load_records([made.write_collected(tmp_path / "c.json", records)]), PUBLISHED)
    found = _of(frame, paper="PATE 2017", row="MNIST 100 queries", quantity="student_accuracy")
    measured = {how.rpartition(", ")[2]: mean for how, mean in zip(found["how"], found["measured_mean"], strict=True)}
    assert measured == {"fast": 0.90, "modern": 0.98}


def test_a_student_is_one_setting_whatever_deltas_its_labels_have_bounds_at(tmp_path):
    facts = made.label_set(made.ensemble(), "gnmax", 40)
    costs = [made.bound_record(facts, 100, 0.95, "label", Kind.WORST_CASE) | {"delta": each} for each in (1e-5, 1e-6)]
    records = [made.student_record(facts, 100, 0.97), *costs]
    frame = verdicts(made.load_records([made.write_collected(tmp_path / "c.json", records)]), PUBLISHED)
    found = _of(frame, paper="DPMLBench 2023", row="PATE on MNIST at ε = 1", column="SimpleCNN")
    assert list(found["seeds"]) == [1, 1]
    assert list(found["measured_std"].isna()) == [True, True], "one seed has no deviation"


def test_what_is_printed_at_an_epsilon_that_says_nothing_is_not_run(tmp_path):
    model = made.write_private_model(tmp_path / "m.json", made.private_model(8.0))
    frame = verdicts(made.load_records([], models=[model]), PUBLISHED)
    found = _of(frame, paper="DPMLBench 2023", row="DP-SGD on MNIST at ε = 100")
    reasons = set(found.loc[found["quantity"] == "accuracy_at_epsilon", "why"])
    assert reasons == {"nothing here spends ε = 100, which says little of privacy"}


def test_what_no_configuration_can_run_says_why(tmp_path):
    parameters = {"threshold": 200.0, "sigma1": 150.0, "sigma2": 40.0}
    facts = made.ensemble() | made.WHOLE_POOL | {"mechanism": "confident-gnmax", "parameters": parameters}
    facts |= {"noise": "threshold-200_sigma1-150_sigma2-40"}
    path = made.write_collected(tmp_path / "c.json", [made.student_record(facts, 640, 0.98)])
    frame = verdicts(made.load_records([path]), PUBLISHED)
    glyph = _of(frame, paper="Scalable PATE 2018", table="Table 1", dataset="glyph", quantity="answered")
    assert set(glyph["verdict"]) == {Verdict.NOT_RUN}
    assert set(glyph["why"]) == {"the authors keep Glyph to themselves"}
    assert not frame.loc[frame["measured_mean"].isna(), "why"].eq("").any()


def test_private_knn_is_compared_with_its_published_form(tmp_path):
    claimed = made.private_model(1.3, 0.97, "published") | {"system": "Private-kNN"}
    claimed["bounds"][0] |= {"kind": "claimed"}
    proven = made.private_model(0.9, 0.98, "sound") | {"system": "Private-kNN"}
    paths = [made.write_private_model(tmp_path / f"{n}.json", each) for n, each in enumerate((claimed, proven))]
    frame = verdicts(made.load_records([], models=paths), PUBLISHED)
    (epsilon,) = _of(frame, row="MNIST Private-kNN 735 queries", quantity="epsilon").to_dict("records")
    assert (epsilon["published"], epsilon["measured_mean"], epsilon["verdict"]) == (0.47, 1.3, Verdict.SHORT)
    (reached,) = _of(frame, row="MNIST Private-kNN 735 queries", quantity="private_model_accuracy").to_dict("records")
    assert (reached["published"], reached["measured_mean"], reached["verdict"]) == (0.988, 0.97, Verdict.SHORT)


def test_papers_count_each_number_once(tmp_path):
    records = _records(tmp_path)
    frame = TABLES.load("papers").build(records, PUBLISHED).set_index("paper")
    assert frame.loc["PATE 2017", "printed"] == len(PUBLISHED.of("PATE 2017").values)
    assert frame.loc["PATE 2017", [str(each) for each in COUNTING]].sum() == frame.loc["PATE 2017", "printed"]
    assert frame.loc["PATE 2017", "reproduced"] == 3  # one number that stands in two sections and Figure 4


def test_papers_tell_where_another_setting_fell_short(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    learnt = [made.student_record(facts, 100, accuracy) for accuracy in (0.98, 0.9)]
    learnt[1] |= {"method": "gan", "student": "gan_queries-100"}
    records = made.load_records([made.write_collected(tmp_path / "c.json", learnt)])
    counts = TABLES.load("papers").build(records, PUBLISHED).set_index("paper").loc["PATE 2017"]
    assert (counts["reproduced"], counts["short"], counts["short_otherwise"]) == (3, 0, 3)
    tables = {name: TABLES.load(name).build(records, PUBLISHED) for name in ("papers", "verdicts")}
    (told,) = (each for each in findings(tables) if "numbers of PATE 2017" in each)
    assert "by 2 results of this run" in told
    assert "of several settings that measured one the best counts" in told
    assert "unsound, though other settings fell short of 3" in told  # one accuracy, printed in three places
    (student,) = (each for each in findings(tables) if each.startswith("PATE 2017 prints"))
    assert student.endswith("has 98.00 %: reproduced.")


def test_different_students_that_are_as_accurate_are_different_results(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    learnt = [made.student_record(facts, queries, 0.98) for queries in (100, 1000)]
    frame = verdicts(made.load_records([made.write_collected(tmp_path / "c.json", learnt)]), PUBLISHED)
    assert frame["result"].nunique() == 2
    assert frame["result"].notna().sum() > 2  # several numbers, some quoted, are compared with each


def test_a_private_model_is_no_student(tmp_path):
    """Of DP-SGD that PATE 2017 quotes, the first lines tell elsewhere."""
    model = made.write_private_model(tmp_path / "m.json", made.private_model(8.0, 0.96))
    records = made.load_records([], [], models=[model])
    tables = {name: TABLES.load(name).build(records, PUBLISHED) for name in ("papers", "verdicts")}
    assert tables["verdicts"]["result"].nunique() == 1, "one accuracy, whatever it is compared with"
    assert not [each for each in findings(tables) if "a student here" in each]
    assert not [each for each in findings({"papers": tables["papers"]}) if " by 0 results" in each]


def test_what_was_measured_comes_first_with_its_spread_and_what_a_paper_chose_last_by_its_own_words(tmp_path):
    table = TABLES.load("verdicts").build(_records(tmp_path), PUBLISHED)
    table = table[table["paper"] == "PATE 2017"]
    measured = table["measured"].notna()
    assert list(measured) == sorted(measured, reverse=True)
    row = table[table["row"] == "MNIST 100 queries"].set_index("what")["measured"]
    assert (row["epsilon"], row["student accuracy"]) == ("1.5 ± 0.1", "97.83 % ± 0.76")
    assert set(table["what"].tail(3)) <= {value.column for value in PUBLISHED.of("PATE 2017").values}
    assert "setting" not in set(table["what"])


def test_a_gap_that_can_not_be_right_is_not_beaten(tmp_path):
    """Teachers that are as accurate as printed have a gap of two thirds, so none beats a fifth."""
    gaps = _of(verdicts(_records(tmp_path), PUBLISHED), quantity="gap_share_below")
    assert set(gaps["verdict"]) == {Verdict.NOT_COMPARABLE}
    assert set(gaps["why"]) == {"can not be right, by the accuracy that the paper prints: docs/corrections.md"}


def test_an_empty_run_has_empty_tables(tmp_path):
    digits = made.write_collected(tmp_path / "digits.json", [made.ensemble_record(made.ensemble("digits"))])
    for name in ("papers", "verdicts"):
        table = TABLES.load(name)
        frame = table.build(made.load_records([digits]), PUBLISHED)
        assert frame.empty
        assert len(table.rows(frame)) == 1
