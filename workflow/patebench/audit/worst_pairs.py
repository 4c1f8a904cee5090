"""Search over vote histograms for the worst adjacent pair of a mechanism, which has the largest ε.

The search starts with many histograms of shapes that are known to be hard (ties, small gaps, counts at a threshold,
unanimity, few classes, all classes). Hill climbing from the best pair moves votes between classes as long as ε rises.
The worst pair for one query need not be the worst for many, so each number of queries has its own search. The ε of the
pair found is a valid lower bound even if a worse pair exists.
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
from patebench.audit.estimates import compose, least_epsilon, measurable_epsilon
from patebench.core.bound import Conversion
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import Answering, Mechanism
from patebench.mechanisms.neighbours import one_by_one

#: Number of pairs kept for each number of queries, for exact composition and for the sampled audit.
KEPT = 3

#: Maximum number of rounds of hill climbing.
_ROUNDS = 6

#: Gaps between the largest counts of the histograms with which the search starts.
_GAPS = (0, 1, 2, 3, 4, 5, 8, 13, 21, 34, 55, 89, 144)

#: Orders of the Rényi curves that rank pairs for several queries.
_FEW_ORDERS = ORDERS[::4]

#: Number of gaps between the two largest counts, from a tie to unanimity, at which data-dependent bounds are tested.
_RUNGS = 5

#: Number of histograms on which releases are compared with stated probabilities.
_SHAPES = 64

#: Number of unanimous histograms, and number of two-way ties, from which the histograms for separate runs are chosen.
_AGREEING = 16

#: For the choice of agreements. Let p be the probability of an outcome other than a leading class, and p* the maximum
#: of p over all agreements. Runs best reveal the amount of noise if p is near `_TELLING`·p*, or near `_OFTEN` if this
#: is larger. An outcome with p* ≤ `_SHOWS` is too rare to reveal the noise.
_TELLING, _OFTEN, _SHOWS = 0.4, 0.02, 1e-4


@dataclass(frozen=True, eq=False)
class Pair:
    """Votes on one query of two neighbouring data sets, D and D′, with the probabilities of the query's outcomes.

    Parameters
    ----------
    counts : (classes,) vote counts on D
    source, target : classes of the only vote that differs: the vote is for `source` on D, and for `target` on D′
    log_p, log_p_neighbour : (outcomes,) log-probabilities of the outcomes on D and on D′
    multiplicity : (outcomes,) number of outcomes with each of these probabilities
    words : in audits of tables, a description of how D and D′ differ on all queries; otherwise ""
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
        """Return the vote counts (classes,) on the neighbouring data set D′."""
        moved = self.counts.copy()
        moved[self.source] -= 1
        moved[self.target] += 1
        return moved

    def votes(self, queries: int) -> tuple[Votes, Votes]:
        """Return the votes on D and on D′ if the same query is repeated `queries` times.

        They differ in one teacher's votes: for class `Pair.source` on D, for class `Pair.target` on D′.
        """
        voted = np.repeat(np.arange(len(self.counts)), self.counts)
        changed = voted.copy()
        changed[np.argmax(voted == self.source)] = self.target
        return repeated_votes(self.counts, queries, voted), repeated_votes(self.neighbour, queries, changed)

    def shift_classes(self, by: int) -> "Pair":
        """Return this pair with class c renamed to class (c + `by`) modulo the number of classes."""
        classes = len(self.counts)
        names = (self.source + by) % classes, (self.target + by) % classes
        return Pair(np.roll(self.counts, by), *names, self.log_p, self.log_p_neighbour, self.multiplicity)

    def reversed(self) -> "Pair":
        """Return this pair of data sets with D and D′ exchanged."""
        return Pair(self.neighbour, self.target, self.source, self.log_p_neighbour, self.log_p, self.multiplicity)

    def epsilon(self, queries: int, delta: float) -> float:
        """Return a lower bound on the ε at `delta` of `queries` independent queries with the votes of this pair."""
        if (queries, delta) not in self._found:
            self._found[queries, delta] = compose(self.log_p, self.log_p_neighbour, self.multiplicity, queries, delta)
        return self._found[queries, delta]


def repeated_votes(counts: Counts, queries: int, voted: NDArray[np.integer] | None = None) -> Votes:
    """Return votes on `queries` queries that all have the same counts.

    Parameters
    ----------
    counts : (classes,) counts of each query
    voted : (teachers,) class for which each teacher votes, in agreement with `counts`. None: the first teachers vote
        for class 0, the next ones for class 1, and so on
    """
    voted = np.repeat(np.arange(len(counts)), counts) if voted is None else voted
    matrix = np.broadcast_to(voted[:, None], (len(voted), queries))
    return Votes(np.broadcast_to(counts, (queries, len(counts))), matrix)


