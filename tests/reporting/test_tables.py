"""Tables: numbers against hand calculation, published values in place, the same bytes for the same records."""

import csv
import io
import math

import pandas as pd
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.mechanisms import MECHANISMS
from patebench.reporting.published import read_published
from patebench.reporting.tables import TABLES
from patebench.reporting.tables.table import Column, Table
from patebench.reporting.wording import parameters_in_words, rounds_in_words

PUBLISHED = read_published(made.PUBLISHED)


def _write(name, collected, baselines):
    """Return a table as CSV, Markdown and LaTeX."""
    table = TABLES.load(name)
    frame = table.build(made.load_records(collected, baselines), PUBLISHED)
    return table.csv(frame), table.markdown(frame), table.latex(frame)


def _students(tmp_path, seeds):
    """One student of 100 queries for each seed, with known accuracies and bounds."""
    collected, baselines = [], []
    for seed in seeds:
        facts = made.label_set(made.ensemble(seed=seed), "lnmax", 0.05)
        records = [
            made.student_record(facts, 100, (0.90, 0.92, 0.97)[seed]),
            made.bound_record(facts, 100, (1.0, 2.0, 3.0)[seed], "moments", Kind.DATA_DEPENDENT),
            made.bound_record(facts, 100, 0.5, "rdp", Kind.DATA_DEPENDENT),
            made.bound_record(facts, 100, 5.8, "strong-composition", Kind.WORST_CASE),
            made.bound_record(facts, 100, 4.31, "pld", Kind.WORST_CASE),
            made.bound_record(facts, 1000, 0.1, "pld", Kind.WORST_CASE),
        ]
        collected.append(made.write_collected(tmp_path / f"{seed}.json", records))
        baselines.append(made.write_baseline(tmp_path / f"baseline-{seed}.json", made.baseline(seed=seed)))
    return collected, baselines


def test_utility_and_privacy_by_hand(tmp_path):
    frame = TABLES.load("utility-privacy").build(made.load_records(*_students(tmp_path, (0, 1, 2))), PUBLISHED)
    (row,) = frame.to_dict("records")
    assert row["seeds"] == 3
    assert row["accuracy_mean"] == pytest.approx(0.93)
    assert row["accuracy_std"] == pytest.approx(math.sqrt((0.03**2 + 0.01**2 + 0.04**2) / 2))
    assert row["data_dependent_epsilon_mean"] == pytest.approx(2.0)  # the paper's accountant, not the smaller one
    assert row["data_dependent_epsilon_std"] == pytest.approx(1.0)
    assert row["data_dependent_accountant"] == "moments"
    assert (row["worst_case_epsilon_mean"], row["worst_case_accountant"]) == (4.31, "pld")  # the tightest at T = 100
    assert row["baseline_accuracy_mean"] == pytest.approx(0.99)
    published = [row[f"published_{what}"] for what in ("epsilon", "student_accuracy", "baseline_accuracy")]
    assert published == [2.04, 0.98, 0.9918]


def test_the_frontier_by_hand(tmp_path):
    """(ε, accuracy): (1, .95) and (3, .97) stand; (2, .94) costs more than a better one, ∞ is no place on it."""
    records = []
    for sigma, epsilon, accuracy in ((80, 1.0, 0.95), (60, 2.0, 0.94), (40, 3.0, 0.97), (10, math.inf, 0.99)):
        facts = made.label_set(made.ensemble(), "gnmax", sigma)
        records += [
            made.student_record(facts, 100, accuracy),
            made.bound_record(facts, 100, epsilon, "gdp", Kind.WORST_CASE),
        ]
    collected = [made.write_collected(tmp_path / "c.json", records)]
    frame = TABLES.load("frontier").build(made.load_records(collected), PUBLISHED)
    assert list(zip(frame["worst_case_epsilon_mean"], frame["accuracy_mean"], strict=True)) == [
        (1.0, 0.95),
        (3.0, 0.97),
    ]


