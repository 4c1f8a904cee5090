"""Mechanisms whose noise is a sum of shares, one from every teacher.

In this module one party sees all votes and adds the shares to counts. `patebench.secure` releases the same counts from
the same shares without revealing any vote. The cost of the summed shares is in `accounting/discrete_gaussian.py`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import discrete_gaussian
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated
from patebench.accounting.filter import PerQueryCost
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts, Votes, capped, winners
from patebench.core.bound import Conversion, Kind
from patebench.core.entropy import discrete_normal
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.mechanisms.base import Labels, Mechanism, Shown, never_abstaining, parameter
from patebench.mechanisms.noise import Gaussian, IntegerNoise, log_integer_argmax_probabilities, log_sum_of_normals
from patebench.mechanisms.sparse_argmax import Cells, SparseArgmax


@dataclass(frozen=True)
class NoiseShares(Mechanism):
    """Base class of mechanisms whose n teachers each add a discrete Gaussian of variance σ²/(n − t) to every count.

    t is the tolerance: if t teachers reveal their shares of the noise or never send them, the sum of all other shares
    still has variance σ².
    """

    discrete = True
    cost_needs = ("teachers",)

    sigma: float = parameter(low=0)
    tolerance: float = parameter(low=0, whole=True)

    @abstractmethod
    def counted(self, votes: NDArray[np.integer], teachers: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return `votes` (teachers × queries), with −1 (abstention) in place of votes that are not counted.

        Row i of `votes` is from the teacher with index `teachers[i]` in the ensemble. Row i of the result depends only
        on this row and this index.
        """

    def needed(self, teachers: int) -> int:
        """Return n − t, the number of teachers whose shares together have variance σ²; t is the tolerance."""
        needed = teachers - int(self.tolerance)
        if needed < 1:
            raise PatebenchError(
                f"tolerance = {self.tolerance:g} must be below the number of teachers, {teachers}; use a smaller one"
            )
        return needed

    def share_scale(self, teachers: int) -> float:
        """Return the noise scale σ/√(n − t) of the share of each of n = `teachers` teachers; t is the tolerance."""
        return self.sigma / math.sqrt(self.needed(teachers))

    def share(self, teachers: int, shape: tuple[int, ...], source: Source) -> NDArray[np.int64]:
        """Draw the noise share of one of `teachers` teachers, an array of this `shape`."""
        return discrete_normal(source, self.share_scale(teachers), shape)

    def in_units(self, unit: int) -> Self:
        """Return the mechanism with σ multiplied by `unit`, for counts in units of 1/`unit` of a vote."""
        return replace(self, sigma=self.sigma * unit)

    def exact_noise(self, teachers: int) -> IntegerNoise:
        """Return the exact distribution of the noise on a count if all `teachers` teachers add their shares."""
        return log_sum_of_normals(self.share_scale(teachers), teachers)

    def noisy(self, counts: Counts, teachers: int, rng: Source, unit: int = 1) -> Counts:
        """Return `counts` plus the noise shares of all `teachers` teachers, all in units of 1/`unit`.

        Each share is drawn by its own generator, spawned from `rng`. `patebench.secure` draws the same shares.
        """
        noisy, in_units = counts.copy(), self.in_units(unit)
        for source in rng.spawn(teachers):
            noisy += in_units.share(teachers, noisy.shape, source)
        return noisy

    def shared_accountants(
        self, teachers: int, times: Callable[[int], int], losses: str, counts: str
    ) -> list[Accountant]:
        """Return the worst-case accountants for releasing the noisy counts.

        Parameters
        ----------
        teachers : number n of teachers
        times : function of T; the mechanism counts at most `times(T)` votes of one teacher in the first T queries
        losses : description of the privacy loss, for the citation in `Accountant.source`
        counts : description of the released counts with their sensitivity, for the same citation, such as "noisy counts
            (Δ₂ = √2, d = 2)"
        """
        needed = self.needed(teachers)
        return [
            discrete_gaussian.accountant(
                lambda T, delta: discrete_gaussian.shared_counts_epsilon(self.sigma, needed, times(T), delta),
                f"{losses}; Kairouz, Liu, Steinke 2021, Corollary 12, for n − t shares",
            ),
            RenyiAccountant(
                kind=Kind.WORST_CASE,
                source=f"Kairouz, Liu, Steinke 2021, Theorem 1, for {counts} and n − t shares",
                discrete=discrete_gaussian.DISCRETE,
                totals=repeated(lambda orders: discrete_gaussian.shared_counts(self.sigma, needed, orders), times),
            ),
        ]


