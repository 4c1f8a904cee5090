"""Records of students that ask in rounds: what each round asked, what came of it, and what all rounds so far cost."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from patebench.core.bound import Bound
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, read_arrays, read_json
from patebench.core.formats import LABELS
from patebench.mechanisms.base import make

_MEND = "pass files of the same folder, or run snakemake again"
Record = dict[str, Any]


def round_records(
    answers: Sequence[Path],
    charges: Sequence[Path],
    askers: Sequence[Path],
    votes: Artefact,
    truth: NDArray[Any],
    common: Mapping[str, Any],
) -> list[Record]:
    """A record for each student and each bound after a round; files of one round lie in one folder.

    Raises ArtefactError for a file that was made from other votes or other labels than the rest.
    """
    rounds = {Path(path).parent: _Round(Path(path), votes, common) for path in answers}
    return [
        *(_of(rounds, path).student_record(Path(path), truth) for path in askers),
        *(record for path in charges for record in _of(rounds, path).bound_records(Path(path))),
    ]


def _of(rounds: Mapping[Path, "_Round"], path: Path) -> "_Round":
    folder = Path(path).parent
    if folder not in rounds:
        raise ArtefactError(path, "the labels of its round are not among the given ones", _MEND)
    return rounds[folder]


class _Round:
    """All that was asked and answered up to one round."""

    def __init__(self, path: Path, votes: Artefact, common: Mapping[str, Any]) -> None:
        self.labels = read_arrays(path, LABELS)
        self.labels.require("votes", votes.digest, str(votes.path))
        meta = self.labels.meta
        mechanism = make(meta["mechanism"], {name: float(value) for name, value in meta["parameters"].items()})
        self.facts = {
            **common,
            "mechanism": meta["mechanism"],
            "noise": mechanism.slug,
            "parameters": dict(meta["parameters"]),
            "rounds": "/".join(path.parent.parts[-1 - len(meta["sizes"]) :]),
        }

    def student_record(self, path: Path, truth: NDArray[Any]) -> Record:
        """What the student of all labels up to this round reached; `strategy` is how that round chose."""
        said, meta = read_json(path, "student"), self.labels.meta
        if said.get("labels") != self.labels.digest:
            raise ArtefactError(path, f"it learnt from other labels than {self.labels.path}", _MEND)
        labels, kept = self.labels["labels"], self.labels["kept"]
        known = labels >= 0
        right = labels[known] == truth[self.labels["queries"][known]]
        return {
            "record": "round",
            **self.facts,
            "strategy": meta["strategies"][-1],
            "round": len(meta["sizes"]) - 1,
            "queries": len(labels),
            "answered": int(known.sum() - kept.sum()),
            "kept": int(kept.sum()),
            "label_accuracy": float(right.mean()) if known.any() else None,
            "accuracy": said["accuracy"],
            "method": said["method"],
            "student": self.facts["rounds"].split("/")[0],
            "student_model": said["model"],
            "student_recipe": said["recipe"],
            "learning_curve": said.get("curve", []),
            "picture": said.get("picture"),
        }

    def bound_records(self, path: Path) -> list[Record]:
        said = read_json(path, "bounds")
        if said.get("asked") != self.labels.meta["asked"]:
            raise ArtefactError(path, f"it is of other queries than {self.labels.path}", _MEND)
        return [{"record": "round_bound", **self.facts, **Bound.from_json(bound).to_json()} for bound in said["bounds"]]
