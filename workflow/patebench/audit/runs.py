"""Runs of a mechanism on given votes, and the choice of events that distinguish two adjacent data sets."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts, Votes
from patebench.audit import estimates
from patebench.audit.estimates import Rates, compose, compose_event, compose_nested, weight
from patebench.audit.worst_pairs import Pair
from patebench.core.seeds import Source
from patebench.mechanisms.base import Mechanism

#: Labels; the number of classes stands for "no answer".
Outcomes = NDArray[np.int64]

#: Function that returns the generator of a named random stream.
Streams = Callable[[str], np.random.Generator]

#: Maximum number of labels drawn at once.
BLOCK = 1 << 20


@dataclass(frozen=True)
class AuditSetting:
    """Settings of the audit of one mechanism, with methods that run this mechanism.

    Parameters
    ----------
    name : name of the mechanism in the registry
    teachers, classes : numbers of teachers and classes of the audited votes
    delta : δ of every ε
    runs : number of runs on each of two adjacent data sets
    confidence : probability with which the ε lower bounds hold
    streams : function that returns the generator of a named random stream
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
        """Return the outcomes (queries,) of one release of `votes`, drawn with `source`."""
        return self.mechanism.release(votes, source).astype(np.int64) % (votes.classes + 1)

    def blocks(self, votes: Callable[[int], Votes], source: Source, labels: int) -> Iterator[Outcomes]:
        """Yield the outcomes (queries,) of successive releases, until `labels` queries are answered in total.

        A release answers at most `BLOCK` queries. `votes(T)` returns the votes on T queries, and `source` draws the
        noise.
        """
        for start in range(0, labels, BLOCK):
            yield self.outcomes(votes(min(BLOCK, labels - start)), source)

    def count(self, votes: Callable[[int], Votes], source: Source, labels: int) -> NDArray[np.int64]:
        """Return how often each outcome occurs among `labels` labels: (classes + 1,), with "no answer" last.

        The labels are drawn from `source` in one or more releases. `votes(T)` returns the votes on T queries.
        """
        counts = np.zeros(votes(1).classes + 1, dtype=np.int64)
        for block in self.blocks(votes, source, labels):
            counts += count_outcomes(block, len(counts) - 1)
        return counts

    def transcripts(self, votes: Votes, source: Source, runs: int) -> Outcomes:
        """Return the outcomes (runs, queries) of `runs` releases of the same `votes`."""
        return np.stack([self.outcomes(votes, source) for _ in range(runs)])

    def stated_epsilon(self, pair: Pair, queries: int) -> float:
        """Return the ε of `queries` independent queries with the votes of `pair`, rounded down.

        The ε is computed from the mechanism's method `outcome_probabilities`. If this method returns None, the
        probabilities stored in `pair` are used.
        """
        here, there = (self.mechanism.outcome_probabilities(votes) for votes in pair.votes(1))
        if here is None or there is None:
            return pair.epsilon(queries, self.delta)
        with np.errstate(divide="ignore"):
            log_p, log_p_neighbour = np.log(here[0]), np.log(there[0])
        return compose(log_p, log_p_neighbour, np.ones(len(log_p), dtype=np.int64), queries, self.delta)

    def choose_event(
        self, labels: int, pair: Pair, likely: "Known", rare: "Known", times: int, view: int = 0
    ) -> "Event":
        """Return the event (a set of outcomes) from which the largest ε lower bound is expected.

        Let P and Q be the probabilities of an outcome on D and on D′. The candidates are the sets of the k outcomes
        with the largest P/Q, for any k.

        Parameters
        ----------
        labels : number of outcomes that will be drawn on each of D and D′ to count the event
        pair : the data sets D and D′
        likely, rare : estimated probabilities P and Q of the outcomes
        times : number of independent queries whose ε the event will bound
        view : number of the observed quantity, such as the label of the first query; see `Event`
        """
        order = _by_ratio(likely, rare)
        low, high = likely.low(order), rare.high(order)
        differ = np.cumsum(likely.probability[order] - rare.probability[order])
        corners = estimates.expected_bounds(low, high, labels, self.confidence)
        epsilons = [compose_event(float(p), float(q), times, self.delta) for p, q in zip(*corners, strict=True)]
        size = max(range(len(order)), key=lambda k: (epsilons[k], float(differ[k])))
        of_p = weight(float(low[size]), float(high[size]))
        return Event(pair, order[: size + 1], times, of_p, (epsilons[size], float(differ[size])), view)

    def choose_nested_events(
        self, labels: int, pair: Pair, likely: "Known", rare: "Known", times: int
    ) -> Iterator["Event"]:
        """Yield one `Event`, whose field `wider` contains a second, larger event.

        Nothing is yielded for fewer than three outcomes. The outcomes are sorted by P/Q, the ratio of their estimated
        probabilities on D (`likely`) and on D′ (`rare`), and divided into three groups. The division is the one for
        which the probabilities of the groups differ most between D and D′ (`triangular_discrimination`). The event is
        the first group, and the larger event is the first two groups. The arguments are those of `choose_event`.
        """
        order = _by_ratio(likely, rare)
        p, q = likely.low(order), rare.high(order)
        cuts = [(i, j) for i in range(len(order) - 1) for j in range(i + 1, len(order) - 1)]
        if not cuts:
            return

        def discrimination(cut: tuple[int, int]) -> float:
            return triangular_discrimination(*(np.diff([0.0, *total[list(cut)], 1.0]) for total in (p, q)))

        inner, outer = max(cuts, key=discrimination)
        corners = estimates.expected_nested(p[[inner, outer]], q[[inner, outer]], labels, self.confidence)
        predicted = compose_nested(*corners, times, self.delta), float(p[inner] - q[inner])
        of_p = weight(float(p[inner]), float(q[inner]))
        yield Event(pair, order[: inner + 1], times, of_p, predicted, 0, order[: outer + 1])


