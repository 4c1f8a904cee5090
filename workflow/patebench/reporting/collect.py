"""The stage `patebench collect`: everything that is known of one ensemble, as flat records in one file.

Later stages read these records alone. Only here are true labels compared with released ones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Votes
from patebench.core.bound import Bound
from patebench.core.curve import points
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays, read_json, write_json
from patebench.core.formats import LABELS, TRUTH
from patebench.core.seeds import Mode
from patebench.mechanisms.base import Mechanism, make
from patebench.mechanisms.stage import read_votes
from patebench.reporting.frames import check_record
from patebench.reporting.rounds import round_records

_MEND = "pass files that were made from the same votes, or run snakemake again"
Record = dict[str, Any]


def stream_facts(stream: str) -> dict[str, str]:
    """The facts that an ensemble's folder below the results spells, such as "digits/seed-0_pool-400/teachers-25_…"."""
    parts = stream.strip("/").split("/")
    if len(parts) != 3 or not all(parts):
        raise PatebenchError(f"the stream '{stream}' is not <dataset>/<split>/<ensemble>; give the ensemble's folder.")
    return dict(zip(("dataset", "split", "ensemble"), parts, strict=True))


def collect(
    *,
    ensemble: Path,
    votes: Path,
    truth: Path,
    labels: Sequence[Path],
    bounds: Sequence[Path],
    students: Sequence[Path],
    answers: Sequence[Path] = (),
    charges: Sequence[Path] = (),
    askers: Sequence[Path] = (),
    distilled: Sequence[Path] = (),
    facts: Mapping[str, str],
    out: Path,
) -> None:
    """Write the records of an ensemble, its releases, their bounds and the students to `out`.

    `facts` come from `stream_facts`. Raises ArtefactError for a file that belongs to other votes, another pool or
    other labels than the rest.
    """
    source, said = read_votes(votes)
    truths = read_arrays(truth, TRUTH)
    truths.require("pool", source.meta["pool"], str(votes))
    summary = _read(ensemble, "ensemble", "votes", source.digest, votes)
    common = _common(ensemble, summary, facts)
    released = [_Release(path, source, common) for path in labels]
    known = {release.labels.digest: release for release in released}
    records = [
        _ensemble_record(ensemble, summary, common),
        *(release.record(said, truths["y"]) for release in released),
        *(record for path in bounds for record in _bound_records(path, source, common)),
        *(_student_record(path, known, truths["y"]) for path in students),
        *round_records(answers, charges, askers, source, truths["y"], common),
        *(record for path in distilled for record in _distilled_records(path, source, common)),
    ]
    write_json(out, "collected", {"records": [check_record(out, record) for record in records]})


class _Release:
    """One file of released labels and what is known of it."""

    def __init__(self, path: Path, votes: Artefact, common: Record) -> None:
        self.labels = read_arrays(path, LABELS)
        _require_votes(path, self.labels.meta, votes)
        self.labels.require("pool", votes.meta["pool"], str(votes.path))
        if len(self.labels["labels"]) != votes["votes"].shape[1]:
            raise ArtefactError(path, f"it does not hold one label for each query of {votes.path}", _MEND)
        self.mechanism = _mechanism(self.labels.meta)
        self.facts = _release_facts(self.labels.meta, self.mechanism, common)

    def record(self, votes: Votes, truth: NDArray[Any]) -> Record:
        given = self.labels["labels"]
        return {
            "record": "release",
            **self.facts,
            "queries": len(given),
            "answered": int(np.sum(given >= 0)),
            "label_accuracy": label_accuracy(given, truth),
            "expected_label_accuracy": self._expected(votes, truth),
        }

    def _expected(self, votes: Votes, truth: NDArray[Any]) -> float | None:
        """Not with discrete noise, or where a budget ended it: the probabilities are those of continuous noise."""
        if self.labels.meta["mode"] == Mode.RELEASE or "budget" in self.labels.meta:
            return None
        return expected_label_accuracy(self.mechanism, votes, truth)


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


