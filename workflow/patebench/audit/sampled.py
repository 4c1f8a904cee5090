"""Audits by running the code: how much more often an event shows on D than on D′, with confidence.

Half of the runs choose the pair of data sets, the direction and the event; the other half count it, so that the choice
costs no confidence. Nothing that is known of the mechanism enters the result: what `release` does is what is measured.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.accounting.votes import Votes
from patebench.audit.losses import binary
from patebench.audit.search import Pair
from patebench.mechanisms.base import NO_ANSWER, Mechanism

Outcomes = NDArray[np.int64]

#: A generator for the stream that is named.
Streams = Callable[[str], np.random.Generator]

#: Pairs are tried under up to so many cyclic shifts of the classes, since a fault may be in one class.
_RELABELLINGS = 10

#: Labels drawn at once.
_BLOCK = 1 << 20

#: For mechanisms whose queries depend on each other: queries of one run, and one run for so many runs of the others,
#: since each run is a call of `release`.
_TRANSCRIPT, _SHARE = 8, 20

#: Runs by which one sees whether two generators give independent noise, and the probability of a false alarm.
_FRESH_RUNS, _FRESH_ALPHA = 2000, 1e-6


def clopper_pearson(successes: float, runs: float, alpha: float) -> tuple[float, float]:
    """Bounds on a probability that showed in so many of the runs; each fails with probability alpha at most.

    Clopper & Pearson 1934.
    """
    from scipy.special import betaincinv

    low = 0.0 if successes <= 0 else float(betaincinv(successes, runs - successes + 1, alpha))
    high = 1.0 if successes >= runs else float(betaincinv(successes + 1, runs - successes, 1 - alpha))
    return low, high


@dataclass(frozen=True)
class Rates:
    """How often an event showed on D (`positives`) and on D′ (`false_positives`), in so many runs each."""

    positives: float
    false_positives: float
    runs: float
    confidence: float

    @property
    def likely(self) -> float:
        """With half of what confidence leaves, the event's probability on D is at least this."""
        return clopper_pearson(self.positives, self.runs, (1 - self.confidence) / 2)[0]

    @property
    def rare(self) -> float:
        """And on D′ at most this."""
        return clopper_pearson(self.false_positives, self.runs, (1 - self.confidence) / 2)[1]

    def epsilon(self, delta: float, queries: int = 1) -> float:
        """ε is at least ln((P − δ)/Q), as P ≤ e^ε Q + δ; of T independent queries, at least that of the T events."""
        return binary(self.likely, self.rare, queries, delta)

    def mu(self) -> float:
        """A μ-GDP mechanism has μ ≥ Φ⁻¹(P) − Φ⁻¹(Q) (Dong, Roth, Su 2022, Definition 2.6)."""
        from scipy.special import ndtri

        return max(0.0, float(ndtri(self.likely) - ndtri(self.rare)))


@dataclass(frozen=True, eq=False)
class Sampled:
    """What the runs find: the rates of an event (outcomes) on a pair, and the ε of so many queries that follows."""

    epsilon: float
    queries: int
    rates: Rates
    pair: Pair
    outcomes: Outcomes
    fresh: bool = True


@dataclass(frozen=True, eq=False)
class Event:
    """Some outcomes on a pair, and their score: ε by the estimated rates, then by how much these differ."""

    pair: Pair
    view: int
    outcomes: Outcomes
    score: tuple[float, float]


@dataclass(frozen=True, eq=False)
class _Estimate:
    """Probabilities of outcomes, known from about so many runs. Sums are a standard error less or more than they seem:

    among many events, the one that seems best would else be one that showed too often by chance.
    """

    probability: Array
    runs: int

    def low(self, order: NDArray[np.integer]) -> Array:
        total = np.cumsum(self.probability[order])
        result: Array = np.clip(total - np.sqrt(total / self.runs), 0.0, 1.0)
        return result

    def high(self, order: NDArray[np.integer]) -> Array:
        total = np.cumsum(self.probability[order])
        result: Array = np.clip(total + np.sqrt(total / self.runs) + 1 / self.runs, 0.0, 1.0)
        return result


