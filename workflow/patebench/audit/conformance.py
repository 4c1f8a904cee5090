"""Check that a mechanism fulfils the contract of its interface, for authors of mechanisms.

Labels, probabilities and bounds are checked on some tables of votes. The audit compares released labels with stated
probabilities, and both with the bounds. A finite number of runs cannot replace a proof.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from patebench.accounting.votes import Votes
from patebench.audit.runs import AuditSetting
from patebench.audit.verdict import Audit, Verdict, run_audit
from patebench.core.bound import Kind
from patebench.core.entropy import Draws
from patebench.core.errors import PatebenchError
from patebench.core.text import above_zero, at_least, at_most, listing, plural

#: Number of queries of a checked table of votes, and the larger number of queries that is audited.
_QUERIES, _TOGETHER = 40, 5


@dataclass(frozen=True)
class Check:
    """The result of one check: True if passed, None if it does not apply, and the evidence."""

    what: str
    kept: bool | None
    seen: str


class Conformance(AuditSetting):
    """The checks of one mechanism."""

    def checks(self) -> Iterator[Check]:
        """Yield every check; a failure does not stop the others."""
        yield self._tried("labels are classes, or −1 for no answer", self._labels)
        yield self._tried("equal seeds draw equal labels", self._seeds)
        yield self._tried("votes are not modified", self._left_alone)
        yield self._tried("probabilities sum to one", self._probabilities)
        yield self._tried("bounds are stated", self._bounds)
        yield self._tried("worst-case bounds do not depend on the votes", self._worst_case)
        yield self._tried("labels can be released", self._discrete)
        try:
            audited = run_audit(self, [1, _TOGETHER])
        except Exception as fault:  # a third-party mechanism may raise anything
            yield Check("the audit", False, _words(fault))
            return
        yield self._drawn(audited)
        yield self._private(audited)

    def _tables(self) -> dict[str, Votes]:
        """Return tables of votes: unanimous, two classes tied, random, all but one teacher agreeing."""
        rng, shape = self.streams("conformance"), (self.teachers, _QUERIES)
        agreed = np.tile(np.arange(_QUERIES) % self.classes, (self.teachers, 1))
        apart = agreed.copy()
        apart[0] = (apart[0] + 1) % self.classes
        tied = np.tile(np.arange(self.teachers) % 2, (_QUERIES, 1)).T
        tables = {"unanimous": agreed, "tied": tied, "any": rng.integers(0, self.classes, shape), "all but one": apart}
        return {name: Votes.of(matrix, self.classes) for name, matrix in tables.items()}

    def _tried(self, what: str, check: Callable[[], tuple[bool | None, str]]) -> Check:
        try:
            return Check(what, *check())
        except Exception as fault:
            return Check(what, False, _words(fault))

    def _drawn_labels(self, stream: str) -> dict[str, np.ndarray]:
        return {name: self.mechanism.release(votes, self.streams(stream)) for name, votes in self._tables().items()}

    def _labels(self) -> tuple[bool, str]:
        for name, labels in self._drawn_labels("labels").items():
            low, high = int(np.min(labels)), int(np.max(labels))
            if np.shape(labels) != (_QUERIES,) or low < -1 or high >= self.classes:
                return False, f"{name} votes: shape {np.shape(labels)}, {low} to {high}"
        return True, f"{len(self._tables())} tables of {_QUERIES} queries"

    def _seeds(self) -> tuple[bool, str]:
        first, second = self._drawn_labels("seeds"), self._drawn_labels("seeds")
        odd = [name for name in first if not np.array_equal(first[name], second[name])]
        return (
            not odd,
            f"different labels for {listing(odd)} votes; draw from `rng` alone" if odd else "drawn twice each",
        )

    def _left_alone(self) -> tuple[bool, str]:
        for name, votes in self._tables().items():
            before = votes.counts.copy()
            self.mechanism.release(votes, self.streams("left alone"))
            self.mechanism.log_outcome_probabilities(votes)
            if not np.array_equal(votes.counts, before):
                return False, f"counts of {name} votes were changed; work on a copy"
        return True, "counts compared before and after"

    def _probabilities(self) -> tuple[bool | None, str]:
        for name, votes in self._tables().items():
            log_p = self.mechanism.log_outcome_probabilities(votes)
            if log_p is None:
                return None, "it states none, so exact checks are not possible"
            if not np.allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-6):
                return False, f"they do not for {name} votes"
        return True, f"{_QUERIES} queries of each table"

    def _bounds(self) -> tuple[bool, str]:
        for name, votes in self._tables().items():
            found = self.mechanism.bounds(votes, [1, _QUERIES], self.delta)
            if not any(np.isfinite(bound.epsilon) for bound in found):
                return False, f"no finite bound for {name} votes"
        return True, listing(sorted({f"{bound.accountant} ({bound.kind})" for bound in found}))

    def _worst_case(self) -> tuple[bool | None, str]:
        stated = {name: self._stated(votes) for name, votes in self._tables().items()}
        first, *others = stated.values()
        if not first:
            return None, "it states none"
        if any(other.keys() != first.keys() or not _equal(other, first) for other in others):
            return False, "a worst-case bound depends on the votes; declare it data-dependent"
        return True, plural(len(first), "bound")

    def _stated(self, votes: Votes) -> dict[tuple[str, ...], float]:
        found = self.mechanism.bounds(votes, [_QUERIES], self.delta)
        worst = (bound for bound in found if bound.kind is Kind.WORST_CASE)
        return {(bound.accountant, bound.label, bound.conversion): bound.epsilon for bound in worst}

    def _discrete(self) -> tuple[bool | None, str]:
        if not self.mechanism.discrete:
            return None, "it has no discrete form (`discrete`), so its labels cannot be released"
        for name, votes in self._tables().items():
            labels = self.mechanism.release(votes, Draws(None, "conformance").source())
            if np.shape(labels) != (_QUERIES,) or np.min(labels) < -1 or np.max(labels) >= self.classes:
                return False, f"{name} votes: shape {np.shape(labels)}, {np.min(labels)} to {np.max(labels)}"
            stated = self.mechanism.bounds(votes, [_QUERIES], self.delta, discrete=True)
            if not any(bound.kind is Kind.WORST_CASE for bound in stated):
                return (
                    False,
                    "no worst-case bound is valid for discrete noise; set `discrete` of its accountant",
                )
        return True, "drawn from the operating system's entropy, and bounded"

    def _drawn(self, audited: Audit) -> Check:
        what = "labels follow the stated probabilities"
        if audited.disagreements:
            return Check(what, False, audited.disagreements[0])
        if self.mechanism.log_outcome_probabilities(self._tables()["any"]) is None:
            return Check(what, None, "it states no probabilities")
        return Check(what, True, f"{self.runs} runs of each of two adjacent tables, and more")

    def _private(self, audited: Audit) -> Check:
        what = "no bound is below the audited ε"
        broken = [
            f"{each.bound.accountant} ({each.bound.kind}) states {at_most(above_zero(each.bound.epsilon))} for "
            f"{plural(finding.queries, 'query')}, below the audited {at_least(each.audited)}"
            for finding in audited.findings
            for each in finding.stated
            if each.verdict is Verdict.VIOLATED
        ]
        found = max((finding.exact for finding in audited.findings), default=0.0)
        lost = f"ε ≥ {at_least(found)} on the worst votes found"
        return Check(what, not broken, listing(broken, 2) if broken else lost)


def _words(fault: Exception) -> str:
    words = str(fault) if isinstance(fault, PatebenchError) else f"{type(fault).__name__}: {fault}"
    return " ".join(words.split())


def _equal(one: dict[tuple[str, ...], float], other: dict[tuple[str, ...], float]) -> bool:
    return all(np.isclose(one[key], other[key], rtol=1e-9, atol=1e-12) for key in other)