class Agreement(NamedTuple):
    """Vote counts of one query on which all teachers agree or two classes tie, or such counts with one vote moved.

    Parameters
    ----------
    counts : (classes,) number of votes for each class
    leading : number of leading classes, which come first in `counts`: 1 if teachers agree, 2 for a tie. Moving one vote
        does not change this number
    """

    counts: Counts
    leading: int

    @property
    def neighbour(self) -> "Agreement":
        """Return these vote counts with one vote moved from the first class to the second."""
        moved = self.counts.copy()
        moved[:2] += [-1, 1]
        return Agreement(moved, self.leading)

    def grouped(self, outcomes: NDArray[Any], by: int = 0) -> NDArray[Any]:
        """Return the sums of `outcomes` over three groups, (3,): leading classes, other classes, and "no answer".

        `outcomes` (classes + 1,) are counts or probabilities of the outcomes, the last one of "no answer". If the
        classes in `outcomes` are shifted cyclically by `by` places, they are first shifted back.
        """
        classes = np.roll(outcomes[:-1], -by)
        return np.array([classes[: self.leading].sum(), classes[self.leading :].sum(), outcomes[-1]])


#: Names of the groups of outcomes in `Agreement.grouped`.
GROUPS = ("a leading class", "another class", "no answer")


#: Function that returns a score (rows,) for each row of outcome distributions on D and D′, higher for a larger ε.
#: Arguments: `log_p`, `log_p_neighbour` and `multiplicity`, as in `Pair` but with one row per pair (rows, outcomes).
Score = Callable[[Array, Array, NDArray[np.integer]], Array]


