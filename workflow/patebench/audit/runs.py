"""Run a mechanism many times on given votes, and choose events that distinguish two adjacent data sets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.accounting.votes import Votes
from patebench.audit.estimates import Rates, binary, compose_nested, composed, expected, expected_apart, weight
from patebench.audit.worst_pairs import Pair
from patebench.core.seeds import Source
from patebench.mechanisms.base import Mechanism

#: Labels; the number of classes stands for "no answer".
Outcomes = NDArray[np.int64]

#: (classes,) counts of one query.
Histogram = NDArray[np.int64]

#: (histograms, classes) counts.
Histograms = NDArray[np.int64]

#: Returns the generator of a named stream.
Streams = Callable[[str], np.random.Generator]

#: Maximum number of labels drawn at once.
BLOCK = 1 << 20


@dataclass(frozen=True)
class AuditSetting:
    """Settings of the audit of a mechanism, called `name`, for all votes of `teachers` among `classes`.

    The mechanism runs `runs` times on each of two adjacent data sets, from named `streams`. Lower bounds on ε are at
    `delta` and hold with probability `confidence`.
    """

    name: str
    mechanism: Mechanism
    teachers: int
    classes: int
    delta: float
    runs: int
    confidence: float
    streams: Streams

    def outcomes(self, votes: Votes, source: Source) -> Outcomes:
        """Return the outcomes (queries,) of one release."""
        return self.mechanism.release(votes, source).astype(np.int64) % (votes.classes + 1)

    def blocks(self, votes: Callable[[int], Votes], source: Source, labels: int) -> Iterator[Outcomes]:
        """Yield the outcomes of releases of many queries, `labels` in total."""
        for start in range(0, labels, BLOCK):
            yield self.outcomes(votes(min(BLOCK, labels - start)), source)

    def transcripts(self, votes: Votes, source: Source, runs: int) -> Outcomes:
        """Return the outcomes (runs, queries) of `runs` releases of these votes."""
        return np.stack([self.outcomes(votes, source) for _ in range(runs)])

    def stated_epsilon(self, pair: Pair, queries: int) -> float:
        """Return the ε of `queries` independent queries to a pair from the stated probabilities of its outcomes."""
        here, there = (self.mechanism.outcome_probabilities(votes) for votes in pair.votes(1))
        if here is None or there is None:
            return pair.epsilon(queries, self.delta)
        with np.errstate(divide="ignore"):
            log_p, log_p_neighbour = np.log(here[0]), np.log(there[0])
        return composed(log_p, log_p_neighbour, np.ones(len(log_p), dtype=np.int64), queries, self.delta)


def in_turn(histograms: Histograms, queries: int) -> Votes:
    """Return votes of `queries` queries with the counts `histograms` (histograms, classes) in turn."""
    classes = np.arange(histograms.shape[1])
    matrix = np.stack([np.repeat(classes, counts) for counts in histograms], axis=1)
    place = np.arange(queries) % len(histograms)
    return Votes(histograms[place], matrix[:, place])


def counted(outcomes: Outcomes, classes: int) -> NDArray[np.int64]:
    """Return the number of times (classes + 1,) that each outcome occurred."""
    return np.bincount(outcomes.ravel(), minlength=classes + 1)


Integers = NDArray[np.int64]

#: Minimum confidence of a verdict against a stated bound, so that sampling rejects hardly any sound mechanism.
SURE = 1 - 1e-6

#: Number of times that each outcome occurred.
OutcomeCounts = Mapping[int, int]


@dataclass(frozen=True, eq=False)
class Event:
    """An event on a pair: a set of `outcomes` of one answer (of `view`), optionally with a `wider` set around it.

    `times` independent answers make up the audited queries. `predicted` is the expected ε lower bound, followed by the
    difference of the event's probabilities on D and D′.
    """

    pair: Pair
    outcomes: Outcomes
    times: int
    weight: float
    predicted: tuple[float, float]
    view: int = 0
    wider: Outcomes | None = None

    def counted(self, sides: Sequence[OutcomeCounts], confidence: float) -> "Counts":
        """Return the counts of the event from the counts of each outcome on D and on D′."""
        return Counts(
            self._rates(self.outcomes, sides, confidence),
            None if self.wider is None else self._rates(self.wider, sides, confidence),
        )

    def _rates(self, outcomes: Outcomes, sides: Sequence[OutcomeCounts], confidence: float) -> Rates:
        times = [sum(tally.get(int(each), 0) for each in outcomes) for tally in sides]
        return Rates(times[0], times[1], sum(sides[0].values()), confidence, self.weight)


@dataclass(frozen=True)
class Counts:
    """Rates of an event and of the wider one."""

    rates: Rates
    wider: Rates | None = None

    def epsilon(self, delta: float, times: int) -> float:
        """Return a lower bound on the ε of `times` answers."""
        if self.wider is None:
            return self.rates.epsilon(delta, times)
        return compose_nested(*self.rates.apart(self.wider), times, delta)

    def surer(self) -> "Counts":
        """Return the same counts with the confidence that verdicts need."""
        wider = None if self.wider is None else replace(self.wider, confidence=max(self.wider.confidence, SURE))
        return Counts(replace(self.rates, confidence=max(self.rates.confidence, SURE)), wider)


@dataclass(frozen=True, eq=False)
class Known:
    """Probabilities of outcomes, estimated from about `runs` runs.

    Sums are lowered or raised by one standard error. Otherwise, among many events, the seemingly best one would be one
    that occurred too often by chance.
    """

    probability: Array
    runs: float

    def low(self, order: Integers) -> Array:
        total = np.cumsum(self.probability[order])
        result: Array = np.clip(total - np.sqrt(total / self.runs), 0.0, 1.0)
        return result

    def high(self, order: Integers) -> Array:
        total = np.cumsum(self.probability[order])
        result: Array = np.clip(total + np.sqrt(total / self.runs) + 1 / self.runs, 0.0, 1.0)
        return result


@dataclass(frozen=True)
class Goal:
    """The goal of choosing an event: a large ε lower bound at `delta` from `labels` answers on each side."""

    labels: int
    confidence: float
    delta: float

    def of_one_answer(self, pair: Pair, likely: Known, rare: Known, times: int, view: int = 0) -> Event:
        """Return the event of the outcomes with the largest likelihood ratios whose expected ε is largest."""
        order = _by_ratio(likely, rare)
        low, high = likely.low(order), rare.high(order)
        differ = np.cumsum(likely.probability[order] - rare.probability[order])
        corners = expected(low, high, self.labels, self.confidence)
        found = [binary(float(p), float(q), times, self.delta) for p, q in zip(*corners, strict=True)]
        size = max(range(len(order)), key=lambda k: (found[k], float(differ[k])))
        of_p = weight(float(low[size]), float(high[size]))
        return Event(pair, order[: size + 1], times, of_p, (found[size], float(differ[size])), view)

    def of_two_events(self, pair: Pair, likely: Known, rare: Known, times: int) -> Iterator[Event]:
        """Yield an event with a wider one: the outcomes that speak for D, and these with the undecided ones.

        The outcomes are cut where the three groups differ most. The third group improves composed bounds if noise is
        large, although it takes a part of the confidence.
        """
        order = _by_ratio(likely, rare)
        p, q = likely.low(order), rare.high(order)
        cuts = [(i, j) for i in range(len(order) - 1) for j in range(i + 1, len(order) - 1)]
        if not cuts:
            return
        inner, outer = max(cuts, key=lambda cut: _apart(p, q, cut))
        found = compose_nested(
            *expected_apart(p[[inner, outer]], q[[inner, outer]], self.labels, self.confidence), times, self.delta
        )
        differ = float(p[inner] - q[inner])
        of_p = weight(float(p[inner]), float(q[inner]))
        yield Event(pair, order[: inner + 1], times, of_p, (found, differ), 0, order[: outer + 1])


def _by_ratio(likely: Known, rare: Known) -> Integers:
    """Return the outcomes of positive probability, by falling likelihood ratio (Neyman & Pearson 1933)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(likely.probability / rare.probability, nan=-1.0, posinf=np.inf)
    order: Integers = np.argsort(-ratio, kind="stable")[: int(np.sum(likely.probability + rare.probability > 0))]
    return order


def _apart(p: Array, q: Array, cut: tuple[int, int]) -> float:
    """Return the triangular discrimination of three groups of outcomes, cut at the two positions in `cut`."""
    of_p, of_q = (np.diff([0.0, *each[list(cut)], 1.0]) for each in (p, q))
    return float(np.sum((of_p - of_q) ** 2 / np.maximum(of_p + of_q, 1e-12)))
