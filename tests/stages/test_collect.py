"""Test the collection of records: values by hand and by closed form, and the check of origins."""

import math

import numpy as np
import pytest
from tests.stages.labels import STUDENT, release_labels, state_bounds, write_votes

from patebench.artefacts.records import read_records
from patebench.core.errors import ArtefactError
from patebench.core.files import read_arrays, read_json, write_arrays, write_json
from patebench.core.formats import LABELS, TRUTH, VOTES
from patebench.stages.collect import run as collect

#: Teachers × queries, two classes; the counts of class 1 are 4, 0, 3, 1.
VOTED = np.array([[1, 0, 1, 1], [1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0, 0]], dtype=np.int16)
ANSWERS = np.array([1, 0, 0, 0], dtype=np.int16)
GAMMA = 0.4


def _write_ensemble(folder, votes, **changes):
    training = {"model": "small-cnn", "recipe": "modern"}
    summary = {
        **{"votes": votes, "dataset": "digits", "seed": 3, "split": {"pool": 4, "test": None}, "classes": 2},
        **{"teachers": 4, "partition": "iid", **training, "epochs": 30, "training": {**training, "epochs": None}},
        **{"teacher_accuracies": [0.25, 1.0, 1.0, 0.75], "gap_histogram": [0, 0, 2, 0, 2], "gap_mean": 0.75},
        **{"plurality_accuracy_pool": 0.75, "plurality_accuracy_test": 0.5},
    }
    write_json(folder / "ensemble.json", "join_votes", {**summary, **changes})


def _write_student(folder, labels, queries, **config):
    learnt = {"labels": labels, "pool": "pool", "test": "t", "method": "supervised", "queries": queries}
    learner = {"model": "mlp", "recipe": "modern", "epochs_done": 5, "seed": 3, "accuracy": 0.625, "answered": queries}
    given = {"method": "supervised", "model": "mlp", "recipe": "modern", "epochs": None, "hold_out": None, **config}
    out = folder / "student" / "student.json"
    write_json(out, "train_student", {**learnt, **learner, "config": given})
    return out


def _write_selected(made, queries, labels=(1, 0), kept=(False, True)):
    """Write labels of queries selected in two rounds, one of which is the student's own."""
    meta = dict(read_arrays(made["labels"][0], LABELS).meta)
    rounds = [{"strategy": strategy, "queries": 1, "student": STUDENT} for strategy in ("random", "siamese")]
    out = made["out"].parent / "rounds" / "labels.npz"
    arrays = {"labels": np.array(labels, np.int32), "queries": np.array(queries), "kept": np.array(kept)}
    write_arrays(out, LABELS, arrays, {**meta, "rounds": rounds})
    return out


@pytest.fixture
def made(tmp_path):
    """Return a folder with a consistent set of files, and the arguments that collect them."""
    votes = write_votes(tmp_path / "votes.npz", VOTED, 2, pool="pool")
    _write_ensemble(tmp_path, read_arrays(votes, VOTES).digest)
    write_arrays(tmp_path / "truth.npz", TRUTH, {"y": ANSWERS}, {"pool": "pool", "classes": 2})
    files = {"ensemble": tmp_path / "ensemble.json", "votes": votes, "truth": tmp_path / "truth.npz"}
    labels, bounds = _account(votes, tmp_path / "gamma-0.4", [2, 4])
    students = [_write_student(labels.parent, read_arrays(labels, LABELS).digest, 2)]
    return {**files, "labels": [labels], "bounds": [bounds], "students": students, "out": tmp_path / "collected.json"}


def _account(votes, folder, queries):
    """Draw labels, and return their path and that of their bounds."""
    labels, bounds = folder / "labels.npz", folder / "bounds.json"
    release_labels(votes, "lnmax", {"gamma": GAMMA}, labels, seed=3, stream="stream")
    state_bounds(votes, labels, queries, bounds, seed=0, stream="s")
    return labels, bounds


def _records(made):
    collect(**made)
    return read_json(made["out"], "collect")["records"]


