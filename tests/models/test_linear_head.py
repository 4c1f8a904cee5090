"""Test the ridge regression of teachers that read features."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from patebench.models.learner import make_learner


def test_the_penalty_has_the_least_leave_one_out_error() -> None:
    """Compare with a loop that fits the regression again without each sample."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 20)
    x = rng.normal(size=(20, 6)) + np.eye(6)[y]
    head = make_learner("linear-head", "plain", classes=3)
    head.fit(x, y, seed=0)
    targets = np.eye(3)[y]
    errors = {}
    for penalty in 10.0 ** np.arange(-3, 2.5, 0.5):
        model = Ridge(alpha=penalty)
        left = [np.arange(20) != i for i in range(20)]
        residuals = [targets[i] - _centred_ridge(x, targets, penalty, kept)(x[i]) for i, kept in enumerate(left)]
        errors[penalty] = np.square(residuals).mean()
    best = min(errors, key=errors.__getitem__)
    model = Ridge(alpha=best).fit(x, targets)
    expected = 10 * model.predict(x)
    expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(head.log_probabilities(x), expected, atol=1e-8)


def _centred_ridge(x, targets, penalty, kept):  # type: ignore[no-untyped-def]
    """Fit with the mean of all samples, which counts as one parameter: the leave-one-out formula shares this centre."""
    ones = np.column_stack([np.ones(len(x)), x - x.mean(axis=0)])
    penalties = np.diag([0.0, *[penalty] * x.shape[1]])
    weights = np.linalg.solve(ones[kept].T @ ones[kept] + penalties, ones[kept].T @ targets[kept])
    return lambda sample: np.concatenate([[1.0], sample - x.mean(axis=0)]) @ weights


@pytest.mark.parametrize("label", [0, 2])
def test_one_class_alone_is_always_predicted(label: int) -> None:
    head = make_learner("linear-head", "plain", classes=3)
    x = np.random.default_rng(0).normal(size=(4, 5))
    head.fit(x, np.full(4, label), seed=0)
    assert (head.predict(x) == label).all()
    assert np.isneginf(head.log_probabilities(x)[:, 1]).all()
