"""The stage `collect`: everything that is known of one ensemble, as flat records in one file.

Later stages read these records alone. Only here are true labels compared with released ones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.artefacts.provenance import of_ensemble, of_rounds, of_split, of_student, of_training, take
from patebench.artefacts.reading import check_drawn_from, query_positions, read_votes
from patebench.cli.command import file_option, stage_command
from patebench.core.bound import Bound, points
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, read_json, write_json
from patebench.core.formats import LABELS, TRUTH
from patebench.core.seeds import Mode
from patebench.mechanisms.base import Mechanism, plain
from patebench.release.conditions import mechanism_of
from patebench.reporting.frames import check_record

_MEND = "pass files that were made from the same votes, or run snakemake again"
Record = dict[str, Any]


def run(
    *,
    ensemble: Path,
    votes: Path,
    truth: Path,
    labels: Sequence[Path],
    bounds: Sequence[Path],
    students: Sequence[Path],
    distilled: Sequence[Path] = (),
    out: Path,
) -> None:
    """Gather everything known of one ensemble: its label sets, their bounds and the students, as flat records.

    Votes that were made in rounds are on few samples that a student chose, so nothing is said of how good their
    ensemble is.

    A student and bounds belong to the label set whose digest they name. A file of other votes, another pool or other
    labels than the rest is refused.
    """
    source, counted = read_votes(votes)
    truths = read_arrays(truth, TRUTH)
    truths.require("pool", source.meta["pool"], str(votes))
    summary = _read(ensemble, "join_votes", source)
    common = _common(ensemble, summary)
    released = [_LabelSet(path, source, counted, common, len(truths["y"])) for path in labels]
    by_digest = {each.labels.digest: each for each in released}
    described = [] if "queries_files" in source.meta else [_ensemble_record(ensemble, summary, common)]
    records = [
        *described,
        *(each.record(counted, truths["y"]) for each in released),
        *(record for path in bounds for record in _bound_records(path, by_digest)),
        *(_student_record(path, by_digest, truths["y"]) for path in students),
        *(record for path in distilled for record in _distilled_records(path, source, common)),
    ]
    write_json(out, "collect", {"records": [check_record(out, record) for record in records]})


class _LabelSet:
    """One file of labels and what is known of it: of the whole pool, or of the queries that rounds selected."""

    def __init__(self, path: Path, votes: Artefact, counted: Votes, common: Record, pool: int) -> None:
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
        self.whole_pool, asked = not self.facts["selection"], votes["votes"].shape[1]
        if self.whole_pool and len(self.labels["labels"]) != asked:
            raise ArtefactError(path, f"it does not hold one label for each query of {votes.path}", _MEND)
        self.positions = query_positions(self.labels, pool, votes.path, _MEND)

    def record(self, votes: Votes, truth: NDArray[Any]) -> Record:
        return {
            "record": "label_set",
            **self.facts,
            **self.measured(len(self.positions), truth),
            "expected_label_accuracy": self._expected(votes, truth),
        }

    def measured(self, queries: int, truth: NDArray[Any]) -> Record:
        """How many of the first `queries` were answered or kept by the student, and the share of these that is right.

        A label that the student kept as its own counts as a label, not as an answer.
        """
        given = self.labels["labels"][:queries]
        kept = int(self.labels.arrays.get("kept", np.zeros(len(self.positions), bool))[:queries].sum())
        return {
            "queries": queries,
            "answered": int(np.sum(given >= 0)) - kept,
            "kept": kept,
            "label_accuracy": label_accuracy(given, truth[self.positions[:queries]]),
        }

    def _expected(self, votes: Votes, truth: NDArray[Any]) -> float | None:
        """Not with discrete noise, or where a budget ended it: the probabilities are those of continuous noise.

        Nor of selected queries: what a student thought of them, which some mechanisms look at, is not known here.
        """
        if self.labels.meta["mode"] == Mode.RELEASE or "budget" in self.labels.meta or not self.whole_pool:
            return None
        return expected_label_accuracy(self.mechanism, votes, truth[self.positions])


def _common(path: Path, summary: Record) -> Record:
    """What every record of this ensemble says of it."""
    found = take(path, summary, ("teachers", "partition", "model", "recipe", "epochs"))
    asked = {"ensemble": of_ensemble(path, summary), "clusters": summary.get("queries")}
    return {**of_split(path, summary), **asked, **found}


def _ensemble_record(path: Path, summary: Record, common: Record) -> Record:
    rest = ("plurality_accuracy_pool", "plurality_accuracy_test", "gap_mean", "gap_histogram")
    found = take(path, summary, ("teacher_accuracies", *rest))
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
    content = read_json(path, "account")
    label_set = known.get(content.get("labels", ""))
    if label_set is None:
        raise ArtefactError(path, "it bounds labels that are not among the given ones", _MEND)
    return [
        *({"record": "bound", **label_set.facts, **Bound.from_json(bound).to_json()} for bound in content["bounds"]),
        *({"record": "curve", **label_set.facts, **curve} for curve in content.get("curves", ()) if points(curve)),
        *({"record": "teacher_costs", **label_set.facts, **each} for each in content.get("teacher_costs", ())),
    ]


def _student_record(path: Path, known: Mapping[str, _LabelSet], truth: NDArray[Any]) -> Record:
    content = read_json(path, "train_student")
    label_set = known.get(content.get("labels", ""))
    if label_set is None:
        raise ArtefactError(path, "it learnt from labels that are not among the given ones", _MEND)
    found = take(path, content, ("method", "queries", "accuracy", "model", "recipe", "config"))
    if found["queries"] > len(label_set.positions):
        raise ArtefactError(path, f"it learnt from more labels than {label_set.labels.path} holds", _MEND)
    return {
        "record": "student",
        **label_set.facts,
        "student": of_student(path, found, whole_pool=label_set.whole_pool),
        "method": found["method"],
        "student_model": found["model"],
        "student_recipe": found["recipe"],
        **label_set.measured(found["queries"], truth),
        "accuracy": found["accuracy"],
        "learning_curve": content.get("curve", []),
        "picture": content.get("picture"),
    }


def _distilled_records(path: Path, votes: Artefact, common: Record) -> list[Record]:
    """A record for each kind of label and number of samples; no noise stands between them and the private data."""
    content = _read(path, "distil", votes)
    found = take(path, content, ("model", "recipe", "epochs", "learnt"))
    student = {f"student_{name}": found[name] for name in ("model", "recipe", "epochs")}
    facts = {**common, "distilled": of_training(path, content), **student, "epsilon": "inf"}
    return [{"record": "distillation", **facts, **learnt} for learnt in found["learnt"]]


def _read(path: Path, kind: str, votes: Artefact) -> Record:
    """A JSON artefact that must say that it was made with these votes."""
    content = read_json(path, kind)
    if content.get("votes") != votes.digest:
        raise ArtefactError(path, f"it was made with other votes than {votes.path}", _MEND)
    return content


def label_accuracy(labels: NDArray[Any], truth: NDArray[Any]) -> float | None:
    """The share of answered labels that are right, or None when nothing was answered."""
    answered = labels >= 0
    return float(np.mean(labels[answered] == truth[answered])) if answered.any() else None


def expected_label_accuracy(mechanism: Mechanism, votes: Votes, truth: NDArray[Any]) -> float | None:
    """The expected number of right labels over the expected number of answers, both exact, given the votes.

    None when nothing is ever answered, or when the mechanism does not know the distribution of its labels.
    """
    log_p = mechanism.log_outcome_probabilities(votes)
    if log_p is None:
        return None
    right = np.exp(log_p[np.arange(len(truth)), truth]).sum()
    answered = -np.expm1(log_p[:, -1]).sum()
    return float(min(right / answered, 1.0)) if answered > 0 else None


command = stage_command(
    run,
    file_option("ensemble", "What the stage join_votes says of the ensemble."),
    file_option("votes", "The ensemble's votes."),
    file_option("truth", "True labels of the pool."),
    file_option("labels", "Labels; repeat for each label set.", needed=False, several=True),
    file_option("bounds", "Bounds; repeat for each label set.", needed=False, several=True),
    file_option("students", "Results of students; repeat for each.", needed=False, several=True),
    file_option("distilled", "Results of distillation; repeat for each.", needed=False, several=True),
    file_option("out", "Where the records go."),
)
