"""Audits of mechanisms that release one table of noisy counts and count few votes of each teacher.

The data sets D and D′ differ in the votes of one teacher. On D′, this teacher votes for other classes or abstains. In
some pairs of data sets, the teacher votes on more queries than the mechanism counts. The event of an audit depends on
one number per table, a weighted sum of the noisy counts. The weight of a cell is its true count on D minus its true
count on D′.

Votes with weights are audited separately, because mechanisms state other bounds for them. A vote is then a vector with
one weight per query, which is added to the counts of one label. On D′, one teacher's vectors are negated, moved to
another label, or left out. Some vectors are longer than the mechanism allows. Pairs with a moved vector also serve to
test ε under label differential privacy.

Further tests examine residuals (released minus true counts). They must have the stated noise distribution and be
independent between cells and between releases.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import independent
from patebench.accounting.logspace import Array
from patebench.accounting.votes import ABSTAINED, UNIT, Votes, WeightedVotes
from patebench.audit import agreement
from patebench.audit.agreement import Tally, TwoTallies, count_repeats
from patebench.audit.estimates import compose
from patebench.audit.release_noise import DiscreteNoise
from patebench.audit.runs import AuditSetting, Event, Known, Sampled
from patebench.audit.worst_pairs import Pair
from patebench.core.entropy import Entropy
from patebench.core.seeds import Source
from patebench.core.text import plural
from patebench.mechanisms.noise import Gaussian, IntegerNoise, Noise
from patebench.mechanisms.sparse_argmax import SparseArgmax

Table = NDArray[np.float64]

#: Votes with weights of one teacher: vectors (queries,) in units of 1/UNIT, each with its label.
Rows = list[tuple[NDArray[np.int64], int]]

#: Maximum numbers of queries and of teachers of a sampled table. A lower bound on ε from fewer queries remains valid,
#: and further teachers would abstain.
_QUERIES, _TEACHERS = 50, 50

#: If each teacher adds a share of the noise, tables contain all teachers and fewer queries: maximum of the number of
#: queries times the number of shares per count.
_SHARES = 800

#: Number of about equally likely groups into which sums of cells are divided, and number for the noise of a cell.
_SUMS, _NOISES = 16, 8

#: If each of n teachers adds a share of the noise, a table takes n times as long. The number of runs is then the first
#: number times runs / n, but at least the second number and at most `runs`.
_RUNS_OF_SHARES, _FIRST_RUNS = 2, 2000

#: Divisor of the number of runs for the audit of votes with weights.
_WEIGHTED = 5

#: One table out of this number serves to choose the event.
_CHOOSING = 10

#: For tests of release mode: approximate number of random numbers from the operating system, number of seeded tables
#: per table in release mode, and minimum number of tables in release mode.
_NUMBERS, _REFERENCE, _RELEASES = 16_000, 20, 10


#: Names of the counts of `TableAudit._count_adjacent` for each axis.
_ADJACENT = [
    (f"noise in the group of the previous {next_to}", f"noise in another group than the previous {next_to}")
    for next_to in ("release", "query", "class")
]


@dataclass(frozen=True, eq=False)
class VotePair:
    """Votes on two neighbouring data sets, D (`here`) and D′ (`there`); only the first teacher's votes may differ.

    `words` describe the difference, for messages.
    """

    words: str
    here: Votes
    there: Votes

    def padded(self, queries: int) -> Votes:
        """Return the votes on D, extended to `queries` queries; on the added queries all teachers abstain."""
        weighted, matrix, more = self.here.weighted, self.here.matrix, ((0, 0), (0, queries - self.here.queries))
        if weighted is not None:
            wider = replace(weighted, weights=np.pad(weighted.weights, more))
            votes = Votes.from_weights(wider, self.here.teachers, self.here.classes)
            return replace(votes, labels_only=self.here.labels_only)
        assert matrix is not None
        return Votes.of(np.pad(matrix, more, constant_values=ABSTAINED), self.here.classes, abstentions=True)

    def reversed(self) -> "VotePair":
        return VotePair(f"{self.words}, the other way round", self.there, self.here)

    @property
    def removal(self) -> bool:
        """Return True if the first teacher abstains on all queries of one of the two data sets."""
        return any((_votes_of_first(votes) == ABSTAINED).all() for votes in (self.here, self.there))

    @cached_property
    def first_query(self) -> Pair:
        """Return the first query's vote counts as a `Pair`, for messages; its probabilities are placeholders."""
        nothing = np.zeros(self.here.classes)
        vote, other = map(_first_vote, (self.here, self.there))
        alike = np.ones(self.here.classes, dtype=np.int64)
        return Pair(self.here.counts[0] // self.here.unit, vote, other, nothing, nothing, alike, self.words)


def _first_vote(votes: Votes) -> int:
    """Return the first teacher's label on the first query, or 0 if it abstains."""
    return max([0, *map(int, _votes_of_first(votes)[:1])])


def _votes_of_first(votes: Votes) -> NDArray[np.integer]:
    """Return the first teacher's labels: one per query or, for votes with weights, one per weight vector."""
    weighted, matrix = votes.weighted, votes.matrix
    if weighted is not None:
        return weighted.labels[weighted.teachers == 0]
    assert matrix is not None
    return matrix[0]


def _weights(votes: Votes) -> NDArray[np.integer]:
    """Return the vectors of weights (vectors, queries) of `votes`, which have weights."""
    assert votes.weighted is not None
    return votes.weighted.weights


def table_pairs(teachers: int, classes: int, queries: int, k: int) -> list[VotePair]:
    """Return pairs of votes, on D and on D′, that differ in the votes of one teacher.

    On D′, this teacher votes for other classes than on D, votes on other queries, or abstains. The mechanism should
    count at most `k` votes of each teacher. In some pairs, the teacher votes on every query, which reveals a mechanism
    that counts more than `k` votes. There are `queries` queries, but at most `_QUERIES`.
    """
    size = min(queries, _QUERIES)
    m, abstaining, every, turn = min(k, size), np.full(size, ABSTAINED), np.zeros(size, dtype=np.int64), np.arange(size)
    first, last = np.where(turn < m, 0, ABSTAINED), np.where(turn >= size - m, 1, ABSTAINED)
    rows = [
        (f"first {plural(m, 'vote')} for another class", first, np.where(first == ABSTAINED, ABSTAINED, 1)),
        (f"{m} votes for a class on the first queries, or for another on the last", first, last),
        (f"first {m} votes, or no votes", first, abstaining),
        ("votes on every query for another class", every, every + 1),
        ("votes on every query, or no votes", every, abstaining),
        ("votes for all classes in turn, or for others", turn % classes, (turn + 1) % classes),
    ]
    others = {"all others abstaining": np.full((teachers - 1, size), ABSTAINED)}
    if teachers > 1:
        others["all others voting on every query"] = np.tile(np.arange(teachers - 1)[:, None] % classes, (1, size))
    return [
        VotePair(
            f"one teacher's {words}, {how}",
            *(Votes.of(np.vstack([row, rest]), classes, abstentions=True) for row in (here, there)),
        )
        for how, rest in others.items()
        for words, here, there in rows
    ]


def weighted_pairs(teachers: int, classes: int, queries: int, k: int) -> list[VotePair]:
    """Return votes with weights on pairs of data sets, D and D′, that differ in one teacher's weights.

    The mechanism should limit the L2 norm of a teacher's weights to √`k`. Some weights exceed this limit, which reveals
    a mechanism that ignores it.
    """
    size = min(queries, _QUERIES)
    longest = math.isqrt(k * UNIT**2)
    one = np.where(np.arange(size) == 0, longest, 0)
    every = math.isqrt(k * UNIT**2 // size) * (1 - 2 * (np.arange(size) % 2))
    changes: list[tuple[str, Rows, Rows]] = [
        ("weight on one query, or the opposite one", [(one, 0)], [(-one, 0)]),
        ("weights for another class", [(every, 0)], [(every, 1)]),
        ("weights, or none", [(every, 0)], []),
        ("weights of 100 times the length allowed, or the opposite ones", [(100 * every, 0)], [(-100 * every, 0)]),
        ("two records of one class, or the opposite ones", [(every, 1)] * 2, [(-every, 1)] * 2),
        ("records of two classes, or the opposite ones", [(every, 0), (one, 1)], [(-every, 0), (-one, 1)]),
    ]
    others: dict[str, list[Rows]] = {"all others abstaining": [[]] * (teachers - 1)}
    if teachers > 1:
        others["all others voting"] = [[(every, i % classes)] for i in range(teachers - 1)]
    return [
        VotePair(f"one teacher's {words}, {how}", *(_weighted([rows, *rest], size, classes) for rows in (here, there)))
        for how, rest in others.items()
        for words, here, there in changes
    ]


def _weighted(teachers: Sequence[Rows], queries: int, classes: int) -> Votes:
    rows = [(vector, label, teacher) for teacher, rows in enumerate(teachers) for vector, label in rows]
    weights = np.array([vector for vector, *_ in rows], dtype=np.int64).reshape(-1, queries)
    labels, owners = (np.array([row[place] for row in rows], dtype=np.int64) for place in (1, 2))
    return Votes.from_weights(WeightedVotes.of(weights, labels, owners, classes), len(teachers), classes)


def agreed_tables(teachers: int, classes: int, queries: int, k: int) -> list[VotePair]:
    """Return pairs of data sets D and D′ with the same votes, to test the noise alone.

    In the first pair, all teachers vote for one class. In the second, two classes tie. There are at most `k` queries,
    so that the mechanism counts all votes.
    """
    agreed = np.zeros((teachers, min(k, queries)), dtype=np.int64)
    tied = agreed.copy()
    tied[teachers // 2 : teachers // 2 * 2], tied[teachers // 2 * 2 :] = 1, ABSTAINED
    named = {"only votes of all teachers for one class": agreed}
    if teachers > 1:
        named["only ties of two classes"] = tied
    every = {words: Votes.of(matrix, classes, abstentions=True) for words, matrix in named.items()}
    return [VotePair(words, votes, votes) for words, votes in every.items()]


def least_epsilon(noise: Noise | IntegerNoise, difference: Table, delta: float) -> float:
    """Return a lower bound on the ε at `delta` of releasing a table of counts with independent `noise` on each count.

    `difference` (queries, classes) is the table of true counts on D minus the table on D′. It must contain integers if
    the noise is on the integers.
    """
    if noise.is_none:
        return math.inf if difference.any() else 0.0
    if isinstance(noise, Gaussian):
        mu = float(np.linalg.norm(difference)) / noise.scale
        return independent.gaussian_dp(mu, delta) * (1 - 1e-9)
    epsilon = 0.0
    for size in np.unique(np.abs(difference[difference != 0])):
        cells = int(np.sum(np.abs(difference) >= size))  # number of counts that differ by at least `size`
        pair = noise.one_count(int(size)) if isinstance(noise, IntegerNoise) else noise.one_count(float(size))
        log_p, log_p_neighbour = pair
        epsilon = max(epsilon, compose(log_p, log_p_neighbour, np.ones(len(log_p), dtype=np.int64), cells, delta))
    return epsilon


@dataclass(frozen=True)
class TableAudit(AuditSetting):
    """Audit of a mechanism that releases a table of noisy counts; `weighted` is True if votes have weights."""

    mechanism: SparseArgmax
    weighted: bool = False

    def with_weights(self) -> "TableAudit":
        """Return the audit for votes with weights, which has other random streams and usually fewer runs."""
        runs = max(min(self.runs, _FIRST_RUNS), self.runs // _WEIGHTED)
        return replace(self, runs=runs, streams=lambda name: self.streams(f"weights/{name}"), weighted=True)

    def vote_pairs(self, queries: int) -> list[VotePair]:
        """Return the votes that the audit compares, on pairs of data sets D and D′, with at most `queries` queries."""
        create = weighted_pairs if self.weighted else table_pairs
        return create(self.drawn_teachers, self.classes, self._limit_queries(queries), int(self.mechanism.k))

    def label_pairs(self, queries: int) -> list[VotePair]:
        """Return the pairs in `vote_pairs` that differ in labels only, to audit ε under label differential privacy.

        Their votes are marked as `labels_only`; for such votes, the mechanism states the ε of a changed label. The
        result is [] for votes without weights, and if the mechanism states no ε under label differential privacy.
        """
        if not (self.weighted and self.mechanism.labels):
            return []
        return [
            VotePair(
                f"{pair.words}, public samples",
                replace(pair.here, labels_only=True),
                replace(pair.there, labels_only=True),
            )
            for pair in self.vote_pairs(queries)
            if np.array_equal(_weights(pair.here), _weights(pair.there))
        ]

    def _agreements(self, queries: int) -> list[VotePair]:
        if self.weighted:
            return []
        drawn = min(self._limit_queries(queries), _QUERIES)
        return agreed_tables(self.drawn_teachers, self.classes, drawn, int(self.mechanism.k))

    def _limit_queries(self, queries: int) -> int:
        """Return the number of queries in the tables that the audit draws: `queries` or fewer.

        There are fewer queries if each teacher adds a share of the noise, because all shares together are slow to draw.
        """
        return min(queries, max(1, _SHARES // self.shares))

    @property
    def drawn_teachers(self) -> int:
        """Return the number of teachers in the tables that the audit draws.

        It is at most `_TEACHERS`, unless each teacher adds a share of the noise.
        """
        return self.teachers if self.shares > 1 else min(self.teachers, _TEACHERS)

    @property
    def shares(self) -> int:
        """Return the number of random draws in one noisy count: `teachers` if each teacher adds noise, otherwise 1."""
        return self.mechanism.draws_per_count(self.teachers)

    @property
    def _runs(self) -> int:
        return min(self.runs, max(_FIRST_RUNS, self.runs * _RUNS_OF_SHARES // self.shares))

    @cached_property
    def noise(self) -> Noise | IntegerNoise:
        """Return the noise distribution that the mechanism states for each count.

        For votes with weights, it is continuous, because the steps of the discrete noise are very small there.
        """
        if self.weighted:
            return self.mechanism.noise_of(self.drawn_teachers)
        return self.mechanism.exact_noise(self.drawn_teachers)

    def exact(self, pair: VotePair) -> float:
        """Return a lower bound on the ε for the two data sets of `pair`, computed without runs.

        The computation uses the true counts and the stated noise.
        """
        return least_epsilon(self.noise, self._difference(pair), self.delta)

    def sampled(self, queries: int) -> Sampled:
        """Return the counts of an event in runs on the two data sets that are easiest to distinguish, to bound ε.

        The event is that a weighted sum of a table's released counts (see `_sums`) lies in certain ranges. Tables have
        at most `queries` queries. Separate runs choose the data sets, choose the event, and count it.
        """
        choosing, few = max(1000, self._runs // _CHOOSING), max(200, self._runs // _CHOOSING // 20)
        counting = max(1000, self._runs - choosing)
        candidates = [(pair, change) for pair in self.vote_pairs(queries) for change in self._changes(pair)]
        distances = [self._distance(*candidate, few, f"{queries}/{i}") for i, candidate in enumerate(candidates)]
        pair, change = candidates[int(np.argmax(distances))]
        here, there = (self._sums(pair, side, change, choosing, f"{queries}/choose/{side}") for side in (0, 1))
        edges = np.unique(np.quantile(np.concatenate([here, there]), np.linspace(0, 1, _SUMS + 1)[1:-1]))
        groups = [np.bincount(np.searchsorted(edges, sums), minlength=len(edges) + 1) for sums in (here, there)]
        one, two = (Known(counts / choosing, choosing) for counts in groups)
        ways = (pair, one, two), (pair.reversed(), two, one)
        events = {way: self.choose_event(counting, way.first_query, likely, rare, 1) for way, likely, rare in ways}
        chosen = max(events, key=lambda way: events[way].predicted[0])
        sides = self._count_sums(chosen, change, edges, counting, f"{queries}/count")
        return events[chosen].count(sides, self.confidence, queries, self.delta)

    def _distance(self, pair: VotePair, change: Table, runs: int, stream: str) -> float:
        """Return how far apart the sums of `_sums` are on D and on D′ of `pair`, in standard deviations.

        `change` (queries, classes) contains the weights of the sums. `runs` tables are drawn on each data set. The
        result is the difference of the two means, divided by the standard deviation of the difference of two sums.
        """
        here, there = (self._sums(pair, side, change, runs, f"{stream}/{side}") for side in (0, 1))
        deviation = math.hypot(float(here.std()), float(there.std()))
        return abs(float(here.mean() - there.mean())) / max(deviation, 1e-9)

    def discrete(self, sampled: Sampled, queries: int) -> Sampled:
        """Audit the data sets D and D′ of `sampled` again, in runs with seeded discrete noise, and return the result.

        The event is that a weighted sum of the released counts (see `_sums`) lies above a threshold. The threshold is
        halfway between the expected sums on D and on D′.
        """
        event = sampled.event
        assert event is not None
        both_ways = [way for pair in self.vote_pairs(queries) for way in (pair, pair.reversed())]
        pair = next(way for way in both_ways if way.words == event.pair.words)
        change, runs = self._changes(pair)[0], max(1000, self._runs // _CHOOSING)
        ends = [float(np.vdot(change, self._true_counts(votes))) for votes in (pair.here, pair.there)]
        halfway = np.array([sum(ends) / 2])  # between the expected sums of D and D′
        sides = self._count_sums(pair, change, halfway, runs, "discrete", discrete=True)
        upper = Event(event.pair, np.array([1]), 1, 0.5, (0.0, 0.0))
        return upper.count(sides, self.confidence, queries, self.delta)

    def tallies(self, queries: int) -> Iterator[Tally]:
        """Yield tests of the noise in released tables of at most `queries` queries, per query and per class.

        Released minus true counts are compared with the noise that the mechanism states. Further tests compare adjacent
        cells, to find noise that is not independent.
        """
        if self.noise.is_none:
            return
        stated = self._groups[1]
        same = float(stated @ stated)
        for i, pair in enumerate([*self.vote_pairs(queries), *self._agreements(queries)]):
            noise = self._residuals(pair, max(50, self._runs // 200), self.streams(f"noise/{queries}/{i}"))
            where = f"where there are {pair.words}"
            parts = {f"{where}, query {q + 1}": noise[:, q] for q in range(noise.shape[1])}
            parts |= {f"{where}, class {c}": noise[:, :, c] for c in range(noise.shape[2])}
            for words, part in parts.items():
                yield Tally(words, self._count_groups(part), stated, names=self._names)
            for axis, names in enumerate(_ADJACENT):
                seen = self._count_adjacent(noise, axis)
                yield Tally(where, seen, np.array([same, 1 - same]), plain=False, names=names)

    def release_tallies(self, queries: int) -> Iterator[TwoTallies]:
        """Yield tests that noise from the operating system has the same distribution as seeded noise.

        Released tables have at most `queries` queries.
        """
        several, agreeing = self.vote_pairs(queries)[::3], self._agreements(queries)
        for i, pair in enumerate([*several, *agreeing]):
            share = 6 if self.weighted or i >= len(several) else 3
            releases = max(_RELEASES, _NUMBERS // (share * pair.here.queries * self.classes * self.shares))
            seen = self._residuals(pair, releases, Entropy())
            drawn = self._residuals(pair, _REFERENCE * releases, DiscreteNoise(self.streams(f"table/{queries}/{i}")))
            where = f"cells where there are {pair.words}"
            parts = {where: slice(None)} | {
                f"{where}, of class {c}": slice(c, c + 1) for c in range(min(self.classes, 4))
            }
            for words, part in parts.items():
                counts = (self._count_groups(noise[:, :, part]) for noise in (seen, drawn))
                yield TwoTallies(words, *counts, names=self._names)
            for axis, names in enumerate(_ADJACENT):
                counts = (self._count_adjacent(noise, axis) for noise in (seen, drawn))
                yield TwoTallies(where, *counts, plain=False, names=names)
            names = ("the same noise as in the previous release", "other noise than in the previous release")
            counts = (count_repeats(noise.ravel(), noise[0].size) for noise in (seen, drawn))
            yield TwoTallies(where, *counts, plain=False, names=names)

    def _true_counts(self, votes: Votes) -> Table:
        """Return the true counts (queries, classes) to which the mechanism adds noise, in units of one vote."""
        return self.mechanism.counts(votes) / votes.unit

    def _difference(self, pair: VotePair) -> Table:
        return self._true_counts(pair.here) - self._true_counts(pair.there)

    def _changes(self, pair: VotePair) -> list[Table]:
        """Return the differences of counts on D and on D′ that the audit tries to detect, each (queries, classes).

        The first difference is between counts of at most k votes per teacher, as the mechanism should count them. The
        second is between counts of all votes; it reveals a mechanism that does not limit votes. If both are equal, only
        one is returned. Otherwise, a difference that is 0 everywhere is left out.
        """
        counted = self._difference(pair)
        every = (pair.here.counts - pair.there.counts) / pair.here.unit
        return [counted] if np.array_equal(counted, every) else [cells for cells in (counted, every) if cells.any()]

    def _tables(self, pair: VotePair, side: int, source: Source, runs: int) -> Iterator[Table]:
        votes = pair.there if side else pair.here
        return (self.mechanism.released(votes, source)["noisy_counts"] for _ in range(runs))

    def _sums(
        self, pair: VotePair, side: int, change: Table, runs: int, stream: str, *, discrete: bool = False
    ) -> Array:
        """Return a weighted sum of the released counts of each of `runs` tables: (runs,).

        The weights are `change` (queries, classes). The tables are drawn on D (`side` 0) or D′ (1), with discrete noise
        if `discrete` is True.
        """
        generator = self.streams(f"table/{stream}")
        source: Source = DiscreteNoise(generator) if discrete else generator
        return np.array([float(np.vdot(change, table)) for table in self._tables(pair, side, source, runs)])

    def _count_sums(
        self, pair: VotePair, change: Table, edges: Array, runs: int, stream: str, *, discrete: bool = False
    ) -> list[NDArray[np.int64]]:
        """Count the tables whose weighted sum lies in each range between `edges`; return the counts on D and on D′.

        Each array of counts is (edges + 1,). `_sums` draws `runs` tables per data set and computes the weighted sums.
        """
        sides = [self._sums(pair, side, change, runs, f"{stream}/{side}", discrete=discrete) for side in (0, 1)]
        return [np.bincount(np.searchsorted(edges, side), minlength=len(edges) + 1) for side in sides]

    def _residuals(self, pair: VotePair, runs: int, source: Source) -> Table:
        """Release `runs` tables of the data set D of `pair`; return released minus true counts.

        Returns
        -------
        (runs, queries, classes) array
        """
        counts = self._true_counts(pair.here)
        return np.stack([table - counts for table in self._tables(pair, 0, source, runs)])

    @cached_property
    def _groups(self) -> tuple[Array, Array]:
        """Return the edges that divide noise values into ranges, and the probability of each range.

        The ranges are about equally likely.
        """
        return self.noise.groups(_NOISES)

    @property
    def _names(self) -> list[str]:
        return [f"noise of group {group}" for group in range(len(self._groups[1]))]

    def _count_groups(self, residuals: Table) -> NDArray[np.int64]:
        edges, stated = self._groups
        return np.bincount(np.searchsorted(edges, residuals.ravel()), minlength=len(stated))

    def _count_adjacent(self, residuals: Table, axis: int) -> NDArray[np.int64]:
        """Return how many pairs of adjacent cells have residuals in the same group, and how many do not: (2,).

        `residuals` (releases, queries, classes) are released minus true counts. A group is a range of noise values
        (`_groups`). Cells are adjacent along `axis`.
        """
        slices = np.moveaxis(np.searchsorted(self._groups[0], residuals), axis, 0)
        return count_repeats(slices.ravel(), slices[0].size)


def disagreements(audit: TableAudit, queries: Sequence[int]) -> list[str]:
    """Return messages about wrong noise in released tables, or [] if there is none.

    Noise from a seed is compared with the stated noise, and noise from the operating system with noise from a seed.
    """
    lines = agreement.disagreements(tally for T in queries for tally in audit.tallies(T))
    if not audit.noise.is_none:
        lines += agreement.disagreements(audit.release_tallies(max(queries)))
    return lines
