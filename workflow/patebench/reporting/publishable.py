"""Render the page of a release that may be published: released labels, their ε, and students trained on them.

The page depends only on the released labels, public data and the configuration, so publishing it costs no further ε.
This module must not use votes, true labels, run times or data-dependent bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from patebench import __version__
from patebench.core.bound import Bound
from patebench.core.class_accuracy import is_unbalanced, uncovered
from patebench.mechanisms.base import NO_ANSWER
from patebench.reporting.findings import percent, plural
from patebench.reporting.pages import templates
from patebench.reporting.wording import (
    delta_in_words,
    epsilon_in_digits,
    epsilon_in_words,
    in_words,
    parameters_in_words,
    recall_in_words,
    rounds_in_words,
)

#: Name of the accountant whose bound covers all releases in the ledger together.
LEDGER = "ledger"


@dataclass(frozen=True, kw_only=True)
class Student:
    """Student trained on released labels, with its accuracy on the public test set."""

    method: str
    model: str
    queries: int
    labels: int
    accuracy: float
    largest_class: float | None = None
    balanced_accuracy: float | None = None
    recall: Mapping[str, float | None] | None = None

    @property
    def in_words(self) -> str:
        return ", ".join(in_words(name) for name in (self.method, self.model))

    @property
    def shares(self) -> list[tuple[str, str]]:
        """Return (heading, cell) pairs: the accuracies and, if classes are unbalanced, the recall of each class."""
        cells = [("Accuracy", percent(self.accuracy))]
        cells += [("Largest class", "—" if self.largest_class is None else percent(self.largest_class))]
        if self.balanced_accuracy is not None and is_unbalanced(self.largest_class, self.recall):
            cells += [
                ("Balanced accuracy", percent(self.balanced_accuracy)),
                ("Recall %", recall_in_words(self.recall) or ""),
            ]
        return cells


@dataclass(frozen=True, kw_only=True)
class Release:
    """Released labels with all facts that may be published.

    `labels` (queries,) are the released labels, and `facts` is the metadata of their file. `bounds` and `protection`
    (the unit that ε protects, as text) come from the file of bounds. `pool` is the metadata of the public pool.
    """

    labels: Sequence[int]
    facts: Mapping[str, Any]
    bounds: Sequence[Bound]
    protection: str | None
    pool: Mapping[str, Any]
    students: Sequence[Student] = field(default=())

    @property
    def dataset(self) -> str:
        return in_words(str(self.pool["dataset"]))

    @property
    def mechanism(self) -> str:
        return in_words(str(self.facts["mechanism"]))

    @property
    def noise(self) -> str:
        return parameters_in_words(str(self.facts["mechanism"]), self.facts["parameters"])

    @property
    def queries(self) -> int:
        return len(self.labels)

    @property
    def answered(self) -> int:
        return sum(label != NO_ANSWER for label in self.labels)

    @property
    def uncovered(self) -> list[str]:
        """Return the names of the classes that no released label has."""
        return uncovered(np.asarray(self.labels), self.pool["class_names"])

    @property
    def teachers(self) -> int | None:
        return self.facts.get("teachers")

    @property
    def rounds(self) -> str:
        """Return the rounds in which queries were selected, as text; "" if they were not selected in rounds."""
        return rounds_in_words(self.facts["rounds"])

    @property
    def own_bounds(self) -> list[Bound]:
        """Return the publishable bounds on the ε of this release alone, the smallest first."""
        own = (bound for bound in self.bounds if bound.publishable and bound.accountant != LEDGER)
        return sorted(own, key=lambda bound: (bound.epsilon, bound.accountant, bound.conversion))

    @property
    def ledger_bound(self) -> Bound | None:
        """Return the bound on the ε of all releases in the ledger together, or None if this is the only release."""
        return next((bound for bound in self.bounds if bound.publishable and bound.accountant == LEDGER), None)

    @property
    def statement(self) -> str:
        """Return the sentence to publish with the labels."""
        best = self.own_bounds[0] if self.own_bounds else None
        labels = f"{plural(self.answered, 'label')} for {plural(self.queries, 'public sample')} of {self.dataset}"
        if best is None or best.epsilon == float("inf"):
            return f"{labels}: no finite ε is known, so there is nothing to publish."
        return (
            f"{labels} are (ε, δ)-differentially private with ε = {epsilon_in_digits(best.epsilon)} at δ ="
            f" {delta_in_words(best.delta)}, for any private data."
        )

    @property
    def protected(self) -> str:
        """Return the unit that ε protects, as text: a teacher's shard, and the changes of records within one shard."""
        shard = "one teacher’s whole shard"
        return f"{shard}, so {self.protection}" if self.protection else shard


def render(*, title: str, releases: Sequence[Release]) -> str:
    """Return the page for publication, as HTML, of the run `title`."""
    environment = templates()
    environment.filters |= {"digits": epsilon_in_digits, "words": epsilon_in_words, "delta": delta_in_words}
    page = environment.get_template("publishable.html")
    return page.render(title=title, releases=releases, together=_together(releases), version=__version__)


def _together(releases: Sequence[Release]) -> list[tuple[str, str]]:
    """Return, for each data set, its name and a sentence about the total ε of its releases."""
    sentences = []
    for dataset in dict.fromkeys(release.dataset for release in releases):
        own = [release for release in releases if release.dataset == dataset]
        totals = [release.ledger_bound for release in own if release.ledger_bound is not None]
        if totals:
            worst = max(totals, key=lambda bound: bound.epsilon)
            epsilon, delta = epsilon_in_digits(worst.epsilon), delta_in_words(worst.delta)
            words = f"All releases in the ledger together: ε = {epsilon} at δ = {delta} ({worst.source})."
        elif len(own) > 1:
            words = "This run makes several releases from the same private data; their ε add up."
        else:
            words = "No other release from the same private data is known."
        sentences.append((dataset, words))
    return sentences
