"""A channel: how one teacher perturbs its own vote before anybody else sees it.

Everything here is public. Who sees every perturbed vote sees T uses of the channel by one teacher, so that its privacy
is that of the channel, whatever the other teachers say.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.exact import divergence
from patebench.accounting.logspace import Array


@dataclass(frozen=True, eq=False)
class Channel:
    """`log_p[vote, report]` is ln Pr[report | vote]; `inverse` is the inverse of the matrix of probabilities.

    The rows of the first and of the last class are the pair that is told apart best, in the sense of Blackwell: no
    other pair has a larger δ(ε) for any ε. Its losses, from the first report to the last, may repeat, and `step` holds
    the probabilities of the distinct ones, which are evenly spaced from `local_epsilon` to its negative.
    """

    log_p: Array
    inverse: Array
    step: Array

    @property
    def classes(self) -> int:
        return len(self.log_p)

    @cached_property
    def matrix(self) -> Array:
        """Pr[report | vote], votes × reports."""
        return np.exp(self.log_p)

    @cached_property
    def local_epsilon(self) -> float:
        """The largest ln(Pr[report | vote] / Pr[report | other vote]), rounded up: what one use is private with."""
        with np.errstate(invalid="ignore"):
            ratio = float(np.max(self.log_p.max(axis=0) - self.log_p.min(axis=0)))
        return ratio * (1 + 4 * float(np.finfo(np.float64).eps))

    @cached_property
    def variance(self) -> float:
        """Total variance of the unbiased estimate of one vote, if all votes are equally likely: Σ Var[estimate_j]."""
        second_moment = float(np.mean(self.matrix @ np.sum(self.inverse**2, axis=1)))
        return second_moment - 1 / self.classes

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All ordered pairs of unequal votes."""
        one, other = np.nonzero(~np.eye(self.classes, dtype=bool))
        return one, other

    def renyi(self, orders: Array) -> Array:
        """Rényi divergence of one use: the worst pair of rows at each order (Mironov 2017, Definition 4)."""
        one, other = self.pairs
        alike = np.ones((len(one), self.classes), dtype=np.int64)
        result: Array = divergence(self.log_p[one], self.log_p[other], alike, orders).max(axis=0)
        return result
