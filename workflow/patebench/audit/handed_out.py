"""Audits of the noise of release mode: discrete, and from the operating system's entropy.

Releases in release mode are compared with releases whose discrete noise comes from a named stream and another sampler:
geometric variables for Laplace noise, the inverse distribution function for Gaussian noise. Noise from the operating
system cannot be reproduced. An audit therefore only tests whether the two agree and counts its events in seeded
releases, so that the same command gives the same audit.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.accounting.votes import Votes
from patebench.audit import agreement
from patebench.audit.agreement import Tally
from patebench.audit.runs import AuditSetting, Histogram, Histograms, Outcomes, counted, in_turn
from patebench.audit.sampled import Sampled, agree_as_often_as_they_should, histogram, relabelled, sampled_by, shifts
from patebench.audit.worst_pairs import GROUPS, Agreement, Pair
from patebench.core.entropy import Entropy, Integers, Size, discrete_normal
from patebench.core.seeds import Source

T = TypeVar("T", bound=np.generic)

#: Approximate number of random numbers from the operating system in one audit, since they are slow, and the maximum
#: number of labels.
_NUMBERS, _AT_MOST = 20_000, 4000

#: Seeded releases per release in release mode, and the minimum number of the latter.
_REFERENCE, _AT_LEAST = 50, 40

#: For mechanisms whose queries depend on each other, where each release is a call of `release`: maximum queries of a
#: release, maximum releases of the same votes, and seeded releases per release.
_TRANSCRIPT, _RELEASES, _TRANSCRIPTS = 8, 150, 5

#: Unanimous votes and two-way ties: labels of the pair per label drawn on each of them, and the minimum number of the
#: latter.
_AGREEING, _AGREEING_AT_LEAST = 4, 150

_SAME_NOISE = "handed out, two releases got the same noise, which can be taken off"

#: Seeded labels per histogram, to estimate how often labels repeat there.
_TRIED = 100


class Discrete:
    """Discrete noise from a seeded generator; `drawn` holds the number of random numbers drawn."""

    def __init__(self, generator: np.random.Generator, drawn: list[int] | None = None) -> None:
        self._generator, self.drawn = generator, [0] if drawn is None else drawn

    def laplace(self, *, scale: float, size: Size) -> Integers:
        """Draw x with Pr[x] ∝ exp(−|x|/scale), as the difference of two geometric variables."""
        if scale == 0:
            return np.zeros(size, dtype=np.int64)
        return self.exponential(scale=scale, size=size) - self.exponential(scale=scale, size=size)

    def normal(self, *, scale: float, size: Size) -> Integers:
        return discrete_normal(self, scale, size)

    def exponential(self, *, scale: float, size: Size) -> Integers:
        return self._count(self._generator.geometric(-math.expm1(-1 / scale), size=size) - 1)

    def random(self, size: Size) -> NDArray[np.float64]:
        return self._count(self._generator.random(size=size))

    def integers(self, low: int, high: int, *, size: Size) -> Integers:
        return self._count(self._generator.integers(low, high, size=size))

    def spawn(self, n_children: int) -> list["Discrete"]:
        return [Discrete(child, self.drawn) for child in self._generator.spawn(n_children)]

    def _count(self, drawn: NDArray[T]) -> NDArray[T]:
        self.drawn[0] += int(np.size(drawn))
        return drawn


@dataclass(frozen=True, eq=False)
class TwoTallies:
    """A test that outcomes in release mode and with seeded discrete noise have the same distribution.

    Given how often an outcome occurred in both together, the number of those in release mode is hypergeometric (Fisher
    1935, exact test).
    """

    where: str
    seen: NDArray[np.integer]
    reference: NDArray[np.integer]
    plain: bool = True
    names: Sequence[str] = ()

    @property
    def runs(self) -> int:
        return int(self.seen.sum())

    def p_values(self) -> Array:
        n, m = self.runs, int(self.reference.sum())
        return np.array([_fisher(int(x), n, int(y), m) for x, y in zip(self.seen, self.reference, strict=True)])

    def described(self, cell: int) -> str:
        names = self.names or [*(f"class {label}" for label in range(len(self.seen) - 1)), "no answer"]
        name = names[cell]
        return (
            f"handed out, {name} in {self.seen[cell]} of {self.runs} {self.where}, and with seeded discrete noise in "
            f"{self.reference[cell]} of {self.reference.sum()}"
        )


class HandedOut(AuditSetting):
    """An audit of releases with discrete noise, for mechanisms that have a discrete form."""

    def seeded(self, sampled: Sampled) -> Sampled:
        """Count the event of `sampled` again, with discrete noise from a stream instead of continuous noise."""
        event = sampled.event
        if event is None:
            return sampled
        sides = []
        for side, name in enumerate(("here", "there")):
            source = Discrete(self.streams(f"discrete/{sampled.queries}/{name}"))
            seen = np.zeros(len(event.pair.counts) + 1, dtype=np.int64)
            votes = partial(_of_side, event.pair, side)
            for block in self.blocks(votes, source, self.runs):
                seen += counted(block, len(event.pair.counts))
            sides.append(dict(enumerate(seen.tolist())))
        return sampled_by(event, sides, sampled.queries, self.confidence, self.delta)

    def disagreements(self, pair: Pair, shapes: Histograms, agreements: Sequence[Agreement] = ()) -> list[str]:
        """Return one line about a difference between release mode and seeded discrete noise, or nothing.

        Parameters
        ----------
        shapes : histograms; the one whose labels repeat least best reveals reused noise, within and between releases
        agreements : histograms on which teachers agree or tie, each tested in releases of its own
        """
        views = relabelled([pair])
        labels = max(_AT_LEAST, self._labels(pair) // (2 * len(views))) * len(views)
        tallies: list[Tally | TwoTallies] = []
        for side, name in enumerate(("here", "there")):
            asked = [view.neighbour if side else view.counts for view in views]
            seen, again = (self._rows(asked, Entropy(), labels) for _ in range(2))
            if not agree_as_often_as_they_should(seen[:, 0], again[:, 0], len(pair.counts)):
                return [_SAME_NOISE]
            reference = self._rows(asked, Discrete(self.streams(f"reference/{name}")), _REFERENCE * labels)
            tallies += self._compared(asked, np.concatenate([seen, again]), reference)
        counts = self._least_certain(np.stack([pair.counts, *shapes]))
        one, two = self._two_releases(counts, labels // 4 * 2)
        if not agree_as_often_as_they_should(one, two, len(counts)):
            return [_SAME_NOISE]
        tallies += self._of_uncertain(counts, one, two)
        for i, votes in enumerate(agreements):
            tallies += self._of_agreement(votes, max(labels // _AGREEING, _AGREEING_AT_LEAST), f"agreement/{i}")
        return agreement.disagreements(tallies)

    def _of_agreement(self, votes: Agreement, labels: int, name: str) -> list[TwoTallies]:
        """Compare releases on one histogram under several shifts of the classes."""
        by = shifts(len(votes.counts))
        asked, labels = [np.roll(votes.counts, shift) for shift in by], -(-labels // len(by)) * len(by)
        seen = self._rows(asked, Entropy(), labels)
        reference = self._rows(asked, Discrete(self.streams(name)), _REFERENCE * labels)
        tallies = self._compared(asked, seen, reference)
        whole = tallies[-1]  # with the classes named back
        groups = votes.grouped(whole.seen), votes.grouped(whole.reference)
        return [*tallies, TwoTallies(whole.where, *groups, names=GROUPS)]

    def of_transcripts(
        self, pairs: Mapping[int, Pair], shapes: Histograms, agreements: Sequence[Agreement] = ()
    ) -> list[str]:
        """Return the same for mechanisms whose queries depend on each other; `pairs` are by number of queries.

        Short releases of one query and of several are compared: each answer, the number of answers, and how often an
        answer equals the first one. On `agreements` only the releases with the most queries are compared. Each test
        uses one comparison per release, so comparisons are independent.
        """
        tallies: list[TwoTallies] = []
        for queries in sorted({min(T, _TRANSCRIPT) for T in pairs}):
            chosen = [pair for T, pair in pairs.items() if min(T, _TRANSCRIPT) == queries][-1]
            asked = [chosen.counts, chosen.neighbour, self._least_certain(shapes, queries)]
            asked += [each.counts for each in agreements[::2]] if queries == min(max(pairs), _TRANSCRIPT) else []
            for i, counts in enumerate(asked):
                tallies += self._of_releases(counts, queries, f"{queries}/{i}")
        return agreement.disagreements(tallies)

    def _of_releases(self, counts: NDArray[np.int64], queries: int, name: str) -> Iterator[TwoTallies]:
        """Compare short releases of one query asked `queries` times."""
        votes = in_turn(counts[None], queries)
        tried = Discrete(self.streams("discrete numbers"))
        self.outcomes(votes, tried)
        runs = max(_AT_LEAST, min(_NUMBERS // max(1, tried.drawn[0]), _RELEASES))
        seen = self.transcripts(votes, Entropy(), runs)
        seeded = Discrete(self.streams(f"transcripts/{name}"))
        reference = self.transcripts(votes, seeded, _TRANSCRIPTS * runs)
        where = f"releases on the counts {histogram(counts.tolist())}, asked {queries} times each"

        def both(
            words: str, count: Callable[[Outcomes], NDArray[np.int64]], names: Sequence[str] = (), plain: bool = True
        ) -> TwoTallies:
            return TwoTallies(words, count(seen), count(reference), plain, names)

        for place in range(queries):
            yield both(f"{where}, as answer {place + 1}", partial(_answer, place, votes.classes))
        given = ["every answer", "silence throughout", "only some of the answers"]
        yield both(where, partial(_given, votes.classes), given)
        for place in range(1, queries):
            words = [f"answer {place + 1} the first one again", f"answer {place + 1} another than the first"]
            yield both(where, partial(_first_again, place), words, plain=False)

    def _two_releases(self, counts: NDArray[np.int64], labels: int) -> tuple[Outcomes, Outcomes]:
        votes = in_turn(counts[None], labels)
        return self.outcomes(votes, Entropy()), self.outcomes(votes, Entropy())

    def _of_uncertain(self, counts: NDArray[np.int64], one: Outcomes, two: Outcomes) -> Iterator[TwoTallies]:
        """Test whether noise is reused within a release: how often a label equals one at a fixed distance before it.

        Labels themselves are compared too, since missing noise is visible where no class is sure to win. The distance
        at which labels of release `one` repeat most often is tested on release `two`.
        """
        queries, classes = len(one), len(counts)
        seeded = Discrete(self.streams("distances"))
        reference = self.outcomes(in_turn(counts[None], _REFERENCE * queries), seeded)
        where = f"on the counts {histogram(counts.tolist())}"
        labels_seen = counted(np.concatenate([one, two]), classes)
        yield TwoTallies(where, labels_seen, counted(reference, classes))
        for lag in sorted({*agreement.lags(queries), max(1, agreement.likely_lag(one))}):
            seen = agreement.came_again(two, lag)
            again = agreement.came_again(reference, lag)
            yield TwoTallies(where, seen, again, plain=False, names=agreement.names_again(lag))

    def _least_certain(self, shapes: Histograms, queries: int | None = None) -> NDArray[np.int64]:
        """Return the histogram on which two outcomes are equal least often, so that reused noise is visible.

        With `queries`, the first outcomes of separate releases of that many queries are compared; without it, queries
        are independent.
        """
        seeded = Discrete(self.streams(f"least certain/{queries}"))

        def tried(counts: NDArray[np.int64]) -> Outcomes:
            if queries is None:
                return self.outcomes(in_turn(counts[None], _TRIED), seeded)
            return self.transcripts(in_turn(counts[None], queries), seeded, _TRIED)[:, 0]

        shown = [counted(tried(counts), len(counts)) for counts in shapes]
        chosen: NDArray[np.int64] = shapes[int(np.argmin([float(seen @ seen) for seen in shown]))]
        return chosen

    def _compared(self, asked: Sequence[Histogram], seen: Outcomes, reference: Outcomes) -> list[TwoTallies]:
        """Return the comparison for each shift of the classes, and last the one of all shifts together."""
        classes = len(asked[0])
        each = [
            TwoTallies(
                f"on the counts {histogram(counts.tolist())}",
                counted(seen[:, i], classes), counted(reference[:, i], classes),
            )
            for i, counts in enumerate(asked)
        ]  # fmt: skip
        back = [
            [_named_back(getattr(t, which), by) for t, by in zip(each, shifts(classes), strict=True)]
            for which in ("seen", "reference")
        ]
        return [*each, TwoTallies(f"{each[0].where}, classes renamed", *(np.sum(rows, axis=0) for rows in back))]

    def _labels(self, pair: Pair) -> int:
        """Return the number of labels to draw with noise from the operating system."""
        source = Discrete(self.streams("discrete numbers"))
        self._rows([pair.counts], source, _AT_LEAST)
        return min(_NUMBERS * _AT_LEAST // max(1, source.drawn[0]), _AT_MOST)

    def _rows(self, asked: Sequence[Histogram], source: Source | Discrete, labels: int) -> Outcomes:
        """Return outcomes (rounds × histograms) of the histograms `asked`, queried in turn."""
        votes = in_turn(np.stack(asked), labels // len(asked) * len(asked))
        return self.outcomes(votes, source).reshape(-1, len(asked))


def _of_side(pair: Pair, side: int, queries: int) -> Votes:
    return pair.votes(queries)[side]


def _named_back(counts: NDArray[np.integer], by: int) -> NDArray[np.integer]:
    return np.append(np.roll(counts[:-1], -by), counts[-1])


def _answer(place: int, classes: int, transcripts: Outcomes) -> NDArray[np.int64]:
    return counted(transcripts[:, place], classes)


def _first_again(place: int, transcripts: Outcomes) -> NDArray[np.int64]:
    return agreement.came_again(transcripts[:, [0, place]].ravel(), 1)


def _given(classes: int, transcripts: Outcomes) -> NDArray[np.int64]:
    """Count the releases in which every query was answered, none, and only some."""
    answers = np.sum(transcripts < classes, axis=1)
    every, none = int(np.sum(answers == transcripts.shape[1])), int(np.sum(answers == 0))
    return np.array([every, none, len(transcripts) - every - none])


def _fisher(x: int, n: int, y: int, m: int) -> float:
    """Return twice the smaller tail of x given x + y, for n and m draws from one distribution."""
    from scipy.special import gammaln, logsumexp

    def ways(whole: int, part: NDArray[np.integer]) -> Array:
        result: Array = gammaln(whole + 1) - gammaln(part + 1) - gammaln(whole - part + 1)
        return result

    both = x + y
    k = np.arange(max(0, both - m), min(n, both) + 1)
    log_p = ways(n, k) + ways(m, both - k) - ways(n + m, np.array([both]))
    tails = [float(logsumexp(log_p[chosen])) for chosen in (k <= x, k >= x)]
    return min(1.0, 2 * math.exp(min(tails)))
