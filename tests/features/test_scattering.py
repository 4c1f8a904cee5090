"""Scattering features, compared with values of the package kymatio and with properties of the transform."""

import math

import numpy as np
import pytest
import torch
from tests.refusals import refuses

from patebench.core.errors import PatebenchError
from patebench.features.scattering import PATHS, ScatteringEncoder, scatter

rng = np.random.default_rng(1)
IMAGES = rng.integers(0, 256, (9, 2, 9, 12), dtype=np.uint8)

#: Output of kymatio 0.3.0, `Scattering2D(2, (12, 17), L=8)`, for the image of the first test: three positions per path.
KYMATIO = {
    0: (0.5362366, 0.5203957, 0.5385064),
    1: (0.04595432, 0.096739, 0.06564297),
    4: (0.09171791, 0.07839917, 0.06680193),
    8: (0.04997959, 0.05819317, 0.05749456),
    9: (0.01358422, 0.03119577, 0.0264957),
    14: (0.02480143, 0.02527808, 0.03849248),
    17: (0.002513935, 0.009636655, 0.005665512),
    29: (0.001886459, 0.003553214, 0.005240845),
    52: (0.004852972, 0.007364596, 0.002922658),
    80: (0.007781705, 0.006730511, 0.01153016),
}


def test_the_transform_equals_that_of_kymatio() -> None:
    """Kymatio divides each filter by 3.1415 in place of π, so its values are larger by up to three such factors."""
    image = np.random.default_rng(0).integers(0, 256, (12, 17)).astype(np.float32) / 255
    computed = scatter(torch.from_numpy(image)[None])[0].flatten(1).numpy()
    assert computed.shape == (PATHS, 3 * 4)
    for path, values in KYMATIO.items():
        filters = 1 + (path > 0) + (path > 16)
        expected = np.array(values) * (3.1415 / math.pi) ** filters
        np.testing.assert_allclose(computed[path, [0, 5, 11]], expected, atol=2e-6)


def test_small_images_and_arrays_for_another_shape_are_refused() -> None:
    with refuses("shape"):
        ScatteringEncoder.learn(np.zeros((3, 1, 7, 20), np.uint8))
    with pytest.raises(PatebenchError):
        ScatteringEncoder.of({**ScatteringEncoder.learn(IMAGES).arrays(), "shape": np.array([1, 9, 12])})
