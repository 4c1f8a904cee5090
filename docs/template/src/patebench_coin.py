"""A mechanism for patebench: the plurality, or with some chance any class."""

import math
from dataclasses import dataclass

import numpy as np

from patebench.accounting.accountant import Accountant, DirectAccountant
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.mechanisms.base import Mechanism, parameter


@dataclass(frozen=True)
class Coin(Mechanism):
    """With probability `chance` a class drawn at random, else the one with most votes."""

    #: Every parameter is a real number with its limits.
    chance: float = parameter(low=0, above=True, high=1)

    #: What `patebench test_mechanism coin` tries.
    example = {"chance": 0.5}  # noqa: RUF012

    def release(self, votes: Votes, rng: np.random.Generator) -> np.ndarray:
        """One label for each query, drawn with `rng` alone. `votes.counts` is queries × classes."""
        drawn = rng.integers(0, votes.classes, size=votes.queries)
        at_random = rng.random(size=votes.queries) < self.chance
        return np.where(at_random, drawn, votes.plurality).astype(np.int32)

    def log_outcome_probabilities(self, votes: Votes) -> np.ndarray:
        """Return the log-probability of each label, queries × (classes + 1); the last column is "no answer".

        The exact accountants and the audit follow from these. Return None where there is no closed form.
        """
        probabilities = np.full((votes.queries, votes.classes + 1), self.chance / votes.classes)
        probabilities[:, -1] = 0
        probabilities[np.arange(votes.queries), votes.plurality] += 1 - self.chance
        with np.errstate(divide="ignore"):
            return np.log(probabilities)

    def accountants(self, votes: Votes) -> list[Accountant]:
        """Return the exact accountants, which are data-dependent, and a worst-case theorem.

        Neighbours change the plurality at most. A label's probability is c/k or 1 − c + c/k, so ε is the logarithm of
        their ratio for each query, and that of T queries the sum (Dwork & Roth 2014, Theorem 3.16).
        """
        least = self.chance / votes.classes
        one = math.log((1 - self.chance + least) / least)
        pure = DirectAccountant(
            name="pure",
            kind=Kind.WORST_CASE,
            source="Dwork & Roth 2014, Theorem 3.16: basic composition",
            epsilon=lambda queries, delta: queries * one,
        )
        return [*super().accountants(votes), pure]