def votes_in_turn(histograms: Counts, queries: int) -> Votes:
    """Return votes on `queries` queries whose counts cycle through the rows of `histograms` (histograms, classes)."""
    classes = np.arange(histograms.shape[1])
    matrix = np.stack([np.repeat(classes, counts) for counts in histograms], axis=1)
    place = np.arange(queries) % len(histograms)
    return Votes(histograms[place], matrix[:, place])


def count_outcomes(outcomes: Outcomes, classes: int) -> NDArray[np.int64]:
    """Return how often each outcome occurs in `outcomes`: (classes + 1,), with "no answer" last."""
    return np.bincount(outcomes.ravel(), minlength=classes + 1)


class CountingGenerator:
    """NumPy generator that counts, in `drawn[0]`, the random numbers drawn from it and from generators it spawned."""

    def __init__(self, source: np.random.Generator, drawn: list[int] | None = None) -> None:
        self._source, self.drawn = source, [0] if drawn is None else drawn

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._source, name)

        def draw(*values: object, **named: object) -> object:
            result = method(*values, **named)
            if name == "spawn":
                return [CountingGenerator(child, self.drawn) for child in result]
            self.drawn[0] += int(np.size(result))
            return result

        return draw


#: Minimum confidence of a verdict against a stated bound, so that sampling almost never rejects a sound mechanism.
SURE = 1 - 1e-6


