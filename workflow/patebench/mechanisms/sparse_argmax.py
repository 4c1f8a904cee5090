"""Release one table of noisy counts, with at most k counted votes per teacher and Gaussian or Laplace noise.

The theorem is in `accounting/sparse.py`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import discrete_gaussian, independent, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated, with_added
from patebench.accounting.logspace import Array
from patebench.accounting.sparse import most_votes, participations, weighted_distance
from patebench.accounting.votes import Counts, Votes, capped, winners
from patebench.accounting.votes import counts as count
from patebench.core.bound import Conversion, Kind
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.mechanisms.base import Answering, Labels, Mechanism, Shown, never_abstaining, parameter
from patebench.mechanisms.noise import GAUSSIAN, LAPLACE, Gaussian, IntegerNoise, Laplace, Noise
from patebench.mechanisms.quadrature import log_argmax_probabilities

#: Function of the number of queries T. It returns the maximum number of cells (counts in the table) that differ between
#: the tables of two neighbours for T queries.
Cells = Callable[[int], int]

#: Cache of counts by votes and mechanism, because an audit releases tables of the same votes thousands of times.
_COUNTS: WeakKeyDictionary[Votes, dict["SparseArgmax", Counts]] = WeakKeyDictionary()


@dataclass(frozen=True)
class SparseArgmax(Mechanism):
    """Base class of mechanisms that release a table of noisy counts; labels are the classes with the largest counts.

    Queries may be asked in several rounds. In each round, at most `k` votes of each teacher are counted: the first `k`
    in a public order of the queries (`votes.capped`). Votes with weights are instead scaled down to a squared norm of
    at most `k` per teacher. The mechanism enforces this cap, so ε is valid even if teachers cast more votes.

    One vote of a teacher may decide whether a later vote of this teacher counts. Queries therefore depend on each
    other, and the cost is stated for whole tables, not per query.
    """

    discrete = True
    abstentions = True
    answering = Answering.AS_TABLE

    #: True if the noise stays the same when a teacher is added or removed.
    noise_without_teachers: ClassVar[bool] = True

    k: float = parameter(low=1, high=1e9, whole=True)

    @abstractmethod
    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Noise:
        """Return the noise of each count in the table that an ensemble of `teachers` teachers releases.

        `sent` is the number of teachers that took part, with votes and noise; None: all. Both arguments may be left out
        if the noise does not depend on the number of teachers.
        """

    def exact_noise(self, teachers: int) -> Noise | IntegerNoise:
        """Return the exact distribution of the noise on each count in experiments, which draw noise from a seed.

        The base class returns the continuous noise `noise_of(teachers)`. Override this method if the noise in
        experiments is on the integers, and return an `IntegerNoise`.
        """
        return self.noise_of(teachers)

    def draws_per_count(self, teachers: int) -> int:
        """Return the number of random draws whose sum is the noise of one count: 1, or one per teacher."""
        return 1

    def noisy(self, counts: Counts, teachers: int, rng: Source, unit: int = 1) -> NDArray[Any]:
        """Return `counts` plus noise, both in units of 1/`unit`.

        `counts` (queries × classes) are the summed votes of `teachers` teachers.
        """
        noise = self.noise_of(teachers)
        return counts + replace(noise, scale=noise.scale * unit).draw(counts.shape, rng)

    def release(self, votes: Votes, rng: Source) -> Labels:
        return self.released(votes, rng)["labels"]

    def released(self, votes: Votes, rng: Source) -> dict[str, NDArray[Any]]:
        noisy = self.noisy(self.counts(votes), votes.teachers, rng, votes.unit)
        if votes.weighted is not None:
            noisy = noisy / votes.unit
        return {"labels": winners(noisy), "noisy_counts": noisy}

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        """Return ln Pr of each label and of "no answer" for each query, (queries, classes + 1).

        Given the votes, labels of different queries are independent.
        """
        answers = log_argmax_probabilities(self.counts(votes) / votes.unit, self.noise_of(votes.teachers))
        return never_abstaining(answers)

    def most_participation(self, queries: int) -> int:
        return participations(int(self.k), queries)

    def votes_within_cap(self, votes: Votes) -> NDArray[np.integer]:
        """Return the votes (teachers × queries), with abstentions in place of a teacher's votes beyond the cap `k`."""
        if votes.matrix is None:
            raise PatebenchError(
                f"{type(self).__name__} needs the votes of each teacher, but only counts are available; give the table "
                "of votes (teachers × queries)"
            )
        return capped(votes.matrix, int(self.k), votes.rounds)

    def counts(self, votes: Votes) -> Counts:
        """Return the table before noise, (queries × classes), as integers; read-only.

        An entry is the number of votes for a class. If votes have weights, it is the sum of these weights, in units of
        1/`votes.unit`. For each teacher, only votes within the cap `k` are counted.
        """
        known = _COUNTS.setdefault(votes, {})
        if self not in known:
            if votes.weighted is None:
                known[self] = count(self.votes_within_cap(votes), votes.classes, abstentions=True)
            else:
                known[self] = votes.weighted.limited(self.k).table(votes.classes)
            known[self].setflags(write=False)
        return known[self]

    def accountants(self, votes: Votes) -> list[Accountant]:
        if votes.weighted is not None:
            squared = weighted_distance(int(self.k), votes.rounds, labels=votes.labels_only)
            replaced = self.weighted_worst_case(votes, squared)
            if votes.labels_only or not self.noise_without_teachers:
                return replaced
            return with_added(replaced, self.weighted_worst_case(votes, squared // 4))

        def most_changed_cells(queries: int) -> int:
            """Return the largest number of counts that one teacher can change in the tables of `queries` queries."""
            return 2 * participations(int(self.k), queries, votes.rounds)

        worst_case = self.worst_case(most_changed_cells, votes.teachers)
        if votes.labels_only:  # each counted vote moves to another class, as if the record were replaced
            return worst_case
        if self.noise_without_teachers:
            removed = self.worst_case(lambda T: most_changed_cells(T) // 2, votes.teachers)
            worst_case = with_added(worst_case, removed)
        if votes.matrix is None:
            return worst_case
        # In the worst neighbour, the teacher with the most votes has the maximum number of votes, all in other cells.
        # With two or more classes this neighbour exists, and no other neighbour differs in more cells.
        most = most_votes(self.votes_within_cap(votes))
        return [*worst_case, *self.exact(lambda T: most_changed_cells(T) // 2 + int(most[T - 1]))]

    @abstractmethod
    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
        """Return worst-case accountants for neighbours whose tables differ in at most `cells(T)` counts, by 1 each.

        T is the number of queries.
        """

    def weighted_worst_case(self, votes: Votes, squared_distance: int) -> list[Accountant]:
        """Return worst-case accountants for tables of weighted `votes`, whose neighbours have a limited L2 distance.

        The square of the distance is at most `squared_distance`. The base class raises PatebenchError.
        """
        raise PatebenchError(f"{type(self).__name__} has no theorem for votes with weights", code="weights")

    def check_noise(self, stated: Noise, teachers: int) -> None:
        """Raise PatebenchError unless the noise of a count is `stated`, for which the bounds on ε hold.

        In a class of another package, the noise may differ.
        """
        if self.noise_of(teachers) != stated:
            raise PatebenchError(
                f"the noise of {type(self).__name__} is not {stated}, for which ε is known; override the method"
                " 'accountants' too"
            )

    def exact(self, cells: Cells) -> list[Accountant]:
        """Return data-dependent accountants of the exact divergence between the votes and their worst neighbour.

        For T queries, the tables of the votes and of this neighbour differ in `cells(T)` counts, by 1 each. The base
        class returns [].
        """
        return []


@dataclass(frozen=True)
class SparseGNMax(SparseArgmax):
    """Sparse GNMax: release a table of counts of each teacher's first k votes, with noise N(0, σ²) on every count.

    Each round of queries has its own table, which is √(2k)/σ-GDP. If k is the number of queries, the noisy counts and
    their Gaussian DP cost are those of GNMax. If votes have weights, a table contains sums of weights and is 2√k/σ-GDP.
    """

    weights = True
    labels = True

    shown = Shown("sparse GNMax", color="blue", marker="P")
    published = ("gdp", Conversion.NONE)
    example: ClassVar[Mapping[str, float]] = {"k": 2.0, "sigma": 10.0}

    sigma: float = parameter(low=0)

    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Gaussian:
        return Gaussian(self.sigma)

    def weighted_worst_case(self, votes: Votes, squared_distance: int) -> list[Accountant]:
        gdp, renyi = self.worst_case(lambda T: squared_distance, votes.teachers)
        how = "√(2k) of votes with another label" if votes.labels_only else "2√k of weighted votes"
        theorem = f"accounting/sparse.py, L2 distance {how}"
        return [
            replace(gdp, discrete=None, source=f"Balle & Wang 2018, Theorem 8; {theorem}"),
            replace(renyi, source=f"Mironov 2017, Proposition 7; {theorem}"),
        ]

    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
        self.check_noise(Gaussian(self.sigma), teachers)

        def curve(orders: Array) -> Array:
            return rdp.gaussian(self.sigma, orders) / 2

        return [
            DirectAccountant(
                name="gdp",
                kind=Kind.WORST_CASE,
                source="Balle & Wang 2018, Theorem 8; Dong, Roth, Su 2022, Theorem 3.2; accounting/sparse.py, 2m cells",
                epsilon=lambda T, delta: self._gdp(cells(T), delta),
                discrete=discrete_gaussian.accountant(
                    lambda T, delta: discrete_gaussian.epsilon(self.sigma, cells(T), delta),
                    "losses (m + Y)/σ², Y a sum of 2m draws (accounting/sparse.py)",
                ),
            ),
            RenyiAccountant(
                kind=Kind.WORST_CASE,
                source="Mironov 2017, Proposition 7; accounting/sparse.py, L2 distance √(2m)",
                discrete=GAUSSIAN,
                totals=repeated(curve, cells),
            ),
        ]

    def exact(self, cells: Cells) -> list[Accountant]:
        return [
            DirectAccountant(
                name="exact-per-teacher",
                label="exact per teacher",
                exact=True,
                kind=Kind.DATA_DEPENDENT,
                source="Balle & Wang 2018, Theorem 8: the worst row in place of the teacher's with most votes",
                epsilon=lambda T, delta: self._gdp(cells(T), delta),
            )
        ]

    def _gdp(self, cells: int, delta: float) -> float:
        return independent.gaussian_dp(independent.cells_mu(self.sigma, cells), delta)


@dataclass(frozen=True)
class SparseLNMax(SparseArgmax):
    """Sparse LNMax: release a table of counts of each teacher's first k votes, with noise Lap(1/γ) on every count.

    Each round of queries has its own table, which is 2kγ-DP: a teacher changes at most 2k counts, by 1 each, and a
    noisy count is γ-DP, also with discrete Laplace noise. If votes have weights, a table of d counts is 2γ√(kd)-DP and
    2kγ²-zCDP.
    """

    weights = True
    labels = True

    shown = Shown("sparse LNMax", color="orange", marker="P")
    published = ("basic", Conversion.NONE)
    example: ClassVar[Mapping[str, float]] = {"k": 2.0, "gamma": 0.05}

    gamma: float = parameter(low=0, above=True)

    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Laplace:
        return Laplace(1 / self.gamma)

    def weighted_worst_case(self, votes: Votes, squared_distance: int) -> list[Accountant]:
        self.check_noise(Laplace(1 / self.gamma), votes.teachers)
        distance = math.sqrt(squared_distance) * self.gamma * (1 + 1e-15)  # rounded up, in units of the noise scale

        def pure(queries: int) -> float:
            """Return ε of all counts of `queries` queries, by the Cauchy–Schwarz inequality."""
            return distance * math.sqrt(queries * votes.classes)

        def totals(queries: Sequence[int], orders: Array) -> Array:
            limits = np.array([pure(T) for T in queries])[:, None]
            with np.errstate(over="ignore"):
                return np.minimum(np.square(distance) / 2 * orders, limits)

        return [
            DirectAccountant(
                name="basic",
                kind=Kind.WORST_CASE,
                source="Dwork & Roth 2014, Theorem 3.6; accounting/sparse.py, L1 distance of weighted votes",
                discrete=LAPLACE,
                epsilon=lambda T, delta: pure(T),
            ),
            RenyiAccountant(
                kind=Kind.WORST_CASE,
                source="Bun & Steinke 2016, Proposition 3.3; accounting/sparse.py, L2 distance of weighted votes",
                discrete=LAPLACE,
                totals=totals,
            ),
        ]

    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
        self.check_noise(Laplace(1 / self.gamma), teachers)
        theorem = "accounting/sparse.py, 2m cells that are γ-DP each"
        any_noise = RenyiAccountant(
            kind=Kind.WORST_CASE,
            source=f"{theorem}; Mironov 2017, Proposition 10",
            discrete=LAPLACE,
            totals=repeated(lambda orders: rdp.pure(self.gamma, orders), cells),
        )
        return [
            DirectAccountant(
                name="basic",
                kind=Kind.WORST_CASE,
                source=f"Dwork & Roth 2014, Theorems 3.6 and 3.16: 2mγ; {theorem}",
                discrete=LAPLACE,
                epsilon=lambda T, delta: cells(T) * self.gamma,
            ),
            DirectAccountant(
                name="pld",
                kind=Kind.WORST_CASE,
                source=f"{theorem}; Kairouz, Oh, Viswanath 2015, Theorem 3.3",
                discrete=LAPLACE,
                epsilon=lambda T, delta: independent.pure_composition(self.gamma, cells(T), delta),
            ),
            RenyiAccountant(
                kind=Kind.WORST_CASE,
                source="Mironov 2017, Proposition 6, for 2m cells (accounting/sparse.py)",
                discrete=any_noise,
                totals=repeated(lambda orders: rdp.laplace_cell(self.gamma, orders), cells),
            ),
        ]

    def exact(self, cells: Cells) -> list[Accountant]:
        return [
            RenyiAccountant(
                name="exact-per-teacher",
                label="exact per teacher",
                exact=True,
                kind=Kind.DATA_DEPENDENT,
                source="Mironov 2017, Proposition 6: the worst row in place of the teacher's with most votes",
                totals=repeated(lambda orders: rdp.laplace_cell(self.gamma, orders), cells),
            )
        ]
