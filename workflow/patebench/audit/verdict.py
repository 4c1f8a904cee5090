"""The audit of a mechanism: lower bounds on ε, compared with every stated bound, and the verdict on each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from patebench.audit import agreement
from patebench.audit.handed_out import HandedOut
from patebench.audit.runs import AuditSetting
from patebench.audit.sampled import Sampled, SampledAudit, histogram, most_labels
from patebench.audit.table_audit import TableAudit, disagreements
from patebench.audit.worst_pairs import Pair, Search
from patebench.core.bound import Bound, Kind
from patebench.core.text import at_least, at_most, in_json
from patebench.mechanisms.base import Answering, plain

#: Smallest stated ε that is vacuous: an event that is e¹⁰⁰ times as likely on D as on D′ is never observed on D′.
VACUOUS = 100.0

#: Names of the audit's own bounds in place of an accountant, and their labels in tables.
EXACT, SAMPLED, DISCRETE = "audit-exact", "audit-sampled", "audit-discrete"
_LABELS = {EXACT: "exact", SAMPLED: "sampled", DISCRETE: "discrete"}


class Verdict(StrEnum):
    """The verdict of an audit on a stated bound."""

    HOLDS = "holds"  # no pair and event were found that contradict it
    VIOLATED = "violated"  # a pair and an event contradict it
    DISAGREES = "disagrees"  # none was found, but releases differ from the stated distribution, so nothing follows
    VACUOUS = "vacuous"  # it is ∞, or too large to exclude anything observable

    @classmethod
    def of(cls, stated: float, audited: float) -> "Verdict":
        if audited > stated * (1 + 1e-9) + 1e-12:
            return cls.VIOLATED
        return cls.VACUOUS if stated >= VACUOUS else cls.HOLDS


@dataclass(frozen=True)
class Stated:
    """A bound as stated for the votes of a pair, the audited ε that it is compared with, and the verdict.

    `sound` is True if releases agree with the stated probabilities.
    """

    bound: Bound
    audited: float
    pair: Pair
    sound: bool = True

    @property
    def verdict(self) -> Verdict:
        found = Verdict.of(self.bound.epsilon, self.audited)
        return Verdict.DISAGREES if found is Verdict.HOLDS and not self.sound else found

    @property
    def excess(self) -> float:
        """Return the ratio of the audited ε to the stated one."""
        if self.audited == self.bound.epsilon:
            return 1.0
        return self.audited / self.bound.epsilon if self.bound.epsilon > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Finding:
    """The audit of T queries: the worst pair found with its exact ε, the sampled ε, and the stated bounds."""

    queries: int
    pair: Pair
    exact: float
    sampled: Sampled
    stated: Sequence[Stated]
    discrete: Sampled | None = None


@dataclass(frozen=True)
class Audit(AuditSetting):
    """The audit of one mechanism at one setting.

    `disagreements` are lines about differences between releases and stated probabilities.
    """

    findings: Sequence[Finding] = ()
    disagreements: Sequence[str] = ()

    @property
    def violated(self) -> bool:
        """Return True if a stated bound or claim is contradicted or releases disagree with stated probabilities."""
        found = {each.verdict for finding in self.findings for each in finding.stated}
        return bool(self.disagreements or found & {Verdict.VIOLATED, Verdict.DISAGREES})

    def own_bounds(self, finding: Finding) -> list[Bound]:
        """Return the audit's own lower bounds on ε."""
        sure = f"{self.runs} runs each, {100 * self.confidence:.4g}% confidence"
        found = {EXACT: (finding.exact, "the worst pair found, composed by its losses")}
        found[SAMPLED] = finding.sampled.epsilon, sure
        if finding.discrete is not None:
            found[DISCRETE] = finding.discrete.epsilon, f"{sure}, discrete noise"
        return [_audited(name, epsilon, finding.queries, self.delta, how) for name, (epsilon, how) in found.items()]

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary for strict JSON."""
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
            "disagreements": list(self.disagreements),
            "findings": [self._finding(finding) for finding in self.findings],
        }

    def _finding(self, finding: Finding) -> dict[str, Any]:
        own = [_recorded(bound, bound.epsilon, None) for bound in self.own_bounds(finding)]
        stated = [_recorded(each.bound, each.audited, each.verdict) for each in finding.stated]
        return {
            "queries": finding.queries,
            "pair": _described(finding.pair),
            "sampled": _measured(finding.sampled),
            "discrete": None if finding.discrete is None else _measured(finding.discrete),
            "bounds": own + stated,
        }


def run_audit(setting: AuditSetting, queries: Sequence[int]) -> Audit:
    """Audit one query and each number of queries in `queries`."""
    wanted = sorted({1, *queries})
    look = _look_at_tables if setting.mechanism.answering is Answering.AS_TABLE else _look_at_queries
    findings, lines = look(setting, wanted)
    return Audit(**vars(setting), findings=findings, disagreements=lines)


#: All findings, and lines about differences between releases and stated probabilities.
_Found = tuple[list[Finding], list[str]]


def _look_at_tables(how: AuditSetting, wanted: Sequence[int]) -> _Found:
    """Audit a mechanism that releases one table."""
    tables = TableAudit(**vars(how))
    lines = disagreements(tables, wanted)
    return [_of_tables(tables, T, sound=not lines) for T in wanted], lines


def _look_at_queries(how: AuditSetting, wanted: Sequence[int]) -> _Found:
    """Audit a mechanism that answers queries, at the worst pairs of counts of one query."""
    mechanism, delta = how.mechanism, how.delta
    search = Search(mechanism, how.teachers, how.classes, delta)
    searches = {T: search.asking(T) for T in wanted}
    found = {T: searches[T].worst(T) for T in wanted}
    counted = most_labels(how.runs) if mechanism.independent_queries else how.runs
    pairs = [
        *(found[T][0] for T in wanted),
        search.measurable(counted, how.confidence)[0],
        *search.most_distinguishable(),
    ]
    worst = {
        T: max(
            # Pairs of one query say nothing about a mechanism that decides on all queries together.
            [*found[T], *(() if mechanism.answering is Answering.TOGETHER else pairs)],
            key=lambda pair: pair.epsilon(search.independent(T), delta),
        )
        for T in wanted
    }
    agreements = searches[wanted[-1]].agreements()
    seen = SampledAudit(**vars(how))(pairs, wanted, search.shapes(), agreements)
    lines = [*agreement.disagreements(seen.tallies), *_more_than_stated(how, search, seen.largest)]
    discrete: dict[int, Sampled] = {}
    if mechanism.discrete and all(sampled.fresh for sampled in seen.largest.values()):
        handed_out = HandedOut(**vars(how))
        if mechanism.independent_queries:
            lines += handed_out.disagreements(seen.largest[1].pair, search.shapes(), agreements)
            discrete = {T: handed_out.seeded(seen.largest[T]) for T in wanted}
        else:
            lines += handed_out.of_transcripts({T: seen.largest[T].pair for T in wanted}, search.shapes(), agreements)
    findings = [
        _compared(searches[T], T, worst[T], seen.largest[T], discrete.get(T), pairs, sound=not lines) for T in wanted
    ]
    return findings, lines


def _of_tables(tables: TableAudit, queries: int, *, sound: bool) -> Finding:
    """Compare every bound on `queries` queries; data-dependent ones with each pair of tables separately."""
    sampled = tables.sampled(queries)
    discrete = tables.discrete(sampled, queries)
    worlds = [way for each in tables.worlds(queries) for way in (each, each.reversed())]
    exact = {world.words: tables.exact(world) for world in worlds}
    worst = max(worlds, key=lambda world: exact[world.words])
    mechanism, found = tables.mechanism, dict[tuple[str, ...], Stated]()
    for world in (worst, *worlds):
        votes, here = world.padded(queries), exact[world.words]
        handed_out = {_key(bound) for bound in mechanism.bounds(votes, [queries], tables.delta, discrete=True)}
        here = max(here, sampled.sure) if world.words == sampled.pair.words else here
        for bound in mechanism.bounds(votes, [queries], tables.delta):
            any_votes = max(exact[worst.words], sampled.sure, discrete.sure if _key(bound) in handed_out else 0.0)
            audited = any_votes if bound.kind is Kind.WORST_CASE else here
            each = Stated(bound, audited, world.pair, sound)
            before = found.setdefault(_key(bound), each)
            if each.verdict is Verdict.VIOLATED and each.excess > before.excess:
                found[_key(bound)] = each
    return Finding(queries, worst.pair, exact[worst.words], sampled, list(found.values()), discrete)


def _more_than_stated(how: AuditSetting, search: Search, found: Mapping[int, Sampled]) -> list[str]:
    """Return one line if the runs show a larger ε than the stated probabilities of the same pair allow."""
    for T, sampled in found.items():
        exact = how.stated_epsilon(sampled.pair, search.independent(T))
        known = search.mechanism.independent_queries
        if known and Verdict.of(exact, sampled.sure) is Verdict.VIOLATED:
            counts = histogram(sampled.pair.counts.tolist())
            return [
                f"of T = {T}, runs show ε ≥ {at_least(sampled.sure)} on the counts {counts}, where "
                f"stated probabilities allow {at_most(exact)}"
            ]
    return []


def _compared(
    search: Search,
    queries: int,
    worst: Pair,
    sampled: Sampled,
    discrete: Sampled | None,
    others: Sequence[Pair],
    *,
    sound: bool,
) -> Finding:
    """Compare every bound for the worst pair; a bound that is violated on another pair is given for that pair.

    Data-dependent bounds are stated for D of one pair, so they are compared only with the ε found on that pair.
    """
    exact = worst.epsilon(search.independent(queries), search.delta)
    everywhere = max(exact, sampled.sure)

    def stated(pair: Pair) -> Iterator[Stated]:
        here = pair.epsilon(search.independent(queries), search.delta)
        if pair is sampled.pair:
            here = max(here, sampled.sure)
        with_noise = 0.0 if discrete is None else discrete.sure
        for bound in search.mechanism.bounds(pair.votes(queries)[0], [queries], search.delta):
            any_votes = max(everywhere, with_noise if _key(bound) in for_discrete else 0.0)
            yield Stated(bound, any_votes if bound.kind is Kind.WORST_CASE else here, pair, sound)

    votes = worst.votes(queries)[0]
    for_discrete = {
        _key(bound)
        for bound in search.mechanism.bounds(votes, [queries], search.delta, discrete=True)
        if bound.kind is Kind.WORST_CASE and discrete is not None
    }
    found = {_key(each.bound): each for each in stated(worst)}
    for pair in _others(search, queries, worst, sampled, others):
        for each in stated(pair):
            before = found.get(_key(each.bound))
            if each.verdict is Verdict.VIOLATED and (before is None or each.excess > before.excess):
                found[_key(each.bound)] = each
    return Finding(queries, worst, exact, sampled, list(found.values()), discrete)


def _others(search: Search, queries: int, worst: Pair, sampled: Sampled, run: Sequence[Pair]) -> list[Pair]:
    """Return the other pairs on which bounds are checked: the event's pair, and pairs of all degrees of agreement.

    For one query these include all pairs that were run; for more, where an ε takes longer to compute, none of them. For
    a mechanism that decides on all queries together, only pairs of `queries` queries are returned.
    """
    seen = () if search.mechanism.answering is Answering.TOGETHER else (sampled.pair, *(run if queries == 1 else ()))
    pairs = [*seen, *search.ladder(queries)]
    return [pair for pair in pairs if pair is not worst]


def _key(bound: Bound) -> tuple[str, ...]:
    return bound.accountant, bound.kind, bound.conversion, bound.label


def _audited(name: str, epsilon: float, queries: int, delta: float, source: str) -> Bound:
    return Bound(
        epsilon=epsilon, delta=delta, queries=queries, accountant=name, kind=Kind.AUDITED_LOWER, publishable=False,
        source=f"audit: {source}", label=_LABELS[name],
    )  # fmt: skip


def _described(pair: Pair) -> dict[str, Any]:
    """Return D as counts and the classes between which a vote moves, with `words` if more than one vote moves."""
    words = {"words": pair.words} if pair.words else {}
    return {"counts": pair.counts.tolist(), "from": pair.source, "to": pair.target, **words}


def _measured(sampled: Sampled) -> Mapping[str, Any]:
    """Return the counts of an event for JSON; `wider` is a second event that contains the first.

    The number of classes stands for "no answer"; outcomes of transcripts are arbitrary numbers.
    """
    rates, event = sampled.rates, sampled.event
    return {
        "pair": _described(sampled.pair),
        "outcomes": [] if event is None else event.outcomes.tolist(),
        "wider": None
        if sampled.wider is None or event is None or event.wider is None
        else {
            "outcomes": event.wider.tolist(),
            "positives": sampled.wider.positives,
            "false_positives": sampled.wider.false_positives,
        },
        "runs": rates.runs,
        "positives": rates.positives,
        "false_positives": rates.false_positives,
        "mu": rates.mu(),
        "fresh": sampled.fresh,
    }


def _recorded(bound: Bound, audited: float, verdict: Verdict | None) -> dict[str, Any]:
    """Return a bound for JSON with the audited ε; the audit's own bounds have no verdict."""
    compared = {"audited": in_json(audited)}
    return {**bound.to_json(), **compared, "verdict": None if verdict is None else verdict.value}


def worst_verdict(finding: Finding) -> Verdict:
    """Return the verdict on the mechanism: the least favourable one on its bounds, except mere claims."""
    found = {each.verdict for each in finding.stated if each.bound.kind is not Kind.CLAIMED}
    order = (Verdict.VIOLATED, Verdict.DISAGREES, Verdict.HOLDS, Verdict.VACUOUS)
    return next((verdict for verdict in order if verdict in found), Verdict.VACUOUS)
