"""Test distillation: targets computed by hand, and students trained at a temperature."""

import numpy as np
import pytest
from scipy.special import softmax

from patebench.baselines.soft_labels import fit, targets
from patebench.models import make_learner


def test_labels_by_hand() -> None:
    """Query 0: votes 0, 0, 1; query 1: votes 2, 2, 2. Sums of three teachers' probabilities are divided by 3."""
    cold, warm = [[1.8, 0.9, 0.3], [0.0, 0.0, 3.0]], [[1.2, 0.9, 0.9], [0.6, 0.6, 1.8]]
    said = np.array([[0, 2], [0, 2], [1, 2]], np.uint8)
    found = dict(targets(said, 3, [1, 5], np.array([cold, warm], np.float32)))
    assert found["plurality", 1.0].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert found["soft", 1.0] == pytest.approx(np.array([[0.6, 0.3, 0.1], [0, 0, 1]]))
    assert found["soft", 5.0] == pytest.approx(np.array([[0.4, 0.3, 0.3], [0.2, 0.2, 0.6]]))


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_the_student_matches_the_labels_at_their_temperature(temperature: float) -> None:
    """One sample, again and again: at the temperature its probabilities are the labels, at T = 1 their T-th power."""
    target = np.array([0.6, 0.3, 0.1])
    learner = make_learner("mlp", "plain", classes=3, epochs=40)
    fit(learner, np.ones((32, 4), np.float32), np.tile(target, (32, 1)), temperature, seed=1)  # type: ignore[arg-type]
    reached = learner.log_probabilities(np.ones((1, 4), np.float32))
    assert softmax(reached / temperature, axis=1)[0] == pytest.approx(target, abs=0.02)
    assert np.exp(reached)[0] == pytest.approx(target**temperature / (target**temperature).sum(), abs=0.05)
