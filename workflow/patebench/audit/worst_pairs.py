"""The worst adjacent pair of a mechanism, found by search over vote histograms.

First many histograms of the shapes that are known to be hard (ties, small gaps, counts at a threshold, unanimity, few
classes, all classes), then hill climbing from the best: some votes move from one class to another as long as that gives
more away. The pair that is worst for one query need not be worst for many: each number of queries has its own search.
What is found is a pair, so its ε is a lower bound whether or not a worse one exists.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import exact
from patebench.accounting.conversion import ORDERS, convert
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts, Votes, ranks
from patebench.audit.estimates import composed, least_epsilon, measurable
from patebench.core.bound import Conversion
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import Answering, Mechanism
from patebench.mechanisms.neighbours import one_by_one

#: Pairs that are composed exactly, and pairs that the sampled audit may choose among, for each number of queries.
KEPT = 3

#: Rounds of hill climbing, and the histograms of one round.
_ROUNDS, _NEIGHBOURHOOD = 6, 60
_GAPS = (0, 1, 2, 3, 4, 5, 8, 13, 21, 34, 55, 89, 144)
_FEW_ORDERS = ORDERS[::4]

#: Degrees of agreement that are tried for bounds that depend on the votes.
_RUNGS = 5

#: Shapes on which releases are compared with what is stated.
_SHAPES = 64

#: Number of unanimous histograms, and of two-way ties, among which those with runs of their own are chosen.
_AGREEING = 16

#: Probability of another outcome, relative to its largest one, at which runs show best how much noise there is, unless
#: that is below the second number; and the least probability that counts.
_TELLING, _OFTEN, _SHOWS = 0.4, 0.02, 1e-4


@dataclass(frozen=True, eq=False)
class Pair:
    """Two data sets of one query that differ in one teacher's vote: counts (classes) on D; on D′ one vote has moved.

    `log_p` and `log_p_neighbour` hold ln Pr of the outcomes on D and D′, each standing for `multiplicity` outcomes.
    Where the two differ in more than one query, `words` say how.
    """

    counts: Counts
    source: int
    target: int
    log_p: Array
    log_p_neighbour: Array
    multiplicity: NDArray[np.integer]
    words: str = ""
    _found: dict[tuple[int, float], float] = field(default_factory=dict, repr=False)

    @property
    def neighbour(self) -> Counts:
        """The counts on D′."""
        moved = self.counts.copy()
        moved[self.source] -= 1
        moved[self.target] += 1
        return moved

    def votes(self, queries: int) -> tuple[Votes, Votes]:
        """D and D′, the same query asked so many times; the first of the teachers that voted for `source` differs."""
        voted = np.repeat(np.arange(len(self.counts)), self.counts)
        changed = voted.copy()
        changed[np.argmax(voted == self.source)] = self.target
        return _repeated(self.counts, queries, voted), _repeated(self.neighbour, queries, changed)

    def relabelled(self, by: int) -> "Pair":
        """The same pair with every class renamed to the one `by` places further, cyclically."""
        classes = len(self.counts)
        names = (self.source + by) % classes, (self.target + by) % classes
        return Pair(np.roll(self.counts, by), *names, self.log_p, self.log_p_neighbour, self.multiplicity)

    def reversed(self) -> "Pair":
        """D and D′ exchanged."""
        return Pair(self.neighbour, self.target, self.source, self.log_p_neighbour, self.log_p, self.multiplicity)

    def epsilon(self, queries: int, delta: float) -> float:
        """What T queries to this pair give away at least; asking again costs nothing."""
        if (queries, delta) not in self._found:
            self._found[queries, delta] = composed(self.log_p, self.log_p_neighbour, self.multiplicity, queries, delta)
        return self._found[queries, delta]


def repeated_votes(counts: Counts, queries: int) -> Votes:
    """One query with these counts, asked `queries` times, without copies of it in memory."""
    return _repeated(counts, queries, np.repeat(np.arange(len(counts)), counts))


def _repeated(counts: Counts, queries: int, voted: NDArray[np.integer]) -> Votes:
    matrix = np.broadcast_to(voted[:, None], (len(voted), queries))
    return Votes(np.broadcast_to(counts, (queries, len(counts))), matrix)


class Agreement(NamedTuple):
    """Counts of one query in which the first `leading` classes have the same and the largest count, or a neighbour."""

    counts: Counts
    leading: int

    @property
    def neighbour(self) -> "Agreement":
        """One vote moved from the first class to the second."""
        moved = self.counts.copy()
        moved[:2] += [-1, 1]
        return Agreement(moved, self.leading)

    def grouped(self, outcomes: NDArray[Any], by: int = 0) -> NDArray[Any]:
        """Add up numbers of the outcomes (classes + 1) into `GROUPS`, where classes were shifted by `by`."""
        classes = np.roll(outcomes[:-1], -by)
        return np.array([classes[: self.leading].sum(), classes[self.leading :].sum(), outcomes[-1]])


#: What `Agreement.grouped` distinguishes.
GROUPS = ("a leading class", "another class", "no answer")


#: How much each row of outcome distributions gives away, for comparison.
Score = Callable[[Array, Array, NDArray[np.integer]], Array]


@dataclass(frozen=True)
class Search:
    """Looks for the worst pairs of a mechanism among so many teachers and classes.

    Under a local mechanism all perturbed votes are seen, and other teachers' votes hide nothing: one teacher alone is
    audited, whose label is its perturbed vote.

    Where queries depend on each other, what is seen is the first answer of a release of the same query `asked` times.
    """

    mechanism: Mechanism
    teachers: int
    classes: int
    delta: float
    asked: int = 1

    def asking(self, queries: int) -> "Search":
        """The search whose release is of so many queries, where that matters to the first answer."""
        return replace(self, asked=queries) if self.mechanism.answering is Answering.TOGETHER else self

    def worst(self, queries: int) -> list[Pair]:
        """The worst pairs found for so many independent queries, worst first."""
        pairs = [pair for _, pair in self._climbed(self._score(queries))]
        return sorted(pairs, key=lambda pair: -pair.epsilon(queries, self.delta))

    @property
    def local(self) -> bool:
        return self.mechanism.answering is Answering.BY_TEACHER

    def among(self, histograms: Counts, queries: int) -> list[Pair]:
        """The pairs of these histograms (in descending order) and their neighbours that score worst for T queries."""
        return [pair for _, pair in self._best(histograms, self._score(queries))]

    def shapes(self) -> Counts:
        """Histograms of many shapes, each with its classes shifted, for comparing releases with what is stated."""
        if self.local:
            return np.eye(self.classes, dtype=np.int64)
        every = self._candidates()
        chosen = every[np.unique(np.linspace(0, len(every) - 1, _SHAPES).astype(int))]
        return np.stack([np.roll(counts, place) for place, counts in enumerate(chosen)])

    def agreements(self) -> list[Agreement]:
        """Return histograms on which all teachers agree or two classes tie, each followed by a neighbour.

        Releases on these are compared with the stated probabilities in runs of their own. Noise that depends on
        agreement shows only there, and only where noise changes the outcome now and then: one of the unanimous
        histograms is of so few teachers that it does, and a tie is so close to the other classes.
        """
        if self.local:
            return []
        spread = np.unique(np.geomspace(1, self.teachers, _AGREEING).astype(int)).tolist()
        unanimous = [Agreement(np.array([size, *[0] * (self.classes - 1)]), 1) for size in spread]
        tied = [each for gap in spread if (each := self._tie(gap)) is not None]
        chosen = [unanimous[-1], *(each for several in (unanimous, tied) for each in self._telling(several))]
        distinct = {tuple(each.counts): each for each in chosen}
        return [each for agreement in distinct.values() for each in (agreement, agreement.neighbour)]

    def _tie(self, gap: int) -> Agreement | None:
        """Return two classes with equal counts, about `gap` votes above the others, or None where there is no such tie.

        Of an odd number of teachers and two classes, one teacher is left out.
        """
        others = self.classes - 2
        top = min((self.teachers + others * gap + self.classes - 1) // self.classes, self.teachers // 2)
        rest = _evenly(self.teachers - 2 * top, others, others) if others else []
        return None if top == 0 or (others and rest[0] >= top) else Agreement(np.array([top, top, *rest]), 2)

    def _telling(self, agreements: Sequence[Agreement]) -> list[Agreement]:
        """Return those that show best how often a class that does not lead is released, and how often none is.

        Where neither ever happens, return the last one.
        """
        known = [(each, each.grouped(p)) for each in agreements if (p := self._first_outcome(each.counts)) is not None]
        chances = np.array([p for _, p in known]).reshape(-1, len(GROUPS)).T
        chosen = [
            known[int(np.argmin(np.abs(np.log(np.maximum(each, 1e-300) / max(_TELLING * each.max(), _OFTEN)))))][0]
            for each in chances[1:]
            if each.max(initial=0) > _SHOWS
        ]
        return chosen or [each for each, _ in known[-1:]]

    def _first_outcome(self, counts: Counts) -> Array | None:
        """Return the stated probabilities of the first outcome, or None where the mechanism cannot answer such votes.

        It may be made for more teachers than these.
        """
        votes = repeated_votes(counts, self.asked)
        try:
            with np.errstate(all="ignore"):
                log_p = self.mechanism.log_outcome_probabilities(votes)
                self.mechanism.release(votes, np.random.default_rng(0))
        except Exception:  # whatever it is: votes of all teachers, which every audit has, would raise it again
            return None
        return None if log_p is None or np.isnan(log_p[0]).any() else np.exp(log_p[0])

    def ladder(self, queries: int) -> list[Pair]:
        """For several degrees of agreement among the teachers, the worst pair with D of that degree.

        Bounds that depend on the votes are small where teachers agree, and wrong ones need not show where they differ.
        """
        if self.local:
            return []
        gaps = np.unique(np.linspace(0, self.teachers, _RUNGS).astype(int))
        tops = [(self.teachers + gap + 1) // 2 for gap in gaps]
        shapes = _distinct([[top, self.teachers - top, *[0] * (self.classes - 2)] for top in tops])
        return [self.among(shape[None], queries)[0] for shape in shapes]

    def independent(self, queries: int) -> int:
        """How many of the queries are independent and can see the vote that differs; one, if they are not."""
        return self.mechanism.most_participation(queries) if self.mechanism.independent_queries else 1

    def _climbed(self, score: Score) -> list[tuple[float, Pair]]:
        found = self._best(self._candidates(), score)
        for _ in range(_ROUNDS):
            best = found[0][0]
            found = _merged(found, self._best(_moves(found[0][1].counts), score))
            if found[0][0] <= best:
                break
        return found

    def most_distinguishable(self) -> list[Pair]:
        """The pair on which one outcome changes most in probability, and those on which "no answer" does."""
        often = self._best(
            self._candidates(), lambda log_p, log_p_neighbour, _: _change(log_p, log_p_neighbour).max(axis=1)
        )
        silent = self._best(
            self._candidates(), lambda log_p, log_p_neighbour, _: _change(log_p, log_p_neighbour)[:, -1]
        )
        return [pair for value, pair in often[:1] + silent[:2] if value > 0]

    def measurable(self, runs: int, confidence: float) -> list[Pair]:
        """The pairs on which so many runs of each side are expected to show the largest ε of one query."""

        def score(log_p: Array, log_p_neighbour: Array, multiplicity: NDArray[np.integer]) -> Array:
            return measurable(log_p, log_p_neighbour, multiplicity, self.delta, runs, confidence)

        return [pair for _, pair in self._climbed(score)]

    def _score(self, queries: int) -> Score:
        """ε of one query, or, for more, the ε of the composed Rényi curve, which orders pairs much as ε does."""
        if queries == 1:
            return lambda log_p, log_p_neighbour, multiplicity: least_epsilon(
                log_p, log_p_neighbour, multiplicity, self.delta
            )

        def renyi(log_p: Array, log_p_neighbour: Array, multiplicity: NDArray[np.integer]) -> Array:
            log_p, log_p_neighbour = _without_rare(log_p, log_p_neighbour, multiplicity, self.delta / queries)
            curves = queries * exact.divergence(log_p, log_p_neighbour, multiplicity, _FEW_ORDERS)
            result: Array = convert(Conversion.TIGHT, _FEW_ORDERS, curves, self.delta).min(axis=1)
            return result

        return renyi

    def _candidates(self) -> Counts:
        if self.local:
            return np.eye(1, self.classes, dtype=np.int64)
        levels = [round(value) for value in self.mechanism.parameters().values() if 1 <= value < self.teachers + 1]
        return _distinct(_shapes(self.teachers, self.classes, levels))

    def _best(self, histograms: Counts, score: Score) -> list[tuple[float, Pair]]:
        """The pairs with the highest scores among the neighbours of these histograms, both ways."""
        found: list[tuple[float, Pair]] = []
        for pairs in self._neighbours(histograms):
            ways = (pairs.log_p, pairs.log_p_neighbour), (pairs.log_p_neighbour, pairs.log_p)
            scores = np.stack([score(*way, pairs.multiplicity) for way in ways])
            for place in np.argsort(-scores, axis=None, kind="stable")[: 4 * KEPT]:
                way, row = divmod(int(place), scores.shape[1])
                pair = _vote(pairs, row) if self.local else _pair(histograms, pairs, row)
                found.append((float(scores[way, row]), pair.reversed() if way else pair))
        return _merged(found)

    def _neighbours(self, histograms: Counts) -> Iterator[exact.Pairs]:
        """Where queries depend on each other: the outcomes of the first query, for each histogram by itself."""
        if self.mechanism.independent_queries:
            return self.mechanism.neighbours(histograms)

        def first(rows: Counts) -> Array:
            each_asked = (Votes(np.broadcast_to(row, (self.asked, len(row)))) for row in rows)
            known = [self.mechanism.log_outcome_probabilities(votes) for votes in each_asked]
            if any(each is None for each in known):
                raise PatebenchError(f"{type(self.mechanism).__name__} does not know the probabilities of its labels")
            return np.concatenate([each[:1] for each in known if each is not None])

        return one_by_one(histograms, first)


def _change(log_p: Array, log_p_neighbour: Array) -> Array:
    """By how much the probability of each outcome changes; where there is "no answer", it is the last."""
    result: Array = np.abs(np.exp(log_p) - np.exp(log_p_neighbour))
    return result


def _without_rare(
    log_p: Array, log_p_neighbour: Array, multiplicity: NDArray[np.integer], least: float
) -> tuple[Array, Array]:
    """Without the outcomes that speak for P and are too rare to matter at δ: a Rényi curve would see nothing else."""
    with np.errstate(divide="ignore"):
        rare = (log_p > log_p_neighbour) & (log_p + np.log(multiplicity) <= np.log(least))
    return np.where(rare, -np.inf, log_p), np.where(rare, -np.inf, log_p_neighbour)


def _merged(*several: list[tuple[float, Pair]]) -> list[tuple[float, Pair]]:
    """The best of several; those with equal scores and equal largest counts once."""
    kept: dict[tuple[str, int, int], tuple[float, Pair]] = {}
    for value, pair in sorted(itertools.chain(*several), key=lambda each: -each[0]):
        tops = sorted((int(pair.counts.max()), int(pair.neighbour.max())))
        kept.setdefault((f"{value:.9g}", tops[0], tops[1]), (value, pair))
    return list(kept.values())[:KEPT]


def _vote(pairs: exact.Pairs, row: int) -> Pair:
    """One row as a pair of votes of one teacher."""
    counts = np.zeros(pairs.log_p.shape[1], dtype=np.int64)
    counts[pairs.loses[row]] = 1
    return Pair(counts, int(pairs.loses[row]), int(pairs.gains[row]), *_outcomes(pairs, row))


def _pair(histograms: Counts, pairs: exact.Pairs, row: int) -> Pair:
    """One row as a pair of data sets."""
    counts = histograms[pairs.histogram[row]]
    rank = ranks(counts[None])[0]
    source = int(np.searchsorted(rank, pairs.loses[row], side="right")) - 1
    target = int(np.searchsorted(rank, pairs.gains[row]))
    return Pair(counts, source, target, *_outcomes(pairs, row))


def _outcomes(pairs: exact.Pairs, row: int) -> tuple[Array, Array, NDArray[np.integer]]:
    return pairs.log_p[row], pairs.log_p_neighbour[row], pairs.multiplicity[row]


def _distinct(histograms: Iterable[Sequence[int] | Counts]) -> Counts:
    """Histograms in descending order, each once."""
    return np.unique(-np.sort(-np.array(list(histograms), dtype=np.int64), axis=1), axis=0)[::-1]


def _shapes(teachers: int, classes: int, levels: Sequence[int]) -> Iterator[list[int]]:
    """Histograms of many shapes; some have a top count at or beside one of the levels."""
    near = {level + step for level in levels for step in (-1, 0, 1)}
    tops = sorted({*near, *np.linspace(1, teachers, 12).astype(int).tolist()})
    for tied in range(1, classes + 1):
        yield _evenly(teachers, tied, classes)
    for gap in _GAPS:
        for others in {2, 3, classes}:
            top = (teachers + gap * (others - 1) + others - 1) // others
            if others <= classes and top <= teachers:
                yield [top, *_evenly(teachers - top, others - 1, classes - 1)]
    for top in tops:
        for tied in {1, 2, classes - 1}:
            if 0 < top <= teachers and 0 < tied < classes:
                yield [top, *_evenly(teachers - top, tied, classes - 1)]


def _evenly(votes: int, tied: int, classes: int) -> list[int]:
    """Votes shared evenly by some classes; the others have none."""
    each, rest = divmod(votes, tied)
    return [each + (place < rest) for place in range(tied)] + [0] * (classes - tied)


def _moves(counts: Counts) -> Counts:
    """Histograms near this one: one, a few or many votes moved from one class to another."""
    ordered = -np.sort(-counts)
    total = int(ordered.sum())
    ends = sorted({int(place) for rank in np.unique(ordered) for place in _ends(ordered, rank)})
    moved = [ordered]
    for size in sorted({1, 2, 5, max(1, total // 20), max(1, total // 5)}):
        for source, target in itertools.permutations(ends, 2):
            if ordered[source] >= size:
                moved.append(ordered.copy())
                moved[-1][source] -= size
                moved[-1][target] += size
    return _distinct(moved)


def _ends(ordered: Counts, value: int) -> NDArray[np.integer]:
    """The first and the last class with this count."""
    places = np.flatnonzero(ordered == value)
    return places[[0, -1]]
