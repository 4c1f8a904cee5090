"""The audit of a mechanism: lower bounds on ε, compared with every stated bound, and the verdict on each."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from patebench.audit import agreement
from patebench.audit.release_noise import ReleaseNoiseAudit
from patebench.audit.runs import AuditSetting, Sampled
from patebench.audit.sampled import SampledAudit, max_labels, on_counts
from patebench.audit.table_audit import TableAudit, VotePair, disagreements
from patebench.audit.worst_pairs import Pair, Search
from patebench.core.bound import Bound, Kind
from patebench.core.text import at_least, at_most, in_json
from patebench.mechanisms.base import Answering, json_parameters

#: Smallest stated ε that is vacuous: an event that is e¹⁰⁰ times as likely on D as on D′ is never observed on D′.
VACUOUS = 100.0

#: Names of the audit's own bounds, used where other bounds name their accountant. Labels in tables lack the prefix.
EXACT, SAMPLED, DISCRETE = "audit-exact", "audit-sampled", "audit-discrete"


class Verdict(StrEnum):
    """The verdict of an audit on a stated bound."""

    HOLDS = "holds"  # the audited ε does not exceed the bound
    VIOLATED = "violated"  # the audited ε exceeds the bound
    DISAGREES = "disagrees"  # not violated, but releases differ from the stated distribution, so nothing follows
    VACUOUS = "vacuous"  # the bound is ∞, or too large to exclude anything observable

    @classmethod
    def of(cls, stated: float, audited: float) -> "Verdict":
        """Return the verdict on the ε bound `stated`, given the ε lower bound `audited`."""
        if audited > stated * (1 + 1e-9) + 1e-12:
            return cls.VIOLATED
        return cls.VACUOUS if stated >= VACUOUS else cls.HOLDS


@dataclass(frozen=True)
class Stated:
    """A stated bound on ε with the audited ε and the verdict.

    Parameters
    ----------
    bound : the stated upper bound on ε
    audited : the lower bound on ε with which `bound` is compared
    pair : the data sets D and D′; the stated bound was computed from the votes on D
    sound : True if released labels agree with the probabilities that the mechanism states
    """

    bound: Bound
    audited: float
    pair: Pair
    sound: bool = True

    @property
    def verdict(self) -> Verdict:
        verdict = Verdict.of(self.bound.epsilon, self.audited)
        return Verdict.DISAGREES if verdict is Verdict.HOLDS and not self.sound else verdict

    @property
    def excess(self) -> float:
        """Return the ratio of the audited ε to the stated ε, above 1 if the bound is violated."""
        if self.audited == self.bound.epsilon:
            return 1.0
        return self.audited / self.bound.epsilon if self.bound.epsilon > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Finding:
    """The result of the audit for one number of queries.

    Parameters
    ----------
    queries : number of queries
    pair : the worst pair of data sets found: the one with the largest ε according to the stated probabilities
    exact : this ε of `pair`, rounded down
    sampled : the result of the sampled audit
    stated : the stated bounds with their verdicts
    discrete : the result of runs with seeded discrete noise, if the mechanism has a discrete form
    weighted : the finding for votes with weights, only for the largest number of queries and only if the mechanism
        accepts weights; otherwise None
    """

    queries: int
    pair: Pair
    exact: float
    sampled: Sampled
    stated: Sequence[Stated]
    discrete: Sampled | None = None
    weighted: "Finding | None" = None


@dataclass(frozen=True)
class Audit(AuditSetting):
    """The audit of one mechanism at one setting.

    Parameters
    ----------
    findings : one finding per number of queries
    disagreements : sentences, one per case in which frequencies of released labels do not fit the stated probabilities
    """

    findings: Sequence[Finding] = ()
    disagreements: Sequence[str] = ()

    @property
    def violated(self) -> bool:
        """Return True if there are `disagreements` or the verdict on any stated bound is "violated" or "disagrees"."""
        verdicts = {stated.verdict for finding in self.findings for stated in finding.stated}
        return bool(self.disagreements or verdicts & {Verdict.VIOLATED, Verdict.DISAGREES})

    def own_bounds(self, finding: Finding) -> list[Bound]:
        """Return the ε lower bounds in `finding`: from the worst pair, from runs, and from runs with discrete noise."""
        runs = f"{self.runs} runs each, {100 * self.confidence:.4g}% confidence"
        epsilons = {
            EXACT: (finding.exact, "the worst pair found, composed by its privacy losses"),
            SAMPLED: (finding.sampled.epsilon, runs),
        }
        if finding.discrete is not None:
            epsilons[DISCRETE] = finding.discrete.epsilon, f"{runs}, discrete noise"
        return [
            Bound(
                epsilon=epsilon, delta=self.delta, queries=finding.queries, accountant=name, kind=Kind.AUDITED_LOWER,
                publishable=False, source=f"audit: {how}", label=name.removeprefix("audit-"),
            )
            for name, (epsilon, how) in epsilons.items()
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {
            "mechanism": self.name,
            "parameters": json_parameters(self.mechanism.parameters()),
            "noise": self.mechanism.slug,
            "teachers": self.teachers,
            "classes": self.classes,
            "delta": self.delta,
            "runs": self.runs,
            "confidence": self.confidence,
            "independent_queries": self.mechanism.independent_queries,
            "disagreements": list(self.disagreements),
            "findings": [self._finding_to_json(finding) for finding in self.findings],
        }

    def _finding_to_json(self, finding: Finding) -> dict[str, Any]:
        own = [
            {**bound.to_json(), "audited": in_json(bound.epsilon), "verdict": None}
            for bound in self.own_bounds(finding)
        ]
        stated = [
            {**each.bound.to_json(), "audited": in_json(each.audited), "verdict": each.verdict.value}
            for each in finding.stated
        ]
        return {
            "queries": finding.queries,
            "pair": _pair_to_json(finding.pair),
            "sampled": _sampled_to_json(finding.sampled),
            "discrete": None if finding.discrete is None else _sampled_to_json(finding.discrete),
            "bounds": own + stated,
            **({} if finding.weighted is None else {"weighted": self._finding_to_json(finding.weighted)}),
        }


def run_audit(setting: AuditSetting, queries: Sequence[int]) -> Audit:
    """Audit the mechanism of `setting` for one query and for each number of queries in `queries`."""
    numbers = sorted({1, *queries})
    if setting.mechanism.answering is Answering.AS_TABLE:
        findings, lines = _audit_all_tables(TableAudit(**vars(setting)), numbers)
    else:
        findings, lines = _audit_queries(setting, numbers)
    return Audit(**vars(setting), findings=findings, disagreements=lines)


def _audit_all_tables(tables: TableAudit, numbers: Sequence[int]) -> tuple[list[Finding], list[str]]:
    """Audit a mechanism that releases one table of noisy counts; return a finding per number of queries, and messages.

    The messages report noise that differs from the stated noise. If the mechanism accepts votes with weights, a
    separate audit of votes with weights is made for the largest number of queries. Its result is stored in the field
    `weighted` of the last finding.
    """
    lines = disagreements(tables, numbers)
    if not tables.mechanism.weights:
        return [_audit_tables(tables, T, sound=not lines) for T in numbers], lines
    weighted, most = tables.with_weights(), numbers[-1]
    lines += disagreements(weighted, [most])
    *findings, last = (_audit_tables(tables, T, sound=not lines) for T in numbers)
    further = _audit_tables(weighted, most, sound=not lines)
    # If votes with weights violate a bound more than votes without weights, their verdict on this bound is kept.
    return [*findings, replace(last, stated=_worst_of_each(last.stated, further.stated), weighted=further)], lines


def _audit_queries(setting: AuditSetting, numbers: Sequence[int]) -> tuple[list[Finding], list[str]]:
    """Audit a mechanism that answers queries; return a finding per number of queries, and messages.

    The messages report outcomes that do not fit the stated probabilities.
    """
    mechanism, delta = setting.mechanism, setting.delta
    search = Search(mechanism, setting.teachers, setting.classes, delta)
    searches = {T: search.for_queries(T) for T in numbers}
    worst_pairs = {T: searches[T].worst(T) for T in numbers}
    labels = max_labels(setting.runs) if mechanism.independent_queries else setting.runs
    pairs = [
        *(worst_pairs[T][0] for T in numbers),
        search.measurable(labels, setting.confidence)[0],
        *search.most_distinguishable(),
    ]
    worst = {
        T: max(
            # If a mechanism decides on all queries together, pairs of one query do not bound its ε.
            [*worst_pairs[T], *(() if mechanism.answering is Answering.TOGETHER else pairs)],
            key=lambda pair: pair.epsilon(search.composed_queries(T), delta),
        )
        for T in numbers
    }
    agreements = searches[numbers[-1]].agreements()
    largest, tallies = SampledAudit(**vars(setting))(pairs, numbers, search.shapes(), agreements)
    lines = agreement.disagreements(tallies)
    if mechanism.independent_queries:
        lines += _report_excess(setting, search, largest)
    discrete: dict[int, Sampled] = {}
    if mechanism.discrete and all(sampled.event is not None for sampled in largest.values()):
        release = ReleaseNoiseAudit(**vars(setting))
        if mechanism.independent_queries:
            lines += release.disagreements(largest[1].pair, search.shapes(), agreements)
            discrete = {T: release.seeded(largest[T]) for T in numbers}
        else:
            by_queries = {T: largest[T].pair for T in numbers}
            lines += release.disagreements_of_transcripts(by_queries, search.shapes(), agreements)
    findings = [
        _compare(searches[T], T, worst[T], largest[T], discrete.get(T), pairs, sound=not lines) for T in numbers
    ]
    return findings, lines


def _audit_tables(tables: TableAudit, queries: int, *, sound: bool) -> Finding:
    """Return the finding for `queries` queries: each stated ε with the ε lower bound from pairs of votes.

    `sound` is False if releases disagree with the stated noise.
    """
    sampled = tables.sampled(queries)
    discrete = tables.discrete(sampled, queries)
    vote_pairs = [way for pair in tables.vote_pairs(queries) for way in (pair, pair.reversed())]
    exact = {pair.words: tables.exact(pair) for pair in vote_pairs}
    worst = max(vote_pairs, key=lambda pair: exact[pair.words])

    def stated_for(pair: VotePair) -> Iterator[Stated]:
        votes, here = pair.padded(queries), exact[pair.words]
        released = {_key(bound) for bound in tables.mechanism.bounds(votes, [queries], tables.delta, discrete=True)}
        here = max(here, sampled.sure) if pair.words == sampled.pair.words else here
        for bound in tables.mechanism.bounds(votes, [queries], tables.delta):
            # A worst-case bound holds for all pairs, a data-dependent bound for the pair for which it is stated.
            any_votes = max(exact[worst.words], sampled.sure, discrete.sure if _key(bound) in released else 0.0)
            yield Stated(bound, any_votes if bound.kind is Kind.WORST_CASE else here, pair.first_query, sound)
            if pair.removal:
                yield from _violated_if_added(bound, here, pair.first_query)

    # The ε of a replaced label is compared with the exact ε of such a pair.
    of_labels = [
        Stated(bound, tables.exact(pair), pair.first_query, sound)
        for pair in tables.label_pairs(queries)
        for bound in tables.mechanism.bounds(pair.padded(queries), [queries], tables.delta)
    ]
    stated = _worst_of_each(stated_for(worst), *map(stated_for, vote_pairs), of_labels)
    return Finding(queries, worst.first_query, exact[worst.words], sampled, stated, discrete)


def _report_excess(setting: AuditSetting, search: Search, largest: Mapping[int, Sampled]) -> list[str]:
    """Return [a message] if runs prove a larger ε than the stated probabilities give for the same data sets, else [].

    `largest` contains the result of the runs for each number of queries.
    """
    for T, sampled in largest.items():
        exact = setting.stated_epsilon(sampled.pair, search.composed_queries(T))
        if Verdict.of(exact, sampled.sure) is Verdict.VIOLATED:
            return [
                f"for {T} queries, runs show ε ≥ {at_least(sampled.sure)} {on_counts(sampled.pair.counts)}, where "
                f"the stated probabilities give {at_most(exact)}"
            ]
    return []


def _compare(
    search: Search,
    queries: int,
    worst: Pair,
    sampled: Sampled,
    discrete: Sampled | None,
    others: Sequence[Pair],
    *,
    sound: bool,
) -> Finding:
    """Return the finding for `queries` queries: each stated ε with the ε lower bound and the verdict.

    Parameters
    ----------
    search : the search that found the pairs
    worst : the pair of data sets with the largest ε found
    sampled : result of runs with continuous noise
    discrete : result of runs with discrete noise, or None
    others : further pairs on which the mechanism was run; for one query, bounds are also checked on these pairs
    sound : False if labels disagree with the stated probabilities
    """
    exact = worst.epsilon(search.composed_queries(queries), search.delta)
    everywhere = max(exact, sampled.sure)

    def stated_for(pair: Pair) -> Iterator[Stated]:
        here = pair.epsilon(search.composed_queries(queries), search.delta)
        if pair is sampled.pair:
            here = max(here, sampled.sure)
        with_noise = 0.0 if discrete is None else discrete.sure
        for bound in search.mechanism.bounds(pair.votes(queries)[0], [queries], search.delta):
            # Data-dependent bounds are stated for D of one pair, so only the ε found on that pair counts.
            any_votes = max(everywhere, with_noise if _key(bound) in for_discrete else 0.0)
            yield Stated(bound, any_votes if bound.kind is Kind.WORST_CASE else here, pair, sound)
            # Compared with the ε between D with and D without the differing vote.
            if bound.add_or_remove is not None:
                yield from _violated_if_added(bound, search.removal_epsilon(pair, queries), pair)

    votes = worst.votes(queries)[0]
    for_discrete = {
        _key(bound)
        for bound in search.mechanism.bounds(votes, [queries], search.delta, discrete=True)
        if bound.kind is Kind.WORST_CASE and discrete is not None
    }
    # Bounds are also checked on pairs from a tie to unanimity (`Search.ladder`) and on the pair of the sampled event.
    # For one query, they are also checked on all pairs that were run; for more queries, computing each ε takes longer.
    # If a mechanism decides on all queries together, only pairs of `Search.ladder` are added, since pairs of one query
    # do not bound its ε.
    run = () if search.mechanism.answering is Answering.TOGETHER else (sampled.pair, *(others if queries == 1 else ()))
    further = [pair for pair in (*run, *search.ladder(queries)) if pair is not worst]
    stated = _worst_of_each(stated_for(worst), *map(stated_for, further))
    return Finding(queries, worst, exact, sampled, stated, discrete)


def _violated_if_added(bound: Bound, audited: float, pair: Pair) -> Iterator[Stated]:
    """Yield the verdict "violated" if `bound` is violated for neighbours that add or remove one teacher's votes.

    The method `bound.if_added` states ε for these neighbours. `audited` is a lower bound on the ε for the same
    neighbours, and `pair` is the pair of data sets that is stored with the verdict. Yield nothing if the bound is not
    violated.
    """
    added = bound.if_added()
    if added is not None and Verdict.of(added.epsilon, audited) is Verdict.VIOLATED:
        yield Stated(added, audited, pair)


def _worst_of_each(first: Iterable[Stated], *further: Iterable[Stated]) -> list[Stated]:
    """Return the verdicts `first` and all violations among the verdicts `further`, with one verdict per bound.

    Of several verdicts on the same bound, the one with the largest violation (`Stated.excess`) is kept.
    """
    stated = {_key(each.bound): each for each in first}
    for each in itertools.chain(*further):
        before = stated.get(_key(each.bound))
        if each.verdict is Verdict.VIOLATED and (before is None or each.excess > before.excess):
            stated[_key(each.bound)] = each
    return list(stated.values())


def _key(bound: Bound) -> tuple[str, ...]:
    return bound.accountant, bound.kind, bound.conversion, bound.label, bound.adjacency


def _pair_to_json(pair: Pair) -> dict[str, Any]:
    words = {"words": pair.words} if pair.words else {}
    return {"counts": pair.counts.tolist(), "from": pair.source, "to": pair.target, **words}


def _sampled_to_json(sampled: Sampled) -> Mapping[str, Any]:
    rates, event, wider = sampled.rates, sampled.event, None
    if sampled.wider is not None and event is not None and event.wider is not None:
        wider = {"outcomes": event.wider.tolist(), "positives": sampled.wider.positives}
        wider["false_positives"] = sampled.wider.false_positives
    # Outcome `classes` stands for "no answer"; if queries depend on each other, an outcome encodes a whole release.
    return {
        "pair": _pair_to_json(sampled.pair),
        "outcomes": [] if event is None else event.outcomes.tolist(),
        "wider": wider,
        "runs": rates.runs,
        "positives": rates.positives,
        "false_positives": rates.false_positives,
        "mu": rates.mu(),
        "fresh": event is not None,
    }


def worst_verdict(finding: Finding) -> Verdict:
    """Return the least favourable verdict on the bounds of `finding` that are stated with a proof.

    Bounds that a paper claims without an accepted proof (`Kind.CLAIMED`) are left out. The order of verdicts, least
    favourable first, is violated, disagrees, holds, vacuous. The result is `VACUOUS` if `finding` has no bound with a
    proof.
    """
    verdicts = {stated.verdict for stated in finding.stated if stated.bound.kind is not Kind.CLAIMED}
    order = (Verdict.VIOLATED, Verdict.DISAGREES, Verdict.HOLDS, Verdict.VACUOUS)
    return next((verdict for verdict in order if verdict in verdicts), Verdict.VACUOUS)
