"""Mechanisms with planted faults: each states what a sound one does, and does something else; or states too little."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from patebench.accounting import conversion, independent
from patebench.accounting.accountant import DirectAccountant, RenyiAccountant, repeated
from patebench.accounting.votes import Votes, capped
from patebench.core.bound import Kind
from patebench.mechanisms.base import NO_ANSWER, Answering, Mechanism, parameter
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.local_mechanisms import RandomisedResponse
from patebench.mechanisms.noise_shares import DistributedSparseGNMax, plurality
from patebench.mechanisms.noisy_argmax import GNMax, LNMax
from patebench.mechanisms.ptr import PtrGNMax
from patebench.mechanisms.sparse_argmax import SparseGNMax, SparseLNMax
from patebench.mechanisms.stable_argmax import StableArgmax, StableSVT


def argmax(scores):
    return np.argmax(scores, axis=1).astype(np.int32)


def in_release_mode(rng):
    return not isinstance(rng, np.random.Generator) and type(rng).__name__ == "Entropy"


def unanimous(votes):
    return votes.counts.max(axis=1) == votes.teachers


def tied(votes):
    second, first = np.sort(votes.counts, axis=1)[:, -2:].T
    return first == second


# Noise that is missing, or too little, or another.


@dataclass(frozen=True)
class NoNoise(GNMax):
    """The noise was forgotten."""

    def release(self, votes, rng):
        return votes.plurality


@dataclass(frozen=True)
class OneClassBare(GNMax):
    """The noise of one class was forgotten."""

    def release(self, votes, rng):
        noise = rng.normal(scale=self.sigma, size=votes.counts.shape)
        noise[:, 3] = 0
        return argmax(votes.counts + noise)


@dataclass(frozen=True)
class HalfScale(LNMax):
    """The noise has half the scale."""

    def release(self, votes, rng):
        return LNMax(2 * self.gamma).release(votes, rng)


@dataclass(frozen=True)
class InverseScale(LNMax):
    """The scale is γ, where it is 1/γ."""

    def release(self, votes, rng):
        return argmax(votes.counts + rng.laplace(scale=self.gamma, size=votes.counts.shape))


@dataclass(frozen=True)
class VarianceForScale(GNMax):
    """The noise has variance σ, where it has σ²."""

    def release(self, votes, rng):
        return GNMax(float(np.sqrt(self.sigma))).release(votes, rng)


@dataclass(frozen=True)
class GaussianForLaplace(LNMax):
    """The noise is Gaussian, of the same scale."""

    def release(self, votes, rng):
        return GNMax(1 / self.gamma).release(votes, rng)


@dataclass(frozen=True)
class WinnerOnly(GNMax):
    """Only the largest count gets noise."""

    def release(self, votes, rng):
        scores = votes.counts.astype(float)
        scores[np.arange(votes.queries), votes.plurality] += rng.normal(scale=self.sigma, size=votes.queries)
        return argmax(scores)


@dataclass(frozen=True)
class OneForAllClasses(GNMax):
    """All counts of a query get the same noise."""

    def release(self, votes, rng):
        return argmax(votes.counts + rng.normal(scale=self.sigma, size=(votes.queries, 1)))


@dataclass(frozen=True)
class Truncated(GNMax):
    """The noise is cut to whole numbers towards 0."""

    def release(self, votes, rng):
        return argmax(votes.counts + rng.normal(scale=self.sigma, size=votes.counts.shape).astype(np.int64))


@dataclass(frozen=True)
class Rounded(GNMax):
    """Scores are added up in a number format that holds too few digits."""

    def release(self, votes, rng):
        noise = rng.normal(scale=self.sigma, size=votes.counts.shape)
        return argmax((1000 + votes.counts + noise).astype(np.float16))


@dataclass(frozen=True)
class Clipped(GNMax):
    """The noise never exceeds one scale."""

    def release(self, votes, rng):
        noise = rng.normal(scale=self.sigma, size=votes.counts.shape)
        return argmax(votes.counts + np.clip(noise, -self.sigma, self.sigma))


@dataclass(frozen=True)
class NeverNegative(GNMax):
    """Noisy counts below 0 become 0."""

    def release(self, votes, rng):
        return argmax(np.maximum(votes.counts + rng.normal(scale=self.sigma, size=votes.counts.shape), 0))


@dataclass(frozen=True)
class OneSided(GNMax):
    """Noise is only added, never taken off."""

    def release(self, votes, rng):
        return argmax(votes.counts + np.abs(rng.normal(scale=self.sigma, size=votes.counts.shape)))


@dataclass(frozen=True)
class TiesBare(GNMax):
    """Of equal largest counts the lowest class is released, without noise."""

    def release(self, votes, rng):
        second, first = np.sort(votes.counts, axis=1)[:, -2:].T
        return np.where(first == second, votes.plurality, super().release(votes, rng)).astype(np.int32)


@dataclass(frozen=True)
class SureIsBare(GNMax):
    """Where the teachers agree, the noise has a tenth of the scale."""

    def release(self, votes, rng):
        scale = np.where(votes.counts.max(axis=1) > 0.8 * votes.teachers, self.sigma / 10, self.sigma)
        return argmax(votes.counts + scale[:, None] * rng.normal(scale=1.0, size=votes.counts.shape))


@dataclass(frozen=True)
class SometimesBare(GNMax):
    """One label in twenty is released without noise."""

    def release(self, votes, rng):
        bare = rng.random(size=votes.queries) < 0.05
        return np.where(bare, votes.plurality, super().release(votes, rng)).astype(np.int32)


@dataclass(frozen=True)
class UnanimousBare(GNMax):
    """Where all teachers agree, their vote is released without noise."""

    def release(self, votes, rng):
        return np.where(unanimous(votes), votes.plurality, super().release(votes, rng)).astype(np.int32)


@dataclass(frozen=True)
class TiesHalf(GNMax):
    """Where the two largest counts are equal, the noise has half the scale."""

    def release(self, votes, rng):
        return np.where(tied(votes), GNMax(self.sigma / 2).release(votes, rng), super().release(votes, rng))


@dataclass(frozen=True)
class UnanimousAnswersBare(ConfidentGNMax):
    """Where all teachers agree, the test has noise and the answer has none."""

    def release(self, votes, rng):
        labels = super().release(votes, rng)
        return np.where(unanimous(votes) & (labels != NO_ANSWER), votes.plurality, labels).astype(np.int32)


# Noise that comes back.


@dataclass(frozen=True)
class FixedSeed(GNMax):
    """It makes a generator of its own: the same noise on D and D′, and in every release."""

    def release(self, votes, rng):
        return GNMax(self.sigma).release(votes, np.random.default_rng(0))


@dataclass(frozen=True)
class SeedOfTheVotes(GNMax):
    """Its generator follows from the counts."""

    def release(self, votes, rng):
        return GNMax(self.sigma).release(votes, np.random.default_rng(int(votes.counts[0] @ votes.counts[0])))


@dataclass(frozen=True)
class PartlyFixedSeed(GNMax):
    """Every other query gets the noise of a fixed seed."""

    def release(self, votes, rng):
        fixed, fresh = (super(PartlyFixedSeed, self).release(votes, each) for each in (np.random.default_rng(0), rng))
        return np.where(np.arange(votes.queries) % 2, fixed, fresh)


@dataclass(frozen=True)
class OneForAllQueries(GNMax):
    """The noise is drawn once for all queries of a release."""

    def release(self, votes, rng):
        return argmax(votes.counts + rng.normal(scale=self.sigma, size=(1, votes.classes)))


@dataclass(frozen=True)
class NoiseTable(GNMax):
    """The noise of query 65 is that of query 1, and so on."""

    def release(self, votes, rng):
        table = rng.normal(scale=self.sigma, size=(64, votes.classes))
        return argmax(votes.counts + table[np.arange(votes.queries) % 64])


@dataclass(frozen=True)
class NoiseTwice(GNMax):
    """Two queries that follow each other get the same noise."""

    def release(self, votes, rng):
        noise = rng.normal(scale=self.sigma, size=((votes.queries + 1) // 2, votes.classes))
        return argmax(votes.counts + np.repeat(noise, 2, axis=0)[: votes.queries])


@dataclass(frozen=True)
class Remembered(GNMax):
    """Queries with equal counts get one answer."""

    def release(self, votes, rng):
        rows, number = np.unique(votes.counts, axis=0, return_inverse=True)
        return super().release(Votes(rows), rng)[number.reshape(-1)]


@dataclass(frozen=True)
class RoundsRepeated(GNMax):
    """The second round gets the labels of the first."""

    def release(self, votes, rng):
        labels = super().release(votes, rng)
        half = votes.queries // 2
        labels[half : 2 * half] = labels[:half]
        return labels


@dataclass(frozen=True)
class OnceFree(GNMax):
    """Its second answer is the plurality; its first alone is sound."""

    answering = Answering.IN_SEQUENCE

    def release(self, votes, rng):
        labels = super().release(votes, rng)
        labels[1:2] = votes.plurality[1:2]
        return labels


@dataclass(frozen=True)
class SecondFree(GNMax):
    """The same, and it says that its queries are independent."""

    def release(self, votes, rng):
        labels = super().release(votes, rng)
        labels[1:2] = votes.plurality[1:2]
        return labels


# Threshold tests.


@dataclass(frozen=True)
class WrongNoiseAfterTest(ConfidentGNMax):
    """The answer gets the noise of the test."""

    def release(self, votes, rng):
        return ConfidentGNMax(self.threshold, self.sigma1, self.sigma1).release(votes, rng)


@dataclass(frozen=True)
class AnswerBare(ConfidentGNMax):
    """Only the test has noise."""

    def release(self, votes, rng):
        return ConfidentGNMax(self.threshold, self.sigma1, 0.0).release(votes, rng)


@dataclass(frozen=True)
class BareThreshold(ConfidentGNMax):
    """It keeps silent or not without noise."""

    def release(self, votes, rng):
        labels = GNMax(self.sigma2).release(votes, rng)
        return np.where(votes.counts.max(axis=1) >= self.threshold, labels, NO_ANSWER).astype(np.int32)


@dataclass(frozen=True)
class NoiseReused(ConfidentGNMax):
    """The noise of the test is that of the largest count in the answer."""

    def release(self, votes, rng):
        noise = rng.normal(scale=1.0, size=votes.counts.shape)
        of_test = noise[np.arange(votes.queries), votes.plurality]
        answered = votes.counts.max(axis=1) + self.sigma1 * of_test >= self.threshold
        return np.where(answered, argmax(votes.counts + self.sigma2 * noise), NO_ANSWER).astype(np.int32)


@dataclass(frozen=True)
class MovingThreshold(ConfidentGNMax):
    """The threshold follows from the counts."""

    def release(self, votes, rng):
        threshold = self.threshold + np.sort(votes.counts, axis=1)[:, -2] / 2
        score = votes.counts.max(axis=1) + rng.normal(scale=self.sigma1, size=votes.queries)
        return np.where(score >= threshold, GNMax(self.sigma2).release(votes, rng), NO_ANSWER).astype(np.int32)


@dataclass(frozen=True)
class ThresholdOfTheBatch(ConfidentGNMax):
    """All queries of a release are tested by the first one's counts."""

    def release(self, votes, rng):
        score = votes.counts[:1].max() + rng.normal(scale=self.sigma1, size=votes.queries)
        return np.where(score >= self.threshold, GNMax(self.sigma2).release(votes, rng), NO_ANSWER).astype(np.int32)


