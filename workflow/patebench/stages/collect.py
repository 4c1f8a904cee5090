"""The stage `collect`: everything that is known of one ensemble, as flat records in one file.

Later stages read these records alone. Only here are true labels compared with released ones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.artefacts.reading import check_drawn_from, query_positions, read_votes
from patebench.artefacts.records import of_ensemble, of_rounds, of_split, of_student, of_training, present, take
from patebench.cli.command import stage_command
from patebench.core.bound import Bound, points
from patebench.core.class_accuracy import BESIDE_ACCURACY, class_accuracy, uncovered
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, read_json, write_json
from patebench.core.formats import LABELS, TRUTH
from patebench.core.seeds import Mode
from patebench.mechanisms.base import Mechanism, plain
from patebench.release.conditions import mechanism_of
from patebench.reporting.frames import check_record

_FIX = "pass files that were made from the same votes, or run snakemake again"
Record = dict[str, Any]


def run(
    *,
    ensemble: Annotated[Path, "What the stage join_votes says of the ensemble."],
    votes: Annotated[Path, "The ensemble's votes."],
    truth: Annotated[Path, "True labels of the pool."],
    labels: Annotated[Sequence[Path], "Labels; repeat for each label set."] = (),
    bounds: Annotated[Sequence[Path], "Bounds; repeat for each label set."] = (),
    students: Annotated[Sequence[Path], "Results of students; repeat for each."] = (),
    distilled: Annotated[Sequence[Path], "Results of distillation; repeat for each."] = (),
    out: Annotated[Path, "Where the records go."],
) -> None:
    """Gather everything known of one ensemble as flat records: its label sets, their bounds and the students.

    Votes made in rounds are on few samples that a student chose, so their ensemble gets no record of its own. A student
    and bounds belong to the label set whose digest they name. A file of other votes, another pool or other labels is
    refused.
    """
    source, counted = read_votes(votes)
    truths = read_arrays(truth, TRUTH)
    truths.require("pool", source.meta["pool"], str(votes))
    summary = _read_of_votes(ensemble, "join_votes", source)
    facts = take(ensemble, summary, ("teachers", "partition", "model", "recipe", "epochs"))
    asked = {"ensemble": of_ensemble(ensemble, summary), "clusters": summary.get("queries")}
    common = {**of_split(ensemble, summary), **asked, **facts}
    names = summary.get("class_names") or [str(number) for number in range(counted.classes)]
    label_sets = [_LabelSet(path, source, counted, common, truths["y"], names) for path in labels]
    by_digest = {label_set.labels.digest: label_set for label_set in label_sets}
    records = [
        *([] if "queries_files" in source.meta else [_ensemble_record(ensemble, summary, common)]),
        *(label_set.record(counted) for label_set in label_sets),
        *(record for path in bounds for record in _bound_records(path, by_digest)),
        *(_student_record(path, by_digest) for path in students),
        *(record for path in distilled for record in _distilled_records(path, source, common)),
    ]
    write_json(out, "collect", {"records": [check_record(out, record) for record in records]})


class _LabelSet:
    """One file of labels and what is known of it: of the whole pool, or of the queries that rounds selected.

    `truth` are the true labels of the pool, (queries,); `names` those of the classes.
    """

    def __init__(
        self, path: Path, votes: Artefact, counted: Votes, common: Record, truth: NDArray[Any], names: Sequence[str]
    ) -> None:
        self.names = names
        self.labels = read_arrays(path, LABELS)
        check_drawn_from(self.labels, votes, counted)
        self.mechanism = mechanism_of(self.labels.meta)
        self.facts = {
            **common,
            "mechanism": self.labels.meta["mechanism"],
            "noise": self.mechanism.slug,
            "parameters": plain(self.mechanism.parameters()),
            **of_rounds(path, self.labels.meta),
        }
        self.whole_pool = not self.facts["selection"]
        if self.whole_pool and len(self.labels["labels"]) != votes["votes"].shape[1]:
            raise ArtefactError(path, f"it does not hold one label for each query of {votes.path}", _FIX)
        self.positions = query_positions(self.labels, len(truth), votes.path, _FIX)
        self.truth = truth[self.positions]

    def record(self, votes: Votes) -> Record:
        """Return the record of all labels.

        Their expected accuracy is unknown with discrete noise and where a budget ended the release, as probabilities
        are those of continuous noise, and for selected queries, as some mechanisms look at a student's predictions.
        """
        known = self.labels.meta["mode"] != Mode.RELEASE and "budget" not in self.labels.meta and self.whole_pool
        expected = expected_label_accuracy(self.mechanism, votes, self.truth) if known else None
        measured = self.measured(len(self.positions))
        return {"record": "label_set", **self.facts, **measured, "expected_label_accuracy": expected}

    def measured(self, queries: int) -> Record:
        """Return how many of the first `queries` were answered or kept by the student, and the share that is right.

        A label that the student kept as its own counts as a label, not as an answer.
        """
        labels = self.labels["labels"][:queries]
        kept = int(self.labels.arrays.get("kept", np.zeros(len(self.positions), bool))[:queries].sum())
        return {
            "queries": queries,
            "answered": int(np.sum(labels >= 0)) - kept,
            "kept": kept,
            **label_accuracy(labels, self.truth[:queries], self.names),
            "uncovered": uncovered(labels, self.names),
        }


def _ensemble_record(path: Path, summary: Record, common: Record) -> Record:
    rest = ("plurality_accuracy_pool", "plurality_accuracy_test", "gap_mean", "gap_histogram")
    found = take(path, summary, ("teacher_accuracies", *rest))
    found |= present(summary, (f"plurality_{what}_{on}" for what in BESIDE_ACCURACY for on in ("pool", "test")))
    voted = [accuracy for accuracy in found.pop("teacher_accuracies") if accuracy is not None]
    teachers = np.asarray(voted or [0.0], dtype=np.float64)  # none voted: nothing was right
    accuracies = {
        "teacher_accuracy_mean": float(teachers.mean()),
        "teacher_accuracy_min": float(teachers.min()),
        "teacher_accuracy_max": float(teachers.max()),
        "teacher_accuracy_std": float(teachers.std()),
    }
    return {"record": "ensemble", **common, **accuracies, **found}


def _bound_records(path: Path, known: Mapping[str, _LabelSet]) -> list[Record]:
    content, label_set = _read_of_labels(path, "account", known)
    return [
        *({"record": "bound", **label_set.facts, **Bound.from_json(bound).to_json()} for bound in content["bounds"]),
        *({"record": "curve", **label_set.facts, **curve} for curve in content.get("curves", ()) if points(curve)),
        *({"record": "teacher_costs", **label_set.facts, **costs} for costs in content.get("teacher_costs", ())),
    ]


def _student_record(path: Path, known: Mapping[str, _LabelSet]) -> Record:
    content, label_set = _read_of_labels(path, "train_student", known)
    found = take(path, content, ("method", "queries", "accuracy", "model", "recipe", "config"))
    if found["queries"] > len(label_set.positions):
        raise ArtefactError(path, f"it learnt from more labels than {label_set.labels.path} holds", _FIX)
    return {
        "record": "student",
        **label_set.facts,
        "student": of_student(path, found, whole_pool=label_set.whole_pool),
        "method": found["method"],
        "student_model": found["model"],
        "student_recipe": found["recipe"],
        **label_set.measured(found["queries"]),
        "accuracy": found["accuracy"],
        **present(content, BESIDE_ACCURACY),
    }


def _distilled_records(path: Path, votes: Artefact, common: Record) -> list[Record]:
    """Return a record for each kind of label and number of samples; no noise protects the private data here."""
    content = _read_of_votes(path, "distil", votes)
    found = take(path, content, ("model", "recipe", "epochs", "learnt"))
    student = {f"student_{name}": found[name] for name in ("model", "recipe", "epochs")}
    facts = {**common, "distilled": of_training(path, content), **student, "epsilon": "inf"}
    return [{"record": "distillation", **facts, **learnt} for learnt in found["learnt"]]


def _read_of_labels(path: Path, kind: str, known: Mapping[str, _LabelSet]) -> tuple[Record, _LabelSet]:
    """Read a JSON artefact about one of the known label sets, which it names by a digest."""
    content = read_json(path, kind)
    if (label_set := known.get(content.get("labels", ""))) is None:
        raise ArtefactError(path, "it is of labels that are not among the given ones", _FIX)
    return content, label_set


def _read_of_votes(path: Path, kind: str, votes: Artefact) -> Record:
    """Read a JSON artefact that says that it was made with these votes."""
    content = read_json(path, kind)
    if content.get("votes") != votes.digest:
        raise ArtefactError(path, f"it was made with other votes than {votes.path}", _FIX)
    return content


def label_accuracy(labels: NDArray[Any], truth: NDArray[Any], names: Sequence[str]) -> Record:
    """Return what `class_accuracy` does of answered labels; all is None when nothing was answered."""
    answered = labels >= 0
    return class_accuracy(truth[answered], labels[answered], names, "label_{}")


def expected_label_accuracy(mechanism: Mechanism, votes: Votes, truth: NDArray[Any]) -> float | None:
    """Return the expected number of right labels over that of answers, both exact, given the votes.

    None when nothing is ever answered, or when the mechanism does not know the distribution of its labels.
    """
    log_p = mechanism.log_outcome_probabilities(votes)
    if log_p is None:
        return None
    right = np.exp(log_p[np.arange(len(truth)), truth]).sum()
    answered = -np.expm1(log_p[:, -1]).sum()
    return float(min(right / answered, 1.0)) if answered > 0 else None


command = stage_command(run)
