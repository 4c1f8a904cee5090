"""Collecting records: numbers by hand and by closed form, and a check of where every file comes from."""

import math
import shutil

import numpy as np
import pytest

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays, write_json
from patebench.core.formats import LABELS, TRUTH, VOTES
from patebench.mechanisms.stage import account, aggregate
from patebench.reporting.collect import collect, stream_facts
from patebench.reporting.frames import load_records

#: Teachers × queries, two classes; the counts of class 1 are 4, 0, 3, 1.
VOTED = np.array([[1, 0, 1, 1], [1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0, 0]], dtype=np.int16)
ANSWERS = np.array([1, 0, 0, 0], dtype=np.int16)
STREAM = "digits/seed-3_pool-4/teachers-4_iid_small-cnn_modern"
GAMMA = 0.4


def _write_votes(folder, name, voted, pool="pool"):
    meta = {"partition": "p", "pool": pool, "test": "t", "classes": 2, "chunks": ["c"]}
    return write_arrays(folder / f"{name}.npz", VOTES, {"votes": voted, "test_votes": voted}, meta)


def _write_ensemble(folder, name, votes, **changes):
    summary = {
        "votes": votes,
        "classes": 2,
        "teachers": 4,
        "model": "small-cnn",
        "recipe": "modern",
        "epochs": 30,
        "partition": "iid",
        "seed": 3,
        "teacher_accuracies": [0.25, 1.0, 1.0, 0.75],
        "plurality_accuracy_pool": 0.75,
        "plurality_accuracy_test": 0.5,
        "gap_histogram": [0, 0, 2, 0, 2],
        "gap_mean": 0.75,
    }
    write_json(folder / f"{name}.json", "ensemble", {**summary, **changes})


@pytest.fixture
def made(tmp_path):
    """A folder with a sound set of files and the arguments that collect them."""
    digest = _write_votes(tmp_path, "votes", VOTED)
    _write_ensemble(tmp_path, "ensemble", digest)
    write_arrays(tmp_path / "truth.npz", TRUTH, {"y": ANSWERS}, {"pool": "pool", "classes": 2})
    release = tmp_path / "gamma-0.4"
    aggregate(tmp_path / "votes.npz", "lnmax", {"gamma": GAMMA}, 3, "stream", release / "labels.npz")
    account(tmp_path / "votes.npz", "lnmax", {"gamma": GAMMA}, [2, 4], 1e-5, 0, "s", release / "bounds.json")
    labels = read_arrays(release / "labels.npz", LABELS)
    learnt = {"labels": labels.digest, "pool": "pool", "test": "t", "method": "supervised", "queries": 2, "answered": 2}
    learner = {"model": "mlp", "recipe": "modern", "epochs": 5, "truth": None, "seed": 3, "accuracy": 0.625}
    (release / "supervised_queries-2_mlp_modern").mkdir()
    write_json(release / "supervised_queries-2_mlp_modern" / "student.json", "student", {**learnt, **learner})
    return {
        "ensemble": tmp_path / "ensemble.json",
        "votes": tmp_path / "votes.npz",
        "truth": tmp_path / "truth.npz",
        "labels": [release / "labels.npz"],
        "bounds": [release / "bounds.json"],
        "students": [release / "supervised_queries-2_mlp_modern" / "student.json"],
        "facts": stream_facts(STREAM),
        "out": tmp_path / "collected.json",
    }


def _records(made):
    collect(**made)
    return read_json(made["out"], "collected")["records"]


def test_every_record_says_which_ensemble_it_is_of(made):
    records = _records(made)
    kinds = [record["record"] for record in records]
    assert (kinds[:2], kinds[-1]) == (["ensemble", "release"], "student")
    written = read_json(made["bounds"][0], "bounds")
    assert kinds[2:-1] == ["bound"] * len(written["bounds"]) + ["curve"] * len(written["curves"])
    assert kinds.count("curve") > 3
    common = {"dataset": "digits", "seed": 3, "split": "seed-3_pool-4", "teachers": 4, "partition": "iid"}
    common |= {"ensemble": "teachers-4_iid_small-cnn_modern", "model": "small-cnn", "recipe": "modern", "epochs": 30}
    assert all(common.items() <= record.items() for record in records)
    load_records([made["out"]])


def test_ensemble_by_hand(made):
    record = _records(made)[0]
    assert record["teacher_accuracy_mean"] == 0.75
    assert (record["teacher_accuracy_min"], record["teacher_accuracy_max"]) == (0.25, 1.0)
    assert record["teacher_accuracy_std"] == pytest.approx(math.sqrt((0.25 + 0.0625 + 0.0625 + 0) / 4))
    assert record["gap_histogram"] == [0, 0, 2, 0, 2]


