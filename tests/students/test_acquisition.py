"""Test acquisition strategies: each selects unqueried samples by its published rule."""

import numpy as np
import pytest
import torch

from patebench.core.errors import PatebenchError
from patebench.students import STRATEGIES, acquisition
from patebench.students.interface import AcquisitionState, StudentConfig, StudentData


def images(labels, rng, noise=20):
    """Return images (samples, 1, 8, 8) in which the row with the number of the label is bright."""
    x = rng.integers(0, noise, (len(labels), 1, 8, 8)).astype(np.uint8)
    x[np.arange(len(labels)), 0, labels] += 200
    return x


def acquisition_state(pool, labels, asked, predictions=None, classes=6, model="logistic", features=None):
    known, asked = np.full(len(pool), -1, np.int64), np.array(asked, np.intp)
    known[asked] = labels[asked]
    data = StudentData(pool=pool, labels=known, classes=classes)
    config = StudentConfig(method="supervised", model=model)
    return AcquisitionState(data=data, queried=asked, predictions=predictions, config=config, features=features)


def chosen_by(name, queries, *given, seed=0, **state):
    return STRATEGIES.load(name)(acquisition_state(*given, **state), queries, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_acquires_unqueried_samples_once_and_repeatably(name, monkeypatch):
    monkeypatch.setattr(acquisition, "STEPS", 3)
    rng = np.random.default_rng(0)
    labels, asked = rng.integers(0, 6, 60), [3, *range(20, 45)]
    known = acquisition_state(
        images(labels, rng), labels, asked, rng.dirichlet(np.ones(6), 60), features=rng.random((60, 4))
    )
    state = torch.get_rng_state()
    first, again = (STRATEGIES.load(name)(known, 10, 5) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state), "draws from a generator of its own"
    assert len(set(first.tolist())) == 10
    assert not set(first.tolist()) & set(known.queried.tolist())
    np.testing.assert_array_equal(first, again)


def test_random_queries_are_the_next_of_the_shuffled_pool():
    np.testing.assert_array_equal(chosen_by("random", 4, np.zeros((9, 3)), np.zeros(9, int), [0, 1, 4]), [2, 3, 5, 6])


def test_prototypes_stand_for_what_was_not_asked_about():
    """Three of six classes have a query. Then both queries are in the first of four groups of unequal sizes."""
    labels, rng = np.arange(240) % 6, np.random.default_rng(4)
    near = np.eye(6)[labels] + rng.normal(0, 0.1, (240, 6))
    assert set(labels[chosen_by("prototypes", 3, np.zeros((240, 3)), labels, [0, 1, 2], features=near)]) == {3, 4, 5}
    labels = np.repeat(np.arange(4), [9, 6, 2, 4])
    near = np.eye(4)[labels] + 0.01 * labels[:, None]
    assert set(labels[chosen_by("prototypes", 2, np.zeros((21, 3)), labels, [0, 1], features=near)]) == {1, 3}


def test_prototypes_are_the_same_for_all_releases_and_none_is_chosen_twice():
    features = np.random.default_rng(5).normal(size=(300, 4))
    given = np.zeros((300, 3)), np.zeros(300, int), []
    first, second = (chosen_by("prototypes", 40, *given, features=features, seed=seed) for seed in (1, 2))
    np.testing.assert_array_equal(first, second)
    equal = chosen_by("prototypes", 8, np.zeros((9, 3), np.float32), np.zeros(9, int), [0], features=np.zeros((9, 2)))
    assert sorted(set(equal.tolist())) == list(range(1, 9))


def test_least_confident_samples_come_first_and_unsure_prototypes_are_one_of_each_doubtful_group():
    """The student doubts two of three groups on a line; a query is in the middle of each of these two."""
    predictions = np.array([[0.5, 0.5], [0.9, 0.1], [0.4, 0.6], [1.0, 0.0], [0.2, 0.8], [0.5, 0.5]])
    given = np.zeros((6, 3)), np.zeros(6, int), [0], predictions
    np.testing.assert_array_equal(chosen_by("least-confident", 3, *given), [5, 2, 4])
    places = np.concatenate([np.arange(5) + start for start in (0, 100, 200)]).astype(float)[:, None]
    doubted = np.where((places < 150), [0.6, 0.4], [1.0, 0.0])
    given = np.zeros((15, 3)), np.zeros(15, int), [2], doubted, 2
    chosen = set(chosen_by("unsure-prototypes", 2, *given, features=places).tolist())
    assert 7 in chosen
    assert len(chosen & {1, 3}) == 1
    assert set(chosen_by("least-confident", 2, *given).tolist()) == {0, 1}, "which are two of one group"


def test_a_doubtful_sample_counts_more_than_a_sure_one_of_its_group():
    """The weighted mean of a group is at its least confident sample, at the end of the line."""
    doubt = np.array([0.001] * 9 + [0.5])
    given = np.zeros((10, 3)), np.zeros(10, int), [], np.column_stack([1 - doubt, doubt]), 2
    np.testing.assert_array_equal(chosen_by("unsure-prototypes", 1, *given, features=np.arange(10.0)[:, None]), [9])


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
    assert acquisition.unconfident(np.array([scores]))[0] == chosen


def test_each_binary_expert_knows_its_class():
    labels = np.arange(90) % 6
    known = acquisition_state(images(labels, np.random.default_rng(1)), labels, list(range(60)))
    scores = acquisition.expert_scores(known, np.arange(60, 90), 0)
    assert (scores > 0.5).sum() == 30
    np.testing.assert_array_equal(scores.argmax(axis=1), labels[60:])


@pytest.mark.parametrize("queries", [2, 3, 8])
def test_unconfident_samples_are_asked_before_all_others(queries, monkeypatch):
    scores = np.tile([0.99, 0, 0, 0, 0, 0], (20, 1))
    scores[[7, 11, 12]] = 0.5
    monkeypatch.setattr(acquisition, "expert_scores", lambda _, samples, seed: scores[samples])
    chosen = chosen_by("binary-experts", queries, np.zeros((20, 1, 4, 4), np.uint8), np.arange(20) % 6, [0, 1])
    assert len(chosen) == queries
    assert sum(scores[chosen[:3], 0] == 0.5) == min(queries, 3)


@pytest.mark.slow
def test_siamese_networks_ask_for_what_looks_like_nothing_known():
    """Copies of the labelled images are matched; three other patterns are not."""
    rng = np.random.default_rng(2)
    labels = np.arange(40) % 2
    pool = images(labels, rng, noise=4)
    pool[30:33] = 0
    pool[30:33, 0] = np.eye(8, dtype=np.uint8)[::-1] * 250
    assert chosen_by("siamese", 1, pool, labels, list(range(20)), classes=2)[0] in (30, 31, 32)


@pytest.mark.parametrize(
    ("name", "pool", "words"),
    [
        ("siamese", np.zeros((9, 4), np.float32), "'siamese' needs images"),
        ("binary-experts", np.zeros((9, 1, 4, 4), np.uint8), "needs more than 4 classes, but these data have 4"),
    ],
)
def test_unsuitable_data_are_refused(name, pool, words):
    with pytest.raises(PatebenchError, match=words):
        chosen_by(name, 2, pool, np.arange(9) % 4, [0, 1, 2, 3], classes=4)
