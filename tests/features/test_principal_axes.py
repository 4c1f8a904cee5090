"""Principal axes, compared with a singular value decomposition."""

import numpy as np
import pytest
import torch

from patebench.features.principal_axes import PrincipalAxes


@pytest.mark.parametrize("samples", [30, 8])
def test_units_are_those_of_a_singular_value_decomposition(samples: int) -> None:
    """For more samples than numbers and for fewer, similarities of samples do not depend on the signs of axes."""
    numbers = torch.from_numpy(np.random.default_rng(0).normal(size=(samples, 12)) * np.arange(1, 13) + 5)
    scaled = ((numbers - numbers.mean(0)) / numbers.std(0)).numpy()
    left, singular, _ = np.linalg.svd(scaled, full_matrices=False)
    rank = min(samples - 1, 12)
    units = left[:, :rank] * singular[:rank] * (singular[:rank] ** 2 / samples) ** -0.35
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    axes = PrincipalAxes.learn(numbers)
    assert axes.axes.shape == (12, rank)
    computed = axes.units(numbers.float())
    np.testing.assert_allclose(computed @ computed.T, units @ units.T, atol=1e-4)
