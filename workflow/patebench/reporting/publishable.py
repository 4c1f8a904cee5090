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
from patebench.core.text import plural
from patebench.mechanisms.base import NO_ANSWER
from patebench.reporting.findings import percent
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
    """Student trained on released labels, with its test accuracy.

    `queries` is the number of queries, and `labels` the number of these queries that were answered with a label.
    """

    method: str
    model: str
    queries: int
    labels: int
    accuracy: float
    largest_class: float | None = None
    balanced_accuracy: float | None = None
    recall: Mapping[str, float | None] | None = None

    @property
    def shares(self) -> list[tuple[str, str]]:
        """Return the cells of the student in the table of accuracies, as pairs (heading, text).

        The cells are the accuracy and the share of the largest class. If the classes are unbalanced, balanced accuracy
        and recall by class are added.
        """
        largest = "—" if self.largest_class is None else percent(self.largest_class)
        cells = [("Accuracy", percent(self.accuracy)), ("Largest class", largest)]
        if self.balanced_accuracy is not None and is_unbalanced(self.largest_class, self.recall):
            cells += [
                ("Balanced accuracy", percent(self.balanced_accuracy)),
                ("Recall %", recall_in_words(self.recall) or ""),
            ]
        return cells


@dataclass(frozen=True, kw_only=True)
class Release:
    """Released labels with all facts that may be published.

    Attributes
    ----------
    labels : one class per query, or `NO_ANSWER`.
    facts : metadata of the file of labels.
    bounds : bounds on the ε of the labels.
    protection : unit that ε protects in addition to one teacher's shard, as text; None for the shard alone.
    pool : metadata of the public pool.
    students : students that learnt from the labels.
    ledger_protects : changes of the private data, such as a replaced record, against which the total ε of all releases
        in the ledger protects; None if no total ε is stated.
    """

    labels: Sequence[int]
    facts: Mapping[str, Any]
    bounds: Sequence[Bound]
    protection: str | None
    pool: Mapping[str, Any]
    students: Sequence[Student] = field(default=())
    ledger_protects: Sequence[str] | None = None

    @property
    def answered(self) -> int:
        return sum(label != NO_ANSWER for label in self.labels)

    @property
    def uncovered(self) -> list[str]:
        """Return the names of the classes without a released label."""
        return uncovered(np.asarray(self.labels), self.pool["class_names"])

    @property
    def own_bounds(self) -> list[Bound]:
        """Return the publishable bounds on the ε of this release alone, smallest first.

        The bound by the accountant `LEDGER` is left out, because it covers all releases of the data set together.
        """
        own = (bound for bound in self.bounds if bound.publishable and bound.accountant != LEDGER)
        return sorted(own, key=lambda bound: (bound.epsilon, bound.accountant, bound.conversion))

    @property
    def statement(self) -> str:
        """Return the sentence to publish with the labels: their number, their smallest ε, and δ.

        If no finite ε is known, the sentence says that there is nothing to publish.
        """
        best = self.own_bounds[0] if self.own_bounds else None
        samples = f"{plural(len(self.labels), 'public sample')} of {in_words(self.pool['dataset'])}"
        labels = f"{plural(self.answered, 'label')} for {samples}"
        if best is None or best.epsilon == float("inf"):
            return f"{labels}: no finite ε is known, so there is nothing to publish."
        return (
            f"{labels} are (ε, δ)-differentially private with ε = {epsilon_in_digits(best.epsilon)} at δ ="
            f" {delta_in_words(best.delta)}, for any private data."
        )


def render(*, title: str, releases: Sequence[Release]) -> str:
    """Return the page on `releases` that may be published, as HTML; `title` is the name of the run."""
    environment = templates()
    environment.filters |= {"digits": epsilon_in_digits, "words": epsilon_in_words, "delta": delta_in_words}
    environment.filters |= {"name": in_words, "rounds": rounds_in_words}
    environment.globals |= {"noise": parameters_in_words}
    by_dataset: dict[str, list[Release]] = {}
    for release in releases:
        by_dataset.setdefault(release.pool["dataset"], []).append(release)
    several = len(by_dataset) > 1
    together = [(in_words(dataset), _total(of_dataset, several)) for dataset, of_dataset in by_dataset.items()]
    page = environment.get_template("publishable.html")
    return page.render(title=title, releases=releases, together=together, version=__version__)


def _total(releases: Sequence[Release], several: bool) -> str:
    """Return a sentence on the total ε of `releases`, all of the same private data set.

    `several` is True if the page also shows releases of other data sets.
    """
    totals = [
        (bound, set(release.ledger_protects or ()))
        for release in releases
        for bound in release.bounds
        if bound.publishable and bound.accountant == LEDGER
    ]
    # A bound computed before the last draw may state changes that the last draw does not protect.
    changes = set.intersection(*(protects for _, protects in totals)) if totals else set()
    stated = [bound for bound, protects in totals if protects == changes]
    if changes and stated:
        worst = max(stated, key=lambda bound: bound.epsilon)
        epsilon, delta = epsilon_in_digits(worst.epsilon), delta_in_words(worst.delta)
        return f"All releases in the ledger together: ε = {epsilon} at δ = {delta} ({worst.source})."
    # Bounds of earlier versions state a total, but no changes.
    if len(releases) > 1 or totals or any(release.ledger_protects is not None for release in releases):
        return (
            "Several releases were made from the same private data. Their ε add up for a change of the data that"
            " all of them protect; for another change, no total ε is known."
        )
    others = " If the other data sets on this page hold the same people, their ε add up." if several else ""
    return f"No other release from the same private data is known.{others}"
