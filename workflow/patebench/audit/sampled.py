"""Sampled audits: ε lower bounds from counts of an event in releases on a data set D and on its neighbour D′.

A tenth of the runs chooses the pair of data sets, which of them is D, and the event. Only the other runs count the
event, so the lower bound holds with the full confidence. Stated probabilities help to choose the event if outcomes
agree with them, but the lower bound depends only on outcomes of `release`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Counts, Votes
from patebench.audit.agreement import Tally, tally_neighbours
from patebench.audit.estimates import Rates, lower_limit
from patebench.audit.runs import (
    AuditSetting,
    CountingGenerator,
    Event,
    Known,
    Outcomes,
    Sampled,
    count_outcomes,
    triangular_discrimination,
    votes_in_turn,
)
from patebench.audit.worst_pairs import GROUPS, Agreement, Pair, repeated_votes
from patebench.mechanisms.base import Answering

#: If queries are independent, one run answers several queries. Number of queries of one run if they need few random
#: numbers, and maximum number of random numbers of one run.
_QUERIES_PER_RUN, _NUMBERS_PER_RUN = 10, 200

#: If there are more runs than `_USUAL_RUNS`, the number of labels is multiplied by runs / `_USUAL_RUNS` (rounded down),
#: for tighter bounds. Maximum of this factor for the audit of one query, whose event is rare, and of several queries.
_USUAL_RUNS, _MOST_OF_ONE, _MOST_OF_SEVERAL = 60_000, 16, 4

#: One label out of this number serves to choose the event; minimum number of such labels per pair.
_CHOOSING, _AT_LEAST = 10, 200

#: Maximum number of cyclic shifts of the classes under which pairs are tried, since a fault may affect one class only.
_RELABELLINGS = 10

#: For several queries, number of pairs for which two nested events are tried as well. These are the pairs whose outcome
#: probabilities on D and on D′ differ most.
_NESTED = 6

#: For mechanisms whose queries depend on each other, one run is one release of several queries. Maximum number of
#: queries of one run, and divisor of the number of runs.
_TRANSCRIPT, _SHARE = 8, 20

#: Number of queries in a short release, and number of short releases; each position of an answer is tested separately.
#: The second pair of numbers is for mechanisms whose queries depend on each other.
_SHORT, _SHORT_RUNS = 8, 300
_SHORT_WITH_STATE, _RUNS_WITH_STATE = 32, 1000

#: Number of queries per histogram in the release of queries with different votes.
_IN_TURN = 400

#: On unanimous votes and on two-way ties: divisor of the number of labels, relative to that in which an event is
#: counted, and number of releases if queries depend on each other.
_AGREEING, _AGREEING_WITH_STATE = 10, 250

#: Minimum p-value (after Bonferroni over the outcomes) at which stated probabilities serve to choose events.
_CREDIBLE = 1e-4

#: Number of runs in the test that two generators give independent noise, and its probability of a false alarm.
_FRESH_RUNS, _FRESH_ALPHA = 2000, 1e-7


class SampledAudit(AuditSetting):
    """Audit of a mechanism that answers queries: ε lower bounds from counts of an event in runs on two data sets."""

    def __call__(
        self,
        pairs: Sequence[Pair],
        queries: Sequence[int],
        shapes: Counts | None = None,
        agreements: Sequence[Agreement] = (),
    ) -> tuple[dict[int, Sampled], list[Tally]]:
        """Return the result for each number of queries, and tests of the mechanism's stated outcome probabilities.

        Each result counts an event in runs on two data sets, D and D′. The audit chooses the pair, which of its data
        sets is D, and the event for which it expects the largest ε lower bound.

        Parameters
        ----------
        pairs : pairs of data sets D and D′ to choose from
        queries : numbers of queries, each audited separately
        shapes : (histograms, classes) vote counts on which the stated probabilities are tested. None: the counts on D
            of all `pairs`
        agreements : votes on which teachers agree or tie, each tested in separate runs
        """
        pairs = _drop_duplicates(pairs)
        if not all(self._has_fresh_noise(pair, f"fresh/{i}") for i, pair in enumerate(pairs)):
            rates = Rates(0, 0, _FRESH_RUNS, self.confidence)
            return {T: Sampled(T, self.delta, rates, pairs[0], None) for T in queries}, []
        if not self.mechanism.independent_queries:
            tallies = list(self._tally_short(pairs))
            for i, (counts, _) in enumerate(agreements):
                votes = repeated_votes(counts, _SHORT_WITH_STATE)
                tallies += self._tally_positions(on_counts(counts), votes, f"agreement/{i}", _AGREEING_WITH_STATE)
            return {T: self._audit_dependent(pairs, T) for T in queries}, tallies
        shapes = np.stack([pair.counts for pair in pairs]) if shapes is None else shapes
        largest, tallies = self._audit_independent(pairs, queries, shapes)
        for i, agreed in enumerate(agreements):
            tallies += self._tally_agreement(agreed, f"agreement/{i}")
        return largest, tallies

    @property
    def _local(self) -> bool:
        return self.mechanism.answering is Answering.BY_TEACHER

    # Independent queries.

    def _audit_independent(
        self, pairs: Sequence[Pair], queries: Sequence[int], shapes: Counts
    ) -> tuple[dict[int, Sampled], list[Tally]]:
        """Return a sampled audit for each number of queries, and tests of the mechanism's stated outcome probabilities.

        The mechanism must answer queries independently. The tests compare the stated probabilities with frequencies of
        outcomes on the votes of `pairs` and on the vote counts `shapes` (histograms, classes).
        """
        shifted = list(pairs) if self._local else relabel(pairs)
        # Many queries of one release are equivalent to many releases.
        labels = self.runs * self._queries_per_run(pairs[0].votes(_SHORT)[0])
        choosing = max(_AT_LEAST, labels // _CHOOSING // len(shifted))
        known, tallies = [], list(self._tally_shapes(shapes))
        tallies += self._tally_short(pairs)
        for i, pair in enumerate(shifted):
            likely, rare = (
                self._estimate_outcomes(pair, side, f"choose/{i}/{name}", choosing, tallies)
                for side, name in enumerate(("here", "there"))
            )
            known += [(pair, likely, rare), (pair.reversed(), rare, likely)]
        largest = {}
        for T in queries:
            counting = max(1000, (labels - labels // _CHOOSING) * query_factor(self.runs, T))
            event = self._choose_best_event(counting, known, T)
            counts = [
                self._count_side(event.pair, side, counting, f"{T}/count/{name}", tallies)
                for side, name in enumerate(("here", "there"))
            ]
            largest[T] = event.count(counts, self.confidence, T, self.delta)
        return largest, tallies

    def _queries_per_run(self, votes: Votes) -> int:
        """Return the number of queries that one run answers: 10, or fewer if a query needs many random numbers.

        The random numbers are counted in a release of `votes`.
        """
        source = CountingGenerator(self.streams("numbers"))
        self.outcomes(votes, source)
        return max(1, min(_QUERIES_PER_RUN, _NUMBERS_PER_RUN * _SHORT // max(1, *source.drawn)))

    def _estimate_outcomes(self, pair: Pair, side: int, stream: str, labels: int, tallies: list[Tally]) -> Known:
        """Return the outcome probabilities on D (`side` 0) or D′ (1) of `pair`.

        The probabilities that the mechanism states are tested on `labels` labels, drawn from the random stream
        `stream`. This test is appended to `tallies`. If the stated probabilities pass, they are returned. Otherwise, or
        if none are stated, the frequencies of the labels are returned.
        """
        seen = self.count(lambda T: pair.votes(T)[side], self.streams(stream), labels)
        if self._local:
            seen[-1] = 0  # it is public which teachers take part in a query, so "no answer" is left out
        stated = self.mechanism.outcome_probabilities(pair.votes(1)[side])
        if stated is not None:
            tally = Tally(_on_side(pair, side), seen, stated[0])
            tallies.append(tally)
            if float(tally.p_values().min()) * len(seen) >= _CREDIBLE:
                return Known(stated[0], 1e15)
        return Known(seen / seen.sum(), float(seen.sum()))

    def _choose_best_event(self, labels: int, known: Sequence[tuple[Pair, Known, Known]], queries: int) -> Event:
        """Return the event with the largest expected ε lower bound of `queries` queries, if counted in `labels` labels.

        `known` contains each pair with the outcome probabilities on D and on D′.
        """
        together = self.mechanism.most_participation(queries)
        times = together if self._local or together == queries else 1
        few = known if times == 1 else _sort_by_difference(known)
        events = [self.choose_event(labels, *pair, times) for pair in few]
        if times > 1:
            events += [event for pair in few[:_NESTED] for event in self.choose_nested_events(labels, *pair, times)]
        return max(events, key=lambda event: event.predicted)

    def _count_side(self, pair: Pair, side: int, labels: int, stream: str, tallies: list[Tally]) -> NDArray[np.int64]:
        """Return the count of each outcome in `labels` labels on D (`side` 0) or D′ (1) of `pair`.

        Tests against the stated probabilities are appended to `tallies`.
        """
        stated, classes = self.mechanism.outcome_probabilities(pair.votes(1)[side]), len(pair.counts)
        seen = np.zeros(classes + 1, dtype=np.int64)
        blocks = self.blocks(lambda T: pair.votes(T)[side], self.streams(stream), labels)
        for i, block in enumerate(blocks):
            shown = block[block < classes] if self._local else block
            seen += count_outcomes(shown, classes)
            if i == 0 and stated is not None:
                tallies += tally_neighbours(_on_side(pair, side), shown, stated[0])
        if stated is not None:
            tallies.append(Tally(_on_side(pair, side), seen, stated[0]))
        return seen

    def _tally_shapes(self, shapes: Counts) -> Iterator[Tally]:
        """Yield one test for each row of `shapes` (histograms, classes), which contains vote counts.

        All tests use the outcomes of one release, whose queries cycle through the rows. A test compares the outcomes
        for one row with the probabilities that the mechanism states for these votes.
        """
        votes = votes_in_turn(shapes, len(shapes) * _IN_TURN)
        stated = self.mechanism.outcome_probabilities(votes.at(slice(0, len(shapes))))
        if stated is None:
            return
        shown = self.outcomes(votes, self.streams("in turn")).reshape(-1, len(shapes))
        for i, counts in enumerate(shapes):
            labels = shown[:, i][shown[:, i] < votes.classes] if self._local else shown[:, i]
            where = f"{on_counts(counts)}, queried in turn with others"
            yield Tally(where, count_outcomes(labels, votes.classes), stated[i])

    def _tally_agreement(self, votes: Agreement, stream: str) -> Iterator[Tally]:
        """Yield tests that compare labels drawn on the votes `votes` with the stated probabilities.

        On these votes, teachers agree or tie. The votes are tested under several cyclic shifts of the classes, one test
        for each shift and one for all shifts together.
        """
        source, shifts = self.streams(stream), class_shifts(len(votes.counts))
        labels = self.runs * self._queries_per_run(repeated_votes(votes.counts, _SHORT)) // _AGREEING // len(shifts)
        seen, chances = np.zeros(len(GROUPS), dtype=np.int64), np.zeros(len(GROUPS))
        for shift in shifts:
            shifted = np.roll(votes.counts, shift)
            stated = self.mechanism.outcome_probabilities(repeated_votes(shifted, 1))
            if stated is None:
                return
            shown = self.count(partial(repeated_votes, shifted), source, labels)
            yield Tally(on_counts(shifted), shown, stated[0])
            seen += votes.grouped(shown, shift)
            # A binomial test of the summed counts with the mean probabilities is valid, since no tail gets less likely
            # (Hoeffding 1956, Theorem 4).
            chances += votes.grouped(stated[0], shift) / len(shifts)
        yield Tally(f"{on_counts(votes.counts)}, classes renamed", seen, chances, names=GROUPS)

    def _tally_short(self, pairs: Sequence[Pair]) -> Iterator[Tally]:
        """Yield tests of short releases on D and on D′ of each pair, one test per query of a release.

        A test compares the outcomes of one query in many releases with the stated probabilities. Short releases reveal
        faults that affect only the first answers.
        """
        if self._local:
            return
        free = self.mechanism.independent_queries
        length, runs = (_SHORT, _SHORT_RUNS) if free else (_SHORT_WITH_STATE, _RUNS_WITH_STATE)
        for i, pair in enumerate(pairs):
            for side, which in enumerate(("here", "there")):
                votes, stream = pair.votes(length)[side], f"short/{i}/{which}"
                yield from self._tally_positions(_on_side(pair, side), votes, stream, runs)

    def _tally_positions(self, where: str, votes: Votes, stream: str, runs: int) -> Iterator[Tally]:
        """Yield one test per query of `votes`: compare outcomes in `runs` releases with the stated probabilities.

        `where` describes the votes in messages.
        """
        stated = self.mechanism.outcome_probabilities(votes)
        if stated is None:
            return
        transcripts = self.transcripts(votes, self.streams(stream), runs)
        for position, probabilities in enumerate(stated):
            seen = count_outcomes(transcripts[:, position], votes.classes)
            yield Tally(f"{where}, as answer {position + 1} of a release", seen, probabilities)

    # Queries that depend on each other.

    def _audit_dependent(self, pairs: Sequence[Pair], queries: int) -> Sampled:
        """Return the sampled audit of `queries` queries that depend on each other.

        In each run, one release is drawn, in which an event occurs or not. To save time, a release has at most 8
        queries.
        """
        runs, length = max(200, self.runs // _SHARE), min(queries, _TRANSCRIPT)
        runs_per_pair, count = max(1, runs // 2 // len(pairs)), runs - runs // 2
        events: list[Event] = []
        for i, pair in enumerate(pairs):
            for view, sides in enumerate(zip(*self._draw(pair, f"{queries}/{i}", runs_per_pair, length), strict=True)):
                values = np.unique(np.concatenate(sides))
                shares = [
                    np.bincount(np.searchsorted(values, side), minlength=len(values)) / runs_per_pair for side in sides
                ]
                likely, rare = (Known(share, runs_per_pair) for share in shares)
                for ways in ((pair, likely, rare), (pair.reversed(), rare, likely)):
                    event = self.choose_event(count, *ways, 1, view)
                    events.append(replace(event, outcomes=values[event.outcomes]))
        best = max(events, key=lambda event: event.predicted)
        views = self._draw(best.pair, f"{queries}/count", count, length)
        times = [int(np.sum(np.isin(side[best.view], best.outcomes))) for side in views]
        rates = Rates(times[0], times[1], count, self.confidence, best.weight)
        return Sampled(queries, self.delta, rates, best.pair, best)

    def _draw(self, pair: Pair, stream: str, runs: int, length: int) -> list[list[Outcomes]]:
        """Draw `runs` releases of `length` queries on each of D and D′ of `pair`, and return the observed quantities.

        The result has one list for D and one for D′. Each list has one array (runs,) per quantity: the label of each
        query, the number of answered queries, and a number that encodes all labels. If `length` is 1, the only quantity
        is the label.
        """
        return [
            _views(self.transcripts(votes, self.streams(f"{stream}/{side}"), runs), len(pair.counts))
            for votes, side in zip(pair.votes(length), ("here", "there"), strict=True)
        ]

    def _has_fresh_noise(self, pair: Pair, stream: str) -> bool:
        """Return True if labels on D of `pair` from two random generators are equal only as often as by chance."""
        one, two = (self._labels_of(pair, self.streams(f"{stream}/{draw}")) for draw in ("one", "two"))
        return agree_by_chance(one, two, len(pair.counts), self._local)

    def _labels_of(self, pair: Pair, rng: np.random.Generator) -> Outcomes:
        if self.mechanism.independent_queries:
            return self.outcomes(pair.votes(_FRESH_RUNS)[0], rng)
        return self.transcripts(pair.votes(1)[0], rng, _FRESH_RUNS // 4)[:, 0]


def query_factor(runs: int, queries: int) -> int:
    """Return the factor by which an audit multiplies the number of labels in which it counts its event.

    The factor is 1 for few `runs`, and rises with `runs` up to a maximum. The maximum is larger if the audit bounds the
    ε of one query than if it bounds the ε of several `queries`.
    """
    return min(max(1, runs // _USUAL_RUNS), _MOST_OF_ONE if queries == 1 else _MOST_OF_SEVERAL)


def max_labels(runs: int) -> int:
    """Return the maximum number of labels that an audit of one query draws on each data set to count its event."""
    return runs * _QUERIES_PER_RUN * query_factor(runs, 1)


def agree_by_chance(one: Outcomes, two: Outcomes, classes: int, only_answers: bool = False) -> bool:
    """Return True if two releases have equal outcomes no more often than releases with independent noise.

    `one` and `two` (queries,) are the outcomes of the two releases. If `only_answers` is True, only queries that are
    answered in both releases are compared.
    """
    if only_answers:  # unanswered queries are public and the same in both releases
        asked = (one < classes) & (two < classes)
        one, two = one[asked], two[asked]
    shares = count_outcomes(np.concatenate([one, two]), classes) / max(1, 2 * len(one))
    usual = min(1.0, float(shares @ shares) + 0.02)
    return float(lower_limit(float(np.sum(one == two)), len(one), _FRESH_ALPHA)) <= usual


def _sort_by_difference(known: Sequence[tuple[Pair, Known, Known]]) -> list[tuple[Pair, Known, Known]]:
    """Return `known` in descending order of the difference between outcome probabilities on D and on D′.

    `known` contains each pair with the outcome probabilities on D and on D′. Of several pairs with the same counts up
    to the order of classes, only the first is kept.
    """
    ordered = sorted(known, key=lambda entry: -_difference(*entry[1:]))
    kept: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[Pair, Known, Known]] = {}
    for pair, likely, rare in ordered:
        shape = tuple(sorted(pair.counts.tolist())), tuple(sorted(pair.neighbour.tolist()))
        kept.setdefault(shape, (pair, likely, rare))
    return list(kept.values())


def _difference(likely: Known, rare: Known) -> float:
    """Return how much outcome probabilities differ between D (`likely`) and D′ (`rare`), corrected for chance.

    The difference is the triangular discrimination Σ (P − Q)²/(P + Q) of the estimates. The correction subtracts 2·k/n
    for k outcomes and n runs, since estimates from runs differ even if P = Q.
    """
    p, q = likely.probability, rare.probability
    return triangular_discrimination(p, q) - 2 * len(p) / min(likely.runs, rare.runs)


def _views(outcomes: Outcomes, classes: int) -> list[Outcomes]:
    """Return the observed quantities of releases, one array (releases,) per quantity.

    `outcomes` (releases, queries) are the outcomes of the queries. The quantities are the label of each query, the
    number of answered queries, and a number that encodes all labels. If releases have only one query, the only quantity
    is the label.
    """
    if outcomes.shape[1] == 1:
        return [outcomes[:, 0]]
    powers = (classes + 1) ** np.arange(outcomes.shape[1])
    return [*outcomes.T, np.sum(outcomes < classes, axis=1), outcomes @ powers]


def _drop_duplicates(pairs: Sequence[Pair]) -> list[Pair]:
    """Return `pairs` without duplicates; a pair with D and D′ exchanged is a duplicate."""
    kept: dict[frozenset[tuple[int, ...]], Pair] = {}
    for pair in pairs:
        kept.setdefault(frozenset({tuple(pair.counts.tolist()), tuple(pair.neighbour.tolist())}), pair)
    return list(kept.values())


def relabel(pairs: Sequence[Pair]) -> list[Pair]:
    """Return every pair of `pairs` several times, with classes shifted cyclically by each number in `class_shifts`."""
    return [pair.shift_classes(by) for pair in pairs for by in class_shifts(len(pairs[0].counts))]


def class_shifts(classes: int) -> list[int]:
    """Return the numbers of places by which audits shift the classes cyclically: at most 10, starting with 0."""
    every = np.linspace(0, classes, min(classes, _RELABELLINGS), endpoint=False).astype(int)
    return [int(by) for by in np.unique(every)]


def on_counts(counts: NDArray[np.integer]) -> str:
    """Return the text "on the counts (…)" for messages; most trailing zeros of a long row are left out."""
    shown = counts.tolist()
    while len(shown) > 4 and shown[-1] == shown[-2] == 0:
        shown = shown[:-1]
    return f"on the counts ({', '.join(map(str, shown))}{', …' if shown[-1] == 0 else ''})"


def _on_side(pair: Pair, side: int) -> str:
    return on_counts(pair.neighbour if side else pair.counts)
