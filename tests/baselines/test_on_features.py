"""Methods on public features: their cost, what one record changes in every small world, and planted faults."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chisquare, kstest, norm

from patebench.baselines.on_features import (
    FEATURE_METHODS,
    evolution,
    feature_sums,
    individual_knn,
    least_squares,
    prototypes,
)
from patebench.baselines.on_features.feature_method import FeatureMethod, Fitted, GaussianSums, PrivateRecords
from patebench.core.bound import Adjacency, Kind

#: Methods that protect whole records.
OF_RECORDS = [name for name in FEATURE_METHODS if not FEATURE_METHODS.fact(name, "labels_only")]

DELTA, CLASSES = 1e-5, 3
SUMS = ["dppl-mean", "least-squares", "least-squares-private", "private-evolution", "ind-knn"]
OPTIONS: dict[str, dict[str, Any]] = {
    "private-evolution": {"rounds": 2, "candidates": 3},
    "dppl-public": {"prototypes": 2},
    "ind-knn": {"queries": 4, "neighbours": 2},
}
POOL = np.random.default_rng(3).normal(size=(6, 2))
#: Opposite, equal, long, short and zero features; the last two have the inner product −½ in least squares.
POINTS = np.array(
    [[1.0, 0], [-1, 0], [0.6, 0.8], [-0.6, -0.8], [9, -9], [-9, 9], [0.01, 0], [0, 0], [180, -180], [36, 252]]
)


def _method(name: str, noise: float = 1.0, **options: Any) -> Any:
    return FEATURE_METHODS.load(name)(noise=noise, **{**OPTIONS.get(name, {}), **options})


# The cost.


def _epsilon(mu: float, delta: float = DELTA) -> float:
    """Return ε of μ-GDP at `delta`, by solving the formula of δ(ε) numerically."""

    def gap(epsilon: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(gap, 0, 50))


@pytest.mark.parametrize(
    ("name", "replaced", "added"),
    [
        ("dppl-mean", 2, 1),
        ("least-squares", 2 * math.sqrt(15 / 16), 1),
        ("least-squares-private", math.sqrt(4.5), math.sqrt(2)),
        ("private-evolution", 2, math.sqrt(2)),
        ("ind-knn", math.sqrt(2), 1),
    ],
)
def test_epsilon_is_that_of_the_gaussian_mechanism(name: str, replaced: float, added: float) -> None:
    for noise in (2.0, 10, 50, 400):
        bound = _method(name, noise).bound(DELTA)
        assert bound.epsilon == pytest.approx(_epsilon(replaced / noise), rel=1e-6)
        assert bound.add_or_remove == pytest.approx(_epsilon(added / noise), rel=1e-6)
    assert (bound.adjacency, bound.kind, bound.publishable) == (Adjacency.REPLACE_RECORD, Kind.WORST_CASE, False)


@pytest.mark.parametrize("name", OF_RECORDS)
def test_the_least_noise_keeps_its_target_and_no_noise_costs_infinity(name: str) -> None:
    none = _method(name, 0)
    assert none.bound(DELTA).epsilon == none.bound(DELTA).add_or_remove == math.inf
    if name in SUMS:
        assert np.array_equal(none.noisy(np.ones((4, 5)), np.random.default_rng(0)), np.ones((4, 5)))
    for change, place in (("replaced", 0), ("added-or-removed", 1)):
        method = FEATURE_METHODS.load(name).calibrated(0.5, DELTA, change, **OPTIONS.get(name, {}))
        reached = method.costs(DELTA)[place]
        assert reached <= 0.5
        assert reached == pytest.approx(0.5, rel=1e-6)


# What one record changes.


def _releasing(name: str, sums: list[np.ndarray]) -> FeatureMethod:
    """Return a method whose releases do not depend on the records, and which appends the sums to a list."""
    kind = FEATURE_METHODS.load(name)

    class Fixed(kind):  # type: ignore[misc, valid-type]
        def noisy(self, exact: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            sums.append(exact)
            return np.random.default_rng(len(sums)).normal(size=exact.shape)

        def choose(self, scores: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            sums.append(scores)
            return np.arange(2 * scores.shape[1]).reshape(-1, 2)

    return Fixed(noise=1.0, **OPTIONS.get(name, {}))


def _released(name: str, records: tuple[tuple[int, int], ...]) -> tuple[list[np.ndarray], Fitted]:
    """Return the exact sums of a method on records (point, label), and its classifier."""
    sums: list[np.ndarray] = []
    points, labels = (np.array(part, dtype=int) for part in (zip(*records, strict=True) if records else ((), ())))
    private = PrivateRecords(POINTS[points], labels)
    return sums, _releasing(name, sums).fit(private, POOL, CLASSES, np.random.default_rng(0))


ONE = list(itertools.product(range(len(POINTS)), range(CLASSES)))


def _largest_distances(name: str) -> tuple[float, float]:
    """Return the largest squared distance of all sums if a record is replaced, and if one is added or removed."""
    other = ((2, 0),)  # a record that stays
    of_one = [np.concatenate([part.ravel() for part in _released(name, (one, *other))[0]]) for one in ONE]
    without = np.concatenate([part.ravel() for part in _released(name, other)[0]])
    replaced = max(float(np.square(one - two).sum()) for one, two in itertools.combinations(of_one, 2))
    return replaced, max(float(np.square(one - without).sum()) for one in of_one)


@pytest.mark.parametrize("name", SUMS)
def test_a_record_changes_sums_by_at_most_the_stated_distances(name: str) -> None:
    stated, found = _method(name).squared_changes, _largest_distances(name)
    assert all(distance <= bound for distance, bound in zip(found, stated, strict=True))
    assert all(distance >= 0.99 * bound for distance, bound in zip(found, stated, strict=True))


@pytest.mark.parametrize("name", OF_RECORDS)
def test_nothing_but_what_is_released_depends_on_the_records(name: str) -> None:
    asked = np.random.default_rng(1).normal(size=(20, 2))
    (_, first), *others = [_released(name, records) for records in [(), *((one,) for one in ONE), tuple(ONE)]]
    for _, fitted in others:
        assert np.array_equal(fitted.scores(asked), first.scores(asked))
        assert fitted.model == first.model
        assert (fitted.labels is None and first.labels is None) or np.array_equal(fitted.labels, first.labels)


@pytest.mark.parametrize("name", SUMS)
def test_all_coordinates_of_all_releases_of_a_fit_have_independent_noise(name: str) -> None:
    noise = _noise_of_fits(name, 400) / 7
    assert kstest(noise[:, 0], "norm").pvalue > 1e-3
    assert (abs(noise.std(axis=0) - 1) < 0.2).all()
    correlations = np.corrcoef(noise.T)
    assert abs(correlations[np.triu_indices(len(correlations), 1)]).max() < 0.25


def _noise_of_fits(name: str, fits: int) -> np.ndarray:
    """Return the noise (fits, coordinates) of all releases of fits without records, each with its own generator."""
    drawn: list[np.ndarray] = []
    kind = FEATURE_METHODS.load(name)

    class Observed(kind):  # type: ignore[misc, valid-type]
        def noisy(self, exact: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            released: np.ndarray = super().noisy(exact, rng)
            drawn.append((released - exact).ravel())
            return released

    for seed in range(fits):
        method = Observed(noise=7.0, **OPTIONS.get(name, {}))
        method.fit(PrivateRecords(POINTS[:0], np.zeros(0, int)), POOL, CLASSES, np.random.default_rng(seed))
    assert len(drawn) == fits * method.releases
    return np.concatenate(drawn).reshape(fits, -1)


def test_sums_do_not_depend_on_the_order_or_the_other_records() -> None:
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(501, 37)), rng.integers(0, 3, 501)
    scaling = feature_sums.Scaling.of(rng.normal(size=(60, 37)), 11, 0.25)
    units = scaling.units(features)
    assert np.array_equal(units[1:], scaling.units(features[1:]))
    assert (np.square(units).sum(axis=1) <= feature_sums.UNIT**2).all()
    shuffled = rng.permutation(501)
    for total in (lambda rows: feature_sums.class_sums(units[rows], labels[rows], 3),
                  lambda rows: feature_sums.outer_sums(units[rows])):  # fmt: skip
        assert np.array_equal(total(slice(None)), total(shuffled))
        assert np.array_equal(total(slice(None)) - total(slice(1, None)), total(slice(0, 1)))


# Public prototypes.


def _probabilities(scores: np.ndarray, rate: float, count: int) -> dict[tuple[int, ...], float]:
    """Return the probability of each set of `count` public samples, proportional to e^(rate · smallest score)."""
    sets = list(itertools.combinations(range(len(scores)), count))
    weights = np.exp([rate * scores[list(each)].min() for each in sets])
    return dict(zip(sets, weights / weights.sum(), strict=True))


def test_prototypes_are_drawn_with_the_stated_probabilities() -> None:
    scores = np.array([[0.0, 2.5], [1, 0], [1, 3], [2.5, 0.5], [0.3, 1]])
    method, rng = prototypes.PublicPrototypes(noise=0.8, prototypes=2), np.random.default_rng(0)
    drawn = [method.choose(scores, rng) for _ in range(8000)]
    for label in range(2):
        expected = _probabilities(scores[:, label], 1 / 0.8, 2)
        counts = dict.fromkeys(expected, 0)
        for chosen in drawn:
            counts[tuple(map(int, chosen[label]))] += 1  # sorted, as only the set is private
        assert chisquare(list(counts.values()), [8000 * p for p in expected.values()]).pvalue > 1e-3
    exact = prototypes.PublicPrototypes(noise=0.0, prototypes=2).choose(scores, rng)
    assert [set(map(int, own)) for own in exact] == [{3, 2}, {2, 0}] or [set(own) for own in exact] == [{3, 1}, {2, 0}]


def _largest_ratios(scored: Callable[[tuple[tuple[int, int], ...]], np.ndarray], rate: float) -> tuple[float, float]:
    """Return the largest log-ratio of outcomes of all classes, if a record is replaced, or added or removed."""

    def log_probabilities(records: tuple[tuple[int, int], ...]) -> list[np.ndarray]:
        return [np.log(list(_probabilities(own, rate, 2).values())) for own in scored(records).T]

    other = ((2, 0),)
    of_one, without = [log_probabilities((one, *other)) for one in ONE], log_probabilities(other)

    def gap(one: list[np.ndarray], two: list[np.ndarray]) -> float:
        return sum(float((p - q).max()) for p, q in zip(one, two, strict=True))  # classes are independent

    replaced = max(gap(one, two) for one, two in itertools.permutations(of_one, 2))
    return replaced, max(max(gap(one, without), gap(without, one)) for one in of_one)


def test_a_record_changes_the_probabilities_of_prototypes_by_at_most_the_stated_cost() -> None:
    for noise in (0.4, 2.0):
        method = _method("dppl-public", noise)
        found = _largest_ratios(lambda records: _released("dppl-public", records)[0][0], 1 / noise)
        for ratio, stated in zip(found, method.costs(DELTA), strict=True):
            assert 0.5 * stated <= ratio <= stated + 1e-9


def test_scores_of_public_samples_follow_from_the_public_range() -> None:
    rng = np.random.default_rng(5)
    pool, features = rng.normal(size=(40, 6)), rng.normal(size=(30, 6)) + 2  # private records are unlike the pool
    labels, scores = np.arange(30) % CLASSES, list[np.ndarray]()
    method = _releasing("dppl-public", scores)
    method.fit(PrivateRecords(features, labels), pool, CLASSES, np.random.default_rng(0))
    public, own = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (pool - pool.mean(0), features - pool.mean(0)))
    low, high = np.quantile((public @ public.T)[np.triu_indices(40, 1)], (0.5, 0.99))
    similar = np.clip((own @ public.T - low) / (high - low), 0, 1)
    expected = np.stack([similar[labels == label].sum(axis=0) for label in range(CLASSES)], axis=1)
    assert scores[0] == pytest.approx(expected, abs=0.02)


# Planted faults, each of which a test above finds.


def _noise_of_the_fit(self: Any, sums: np.ndarray, rng: Any) -> np.ndarray:
    """Add the same noise in each release of a fit."""
    seed = rng.bit_generator.seed_seq.entropy
    return np.asarray(sums + self.noise * np.random.default_rng(seed).standard_normal(sums.shape))


def _exact_counts(self: Any, sums: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add no noise to the numbers of records, the last row of a table."""
    noise = self.noise * rng.standard_normal(sums.shape)
    if sums.ndim == 2:
        noise[-1] = 0
    return np.asarray(sums + noise)