def test_expected_label_accuracy_by_the_closed_form_for_two_classes(made):
    """For two classes Lemma 4 of PATE 2017 is exact: the minority wins with (2 + γΔ)/(4 exp(γΔ))."""

    def wins(gap):
        loses = (2 + GAMMA * abs(gap)) / (4 * math.exp(GAMMA * abs(gap)))
        return 1 - loses if gap >= 0 else loses

    record = _records(made)[1]
    right = [wins(4), wins(4), wins(-2), wins(2)]  # votes for the true class less those for the other
    assert record["expected_label_accuracy"] == pytest.approx(sum(right) / 4, rel=1e-9)


def test_label_accuracy_counts_answers_alone(made):
    source = read_arrays(made["labels"][0], LABELS)
    labels = np.array([1, -1, 1, 0], dtype=np.int32)  # right, silent, wrong, right
    write_arrays(made["labels"][0], LABELS, {"labels": labels}, source.meta)
    record = _records({**made, "students": []})[1]
    assert (record["queries"], record["answered"]) == (4, 3)
    assert record["label_accuracy"] == pytest.approx(2 / 3)
    write_arrays(made["labels"][0], LABELS, {"labels": np.full(4, -1, np.int32)}, source.meta)
    record = _records({**made, "students": []})[1]
    assert (record["answered"], record["label_accuracy"]) == (0, None)


def test_student_has_the_accuracy_of_the_labels_it_learnt_from(made):
    record = _records(made)[-1]
    labels = read_arrays(made["labels"][0], LABELS)["labels"]
    assert record["label_accuracy"] == float(np.mean(labels[:2] == ANSWERS[:2]))
    assert (record["student"], record["student_model"]) == ("supervised_queries-2_mlp_modern", "mlp")
    assert (record["accuracy"], record["mechanism"], record["noise"]) == (0.625, "lnmax", "gamma-0.4")


def test_same_files_same_bytes(made):
    collect(**made)
    first = made["out"].read_bytes()
    collect(**made)
    assert made["out"].read_bytes() == first


def _other_votes(made):
    folder = made["out"].parent / "other"
    folder.mkdir()
    _write_votes(folder, "votes", VOTED[::-1, ::-1])
    return folder


def _bounds_of_other_votes(made):
    folder = _other_votes(made)
    account(folder / "votes.npz", "lnmax", {"gamma": GAMMA}, [2], 1e-5, 0, "s", folder / "bounds.json")
    return {"bounds": [folder / "bounds.json"]}


def _labels_of_other_votes(made):
    folder = _other_votes(made)
    aggregate(folder / "votes.npz", "lnmax", {"gamma": GAMMA}, 3, "stream", folder / "labels.npz")
    return {"labels": [folder / "labels.npz"]}


def _truth_of_another_pool(made):
    write_arrays(made["truth"], TRUTH, {"y": ANSWERS}, {"pool": "another", "classes": 2})
    return {}


def _ensemble_of_other_votes(made):
    _write_ensemble(made["out"].parent, "ensemble", "0" * 64)
    return {}


def _ensemble_of_another_seed(made):
    _write_ensemble(made["out"].parent, "ensemble", read_arrays(made["votes"], VOTES).digest, seed=4)
    return {}


def _shorter_labels(made):
    source = read_arrays(made["labels"][0], LABELS)
    write_arrays(made["labels"][0], LABELS, {"labels": np.zeros(3, np.int32)}, source.meta)
    return {}


def _student_of_other_labels(made):
    return {"labels": [], "bounds": []}


def _votes_as_bounds(made):
    shutil.copy(made["ensemble"], made["bounds"][0])
    return {}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_bounds_of_other_votes, "other votes than"),
        (_labels_of_other_votes, "other votes than"),
        (_truth_of_another_pool, "another pool than"),
        (_ensemble_of_other_votes, "other votes than"),
        (_ensemble_of_another_seed, "its seed is 4"),
        (_shorter_labels, "one label for each query"),
        (_student_of_other_labels, "learnt from labels that are not among"),
        (_votes_as_bounds, "kind 'ensemble'"),
    ],
)
def test_refuses_files_of_another_origin_in_one_line(made, change, fault):
    with pytest.raises(ArtefactError) as caught:
        collect(**{**made, **change(made)})
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not made["out"].exists()


@pytest.mark.parametrize("stream", ["digits", "digits/seed-0/teachers/lnmax", "a//b", ""])
def test_refuses_a_stream_that_is_no_ensemble(stream):
    with pytest.raises(PatebenchError, match="is not <dataset>/<split>/<ensemble>"):
        stream_facts(stream)
