"""Private Evolution (Lin et al., ICLR 2024) on a public pool: a class keeps the samples that its records vote for.

In the first round, all classes have the same candidates: random samples of the pool. In every round, each private
record votes for the nearest candidate of its class, and the vote counts of all candidates are released with noise. The
weight of a candidate is the excess of its noisy count over a threshold. For the next round, up to half of the
candidates are drawn from the candidates of this round, by weight. The others are samples of the pool near the drawn
candidates. The weighted candidates of the last round train a linear classifier, and a student learns from their labels.

Differences from the authors' code (microsoft/DPSDA): samples of the pool replace generated samples, and classes have
equal numbers of candidates instead of the private class frequencies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.baselines.on_features.feature_method import (
    Array,
    Fitted,
    GaussianSums,
    PrivateRecords,
    linear_scores,
)
from patebench.features.cells import nearest, nearest_several

#: Threshold on noisy counts, in standard deviations of the noise.
_THRESHOLD = 2.0
#: Number of samples of the pool near the drawn candidates, divided by the number of candidates. The other half of the
#: next candidates are drawn from these samples.
_NEAR = 10


@dataclass(frozen=True, kw_only=True)
class PrivateEvolution(GaussianSums):
    """Private Evolution: private records vote for public samples that are candidates for their class.

    Each class has `candidates` candidates in each of `rounds` rounds. A record votes for the nearest candidate of its
    class, and the counts are released with noise. Replacing a record changes two counts per round by one; adding or
    removing it changes one.
    """

    rounds: int = 1
    candidates: int = 300

    @property
    def squared_changes(self) -> tuple[float, float]:
        return 2.0 * self.rounds, 1.0 * self.rounds

    @property
    def releases(self) -> int:
        return self.rounds

    def fit(self, private: PrivateRecords, pool: Array, classes: int, rng: np.random.Generator) -> Fitted:
        positions = [rng.permutation(len(pool))[: self.candidates]] * classes
        weights = self._candidate_weights(private, pool, positions, rng)
        for _ in range(self.rounds - 1):
            positions = [_draw_next(own, weights[:, label], pool, rng) for label, own in enumerate(positions)]
            weights = self._candidate_weights(private, pool, positions, rng)
        class_weights = np.zeros((len(pool), classes))
        for label, own in enumerate(positions):
            np.add.at(class_weights[:, label], own, weights[:, label])
        labels = np.where(class_weights.any(axis=1), class_weights.argmax(axis=1), -1)
        return Fitted(linear_scores(pool, class_weights), "linear on chosen samples", pool.shape[1] * classes, labels)

    def _candidate_weights(
        self, private: PrivateRecords, pool: Array, positions: Sequence[NDArray[np.intp]], rng: np.random.Generator
    ) -> Array:
        """Release the noisy vote counts of all candidates, and return the candidates' weights (candidates, classes).

        `positions` contains, for each class, the positions of its candidates in `pool`. A weight is the excess of a
        noisy count over a threshold. If a class has no count above the threshold, only its largest count gets a weight.
        The weights of a class are scaled to a sum of 1.
        """
        votes = [
            np.bincount(nearest(private.features[private.labels == label], pool[own]), minlength=len(own))
            for label, own in enumerate(positions)
        ]
        counts = self.noisy(np.column_stack(votes).astype(np.float64), rng)
        excess = np.maximum(counts - _THRESHOLD * self.noise, 0)
        # Without a count above the threshold, the largest one is kept.
        excess = np.where(excess.any(axis=0), excess, counts == counts.max(axis=0))
        return excess / excess.sum(axis=0)


def _draw_next(positions: NDArray[np.intp], weights: Array, pool: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the candidates of one class for the next round, as positions in `pool`.

    `positions` (candidates,) are the current candidates, and `weights` (candidates,) are their weights. At most half of
    the next candidates are current ones, drawn by weight. The others are samples of the pool near the drawn candidates.
    The number of candidates does not change.
    """
    size = len(positions)
    drawn = np.unique(rng.choice(positions, size, p=weights))[: (size + 1) // 2]
    near = nearest_several(pool[drawn], pool, min(_NEAR * size // len(drawn), len(pool)))
    others = rng.permutation(np.setdiff1d(near, drawn))[: size - len(drawn)]
    return np.resize(np.concatenate([drawn, others]), size)