def test_every_record_says_which_ensemble_it_is_of(made):
    records = _records(made)
    kinds = [record["record"] for record in records]
    assert (kinds[:2], kinds[-1]) == (["ensemble", "label_set"], "student")
    written = read_json(made["bounds"][0], "account")
    assert kinds[2:-1] == ["bound"] * len(written["bounds"]) + ["curve"] * len(written["curves"])
    assert kinds.count("curve") > 3
    common = {"dataset": "digits", "seed": 3, "split": "seed-3_pool-4", "setting": "pool-4"}
    common |= {"teachers": 4, "partition": "iid"}
    common |= {"ensemble": "teachers-4_iid_small-cnn_modern", "model": "small-cnn", "recipe": "modern", "epochs": 30}
    assert all(common.items() <= record.items() for record in records)
    read_records([made["out"]])
    teachers = {name: records[0][f"teacher_accuracy_{name}"] for name in ("mean", "min", "max", "std")}
    spread = math.sqrt((0.25 + 0.0625 + 0.0625 + 0) / 4)
    assert teachers == {"mean": 0.75, "min": 0.25, "max": 1.0, "std": pytest.approx(spread)}
    assert records[0]["gap_histogram"] == [0, 0, 2, 0, 2]
    student, labels = records[-1], read_arrays(made["labels"][0], LABELS)["labels"]
    assert student["label_accuracy"] == float(np.mean(labels[:2] == ANSWERS[:2])), "of the labels that it learnt from"
    assert (student["student"], student["student_model"]) == ("supervised_queries-2_mlp_modern", "mlp")
    assert (student["accuracy"], student["mechanism"], student["noise"]) == (0.625, "lnmax", "gamma-0.4")


def test_expected_label_accuracy_by_the_closed_form_for_two_classes(made):
    """Use Lemma 4 of PATE 2017, exact for two classes: the minority wins with (2 + γΔ)/(4 exp(γΔ))."""

    def wins(gap):
        loses = (2 + GAMMA * abs(gap)) / (4 * math.exp(GAMMA * abs(gap)))
        return 1 - loses if gap >= 0 else loses

    record = _records(made)[1]
    right = [wins(4), wins(4), wins(-2), wins(2)]  # votes for the true class less those for the other
    assert record["expected_label_accuracy"] == pytest.approx(sum(right) / 4, rel=1e-9)


@pytest.mark.parametrize(("k", "neighbours", "beyond"), [(1, None, 0), (3, 3, 0), (4, 3, 0), (1, 3, 2)])
def test_students_state_how_many_votes_of_a_record_are_not_counted(tmp_path, k, neighbours, beyond):
    facts = {"neighbours": neighbours, "abstentions": True}
    votes = write_votes(tmp_path / "votes.npz", VOTED, 2, pool="pool", **facts)
    _write_ensemble(tmp_path, read_arrays(votes, VOTES).digest)
    labels = tmp_path / "labels.npz"
    release_labels(votes, "sparse-gnmax", {"k": k, "sigma": 1}, labels, seed=3, stream="stream")
    student = _write_student(tmp_path, read_arrays(labels, LABELS).digest, 2)
    given = {"ensemble": tmp_path / "ensemble.json", "votes": votes, "labels": [labels], "students": [student]}
    (record,) = (each for each in _records({**given, "out": tmp_path / "c.json"}) if each["record"] == "student")
    assert record["votes_beyond_cap"] == beyond


def test_label_accuracy_counts_answers_alone(made):
    made |= {"bounds": [], "students": []}
    for labels, answered, accuracy in (([1, -1, 1, 0], 3, pytest.approx(2 / 3)), ([-1] * 4, 0, None)):
        _rewritten_labels(made, np.array(labels, np.int32))
        record = _records(made)[1]
        assert (record["queries"], record["answered"], record["label_accuracy"]) == (4, answered, accuracy)