@dataclass(frozen=True, eq=False)
class Event:
    """A set of outcomes whose total probability differs between the two data sets D and D′ of a `pair`.

    An outcome is the value of a quantity that is observed in each run. In most audits, this quantity is the label of a
    query. For tables of noisy counts, it is the index of the range that contains a weighted sum of the counts.

    Parameters
    ----------
    pair : the data sets D and D′
    outcomes : the outcomes in the set
    times : number of independent queries whose ε the event bounds; 1 if the event is about a whole release
    weight : weight of the count on D, see `estimates.Rates`
    predicted : two numbers: the expected ε lower bound, and the difference of the event's probabilities on D and D′
    view : number of the observed quantity, if queries depend on each other and a release has T queries: 0 to T − 1 for
        the label of this query, T for the number of answered queries, T + 1 for an integer that encodes all labels.
        Otherwise 0
    wider : outcomes of a second event that contains this one, or None
    """

    pair: Pair
    outcomes: Outcomes
    times: int
    weight: float
    predicted: tuple[float, float]
    view: int = 0
    wider: Outcomes | None = None

    def count(self, sides: Sequence[NDArray[np.int64]], confidence: float, queries: int, delta: float) -> "Sampled":
        """Return the counts of this event on D and on D′, which bound the ε of `queries` queries at `delta` from below.

        `sides` are two arrays (outcomes,), the counts of all outcomes on D and on D′. The bound holds with probability
        `confidence`.
        """

        def rates(outcomes: Outcomes) -> Rates:
            times = [int(counts[outcomes].sum()) for counts in sides]
            return Rates(times[0], times[1], int(sides[0].sum()), confidence, self.weight)

        wider = None if self.wider is None else rates(self.wider)
        return Sampled(queries, delta, rates(self.outcomes), self.pair, self, wider)


@dataclass(frozen=True, eq=False)
class Sampled:
    """The result of a sampled audit of `queries` queries: how often an event occurred on D and on D′ of a pair.

    Parameters
    ----------
    rates : counts of the event; zeros if `event` is None
    event : the event. None if two different random generators gave the same noise: this noise can be subtracted, so ε
        is ∞ without counting an event
    wider : counts of a second event that contains the first, if there is one
    """

    queries: int
    delta: float
    rates: Rates
    pair: Pair
    event: Event | None
    wider: Rates | None = None

    @cached_property
    def epsilon(self) -> float:
        """Return the ε lower bound that holds with the configured confidence."""
        return self._epsilon(self.rates.confidence)

    @cached_property
    def sure(self) -> float:
        """Return the ε lower bound with which stated bounds are compared.

        It holds with probability 1 − 10⁻⁶ (`SURE`), or with the configured confidence if that is higher.
        """
        return self._epsilon(max(self.rates.confidence, SURE))

    def _epsilon(self, confidence: float) -> float:
        if self.event is None:
            return math.inf
        rates = replace(self.rates, confidence=confidence)
        if self.wider is None:
            return rates.epsilon(self.delta, self.event.times)
        wider = replace(self.wider, confidence=confidence)
        return compose_nested(*rates.bound_nested(wider), self.event.times, self.delta)


@dataclass(frozen=True, eq=False)
class Known:
    """Estimated probability of each outcome on one data set.

    The methods `low` and `high` return the probabilities of sets of outcomes, reduced or increased by an error. Audits
    choose an event by `low` on a data set D and by `high` on its neighbour D′, so that they do not favour events that
    occurred too often on D by chance.

    Parameters
    ----------
    probability : (outcomes,) probability of each outcome
    runs : approximate number of runs behind this estimate; very large for stated probabilities
    """

    probability: Array
    runs: float

    def low(self, order: Outcomes) -> Array:
        """Return, for each k, the total probability of the first k outcomes in `order`, minus its standard error."""
        total = np.cumsum(self.probability[order])
        return np.clip(total - np.sqrt(total / self.runs), 0.0, 1.0)

    def high(self, order: Outcomes) -> Array:
        """Return, for each k, the total probability of the first k outcomes in `order`, plus an error.

        The error is the standard error plus 1/`runs`.
        """
        total = np.cumsum(self.probability[order])
        return np.clip(total + np.sqrt(total / self.runs) + 1 / self.runs, 0.0, 1.0)


def _by_ratio(likely: Known, rare: Known) -> Outcomes:
    """Return the possible outcomes in descending order of P/Q (Neyman & Pearson 1933).

    P are the probabilities of `likely`, and Q those of `rare`.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(likely.probability / rare.probability, nan=-1.0, posinf=np.inf)
    return np.argsort(-ratio, kind="stable")[: int(np.sum(likely.probability + rare.probability > 0))]


def triangular_discrimination(p: Array, q: Array) -> float:
    """Return Σ (P − Q)²/(P + Q), a distance of the distributions `p` and `q` (outcomes,)."""
    return float(np.sum((p - q) ** 2 / np.maximum(p + q, 1e-12)))
