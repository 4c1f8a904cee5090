"""Running a mechanism many times on given votes, and what it says of itself that such votes should give."""

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

#: Labels, or "no answer", which is the number of classes.
Outcomes = NDArray[np.int64]

#: Counts of one query, one for each class.
Histogram = NDArray[np.int64]

#: Counts, histograms × classes.
Histograms = NDArray[np.int64]

#: A generator for the stream that is named.
Streams = Callable[[str], np.random.Generator]

#: Labels drawn at once.
BLOCK = 1 << 20


@dataclass(frozen=True)
class AuditSetting:
    """What is audited, and how: a mechanism, called `name`, for any votes of so many teachers among so many classes.

    Each of two adjacent data sets is run `runs` times, from named `streams`; what that shows holds at `delta` with this
    `confidence`.
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
        """One release, an outcome for each query."""
        return self.mechanism.release(votes, source).astype(np.int64) % (votes.classes + 1)

    def blocks(self, votes: Callable[[int], Votes], source: Source, labels: int) -> Iterator[Outcomes]:
        """Releases of many queries, `labels` together."""
        for start in range(0, labels, BLOCK):
            yield self.outcomes(votes(min(BLOCK, labels - start)), source)

    def transcripts(self, votes: Votes, source: Source, runs: int) -> Outcomes:
        """So many releases of these votes, runs × queries."""
        return np.stack([self.outcomes(votes, source) for _ in range(runs)])

    def stated_epsilon(self, pair: Pair, queries: int) -> float:
        """The ε of so many independent queries to a pair by the stated probabilities of its outcomes."""
        here, there = (self.mechanism.outcome_probabilities(votes) for votes in pair.votes(1))
        if here is None or there is None:
            return pair.epsilon(queries, self.delta)
        with np.errstate(divide="ignore"):
            log_p, log_p_neighbour = np.log(here[0]), np.log(there[0])
        return composed(log_p, log_p_neighbour, np.ones(len(log_p), dtype=np.int64), queries, self.delta)


def in_turn(histograms: Histograms, queries: int) -> Votes:
    """Votes with these counts (histograms × classes) in turn, so many queries."""
    classes = np.arange(histograms.shape[1])
    matrix = np.stack([np.repeat(classes, counts) for counts in histograms], axis=1)
    place = np.arange(queries) % len(histograms)
    return Votes(histograms[place], matrix[:, place])


def counted(outcomes: Outcomes, classes: int) -> NDArray[np.int64]:
    """How often each outcome showed."""
    return np.bincount(outcomes.ravel(), minlength=classes + 1)


Integers = NDArray[np.int64]

#: The confidence with which a verdict contradicts what is stated; sampling must not accuse a sound mechanism.
SURE = 1 - 1e-6

#: How often each outcome was seen.
OutcomeCounts = Mapping[int, int]


@dataclass(frozen=True, eq=False)
class Event:
    """An event on a pair: `outcomes` of one answer (of `view`), and perhaps a `wider` one that contains these.

    `times` independent answers make the queries that are audited. `predicted` is the ε that counting is expected to
    show, then how much the event's probabilities differ.
    """

    pair: Pair
    outcomes: Outcomes
    times: int
    weight: float
    predicted: tuple[float, float]
    view: int = 0
    wider: Outcomes | None = None

    def counted(self, sides: Sequence[OutcomeCounts], confidence: float) -> "Counts":
        """How often it showed, from how often each outcome did on D and on D′."""
        return Counts(
            self._rates(self.outcomes, sides, confidence),
            None if self.wider is None else self._rates(self.wider, sides, confidence),
        )

    def _rates(self, outcomes: Outcomes, sides: Sequence[OutcomeCounts], confidence: float) -> Rates:
        times = [sum(tally.get(int(each), 0) for each in outcomes) for tally in sides]
        return Rates(times[0], times[1], sum(sides[0].values()), confidence, self.weight)


@dataclass(frozen=True)
class Counts:
    """The rates of an event, and those of the wider one."""

    rates: Rates
    wider: Rates | None = None

    def epsilon(self, delta: float, times: int) -> float:
        """What so many answers give away at least."""
        if self.wider is None:
            return self.rates.epsilon(delta, times)
        return compose_nested(*self.rates.apart(self.wider), times, delta)

    def surer(self) -> "Counts":
        """The same with the confidence that verdicts need."""
        wider = None if self.wider is None else replace(self.wider, confidence=max(self.wider.confidence, SURE))
        return Counts(replace(self.rates, confidence=max(self.rates.confidence, SURE)), wider)


@dataclass(frozen=True, eq=False)
class Known:
    """Probabilities of outcomes, known from about so many runs. Sums are a standard error less or more than they seem:

    among many events, the one that seems best would else be one that showed too often by chance.
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
    """What is to be shown: an ε at δ with some confidence, in so many answers of each side."""

    labels: int
    confidence: float
    delta: float

    def of_one_answer(self, pair: Pair, likely: Known, rare: Known, times: int, view: int = 0) -> Event:
        """Outcomes by falling likelihood ratio, as many as are expected to show most."""
        order = _by_ratio(likely, rare)
        low, high = likely.low(order), rare.high(order)
        differ = np.cumsum(likely.probability[order] - rare.probability[order])
        corners = expected(low, high, self.labels, self.confidence)
        found = [binary(float(p), float(q), times, self.delta) for p, q in zip(*corners, strict=True)]
        size = max(range(len(order)), key=lambda k: (found[k], float(differ[k])))
        of_p = weight(float(low[size]), float(high[size]))
        return Event(pair, order[: size + 1], times, of_p, (found[size], float(differ[size])), view)

    def of_two_events(self, pair: Pair, likely: Known, rare: Known, times: int) -> Iterator[Event]:
        """The outcomes that speak for D, and these with the ones that say little: what composition needs of the rest.

        Cut where the three groups differ most; a third group is worth its confidence where noise is large.
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
    """The outcomes that were seen or can be, by falling likelihood ratio (Neyman & Pearson 1933)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(likely.probability / rare.probability, nan=-1.0, posinf=np.inf)
    order: Integers = np.argsort(-ratio, kind="stable")[: int(np.sum(likely.probability + rare.probability > 0))]
    return order


def _apart(p: Array, q: Array, cut: tuple[int, int]) -> float:
    """How much three groups of outcomes differ: their triangular discrimination."""
    of_p, of_q = (np.diff([0.0, *each[list(cut)], 1.0]) for each in (p, q))
    return float(np.sum((of_p - of_q) ** 2 / np.maximum(of_p + of_q, 1e-12)))
