"""Compare features of patches with plain loops."""

import numpy as np
import pytest
import torch

from patebench.core.errors import PatebenchError
from patebench.features import patches, principal_axes
from patebench.features.patches import PatchEncoder


def photographs(samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images (samples, 3, 12, 12) of stripes with random colour and phase, and their direction, 0 or 1."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, samples)
    wave = np.sin(np.arange(12)[None, :] * 1.5 + rng.uniform(0, 6, samples)[:, None])
    flat = np.where(y[:, None, None], wave[:, :, None], wave[:, None, :])
    x = 128 + 60 * flat[:, None] * rng.uniform(0.5, 1, (samples, 3, 1, 1)) + rng.normal(0, 10, (samples, 3, 12, 12))
    return x.clip(0, 255).astype(np.uint8), y


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CLUSTERS": 10, "PATCHES": 2000, "ROUNDS": 3}.items():
        monkeypatch.setattr(patches, name, value)
    monkeypatch.setattr(principal_axes, "WIDTH", 12)


def learnt(pool: np.ndarray, seed: int = 0) -> PatchEncoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return PatchEncoder.learn(pool)


def test_features_are_what_plain_loops_find() -> None:
    pool, _ = photographs(60)
    encoder = learnt(pool)
    parts = {**vars(encoder), **vars(encoder.axes)}
    known = {name: part.double().numpy() for name, part in parts.items() if isinstance(part, torch.Tensor)}
    image = pool[7].astype(float)
    both = []
    for view in (image, image[:, :, ::-1]):
        near = np.zeros((2, 2, 10, 4))  # quarters, clusters, and the four places of a quarter
        for i, j in np.ndindex(4, 4):
            patch = view[:, 2 * i : 2 * i + 6, 2 * j : 2 * j + 6].ravel()
            patch = (patch - patch.mean()) / np.sqrt(patch.var() + 10)
            white = (patch - known["centre"]) @ known["whitening"]
            mirror = known["clusters"].reshape(10, 3, 6, 6)[..., ::-1].reshape(10, -1)
            distance = np.linalg.norm(np.concatenate([known["clusters"], mirror]) - white, axis=1)
            near[i // 2, j // 2, :, 2 * (i % 2) + j % 2] = np.maximum(distance.mean() - distance, 0)[:10]
        both.append(near.mean(axis=3))
    sums = (both[0] + both[1]).ravel() / 2
    vector = (sums - known["mean"]) / known["spread"] @ known["axes"]
    np.testing.assert_allclose(encoder.features(pool[7:8])[0], vector / np.linalg.norm(vector), atol=2e-4)


def test_small_images_are_refused() -> None:
    with pytest.raises(PatebenchError, match="use the encoder 'contrastive'"):
        PatchEncoder.learn(np.zeros((30, 3, 7, 9), np.uint8))
