"""The stable argmax inside the sparse vector technique: the plurality, until too many queries were unstable."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import stability
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Votes
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.mechanisms.base import NO_ANSWER, Labels, Mechanism
from patebench.mechanisms.noise import Noise

#: How far quadrature reaches, in scales of the threshold's noise: e⁻⁴⁰ and less lies beyond.
_REACH = 40.0

#: Probabilities below this make no difference to what is seen.
_NOTHING = 1e-20

#: Gauss–Legendre nodes and weights on [0, 1], for each panel.
_NODES, _WEIGHTS = (part / 2 for part in np.polynomial.legendre.leggauss(8))


@dataclass(frozen=True)
class SparseVector(Mechanism):
    """The plurality if d + ν > threshold + ρ, else no answer, and none any more after `cutoff` queries without.

    ρ is drawn once and ν for every query; d is `stability.distance`. A query with d ≤ 1 is answered with probability
    `failure` at most, so T·failure is paid in δ (the theorem of `stability`). What the tests cost is the theorem of
    `accounting.sparse_vector`.
    """

    independent_queries: ClassVar[bool] = False
    tests_stability: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parameters()["cutoff"] % 1:
            raise PatebenchError(f"{type(self).__name__}: cutoff = {self.parameters()['cutoff']:g} is no whole number")

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Where d is compared, before noise."""

    @property
    @abstractmethod
    def noises(self) -> tuple[Noise, Noise]:
        """The noise of the threshold, and that of each test."""

    @property
    def failures(self) -> int:
        """How many queries may fail before it stops."""
        return int(self.parameters()["cutoff"])

    def release(self, votes: Votes, rng: Source) -> Labels:
        of_threshold, of_test = self.noises
        limit = self.threshold + of_threshold.draw((1,), rng)
        failed = stability.distance(votes.counts) + of_test.draw((votes.queries,), rng) <= limit
        answered = ~failed & (np.cumsum(failed) < self.failures)
        return np.where(answered, votes.plurality, np.int32(NO_ANSWER))

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        """Marginals: queries depend on each other through ρ and through how many failed before.

        Given ρ they are independent, so the number of failures so far is carried from query to query at every node of
        a quadrature over ρ.
        """
        answered = self._answered(stability.distance(votes.counts))
        log_p = np.full((votes.queries, votes.classes + 1), -np.inf)
        with np.errstate(divide="ignore"):
            log_p[np.arange(votes.queries), votes.plurality] = np.log(answered)
        log_p[:, -1] = np.log1p(-answered)
        return log_p

    def _answered(self, distance: NDArray[np.int64]) -> Array:
        """Pr[answered] of each query."""
        values, which = np.unique(distance, return_inverse=True)
        rho, mass = self._threshold_nodes(values)
        of_test = self.noises[1]
        failing = np.exp(of_test.log_distribution((self.threshold + rho - values[:, None]) / of_test.scale))
        state = np.zeros((min(self.failures, len(distance)), len(rho)))
        state[0] = mass
        result = np.zeros(len(distance))
        for query, row in enumerate(which):
            failed = state * failing[row]
            state -= failed
            result[query] = state.sum()
            state[1:] += failed[:-1]
            if query % 64 == 0 and state.sum() < _NOTHING:
                break
        return np.clip(result, 0.0, 1 - 1e-16)

    def _threshold_nodes(self, distances: NDArray[np.int64]) -> tuple[Array, Array]:
        """Nodes for ρ and their mass: panels end where its density bends, or the chance of some distance does."""
        noise = self.noises[0]
        edge = _REACH * noise.scale
        bends = np.concatenate([np.linspace(-edge, edge, 161), distances - self.threshold])
        edges = np.unique(bends[np.abs(bends) <= edge])
        width = np.diff(edges)[:, None]
        rho = (edges[:-1, None] + width * (_NODES + 0.5)).ravel()
        mass = np.exp(noise.log_density(rho / noise.scale)) / noise.scale * (width * _WEIGHTS).ravel()
        return rho[mass > _NOTHING], mass[mass > _NOTHING]