@dataclass(frozen=True)
class SilentOnTies(GNMax):
    """It keeps silent where the two largest counts are equal, and does not say so."""

    def release(self, votes, rng):
        second, first = np.sort(votes.counts, axis=1)[:, -2:].T
        return np.where(first == second, NO_ANSWER, super().release(votes, rng)).astype(np.int32)


@dataclass(frozen=True)
class CapNotEnforced(StableSVT):
    """It never stops."""

    def release(self, votes, rng):
        return self._with(votes, rng, 10**6)

    def _with(self, votes, rng, failures):
        from patebench.mechanisms import stable_argmax

        of_threshold, of_test = self.noises
        limit = self.threshold + of_threshold.draw((1,), rng)
        failed = stable_argmax.distance(votes.counts) + of_test.draw((votes.queries,), rng) <= limit
        answered = ~failed & (np.cumsum(failed) < failures)
        return np.where(answered, votes.plurality, np.int32(NO_ANSWER))


@dataclass(frozen=True)
class CapOneMore(CapNotEnforced):
    """It stops one failure too late."""

    def release(self, votes, rng):
        return self._with(votes, rng, self.failures + 1)


@dataclass(frozen=True)
class ThresholdDrawnAgain(CapNotEnforced):
    """The threshold's noise is drawn for each query."""

    def release(self, votes, rng):
        return np.concatenate([StableSVT.release(self, votes.at(slice(i, i + 1)), rng) for i in range(votes.queries)])