def test_private_models_by_hand(tmp_path):
    made_up = [
        made.private_model(8.0),
        *(made.private_model(2.0, accuracy, seed=n) for n, accuracy in ((0, 0.9), (1, 0.94))),
    ]
    models = [made.write_private_model(tmp_path / f"{n}.json", each) for n, each in enumerate(made_up)]
    baselines = [made.write_baseline(tmp_path / "baseline.json", made.baseline())]
    frame = TABLES.load("private-models").build(made.load_records([], baselines, models=models), PUBLISHED)
    first, second = frame.to_dict("records")
    assert (first["epsilon_mean"], second["epsilon_mean"]) == (2.0, 8.0), "as people sort"
    assert (first["seeds"], second["seeds"]) == (2, 1)
    assert first["accuracy_mean"] == pytest.approx(0.92)
    assert first["accuracy_std"] == pytest.approx(0.02 * math.sqrt(2))
    assert first["baseline_accuracy_mean"] == pytest.approx(0.99)
    assert (first["kind"], first["adjacency"]) == ("worst_case", "add_or_remove_record")


def test_students_of_labels_that_protect_a_record_say_how_many_and_how_many_are_right(tmp_path):
    of_labels = {"system": "Private-kNN", "form": "sound", "model_parameters": None}
    made_up = [
        made.private_model(1.0),
        *(
            made.private_model(0.9, seed=n) | of_labels | {"answered": count, "label_accuracy": right}
            for n, count, right in ((0, 730, 0.96), (1, 740, 0.98))
        ),
    ]
    models = [made.write_private_model(tmp_path / f"{n}.json", each) for n, each in enumerate(made_up)]
    records = made.load_records([], models=models)
    first, second = TABLES.load("private-models").build(records, PUBLISHED).to_dict("records")
    assert (first["system"], second["system"]) == ("DP-SGD", "Private-kNN")
    assert (second["answered_mean"], second["label_accuracy_mean"]) == (735, pytest.approx(0.97))
    assert math.isnan(first["answered_mean"])
    for name in ("private-models", "equal-epsilon"):
        table = TABLES.load(name)
        _, *rows = table.rows(table.build(records, PUBLISHED))
        assert "Private-kNN" in {cell for row in rows for cell in row}
    printed = TABLES.load("equal-epsilon").build(records, PUBLISHED).query("learner == 'Private-kNN 2020'")
    assert (printed["epsilon_at_0.5"].item(), printed["accuracy_at_0.5_mean"].item()) == (0.47, 0.988)
    assert (printed["system"].item(), printed["kind"].item()) == ("Private-kNN", "claimed")


def test_accountants_side_by_side_by_hand(tmp_path):
    collected, baselines = _students(tmp_path, (0, 1, 2))
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    tight = made.bound_record(facts, 100, 0.4, "rdp", Kind.DATA_DEPENDENT) | {"conversion": "tight"}
    collected.append(made.write_collected(tmp_path / "tight.json", [tight]))
    frame = TABLES.load("accountants").build(made.load_records(collected, baselines), PUBLISHED)
    first, later = frame.to_dict("records")
    assert (first["queries"], later["queries"]) == (100, 1000)
    assert first["worst_case: strong composition_mean"] == 5.8
    assert first["worst_case: Gaussian DP, PLD_mean"] == 4.31
    assert first["data_dependent: moments, l ≤ 8_mean"] == pytest.approx(2.0)
    assert first["data_dependent: moments, l ≤ 8_std"] == pytest.approx(1.0)
    assert first["data_dependent: Rényi, as published_mean"] == 0.5
    assert first["data_dependent: Rényi_mean"] == 0.4
    assert later["worst_case: Gaussian DP, PLD_mean"] == pytest.approx(0.1)
    assert math.isnan(later["worst_case: strong composition_mean"])
    titles = {column.title for column in TABLES.load("accountants").shown(frame)}
    assert {"strong composition", "Gaussian DP, PLD"} < titles
    assert "exact per teacher" not in titles, "a column without any value is left out"


