"""Stage `collect`: write all results of one ensemble as flat records in one file.

Tables and figures are made from these records. Only this stage compares labels drawn from votes with true labels.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.artefacts.reading import check_drawn_from, query_positions, read_votes
from patebench.artefacts.records import (
    ensemble_slug,
    round_columns,
    select_entries,
    select_present,
    split_columns,
    student_slug,
    training_slug,
)
from patebench.cli.command import OutputFile, stage_command
from patebench.core.bound import Bound, points
from patebench.core.class_accuracy import BESIDE_ACCURACY, class_accuracy, uncovered
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, read_json, write_json
from patebench.core.formats import LABELS, TRUTH
from patebench.core.seeds import Mode
from patebench.core.text import plural
from patebench.mechanisms.base import Mechanism, json_parameters, mechanism_of
from patebench.reporting.frames import check_record

_FIX = "pass files that were made from the same votes, or run snakemake again"
Record = dict[str, Any]


def run(
    *,
    ensemble: Annotated[Path, "Summary of the ensemble, from the stage join_votes."],
    votes: Annotated[Path, "Votes of the ensemble."],
    truth: Annotated[Path | None, "True labels of the pool, unless votes on unknown samples were imported."] = None,
    labels: Annotated[Sequence[Path], "Released labels; repeat for each label set."] = (),
    bounds: Annotated[Sequence[Path], "Bounds on ε; repeat for each label set."] = (),
    students: Annotated[Sequence[Path], "Results of a student; repeat for each student."] = (),
    distilled: Annotated[Sequence[Path], "Results of distillation; repeat for each network."] = (),
    out: Annotated[OutputFile, "Output file with the records."],
) -> None:
    """Collect all results of one ensemble as flat records: accuracies, label sets, bounds, students and distillations.

    There is no record of the ensemble's accuracy if it voted in rounds, because it then voted only on the few samples
    that a student selected. There is none for imported votes without true labels. Students and bounds are matched to
    label sets by digest. Files that were made from other votes, another pool or other labels are refused.
    """
    source, vote_matrix = read_votes(votes)
    truths = None if truth is None else read_arrays(truth, TRUTH)
    if truths is not None:
        truths.require("pool", source.meta["pool"], str(votes))
    summary = _read_for_votes(ensemble, "join_votes", source)
    facts = select_entries(ensemble, summary, ("teachers", "partition", "model", "recipe", "epochs"))
    named = {"ensemble": ensemble_slug(ensemble, summary), "clusters": summary.get("queries")}
    common = {**split_columns(ensemble, summary), **named, **facts}
    names = summary.get("class_names") or [str(number) for number in range(vote_matrix.classes)]
    answers = None if truths is None else truths["y"]
    label_sets = [_LabelSet(path, source, vote_matrix, common, answers, names) for path in labels]
    by_digest = {label_set.labels.digest: label_set for label_set in label_sets}
    records = [
        *([] if truths is None or "queries_files" in source.meta else [_ensemble_record(ensemble, summary, common)]),
        *(label_set.record(vote_matrix) for label_set in label_sets),
        *(record for path in bounds for record in _bound_records(path, by_digest)),
        *(_student_record(path, by_digest, source) for path in students),
        *(record for path in distilled for record in _distilled_records(path, source, common)),
    ]
    write_json(out, "collect", {"records": [check_record(out, record) for record in records]})


class _LabelSet:
    """Labels in the file `path`, with metadata and true labels, from which records are made.

    `votes` is the file of the votes from which the labels were drawn, and `counted` are the votes read from this file.
    `common` are the columns that all records of the ensemble share, `truth` (pool samples,) the true labels of the pool
    if known, and `names` the class names.
    """

    def __init__(
        self,
        path: Path,
        votes: Artefact,
        counted: Votes,
        common: Record,
        truth: NDArray[Any] | None,
        names: Sequence[str],
    ) -> None:
        self.names = names
        self.labels = read_arrays(path, LABELS)
        check_drawn_from(self.labels, votes, counted)
        self.mechanism = mechanism_of(self.labels.meta)
        self.facts = {
            **common,
            "mechanism": self.labels.meta["mechanism"],
            "noise": self.mechanism.slug,
            "parameters": json_parameters(self.mechanism.parameters()),
            **round_columns(path, self.labels.meta),
        }
        self.whole_pool = not self.facts["selection"]
        if self.whole_pool and len(self.labels["labels"]) != counted.queries:
            raise ArtefactError(
                path,
                f"it contains {len(self.labels['labels'])} labels, but {votes.path} contains {counted.queries} queries",
                _FIX,
            )
        self.positions = query_positions(
            self.labels, counted.queries if truth is None else len(truth), votes.path, _FIX
        )
        self.truth = None if truth is None else truth[self.positions]

    def record(self, votes: Votes) -> Record:
        """Return the record of the label set, with the number of answers and the accuracy of the labels.

        `expected_label_accuracy` is the expectation over the noise, given `votes`. It is computed only for labels of
        the whole pool with known true labels, continuous noise and no budget. Otherwise it is None.
        """
        known = self.labels.meta["mode"] != Mode.RELEASE and "budget" not in self.labels.meta and self.whole_pool
        known_truth = self.truth if known else None
        expected = None if known_truth is None else expected_label_accuracy(self.mechanism, votes, known_truth)
        measured = self.measured(len(self.positions))
        return {"record": "label_set", **self.facts, **measured, "expected_label_accuracy": expected}

    def measured(self, queries: int) -> Record:
        """Return the number and accuracy of the labels of the first `queries` queries, as columns of a record.

        `answered` is the number of labels from the teachers. `kept` is the number of labels predicted by the student,
        for queries that the teachers did not answer. The accuracy covers both kinds of labels. It is None if there are
        no labels or no true labels. `uncovered` lists the classes without a label.
        """
        labels = self.labels["labels"][:queries]
        answered = labels[labels >= 0]
        truth = answered[:0] if self.truth is None else self.truth[:queries][labels >= 0]
        kept = int(self.labels.arrays.get("kept", np.zeros(len(self.positions), bool))[:queries].sum())
        return {
            "queries": queries,
            "answered": len(answered) - kept,
            "kept": kept,
            **class_accuracy(truth, answered[: len(truth)], self.names, "label_{}"),
            "uncovered": uncovered(labels, self.names),
        }


def _ensemble_record(path: Path, summary: Record, common: Record) -> Record:
    """Return the record of an ensemble: accuracies of its teachers and of the plurality, and gaps of the queries.

    The gap of a query is the difference of its two largest vote counts. `summary` is the content of the file `path`.
    `common` contains the columns that all records of the ensemble share.
    """
    rest = ("plurality_accuracy_pool", "plurality_accuracy_test", "gap_mean", "gap_histogram")
    quality = select_entries(path, summary, ("teacher_accuracies", *rest))
    quality |= select_present(
        summary, (f"plurality_{what}_{on}" for what in BESIDE_ACCURACY for on in ("pool", "test"))
    )
    voted = [accuracy for accuracy in quality.pop("teacher_accuracies") if accuracy is not None]
    teachers = np.asarray(voted or [0.0], dtype=np.float64)  # accuracy 0 if no teacher voted
    accuracies = {
        "teacher_accuracy_mean": float(teachers.mean()),
        "teacher_accuracy_min": float(teachers.min()),
        "teacher_accuracy_max": float(teachers.max()),
        "teacher_accuracy_std": float(teachers.std()),
    }
    return {"record": "ensemble", **common, **accuracies, **quality}


def _bound_records(path: Path, label_sets: Mapping[str, _LabelSet]) -> list[Record]:
    """Return the records in the file `path` of the stage `account`: bounds, curves, and costs per teacher.

    `label_sets` maps the digest of each label set to the label set. Raise ArtefactError if the file was not computed
    for one of these label sets.
    """
    content, label_set = _read_for_labels(path, "account", label_sets)
    return [
        *({"record": "bound", **label_set.facts, **Bound.from_json(bound).to_json()} for bound in content["bounds"]),
        *({"record": "curve", **label_set.facts, **curve} for curve in content.get("curves", ()) if points(curve)),
        *({"record": "teacher_costs", **label_set.facts, **costs} for costs in content.get("teacher_costs", ())),
    ]


def _student_record(path: Path, label_sets: Mapping[str, _LabelSet], votes: Artefact) -> Record:
    content, label_set = _read_for_labels(path, "train_student", label_sets)
    student = select_entries(path, content, ("method", "queries", "accuracy", "model", "recipe", "config"))
    if student["queries"] > len(label_set.positions):
        raise ArtefactError(
            path,
            f"its student was trained on {plural(student['queries'], 'query')}, but {label_set.labels.path} contains"
            f" labels of only {len(label_set.positions)}",
            _FIX,
        )
    cast = votes.meta.get("neighbours") or 1  # votes of a record, if records vote
    return {
        "record": "student",
        **label_set.facts,
        "student": student_slug(path, student, whole_pool=label_set.whole_pool),
        "method": student["method"],
        "student_model": student["model"],
        "student_recipe": student["recipe"],
        "private_records": votes.meta.get("samples"),
        "votes_beyond_cap": cast - label_set.mechanism.most_participation(cast),
        **label_set.measured(student["queries"]),
        "accuracy": student["accuracy"],
        **select_present(content, BESIDE_ACCURACY),
    }


def _distilled_records(path: Path, votes: Artefact, common: Record) -> list[Record]:
    """Return one record for each distilled network in the file `path` of the stage `distil`.

    `common` contains the columns that all records of the ensemble share. Raise ArtefactError if the networks were not
    trained with `votes`.
    """
    content = _read_for_votes(path, "distil", votes)
    facts_read = select_entries(path, content, ("model", "recipe", "epochs", "learnt"))
    student = {f"student_{name}": facts_read[name] for name in ("model", "recipe", "epochs")}
    facts = {**common, "distilled": training_slug(path, content), **student, "epsilon": "inf"}  # no noise on the votes
    return [{"record": "distillation", **facts, **learnt} for learnt in facts_read["learnt"]]


def _read_for_labels(path: Path, kind: str, label_sets: Mapping[str, _LabelSet]) -> tuple[Record, _LabelSet]:
    """Return the content of the JSON file `path`, which the stage `kind` wrote, and the label set that this stage used.

    `label_sets` maps the digest of each label set to the label set. Raise ArtefactError if the stage used labels that
    are not in `label_sets`.
    """
    content = read_json(path, kind)
    if (label_set := label_sets.get(content.get("labels", ""))) is None:
        raise ArtefactError(path, "it was made from labels that are not among the files of --labels", _FIX)
    return content, label_set


def _read_for_votes(path: Path, kind: str, votes: Artefact) -> Record:
    """Return the content of the JSON file `path`, which the stage `kind` wrote.

    Raise ArtefactError if the stage used other votes than `votes`.
    """
    content = read_json(path, kind)
    if content.get("votes") != votes.digest:
        raise ArtefactError(path, f"it was made from other votes than those in {votes.path}", _FIX)
    return content


def expected_label_accuracy(mechanism: Mechanism, votes: Votes, truth: NDArray[Any]) -> float | None:
    """Return the expected number of correct labels divided by the expected number of answers, for fixed `votes`.

    Both are expectations over the noise of `mechanism`. `truth` (queries,) contains the true labels. The result is None
    if no query is ever answered, or if the mechanism does not compute the distribution of its labels.
    """
    log_p = mechanism.log_outcome_probabilities(votes)
    if log_p is None:
        return None
    right = np.exp(log_p[np.arange(len(truth)), truth]).sum()
    answered = -np.expm1(log_p[:, -1]).sum()
    return float(min(right / answered, 1.0)) if answered > 0 else None


command = stage_command(run)
