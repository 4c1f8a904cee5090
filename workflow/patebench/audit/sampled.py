"""Audits by running the code: ε lower bounds from the counts of an event on D and on D′.

A tenth of the runs chooses the pair of data sets, the direction and the event. The other runs count the event, so that
the choice costs no confidence. Stated probabilities help to choose the event if they agree with the runs. The result
depends only on outcomes of `release`, not on statements of the mechanism.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from patebench.accounting.votes import Votes
from patebench.audit import agreement
from patebench.audit.agreement import Tally
from patebench.audit.estimates import Rates, clopper_pearson
from patebench.audit.runs import (
    AuditSetting,
    Counts,
    Event,
    Goal,
    Histograms,
    Integers,
    Known,
    Outcomes,
    counted,
    in_turn,
)
from patebench.audit.runs import OutcomeCounts as EventTally
from patebench.audit.worst_pairs import GROUPS, Agreement, Pair, repeated_votes
from patebench.mechanisms.base import Answering

#: Queries of one run if queries are independent and cheap to draw, and maximum random numbers of one run.
_QUERIES_PER_RUN, _NUMBERS_PER_RUN = 10, 200

#: With more runs than this, each run has proportionally more queries, for tighter bounds: up to 16 times as many for
#: one audited query, whose event is rare, and up to 4 times as many for several.
_USUAL_RUNS, _MOST_OF_ONE, _MOST_OF_SEVERAL = 60_000, 16, 4

#: One label in this many serves to choose the event; minimum number of such labels per pair.
_CHOOSING, _AT_LEAST = 10, 200

#: Maximum number of cyclic shifts of the classes under which pairs are tried, since a fault may concern one class.
_RELABELLINGS = 10

#: For several queries, number of most different pairs that are also tried with two nested events.
_OF_TWO = 6

#: For mechanisms whose queries depend on each other, where each run is a call of `release`: maximum queries of one run,
#: and the factor by which there are fewer runs.
_TRANSCRIPT, _SHARE = 8, 20

#: Short releases, which test each answer by its position: queries and number of releases.
_SHORT, _SHORT_RUNS = 8, 300
_SHORT_WITH_STATE, _RUNS_WITH_STATE = 32, 1000

#: Number of queries per histogram in the release of queries with different votes.
_IN_TURN = 400

#: Unanimous votes and two-way ties: labels of an event per label drawn on each of them, and number of releases if
#: queries depend on each other.
_AGREEING, _AGREEING_WITH_STATE = 10, 250

#: Minimum p-value (Bonferroni over the outcomes) at which stated probabilities serve to choose events.
_CREDIBLE = 1e-4

#: Number of runs in the test that two generators give independent noise, and its probability of a false alarm.
_FRESH_RUNS, _FRESH_ALPHA = 2000, 1e-7


@dataclass(frozen=True, eq=False)
class Sampled:
    """The result of the runs: the rates of an event on a pair and the resulting ε lower bound of `queries` queries.

    `sure` is the ε for verdicts: with confidence `runs.SURE` if that is more than the configured one.
    """

    epsilon: float
    sure: float
    queries: int
    rates: Rates
    pair: Pair
    event: Event | None
    wider: Rates | None = None

    @property
    def fresh(self) -> bool:
        """Return True if independent generators gave independent noise; if not, no event was counted."""
        return self.event is not None


@dataclass(frozen=True, eq=False)
class Seen:
    """The results of all runs: the largest ε for each number of queries, and the tallies of outcomes."""

    largest: dict[int, Sampled]
    tallies: list[Tally] = field(default_factory=list)


class SampledAudit(AuditSetting):
    """An audit that runs a mechanism on pairs of data sets."""

    def __call__(
        self,
        pairs: Sequence[Pair],
        queries: Sequence[int],
        shapes: Histograms | None = None,
        agreements: Sequence[Agreement] = (),
    ) -> Seen:
        """Return the largest ε found for each number of queries, with all tallies.

        Releases are also compared with the stated probabilities on `shapes`, queried in turn in one release, and on
        `agreements`, on which teachers agree or tie, each in runs of its own.
        """
        pairs = _different(pairs)
        if not all(self._fresh(pair, f"fresh/{i}") for i, pair in enumerate(pairs)):
            return Seen({T: _without_noise(pairs[0], T, self.confidence) for T in queries})
        if not self.mechanism.independent_queries:
            tallies = [tally for i, pair in enumerate(pairs) for tally in self._short(pair, f"short/{i}")]
            for i, (counts, _) in enumerate(agreements):
                where, votes = f"on the counts {histogram(counts.tolist())}", repeated_votes(counts, _SHORT_WITH_STATE)
                tallies += self._places(where, votes, f"agreement/{i}", _AGREEING_WITH_STATE)
            return Seen({T: self._with_state(pairs, T) for T in queries}, tallies)
        found = self._independent(
            pairs, queries, np.stack([pair.counts for pair in pairs]) if shapes is None else shapes
        )
        tallies = [tally for i, each in enumerate(agreements) for tally in self._of_agreement(each, f"agreement/{i}")]
        return Seen(found.largest, [*found.tallies, *tallies])

    @property
    def _local(self) -> bool:
        return self.mechanism.answering is Answering.BY_TEACHER

    # Independent queries.

    def _independent(self, pairs: Sequence[Pair], queries: Sequence[int], shapes: Histograms) -> Seen:
        """Audit independent queries; many queries of one release are equivalent to many releases."""
        views = list(pairs) if self._local else relabelled(pairs)
        labels = self.runs * self._queries_per_run(pairs[0].votes(_SHORT)[0])
        choosing = max(_AT_LEAST, labels // _CHOOSING // len(views))
        known, tallies = [], list(self._in_turn(shapes))
        tallies += [tally for i, pair in enumerate(pairs) for tally in self._short(pair, f"short/{i}")]
        for i, pair in enumerate(views):
            likely, rare = (
                self._know(pair, side, f"choose/{i}/{name}", choosing, tallies)
                for side, name in enumerate(("here", "there"))
            )
            known += [(pair, likely, rare), (pair.reversed(), rare, likely)]
        goals = {
            T: Goal(max(1000, (labels - labels // _CHOOSING) * longer(self.runs, T)), self.confidence, self.delta)
            for T in queries
        }
        return Seen({T: self._counted(self._best(goals[T], known, T), goals[T], T, tallies) for T in queries}, tallies)

    def _queries_per_run(self, votes: Votes) -> int:
        """Return the number of queries of one run, from the random numbers that a release of `_SHORT` queries draws."""
        source = _Counted(self.streams("numbers"))
        self.outcomes(votes, source)  # type: ignore[arg-type]
        return max(1, min(_QUERIES_PER_RUN, _NUMBERS_PER_RUN * _SHORT // max(1, *source.drawn)))

    def _know(self, pair: Pair, side: int, name: str, labels: int, tallies: list[Tally]) -> Known:
        """Return the stated probabilities if the observed outcomes do not contradict them, else the observed ones."""
        seen = self._seen(pair, side, name, labels)
        stated = self.mechanism.outcome_probabilities(pair.votes(1)[side])
        if stated is None:
            return Known(seen / seen.sum(), float(seen.sum()))
        tally = agreement.of_labels(_on(pair, side), seen, stated[0])
        tallies.append(tally)
        if float(tally.p_values().min()) * len(seen) < _CREDIBLE:
            return Known(seen / seen.sum(), float(seen.sum()))
        return Known(stated[0], 1e15)

    def _seen(self, pair: Pair, side: int, name: str, labels: int) -> Integers:
        total = np.zeros(len(pair.counts) + 1, dtype=np.int64)
        for block in self.blocks(lambda T: pair.votes(T)[side], self.streams(name), labels):
            total += counted(block, len(pair.counts))
        if self._local:
            total[-1] = 0  # which teacher is queried when is public
        return total

    def _best(self, goal: Goal, known: Sequence[tuple[Pair, Known, Known]], queries: int) -> Event:
        """Return the event with the largest expected ε of `queries` queries."""
        together = self.mechanism.most_participation(queries)
        times = together if self._local or together == queries else 1
        few = known if times == 1 else _most_different(known)
        events = [goal.of_one_answer(*each, times) for each in few]
        if times > 1:
            events += [event for each in few[:_OF_TWO] for event in goal.of_two_events(*each, times)]
        return max(events, key=lambda event: event.predicted)

    def _counted(self, event: Event, goal: Goal, queries: int, tallies: list[Tally]) -> Sampled:
        """Estimate the event's probability on held-out labels, and tally these against the stated distribution."""
        sides = [
            self._count(event.pair, side, goal.labels, f"{queries}/count/{name}", tallies)
            for side, name in enumerate(("here", "there"))
        ]
        return sampled_by(event, sides, queries, self.confidence, self.delta)

    def _count(self, pair: Pair, side: int, labels: int, name: str, tallies: list[Tally]) -> dict[int, int]:
        """Count each outcome on one side of the pair, and append the counts to `tallies`."""
        stated, classes = self.mechanism.outcome_probabilities(pair.votes(1)[side]), len(pair.counts)
        seen = np.zeros(classes + 1, dtype=np.int64)
        blocks = self.blocks(lambda T: pair.votes(T)[side], self.streams(name), labels)
        for i, block in enumerate(blocks):
            shown = block[block < classes] if self._local else block
            seen += counted(shown, classes)
            if i == 0 and stated is not None:
                tallies += agreement.of_neighbours(_on(pair, side), shown, stated[0])
        if stated is not None:
            tallies.append(agreement.of_labels(_on(pair, side), seen, stated[0]))
        return dict(enumerate(seen.tolist()))

    def _in_turn(self, shapes: Histograms) -> Iterator[Tally]:
        """Tally queries with different votes in one release; each must be answered as if it were the only one."""
        votes = in_turn(shapes, len(shapes) * _IN_TURN)
        stated = self.mechanism.outcome_probabilities(votes.at(slice(0, len(shapes))))
        if stated is None:
            return
        shown = self.outcomes(votes, self.streams("in turn")).reshape(-1, len(shapes))
        for i, counts in enumerate(shapes):
            labels = shown[:, i][shown[:, i] < votes.classes] if self._local else shown[:, i]
            where = f"on the counts {histogram(counts.tolist())}, asked in turn with others"
            yield agreement.of_labels(where, counted(labels, votes.classes), stated[i])

    def _of_agreement(self, votes: Agreement, name: str) -> Iterator[Tally]:
        """Tally releases on one histogram under several shifts of the classes: each shift, and all together.

        Stated probabilities may differ between shifts. For all together their means are used, which makes no tail of
        the sum more likely (Hoeffding 1956, Theorem 4).
        """
        source, by, classes = self.streams(name), shifts(len(votes.counts)), len(votes.counts)
        labels = self.runs * self._queries_per_run(repeated_votes(votes.counts, _SHORT)) // _AGREEING // len(by)
        seen, chances = np.zeros(len(GROUPS), dtype=np.int64), np.zeros(len(GROUPS))
        for shift in by:
            view = np.roll(votes.counts, shift)
            stated = self.mechanism.outcome_probabilities(repeated_votes(view, 1))
            if stated is None:
                return
            blocks = self.blocks(partial(repeated_votes, view), source, labels)
            shown = np.sum([counted(block, classes) for block in blocks], axis=0)
            yield agreement.of_labels(f"on the counts {histogram(view.tolist())}", shown, stated[0])
            seen += votes.grouped(shown, shift)
            chances += votes.grouped(stated[0], shift) / len(by)
        where = f"on the counts {histogram(votes.counts.tolist())}, classes renamed"
        yield Tally(where, GROUPS, seen, chances, int(seen.sum()))

    def _short(self, pair: Pair, name: str) -> Iterator[Tally]:
        """Tally short releases, since faults in the first answers would be diluted in long ones."""
        free = self.mechanism.independent_queries
        length, runs = (_SHORT, _SHORT_RUNS) if free else (_SHORT_WITH_STATE, _RUNS_WITH_STATE)
        if self._local:
            return
        for side, which in enumerate(("here", "there")):
            yield from self._places(_on(pair, side), pair.votes(length)[side], f"{name}/{which}", runs)

    def _places(self, where: str, votes: Votes, name: str, runs: int) -> Iterator[Tally]:
        """Tally each answer by its position in several releases of the same votes."""
        stated = self.mechanism.outcome_probabilities(votes)
        if stated is not None:
            yield from agreement.of_places(where, self.transcripts(votes, self.streams(name), runs), stated)

    # Queries that depend on each other.

    def _with_state(self, pairs: Sequence[Pair], queries: int) -> Sampled:
        """Audit an event of the transcript of the first queries, for mechanisms whose queries depend on each other."""
        runs, length = max(200, self.runs // _SHARE), min(queries, _TRANSCRIPT)
        each, count = max(1, runs // 2 // len(pairs)), runs - runs // 2
        goal = Goal(count, self.confidence, self.delta)
        events: list[Event] = []
        for i, pair in enumerate(pairs):
            for view, sides in enumerate(zip(*self._views(pair, f"{queries}/{i}", each, length), strict=True)):
                values = np.unique(np.concatenate(sides))
                shares = [np.bincount(np.searchsorted(values, side), minlength=len(values)) / each for side in sides]
                likely, rare = (Known(share, each) for share in shares)
                for ways in ((pair, likely, rare), (pair.reversed(), rare, likely)):
                    event = goal.of_one_answer(*ways, 1, view)
                    events.append(replace(event, outcomes=values[event.outcomes]))
        best = max(events, key=lambda event: event.predicted)
        views = self._views(best.pair, f"{queries}/count", count, length)
        times = [int(np.sum(np.isin(side[best.view], best.outcomes))) for side in views]
        counts = Counts(Rates(times[0], times[1], count, self.confidence, best.weight))
        return _sampled(best, counts, queries, self.delta)

    def _views(self, pair: Pair, name: str, runs: int, length: int) -> list[list[Outcomes]]:
        """Return the views of the runs on D and on D′, from separate streams, so that their noise is independent."""
        return [
            _views(self.transcripts(votes, self.streams(f"{name}/{side}"), runs), len(pair.counts))
            for votes, side in zip(pair.votes(length), ("here", "there"), strict=True)
        ]

    def _fresh(self, pair: Pair, name: str) -> bool:
        """Return True if two generators give independent noise; reused noise can be subtracted.

        Labels of independent releases are equal as often as their frequencies imply.
        """
        one, two = (self._alike(pair, self.streams(f"{name}/{draw}")) for draw in ("one", "two"))
        return agree_as_often_as_they_should(one, two, len(pair.counts), self._local)

    def _alike(self, pair: Pair, rng: np.random.Generator) -> Outcomes:
        if self.mechanism.independent_queries:
            return self.outcomes(pair.votes(_FRESH_RUNS)[0], rng)
        return self.transcripts(pair.votes(1)[0], rng, _FRESH_RUNS // 4)[:, 0]


def longer(runs: int, queries: int) -> int:
    """Return the factor by which each of `runs` runs has more queries than usual in an audit of `queries` queries."""
    return min(max(1, runs // _USUAL_RUNS), _MOST_OF_ONE if queries == 1 else _MOST_OF_SEVERAL)


def most_labels(runs: int) -> int:
    """Return the maximum number of counted labels per side in an audit of one independent query."""
    return runs * _QUERIES_PER_RUN * longer(runs, 1)


class _Counted:
    """A generator that counts the random numbers drawn from it and from the generators that it spawns."""

    def __init__(self, source: np.random.Generator, drawn: list[int] | None = None) -> None:
        self._source, self.drawn = source, [0] if drawn is None else drawn

    def __getattr__(self, name: str) -> Callable[..., object]:
        method = getattr(self._source, name)

        def draw(*values: object, **named: object) -> object:
            found = method(*values, **named)
            if name == "spawn":
                return [_Counted(child, self.drawn) for child in found]
            self.drawn[0] += int(np.size(found))
            return found

        return draw


def agree_as_often_as_they_should(one: Outcomes, two: Outcomes, classes: int, only_answers: bool = False) -> bool:
    """Return True if outcomes of two releases are equal about as often as their frequencies imply, and not more."""
    if only_answers:  # which teacher is queried when is public, and the same each time
        asked = (one < classes) & (two < classes)
        one, two = one[asked], two[asked]
    shares = counted(np.concatenate([one, two]), classes) / max(1, 2 * len(one))
    usual = min(1.0, float(shares @ shares) + 0.02)
    return clopper_pearson(float(np.sum(one == two)), len(one), _FRESH_ALPHA)[0] <= usual


def _most_different(known: Sequence[tuple[Pair, Known, Known]]) -> list[tuple[Pair, Known, Known]]:
    """Return, for each pair up to names of the classes, the naming that differs most; largest differences first."""
    ordered = sorted(known, key=lambda each: -_difference(each[1], each[2]))
    kept: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Pair, Known, Known]] = {}
    for pair, likely, rare in ordered:
        alike = tuple(sorted(pair.counts.tolist())), tuple(sorted(pair.neighbour.tolist()))
        kept.setdefault(alike, (pair, likely, rare))
    return list(kept.values())


def _difference(likely: Known, rare: Known) -> float:
    """Return the triangular discrimination of two distributions less its expected value from sampling error."""
    p, q = likely.probability, rare.probability
    noise = 2 * len(p) / min(likely.runs, rare.runs)
    return float(np.sum((p - q) ** 2 / np.maximum(p + q, 1e-12))) - noise


def _views(outcomes: Outcomes, classes: int) -> list[Outcomes]:
    """Return the views (runs,) of transcripts (runs, queries) of which events are made.

    For one query, the view is the label. For several they are the label of each query, the number of answers, and a
    number that encodes all labels. The number of classes stands for "no answer".
    """
    if outcomes.shape[1] == 1:
        return [outcomes[:, 0]]
    powers = (classes + 1) ** np.arange(outcomes.shape[1])
    return [*outcomes.T, np.sum(outcomes < classes, axis=1), outcomes @ powers]


def _different(pairs: Sequence[Pair]) -> list[Pair]:
    """Return each pair once, regardless of its direction."""
    kept: dict[frozenset[tuple[int, ...]], Pair] = {}
    for pair in pairs:
        kept.setdefault(frozenset({tuple(pair.counts.tolist()), tuple(pair.neighbour.tolist())}), pair)
    return list(kept.values())


def relabelled(pairs: Sequence[Pair]) -> list[Pair]:
    """Return every pair under several cyclic shifts of the classes."""
    return [pair.relabelled(by) for pair in pairs for by in shifts(len(pairs[0].counts))]


def shifts(classes: int) -> list[int]:
    """Return the cyclic shifts of the classes under which histograms are tried."""
    every = np.linspace(0, classes, min(classes, _RELABELLINGS), endpoint=False).astype(int)
    return [int(by) for by in np.unique(every)]


def histogram(counts: Sequence[int]) -> str:
    """Return counts as text in order of the classes, trailing zeros shortened."""
    counts = list(counts)
    while len(counts) > 4 and counts[-1] == counts[-2] == 0:
        counts = counts[:-1]
    return f"({', '.join(map(str, counts))}{', …' if counts[-1] == 0 else ''})"


def _on(pair: Pair, side: int) -> str:
    return f"on the counts {histogram((pair.neighbour if side else pair.counts).tolist())}"


def sampled_by(event: Event, sides: Sequence[EventTally], queries: int, confidence: float, delta: float) -> Sampled:
    """Return the result for an event from the counts of each outcome on D and on D′."""
    return _sampled(event, event.counted(sides, confidence), queries, delta)


def _sampled(event: Event, counts: Counts, queries: int, delta: float) -> Sampled:
    epsilon, sure = (each.epsilon(delta, event.times) for each in (counts, counts.surer()))
    return Sampled(epsilon, sure, queries, counts.rates, event.pair, event, counts.wider)


def _without_noise(pair: Pair, queries: int, confidence: float) -> Sampled:
    """Return the result for reused noise, which can be subtracted: ε = ∞."""
    return Sampled(math.inf, math.inf, queries, Rates(0, 0, _FRESH_RUNS, confidence), pair, None)