def test_disagreement_by_hand(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    other = made.label_set(made.ensemble(), "lnmax", 0.2)
    records = [
        made.student_record(facts, 100, 0.9),
        made.bound_record(facts, 100, 2.0, "moments", Kind.DATA_DEPENDENT),
        made.bound_record(facts, 100, 0.5, "exact", Kind.DATA_DEPENDENT),
        made.bound_record(facts, 100, 0.4, "exact-per-teacher", Kind.DATA_DEPENDENT),
        made.bound_record(facts, 100, 5.0, "strong-composition", Kind.WORST_CASE),
        made.bound_record(facts, 100, 4.0, "pld", Kind.WORST_CASE),
        made.bound_record(facts, 1000, math.inf, "pld", Kind.WORST_CASE),
        made.bound_record(other, 100, 9.0, "pld", Kind.WORST_CASE),
    ]
    path = made.write_collected(tmp_path / "c.json", records)
    frame = TABLES.load("disagreement").build(made.load_records([path]), PUBLISHED)
    assert set(frame["noise"]) == {"gamma-0.05"}, "label sets that no student uses are left out"
    rows = {(row["accountant"], row["queries"]): row for row in frame.to_dict("records")}
    assert rows["moments", 100]["over_sound_mean"] == 0.5
    assert rows["moments", 100]["over_exact_mean"] == pytest.approx(5.0)
    assert rows["strong-composition", 100]["over_sound_mean"] == 1.25
    assert rows["exact-per-teacher", 100]["over_exact_mean"] == 1.0
    assert rows["pld", 100]["over_sound_mean"] == 1.0
    assert math.isnan(rows["pld", 1000]["over_sound_mean"]), "∞ over ∞ says nothing"
    assert [row["accountant"] for row in frame.to_dict("records")][:3] == ["exact-per-teacher", "exact", "moments"]
    alone = TABLES.load("disagreement").build(
        made.load_records([made.write_collected(tmp_path / "d.json", records[1:])]), PUBLISHED
    )
    assert set(alone["noise"]) == {"gamma-0.05", "gamma-0.2"}, "without students, all are shown"


def test_a_single_seed_has_no_deviation(tmp_path):
    text, markdown, _ = _write("utility-privacy", *_students(tmp_path, (1,)))
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["accuracy_mean"], row["accuracy_std"]) == ("0.92", "")
    assert "| 92.00 |" in markdown
    assert "±" not in markdown


def test_a_single_seed_has_no_deviation_beside_others_that_have_one(tmp_path):
    collected, baselines = _students(tmp_path, (0, 1))
    facts = made.label_set(made.ensemble(seed=0), "lnmax", 0.05)
    alone = made.write_collected(tmp_path / "alone.json", [made.student_record(facts, 1000, 0.88)])
    _, markdown, _ = _write("utility-privacy", [*collected, alone], baselines)
    assert "| 88.00 |" in markdown
    assert "91.00 ± 1.41" in markdown


@pytest.mark.parametrize(("dataset", "teachers"), [("digits", 250), ("mnist", 100)])
def test_published_values_stand_only_beside_their_own_setting(tmp_path, dataset, teachers):
    collected, baselines = made.files(tmp_path, (dataset,), (0,), (teachers,))
    records = made.load_records(collected, baselines)
    for name in ("utility-privacy", "ensembles", "noisy-accuracy"):
        table = TABLES.load(name)
        frame = table.build(records, PUBLISHED)
        published = frame[[column for column in frame.columns if column.startswith("published")]]
        assert len(published.columns) > 0
        assert published.isna().all(axis=None)
        assert not any("published" in column.title for column in table.shown(frame))


def test_published_values_of_the_ensembles(tmp_path):
    frame = TABLES.load("ensembles").build(made.load_records(*made.files(tmp_path, ("mnist", "svhn"))), PUBLISHED)
    large = frame[frame["teachers"] == 250]
    assert large["published_teacher_accuracy"].tolist() == [0.8386, 0.8318]
    assert large["published_label_accuracy"].tolist() == [0.9318, 0.8779]
    assert frame[frame["teachers"] == 10]["published_label_accuracy"].isna().all()


def test_ensembles_by_hand(tmp_path):
    frame = TABLES.load("ensembles").build(
        made.load_records(*made.files(tmp_path, seeds=(0, 2), teachers=(250,))), PUBLISHED
    )
    (row,) = frame.to_dict("records")
    assert row["teacher_accuracy_mean"] == pytest.approx((0.94 + 0.944) / 2)
    assert row["teacher_accuracy_std"] == pytest.approx(0.004 / math.sqrt(2))
    assert row["gap_mean"] == pytest.approx(0.892)
    expected = 0.98 - 0.8 * 2.0 ** (-0.05 * 250 / 3)
    assert row["label_accuracy_mean"] == pytest.approx(expected)  # drawn: seed adds and takes the same
    assert (row["teacher_accuracy_min"], row["teacher_accuracy_max"]) == (0.9, 0.99)