def test_labels_of_selected_queries_are_of_those_samples(made):
    """Compare the labels 1 of queries 2 (wrong, answered) and 0 (right, the student's own)."""
    path = _write_selected(made, [2, 0], labels=(1, 1))
    written = read_json(made["bounds"][0], "account")
    rounds = read_arrays(path, LABELS).meta["rounds"]
    charged = {**written, "labels": read_arrays(path, LABELS).digest, "queries": [2], "curves": []}
    charged["bounds"] = written["bounds"][:1]
    write_json(path.with_name("bounds.json"), "account", charged)
    student = _write_student(path.parent, read_arrays(path, LABELS).digest, 2, epochs=5, hold_out=0.25)
    changes = {"bounds": [path.with_name("bounds.json")], "students": [student]}
    _, label_set, bound, learnt = _records({**made, "labels": [path], **changes})
    for record in (label_set, bound, learnt):
        assert record["rounds"] == "supervised_random-1_siamese-1"
        assert (record["strategy"], record["round"]) == ("siamese", 1)
        assert record["selection"] == rounds
    for record in (label_set, learnt):
        assert [record[name] for name in ("queries", "answered", "kept", "label_accuracy")] == [2, 1, 1, 0.5]
    assert label_set["expected_label_accuracy"] is None
    assert learnt["student"] == "supervised_mlp_modern_epochs-5_hold-out-0.25"
    records = read_records([made["out"]])
    assert [rounds["strategy"] for rounds in records.students["selection"].iloc[0]] == ["random", "siamese"]
    assert all(frame.empty for frame in (records.of_whole_pool().students, records.of_whole_pool().label_sets))


def _of_other_votes(made, kind):
    folder = made["out"].parent / "other"
    _account(write_votes(folder / "votes.npz", VOTED[::-1, ::-1], 2, pool="pool"), folder, [2])
    return {kind: [next(folder.glob(f"{kind}.*"))]}


def _ensemble(made, **changes):
    votes = changes.pop("votes", read_arrays(made["votes"], VOTES).digest)
    _write_ensemble(made["out"].parent, votes, **changes)
    return {}


def _rewritten_labels(made, labels=None, **facts):
    source = read_arrays(made["labels"][0], LABELS)
    arrays = source.arrays if labels is None else {"labels": labels}
    write_arrays(made["labels"][0], LABELS, arrays, {**source.meta, **facts})
    return {}


def _truth_of_another_pool(made):
    write_arrays(made["truth"], TRUTH, {"y": ANSWERS}, {"pool": "another", "classes": 2})
    return {}


def _student_of_more_labels(made):
    return {"students": [_write_student(made["out"].parent, read_arrays(made["labels"][0], LABELS).digest, 5)]}


NOT_GIVEN = "not among the files of --labels"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda made: _of_other_votes(made, "bounds"), NOT_GIVEN),
        (lambda made: _of_other_votes(made, "labels"), "other votes than"),
        (_truth_of_another_pool, "it was made with another pool than"),
        (lambda made: _ensemble(made, votes="0" * 64), "other votes than"),
        (lambda made: _ensemble(made, split="seed-3_pool-4"), "split: 'seed-3_pool-4' is not valid; give a mapping"),
        (lambda made: _rewritten_labels(made, rounds="random-2"), "its entry 'rounds' is not a list"),
        (lambda made: {"labels": [_write_selected(made, [0, 4])]}, "its query 4 (counted from 0) is not among the 4"),
        (lambda made: {"labels": [_write_selected(made, [1, 1])]}, "its query 1 occurs twice"),
        (lambda made: {"labels": [], "bounds": []}, NOT_GIVEN),
        (_student_of_more_labels, "its student was trained on 5 queries, but"),
        (lambda made: _rewritten_labels(made, np.zeros(3, np.int32)), "it contains 3 labels, but "),
    ],
)
def test_refuses_files_of_another_origin_in_one_line(made, change, fault):
    with pytest.raises(ArtefactError) as caught:
        collect(**{**made, **change(made)})
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not made["out"].exists()