def _common(path: Path, summary: Record, facts: Mapping[str, str]) -> Record:
    """What every record of this ensemble says of it."""
    seed = summary.get("seed")
    if not facts["split"].startswith(f"seed-{seed}_"):
        raise ArtefactError(path, f"its seed is {seed}, and the stream names the split {facts['split']}", _MEND)
    return {**facts, **_take(path, summary, ("seed", "teachers", "partition", "model", "recipe", "epochs"))}


def _ensemble_record(path: Path, summary: Record, common: Record) -> Record:
    rest = ("plurality_accuracy_pool", "plurality_accuracy_test", "gap_mean", "gap_histogram")
    found = _take(path, summary, ("teacher_accuracies", *rest))
    teachers = np.asarray(found.pop("teacher_accuracies"), dtype=np.float64)
    accuracies = {
        "teacher_accuracy_mean": float(teachers.mean()),
        "teacher_accuracy_min": float(teachers.min()),
        "teacher_accuracy_max": float(teachers.max()),
        "teacher_accuracy_std": float(teachers.std()),
    }
    return {"record": "ensemble", **common, **accuracies, **found}


def _bound_records(path: Path, votes: Artefact, common: Record) -> list[Record]:
    content = read_json(path, "bounds")
    _require_votes(path, content, votes)
    facts = _release_facts(content, _mechanism(content), common)
    return [
        *({"record": "bound", **facts, **Bound.from_json(bound).to_json()} for bound in content["bounds"]),
        *({"record": "curve", **facts, **curve} for curve in content.get("curves", ()) if points(curve)),
        *({"record": "entities", **facts, **each} for each in content.get("entities", ())),
    ]


def _student_record(path: Path, known: Mapping[str, _Release], truth: NDArray[Any]) -> Record:
    content = read_json(path, "student")
    release = known.get(content.get("labels", ""))
    if release is None:
        raise ArtefactError(path, "it learnt from labels that are not among the given ones", _MEND)
    found = _take(path, content, ("method", "queries", "answered", "accuracy", "model", "recipe"))
    queries = found["queries"]
    return {
        "record": "student",
        **release.facts,
        "student": Path(path).parent.name,
        "student_model": found.pop("model"),
        "student_recipe": found.pop("recipe"),
        **found,
        "label_accuracy": label_accuracy(release.labels["labels"][:queries], truth[:queries]),
        "learning_curve": content.get("curve", []),
        "picture": content.get("picture"),
    }


def _distilled_records(path: Path, votes: Artefact, common: Record) -> list[Record]:
    """A record for each kind of label and number of samples; no noise stands between them and the private data."""
    content = _read(path, "distillation", "votes", votes.digest, votes.path)
    found = _take(path, content, ("model", "recipe", "epochs", "learnt"))
    student = {f"student_{name}": found[name] for name in ("model", "recipe", "epochs")}
    facts = {**common, "distilled": Path(path).parent.name, **student, "epsilon": "inf"}
    return [{"record": "distillation", **facts, **learnt} for learnt in found["learnt"]]


def _mechanism(meta: Mapping[str, Any]) -> Mechanism:
    return make(meta["mechanism"], {name: float(value) for name, value in meta["parameters"].items()})


def _release_facts(meta: Mapping[str, Any], mechanism: Mechanism, common: Record) -> Record:
    named = {"mechanism": meta["mechanism"], "noise": mechanism.slug, "parameters": dict(meta["parameters"])}
    return {**common, **named}


def _require_votes(path: Path, meta: Mapping[str, Any], votes: Artefact) -> None:
    """Refuse what was made from other votes; a release does not say from which, and nor do those who saw no vote."""
    if meta.get("votes") is not None and meta["votes"] != votes.digest:
        raise ArtefactError(path, f"it was made with other votes than {votes.path}", _MEND)


def _read(path: Path, kind: str, entry: str, expected: str, of: Path) -> Record:
    content = read_json(path, kind)
    if content.get(entry) != expected:
        raise ArtefactError(path, f"it was made with other {entry} than {of}", _MEND)
    return content


def _take(path: Path, content: Record, names: Sequence[str]) -> Record:
    for name in names:
        if name not in content:
            raise ArtefactError(path, f"it lacks '{name}'")
    return {name: content[name] for name in names}