def test_noisy_accuracy_lists_every_setting_in_order(tmp_path):
    frame = TABLES.load("noisy-accuracy").build(made.load_records(*made.files(tmp_path)), PUBLISHED)
    assert len(frame) == 14
    assert frame["noise"].tolist()[:7] == [
        *("sigma-10", "sigma-40", "sigma-100"),
        *("gamma-0.01", "gamma-0.05", "gamma-0.2", "gamma-1"),
    ]
    row = frame[(frame["teachers"] == 250) & (frame["noise"] == "gamma-0.05")].iloc[0]
    assert row["published_label_accuracy"] == 0.9318
    assert row["expected_label_accuracy_mean"] == pytest.approx(0.98 - 0.8 * 2.0 ** (-12.5 / 3) + 0.0005)


def test_bounds_keep_all_that_makes_them_readable(tmp_path):
    frame = TABLES.load("bounds").build(made.load_records(*_students(tmp_path, (0, 1, 2))), PUBLISHED)
    assert len(frame) == 5
    moments = frame[frame["accountant"] == "moments"].iloc[0]
    assert (moments["kind"], moments["publishable"], moments["conversion"]) == ("data_dependent", False, "classic")
    assert (moments["epsilon_min"], moments["epsilon_max"], moments["order_min"]) == (1.0, 3.0, 5.0)
    assert set(frame["source"]) == {"made up"}
    assert set(frame["adjacency"]) == {"replace_teacher"}


