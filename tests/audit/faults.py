"""Mechanisms with planted faults: each states what a sound one does, and does something else."""

from dataclasses import dataclass

import numpy as np

from patebench.accounting import independent
from patebench.accounting.accountant import DirectAccountant
from patebench.core.bound import Kind
from patebench.mechanisms.base import NO_ANSWER
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.gnmax import GNMax
from patebench.mechanisms.lnmax import LNMax
from patebench.mechanisms.ptr_gnmax import PtrGNMax


@dataclass(frozen=True)
class OneClassBare(GNMax):
    """The noise of one class was forgotten."""

    def release(self, votes, rng):
        noise = rng.normal(scale=self.sigma, size=votes.counts.shape)
        noise[:, 3] = 0
        return np.argmax(votes.counts + noise, axis=1).astype(np.int32)


@dataclass(frozen=True)
class HalfScale(LNMax):
    """The noise has half the scale."""

    def release(self, votes, rng):
        return LNMax(2 * self.gamma).release(votes, rng)


@dataclass(frozen=True)
class HalfScaleThroughout(LNMax):
    """The same, and its probabilities are those of what it does: only the bounds are wrong."""

    @property
    def noise(self):
        return LNMax(2 * self.gamma).noise


@dataclass(frozen=True)
class Sensitivity(GNMax):
    """Its bound takes the sensitivity for 1, where it is √2."""

    def accountants(self, votes):
        return [
            DirectAccountant(
                name="gdp", kind=Kind.WORST_CASE, source="planted: √T/σ instead of √(2T)/σ",
                epsilon=lambda T, delta: independent.gaussian_dp(np.sqrt(T) / self.sigma, delta),
            )
        ]  # fmt: skip


@dataclass(frozen=True)
class FixedSeed(GNMax):
    """It makes a generator of its own: the same noise on D and D′, and in every release."""

    def release(self, votes, rng):
        return GNMax(self.sigma).release(votes, np.random.default_rng(0))


@dataclass(frozen=True)
class PartlyFixedSeed(GNMax):
    """Every other query gets the noise of a fixed seed."""

    def release(self, votes, rng):
        fixed, fresh = (super(PartlyFixedSeed, self).release(votes, each) for each in (np.random.default_rng(0), rng))
        return np.where(np.arange(votes.queries) % 2, fixed, fresh)


@dataclass(frozen=True)
class BareThreshold(ConfidentGNMax):
    """It keeps silent or not without noise."""

    def release(self, votes, rng):
        labels = GNMax(self.sigma2).release(votes, rng)
        return np.where(votes.counts.max(axis=1) >= self.threshold, labels, NO_ANSWER).astype(np.int32)


@dataclass(frozen=True)
class SilentOnTies(GNMax):
    """It keeps silent where the two largest counts are equal, and does not say so."""

    def release(self, votes, rng):
        second, first = np.sort(votes.counts, axis=1)[:, -2:].T
        return np.where(first == second, NO_ANSWER, super().release(votes, rng)).astype(np.int32)


@dataclass(frozen=True)
class OnceFree(GNMax):
    """Its second answer is the plurality; its first alone is sound."""

    independent_queries = False

    def release(self, votes, rng):
        labels = super().release(votes, rng)
        labels[1:2] = votes.plurality[1:2]
        return labels


@dataclass(frozen=True)
class Untested(PtrGNMax):
    """Its labels are released whatever they cost."""

    def pass_probability(self, votes):
        return 1.0


@dataclass(frozen=True)
class AnotherTest(PtrGNMax):
    """It releases labels where all teachers agree, without noise on that, and states what it should do."""

    def release(self, votes, rng):
        labels = np.argmax(votes.counts + self.noise.draw(votes.counts.shape, rng), axis=1)
        agree = np.all(votes.counts.max(axis=1) == votes.teachers)
        return np.where(agree, labels, NO_ANSWER).astype(np.int32)