@dataclass(frozen=True)
class DistributedGNMax(NoiseShares):
    """GNMax whose noise is the sum of discrete Gaussian shares of variance σ²/(n − t), one from each of n teachers.

    The noisy counts are revealed. Their cost, valid even if t (`tolerance`) teachers withhold their shares, is the same
    for all votes, so there is no data-dependent bound.
    """

    shown = Shown("distributed GNMax", color="blue", marker="H")
    published = ("rdp", Conversion.TIGHT)
    example: ClassVar[Mapping[str, float]] = {"sigma": 20.0, "tolerance": 5.0}

    def counted(self, votes: NDArray[np.integer], teachers: NDArray[np.integer]) -> NDArray[np.integer]:
        return votes

    def release(self, votes: Votes, rng: Source) -> Labels:
        return winners(self.noisy(votes.counts, votes.teachers, rng))

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        answers = log_integer_argmax_probabilities(votes.counts, self.exact_noise(votes.teachers))
        return never_abstaining(answers)

    def per_query_cost(self, teachers: int, classes: int) -> PerQueryCost:
        needed = self.needed(teachers)
        return PerQueryCost(lambda orders: discrete_gaussian.shared_counts(self.sigma, needed, orders))

    def accountants(self, votes: Votes) -> list[Accountant]:
        losses, counts = "losses (T + Y)/σ², Y a sum of 2T draws", "noisy counts (Δ₂ = √2, d = 2)"
        return self.shared_accountants(votes.teachers, lambda T: T, losses, counts)


@dataclass(frozen=True)
class DistributedSparseGNMax(NoiseShares, SparseArgmax):
    """Sparse GNMax with noise shares: each of n teachers adds a discrete Gaussian of variance σ²/(n − t) to each count.

    Only the first k votes of each teacher are counted, but a teacher adds a share to every count. The cost is valid
    even if t (`tolerance`) teachers withhold their shares.

    Votes with weights are scaled down to a squared norm of at most k per teacher. Their counts and noise are integers
    in units of 1/UNIT of a vote (`accounting.votes`).
    """

    weights = True
    noise_without_teachers = False  # a removed teacher takes its noise share along, for which no bound is known here

    shown = Shown("distributed sparse GNMax", color="blue", marker="X")
    published = ("rdp", Conversion.TIGHT)
    example: ClassVar[Mapping[str, float]] = {"k": 2.0, "sigma": 20.0, "tolerance": 5.0}

    def counted(self, votes: NDArray[np.integer], teachers: NDArray[np.integer]) -> NDArray[np.integer]:
        return capped(votes, int(self.k), places=teachers)

    def weighted_worst_case(self, votes: Votes, squared_distance: int) -> list[Accountant]:
        needed, sigma = self.needed(votes.teachers), self.in_units(votes.unit).sigma
        # A teacher with several labels may change every cell. For several rounds, this is one table with all cells.
        squared = squared_distance * votes.unit**2
        table = "weighted votes (Δ₂ = 2√k, d = all cells; accounting/sparse.py) and n − t shares"

        def epsilon(T: int, delta: float) -> float:
            return discrete_gaussian.shared_table_epsilon(sigma, needed, squared, T * votes.classes, delta)

        def curve(T: int, orders: Array) -> Array:
            cells = T * votes.classes
            return discrete_gaussian.shared_counts(sigma, needed, orders, squared_distance=squared, cells=cells)

        return [
            DirectAccountant(
                name="gdp",
                kind=Kind.WORST_CASE,
                source=f"Balle & Wang 2018, Theorem 8; Kairouz, Liu, Steinke 2021, Corollary 12, for {table}",
                discrete=discrete_gaussian.DISCRETE,
                epsilon=epsilon,
            ),
            RenyiAccountant(
                kind=Kind.WORST_CASE,
                source=f"Kairouz, Liu, Steinke 2021, Theorem 1, for {table}",
                discrete=discrete_gaussian.DISCRETE,
                totals=lambda queries, orders: np.stack([curve(T, orders) for T in queries]),
            ),
        ]

    def noise_of(self, teachers: int | None = None, sent: int | None = None) -> Gaussian:
        """Return Gaussian noise with the same variance as the noise of one count, to which `sent` teachers add a share.

        `teachers` is the number of teachers in the ensemble; `sent` = None means all of them. The sum of the shares is
        nearly Gaussian if the standard deviation of a share is above ½.
        """
        if teachers is None:
            raise PatebenchError(
                f"the noise of {type(self).__name__} depends on the number of teachers, which these labels do "
                "not contain; give labels that patebench released"
            )
        return Gaussian(self.share_scale(teachers) * math.sqrt(teachers if sent is None else sent))

    def draws_per_count(self, teachers: int) -> int:
        return teachers

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        if votes.weighted is not None:  # units are so small that noise is nearly continuous
            return super().log_outcome_probabilities(votes)
        answers = log_integer_argmax_probabilities(self.counts(votes), self.exact_noise(votes.teachers))
        return never_abstaining(answers)

    def worst_case(self, cells: Cells, teachers: int) -> list[Accountant]:
        losses = "losses (m + Y)/σ², Y a sum of 2m draws (accounting/sparse.py)"
        counts = "2m cells (Δ₂ = √(2m), d = 2m; accounting/sparse.py)"
        return self.shared_accountants(teachers, lambda T: math.ceil(cells(T) / 2), losses, counts)