def _private_range(
    fit: Callable[..., Fitted], ranged: Callable[..., Any], self: Any, private: PrivateRecords, *public: Any
) -> Fitted:
    own = prototypes._directions(private.features)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prototypes, "_similarity_range", lambda pool: ranged(np.vstack([pool, own])))
        return fit(self, private, *public)


def _with_private_range() -> Callable[..., Fitted]:
    fault = partial(_private_range, prototypes.PublicPrototypes.fit, prototypes._similarity_range)
    return lambda *given: fault(*given)  # a function becomes a method


def _clip_after_summing(self: Any, features: np.ndarray) -> np.ndarray:
    vectors: np.ndarray = np.trunc(self.along(features) / self.length * feature_sums.UNIT)
    return vectors if not self.constant else np.column_stack([vectors, np.full(len(vectors), self.constant)])


def _noisy_in_all_classes_but_one(self: Any, sums: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(sums + self.noise * rng.standard_normal(sums.shape) * (np.arange(sums.shape[1]) > 0))


def _exact_covariance(self: Any, units: np.ndarray, pool: np.ndarray, records: float, rng: Any) -> np.ndarray:
    return feature_sums.outer_sums(np.concatenate([units, pool])) / (len(units) + len(pool))


def _best_prototypes(self: Any, private: PrivateRecords, pool: np.ndarray, classes: int, rng: Any) -> Fitted:
    means = [private.features[private.labels == label].sum(axis=0) for label in range(classes)]
    chosen = pool[[int((pool @ mean).argmax()) for mean in means]]
    return Fitted(lambda features: features @ chosen.T, "2 public prototypes per class")


_distances = test_a_record_changes_sums_by_at_most_the_stated_distances
_dependence = test_nothing_but_what_is_released_depends_on_the_records
_independence = test_all_coordinates_of_all_releases_of_a_fit_have_independent_noise
FAULTS: list[tuple[Any, str, Any, Callable[..., None], tuple[str, ...]]] = [
    *((feature_sums.Scaling, "units", _clip_after_summing, _distances, (name,)) for name in SUMS[:3]),
    # Too small a sensitivity: √2, for features that may be negative; the covariance for free; one of two rounds.
    (prototypes.ClassMeans, "squared_changes", (2.0, 1.0), _distances, ("dppl-mean",)),
    (least_squares.LeastSquares, "squared_changes", (2.0, 1.0), _distances, ("least-squares",)),
    (least_squares.PrivateLeastSquares, "squared_changes", (4.4, 2.0), _distances, ("least-squares-private",)),
    (evolution.PrivateEvolution, "squared_changes", (2.0, 1.0), _distances, ("private-evolution",)),
    # All records vote for two candidates.
    (evolution, "nearest", lambda x, pool: np.arange(2 * len(x)) // 2 % len(pool), _distances, ("private-evolution",)),
    # A record votes on all queries near it, whatever its budget; far records vote against their class.
    (individual_knn, "_within_budget", lambda votes: np.trunc(votes * 2**16), _distances, ("ind-knn",)),
    (individual_knn, "_vote_weights", lambda squares, radii: 1 - squares / radii, _distances, ("ind-knn",)),
    (GaussianSums, "noisy", _noisy_in_all_classes_but_one, _independence, ("dppl-mean",)),
    (least_squares.PrivateLeastSquares, "_covariance", _exact_covariance, _dependence, ("least-squares-private",)),
    (evolution.PrivateEvolution, "noisy", _noise_of_the_fit, _independence, ("private-evolution",)),
    (least_squares.LeastSquares, "noisy", _exact_counts, _independence, ("least-squares",)),
    (least_squares.LeastSquares, "noisy", _exact_counts, _independence, ("least-squares-private",)),
    (prototypes.PublicPrototypes, "fit", _best_prototypes, _dependence, ("dppl-public",)),
    (
        *(prototypes.PublicPrototypes, "fit", _with_private_range()),
        *(test_scores_of_public_samples_follow_from_the_public_range, ()),
    ),
    (
        *(prototypes, "_class_scores", partial(lambda score, *given: 3 * score(*given), prototypes._class_scores)),
        *(test_a_record_changes_the_probabilities_of_prototypes_by_at_most_the_stated_cost, ()),
    ),
]


@pytest.mark.parametrize(("owner", "name", "fault", "check", "methods"), FAULTS)
def test_a_planted_fault_is_found(
    owner: Any,
    name: str,
    fault: Any,
    check: Callable[..., None],
    methods: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError):
        check(*methods)


# What is learned.


@pytest.mark.parametrize("name", OF_RECORDS)
def test_a_classifier_of_separate_classes_is_right(name: str) -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(CLASSES, 8))
    labels, asked, shown = (rng.integers(0, CLASSES, size) for size in (3000, 500, 400))
    x, test, pool = (means[y] + 0.3 * rng.normal(size=(len(y), 8)) for y in (labels, asked, shown))
    options = {"candidates": 40} if name == "private-evolution" else {}
    method = FEATURE_METHODS.load(name).calibrated(1.0, DELTA, "replaced", **options)
    fitted = method.fit(PrivateRecords(x, labels), pool, CLASSES, rng)
    assert np.mean(fitted.scores(test).argmax(axis=1) == asked) > 0.95
    if fitted.labels is not None:
        chosen = fitted.labels >= 0
        assert np.mean(fitted.labels[chosen] == shown[chosen]) > 0.8