def test_an_infinite_bound_is_shown_as_such(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    records = [
        made.student_record(facts, 100, 0.9),
        made.bound_record(facts, 100, math.inf, "pld", Kind.WORST_CASE),
    ]
    path = made.write_collected(tmp_path / "c.json", records)
    text, markdown, latex = _write("bounds", [path], [])
    assert ",inf," in text
    assert "∞" in markdown
    assert r"$\infty$" in latex
    _write("utility-privacy", [path], [])


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_same_records_same_bytes_in_any_order(tmp_path, name):
    collected, baselines = made.files(tmp_path, ("mnist", "digits"))
    first = _write(name, collected, baselines)
    assert first == _write(name, collected[::-1], baselines[::-1])
    assert all("\r" not in text and text.endswith("\n") for text in first)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_csv_reads_back_at_full_precision(tmp_path, name):
    collected, baselines = made.files(tmp_path)
    text = _write(name, collected, baselines)[0]
    frame = TABLES.load(name).build(made.load_records(collected, baselines), PUBLISHED)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(frame)
    numbers = list(frame.select_dtypes("number").columns)
    assert numbers or frame.empty
    for row, (_, wanted) in zip(rows, frame.iterrows(), strict=True):
        for column in numbers:
            missing = row[column] == "" and pd.isna(wanted[column])
            assert missing or float(row[column]) == wanted[column]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_forms_have_one_shape(tmp_path, name):
    text, markdown, latex = _write(name, *made.files(tmp_path))
    count = text.count("\n") - 1
    lines = markdown.splitlines()
    assert len(lines) == count + 2
    assert len({line.count("|") for line in lines}) == 1
    body = [line for line in latex.splitlines() if line.endswith(r" \\")]
    assert len(body) == count + 1
    assert {line.count("&") + 2 for line in body} == {lines[0].count("|")}
    assert latex.count(r"\toprule") == latex.count(r"\midrule") == latex.count(r"\bottomrule") == 1


def test_latex_is_escaped(tmp_path):
    record = made.ensemble_record({**made.ensemble(), "model": "a_B&c%d#e"})
    path = made.write_collected(tmp_path / "c.json", [record])
    latex = _write("ensembles", [path], [])[2]
    assert r"a, B\&c\%d\#e" in latex
    assert r"$\gamma$" in latex
    assert latex.replace(r"\%", "").count("%") == 1  # the comment about booktabs
    assert latex.isascii()


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kinds", [(), ("ensemble",), ("label_set",), ("bound",), ("student",), ("student", "bound")])
def test_any_subset_of_records_makes_a_table(tmp_path, name, kinds):
    records = [record for record in made.records() if record["record"] in kinds]
    collected = [made.write_collected(tmp_path / "c.json", records)] if kinds else []
    assert all(_write(name, collected, []))


def test_a_worst_case_of_seeded_labels_is_shown_as_that_of_fresh_noise(tmp_path):
    """Their own records say that nothing may be published of them."""
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    records = [
        made.student_record(facts, 100, 0.9),
        {**made.bound_record(facts, 100, 1.0, "pld", Kind.WORST_CASE), "publishable": False},
        made.bound_record(facts, 100, 5.8, "strong-composition", Kind.WORST_CASE),
    ]
    collected = [made.write_collected(tmp_path / "c.json", records)]
    (row,) = TABLES.load("utility-privacy").build(made.load_records(collected), PUBLISHED).to_dict("records")
    assert (row["worst_case_epsilon_mean"], row["worst_case_accountant"]) == (1.0, "pld")
    headings = [column.title for column in TABLES.load("utility-privacy").columns]
    assert "worst case, of fresh noise" in headings
    assert "worst case, publishable" not in headings


def test_settings_in_words():
    rounds = [{"strategy": "random", "queries": 100}, {"strategy": "least-confident", "queries": 50}]
    assert rounds_in_words(rounds) == "random 100 + least confident 50"
    assert rounds_in_words([]) == ""
    assert parameters_in_words("gnmax", {"sigma": 40.0}) == "σ = 40"
    immutable = {"c": 1e100, "gamma": 1e-10, "distance": 3.0}
    assert parameters_in_words("immutable-lnmax", immutable) == "c = 1e100, γ = 1e-10, distance = 3"
    confident = {"threshold": 30.0, "sigma1": "inf", "sigma2": 0.5}
    assert parameters_in_words("confident-gnmax", confident) == "threshold = 30, σ₁ = ∞, σ₂ = 0.5"
    assert parameters_in_words("of-elsewhere", {"heat": 3.0, "gamma": 2.0}) == "heat = 3, γ = 2"


@pytest.mark.parametrize("name", MECHANISMS)
def test_an_epsilon_among_the_parameters_says_what_it_is_of(name: str) -> None:
    kind = MECHANISMS.load(name)
    words = parameters_in_words(name, kind.example)
    assert words.count("ε of a") == ("epsilon" in kind.parameter_names()), words


@pytest.mark.parametrize("name", ["utility-privacy", "frontier", "ensembles", "noisy-accuracy", "bounds"])
def test_rows_of_several_pools_say_of_which_they_are(tmp_path, name):
    """They are equal otherwise, as people read them."""
    table, written = TABLES.load(name), {}
    for pool in ("pool-9000", "pool-1000"):
        facts = made.ensemble() | {"split": f"seed-0_{pool}", "setting": pool, "pool": int(pool[5:])}
        of = made.label_set(facts, "gnmax", 40.0)
        records = [made.ensemble_record(facts), made.student_record(of, 100, 0.95)]
        records += [made.bound_record(of, 100, 2.0, "rdp", Kind.WORST_CASE), made.label_set_record(of, 0.97, 0.97)]
        written[pool] = made.write_collected(tmp_path / f"{pool}.json", records)
    headings, *rows = table.rows(table.build(made.load_records([*written.values()]), PUBLISHED))
    assert {row[headings.index("Split")] for row in rows} == {"pool 9000", "pool 1000"}
    one = table.build(made.load_records([written["pool-9000"]]), PUBLISHED)
    assert "Split" not in table.rows(one)[0]


def test_a_column_without_any_value_is_left_out_and_an_empty_table_keeps_all():
    table = Table(
        "T", (Column("a", "A"), Column("b", "B", "percent", deviation=True), Column("c", "C")), lambda *_: None
    )
    frame = pd.DataFrame({"a": ["x", "y"], "b_mean": [math.nan] * 2, "b_std": [math.nan] * 2, "c": ["", None]})
    assert table.rows(frame) == [["A"], ["x"], ["y"]]
    assert table.rows(frame[:0]) == [["A", "B", "C"]]
