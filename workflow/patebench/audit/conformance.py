"""Checks that a mechanism fulfils the contract of `mechanisms.base.Mechanism`, for authors of mechanisms.

Labels, probabilities and bounds are checked on four matrices of votes. Then an audit tests whether released labels
follow the stated probabilities, and whether any stated bound is below the audited ε. Passing all checks is no proof of
privacy.
"""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from patebench.accounting.exact import ExactDivergence
from patebench.accounting.votes import Votes
from patebench.audit.runs import AuditSetting
from patebench.audit.verdict import Audit, Verdict, run_audit
from patebench.core.bound import Kind
from patebench.core.entropy import Draws
from patebench.core.errors import in_one_line
from patebench.core.seeds import Source
from patebench.core.text import above_zero, at_least, at_most, listing, plural
from patebench.mechanisms.base import Answering

#: Number of queries of each checked matrix of votes. The audit is for one query and for the second number of queries.
_QUERIES, _TOGETHER = 40, 5

#: Number of releases drawn from the operating system's entropy, and number of standard deviations from the expected
#: count above which the noise is reported as faulty.
_SECRET, _SURE = 20, 6

#: Rényi orders at which the stated cost of a query is compared with exact divergences.
_ORDERS = np.array([1.5, 2.0, 4.0, 16.0])


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Parameters
    ----------
    what : the property that was checked
    kept : True if the mechanism has the property, False if not, None if the check does not apply
    seen : explanation of the result, such as the fault if `kept` is False
    """

    what: str
    kept: bool | None
    seen: str


class Conformance(AuditSetting):
    """All checks of one mechanism, on votes of `teachers` teachers among `classes` classes."""

    def checks(self) -> Iterator[Check]:
        """Yield the result of every check; a failed check does not stop the others."""
        checks: dict[str, Callable[[], tuple[bool | None, str]]] = {
            "labels are classes, or −1 for no answer": self._check_labels,
            "equal seeds draw equal labels": self._check_seeds,
            "votes are not modified": self._check_unmodified,
            "probabilities sum to one": self._check_probabilities,
            "bounds are stated": self._check_bounds,
            "worst-case bounds do not depend on the votes": self._check_worst_case,
            "a budget counts at least the exact cost of a query": self._check_cost,
            "labels can be released": self._check_release,
        }
        for what, check in checks.items():
            try:
                yield Check(what, *check())
            except (Exception, SystemExit) as fault:  # a third-party mechanism may raise anything
                yield Check(what, False, in_one_line(fault))
        try:
            audited = run_audit(self, [1, _TOGETHER])
        except (Exception, SystemExit) as fault:
            yield Check("the audit", False, in_one_line(fault))
            return
        yield self._check_drawn(audited)
        yield self._check_private(audited)

    def _examples(self) -> dict[str, Votes]:
        """Return artificial votes by name: unanimous, with two tied classes, random, or with one dissenting teacher."""
        rng, shape = self.streams("conformance"), (self.teachers, _QUERIES)
        agreed = np.tile(np.arange(_QUERIES) % self.classes, (self.teachers, 1))
        apart = agreed.copy()
        apart[0] = (apart[0] + 1) % self.classes
        tied = np.tile(np.arange(self.teachers) % 2, (_QUERIES, 1)).T
        tables = {"unanimous": agreed, "tied": tied, "any": rng.integers(0, self.classes, shape), "all but one": apart}
        return {name: Votes.of(matrix, self.classes) for name, matrix in tables.items()}

    def _draw_labels(self, stream: str) -> dict[str, np.ndarray]:
        return {name: self.mechanism.release(votes, self.streams(stream)) for name, votes in self._examples().items()}

    def _label_fault(self, name: str, labels: np.ndarray) -> str | None:
        """Return a message if `labels` has the wrong shape or a label that is neither a class nor −1, else None.

        `name` is the name of the votes in the message.
        """
        low, high = np.min(labels), np.max(labels)
        if np.shape(labels) == (_QUERIES,) and low >= -1 and high < self.classes:
            return None
        return (
            f"labels of {name} votes have shape {np.shape(labels)} and values from {low} to {high}, instead of "
            f"({_QUERIES},) and −1 to {self.classes - 1}"
        )

    def _check_labels(self) -> tuple[bool, str]:
        for name, labels in self._draw_labels("labels").items():
            if fault := self._label_fault(name, labels):
                return False, fault
        return True, f"{len(self._examples())} tables of {_QUERIES} queries"

    def _check_seeds(self) -> tuple[bool, str]:
        first, second = self._draw_labels("seeds"), self._draw_labels("seeds")
        if differing := [name for name in first if not np.array_equal(first[name], second[name])]:
            return False, f"labels of {listing(differing)} votes differ for equal seeds; draw all noise from `rng`"
        return True, "drawn twice each"

    def _check_unmodified(self) -> tuple[bool, str]:
        for name, votes in self._examples().items():
            before = deepcopy(votes)
            self.mechanism.release(votes, self.streams("left alone"))
            self.mechanism.log_outcome_probabilities(votes)
            for array in ("counts", "matrix"):
                if not np.array_equal(getattr(votes, array), getattr(before, array)):
                    return False, f"the {array} of {name} votes changed; work on a copy"
        return True, "counts and matrix compared before and after"

    def _check_probabilities(self) -> tuple[bool | None, str]:
        for name, votes in self._examples().items():
            log_p = self.mechanism.log_outcome_probabilities(votes)
            if log_p is None:
                return None, "`log_outcome_probabilities` returns None, so exact checks are not possible"
            if not np.allclose(np.exp(log_p).sum(axis=1), 1, atol=1e-6):
                return False, f"the probabilities for {name} votes do not sum to one in each query; normalise them"
        return True, f"{_QUERIES} queries of each table"

    def _check_bounds(self) -> tuple[bool, str]:
        for name, votes in self._examples().items():
            bounds = self.mechanism.bounds(votes, [1, _QUERIES], self.delta)
            if not any(np.isfinite(bound.epsilon) for bound in bounds):
                return False, f"no bound for {name} votes is finite; check `accountants` or use more noise"
        return True, listing(sorted({f"{bound.accountant} ({bound.kind})" for bound in bounds}))

    def _check_worst_case(self) -> tuple[bool | None, str]:
        first, *others = map(self._worst_case_bounds, self._examples().values())
        if not first:
            return None, "the mechanism states no worst-case bound"
        keys = list(first)
        if any(
            other.keys() != first.keys()
            or not np.allclose([other[key] for key in keys], [first[key] for key in keys], rtol=1e-9, atol=1e-12)
            for other in others
        ):
            return False, "a worst-case bound depends on the votes; declare its kind as data-dependent"
        return True, plural(len(first), "bound")

    def _worst_case_bounds(self, votes: Votes) -> dict[tuple[str, ...], float]:
        bounds = self.mechanism.bounds(votes, [_QUERIES], self.delta)
        worst = (bound for bound in bounds if bound.kind is Kind.WORST_CASE)
        return {(bound.accountant, bound.label, bound.conversion): bound.epsilon for bound in worst}

    def _check_release(self) -> tuple[bool | None, str]:
        if not self.mechanism.discrete:
            return None, "the mechanism has no discrete form (`discrete`), so its labels cannot be released"
        source = Draws(None, "conformance").source()
        for name, votes in self._examples().items():
            if fault := self._label_fault(name, self.mechanism.release(votes, source)):
                return False, fault
            # The audit draws labels by `release`, a stage by `draw`.
            drawn = self.mechanism.draw(votes, self.streams("released"))
            if not np.array_equal(drawn["labels"], self.mechanism.release(votes, self.streams("released"))):
                return False, f"`released` returns other labels of {name} votes than `release`; do not override it"
            if len(drawn) > 1 and self.mechanism.answering not in (Answering.AS_TABLE, Answering.BY_TEACHER):
                return False, f"the audit does not cover the released {listing(sorted(set(drawn) - {'labels'}))}"
            if fault := self._plurality_fault(name, votes, source):
                return False, fault
            bounds = self.mechanism.bounds(votes, [_QUERIES], self.delta, discrete=True)
            if not any(bound.kind is Kind.WORST_CASE for bound in bounds):
                return False, "no worst-case bound is valid for discrete noise; set `discrete` of its accountant"
        return True, "drawn from the operating system's entropy, and bounded"

    def _plurality_fault(self, name: str, votes: Votes, source: Source) -> str | None:
        """Return a message if labels drawn with `source` equal the plurality too often or too rarely, else None.

        The labels come from several releases of `votes` with noise from the operating system's entropy (`source`). The
        number of labels that equal the plurality is compared with the number expected from the mechanism's stated
        probabilities. If the mechanism states none, or if its queries depend on each other, the result is None. `name`
        is the name of `votes` in the message.
        """
        log_p = self.mechanism.log_outcome_probabilities(votes) if self.mechanism.independent_queries else None
        if log_p is None:
            return None
        p = np.exp(log_p)[:, :-1][np.arange(votes.queries), votes.plurality]
        seen = sum(int((self.mechanism.release(votes, source) == votes.plurality).sum()) for _ in range(_SECRET))
        expected, spread = _SECRET * p.sum(), math.sqrt(_SECRET * float(np.sum(p * (1 - p))))
        if abs(seen - expected) <= _SURE * spread + _SURE:
            return None
        return (
            f"{plural(seen, 'label')} of {name} votes, drawn from the operating system's entropy, are the plurality,"
            f" but {expected:.0f} of {_SECRET * votes.queries} are expected; draw all noise from `rng`"
        )

    def _check_cost(self) -> tuple[bool | None, str]:
        cost = self.mechanism.per_query_cost(self.teachers, self.classes)
        if cost is None or not self.mechanism.independent_queries:
            return None, "the mechanism states no cost of one query (`per_query_cost`)"
        stated = cost.both(_ORDERS)
        for name, votes in self._examples().items():
            for query in range(_TOGETHER):
                one = votes.at(np.array([query]))
                exact = ExactDivergence(one, self.mechanism.neighbours).directions([1], _ORDERS)[0, 0].max(axis=0)
                if (exact > stated * (1 + 1e-6)).any():
                    worst = int(np.argmax(exact / np.maximum(stated, 1e-300)))
                    return False, (
                        f"a query of {name} votes costs {exact[worst]:.3g} at order {_ORDERS[worst]:g}, but"
                        f" `per_query_cost` states {stated[worst]:.3g}"
                    )
        return True, f"{_TOGETHER} queries of each table"

    def _check_drawn(self, audited: Audit) -> Check:
        what = "labels follow the stated probabilities"
        if audited.disagreements:
            return Check(what, False, audited.disagreements[0])
        if self.mechanism.log_outcome_probabilities(self._examples()["any"]) is None:
            return Check(what, None, "`log_outcome_probabilities` returns None")
        return Check(what, True, f"{self.runs} runs on each of two neighbours, and further tests")

    def _check_private(self, audited: Audit) -> Check:
        what = "no bound is below the audited ε"
        broken = [
            f"{stated.bound.accountant} ({stated.bound.kind}) states {at_most(above_zero(stated.bound.epsilon))} for "
            f"{plural(finding.queries, 'query')}, below the audited {at_least(stated.audited)}"
            for finding in audited.findings
            for stated in finding.stated
            if stated.verdict is Verdict.VIOLATED
        ]
        largest = max((finding.exact for finding in audited.findings), default=0.0)
        evidence = listing(broken, 2) if broken else f"ε ≥ {at_least(largest)} on the worst votes found"
        return Check(what, not broken, evidence)
