"""The noisy argmax, which several mechanisms are: argmax(counts + independent noise per count)."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import exact, exact_accountant
from patebench.accounting.accountant import Accountant
from patebench.accounting.votes import Counts, Votes
from patebench.core.seeds import Source
from patebench.mechanisms.base import Labels, Mechanism
from patebench.mechanisms.noise import Noise

_CELLS = 1 << 22


@dataclass(frozen=True)
class NoisyArgmax(Mechanism):
    """argmax(counts + noise): always answers; of exactly tied scores, the lowest class."""

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The noise that each count gets."""

    def release(self, votes: Votes, rng: Source) -> Labels:
        labels = np.empty(votes.queries, dtype=np.int32)
        block = max(1, _CELLS // votes.classes)
        for start in range(0, votes.queries, block):
            counts = votes.counts[start : start + block]
            labels[start : start + block] = np.argmax(counts + self.noise.draw(counts.shape, rng), axis=1)
        return labels

    def log_outcome_probabilities(self, votes: Votes) -> NDArray[np.float64]:
        from patebench.mechanisms.quadrature import log_argmax_probabilities

        answers = log_argmax_probabilities(votes.counts, self.noise)
        return np.column_stack([answers, np.full(votes.queries, -np.inf)])

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        from patebench.mechanisms.neighbours import of_noisy_argmax

        if self.noise.scale == 0:
            return super().neighbours(counts)
        return of_noisy_argmax(counts, self.noise)

    def exact_accountants(self, votes: Votes) -> list[Accountant]:
        """The exact accountants; without noise there is no finite bound."""
        return exact_accountant.accountants(votes, self.neighbours if self.noise.scale > 0 else None)