@dataclass(frozen=True)
class Search:
    """Search for the pairs of neighbouring data sets, D and D′, for which the ε of a mechanism is largest.

    D and D′ are vote counts of one query. There are two special cases:

    - Under local privacy, every perturbed vote is released. D and D′ then consist of one teacher's vote, and the
      outcome is the perturbed vote.
    - If queries depend on each other, the outcome is the first answer of a release that repeats one query `repeats`
      times.
    """

    mechanism: Mechanism
    teachers: int
    classes: int
    delta: float
    repeats: int = 1

    def for_queries(self, queries: int) -> "Search":
        """Return the search for releases of `queries` queries.

        If the mechanism makes one decision for all queries together, the new search has `repeats` = `queries`.
        Otherwise, this search is returned.
        """
        return replace(self, repeats=queries) if self.mechanism.answering is Answering.TOGETHER else self

    def worst(self, queries: int) -> list[Pair]:
        """Return the pairs of data sets with the largest ε found for `queries` independent queries, largest ε first."""
        pairs = [pair for _, pair in self._climb(self._score(queries))]
        return sorted(pairs, key=lambda pair: -pair.epsilon(queries, self.delta))

    @property
    def local(self) -> bool:
        return self.mechanism.answering is Answering.BY_TEACHER

    def shapes(self) -> Counts:
        """Return vote counts on which audits test releases, such as ties and small gaps: (histograms, classes)."""
        if self.local:
            return np.eye(self.classes, dtype=np.int64)
        every = self._candidates()
        chosen = every[np.unique(np.linspace(0, len(every) - 1, _SHAPES).astype(int))]
        return np.stack([np.roll(counts, place) for place, counts in enumerate(chosen)])

    def agreements(self) -> list[Agreement]:
        """Return vote counts on which all teachers agree or two classes tie, each followed by a neighbour.

        Runs on these votes reveal noise that is wrong only where teachers agree or tie. Some of the votes are by few
        teachers, and some ties lead the other classes by few votes, so that noise sometimes changes the outcome. Under
        local privacy, the result is [].
        """
        if self.local:
            return []
        spread = np.unique(np.geomspace(1, self.teachers, _AGREEING).astype(int)).tolist()
        unanimous = [Agreement(np.array([size, *[0] * (self.classes - 1)]), 1) for size in spread]
        tied = [tie for gap in spread if (tie := self._tie(gap)) is not None]
        chosen = [unanimous[-1], *self._most_revealing(unanimous), *self._most_revealing(tied)]
        distinct = {tuple(agreement.counts): agreement for agreement in chosen}
        return [side for agreement in distinct.values() for side in (agreement, agreement.neighbour)]

    def _tie(self, gap: int) -> Agreement | None:
        """Return vote counts in which the first two classes tie and lead by about `gap` votes; None if impossible."""
        # With two classes and an odd number of teachers, one teacher is left out.
        others = self.classes - 2
        top = min((self.teachers + others * gap + self.classes - 1) // self.classes, self.teachers // 2)
        rest = _evenly(self.teachers - 2 * top, others, others) if others else []
        return None if top == 0 or (others and rest[0] >= top) else Agreement(np.array([top, top, *rest]), 2)

    def _most_revealing(self, agreements: Sequence[Agreement]) -> list[Agreement]:
        """Return one or two of `agreements`, on which runs best reveal how often noise changes the outcome.

        Noise changes the outcome in two ways: a class other than the leading classes wins, or the query is not
        answered. For each way, the vote counts are chosen on which runs best measure its probability. A way that is
        very rare on all vote counts is skipped. If both are very rare, the last entry of `agreements` is returned. If
        the mechanism states no probabilities, the result is [].
        """
        known = [
            (votes, votes.grouped(p)) for votes in agreements if (p := self._first_outcome(votes.counts)) is not None
        ]
        chances = np.array([p for _, p in known]).reshape(-1, len(GROUPS)).T
        chosen: list[Agreement] = []
        for chance in chances[1:]:
            if chance.max(initial=0) > _SHOWS:
                best = max(_TELLING * chance.max(), _OFTEN)
                distances = np.abs(np.log(np.maximum(chance, 1e-300) / best))
                chosen.append(known[int(np.argmin(distances))][0])
        return chosen or [votes for votes, _ in known[-1:]]

    def _first_outcome(self, counts: Counts) -> Array | None:
        """Return the outcome probabilities (classes + 1,) that the mechanism states for a query with votes `counts`.

        If queries depend on each other, the query is the first one in a release that repeats it `repeats` times. The
        result is None if the mechanism states no probabilities or cannot answer the query.
        """
        votes = repeated_votes(counts, self.repeats)
        try:
            with np.errstate(all="ignore"):
                log_p = self.mechanism.log_outcome_probabilities(votes)
                self.mechanism.release(votes, np.random.default_rng(0))
        except Exception:  # votes of all teachers, which every audit runs, would raise any real fault again
            return None
        return None if log_p is None or np.isnan(log_p[0]).any() else np.exp(log_p[0])

    def ladder(self, queries: int) -> list[Pair]:
        """Return pairs of data sets on which data-dependent bounds are tested, from a tie to unanimous votes.

        For each of a few gaps between the two largest counts, the result contains the pair with the largest ε of
        `queries` queries. Some faults in data-dependent bounds show only where teachers agree. Under local privacy, the
        result is [].
        """
        if self.local:
            return []
        gaps = np.unique(np.linspace(0, self.teachers, _RUNGS).astype(int))
        tops = [(self.teachers + gap + 1) // 2 for gap in gaps]
        shapes = _distinct([[top, self.teachers - top, *[0] * (self.classes - 2)] for top in tops])
        return [self._best_pairs(shape[None], self._score(queries))[0][1] for shape in shapes]

    def removal_epsilon(self, pair: Pair, queries: int) -> float:
        """Return a lower bound on the ε of `queries` queries for two data sets, one of which has one vote fewer.

        The larger data set is D of `pair`. In the smaller one, one vote for the class `pair.source` is missing.
        """
        fewer = pair.counts.copy()
        fewer[pair.source] -= 1
        here, there = (self.mechanism.log_outcome_probabilities(Votes(counts[None])) for counts in (pair.counts, fewer))
        if here is None or there is None:
            return 0.0
        once, times = np.ones(len(fewer) + 1, dtype=np.int64), self.composed_queries(queries)
        return max(compose(*way, once, times, self.delta) for way in ((here[0], there[0]), (there[0], here[0])))

    def composed_queries(self, queries: int) -> int:
        """Return the number of answers from which the ε of a release of `queries` queries is bounded below.

        If queries are independent, this is the largest number of queries in which one teacher takes part. If queries
        depend on each other, only the first answer is used, so the result is 1.
        """
        return self.mechanism.most_participation(queries) if self.mechanism.independent_queries else 1

    def _climb(self, score: Score) -> list[tuple[float, Pair]]:
        """Return the pairs of data sets with the highest scores found by hill climbing: (score, pair), best first."""
        best = self._best_pairs(self._candidates(), score)
        for _ in range(_ROUNDS):
            before, best = best[0][0], _keep_best(best, self._best_pairs(_moves(best[0][1].counts), score))
            if best[0][0] <= before:
                break
        return best

    def most_distinguishable(self) -> list[Pair]:
        """Return up to three pairs of data sets, D and D′, on which the probability of one outcome differs most.

        The first pair has the largest difference found for any outcome. The next two pairs have the largest differences
        found for the outcome "no answer". Pairs with equal probabilities are left out.
        """
        candidates = self._candidates()
        any_outcome = self._best_pairs(candidates, lambda log_p, log_q, _: _difference(log_p, log_q).max(axis=1))
        no_answer = self._best_pairs(candidates, lambda log_p, log_q, _: _difference(log_p, log_q)[:, -1])
        return [pair for value, pair in any_outcome[:1] + no_answer[:2] if value > 0]

    def measurable(self, runs: int, confidence: float) -> list[Pair]:
        """Return the pairs of data sets, D and D′, from which runs likely give the largest ε lower bound of one query.

        The audit has `runs` runs on each of D and D′, and its bound holds with probability `confidence`.
        """

        def score(log_p: Array, log_p_neighbour: Array, multiplicity: NDArray[np.integer]) -> Array:
            return measurable_epsilon(log_p, log_p_neighbour, multiplicity, self.delta, runs, confidence)

        return [pair for _, pair in self._climb(score)]

    def _score(self, queries: int) -> Score:
        """Return a function that scores outcome distributions on D and D′ by the ε of `queries` queries.

        For several queries, the score is computed from Rényi curves.
        """
        if queries == 1:
            return lambda log_p, log_p_neighbour, multiplicity: least_epsilon(
                log_p, log_p_neighbour, multiplicity, self.delta
            )

        def renyi(log_p: Array, log_p_neighbour: Array, multiplicity: NDArray[np.integer]) -> Array:
            log_p, log_p_neighbour = _without_rare(log_p, log_p_neighbour, multiplicity, self.delta / queries)
            curves = queries * exact.divergence(log_p, log_p_neighbour, multiplicity, _FEW_ORDERS)
            return convert(Conversion.TIGHT, _FEW_ORDERS, curves, self.delta).min(axis=1)

        return renyi

    def _candidates(self) -> Counts:
        """Return the vote counts (histograms, classes) with which the search starts."""
        if self.local:
            return np.eye(1, self.classes, dtype=np.int64)
        levels = [round(value) for value in self.mechanism.parameters().values() if 1 <= value < self.teachers + 1]
        return _distinct(_shapes(self.teachers, self.classes, levels))

    def _best_pairs(self, histograms: Counts, score: Score) -> list[tuple[float, Pair]]:
        """Return the pairs of data sets with the highest scores, as (score, pair), best first.

        A pair is a row of `histograms` (histograms, classes) and one of its neighbours, in either order.
        """
        best: list[tuple[float, Pair]] = []
        for pairs in self._neighbours(histograms):
            ways = (pairs.log_p, pairs.log_p_neighbour), (pairs.log_p_neighbour, pairs.log_p)
            scores = np.stack([score(*way, pairs.multiplicity) for way in ways])
            for place in np.argsort(-scores, axis=None, kind="stable")[: 4 * KEPT]:
                way, row = divmod(int(place), scores.shape[1])
                pair = _to_pair(None if self.local else histograms, pairs, row)
                best.append((float(scores[way, row]), pair.reversed() if way else pair))
        return _keep_best(best)

    def _neighbours(self, histograms: Counts) -> Iterator[exact.Pairs]:
        """Yield each row of `histograms` with each of its neighbours, and the outcome distributions of both.

        If queries depend on each other, the distributions are those of the first query in a release that repeats the
        query `repeats` times.
        """
        if self.mechanism.independent_queries:
            return self.mechanism.neighbours(histograms)

        def first(rows: Counts) -> Array:
            repeated = (Votes(np.broadcast_to(row, (self.repeats, len(row)))) for row in rows)
            known = [
                log_p for votes in repeated if (log_p := self.mechanism.log_outcome_probabilities(votes)) is not None
            ]
            if len(known) < len(rows):
                name = type(self.mechanism).__name__
                raise PatebenchError(
                    f"{name}.log_outcome_probabilities returns None, but the audit needs probabilities; return "
                    "the log-probabilities of all outcomes"
                )
            return np.concatenate([log_p[:1] for log_p in known])

        return one_by_one(histograms, first)


def _difference(log_p: Array, log_p_neighbour: Array) -> Array:
    """Return |P − Q| for each outcome; `log_p` and `log_p_neighbour` are ln P and ln Q."""
    return np.abs(np.exp(log_p) - np.exp(log_p_neighbour))


def _without_rare(
    log_p: Array, log_p_neighbour: Array, multiplicity: NDArray[np.integer], least: float
) -> tuple[Array, Array]:
    """Return `log_p` and `log_p_neighbour` (rows, outcomes), with −∞ in both for rare entries.

    They are ln P and ln Q, where P and Q are the probabilities of an outcome on D and on D′. An entry stands for
    `multiplicity` outcomes. It is rare if P > Q and if these outcomes have a total probability of at most `least` on D.
    Rare entries dominate Rényi curves but hardly matter for approximate DP.
    """
    with np.errstate(divide="ignore"):
        rare = (log_p > log_p_neighbour) & (log_p + np.log(multiplicity) <= np.log(least))
    return np.where(rare, -np.inf, log_p), np.where(rare, -np.inf, log_p_neighbour)


def _keep_best(*several: list[tuple[float, Pair]]) -> list[tuple[float, Pair]]:
    """Return the `KEPT` entries (score, pair) with the highest scores in all lists together, without near-duplicates.

    Near-duplicates have scores that agree to 9 digits, and the same largest counts on D and on D′ (in either order).
    """
    kept: dict[tuple[str, int, int], tuple[float, Pair]] = {}
    for value, pair in sorted(itertools.chain(*several), key=lambda scored: -scored[0]):
        tops = sorted((int(pair.counts.max()), int(pair.neighbour.max())))
        kept.setdefault((f"{value:.9g}", tops[0], tops[1]), (value, pair))
    return list(kept.values())[:KEPT]


def _to_pair(histograms: Counts | None, pairs: exact.Pairs, row: int) -> Pair:
    """Convert the entry of `pairs` with index `row` to a `Pair`.

    `histograms` (histograms, classes) are the vote counts to which `pairs.histogram` refers. Under local privacy,
    `histograms` is None, and D and D′ consist of one vote each.
    """
    source, target = int(pairs.loses[row]), int(pairs.gains[row])
    if histograms is None:
        # D and D′ have one vote each.
        counts = np.zeros(pairs.log_p.shape[1], dtype=np.int64)
        counts[source] = 1
    else:  # `loses` and `gains` are ranks
        counts = histograms[pairs.histogram[row]]
        rank = ranks(counts[None])[0]
        source = int(np.searchsorted(rank, source, side="right")) - 1
        target = int(np.searchsorted(rank, target))
    return Pair(counts, source, target, pairs.log_p[row], pairs.log_p_neighbour[row], pairs.multiplicity[row])


def _distinct(histograms: Iterable[Sequence[int] | Counts]) -> Counts:
    """Return the distinct rows of `histograms`, after sorting the counts of each row in descending order."""
    return np.unique(-np.sort(-np.array(list(histograms), dtype=np.int64), axis=1), axis=0)[::-1]


def _shapes(teachers: int, classes: int, levels: Sequence[int]) -> Iterator[list[int]]:
    """Yield the vote counts with which the search starts.

    - Ties of any number of classes.
    - Small gaps between the largest count and the other counts.
    - Largest counts on a grid from 1 to `teachers`.
    - Largest counts within 1 of a number in `levels`. These are parameters of the mechanism that may be thresholds.
    """
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
    """Return counts (classes,) that share `votes` evenly among the first `tied` classes."""
    share, rest = divmod(votes, tied)
    return [share + (place < rest) for place in range(tied)] + [0] * (classes - tied)


def _moves(counts: Counts) -> Counts:
    """Return the vote counts `counts`, and variants with some votes moved to another class: (variants, classes)."""
    ordered = -np.sort(-counts)
    total = int(ordered.sum())
    first_of_equal = np.flatnonzero(np.diff(ordered, prepend=-1))
    ends = sorted({*first_of_equal.tolist(), *(first_of_equal[1:] - 1).tolist(), len(ordered) - 1})
    moved = [ordered]
    for size in sorted({1, 2, 5, max(1, total // 20), max(1, total // 5)}):
        for source, target in itertools.permutations(ends, 2):
            if ordered[source] >= size:
                moved.append(ordered.copy())
                moved[-1][source] -= size
                moved[-1][target] += size
    return _distinct(moved)
