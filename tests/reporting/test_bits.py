"""What public data knew already and what privacy paid for, worked out by hand from made-up records."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.findings import findings
from patebench.reporting.published import read_published
from patebench.reporting.tables import TABLES

PUBLISHED = read_published(made.PUBLISHED)


def one_vote(seed: int, clusters: int, accuracy: float) -> list[dict[str, Any]]:
    """A student of labels of clusters, at ε = 0.5 whatever the seed."""
    facts = made.ensemble(seed=seed, teachers=60000, model="nearest-query")
    facts |= {"clusters": clusters, "ensemble": f"teachers-60000_queries-{clusters}"}
    of = made.label_set(facts, "gnmax", 40.0)
    student = made.student_record(of, clusters, accuracy) | {"method": "consistency"}
    return [made.bound_record(of, clusters, 0.5, "gdp", Kind.WORST_CASE), student]


@pytest.fixture
def frame(tmp_path: Path) -> Any:
    collected, compared = made.files(tmp_path, teachers=(250,))
    for seed, accuracy in ((0, 0.98), (1, 0.99)):
        path = tmp_path / f"one-vote-{seed}.json"
        collected.append(made.write_collected(path, one_vote(seed, 50, accuracy)))
        for clusters, named, matched in ((10, 0.7, 0.6), (50, 0.9, None), (100, 0.95, None)):
            naming = made.naming(clusters, named + seed / 50, seed, matched)
            compared.append(made.write_naming(tmp_path / f"naming-{clusters}-{seed}.json", naming))
    model = made.private_model(1.0, 0.9) | {"public_use": "features", "public_samples": 9000}
    models = [made.write_private_model(tmp_path / "model.json", model)]
    return TABLES.load("bits").build(made.load_records(collected, compared, models=models), PUBLISHED)


def test_labels_of_clusters_stand_beside_as_many_named_ones(frame: Any) -> None:
    (row,) = frame[frame["teachers"] == 60000].to_dict("records")
    assert (row["named_clusters"], row["seeds"]) == (50, 2)
    assert row["named_accuracy_mean"] == pytest.approx(0.91)
    assert row["named_accuracy_std"] == pytest.approx(0.02 / math.sqrt(2))
    assert row["matched_accuracy_mean"] == pytest.approx(0.6)
    assert (row["epsilon"], row["accuracy_mean"]) == (0.5, pytest.approx(0.985))
    assert row["baseline_accuracy_mean"] == pytest.approx(0.9905)
    assert (row["public_use"], row["public_samples"]) == ("features, queries, student", 9000)


def test_all_others_stand_beside_the_most_clusters_and_say_what_they_used(frame: Any) -> None:
    assert set(frame.loc[frame["teachers"] != 60000, "named_clusters"]) == {100}
    few = frame[(frame["teachers"] == 250) & (frame["queries"] == 100)]
    assert set(few["public_use"]) == {"queries"}
    assert set(few["public_samples"]) == {100}, "a supervised student sees what it has labels of"
    (model,) = frame[frame["system"] == "DP-SGD"].to_dict("records")
    assert (model["public_use"], model["public_samples"], model["epsilon"]) == ("features", 9000, 1.0)


def test_records_that_vote_in_rounds_do_so_by_features_whatever_selected_their_queries(tmp_path: Path) -> None:
    facts = made.ensemble(teachers=60000, model="nearest-query")
    rounds = {"rounds": "a_b", "strategy": "least-confident", "round": 1}
    of = made.label_set(facts, "gnmax", 40.0) | rounds
    student = made.student_record(of, 70, 0.9) | {"method": "supervised"}
    bound = made.bound_record(of, 70, 0.5, "gdp", Kind.WORST_CASE)
    compared = [made.write_naming(tmp_path / "naming.json", made.naming(50, 0.9, 0, None))]
    collected = [made.write_collected(tmp_path / "rounds.json", [bound, student])]
    frame = TABLES.load("bits").build(made.load_records(collected, compared), PUBLISHED)
    (row,) = frame.to_dict("records")
    assert (row["public_use"], row["public_samples"]) == ("features, queries", 9000)


def test_the_best_that_public_data_tell_is_found(frame: Any) -> None:
    """Not that of as many clusters by poorer features: private data are to thank for what lies above the best."""
    poorer = frame.assign(named_accuracy_mean=frame["named_accuracy_mean"] - 0.1, setting="pixels")
    for tables in ([frame, poorer], [poorer, frame]):
        (said,) = (each for each in findings({"bits": pd.concat(tables)}) if each.startswith("Public data alone"))
        assert "100 clusters, named by true labels, reach 96.00 % at ε = 0" in said


def test_without_named_clusters_there_is_nothing_to_compare(tmp_path: Path) -> None:
    assert TABLES.load("bits").build(made.load_records(*made.files(tmp_path)), PUBLISHED).empty


def test_what_people_read(frame: Any) -> None:
    table = TABLES.load("bits")
    head, *rows = table.rows(frame)
    assert "At ε = 0: % of all, named by true labels" in head
    assert any("91.00 ± 1.41" in row and "98.50 ± 0.71" in row for row in rows)