# Votes that count otherwise.


@dataclass(frozen=True)
class OverlappingShards(GNMax):
    """One record is in the shards of two teachers, and moves both votes."""

    def release(self, votes, rng):
        matrix = votes.matrix.copy()
        matrix[1::2] = matrix[: len(matrix) // 2 * 2 : 2]
        return super().release(Votes.of(matrix, votes.classes), rng)


@dataclass(frozen=True)
class CountedTwice(GNMax):
    """The first teacher has two votes."""

    def release(self, votes, rng):
        matrix = np.concatenate([votes.matrix, votes.matrix[:1]])
        return super().release(Votes.of(matrix, votes.classes), rng)


@dataclass(frozen=True)
class ThreeBallots(Mechanism):
    """The vote of three teachers drawn without replacement, if they are of one mind, or any class; as it should be."""

    answering: ClassVar[Answering] = Answering.ALONE
    honest: float = parameter(low=0, high=0.99)
    replacement: ClassVar[bool] = False

    def release(self, votes, rng):
        n = votes.teachers
        if self.replacement:
            drawn = rng.integers(0, n, size=(3, votes.queries))
        else:
            drawn = np.argpartition(rng.random(size=(n, votes.queries)), 3, axis=0)[:3]
        chosen = np.take_along_axis(votes.matrix, drawn, axis=0)
        asked = (rng.random(size=votes.queries) < self.honest) & np.all(chosen == chosen[0], axis=0)
        return np.where(asked, chosen[0], rng.integers(0, votes.classes, size=votes.queries)).astype(np.int32)

    def log_outcome_probabilities(self, votes):
        c, n = votes.counts, votes.teachers
        agree = self.honest * c * (c - 1) * (c - 2) / (n * (n - 1) * (n - 2))
        p = agree + (1 - agree.sum(axis=1, keepdims=True)) / votes.classes
        return np.hstack([np.log(p), np.full((votes.queries, 1), -np.inf)])


@dataclass(frozen=True)
class WithReplacement(ThreeBallots):
    """Teachers are drawn with replacement, and charged as if they were not: it matters where teachers are few."""

    teachers: ClassVar[int] = 6
    replacement: ClassVar[bool] = True


@dataclass(frozen=True)
class SmallerChannel(RandomisedResponse):
    """Reports are drawn with twice the ε that is stated."""

    def channels(self, teachers, classes):
        return RandomisedResponse(2 * self.epsilon, 0, 1, 1).channels(teachers, classes)


# Release mode.


@dataclass(frozen=True)
class BareInReleaseMode(GNMax):
    """Handed-out labels have no noise."""

    def release(self, votes, rng):
        return votes.plurality if in_release_mode(rng) else super().release(votes, rng)


@dataclass(frozen=True)
class HalfInReleaseMode(LNMax):
    """Handed-out labels have half the noise."""

    def release(self, votes, rng):
        return (LNMax(2 * self.gamma) if in_release_mode(rng) else LNMax(self.gamma)).release(votes, rng)


@dataclass(frozen=True)
class SeededInReleaseMode(GNMax):
    """Handed-out labels have noise that anybody can draw again."""

    def release(self, votes, rng):
        return GNMax(self.sigma).release(votes, np.random.default_rng(7) if in_release_mode(rng) else rng)


@dataclass(frozen=True)
class OneClassBareInReleaseMode(GNMax):
    """The noise of one class is forgotten in handed-out labels."""

    def release(self, votes, rng):
        noise = rng.normal(scale=self.sigma, size=votes.counts.shape)
        if in_release_mode(rng):
            noise[:, 2] = 0
        return argmax(votes.counts + noise)


@dataclass(frozen=True)
class NoiseTwiceInReleaseMode(GNMax):
    """The second half of the handed-out labels gets the noise of the first."""

    def release(self, votes, rng):
        if not in_release_mode(rng):
            return super().release(votes, rng)
        noise = rng.normal(scale=self.sigma, size=((votes.queries + 1) // 2, votes.classes))
        return argmax(votes.counts + np.concatenate([noise, noise])[: votes.queries])


@dataclass(frozen=True)
class NoisePairsInReleaseMode(GNMax):
    """Of handed-out labels, two that follow each other get the same noise."""

    def release(self, votes, rng):
        return (NoiseTwice if in_release_mode(rng) else GNMax)(self.sigma).release(votes, rng)


@dataclass(frozen=True)
class NoiseTableInReleaseMode(GNMax):
    """The noise of handed-out label 38 is that of the first, and so on."""

    def release(self, votes, rng):
        if not in_release_mode(rng):
            return super().release(votes, rng)
        table = rng.normal(scale=self.sigma, size=(37, votes.classes))
        return argmax(votes.counts + table[np.arange(votes.queries) % 37])


@dataclass(frozen=True)
class UnanimousBareInReleaseMode(GNMax):
    """Of handed-out labels, those on which all teachers agree have no noise."""

    def release(self, votes, rng):
        return (UnanimousBare if in_release_mode(rng) else GNMax)(self.sigma).release(votes, rng)


@dataclass(frozen=True)
class TiesHalfInReleaseMode(GNMax):
    """Of handed-out labels, those on which two classes tie have half the noise."""

    def release(self, votes, rng):
        return (TiesHalf if in_release_mode(rng) else GNMax)(self.sigma).release(votes, rng)


@dataclass(frozen=True)
class PtrBareInReleaseMode(PtrGNMax):
    """Handed-out labels have neither noise nor a test."""

    def release(self, votes, rng):
        return votes.plurality.astype(np.int32) if in_release_mode(rng) else super().release(votes, rng)


@dataclass(frozen=True)
class PtrWithoutNoiseInReleaseMode(PtrGNMax):
    """Handed-out labels have their test, and no noise."""

    def release(self, votes, rng):
        labels = super().release(votes, rng)
        return np.where(in_release_mode(rng) & (labels != NO_ANSWER), votes.plurality, labels).astype(np.int32)


@dataclass(frozen=True)
class PtrNoiseOnceInReleaseMode(PtrGNMax):
    """All handed-out labels of a release have the same noise."""

    def release(self, votes, rng):
        labels = super().release(votes, rng)
        if in_release_mode(rng) and labels[0] != NO_ANSWER:
            labels = argmax(votes.counts + self.noise.draw((1, votes.classes), rng))
        return labels


# Probabilities that are wrong.


@dataclass(frozen=True)
class ProbabilitiesOfMoreNoise(GNMax):
    """Its probabilities, and all that follows from them, are those of twice the noise."""

    @property
    def noise(self):
        return GNMax(2 * self.sigma).noise

    def release(self, votes, rng):
        return argmax(votes.counts + rng.normal(scale=self.sigma, size=votes.counts.shape))


@dataclass(frozen=True)
class ProbabilitiesWithoutTest(ConfidentGNMax):
    """Its probabilities forget the test's noise."""

    def log_outcome_probabilities(self, votes):
        return ConfidentGNMax(self.threshold, self.sigma1 / 4, self.sigma2).log_outcome_probabilities(votes)


@dataclass(frozen=True)
class ProbabilitiesOfOtherClasses(GNMax):
    """Its probabilities are one class further."""

    def log_outcome_probabilities(self, votes):
        return np.roll(super().log_outcome_probabilities(votes), 1, axis=1)


@dataclass(frozen=True)
class ProbabilitiesNotOne(GNMax):
    """Its probabilities of labels add up to nine tenths."""

    def log_outcome_probabilities(self, votes):
        return super().log_outcome_probabilities(votes) + np.log(0.9)


@dataclass(frozen=True)
class NeighboursOfMoreNoise(GNMax):
    """Only what it says of neighbours is wrong, and the exact accountants with it."""

    def neighbours(self, counts):
        return GNMax(2 * self.sigma).neighbours(counts)


# Bounds that are wrong.


def direct(epsilon):
    return [DirectAccountant(name="planted", kind=Kind.WORST_CASE, source="planted", epsilon=epsilon)]


def renyi(curve, kind=Kind.WORST_CASE, conversions=(conversion.Conversion.TIGHT,)):
    return [
        RenyiAccountant(
            name="planted", kind=kind, source="planted", totals=repeated(curve), orders=conversion.ORDERS,
            conversions=conversions,
        )
    ]  # fmt: skip


@dataclass(frozen=True)
class HalfScaleThroughout(LNMax):
    """Half the noise, and its probabilities are those of what it does: only the bounds are wrong."""

    @property
    def noise(self):
        return LNMax(2 * self.gamma).noise


@dataclass(frozen=True)
class Sensitivity(GNMax):
    """Its bound takes the sensitivity for 1, where it is √2."""

    def accountants(self, votes):
        return direct(lambda T, delta: independent.gaussian_dp(np.sqrt(T) / self.sigma, delta))


@dataclass(frozen=True)
class AddOrRemove(LNMax):
    """Its bound is that of a teacher that is added: one count moves, not two."""

    def accountants(self, votes):
        return direct(lambda T, delta: independent.pure_composition(self.gamma, T, delta))


@dataclass(frozen=True)
class TestForFree(ConfidentGNMax):
    """Its bound forgets the test."""

    def accountants(self, votes):
        return GNMax(self.sigma2).accountants(votes)[:2]


@dataclass(frozen=True)
class LargerDelta(GNMax):
    """Its ε is that of a much larger δ."""

    def accountants(self, votes):
        return direct(lambda T, delta: independent.gaussian_dp(independent.gnmax_mu(self.sigma, T), 1000 * delta))


@dataclass(frozen=True)
class WithoutConversion(GNMax):
    """Its ε is the least Rényi divergence: nothing for δ is added."""

    def accountants(self, votes):
        return direct(lambda T, delta: T * 1.5 / self.sigma**2)


@dataclass(frozen=True)
class WrongOrder(GNMax):
    """The divergence of order α is taken for that of 2α."""

    def accountants(self, votes):
        return renyi(lambda orders: orders / 2 / self.sigma**2)


@dataclass(frozen=True)
class OneQueryLess(LNMax):
    """Its bound composes one query too few."""

    def accountants(self, votes):
        return direct(lambda T, delta: independent.pure_composition(2 * self.gamma, T - 1, delta) if T > 1 else 0.0)


@dataclass(frozen=True)
class RootOfQueries(LNMax):
    """Pure ε adds up with the root of T."""

    def accountants(self, votes):
        return direct(lambda T, delta: 2 * self.gamma * np.sqrt(T))


@dataclass(frozen=True)
class FailureDropped(StableArgmax):
    """Its bound is pure: a test that fails costs no δ."""

    def accountants(self, votes):
        return direct(lambda T, delta: T * self.epsilon)


@dataclass(frozen=True)
class OnlyAnswersCost(ConfidentGNMax):
    """Its bound for these votes counts the answers that are to be expected."""

    def accountants(self, votes):
        answered = float(np.mean(1 - np.exp(self.log_outcome_probabilities(votes)[:, -1])))
        mu = np.sqrt(2 * answered) / self.sigma2
        planted = direct(lambda T, delta: independent.gaussian_dp(mu * np.sqrt(T), delta))[0]
        return [replace(planted, kind=Kind.DATA_DEPENDENT)]


@dataclass(frozen=True)
class TooSure(GNMax):
    """Its bound for these votes is 0 where the teachers agree."""

    def accountants(self, votes):
        sure = bool(np.all(votes.counts.max(axis=1) > 0.85 * votes.teachers))
        sound = GNMax(self.sigma).accountants(votes)
        return [replace(sound[0], kind=Kind.DATA_DEPENDENT, epsilon=lambda T, delta: 0.0)] if sure else sound[:2]


# One decision for all queries.


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


# One table, in which each teacher has few votes.


@dataclass(frozen=True)
class CapOff(SparseGNMax):
    """Every vote of a teacher counts."""

    def kept(self, votes):
        return votes.matrix


@dataclass(frozen=True)
class CapOffUnsaid(SparseGNMax):
    """The same, and it says that only the first ones do."""

    def released(self, votes, rng):
        return SparseGNMax(float(votes.queries), self.sigma).released(votes, rng)


@dataclass(frozen=True)
class CapPerClass(SparseLNMax):
    """Of each class the first votes of a teacher count."""

    def kept(self, votes):
        apart = np.where(votes.matrix == np.arange(votes.classes)[:, None, None], votes.matrix, -1)
        places = np.tile(np.arange(votes.teachers), votes.classes)
        return capped(apart.reshape(-1, votes.queries), int(self.k), places=places).reshape(apart.shape).max(axis=0)


@dataclass(frozen=True)
class VoteTwice(SparseGNMax):
    """Each vote is counted twice."""

    def counts(self, votes):
        return 2 * super().counts(votes)


@dataclass(frozen=True)
class FullPlaces(SparseGNMax):
    """Only the first five votes of each query count, so that one vote keeps another out."""

    def kept(self, votes):
        kept = super().kept(votes)
        return np.where(np.cumsum(kept != -1, axis=0) <= 5, kept, -1)


@dataclass(frozen=True)
class TableSensitivity(SparseGNMax):
    """Its bound takes votes to vanish or appear, and not both: sensitivity √k for √(2k)."""

    def accountants(self, votes):
        mu = np.sqrt(self.k) / self.sigma
        return direct(lambda T, delta: independent.gaussian_dp(mu, delta))


@dataclass(frozen=True)
class TableRounded(SparseGNMax):
    """Where nobody votes there is no noise."""

    def released(self, votes, rng):
        shown = super().released(votes, rng)
        shown["noisy_counts"][self.counts(votes) == 0] = 0
        return shown


@dataclass(frozen=True)
class TableUnanimousBare(SparseGNMax):
    """Where all teachers agree there is no noise."""

    def released(self, votes, rng):
        shown, counts = super().released(votes, rng), self.counts(votes)
        return {**shown, "noisy_counts": np.where(unanimous(votes)[:, None], counts, shown["noisy_counts"])}


@dataclass(frozen=True)
class TableTiesHalfInReleaseMode(SparseGNMax):
    """Where two classes tie for the largest count, the noise of the handed-out table has half the scale."""

    def released(self, votes, rng):
        shown = super().released(votes, rng)
        if not in_release_mode(rng):
            return shown
        half = SparseGNMax(self.k, self.sigma / 2).released(votes, rng)["noisy_counts"]
        bare = (tied(votes) & (votes.counts.max(axis=1) > 0))[:, None]
        return {**shown, "noisy_counts": np.where(bare, half, shown["noisy_counts"])}


@dataclass(frozen=True)
class TableBareInReleaseMode(SparseGNMax):
    """Handed out, the table has no noise."""

    def released(self, votes, rng):
        if in_release_mode(rng):
            return {"labels": votes.plurality, "noisy_counts": self.counts(votes)}
        return super().released(votes, rng)


@dataclass(frozen=True)
class TableNoiseOnceInReleaseMode(SparseGNMax):
    """Handed out, all classes of a query have one noise."""

    def released(self, votes, rng):
        shown = super().released(votes, rng)
        if in_release_mode(rng):
            shown["noisy_counts"] = self.counts(votes) + rng.normal(scale=self.sigma, size=(votes.queries, 1))
        return shown


@dataclass(frozen=True)
class CapOffInShares(DistributedSparseGNMax):
    """Teachers add their noise, and every vote of theirs counts."""

    teachers: ClassVar[int] = 6

    def released(self, votes, rng):
        return DistributedSparseGNMax(float(votes.queries), self.sigma, self.tolerance).released(votes, rng)


@dataclass(frozen=True)
class SilenceAddsNoNoise(DistributedSparseGNMax):
    """A teacher adds its share to the queries that it votes on alone, so that noise tells who is silent."""

    teachers: ClassVar[int] = 6

    def released(self, votes, rng):
        noisy, kept = self.counts(votes), self.kept(votes)
        for row, source in zip(kept, rng.spawn(votes.teachers), strict=True):
            noisy += np.where((row != -1)[:, None], self.share(votes.teachers, noisy.shape, source), 0)
        return {"labels": plurality(noisy), "noisy_counts": noisy}


@dataclass(frozen=True)
class ShareOfAllForOne(DistributedSparseGNMax):
    """Each teacher's share is that of an ensemble twice as large: half the variance."""

    teachers: ClassVar[int] = 6

    def share(self, teachers, shape, source):
        return super().share(2 * teachers, shape, source)


@dataclass(frozen=True)
class OneShareForAll(DistributedSparseGNMax):
    """All classes of a query have one share of each teacher."""

    teachers: ClassVar[int] = 6

    def share(self, teachers, shape, source):
        return super().share(teachers, (shape[0], 1), source) + np.zeros(shape, dtype=np.int64)


PLANTED = [
    NoNoise(3.0), OneClassBare(2.0), HalfScale(0.3), InverseScale(0.3), VarianceForScale(4.0), GaussianForLaplace(0.5),
    WinnerOnly(3.0), OneForAllClasses(3.0), Truncated(2.0), Rounded(3.0), Clipped(3.0), NeverNegative(40.0),
    OneSided(3.0), TiesBare(3.0), SureIsBare(8.0), SometimesBare(8.0), UnanimousBare(4.0), UnanimousBare(40.0),
    TiesHalf(4.0), UnanimousAnswersBare(15.0, 4.0, 3.0),
    FixedSeed(3.0), SeedOfTheVotes(3.0), PartlyFixedSeed(3.0), OneForAllQueries(3.0), NoiseTable(3.0), NoiseTwice(3.0),
    Remembered(3.0), RoundsRepeated(3.0), OnceFree(3.0), SecondFree(3.0),
    WrongNoiseAfterTest(15.0, 4.0, 2.0), AnswerBare(15.0, 4.0, 3.0), BareThreshold(15.0, 4.0, 3.0),
    NoiseReused(15.0, 4.0, 3.0), MovingThreshold(15.0, 4.0, 3.0), ThresholdOfTheBatch(15.0, 4.0, 3.0),
    SilentOnTies(8.0), CapNotEnforced(12.0, 1e-4, 3), CapOneMore(12.0, 1e-4, 3), ThresholdDrawnAgain(12.0, 1e-4, 3),
    OverlappingShards(3.0), CountedTwice(3.0), WithReplacement(0.9), SmallerChannel(0.5, 0, 1, 1),
    BareInReleaseMode(3.0), HalfInReleaseMode(0.3), SeededInReleaseMode(3.0), OneClassBareInReleaseMode(3.0),
    NoiseTwiceInReleaseMode(4.0), NoisePairsInReleaseMode(4.0), NoiseTableInReleaseMode(4.0),
    PtrBareInReleaseMode(**PtrGNMax.example), PtrWithoutNoiseInReleaseMode(4, 0.5, 4.5, 1e-5, 4),
    PtrNoiseOnceInReleaseMode(**PtrGNMax.example),
    UnanimousBareInReleaseMode(4.0), TiesHalfInReleaseMode(4.0),
    ProbabilitiesOfMoreNoise(3.0), ProbabilitiesWithoutTest(15.0, 4.0, 3.0), ProbabilitiesOfOtherClasses(3.0),
    NeighboursOfMoreNoise(3.0),
    HalfScaleThroughout(0.3), Sensitivity(10.0), AddOrRemove(0.3), TestForFree(15.0, 4.0, 6.0), LargerDelta(10.0),
    WithoutConversion(10.0), WrongOrder(5.0), OneQueryLess(0.3), RootOfQueries(0.3), FailureDropped(1.0, 1e-3),
    OnlyAnswersCost(25.0, 3.0, 6.0), TooSure(10.0),
    Untested(order=4, cost=0.5, epsilon=4.0, failure=1e-5, sigma=0.5),
    CapOff(1, 3.0), CapOffUnsaid(1, 3.0), CapPerClass(1, 0.5), VoteTwice(2, 3.0), FullPlaces(2, 3.0),
    TableSensitivity(2, 3.0), TableRounded(2, 3.0), TableBareInReleaseMode(2, 3.0), TableUnanimousBare(2, 3.0),
    TableTiesHalfInReleaseMode(1, 3.0), TableNoiseOnceInReleaseMode(2, 3.0),
    CapOffInShares(1, 3.0, 0), SilenceAddsNoNoise(1, 3.0, 0), ShareOfAllForOne(1, 3.0, 0), OneShareForAll(1, 3.0, 0),
    AnotherTest(order=4, cost=0.5, epsilon=4.0, failure=1e-5, sigma=4),
]  # fmt: skip
