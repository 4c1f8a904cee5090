"""Test what contrastive features learn from a pool without labels."""

import math

import numpy as np
import pytest
import torch

from patebench.features import contrast
from patebench.models.augment import VIEWS, random_affine


def drawings(labels, seed):
    """Return noisy 12×12 images with the figure of the class, moved as in strong views."""
    rng, draws = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    figures = torch.from_numpy(np.random.default_rng(0).random((6, 1, 4, 4)) < 0.4).float()
    large = 80 * torch.nn.functional.interpolate(figures, size=(12, 12), mode="bilinear")
    moved = random_affine(large[torch.from_numpy(labels)], VIEWS["strong"], draws, fill=0.0).numpy()
    return (moved + rng.integers(0, 150, moved.shape)).clip(0, 255).astype(np.uint8)


def alike(vectors, labels):
    """Return the share of samples whose most similar sample has the same class."""
    likeness = vectors @ vectors.T
    np.fill_diagonal(likeness, -np.inf)
    return np.mean(labels[likeness.argmax(axis=1)] == labels)


@pytest.mark.slow
def test_features_tell_classes_apart_though_no_label_was_seen(monkeypatch):
    labels = np.arange(240) % 6
    monkeypatch.setattr(contrast, "PASSES", 0)
    found = []
    for steps in (0, 200):
        monkeypatch.setattr(contrast, "STEPS", steps)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            x = drawings(labels, 1)
            vectors = contrast.ContrastEncoder.learn(x).features(x)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        found.append(alike(vectors, labels))
    untrained, trained = found
    assert trained > 0.85 > 0.75 > untrained


@pytest.mark.slow
@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_features_of_tables_tell_groups_apart(kind, monkeypatch):
    monkeypatch.setattr(contrast, "STEPS", 50)
    cluster = np.arange(60) % 3
    pool = (100 * np.eye(3)[cluster] + np.random.default_rng(2).normal(50, 5, (60, 3))).astype(kind)
    torch.manual_seed(0)
    encoder = contrast.ContrastEncoder.learn(pool)
    assert alike(encoder.features(pool), cluster) == 1


def test_the_contrast_of_views_by_hand():
    """Two samples whose views agree and whose vectors are orthogonal: e^{1/τ} among e^{1/τ} + 2."""
    pairs = torch.eye(2).repeat(2, 1)
    sure = math.exp(1 / contrast.TEMPERATURE)
    assert contrast.nt_xent(3 * pairs).item() == pytest.approx(-math.log(sure / (sure + 2)))
    assert contrast.nt_xent(pairs) < contrast.nt_xent(torch.tensor([[1.0, 0], [0, 1], [0, 1], [1, 0]]))
