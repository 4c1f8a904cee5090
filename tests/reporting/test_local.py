"""Test local mechanisms from votes to table: costs per teacher, and labels without an expectation."""

import numpy as np
import pytest
from tests.reporting import made
from tests.stages.labels import release_labels, state_bounds, write_votes

from patebench.core.files import read_arrays, read_json, write_arrays, write_json
from patebench.core.formats import TRUTH, VOTES
from patebench.mechanisms.base import make_mechanism
from patebench.reporting.tables import TABLES
from patebench.stages.collect import run as collect

COMMON = {"unbiased": 0.0, "participation": 1.0, "spread": 1.0}
SETTINGS = [
    ("truncated-geometric", {"epsilon": 2.0, **COMMON, "unbiased": 1.0}),
    ("randomised-response", {"epsilon": 2.0, **COMMON, "participation": 0.5, "spread": 4.0}),
]


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """Return the records of one ensemble of 8 teachers, 40 queries and 3 classes."""
    folder = tmp_path_factory.mktemp("local")
    truth = np.random.default_rng(0).integers(0, 3, size=40)
    voted = np.where(np.random.default_rng(1).random((8, 40)) < 0.8, truth, (truth + 1) % 3).astype(np.int16)
    digest = read_arrays(write_votes(folder / "votes.npz", voted, classes=3), VOTES).digest
    write_arrays(folder / "truth.npz", TRUTH, {"y": truth}, {"pool": "q", "classes": 3})
    facts = {"votes": digest, "classes": 3, "model": "small-cnn", "recipe": "modern", "epochs": 5, "partition": "iid"}
    gaps = {"gap_histogram": [0] * 9, "gap_mean": 0.5, "plurality_accuracy_pool": 0.9, "plurality_accuracy_test": 0.9}
    facts |= {"dataset": "toy", "split": {"pool": 40, "test": None}}
    facts |= {"training": {"model": "small-cnn", "recipe": "modern", "epochs": None}}
    ensemble = {**facts, **gaps, "teachers": 8, "seed": 0, "teacher_accuracies": [0.8] * 8}
    write_json(folder / "ensemble.json", "join_votes", ensemble)
    releases = [folder / f"{name}-{make_mechanism(name, parameters).slug}" for name, parameters in SETTINGS]
    for (name, parameters), release in zip(SETTINGS, releases, strict=True):
        release_labels(folder / "votes.npz", name, parameters, release / "labels.npz", seed=0, stream=str(release.name))
        state_bounds(
            folder / "votes.npz", release / "labels.npz", [10, 40], release / "bounds.json", seed=0, stream="s"
        )
    collect(
        ensemble=folder / "ensemble.json",
        votes=folder / "votes.npz",
        truth=folder / "truth.npz",
        labels=[release / "labels.npz" for release in releases],
        bounds=[release / "bounds.json" for release in releases],
        students=[],
        out=folder / "collected.json",
    )
    return folder / "collected.json"


def test_labels_have_no_expectation_and_teachers_have_costs(collected):
    records = read_json(collected, "collect")["records"]
    label_sets = [record for record in records if record["record"] == "label_set"]
    assert [each["expected_label_accuracy"] for each in label_sets] == [None] * len(SETTINGS)
    assert all(0 < each["label_accuracy"] <= 1 for each in label_sets)
    costs = [record for record in records if record["record"] == "teacher_costs"]
    assert [(cost["noise"], cost["queries"]) for cost in costs] == [
        (make_mechanism(name, parameters).slug, T) for name, parameters in SETTINGS for T in (10, 40)
    ]
    assert (costs[-1]["asked_most"], costs[-1]["basic_most"], costs[-1]["epsilon_least"]) == (20, 40.0, 0.5)


def test_teacher_costs_by_hand(collected):
    table = TABLES.load("teacher-costs")
    frame = table.build(made.load_records([collected]), made.PRINTED)
    assert len(frame) == 2 * len(SETTINGS)
    (row,) = frame[(frame["noise"] == make_mechanism(*SETTINGS[-1]).slug) & (frame["queries"] == 40)].to_dict("records")
    assert row["asked_least_mean"] == row["asked_most_mean"] == 20
    assert row["epsilon_least_mean"] == pytest.approx(0.5)
    assert row["basic_most_mean"] == 40
    assert 0 < row["composed_most_mean"] < 40
    assert "| T_n·ε_n: most |" in table.markdown(frame)


def test_infinite_costs_are_shown(tmp_path, collected):
    costs = next(each for each in read_json(collected, "collect")["records"] if each["record"] == "teacher_costs")
    made.write_collected(tmp_path / "c.json", [{**costs, "epsilon_most": "inf", "basic_most": "inf"}])
    table = TABLES.load("teacher-costs")
    assert "∞" in table.markdown(table.build(made.load_records([tmp_path / "c.json"]), made.PRINTED))
