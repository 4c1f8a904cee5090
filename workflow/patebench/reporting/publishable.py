"""Render the publishable page of a release: released labels, their ε, and students trained on them.

The page depends only on the released labels, public data and the configuration, so it adds nothing to ε. This module
reads no votes, no true labels, no times and no data-dependent bounds.
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

#: Accountant of all releases in a ledger together.
LEDGER = "ledger"


@dataclass(frozen=True, kw_only=True)
class Student:
    """A student of released labels and its accuracy on the public test set."""

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
        return ", ".join(in_words(each) for each in (self.method, self.model))

    @property
    def shares(self) -> list[tuple[str, str]]:
        """Return pairs of a heading and a cell: accuracies and, if classes are unbalanced, the recall of each class."""
        found = [("Accuracy", percent(self.accuracy))]
        found += [("Largest class", "—" if self.largest_class is None else percent(self.largest_class))]
        if self.balanced_accuracy is not None and is_unbalanced(self.largest_class, self.recall):
            found += [
                ("Balanced accuracy", percent(self.balanced_accuracy)),
                ("Recall %", recall_in_words(self.recall) or ""),
            ]
        return found


@dataclass(frozen=True, kw_only=True)
class Release:
    """A set of released labels with all facts that may be published.

    `labels` (queries,) are the released labels and `facts` the metadata of their file. `bounds` and `protection` come
    from the file of bounds, and `pool` is the metadata of the public pool.
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
        """Return the names of the classes without a label."""
        return uncovered(np.asarray(self.labels), self.pool["class_names"])

    @property
    def teachers(self) -> int | None:
        return self.facts.get("teachers")

    @property
    def rounds(self) -> str:
        """Return the rounds of queries in words; "" if queries were not selected in rounds."""
        return rounds_in_words(self.facts["rounds"])

    @property
    def own_bounds(self) -> list[Bound]:
        """Return the publishable bounds on these labels alone, the smallest ε first."""
        own = (each for each in self.bounds if each.publishable and each.accountant != LEDGER)
        return sorted(own, key=lambda each: (each.epsilon, each.accountant, each.conversion))

    @property
    def together(self) -> Bound | None:
        """Return the bound on all releases in the ledger; None if this is the only one."""
        return next((each for each in self.bounds if each.publishable and each.accountant == LEDGER), None)

    @property
    def statement(self) -> str:
        """Return the sentence to publish with the labels."""
        best = self.own_bounds[0] if self.own_bounds else None
        asked = f"{plural(self.answered, 'label')} for {plural(self.queries, 'public sample')} of {self.dataset}"
        if best is None or best.epsilon == float("inf"):
            return f"{asked}: no finite ε is known, so there is nothing to publish."
        return (
            f"{asked} are (ε, δ)-differentially private with ε = {epsilon_in_digits(best.epsilon)} at δ ="
            f" {delta_in_words(best.delta)}, whatever the private data are."
        )

    @property
    def protected(self) -> str:
        """Return the unit that ε protects: the shard of a teacher, and the changes that stay within one."""
        shard = "one teacher’s whole shard"
        return f"{shard}, so {self.protection}" if self.protection else shard


def render(*, title: str, releases: Sequence[Release]) -> str:
    """Return the page that may be published, for the run called `title`."""
    environment = templates()
    environment.filters |= {"digits": epsilon_in_digits, "words": epsilon_in_words, "delta": delta_in_words}
    page = environment.get_template("publishable.html")
    return page.render(title=title, releases=releases, together=_together(releases), version=__version__)


def _together(releases: Sequence[Release]) -> list[tuple[str, str]]:
    """Return a sentence per data set on the total cost of its releases."""
    found = []
    for dataset in dict.fromkeys(each.dataset for each in releases):
        own = [each for each in releases if each.dataset == dataset]
        stated = [each.together for each in own if each.together is not None]
        if stated:
            worst = max(stated, key=lambda bound: bound.epsilon)
            epsilon, delta = epsilon_in_digits(worst.epsilon), delta_in_words(worst.delta)
            found.append(
                (dataset, f"All releases in the ledger together: ε = {epsilon} at δ = {delta} ({worst.source}).")
            )
        elif len(own) > 1:
            found.append((dataset, "Several releases of this run are of the same private data: their costs add up."))
        else:
            found.append((dataset, "The bounds name no other release of the same private data."))
    return found
