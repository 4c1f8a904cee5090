"""Audits by running the code: how much more often an event shows on D than on D′, with confidence.

Half of the runs choose the pair of data sets, the direction and the event; the other half count it, so that the choice
costs no confidence. Nothing that is known of the mechanism enters the result: what `release` does is what is measured.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.accounting.votes import Votes
from patebench.audit.losses import binary
from patebench.audit.search import Pair
from patebench.mechanisms.base import Mechanism

Outcomes = NDArray[np.int64]

#: A generator for the stream that is named.
Streams = Callable[[str], np.random.Generator]

#: Pairs are tried with up to so many changes of the classes' names: a fault may be in one class.
_TURNS = 10

#: Labels drawn at once.
_BLOCK = 1 << 20

#: Of mechanisms that remember: queries of one run, and runs for each run of the others, since each is a call.
_TRANSCRIPT, _SHARE = 8, 20

#: Runs that are made twice to see whether the noise is fresh, and how sure one must be that it is not.
_TWICE, _STALE = 2000, 1e-6


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
    """What the runs show: the rates of an event (outcomes) on a pair, and the ε of so many queries that follows."""

    epsilon: float
    queries: int
    rates: Rates
    pair: Pair
    outcomes: Outcomes
    fresh: bool = True


@dataclass(frozen=True, eq=False)
class Event:
    """Some outcomes on a pair, and what they promise: the ε if they show as estimated, then how the rates differ."""

    pair: Pair
    outcomes: Outcomes
    promise: tuple[float, float]


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
        if not self._fresh(pairs[0]):
            return {T: _boundless(pairs[0], T, self.confidence) for T in queries}
        if not self.mechanism.memoryless:
            return {T: self._audit(pairs, T, length=min(T, _TRANSCRIPT)) for T in queries}
        return {T: self._audit(_turned(pairs), T) for T in queries}

    def _audit(self, pairs: Sequence[Pair], queries: int, length: int = 1) -> Sampled:
        """One event for T queries. Independent queries are composed; others are seen as one transcript."""
        runs = self.runs if self.mechanism.memoryless else max(200, self.runs // _SHARE)
        composed = queries if self.mechanism.memoryless and self.mechanism.most_asked(queries) == queries else 1
        each, count = max(1, runs // 2 // len(pairs)), runs - runs // 2
        events = [self._event(pair, f"{queries}/{i}", each, count, composed, length) for i, pair in enumerate(pairs)]
        event = max(events, key=lambda event: event.promise)
        shown = [
            int(np.sum(np.isin(outcomes, event.outcomes)))
            for outcomes in self._both(event.pair, f"{queries}/count", count, length)
        ]
        rates = Rates(shown[0], shown[1], count, self.confidence)
        return Sampled(rates.epsilon(self.delta, composed), queries, rates, event.pair, event.outcomes)

    def _event(self, pair: Pair, name: str, runs: int, count: int, queries: int, length: int) -> Event:
        """The event, in either direction, that promises the most when it will be counted."""
        here, there = self._both(pair, name, runs, length)
        seen = np.unique(np.concatenate([here, there]))
        rows = zip((here, there), pair.votes(1), strict=True)
        likely, rare = (self._estimate(seen, outcomes, votes) for outcomes, votes in rows)
        forward = self._promising(pair, seen, likely, rare, count, queries)
        back = self._promising(pair.reversed(), seen, rare, likely, count, queries)
        return max(forward, back, key=lambda event: event.promise)

    def _estimate(self, seen: Outcomes, outcomes: Outcomes, votes: Votes) -> "_Estimate":
        """Half of what was counted, half of what the mechanism says of itself."""
        counted = np.bincount(np.searchsorted(seen, outcomes), minlength=len(seen)) / len(outcomes)
        said = self.mechanism.log_outcome_probabilities(votes) if self.mechanism.memoryless else None
        if said is None:
            return _Estimate(counted, len(outcomes))
        return _Estimate((counted + np.exp(said[0, seen])) / 2, 2 * len(outcomes))

    def _promising(
        self, pair: Pair, seen: Outcomes, likely: "_Estimate", rare: "_Estimate", count: int, queries: int
    ) -> Event:
        """Outcomes by falling likelihood ratio, as many as promise the most (Neyman & Pearson 1933)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            order = np.argsort(-np.nan_to_num(likely.probability / rare.probability), kind="stable")
        rates = [
            Rates(p * count, q * count, count, self.confidence)
            for p, q in zip(likely.low(order), rare.high(order), strict=True)
        ]
        differ = np.cumsum(likely.probability[order] - rare.probability[order])
        promises = [(each.epsilon(self.delta, queries), float(by)) for each, by in zip(rates, differ, strict=True)]
        size = max(range(len(promises)), key=promises.__getitem__)
        return Event(pair, seen[order[: size + 1]], promises[size])

    def _both(self, pair: Pair, name: str, runs: int, length: int) -> tuple[Outcomes, Outcomes]:
        """Outcomes on D and on D′, from streams of their own: equal noise on both would hide what noise is for."""
        here = self._outcomes(pair, 0, self.streams(f"{name}/here"), runs, length)
        return here, self._outcomes(pair, 1, self.streams(f"{name}/there"), runs, length)

    def _outcomes(self, pair: Pair, side: int, rng: np.random.Generator, runs: int, length: int) -> Outcomes:
        """One number for each run: its label, the number of classes for "no answer", or its transcript."""
        classes = len(pair.counts)
        if self.mechanism.memoryless:
            sizes = [min(_BLOCK, runs - start) for start in range(0, runs, _BLOCK)]
            labels = [self.mechanism.release(pair.votes(size)[side], rng) for size in sizes]
            return np.concatenate(labels).astype(np.int64) % (classes + 1)
        votes, powers = pair.votes(length)[side], (classes + 1) ** np.arange(length)
        released = np.stack([self.mechanism.release(votes, rng) for _ in range(runs)]).astype(np.int64)
        result: Outcomes = released % (classes + 1) @ powers
        return result

    def _fresh(self, pair: Pair) -> bool:
        """Whether two generators give independent noise: noise that comes back can be taken off again.

        Labels of independent releases agree as often as their frequencies say.
        """
        votes = pair.votes(_TWICE)[0]
        one, two = (self.mechanism.release(votes, self.streams(f"fresh/{name}")) for name in ("one", "two"))
        shares = np.unique(np.concatenate([one, two]), return_counts=True)[1] / (2 * _TWICE)
        expected = min(1.0, float(shares @ shares) + 0.02)
        return clopper_pearson(float(np.sum(one == two)), _TWICE, _STALE)[0] <= expected


def _turned(pairs: Sequence[Pair]) -> list[Pair]:
    """Every pair under several names of the classes."""
    classes = len(pairs[0].counts)
    turns = np.unique(np.linspace(0, classes, min(classes, _TURNS), endpoint=False).astype(int))
    return [pair.turned(int(by)) for pair in pairs for by in turns]


def _boundless(pair: Pair, queries: int, confidence: float) -> Sampled:
    """What noise that comes back hides: nothing."""
    nothing = Rates(0, 0, _TWICE, confidence)
    return Sampled(math.inf, queries, nothing, pair, np.array([], dtype=np.int64), fresh=False)
