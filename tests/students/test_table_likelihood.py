"""What a released table says of each class, against sampling, and what a student is told of it."""

import numpy as np
import pytest

from patebench.core.errors import PatebenchError
from patebench.students.table_likelihood import hidden, log_likelihood

GAUSSIAN = {"mechanism": "sparse-gnmax", "parameters": {"k": 1.0, "sigma": 3.0}}
LAPLACE = {"mechanism": "sparse-lnmax", "parameters": {"k": 1.0, "gamma": 0.5}}
TABLE = np.array([[4.2, 1.0, -3.0], [0.3, 0.1, 0.2], [90.0, 2.0, 1.0]])


@pytest.mark.parametrize("facts", [GAUSSIAN, LAPLACE], ids=lambda facts: facts["mechanism"])
def test_a_class_is_as_likely_as_it_has_most_votes_when_noise_is_taken_off(facts):
    rng, draws = np.random.default_rng(0), 200_000
    shape = (draws, *TABLE.shape)
    noise = rng.normal(scale=3.0, size=shape) if facts is GAUSSIAN else rng.laplace(scale=2.0, size=shape)
    winners = (TABLE - noise).argmax(axis=2)
    sampled = np.stack([(winners == label).mean(axis=0) for label in range(3)], axis=1)
    assert np.exp(log_likelihood(TABLE, facts)) == pytest.approx(sampled, abs=5e-3)


def test_labels_that_are_more_likely_wrong_than_right_are_hidden():
    known = log_likelihood(TABLE, GAUSSIAN)
    assert hidden(TABLE.argmax(axis=1), known).tolist() == [False, True, False]
    assert known.min() >= -30


def test_a_table_without_noise_is_certain_but_for_the_least_probability():
    known = log_likelihood(np.round(TABLE), {"mechanism": "sparse-gnmax", "parameters": {"k": 1.0, "sigma": 0.0}})
    assert known[0].tolist() == [0, -30, -30]


def test_no_table_is_read_of_a_mechanism_that_releases_none():
    with pytest.raises(PatebenchError, match="gnmax releases no table"):
        log_likelihood(TABLE, {"mechanism": "gnmax", "parameters": {"sigma": 3.0}})
