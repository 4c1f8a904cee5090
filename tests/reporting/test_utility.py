"""Test tables and figures of students and private models against values worked out by hand."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.findings import findings
from patebench.reporting.outcomes import data_seen, frontier, outcomes
from patebench.reporting.style import mechanism_styles, save
from patebench.reporting.tables import TABLES


def test_utility_and_privacy_by_hand(tmp_path):
    frame = made.table("utility-privacy", *made.known_students(tmp_path))
    (row,) = frame.to_dict("records")
    assert row["seeds"] == 3
    assert row["accuracy_mean"] == pytest.approx(2.935 / 3)
    assert row["accuracy_std"] == pytest.approx(math.sqrt((0.025**2 + 0.005**2 + 0.02**2) / 18))
    assert row["data_dependent_epsilon_mean"] == pytest.approx(1.5)  # the accountant of the paper, not the smaller ε
    assert row["data_dependent_epsilon_std"] == pytest.approx(0.1)
    assert row["data_dependent_accountant"] == "moments"
    assert (row["worst_case_epsilon_mean"], row["worst_case_accountant"]) == (4.31, "pld")  # the tightest at T = 100
    assert row["baseline_accuracy_mean"] == pytest.approx(0.99)
    published = [row[f"published_{what}"] for what in ("epsilon", "student_accuracy", "baseline_accuracy")]
    assert published == [2.04, 0.98, 0.9918]


def test_pareto_front_by_hand(tmp_path):
    """Use (ε, accuracy) pairs: (1, .95) and (3, .97) are on the frontier, (2, .94) and infinite ε are not."""
    records = []
    for sigma, epsilon, accuracy in ((80, 1.0, 0.95), (60, 2.0, 0.94), (40, 3.0, 0.97), (10, math.inf, 0.99)):
        records += made.costing(made.label_set(made.ensemble(), "gnmax", sigma), 100, accuracy, epsilon, "gdp")
    frame = outcomes(made.load_records(made.collected(tmp_path, *records)))
    frame = frame[frontier(frame)].sort_values("worst_case_epsilon_mean")
    assert frame[["worst_case_epsilon_mean", "accuracy_mean"]].to_numpy().tolist() == [[1.0, 0.95], [3.0, 0.97]]


def test_private_models_by_hand(tmp_path):
    """Students of labels that protect a record say how many labels there are and how many are right."""
    two = [
        made.private_model(2.0, accuracy, seed=n) | {"model_parameters": 26010 + n}
        for n, accuracy in ((0, 0.9), (1, 0.94))
    ]
    of_labels = {"system": "Private-kNN", "form": "sound", "model_parameters": None}
    labelled = [
        made.private_model(0.9, seed=n) | of_labels | {"answered": count, "label_accuracy": right}
        for n, count, right in ((0, 730, 0.96), (1, 740, 0.98))
    ]
    baselines = made.models(tmp_path, made.baseline(), kind="train_baseline")
    models = made.models(tmp_path, made.private_model(8.0), *two, *labelled)
    frame = made.table("private-models", [], baselines, models=models)
    first, second, third = frame.to_dict("records")
    assert [each["epsilon_mean"] for each in (first, second)] == [2.0, 8.0], "natural order"
    assert [each["seeds"] for each in (first, second)] == [2, 1]
    assert (first["accuracy_mean"], first["accuracy_std"]) == pytest.approx((0.92, 0.02 * math.sqrt(2)))
    assert first["baseline_accuracy_mean"] == pytest.approx(0.99)
    assert (first["kind"], first["adjacency"]) == ("worst_case", "add_or_remove_record")
    assert (first["system"], third["system"]) == ("DP-SGD", "Private-kNN")
    assert (third["answered_mean"], third["label_accuracy_mean"]) == (735, pytest.approx(0.97))
    assert first["model_parameters"] == 26011, "the largest over the seeds"
    assert math.isnan(first["answered_mean"])
    equal = made.table("equal-epsilon", models=models)
    for name, table in (("private-models", frame), ("equal-epsilon", equal)):
        assert "Private-kNN" in {cell for row in TABLES.load(name).rows(table)[1:] for cell in row}
    printed = equal.query("learner == 'Private-kNN 2020'")
    assert (printed["epsilon_at_0.5"].item(), printed["accuracy_at_0.5_mean"].item()) == (0.47, 0.988)
    assert (printed["system"].item(), printed["kind"].item()) == ("Private-kNN", "claimed")


def test_a_single_seed_has_no_deviation_beside_others_that_have_one(tmp_path):
    collected, baselines = made.known_students(tmp_path, (0, 1))
    facts = made.label_set(made.ensemble(seed=0), "lnmax", 0.05)
    alone = made.collected(tmp_path, made.student_record(facts, 1000, 0.88))
    _, markdown, _ = made.forms("utility-privacy", [*collected, *alone], baselines)
    assert "| 88.00 |" in markdown
    assert "97.50 ± 0.71" in markdown


@pytest.mark.parametrize(("dataset", "teachers"), [("digits", 250), ("mnist", 100)])
def test_published_values_are_only_in_rows_of_the_same_setting(tmp_path, dataset, teachers):
    collected, baselines = made.files(tmp_path, (dataset,), (0,), (teachers,))
    records = made.load_records(collected, baselines)
    for name in ("utility-privacy", "ensembles", "noisy-accuracy"):
        table = TABLES.load(name)
        frame = table.build(records, made.PRINTED)
        published = frame[[column for column in frame.columns if column.startswith("published")]]
        assert len(published.columns) > 0
        assert published.isna().all(axis=None)
        assert not any("published" in column.title for column in table.shown(frame))


@pytest.fixture(scope="module")
def frame(tmp_path_factory: pytest.TempPathFactory) -> Any:
    tmp_path = tmp_path_factory.mktemp("records")
    collected, compared = made.files(tmp_path, teachers=(250,))
    for seed, accuracy in ((0, 0.98), (1, 0.99)):
        collected += made.collected(tmp_path, *made.cluster_student(accuracy, seed=seed, sigma=8, method="consistency"))
        known = ((10, 0.7, 0.6), (50, 0.9, None), (100, 0.95, None))
        namings = [made.naming(clusters, named + seed / 50, seed, matched) for clusters, named, matched in known]
        compared += made.models(tmp_path, *namings, kind="name_clusters")
    model = made.private_model(1.0, 0.9) | {"public_use": "features", "public_samples": 9000}
    model["split"] = {"pool": 9000, "test": None, "encoder_data": "ImageNet"}
    return made.table("bits", collected, compared, models=made.models(tmp_path, model))


def test_cluster_students_are_compared_with_as_many_named_clusters(frame: Any) -> None:
    (row,) = frame[frame["teachers"] == 600].to_dict("records")
    assert (row["named_clusters"], row["seeds"]) == (50, 2)
    assert row["named_accuracy_mean"] == pytest.approx(0.91)
    assert row["named_accuracy_std"] == pytest.approx(0.02 / math.sqrt(2))
    assert row["matched_accuracy_mean"] == pytest.approx(0.6)
    assert (row["epsilon"], row["accuracy_mean"]) == (0.5, pytest.approx(0.985))
    assert row["baseline_accuracy_mean"] == pytest.approx(0.9905)
    assert (row["public_use"], row["public_samples"]) == ("features, queries, student", 9000)


def test_other_students_are_compared_with_the_most_clusters(frame: Any) -> None:
    assert set(frame.loc[frame["teachers"] != 600, "named_clusters"]) == {100}
    few = frame[(frame["teachers"] == 250) & (frame["queries"] == 100)]
    assert set(few["public_use"]) == {"queries"}
    assert set(few["public_samples"]) == {100}, "a supervised student uses labelled samples only"
    (model,) = frame[frame["system"] == "DP-SGD"].to_dict("records")
    assert (model["public_use"], model["public_samples"], model["epsilon"]) == ("features", 9000, 1.0)
    assert model["encoder_data"] == "ImageNet"
    assert set(few["encoder_data"]) == {"none"}
    assert data_seen({"encoder_data": "ImageNet", "features_data": "LAION"}, "features, queries") == "LAION; ImageNet"
    assert data_seen({"encoder_data": "ImageNet", "features_data": "LAION"}, "queries") == "LAION"


def test_voting_records_use_features(tmp_path: Path) -> None:
    facts = made.ensemble(teachers=60000, model="nearest-query")
    of = made.label_set(facts, "gnmax", 40.0) | {"rounds": "a_b", "strategy": "least-confident", "round": 1}
    compared = made.models(tmp_path, made.naming(50, 0.9), kind="name_clusters")
    collected = made.collected(tmp_path, *made.costing(of, 70, 0.9, 0.5, "gdp"))
    (row,) = made.table("bits", collected, compared).to_dict("records")
    assert (row["public_use"], row["public_samples"]) == ("features, queries", 9000)


def test_finding_states_the_best_accuracy_of_public_data(frame: Any) -> None:
    """Ignore the same number of clusters by poorer features."""
    poorer = frame.assign(named_accuracy_mean=frame["named_accuracy_mean"] - 0.1, setting="pixels")
    for tables in ([frame, poorer], [poorer, frame]):
        (said,) = (each for each in findings({"bits": pd.concat(tables)}) if "clusters of public data" in each)
        assert "100 clusters of public data, named by true labels, reached 96.00 % at ε = 0" in said


def test_without_named_clusters_there_is_nothing_to_compare(tmp_path: Path) -> None:
    assert made.table("bits", *made.files(tmp_path)).empty


def test_frontier_figure_by_hand(tmp_path):
    (axis,) = made.draw("frontier", *made.files(tmp_path, seeds=(0, 1), teachers=(250,))).axes
    points = [bars.lines[0] for bars in axis.containers]
    places = {(point.get_markerfacecolor(), *np.round(point.get_xydata()[0], 4)) for point in points}
    assert ("white", 0.65, 0.961) in places, "data-dependent"
    assert (mechanism_styles()["lnmax"].color, 4.0, 0.961) in places, "worst-case, publishable"
    assert {point.get_marker() for point in points} == {mechanism_styles()[name].marker for name in ("lnmax", "gnmax")}
    hollow = {tuple(dots.get_offsets()[0]) for dots in axis.collections if "published" in str(dots.get_label())}
    assert hollow == {(2.04, 0.98), (8.03, 0.981), (8.0, 0.97), (1.97, 0.985)}
    assert made.lines(axis)["without privacy"].get_ydata()[0] == pytest.approx(0.9905)


def test_frontier_shows_private_models_with_and_without_students(tmp_path):
    found = [(1.0, 0.95, "scratch"), (8.0, 0.98, "scratch"), (1.0, 0.97, "linear")]
    models = made.models(tmp_path / "models", *(made.private_model(*each) for each in found))
    for collected, baselines in (made.files(tmp_path, seeds=(0, 1), teachers=(250,)), ([], [])):
        figure = made.draw("frontier", collected, baselines, models=models)
        (axis,) = figure.axes
        assert axis.get_title() == "MNIST"
        lines = {bars.get_label(): bars.lines[0].get_xydata().tolist() for bars in axis.containers}
        wanted = {
            "DP-SGD, scratch, of one record": [[1.0, 0.95], [8.0, 0.98]],
            "DP-SGD, linear, of one record": [[1.0, 0.97]],
        }
        assert {name: lines[name] for name in wanted} == wanted
        assert set(wanted) < set(made.legend(figure))
        published = {tuple(dots.get_offsets()[0]) for dots in axis.collections if "of one rec" in str(dots.get_label())}
        assert published >= {(8.0, 0.97), (1.2, 0.981), (2.93, 0.981), (1.0, 0.968), (0.47, 0.988)}


def test_frontier_distinguishes_methods_and_selected_queries(tmp_path):
    facts = made.label_set(made.ensemble(), "lnmax", 0.05)
    gan = made.student_record(facts, 100, 0.95) | {"method": "gan", "student": "gan_queries-100"}
    selected = made.selected_student_record(facts, 100, 0.96)
    cost = made.bound_record(made.selected(facts, ("prototypes", 100)), 100, 4.8, "pld", Kind.WORST_CASE)
    collected = made.collected(tmp_path, *made.costing(facts, 100, 0.9, 5.8), gan, selected, cost)
    (axis,) = made.draw("frontier", collected).axes
    assert len({made.lines(axis)[method].get_color() for method in ("GAN", "supervised")}) == 2
    points = {tuple(bars.lines[0].get_xydata()[0]) for bars in axis.containers}
    assert {(5.8, 0.9), (5.8, 0.95), (4.8, 0.96)} <= points


def test_frontier_notes_state_differing_parameters(tmp_path):
    records = []
    for sigma2, epsilon, accuracy in ((40.0, 2.0, 0.97), (80.0, 0.5, 0.9)):
        parameters = {"threshold": 200.0, "sigma1": 150.0, "sigma2": sigma2}
        noise = {"noise": f"threshold-200_sigma1-150_sigma2-{sigma2:g}", "parameters": parameters}
        facts = made.label_set(made.ensemble(), "gnmax", sigma2) | noise | {"mechanism": "confident-gnmax"}
        records += made.costing(facts, 100, accuracy, epsilon, "label")
    (axis,) = made.draw("frontier", made.collected(tmp_path, *records)).axes
    assert {"T = 100, σ₂ = 40", "T = 100, σ₂ = 80"} <= {text.get_text() for text in axis.texts}


def test_a_student_without_a_data_dependent_epsilon_has_one_marker(tmp_path):
    records = made.costing(made.label_set(made.ensemble(), "lnmax", 0.05), 100, 0.9, 5.8)
    figure = made.draw("frontier", made.collected(tmp_path, *records))
    save(figure, tmp_path / "frontier.png")
    lines = [line for line in figure.axes[0].lines if 0.9 in line.get_ydata()]
    assert {line.get_marker() for line in lines} <= {mechanism_styles()["lnmax"].marker, "_", "|"}
    assert "worst-case ε, for fresh noise" in made.legend(figure)
    assert "data-dependent ε, not publishable" not in made.legend(figure)
