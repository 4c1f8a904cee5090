"""Mechanisms with planted faults: each behaves differently from the sound one that it states, or states too small an ε.

`PLANTED` contains them by a description of the fault.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np

from patebench.accounting import conversion, independent
from patebench.accounting.accountant import DirectAccountant, RenyiAccountant, repeated
from patebench.accounting.votes import UNIT, Votes, capped
from patebench.core.bound import Kind
from patebench.mechanisms.base import NO_ANSWER, Answering, Mechanism, parameter
from patebench.mechanisms.confident_gnmax import ConfidentGNMax
from patebench.mechanisms.local_mechanisms import RandomisedResponse
from patebench.mechanisms.noise_shares import DistributedSparseGNMax
from patebench.mechanisms.noisy_argmax import GNMax, LNMax
from patebench.mechanisms.ptr import PtrGNMax
from patebench.mechanisms.sparse_argmax import SparseGNMax, SparseLNMax
from patebench.mechanisms.stable_argmax import StableArgmax, StableSVT, distance


def fault(sound, release=None, **members):
    """Return the mechanism `sound` with `release` and `members` replaced.

    Functions among `members` become methods that are called with `sound` in place of self.
    """
    members |= {"release": release} if release else {}
    assert all(hasattr(sound, name) for name, each in members.items() if callable(each)), members
    methods = {name: _method(sound, each) if callable(each) else each for name, each in members.items()}
    return dataclass(frozen=True)(type(type(sound).__name__, (type(sound),), methods))(**sound.parameters())


def _method(sound, function):
    return lambda self, *arguments: function(sound, *arguments)


def argmax(scores):
    return np.argmax(scores, axis=1).astype(np.int32)


def unanimous(votes):
    return votes.counts.max(axis=1) == votes.teachers


def tied(votes):
    second, first = np.sort(votes.counts, axis=1)[:, -2:].T
    return first == second


def where(chosen, labels, others):
    return np.where(chosen, labels, others).astype(np.int32)


def noise(change: Callable = lambda votes, noise: noise, scores: Callable = np.add, size=None):
    """Return a release of the argmax of `scores(counts, change(votes, noise))` with Gaussian noise of shape `size`."""

    def release(sound, votes, rng):
        drawn = rng.normal(scale=sound.sigma, size=size(votes) if size else votes.counts.shape)
        return argmax(scores(votes.counts, change(votes, drawn)))

    return release


def without(label):
    """Return a function of votes and noise that sets the noise of the class `label` to 0."""
    return lambda votes, noise: np.where(np.arange(votes.classes) == label, 0, noise)


def bare(chosen):
    """Return a release without noise where `chosen(votes)`."""
    return lambda sound, votes, rng: where(chosen(votes), votes.plurality, sound.release(votes, rng))


def half(chosen):
    """Return a release with half the noise where `chosen(votes)`."""

    def release(sound, votes, rng):
        return np.where(chosen(votes), GNMax(sound.sigma / 2).release(votes, rng), sound.release(votes, rng))

    return release


def seeded(seed):
    """Return a release whose generator has the seed `seed(votes)`."""
    return lambda sound, votes, rng: sound.release(votes, np.random.default_rng(seed(votes)))


def repeating(rows, of=lambda votes: np.arange(votes.queries)):
    """Return a release that draws n = `rows(votes)` rows of noise; query q gets row `of(votes)[q]` modulo n."""

    def release(sound, votes, rng):
        drawn = rng.normal(scale=sound.sigma, size=(rows(votes), votes.classes))
        return argmax(votes.counts + drawn[of(votes) % len(drawn)])

    return release


def some_fixed(sound, votes, rng):
    fixed, fresh = (sound.release(votes, each) for each in (np.random.default_rng(0), rng))
    return np.where(np.arange(votes.queries) % 2, fixed, fresh)


def remembered(sound, votes, rng):
    rows, number = np.unique(votes.counts, axis=0, return_inverse=True)
    return sound.release(Votes(rows), rng)[number.reshape(-1)]


def rounds_repeated(sound, votes, rng):
    labels, middle = sound.release(votes, rng), votes.queries // 2
    labels[middle : 2 * middle] = labels[:middle]
    return labels


def second_free(sound, votes, rng):
    return where(np.arange(votes.queries) == 1, votes.plurality, sound.release(votes, rng))


def sure_is_bare(sound, votes, rng):
    scale = np.where(votes.counts.max(axis=1) > 0.8 * votes.teachers, sound.sigma / 10, sound.sigma)
    return argmax(votes.counts + scale[:, None] * rng.normal(scale=1.0, size=votes.counts.shape))


def sometimes_bare(sound, votes, rng):
    chosen = rng.random(size=votes.queries) < 0.05
    return where(chosen, votes.plurality, sound.release(votes, rng))


def answers_bare(sound, votes, rng):
    labels = sound.release(votes, rng)
    return where(unanimous(votes) & (labels != NO_ANSWER), votes.plurality, labels)


def by_test(score: Callable, threshold: Callable = lambda sound, votes: sound.threshold):
    """Return a release that answers where `score(votes)` with noise reaches the threshold."""

    def release(sound, votes, rng):
        noisy = score(votes) + rng.normal(scale=sound.sigma1, size=votes.queries)
        answers = GNMax(sound.sigma2).release(votes, rng)
        return where(noisy >= threshold(sound, votes), answers, NO_ANSWER)

    return release


def bare_threshold(sound, votes, rng):
    labels = GNMax(sound.sigma2).release(votes, rng)
    return where(votes.counts.max(axis=1) >= sound.threshold, labels, NO_ANSWER)


def noise_reused(sound, votes, rng):
    drawn = rng.normal(scale=1.0, size=votes.counts.shape)
    of_test = drawn[np.arange(votes.queries), votes.plurality]
    answered = votes.counts.max(axis=1) + sound.sigma1 * of_test >= sound.threshold
    return where(answered, argmax(votes.counts + sound.sigma2 * drawn), NO_ANSWER)


def stopping(failures, thresholds=lambda votes: 1):
    """Return a release with `thresholds(votes)` thresholds that ends after `failures(sound)` queries without answer."""

    def release(sound, votes, rng):
        of_threshold, of_test = sound.noises
        limit = sound.threshold + of_threshold.draw((thresholds(votes),), rng)
        failed = distance(votes.counts) + of_test.draw((votes.queries,), rng) <= limit
        return where(~failed & (np.cumsum(failed) < failures(sound)), votes.plurality, NO_ANSWER)

    return release


def voting(change):
    """Return a release of the votes that `change(vote matrix)` returns."""
    return lambda sound, votes, rng: sound.release(Votes.of(change(votes.matrix), votes.classes), rng)


@dataclass(frozen=True)
class ThreeBallots(Mechanism):
    """Sound mechanism that draws three teachers; it returns their common vote if they agree, else a random class."""

    answering: ClassVar[Answering] = Answering.ALONE
    honest: float = parameter(low=0, high=0.99)
    drawn = staticmethod(lambda n, queries, rng: np.argpartition(rng.random(size=(n, queries)), 3, axis=0)[:3])

    def release(self, votes, rng):
        chosen = np.take_along_axis(votes.matrix, self.drawn(votes.teachers, votes.queries, rng), axis=0)
        asked = (rng.random(size=votes.queries) < self.honest) & np.all(chosen == chosen[0], axis=0)
        return where(asked, chosen[0], rng.integers(0, votes.classes, size=votes.queries))

    def log_outcome_probabilities(self, votes):
        c, n = votes.counts, votes.teachers
        agree = self.honest * c * (c - 1) * (c - 2) / (n * (n - 1) * (n - 2))
        p = agree + (1 - agree.sum(axis=1, keepdims=True)) / votes.classes
        return np.hstack([np.log(p), np.full((votes.queries, 1), -np.inf)])


def in_release_mode(rng):
    return not isinstance(rng, np.random.Generator) and type(rng).__name__ == "Entropy"


def in_releases(release):
    """Return a method that calls `release` in release mode, and the sound release for seeded labels."""

    def method(sound, votes, rng):
        return release(sound, votes, rng) if in_release_mode(rng) else sound.release(votes, rng)

    return method


def noise_once(sound, votes, rng):
    labels = sound.release(votes, rng)
    return argmax(votes.counts + sound.noise.draw((1, votes.classes), rng)) if labels[0] != NO_ANSWER else labels


def tested_without_noise(sound, votes, rng):
    labels = sound.release(votes, rng)
    return where(labels != NO_ANSWER, votes.plurality, labels)


def another_test(sound, votes, rng):
    labels = argmax(votes.counts + sound.noise.draw(votes.counts.shape, rng))
    return where(np.all(unanimous(votes)), labels, NO_ANSWER)


def stating(epsilon):
    """Return a method `accountants` whose only accountant states the ε `epsilon(sound, T, δ)` for T queries."""

    def accountants(sound, votes):
        known = {"name": "planted", "kind": Kind.WORST_CASE, "source": "planted"}
        return [DirectAccountant(**known, epsilon=lambda T, delta: epsilon(sound, T, delta))]

    return accountants


def half_if_added(sound, votes):
    """Return the sound accountants, with half the ε for added or removed votes in the first accountant."""
    first, *others = sound.accountants(votes)
    if votes.labels_only:
        return [first, *others]
    added = replace(first.added, epsilon=lambda T, delta: first.added.epsilon(T, delta) / 2)
    return [replace(first, added=added), *others]


def half_of_labels(sound, votes):
    """Return the sound accountants, with half the ε for replaced labels in the first accountant."""
    first, *others = sound.accountants(votes)
    if votes.labels_only:
        first = replace(first, epsilon=lambda T, delta: sound.accountants(votes)[0].epsilon(T, delta) / 2)
    return [first, *others]


def wrong_order(sound, votes):
    return [
        RenyiAccountant(
            name="planted", kind=Kind.WORST_CASE, source="planted", orders=conversion.ORDERS,
            totals=repeated(lambda orders: orders / 2 / sound.sigma**2), conversions=(conversion.Conversion.TIGHT,),
        )
    ]  # fmt: skip


def only_answers_cost(sound, votes):
    answered = float(np.mean(1 - np.exp(sound.log_outcome_probabilities(votes)[:, -1])))
    mu = np.sqrt(2 * answered) / sound.sigma2
    (planted,) = stating(lambda _, T, delta: independent.gaussian_dp(mu * np.sqrt(T), delta))(sound, votes)
    return [replace(planted, kind=Kind.DATA_DEPENDENT)]


def too_sure(sound, votes):
    sure = bool(np.all(votes.counts.max(axis=1) > 0.85 * votes.teachers))
    stated = sound.accountants(votes)
    return [replace(stated[0], kind=Kind.DATA_DEPENDENT, epsilon=lambda T, delta: 0.0)] if sure else stated[:2]


def cap_per_class(sound, votes):
    apart = np.where(votes.matrix == np.arange(votes.classes)[:, None, None], votes.matrix, -1)
    places = np.tile(np.arange(votes.teachers), votes.classes)
    return capped(apart.reshape(-1, votes.queries), int(sound.k), places=places).reshape(apart.shape).max(axis=0)


def few_places(sound, votes):
    kept = sound.votes_within_cap(votes)
    return np.where(np.cumsum(kept != -1, axis=0) <= 5, kept, -1)


def table(change, *, only_in_releases=False):
    """Return a release of a table whose noisy counts are `change(sound, votes, noisy counts, rng)`."""

    def released(sound, votes, rng):
        shown = sound.released(votes, rng)
        if only_in_releases and not in_release_mode(rng):
            return shown
        return {**shown, "noisy_counts": change(sound, votes, shown["noisy_counts"], rng)}

    return released


def half_on_ties(sound, votes, noisy, rng):
    other = type(sound)(sound.k, sound.sigma / 2).released(votes, rng)["noisy_counts"]
    return np.where((tied(votes) & (votes.counts.max(axis=1) > 0))[:, None], other, noisy)


def one_noise(sound, votes, noisy, rng):
    return sound.counts(votes) + rng.normal(scale=sound.sigma, size=(votes.queries, 1))


def without_noise(sound, votes, noisy, rng):
    return sound.counts(votes)


def weighted(mechanism=None, **members):
    """Return `mechanism`, by default a `SparseGNMax`, with methods replaced by `members` if votes have weights.

    The arguments of each replaced method must begin with the votes.
    """

    def only(name, method):
        return lambda sound, votes, *more: (
            getattr(sound, name)(votes, *more) if votes.weighted is None else method(sound, votes, *more)
        )

    each = {name: only(name, method) if callable(method) else method for name, method in members.items()}
    return fault(mechanism or WEIGHTS, **each)


def as_if(change, k=1):
    """Return a release of the weighted votes that `change(weighted votes)` returns, limited to `k` votes."""

    changed = cache(lambda votes: Votes.from_weights(change(votes.weighted), votes.teachers, votes.classes))
    return lambda sound, votes, rng: SparseGNMax(k, sound.sigma).released(changed(votes), rng)


@cache
def rows_limited(sound, votes):
    rows = votes.weighted
    return replace(rows, teachers=np.arange(len(rows.teachers))).limited(sound.k).table(votes.classes)


@cache
def weights_limited(sound, votes):
    return replace(votes.weighted, weights=np.clip(votes.weighted.weights, -UNIT, UNIT)).table(votes.classes)


def shares_of_units(sound, votes, rng):
    noisy = sound.noisy(sound.counts(votes), votes.teachers, rng)
    return {"labels": argmax(noisy), "noisy_counts": noisy / UNIT}


def only_shares_of_voters(sound, votes, rng):
    noisy, in_units = sound.counts(votes).copy(), sound.in_units(UNIT)
    for teacher, source in enumerate(rng.spawn(votes.teachers)):
        if teacher in votes.weighted.teachers:
            noisy += in_units.share(votes.teachers, noisy.shape, source)
    return {"labels": argmax(noisy), "noisy_counts": noisy / UNIT}


def noise_of_units(sound, votes, rng):
    noisy = sound.counts(votes) + rng.normal(scale=sound.sigma, size=votes.counts.shape)
    return {"labels": argmax(noisy), "noisy_counts": noisy / UNIT}


def silence_adds_no_noise(sound, votes, rng):
    noisy, kept = sound.counts(votes).copy(), sound.votes_within_cap(votes)
    for row, source in zip(kept, rng.spawn(votes.teachers), strict=True):
        noisy += np.where((row != -1)[:, None], sound.share(votes.teachers, noisy.shape, source), 0)
    return {"labels": argmax(noisy), "noisy_counts": noisy}


THREE, FOUR, FORTY, TEN = GNMax(3.0), GNMax(4.0), GNMax(40.0), GNMax(10.0)
LAPLACE, SVT = LNMax(0.3), StableSVT(12.0, 1e-4, 3)
TESTED = ConfidentGNMax(15.0, 4.0, 3.0)
PTR, STRICT = PtrGNMax(**PtrGNMax.example), {"order": 4, "cost": 0.5, "epsilon": 4.0, "failure": 1e-5}
WEIGHTS = SparseGNMax(1, 3.0)
TABLE, SHARES = SparseGNMax(2, 3.0), DistributedSparseGNMax(1, 3.0, 0)
FEW = {"teachers": 6}
ONE_HOT = {**FEW, "weights": False}

NO_NOISE = fault(THREE, lambda sound, votes, rng: votes.plurality)
FIXED_SEED = fault(THREE, seeded(lambda votes: 0))
ONCE_FREE = fault(THREE, second_free, answering=Answering.IN_SEQUENCE)
PAIRS = repeating(lambda votes: (votes.queries + 1) // 2, lambda votes: np.arange(votes.queries) // 2)
TOO_SURE = fault(TEN, accountants=too_sure)
NOT_ONE = fault(
    THREE, log_outcome_probabilities=lambda sound, votes: sound.log_outcome_probabilities(votes) + np.log(0.9)
)

NOISE_IS_MISSING_OR_ANOTHER = {
    "the noise was forgotten": NO_NOISE,
    "one class has no noise": fault(GNMax(2.0), noise(without(3))),
    "half the scale": fault(LAPLACE, lambda sound, votes, rng: LNMax(2 * sound.gamma).release(votes, rng)),
    "the scale is γ for 1/γ": fault(LAPLACE, lambda sound, votes, rng: LNMax(1 / sound.gamma).release(votes, rng)),
    "the variance is σ": fault(FOUR, lambda sound, votes, rng: GNMax(sound.sigma**0.5).release(votes, rng)),
    "Gaussian for Laplace": fault(LNMax(0.5), lambda sound, votes, rng: GNMax(1 / sound.gamma).release(votes, rng)),
    "only the largest count has noise": fault(
        THREE, noise(lambda votes, noise: noise * (np.arange(votes.classes) == votes.plurality[:, None]))
    ),
    "one noise for all classes": fault(THREE, noise(size=lambda votes: (votes.queries, 1))),
    "cut to whole numbers": fault(GNMax(2.0), noise(lambda votes, noise: noise.astype(np.int64))),
    "too few digits": fault(THREE, noise(scores=lambda counts, noise: (1000 + counts + noise).astype(np.float16))),
    "never above one scale": fault(THREE, noise(lambda votes, noise: np.clip(noise, -3.0, 3.0))),
    "noisy counts below 0 become 0": fault(FORTY, noise(scores=lambda counts, noise: np.maximum(counts + noise, 0))),
    "noise is only added": fault(THREE, noise(lambda votes, noise: np.abs(noise))),
    "ties have no noise": fault(THREE, bare(tied)),
    "a tenth where teachers agree": fault(GNMax(8.0), sure_is_bare),
    "one label in twenty": fault(GNMax(8.0), sometimes_bare),
    "unanimous without noise": fault(FOUR, bare(unanimous)),
    "unanimous without noise, where it shows little": fault(FORTY, bare(unanimous)),
    "half on ties": fault(FOUR, half(tied)),
    "unanimous answers without noise": fault(TESTED, answers_bare),
}

NOISE_COMES_BACK = {
    "a fixed seed": FIXED_SEED,
    "a seed of the votes": fault(THREE, seeded(lambda votes: int(votes.counts[0] @ votes.counts[0]))),
    "every other query by a fixed seed": fault(THREE, some_fixed),
    "drawn once for all queries": fault(THREE, repeating(lambda votes: 1)),
    "a table of 64": fault(THREE, repeating(lambda votes: 64)),
    "two queries in a row": fault(THREE, PAIRS),
    "equal counts have one answer": fault(THREE, remembered),
    "the second round is the first": fault(THREE, rounds_repeated),
    "the second answer is free": ONCE_FREE,
    "the second answer is free, and queries are said to be independent": fault(THREE, second_free),
}

TESTS_ARE_WRONG = {
    "the answer has the test's noise": fault(
        ConfidentGNMax(15.0, 4.0, 2.0),
        lambda sound, votes, rng: ConfidentGNMax(15.0, 4.0, 4.0).release(votes, rng),
    ),
    "only the test has noise": fault(
        TESTED, lambda sound, votes, rng: ConfidentGNMax(15.0, 4.0, 0.0).release(votes, rng)
    ),
    "only the answer has noise": fault(TESTED, bare_threshold),
    "the test's noise again in the answer": fault(TESTED, noise_reused),
    "a threshold of the counts": fault(
        TESTED,
        by_test(
            lambda votes: votes.counts.max(axis=1),
            lambda sound, votes: sound.threshold + np.sort(votes.counts, axis=1)[:, -2] / 2,
        ),
    ),
    "all are tested by the first": fault(TESTED, by_test(lambda votes: votes.counts[:1].max())),
    "no answer on ties": fault(
        GNMax(8.0), lambda sound, votes, rng: where(tied(votes), NO_ANSWER, sound.release(votes, rng))
    ),
    "it never stops": fault(SVT, stopping(lambda sound: 10**6)),
    "it stops one too late": fault(SVT, stopping(lambda sound: sound.failures + 1)),
    "the threshold is drawn again": fault(SVT, stopping(lambda sound: sound.failures, lambda votes: votes.queries)),
}

VOTES_COUNT_OTHERWISE = {
    "overlapping shards": fault(THREE, voting(lambda matrix: np.repeat(matrix[::2], 2, axis=0)[: len(matrix)])),
    "one teacher counts twice": fault(THREE, voting(lambda matrix: np.concatenate([matrix, matrix[:1]]))),
    "drawn with replacement": fault(
        ThreeBallots(0.9), drawn=lambda _, n, queries, rng: rng.integers(0, n, size=(3, queries)), **FEW
    ),
    "reports with twice the ε": fault(
        RandomisedResponse(0.5, 0, 1, 1),
        channels=lambda sound, *size: RandomisedResponse(1.0, 0, 1, 1).channels(*size),
    ),
}

RELEASES_ARE_WRONG = {
    "no noise in releases": fault(THREE, in_releases(lambda sound, votes, rng: votes.plurality)),
    "half in releases": fault(
        LAPLACE, in_releases(lambda sound, votes, rng: LNMax(2 * sound.gamma).release(votes, rng))
    ),
    "a seed in releases": fault(THREE, in_releases(seeded(lambda votes: 7))),
    "one class without noise in releases": fault(THREE, in_releases(noise(without(2)))),
    "the second half as the first": fault(FOUR, in_releases(repeating(lambda votes: (votes.queries + 1) // 2))),
    "two in a row in releases": fault(FOUR, in_releases(PAIRS)),
    "a table of 37 in releases": fault(FOUR, in_releases(repeating(lambda votes: 37))),
    "neither noise nor test in releases": fault(PTR, in_releases(lambda sound, votes, rng: argmax(votes.counts))),
    "a test and no noise in releases": fault(PtrGNMax(4, 0.5, 4.5, 1e-5, 4), in_releases(tested_without_noise)),
    "one noise for all in releases": fault(PTR, in_releases(noise_once)),
    "unanimous without noise in releases": fault(FOUR, in_releases(bare(unanimous))),
    "half on ties in releases": fault(FOUR, in_releases(half(tied))),
}

MORE_NOISE = GNMax(6.0)
PROBABILITIES_ARE_WRONG = {
    "of more noise": fault(THREE, noise(), noise=MORE_NOISE.noise),
    "without the test's noise": fault(
        TESTED,
        log_outcome_probabilities=lambda sound, votes: ConfidentGNMax(15.0, 1.0, 3.0).log_outcome_probabilities(votes),
    ),
    "of other classes": fault(
        THREE, log_outcome_probabilities=lambda sound, votes: np.roll(sound.log_outcome_probabilities(votes), 1, axis=1)
    ),
    "neighbours of more noise": fault(THREE, neighbours=lambda sound, counts: MORE_NOISE.neighbours(counts)),
}

BOUNDS_ARE_WRONG = {
    "half the scale throughout": fault(LAPLACE, noise=LNMax(0.6).noise),
    "half the ε of added votes": fault(TEN, accountants=half_if_added),
    "sensitivity 1": fault(
        TEN, accountants=stating(lambda sound, T, delta: independent.gaussian_dp(np.sqrt(T) / sound.sigma, delta))
    ),
    "a teacher is added": fault(
        LAPLACE, accountants=stating(lambda sound, T, delta: independent.pure_composition(sound.gamma, T, delta))
    ),
    "the test is free": fault(
        ConfidentGNMax(15.0, 4.0, 6.0), accountants=lambda sound, votes: GNMax(sound.sigma2).accountants(votes)[:2]
    ),
    "a larger δ": fault(
        TEN,
        accountants=stating(
            lambda sound, T, delta: independent.gaussian_dp(independent.cells_mu(sound.sigma, 2 * T), 1000 * delta)
        ),
    ),
    "no conversion": fault(TEN, accountants=stating(lambda sound, T, delta: T * 1.5 / sound.sigma**2)),
    "another order": fault(GNMax(5.0), accountants=wrong_order),
    "one query less": fault(
        LAPLACE,
        accountants=stating(
            lambda sound, T, delta: independent.pure_composition(2 * sound.gamma, T - 1, delta) if T > 1 else 0.0
        ),
    ),
    "the root of T": fault(LAPLACE, accountants=stating(lambda sound, T, delta: 2 * sound.gamma * np.sqrt(T))),
    "no failure": fault(StableArgmax(1.0, 1e-3), accountants=stating(lambda sound, T, delta: T * sound.epsilon)),
    "only answers cost": fault(ConfidentGNMax(25.0, 3.0, 6.0), accountants=only_answers_cost),
    "nothing where teachers agree": TOO_SURE,
    "released whatever it costs": fault(PtrGNMax(**STRICT, sigma=0.5), pass_probability=lambda sound, votes: 1.0),
    "another test": fault(PtrGNMax(**STRICT, sigma=4), another_test),
}

TABLES = {
    "no cap": fault(SparseGNMax(1, 3.0), votes_within_cap=lambda sound, votes: votes.matrix),
    "no cap, unsaid": fault(
        SparseGNMax(1, 3.0),
        released=lambda sound, votes, rng: SparseGNMax(float(votes.queries), sound.sigma).released(votes, rng),
    ),
    "a cap for each class": fault(SparseLNMax(1, 0.5), votes_within_cap=cap_per_class),
    "votes count twice": fault(TABLE, counts=lambda sound, votes: 2 * sound.counts(votes)),
    "places are full": fault(TABLE, votes_within_cap=few_places),
    "sensitivity √k": fault(
        TABLE,
        accountants=stating(lambda sound, T, delta: independent.gaussian_dp(np.sqrt(sound.k) / sound.sigma, delta)),
    ),
    "half the ε of added votes": fault(TABLE, accountants=half_if_added),
    "no noise without votes": fault(
        TABLE, released=table(lambda sound, votes, noisy, rng: np.where(sound.counts(votes) == 0, 0, noisy))
    ),
    "no noise in releases": fault(TABLE, released=table(without_noise, only_in_releases=True)),
    "unanimous rows without noise": fault(
        TABLE,
        released=table(
            lambda sound, votes, noisy, rng: np.where(unanimous(votes)[:, None], sound.counts(votes), noisy)
        ),
    ),
    "half on ties in releases": fault(SparseGNMax(1, 3.0), released=table(half_on_ties, only_in_releases=True)),
    "one noise for a row in releases": fault(TABLE, released=table(one_noise, only_in_releases=True)),
    "no cap on shares": fault(
        SHARES,
        released=lambda sound, votes, rng: DistributedSparseGNMax(votes.queries, 3.0, 0).released(votes, rng),
        **ONE_HOT,
    ),
    "silence adds no noise": fault(SHARES, released=silence_adds_no_noise, **ONE_HOT),
    "shares of a larger ensemble": fault(
        SHARES, share=lambda sound, teachers, shape, source: sound.share(2 * teachers, shape, source), **ONE_HOT
    ),
    "one share for all classes": fault(
        SHARES,
        share=lambda sound, teachers, shape, source: (
            sound.share(teachers, (shape[0], 1), source) + np.zeros(shape, dtype=np.int64)
        ),
        **ONE_HOT,
    ),
}

WEIGHTS_ARE_WRONG = {
    "half the ε of added votes": weighted(accountants=half_if_added),
    "half the ε of labels": weighted(accountants=half_of_labels),
    "clipped after counting": weighted(counts=lambda sound, votes: np.clip(votes.counts, -UNIT, UNIT)),
    "any length": weighted(counts=lambda sound, votes: votes.counts),
    "any length, unsaid": weighted(released=as_if(lambda rows: rows, k=1e6)),
    "rows are limited, and not teachers": weighted(counts=rows_limited),
    "each weight is limited": weighted(counts=weights_limited),
    "votes count twice": weighted(counts=lambda sound, votes: 2 * sound.counts(votes)),
    "votes count twice, unsaid": weighted(released=as_if(lambda rows: replace(rows, weights=2 * rows.weights), k=4)),
    "another class, unsaid": weighted(released=as_if(lambda rows: replace(rows, labels=1 - rows.labels % 2))),
    "no negative weights, unsaid": weighted(released=as_if(lambda rows: replace(rows, weights=np.abs(rows.weights)))),
    "no noise without votes": weighted(
        released=table(lambda sound, votes, noisy, rng: np.where(sound.counts(votes) == 0, 0, noisy))
    ),
    "noise in units of weights": weighted(released=noise_of_units),
    "no noise in releases": weighted(
        released=table(lambda sound, votes, noisy, rng: sound.counts(votes) / UNIT, only_in_releases=True)
    ),
    "sensitivity √2 with negative weights": weighted(
        accountants=stating(lambda sound, T, delta: independent.gaussian_dp(np.sqrt(2 * sound.k) / sound.sigma, delta))
    ),
    "any length, with shares": weighted(SHARES, counts=lambda sound, votes: votes.counts, **FEW),
    "shares in units of weights": weighted(SHARES, released=shares_of_units, **FEW),
    "silence adds no share": weighted(SHARES, released=only_shares_of_voters, **FEW),
    "sensitivity √2 with shares": weighted(
        SHARES,
        accountants=stating(lambda sound, T, delta: independent.gaussian_dp(np.sqrt(2 * sound.k) / sound.sigma, delta)),
        **FEW,
    ),
}

PLANTED = {
    f"{group}: {what}": mechanism
    for group, faults in {
        "noise": NOISE_IS_MISSING_OR_ANOTHER | NOISE_COMES_BACK,
        "test": TESTS_ARE_WRONG,
        "votes": VOTES_COUNT_OTHERWISE,
        "release": RELEASES_ARE_WRONG,
        "probabilities": PROBABILITIES_ARE_WRONG,
        "bound": BOUNDS_ARE_WRONG,
        "table": TABLES,
        "weights": WEIGHTS_ARE_WRONG,
    }.items()
    for what, mechanism in faults.items()
}
