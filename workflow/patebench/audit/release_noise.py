"""Audits of the noise of release mode, which is discrete and drawn from the operating system's entropy.

This noise cannot be reproduced. It is therefore only compared with seeded noise, which has the same distribution but is
drawn by other code. The ε lower bound is computed from releases with seeded discrete noise, so that the same command
gives the same audit.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Counts
from patebench.audit import agreement
from patebench.audit.agreement import TwoTallies
from patebench.audit.runs import (
    AuditSetting,
    CountingGenerator,
    Outcomes,
    Sampled,
    count_outcomes,
    votes_in_turn,
)
from patebench.audit.sampled import agree_by_chance, class_shifts, on_counts, relabel
from patebench.audit.worst_pairs import GROUPS, Agreement, Pair
from patebench.core.entropy import LARGEST_SCALE, Entropy, Integers, Size, discrete_normal
from patebench.core.seeds import Source

#: Approximate number of random numbers from the operating system in one audit (they are slow), and maximum number of
#: labels.
_NUMBERS, _AT_MOST = 20_000, 4000

#: Number of seeded labels per label in release mode, and minimum number of labels in release mode.
_REFERENCE, _AT_LEAST = 50, 40

#: For mechanisms whose queries depend on each other: maximum number of queries in a release, maximum number of releases
#: of the same votes in release mode, and number of seeded releases per release in release mode.
_TRANSCRIPT, _RELEASES, _TRANSCRIPTS = 8, 150, 5

#: Number of labels in release mode on unanimous votes and on two-way ties: the number of labels of the audited pair
#: divided by the first number, but at least the second number.
_AGREEING, _AGREEING_AT_LEAST = 4, 150

_SAME_NOISE = "in release mode, two releases have the same noise, which can be subtracted"

#: Scale above which rounded normal noise replaces discrete Gaussian noise; the total variation is then some 10⁻⁹.
_ROUNDED = 1 << 12

#: Number of seeded labels per histogram, to estimate how often its labels repeat.
_TRIED = 100


class DiscreteNoise:
    """Source of discrete noise from a seeded generator; `drawn[0]` counts the random numbers drawn."""

    def __init__(self, generator: np.random.Generator | CountingGenerator) -> None:
        counting = generator if isinstance(generator, CountingGenerator) else CountingGenerator(generator)
        self._generator, self.drawn = counting, counting.drawn

    def laplace(self, *, scale: float, size: Size) -> Integers:
        """Draw x with Pr[x] ∝ exp(−|x|/scale), as the difference of two geometric variables."""
        if scale == 0:
            return np.zeros(size, dtype=np.int64)
        return self.exponential(scale=scale, size=size) - self.exponential(scale=scale, size=size)

    def normal(self, *, scale: float, size: Size) -> Integers:
        """Draw discrete Gaussian noise.

        At large scales, rounded normal noise is drawn instead; its total variation distance to discrete Gaussian noise
        is below 1/(24·scale²) per draw.
        """
        if _ROUNDED < scale <= LARGEST_SCALE:
            return np.rint(self._generator.normal(scale=scale, size=size)).astype(np.int64)
        return discrete_normal(self, scale, size)

    def exponential(self, *, scale: float, size: Size) -> Integers:
        return self._generator.geometric(-math.expm1(-1 / scale), size=size) - 1

    def random(self, size: Size) -> NDArray[np.float64]:
        return self._generator.random(size=size)

    def integers(self, low: int, high: int, *, size: Size) -> Integers:
        return self._generator.integers(low, high, size=size)

    def spawn(self, n_children: int) -> list["DiscreteNoise"]:
        return [DiscreteNoise(child) for child in self._generator.spawn(n_children)]


class ReleaseNoiseAudit(AuditSetting):
    """Audit of releases with discrete noise, for mechanisms that can add discrete noise."""

    def seeded(self, sampled: Sampled) -> Sampled:
        """Count the event of `sampled` again, in new releases with seeded discrete noise, and return the new result.

        If no event was chosen (`sampled.event` is None), `sampled` is returned.
        """
        event = sampled.event
        if event is None:
            return sampled
        sides = []
        for side, name in enumerate(("here", "there")):
            source = DiscreteNoise(self.streams(f"discrete/{sampled.queries}/{name}"))
            sides.append(self.count(lambda T, side=side: event.pair.votes(T)[side], source, self.runs))  # type: ignore[misc]
        return event.count(sides, self.confidence, sampled.queries, self.delta)

    def disagreements(self, pair: Pair, shapes: Counts, agreements: Sequence[Agreement] = ()) -> list[str]:
        """Return [a message] if noise from the operating system repeats or gives wrong frequencies of labels, else [].

        The frequencies are compared with those of seeded noise.

        Parameters
        ----------
        pair : the audited pair of data sets D and D′
        shapes : (histograms, classes) further vote counts. Of these and the counts on D, those on which repeated noise
            is easiest to detect are tested for repeated noise
        agreements : votes on which teachers agree or tie, each tested in separate releases
        """
        shifted = relabel([pair])
        labels = max(_AT_LEAST, self._labels(pair) // (2 * len(shifted))) * len(shifted)
        tallies: list[TwoTallies] = []
        for side, name in enumerate(("here", "there")):
            asked = [each.neighbour if side else each.counts for each in shifted]
            seen, again = (self._in_turn(asked, Entropy(), labels) for _ in range(2))
            if not agree_by_chance(seen[:, 0], again[:, 0], len(pair.counts)):
                return [_SAME_NOISE]
            reference = self._in_turn(asked, DiscreteNoise(self.streams(f"reference/{name}")), _REFERENCE * labels)
            tallies += self._compare_shifts(asked, np.concatenate([seen, again]), reference)
        counts = self._least_certain(np.stack([pair.counts, *shapes]))
        asked_often = votes_in_turn(counts[None], labels // 4 * 2)
        one, two = (self.outcomes(asked_often, Entropy()) for _ in range(2))
        if not agree_by_chance(one, two, len(counts)):
            return [_SAME_NOISE]
        tallies += self._compare_repeats(counts, one, two)
        for i, votes in enumerate(agreements):
            tallies += self._compare_agreement(votes, max(labels // _AGREEING, _AGREEING_AT_LEAST), f"agreement/{i}")
        return agreement.disagreements(tallies)

    def _compare_agreement(self, votes: Agreement, labels: int, stream: str) -> list[TwoTallies]:
        """Return tests that labels are equally frequent with noise from the operating system and with seeded noise.

        The labels are drawn on `votes`, on which teachers agree or tie, under several cyclic shifts of the classes. The
        number `labels` says approximately how many are drawn with noise from the operating system. `stream` is the name
        of the random stream of the seeded noise.
        """
        shifts = class_shifts(len(votes.counts))
        shifted, labels = [np.roll(votes.counts, shift) for shift in shifts], -(-labels // len(shifts)) * len(shifts)
        seen = self._in_turn(shifted, Entropy(), labels)
        reference = self._in_turn(shifted, DiscreteNoise(self.streams(stream)), _REFERENCE * labels)
        tallies = self._compare_shifts(shifted, seen, reference)
        whole = tallies[-1]  # all shifts together, with the classes shifted back
        groups = votes.grouped(whole.seen), votes.grouped(whole.reference)
        return [*tallies, TwoTallies(whole.where, *groups, names=GROUPS)]

    def disagreements_of_transcripts(
        self, pairs: Mapping[int, Pair], shapes: Counts, agreements: Sequence[Agreement] = ()
    ) -> list[str]:
        """Return [a message] if releases with noise from the operating system differ from seeded ones, else [].

        This method is for mechanisms whose queries depend on each other. Each release answers the same query a few
        times. Three kinds of frequencies are compared: of each label at each position of a release; of releases in
        which all, some or no queries are answered; and of answers that equal the first answer of their release.

        Parameters
        ----------
        pairs : number of queries → the audited pair
        shapes : (histograms, classes) vote counts; only the row on which repeated noise is easiest to detect is tested
        agreements : result of `Search.agreements`: votes on which teachers agree or tie, alternating with neighbours of
            these votes. The neighbours are not tested
        """
        tallies: list[TwoTallies] = []
        for queries in sorted({min(T, _TRANSCRIPT) for T in pairs}):
            chosen = [pair for T, pair in pairs.items() if min(T, _TRANSCRIPT) == queries][-1]
            asked = [chosen.counts, chosen.neighbour, self._least_certain(shapes, queries)]
            if queries == min(max(pairs), _TRANSCRIPT):
                asked += [agreed.counts for agreed in agreements[::2]]
            for i, counts in enumerate(asked):
                tallies += self._compare_releases(counts, queries, f"{queries}/{i}")
        return agreement.disagreements(tallies)

    def _compare_releases(self, counts: NDArray[np.int64], queries: int, stream: str) -> Iterator[TwoTallies]:
        """Yield tests of the operating system's noise against seeded noise.

        Each release answers `queries` queries with votes `counts`.
        """
        votes = votes_in_turn(counts[None], queries)
        tried = DiscreteNoise(self.streams("discrete numbers"))
        self.outcomes(votes, tried)
        runs = max(_AT_LEAST, min(_NUMBERS // max(1, tried.drawn[0]), _RELEASES))
        seen = self.transcripts(votes, Entropy(), runs)
        seeded = DiscreteNoise(self.streams(f"transcripts/{stream}"))
        reference = self.transcripts(votes, seeded, _TRANSCRIPTS * runs)
        where = f"releases {on_counts(counts)}, queried {queries} times each"

        for place in range(queries):
            answers = (count_outcomes(labels[:, place], votes.classes) for labels in (seen, reference))
            yield TwoTallies(f"{where}, as answer {place + 1}", *answers)
        names = ["all queries answered", "no query answered", "some queries answered"]
        yield TwoTallies(where, *(_count_answered(labels, votes.classes) for labels in (seen, reference)), names=names)
        for place in range(1, queries):
            names = [f"answer {place + 1} equal to answer 1", f"answer {place + 1} unequal to answer 1"]
            repeats = (agreement.count_repeats(labels[:, [0, place]].ravel(), 1) for labels in (seen, reference))
            yield TwoTallies(where, *repeats, plain=False, names=names)

    def _compare_repeats(self, counts: NDArray[np.int64], one: Outcomes, two: Outcomes) -> Iterator[TwoTallies]:
        """Yield tests that detect missing noise and repeated noise in two releases of the same repeated query.

        `counts` (classes,) are the vote counts of the query. `one` and `two` (queries,) are the outcomes of the two
        releases, with noise from the operating system.
        """
        queries, classes = len(one), len(counts)
        seeded = DiscreteNoise(self.streams("distances"))
        reference = self.outcomes(votes_in_turn(counts[None], _REFERENCE * queries), seeded)
        where = on_counts(counts)
        # Missing noise is visible in the frequencies of labels where no class is sure to win.
        labels_seen = count_outcomes(np.concatenate([one, two]), classes)
        yield TwoTallies(where, labels_seen, count_outcomes(reference, classes))
        # Repeated noise makes labels equal more often than by chance; the lag chosen on `one` is tested on `two`.
        for lag in sorted({*agreement.lags(queries), max(1, agreement.most_likely_lag(one))}):
            seen = agreement.count_repeats(two, lag)
            again = agreement.count_repeats(reference, lag)
            yield TwoTallies(where, seen, again, plain=False, names=agreement.repeat_names(lag))

    def _least_certain(self, shapes: Counts, queries: int | None = None) -> NDArray[np.int64]:
        """Return the row of `shapes` (histograms, classes) for which a repeated query gives equal labels least often.

        Repeated noise is easiest to detect on these votes. The labels are drawn with seeded noise.

        Parameters
        ----------
        queries : None for mechanisms with independent queries. Otherwise, the number of queries in each of several
            releases, of which only the first label is used
        """
        seeded = DiscreteNoise(self.streams(f"least certain/{queries}"))

        def tried(counts: NDArray[np.int64]) -> Outcomes:
            if queries is None:
                return self.outcomes(votes_in_turn(counts[None], _TRIED), seeded)
            return self.transcripts(votes_in_turn(counts[None], queries), seeded, _TRIED)[:, 0]

        shown = [count_outcomes(tried(counts), len(counts)) for counts in shapes]
        return shapes[int(np.argmin([float(seen @ seen) for seen in shown]))]

    def _compare_shifts(self, shifted: Sequence[Counts], seen: Outcomes, reference: Outcomes) -> list[TwoTallies]:
        """Return tests of outcomes with noise from the operating system (`seen`) against seeded noise (`reference`).

        `shifted` contains the same vote counts under several cyclic shifts of the classes. Column i of `seen` and of
        `reference` contains outcomes on `shifted[i]`. There is one test per shift, and a last test of all shifts
        together, with the classes shifted back.
        """
        classes = len(shifted[0])
        tallies = [
            TwoTallies(on_counts(counts), *(count_outcomes(labels[:, i], classes) for labels in (seen, reference)))
            for i, counts in enumerate(shifted)
        ]
        original = [np.zeros(classes + 1, dtype=np.int64) for _ in ("seen", "reference")]
        for tally, by in zip(tallies, class_shifts(classes), strict=True):
            for total, counts in zip(original, (tally.seen, tally.reference), strict=True):
                total += np.append(np.roll(counts[:-1], -by), counts[-1])
        return [*tallies, TwoTallies(f"{tallies[0].where}, classes renamed", *original)]

    def _labels(self, pair: Pair) -> int:
        """Return the number of labels to draw on `pair` with noise from the operating system.

        The number is smaller if a label needs many random numbers, because noise from the operating system is slow to
        draw.
        """
        source = DiscreteNoise(self.streams("discrete numbers"))
        self._in_turn([pair.counts], source, _AT_LEAST)
        return min(_NUMBERS * _AT_LEAST // max(1, source.drawn[0]), _AT_MOST)

    def _in_turn(self, histograms: Sequence[Counts], source: Source | DiscreteNoise, labels: int) -> Outcomes:
        """Return the outcomes (rounds, histograms) of one release, which in each round queries all `histograms` once.

        The number of rounds is `labels` divided by the number of histograms.
        """
        votes = votes_in_turn(np.stack(histograms), labels // len(histograms) * len(histograms))
        return self.outcomes(votes, source).reshape(-1, len(histograms))


def _count_answered(transcripts: Outcomes, classes: int) -> NDArray[np.int64]:
    """Return the numbers of releases in which all queries, no queries, and only some queries are answered: (3,)."""
    answers = np.sum(transcripts < classes, axis=1)
    every, none = int(np.sum(answers == transcripts.shape[1])), int(np.sum(answers == 0))
    return np.array([every, none, len(transcripts) - every - none])
