"""The audit of a mechanism: what it loses at least, beside every bound stated of it, and the verdict on each."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from patebench.audit.sampled import Sampled, SampledAudit, Streams
from patebench.audit.search import Pair, Search
from patebench.core.bound import Bound, Kind
from patebench.mechanisms.base import Mechanism, plain

#: A stated ε from which on a bound says nothing: no event is e¹⁰⁰ times as likely as another that anybody will see.
VACUOUS = 100.0

#: Names of the audit's own bounds, where others have their accountant, and how tables head them.
EXACT, SAMPLED = "audit-exact", "audit-sampled"
_LABELS = {EXACT: "exact", SAMPLED: "sampled"}


class Verdict(StrEnum):
    """What the audit says of a stated bound."""

    HOLDS = "holds"  # no pair and no event were found that contradict it
    VIOLATED = "violated"  # a pair and an event contradict it
    VACUOUS = "vacuous"  # it is ∞, or so large that it says nothing

    @classmethod
    def of(cls, stated: float, audited: float) -> "Verdict":
        if audited > stated * (1 + 1e-9) + 1e-12:
            return cls.VIOLATED
        return cls.VACUOUS if stated >= VACUOUS else cls.HOLDS


@dataclass(frozen=True)
class Stated:
    """A stated bound, the audited ε that it is compared with, and the verdict."""

    bound: Bound
    audited: float

    @property
    def verdict(self) -> Verdict:
        return Verdict.of(self.bound.epsilon, self.audited)


@dataclass(frozen=True, eq=False)
class Finding:
    """The audit of T queries: the worst pair found with its ε, what the runs show, and what is stated."""

    queries: int
    pair: Pair
    exact: float
    sampled: Sampled
    stated: Sequence[Stated]


@dataclass(frozen=True)
class Audit:
    """The audit of one mechanism at one setting, for votes of so many teachers among so many classes."""

    name: str
    mechanism: Mechanism
    teachers: int
    classes: int
    delta: float
    runs: int
    confidence: float
    findings: Sequence[Finding]

    def own_bounds(self, finding: Finding) -> list[Bound]:
        """What the audit itself says of ε, as bounds."""
        sure = f"{100 * self.confidence:.4g}% confidence"
        return [
            _audited(EXACT, finding.exact, finding.queries, self.delta, "the worst pair found, composed by its losses"),
            _audited(SAMPLED, finding.sampled.epsilon, finding.queries, self.delta, f"{self.runs} runs each, {sure}"),
        ]

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that strict JSON can hold."""
        return {
            "mechanism": self.name,
            "parameters": plain(self.mechanism.parameters()),
            "noise": self.mechanism.slug,
            "teachers": self.teachers,
            "classes": self.classes,
            "delta": self.delta,
            "runs": self.runs,
            "confidence": self.confidence,
            "independent_queries": self.mechanism.independent_queries,
            "findings": [self._finding(finding) for finding in self.findings],
        }

    def _finding(self, finding: Finding) -> dict[str, Any]:
        own = [_recorded(bound, bound.epsilon, None) for bound in self.own_bounds(finding)]
        stated = [_recorded(each.bound, each.audited, each.verdict) for each in finding.stated]
        return {
            "queries": finding.queries,
            "pair": _described(finding.pair),
            "sampled": _measured(finding.sampled),
            "bounds": own + stated,
        }


def run_audit(
    name: str,
    mechanism: Mechanism,
    teachers: int,
    classes: int,
    queries: Sequence[int],
    delta: float,
    runs: int,
    confidence: float,
    streams: Streams,
) -> Audit:
    """Audit one query, and each number of queries in `queries`."""
    search = Search(mechanism, teachers, classes, delta)
    wanted = sorted({1, *queries})
    composed = {T: search.asking(T).worst(T)[0] for T in wanted}
    of_one = {T: search.independent(T) == 1 and not mechanism.decides_together for T in wanted}
    worst = {T: composed[1] if of_one[T] else composed[T] for T in wanted}
    pairs = [*composed.values(), search.measurable(runs // 2, confidence)[0], *search.most_distinguishable()]
    sampled = SampledAudit(mechanism, runs, confidence, delta, streams)(pairs, wanted)
    findings = [_compared(search, T, worst[T], sampled[T]) for T in wanted]
    return Audit(name, mechanism, teachers, classes, delta, runs, confidence, findings)


def _compared(search: Search, queries: int, pair: Pair, sampled: Sampled) -> Finding:
    """Bounds that depend on the votes are those of the pair's D, so only what was found on that pair counts."""
    exact = pair.epsilon(search.independent(queries), search.delta)
    both = max(exact, sampled.epsilon)
    bounds = search.mechanism.bounds(pair.votes(queries)[0], [queries], search.delta)
    stated = [Stated(bound, both if bound.kind is Kind.WORST_CASE else exact) for bound in bounds]
    return Finding(queries, pair, exact, sampled, stated)


def _audited(name: str, epsilon: float, queries: int, delta: float, source: str) -> Bound:
    return Bound(
        epsilon=epsilon, delta=delta, queries=queries, accountant=name, kind=Kind.AUDITED_LOWER, publishable=False,
        source=f"audit: {source}", label=_LABELS[name],
    )  # fmt: skip


def _described(pair: Pair) -> dict[str, Any]:
    """D as counts, and the classes between which the vote moves."""
    return {"counts": pair.counts.tolist(), "from": pair.source, "to": pair.target}


def _measured(sampled: Sampled) -> Mapping[str, Any]:
    """What was counted, "no answer" being the label −1; outcomes of transcripts are numbers without a meaning."""
    rates = sampled.rates
    return {
        "pair": _described(sampled.pair),
        "outcomes": sampled.outcomes.tolist(),
        "runs": rates.runs,
        "positives": rates.positives,
        "false_positives": rates.false_positives,
        "mu": rates.mu(),
        "fresh": sampled.fresh,
    }


def _recorded(bound: Bound, audited: float, verdict: Verdict | None) -> dict[str, Any]:
    """A bound with what it was compared with; the audit's own have no verdict."""
    compared = {"audited": "inf" if math.isinf(audited) else audited}
    return {**bound.to_json(), **compared, "verdict": None if verdict is None else verdict.value}


def worst_verdict(finding: Finding) -> Verdict:
    """The verdict on the mechanism: the least favourable one on what it states as proven."""
    found = {each.verdict for each in finding.stated if each.bound.kind is not Kind.CLAIMED}
    order = (Verdict.VIOLATED, Verdict.HOLDS, Verdict.VACUOUS)
    return next((verdict for verdict in order if verdict in found), Verdict.VACUOUS)
