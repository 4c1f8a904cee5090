"""One released table of noisy counts in which each teacher has at most k votes, with Gaussian or Laplace noise.

The theorem is in `accounting/sparse.py`.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import discrete_gaussian, independent, rdp
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated, with_added
from patebench.accounting.logspace import Array
from patebench.accounting.sparse import most_votes, participations, weighted_distance
from patebench.accounting.votes import Counts, Votes, capped
from patebench.accounting.votes import counts as count
from patebench.core.bound import Conversion, Kind
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.mechanisms.base import Answering, Labels, Mechanism, Shown, parameter
from patebench.mechanisms.noise import GAUSSIAN, LAPLACE, Gaussian, IntegerNoise, Laplace, Noise

#: Maximum number of cells in which the tables of neighbours differ, from the number of queries.
Cells = Callable[[int], int]

#: Counts by votes and mechanism, because an audit releases tables of the same votes thousands of times.
_COUNTS: WeakKeyDictionary[Votes, dict["SparseArgmax", Counts]] = WeakKeyDictionary()


@dataclass(frozen=True)
class SparseArgmax(Mechanism):
    """Counts + noise for all queries, released as one table; labels are each query's largest, ties to the lowest class.

    The first `k` votes of each teacher count, in a public order (`votes.capped`), separately in each round. Votes with
    weights are scaled down to a squared norm of at most `k` per teacher instead. The mechanism itself does so, so its
    cost does not depend on any teacher's honesty.

    Whether a vote counts depends on the votes before it, so no query is independent or has a cost of its own.
    """

    discrete = True
    abstentions = True
    answering = Answering.AS_TABLE

    k: float = parameter(low=1, high=1e9, whole=True)

    @abstractmethod
    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Noise:
        """Return the noise of each count in a table of `teachers` teachers.

        `sent` is the number of teachers whose votes and noise are in the table, if fewer than all. Both may be left out
        if the noise does not depend on them.
        """

    def exact_noise(self, teachers: int) -> Noise | IntegerNoise:
        """Return the exact noise of each count, for mechanisms that add integers in experiments too."""
        return self.noise_of(teachers)

    def draws_per_count(self, teachers: int) -> int:
        """Return the number of draws that add up to the noise of a count."""
        return 1

    def noisy(self, counts: Counts, teachers: int, rng: Source) -> NDArray[Any]:
        """Return the counts of `teachers` teachers with noise."""
        return counts + self.noise_of(teachers).draw(counts.shape, rng)

    def release(self, votes: Votes, rng: Source) -> Labels:
        return self.released(votes, rng)["labels"]

    def released(self, votes: Votes, rng: Source) -> dict[str, NDArray[Any]]:
        counts = self.counts(votes)
        if votes.weighted is None:
            noisy = self.noisy(counts, votes.teachers, rng)
        else:
            noise = self.noise_of(votes.teachers)
            noisy = (counts + replace(noise, scale=noise.scale * votes.unit).draw(counts.shape, rng)) / votes.unit
        return {"labels": np.argmax(noisy, axis=1).astype(np.int32), "noisy_counts": noisy}

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        """Compute the probabilities of each label by itself, given all votes: the noise is independent."""
        from patebench.mechanisms.quadrature import log_argmax_probabilities

        answers = log_argmax_probabilities(self.counts(votes) / votes.unit, self.noise_of(votes.teachers))
        return np.column_stack([answers, np.full(votes.queries, -np.inf)])

    def most_participation(self, queries: int) -> int:
        return participations(int(self.k), queries)

    def kept(self, votes: Votes) -> NDArray[np.integer]:
        """Return the votes that count, teachers × queries."""
        if votes.matrix is None:
            raise PatebenchError(
                f"{type(self).__name__} counts the first votes of each teacher, and only counts are available; "
                "give the votes, teachers × queries"
            )
        return capped(votes.matrix, int(self.k), votes.rounds)

    def counts(self, votes: Votes) -> Counts:
        """Return the sum of the kept votes for each class, queries × classes; the array is read-only.

        They are in units of 1/`votes.unit`.
        """
        known = _COUNTS.setdefault(votes, {})
        if self not in known:
            known[self] = self._sum(votes)
            known[self].setflags(write=False)
        return known[self]

    def _sum(self, votes: Votes) -> Counts:
        if votes.weighted is not None:
            return votes.weighted.limited(self.k).table(votes.classes)
        return count(self.kept(votes), votes.classes, abstentions=True)

    def accountants(self, votes: Votes) -> list[Accountant]:

        def any_votes(queries: int) -> int:
            """Return the maximum for any votes: all votes of a teacher change cells."""
            return 2 * participations(int(self.k), queries, votes.rounds)

        worst_case = self.worst_case(any_votes, votes.teachers)
        if votes.labels_only:  # each counted vote moves to another class, as if the record were replaced
            return worst_case
        if self.draws_per_count(votes.teachers) == 1:  # shares of noise are accounted for in pairs of cells
            removed = self.worst_case(lambda T: any_votes(T) // 2, votes.teachers)
            worst_case = with_added(worst_case, removed)
        if votes.matrix is None:
            return worst_case
        # The teacher with the most votes loses them all, and gets as many as are allowed in other cells. With two
        # classes or more there is such a neighbour, and none differs in more cells.
        most = most_votes(self.kept(votes))
        return [*worst_case, *self.exact(lambda T: any_votes(T) // 2 + int(most[T - 1]))]

    @abstractmethod
    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
        """Return accountants for tables of `teachers` teachers that differ in `cells` cells, by one each."""

    def exact(self, cells: Cells) -> list[Accountant]:
        """Return accountants of the exact cost of tables that differ in `cells` cells; empty if unknown.

        Some pair of tables has this cost, and none has more.
        """
        return []


@dataclass(frozen=True)
class SparseGNMax(SparseArgmax):
    """Table of counts + N(0, σ²), √(2k)/σ-GDP as a whole for any number of queries; k = 1 counts one vote per teacher.

    For k = T it is GNMax with its noisy counts released, at GNMax's cost by Gaussian DP. Of votes with weights it
    releases the sums, at 2√k/σ-GDP.
    """

    weights = True
    labels = True

    shown = Shown("sparse GNMax", color="blue", marker="P")
    published = ("gdp", Conversion.NONE)
    example: ClassVar[Mapping[str, float]] = {"k": 2.0, "sigma": 10.0}

    sigma: float = parameter(low=0)

    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Gaussian:
        return Gaussian(self.sigma)

    def accountants(self, votes: Votes) -> list[Accountant]:
        if votes.weighted is None:
            return super().accountants(votes)
        distance = weighted_distance(int(self.k), votes.rounds, labels=votes.labels_only)
        replaced = self.worst_case(lambda T: distance, votes.teachers)
        if not votes.labels_only:
            replaced = with_added(replaced, self.worst_case(lambda T: distance // 4, votes.teachers))
        gdp, renyi = replaced
        how = "√(2k) of votes with another label" if votes.labels_only else "2√k of weighted votes"
        theorem = f"accounting/sparse.py, L2 distance {how}"
        return [
            replace(gdp, discrete=None, source=f"Balle & Wang 2018, Theorem 8; {theorem}"),
            replace(renyi, source=f"Mironov 2017, Proposition 7; {theorem}"),
        ]

    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
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
    """Table of counts + Lap(1/γ), 2kγ-DP as a whole for any number of queries.

    A cell that changes, changes by one, so it is γ-DP, also with discrete Laplace noise. Cells that do not change cost
    nothing.
    """

    labels = True

    shown = Shown("sparse LNMax", color="orange", marker="P")
    published = ("basic", Conversion.NONE)
    example: ClassVar[Mapping[str, float]] = {"k": 2.0, "gamma": 0.05}

    gamma: float = parameter(low=0, above=True)

    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Laplace:
        return Laplace(1 / self.gamma)

    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
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
