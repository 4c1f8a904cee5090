"""Label-DP methods: probabilities of all answers by enumeration, optimality by linear programming, planted faults."""

from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from tests.refusals import refuses

from patebench.baselines.on_features import private_labels
from patebench.baselines.on_features.feature_method import PrivateRecords
from patebench.baselines.on_features.private_labels import (
    ClusterHistograms,
    ClusterResampling,
    RandomisedResponse,
    draw,
    response,
    shares,
)
from patebench.core.bound import Adjacency

WEIGHTS = [(1, 1), (3, 1), (0, 1), (1, 1, 1), (9, 3, 1), (1, 20, 1), (5, 4, 3, 2), (0, 1, 0, 3), (1, 1, 1, 1, 40)]
PRIORS = [np.array(weights, dtype=float) / sum(weights) for weights in WEIGHTS]
EPSILONS = (0.01, 0.3, 1.0, 2.0, 8.0)


def channel(prior: np.ndarray, epsilon: float) -> np.ndarray:
    """Return the probability of each answer (column) to each true label (row)."""
    return response(np.arange(len(prior)), np.tile(prior, (len(prior), 1)), epsilon)


def largest_ratio(probabilities: np.ndarray) -> float:
    """Return the largest ratio of an answer's probabilities under two labels, over all pairs of labels."""
    rows = range(len(probabilities))
    return max(
        np.inf if there == 0 else here / there
        for one, other in permutations(rows, 2)
        for here, there in zip(probabilities[one], probabilities[other], strict=True)
        if here > 0
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_answers_are_private_and_no_private_answer_is_right_more_often(prior: np.ndarray, epsilon: float) -> None:
    """Maximise the probability of the true label over all ε-private channels, by linear programming."""
    probabilities, classes = channel(prior, epsilon), len(prior)
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert largest_ratio(probabilities) <= np.exp(epsilon) * (1 + 1e-12)
    cells = np.arange(classes**2).reshape(classes, classes)
    limits = []
    for answer, (one, other) in product(range(classes), permutations(range(classes), 2)):
        row = np.zeros(classes**2)
        row[cells[one, answer]], row[cells[other, answer]] = 1, -np.exp(epsilon)
        limits.append(row)
    sums = np.kron(np.eye(classes), np.ones(classes))
    found = optimize.linprog(
        -np.diag(prior).ravel(), A_ub=limits, b_ub=np.zeros(len(limits)), A_eq=sums, b_eq=np.ones(classes)
    )
    assert float(prior @ probabilities.diagonal()) == pytest.approx(-found.fun, abs=1e-7)


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_probabilities_at_a_huge_epsilon_do_not_overflow(prior: np.ndarray) -> None:
    assert channel(prior, 800.0).sum(axis=1) == pytest.approx(1)


def test_faults_in_the_answers_are_found() -> None:
    prior, epsilon = np.array([0.9, 0.05, 0.05]), 1.0
    sound = channel(prior, epsilon)
    assert sound.tolist() == [[1, 0, 0]] * 3  # one likely label: k = 1, and nothing is asked
    any_answer = np.vstack([sound[0], np.full((2, 3), 1 / 3)])  # other labels answer among all classes
    uniform = np.full(3, 1 / 3)
    largest = channel(uniform, epsilon)
    truth_first = 0.5 * np.eye(3) + 0.5 * largest  # tells the truth before it answers
    own_prior = np.vstack([channel(np.roll(prior, label), epsilon)[label] for label in range(3)])  # prior by the label
    for fault in (any_answer, truth_first, own_prior):
        assert largest_ratio(fault) > np.exp(epsilon)
    assert largest_ratio(largest) == pytest.approx(np.e)


def test_draws_follow_the_probabilities_and_never_what_has_none() -> None:
    probabilities = np.tile([0.0, 0.2, 0.5, 0.3, 0.0], (20_000, 1))
    counts = np.bincount(draw(probabilities, np.random.default_rng(0)), minlength=5)
    assert counts[[0, 4]].tolist() == [0, 0]
    assert stats.chisquare(counts[1:4], 20_000 * probabilities[0, 1:4]).pvalue > 1e-4
    assert shares(np.array([[-1.0, -2.0], [-1.0, 3.0]])).tolist() == [[0.5, 0.5], [0, 1]]


CENTRES = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
POOL = np.repeat(CENTRES, 8, axis=0) + np.random.default_rng(1).normal(scale=0.1, size=(24, 2))
LABELS = np.repeat([0, 1, 2], 8)
METHODS = (ClusterHistograms, ClusterResampling, RandomisedResponse)


class _Seen(np.random.Generator):
    """Generator that stores the scale of Laplace noise in `scales`, and draws zeros."""

    scales: list[float]

    def laplace(self, *args: object, scale: float = 1.0, size: object = None) -> np.ndarray:
        self.scales.append(scale)
        return np.zeros(size)  # type: ignore[call-overload]


def histograms(method: object, labels: np.ndarray, patch: pytest.MonkeyPatch) -> tuple[np.ndarray, float]:
    """Return the histograms that a method releases, without noise, and the scale of their noise."""
    tables: list[np.ndarray] = []
    original = private_labels.LabelMethod.noisy_histograms
    patch.setattr(
        private_labels.LabelMethod, "noisy_histograms",
        lambda *given: tables.append(original(*given)) or tables[-1],
    )  # fmt: skip
    rng = _Seen(np.random.PCG64(0))
    rng.scales = []
    method.fit(PrivateRecords(POOL, labels), POOL, 3, rng)  # type: ignore[attr-defined]
    return tables[-1], rng.scales[-1]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_replaced_label_costs_what_is_stated(
    method: type[private_labels.LabelMethod], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = method(noise=0.5, clusters=3)
    table, scale = histograms(made, LABELS, monkeypatch)
    distances = []
    for record, label in product(range(len(LABELS)), range(3)):
        with pytest.MonkeyPatch.context() as patch:
            other = histograms(made, np.where(np.arange(len(LABELS)) == record, label, LABELS), patch)[0]
        distances.append(np.abs(other - table).sum())
    assert max(distances) == 2
    of_answers = (1 - private_labels._PRIOR_SHARE) / made.noise if method is RandomisedResponse else 0.0
    assert max(distances) / scale + of_answers == pytest.approx(made.costs(1e-5)[0])
    bound = made.bound(1e-5)
    assert (bound.epsilon, bound.adjacency, bound.add_or_remove) == (2.0, Adjacency.REPLACE_LABEL, None)


def _given_what_is_released(method: type[private_labels.LabelMethod], labels: np.ndarray) -> list[np.ndarray]:
    """Return labels and scores of a method whose noisy histograms and answers do not depend on the labels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            private_labels.LabelMethod, "noisy_histograms",
            lambda self, member, own, shape, *noise: np.random.default_rng(0).normal(size=shape),
        )  # fmt: skip
        patch.setattr(private_labels, "response", lambda own, prior, epsilon: prior)
        made = method(noise=0.5, clusters=3)
        fitted = made.fit(PrivateRecords(POOL, labels), POOL, 3, np.random.default_rng(0))
    assert fitted.labels is not None
    return [fitted.labels, fitted.scores(POOL)]


@pytest.mark.parametrize("method", METHODS)
def test_nothing_but_what_is_released_depends_on_the_labels(method: type[private_labels.LabelMethod]) -> None:
    first = _given_what_is_released(method, LABELS)
    for other in ((LABELS + 1) % 3, LABELS * 0, LABELS[::-1]):
        assert all(map(np.array_equal, first, _given_what_is_released(method, other)))


@pytest.mark.parametrize("method", METHODS)
def test_true_labels_of_some_samples_are_found(
    method: type[private_labels.LabelMethod], monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = method.fit

    def leaking(self: Any, private: PrivateRecords, pool: np.ndarray, *given: Any) -> Any:
        fitted = fit(self, private, pool, *given)
        return replace(fitted, labels=np.where(np.arange(len(pool)) % 7 == 0, private.labels, fitted.labels))

    monkeypatch.setattr(method, "fit", leaking)
    with pytest.raises(AssertionError):
        test_nothing_but_what_is_released_depends_on_the_labels(method)


def test_answers_use_the_rest_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def answered(labels: np.ndarray, prior: np.ndarray, epsilon: float) -> np.ndarray:
        asked.append(epsilon)
        return response(labels, prior, epsilon)

    monkeypatch.setattr(private_labels, "response", answered)
    for clusters in (None, 3):
        RandomisedResponse(noise=0.5, clusters=clusters).fit(
            PrivateRecords(POOL, LABELS), POOL, 3, np.random.default_rng(0)
        )
    assert asked == [2.0, 2.0 * (1 - private_labels._PRIOR_SHARE)]


@pytest.mark.parametrize("method", METHODS)
def test_labels_and_scores_are_right_with_little_noise(method: type[private_labels.LabelMethod]) -> None:
    made = method.calibrated(20.0, 1e-5, "replaced", clusters=3)
    fitted = made.fit(PrivateRecords(POOL, LABELS), POOL, 3, np.random.default_rng(0))
    assert made.bound(1e-5).epsilon == pytest.approx(20, rel=1e-6)
    assert fitted.labels is not None
    assert (fitted.labels == LABELS).mean() >= (1 if method is ClusterHistograms else 0.8)  # the others draw labels
    assert (fitted.scores(POOL).argmax(axis=1) == LABELS).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("pool", [np.zeros((20, 3)), np.ones((1, 3)), np.eye(3)], ids=["zeros", "one", "three"])
def test_a_pool_without_differences_or_of_few_samples_is_labelled(
    method: type[private_labels.LabelMethod], pool: np.ndarray
) -> None:
    made, labels = method(noise=0.5, clusters=1), np.arange(len(pool)) % 3
    fitted = made.fit(PrivateRecords(pool, labels), pool, 3, np.random.default_rng(0))
    assert fitted.labels is not None
    assert fitted.labels.shape == (len(pool),)
    assert np.isfinite(fitted.scores(pool)).all()
    with refuses("bound"):
        method(noise=0.5, clusters=21).fit(PrivateRecords(pool, labels), pool, 3, np.random.default_rng(0))