@dataclass(frozen=True)
class SampledAudit:
    """Runs a mechanism on pairs of data sets, `runs` times each side, half of them to choose the event."""

    mechanism: Mechanism
    runs: int
    confidence: float
    delta: float
    streams: Streams

    def __call__(self, pairs: Sequence[Pair], queries: Sequence[int]) -> dict[int, Sampled]:
        """The largest ε found for each number of queries."""
        if not all(self._fresh(pair, f"fresh/{i}") for i, pair in enumerate(pairs)):
            return {T: _without_noise(pairs[0], T, self.confidence) for T in queries}
        if not self.mechanism.independent_queries:
            return {T: self._audit(pairs, T, length=min(T, _TRANSCRIPT)) for T in queries}
        return {T: self._audit(_relabelled(pairs), T) for T in queries}

    def _audit(self, pairs: Sequence[Pair], queries: int, length: int = 1) -> Sampled:
        """One event for T queries. Independent queries are composed; others are seen as one transcript."""
        runs = self.runs if self.mechanism.independent_queries else max(200, self.runs // _SHARE)
        every_time = self.mechanism.most_participation(queries) == queries
        composed = queries if self.mechanism.independent_queries and every_time else 1
        each, count = max(1, runs // 2 // len(pairs)), runs - runs // 2
        events: list[Event] = []
        for i, pair in enumerate(pairs):
            views = self._both(pair, f"{queries}/{i}", each, length)
            for view, outcomes in enumerate(zip(*views, strict=True)):
                events += self._events(pair, view, *outcomes, count, composed)
        best = max(events, key=lambda event: event.score)
        views = self._both(best.pair, f"{queries}/count", count, length)
        times = [int(np.sum(np.isin(side[best.view], best.outcomes))) for side in views]
        rates = Rates(times[0], times[1], count, self.confidence)
        return Sampled(rates.epsilon(self.delta, composed), queries, rates, best.pair, best.outcomes)

    def _events(
        self, pair: Pair, view: int, outcomes: Outcomes, neighbour: Outcomes, count: int, queries: int
    ) -> Iterator[Event]:
        """The event with the largest estimated ε, in each direction."""
        seen = np.unique(np.concatenate([outcomes, neighbour]))
        sides = zip((outcomes, neighbour), pair.votes(1), strict=True)
        likely, rare = (self._estimate(seen, side, votes) for side, votes in sides)
        yield self._best_event(pair, view, seen, likely, rare, count, queries)
        yield self._best_event(pair.reversed(), view, seen, rare, likely, count, queries)

    def _estimate(self, seen: Outcomes, outcomes: Outcomes, votes: Votes) -> "_Estimate":
        """The mean of the measured probabilities and of those that the mechanism states, where it states any."""
        counted = np.bincount(np.searchsorted(seen, outcomes), minlength=len(seen)) / len(outcomes)
        modelled = self.mechanism.log_outcome_probabilities(votes) if self.mechanism.independent_queries else None
        if modelled is None:
            return _Estimate(counted, len(outcomes))
        return _Estimate((counted + np.exp(modelled[0, seen])) / 2, 2 * len(outcomes))

    def _best_event(
        self,
        pair: Pair,
        view: int,
        seen: Outcomes,
        likely: "_Estimate",
        rare: "_Estimate",
        count: int,
        queries: int,
    ) -> Event:
        """Outcomes by falling likelihood ratio (Neyman & Pearson 1933), as many as give the best score."""
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.nan_to_num(likely.probability / rare.probability), kind="stable")
        rates = [
            Rates(p * count, q * count, count, self.confidence)
            for p, q in zip(likely.low(order), rare.high(order), strict=True)
        ]
        differ = np.cumsum(likely.probability[order] - rare.probability[order])
        scores = [(each.epsilon(self.delta, queries), float(by)) for each, by in zip(rates, differ, strict=True)]
        size = max(range(len(scores)), key=scores.__getitem__)
        return Event(pair, view, seen[order[: size + 1]], scores[size])

    def _both(self, pair: Pair, name: str, runs: int, length: int) -> tuple[list[Outcomes], list[Outcomes]]:
        """Views of the runs on D and on D′, from streams of their own: equal noise would hide what noise is for."""
        labels, neighbour = (
            self._labels(votes, self.streams(f"{name}/{side}"), runs, length)
            for votes, side in ((lambda T: pair.votes(T)[0], "here"), (lambda T: pair.votes(T)[1], "there"))
        )
        return _views(labels, len(pair.counts)), _views(neighbour, len(pair.counts))

    def _labels(
        self, votes: Callable[[int], Votes], rng: np.random.Generator, runs: int, length: int
    ) -> NDArray[np.int64]:
        """Labels, runs × length; each row is a release of its own, or queries stand for runs where that is the same."""
        if self.mechanism.independent_queries:
            sizes = [min(_BLOCK, runs - start) for start in range(0, runs, _BLOCK)]
            released = np.concatenate([self.mechanism.release(votes(size), rng) for size in sizes])[:, None]
        else:
            asked = votes(length)
            released = np.stack([self.mechanism.release(asked, rng) for _ in range(runs)])
        return released.astype(np.int64)

    def _fresh(self, pair: Pair, name: str) -> bool:
        """Whether two generators give independent noise: noise that comes back can be taken off again.

        Labels of independent releases agree as often as their frequencies say.
        """
        runs = _FRESH_RUNS if self.mechanism.independent_queries else _FRESH_RUNS // 4
        one, two = (
            self._labels(lambda T: pair.votes(T)[0], self.streams(f"{name}/{draw}"), runs, 1)[:, 0]
            for draw in ("one", "two")
        )
        if self.mechanism.most_participation(runs) < runs:  # who is asked when is no secret, and the same each time
            asked = (one != NO_ANSWER) & (two != NO_ANSWER)
            one, two = one[asked], two[asked]
        shares = np.unique(np.concatenate([one, two]), return_counts=True)[1] / max(1, 2 * len(one))
        expected = min(1.0, float(shares @ shares) + 0.02)
        return clopper_pearson(float(np.sum(one == two)), len(one), _FRESH_ALPHA)[0] <= expected


def _views(labels: NDArray[np.int64], classes: int) -> list[Outcomes]:
    """What events may be made of: the label; or the label of each query, how many were answered, and all of them.

    "No answer" is the number of classes.
    """
    outcomes = labels % (classes + 1)
    if labels.shape[1] == 1:
        return [outcomes[:, 0]]
    powers = (classes + 1) ** np.arange(labels.shape[1])
    return [*outcomes.T, np.sum(outcomes < classes, axis=1), outcomes @ powers]


def _relabelled(pairs: Sequence[Pair]) -> list[Pair]:
    """Every pair under several cyclic shifts of the classes."""
    classes = len(pairs[0].counts)
    shifts = np.unique(np.linspace(0, classes, min(classes, _RELABELLINGS), endpoint=False).astype(int))
    return [pair.relabelled(int(by)) for pair in pairs for by in shifts]


def _without_noise(pair: Pair, queries: int, confidence: float) -> Sampled:
    """The result where noise comes back and can be taken off: ε = ∞."""
    nothing = Rates(0, 0, _FRESH_RUNS, confidence)
    return Sampled(math.inf, queries, nothing, pair, np.array([], dtype=np.int64), fresh=False)
