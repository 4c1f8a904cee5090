"""Strategies: each chooses open samples, and those that its description names."""

import math

import numpy as np
import pytest
import torch

from patebench.core.errors import PatebenchError
from patebench.students import contrast
from patebench.students.lesson import Approach, Lesson
from patebench.students.strategies import STRATEGIES, binary_experts, prototypes
from patebench.students.strategies.situation import Situation


def images(labels, rng, noise=20):
    """8×8 images whose label is a bright row."""
    x = rng.integers(0, noise, (len(labels), 1, 8, 8)).astype(np.uint8)
    x[np.arange(len(labels)), 0, labels] += 200
    return x


def situation(pool, labels, asked, predictions=None, classes=6, model="logistic"):
    known = np.full(len(pool), -1, np.int64)
    known[asked] = labels[asked]
    lesson = Lesson(pool=pool, labels=known, classes=classes)
    approach = Approach(method="supervised", model=model)
    return Situation(lesson=lesson, asked=np.array(asked), predictions=predictions, approach=approach)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_chooses_open_samples_once_and_repeatably(name):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 6, 60)
    known = situation(images(labels, rng), labels, [3, *range(20, 45)], rng.dirichlet(np.ones(6), 60))
    first, again = (STRATEGIES.load(name)(known, 10, 5) for _ in range(2))
    assert len(set(first.tolist())) == 10
    assert not set(first.tolist()) & set(known.asked.tolist())
    np.testing.assert_array_equal(first, again)


def test_random_queries_are_the_next_of_the_shuffled_pool():
    known = situation(np.zeros((9, 1, 4, 4), np.uint8), np.zeros(9, int), [0, 1, 4])
    np.testing.assert_array_equal(STRATEGIES.load("random")(known, 4, 0), [2, 3, 5, 6])


def textures(labels, rng):
    """8×8 images, each a pattern of its class under noise."""
    patterns = 200 * (rng.random((6, 1, 8, 8)) < 0.3)
    return (patterns[labels] + rng.integers(0, 56, (len(labels), 1, 8, 8))).astype(np.uint8)


def test_prototypes_speak_for_every_cluster():
    """One query for each of six classes finds a sample of each, which chance rarely would: 6!/6⁶ is 1.5 %."""
    labels = np.arange(120) % 6
    known = situation(textures(labels, np.random.default_rng(2)), labels, [0, 1, 2])
    chosen = STRATEGIES.load("prototypes")(known, 6, 0)
    assert set(labels[chosen]) == set(range(6))


def test_features_of_the_same_class_are_alike_though_no_label_was_seen():
    labels = np.arange(120) % 6
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        vectors = contrast.features(textures(labels, np.random.default_rng(3)))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    likeness = vectors @ vectors.T - 2 * np.eye(120)
    assert np.mean(labels[likeness.argmax(axis=1)] == labels) > 0.95


def test_the_contrast_of_views_by_hand():
    """Two samples whose views agree and whose vectors are orthogonal: e^{1/τ} among e^{1/τ} + 2."""
    pairs = torch.eye(2).repeat(2, 1)
    sure = math.exp(1 / contrast.TEMPERATURE)
    assert contrast.contrast(3 * pairs).item() == pytest.approx(-math.log(sure / (sure + 2)))
    assert contrast.contrast(pairs) < contrast.contrast(torch.tensor([[1.0, 0], [0, 1], [0, 1], [1, 0]]))


def test_the_nearest_sample_to_each_mean_and_none_twice():
    distance = np.array([[0.1, 0.2, 5.0], [0.5, 0.3, 0.2], [0.6, 0.9, 0.1]])
    np.testing.assert_array_equal(prototypes.nearest(distance), [0, 1, 2])


def test_least_confident_first():
    predictions = np.array([[0.5, 0.5], [0.9, 0.1], [0.4, 0.6], [1.0, 0.0], [0.2, 0.8], [0.5, 0.5]])
    known = situation(np.zeros((6, 1, 4, 4), np.uint8), np.zeros(6, int), [0], predictions, classes=2)
    np.testing.assert_array_equal(STRATEGIES.load("least-confident")(known, 3, 0), [5, 2, 4])


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ([0.89, 0.11, 0.11, 0.11, 0.11, 0.0], True),
        ([0.91, 0.11, 0.11, 0.11, 0.11, 0.0], False),
        ([0.89, 0.11, 0.11, 0.11, 0.09, 0.0], False),
        ([0.0, 0.5, 0.6, 0.7, 0.8, 0.2], True),
        ([0.0] * 6, False),
    ],
)
def test_the_published_rule_of_the_binary_experts(scores, chosen):
    """Candidate score below 0.9 and at least four other experts above 0.1 (PATE 2017, Appendix C.2)."""
    assert binary_experts.unconfident(np.array([scores]))[0] == chosen


def test_each_binary_expert_knows_its_class():
    rng = np.random.default_rng(1)
    labels = np.arange(90) % 6
    scores = binary_experts.scores(situation(images(labels, rng), labels, list(range(60))), np.arange(60, 90), 0)
    assert (scores > 0.5).sum() == 30
    np.testing.assert_array_equal(scores.argmax(axis=1), labels[60:])


@pytest.mark.parametrize("queries", [2, 3, 8])
def test_unconfident_samples_are_asked_before_all_others(queries, monkeypatch):
    doubted = [7, 11, 12]
    sure, unsure = [0.99, 0, 0, 0, 0, 0], [0.5] * 6
    monkeypatch.setattr(
        binary_experts, "scores", lambda _, samples, seed: np.array([unsure if i in doubted else sure for i in samples])
    )
    known = situation(np.zeros((20, 1, 4, 4), np.uint8), np.arange(20) % 6, [0, 1])
    chosen = STRATEGIES.load("binary-experts")(known, queries, 0)
    assert len(chosen) == queries
    assert sum(i in doubted for i in chosen[:3]) == min(queries, 3)


def test_binary_experts_need_enough_classes():
    known = situation(np.zeros((9, 1, 4, 4), np.uint8), np.arange(9) % 4, [0, 1, 2, 3], classes=4)
    with pytest.raises(PatebenchError, match="4 other experts are in doubt, and there are 4 classes"):
        STRATEGIES.load("binary-experts")(known, 2, 0)


def test_siamese_networks_ask_for_what_looks_like_nothing_known():
    """Copies of the labelled images are matched; three other patterns are not."""
    rng = np.random.default_rng(2)
    labels = np.arange(40) % 2
    pool = images(labels, rng, noise=4)
    pool[30:33] = 0
    pool[30:33, 0, :, :] = np.kron(np.eye(8, dtype=np.uint8)[::-1], np.ones((1, 1), np.uint8)) * 250
    chosen = STRATEGIES.load("siamese")(situation(pool, labels, list(range(20)), classes=2), 1, 0)
    assert chosen[0] in (30, 31, 32)


def test_siamese_networks_compare_images():
    known = situation(np.zeros((9, 4), np.float32), np.zeros(9, int), [0])
    with pytest.raises(PatebenchError, match="no images"):
        STRATEGIES.load("siamese")(known, 2, 0)
