"""Mechanism of another package: the plurality, or with some probability a random class."""

from dataclasses import dataclass

import numpy as np

from patebench.mechanisms.base import Mechanism, parameter


@dataclass(frozen=True)
class Toy(Mechanism):
    """Mechanism that returns a random class with probability `chance`, else the class with most votes."""

    chance: float = parameter(low=0, above=True, high=1)

    def release(self, votes, rng):
        drawn = rng.integers(0, votes.classes, size=votes.queries)
        return np.where(rng.random(size=votes.queries) < self.chance, drawn, votes.plurality).astype(np.int32)

    def log_outcome_probabilities(self, votes):
        probabilities = np.full((votes.queries, votes.classes), self.chance / votes.classes)
        probabilities[np.arange(votes.queries), votes.plurality] += 1 - self.chance
        return np.column_stack([np.log(probabilities), np.full(votes.queries, -np.inf)])
