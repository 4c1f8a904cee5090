"""Contrastive features: what they learn from a pool without a label, and that a kept encoder gives them again."""

import math

import numpy as np
import pytest
import torch

from patebench.core.errors import PatebenchError
from patebench.features import contrast, views
from patebench.models.augment import random_affine


def drawings(labels, seed):
    """12×12 images: a faint figure of each class, turned, moved, sheared and scaled as strong views are, in noise."""
    rng, draws = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    figures = torch.from_numpy(np.random.default_rng(0).random((6, 1, 4, 4)) < 0.4).float()
    large = 80 * torch.nn.functional.interpolate(figures, size=(12, 12), mode="bilinear")
    moved = random_affine(large[torch.from_numpy(labels)], views._RECIPES["strong"], draws, fill=0.0).numpy()
    return (moved + rng.integers(0, 150, moved.shape)).clip(0, 255).astype(np.uint8)


def alike(vectors, labels):
    """How many samples have their class in common with the one that is most like them."""
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


@pytest.mark.parametrize("kind", [np.float32, np.uint8])
def test_features_of_tables_tell_groups_apart(kind, monkeypatch):
    monkeypatch.setattr(contrast, "STEPS", 50)
    cluster = np.arange(60) % 3
    pool = (100 * np.eye(3)[cluster] + np.random.default_rng(2).normal(50, 5, (60, 3))).astype(kind)
    torch.manual_seed(0)
    encoder = contrast.ContrastEncoder.learn(pool)
    assert alike(encoder.features(pool), cluster) == 1


@pytest.mark.parametrize("shape", [(40, 1, 8, 8), (40, 3, 32, 32), (40, 5)])
def test_an_encoder_is_the_same_after_it_was_kept(shape, monkeypatch):
    monkeypatch.setattr(contrast, "STEPS", 3)
    monkeypatch.setattr(contrast, "PASSES", 0)
    rng = np.random.default_rng(0)
    draw = (lambda: rng.integers(0, 256, shape, np.uint8)) if len(shape) > 2 else (lambda: rng.normal(2, 3, shape))
    pool, others = (draw().astype(np.uint8 if len(shape) > 2 else np.float32) for _ in range(2))
    torch.manual_seed(0)
    encoder = contrast.ContrastEncoder.learn(pool)
    kept = encoder.arrays()
    np.testing.assert_array_equal(contrast.ContrastEncoder.of(kept).features(others), encoder.features(others))
    alone = encoder.features_alone(others)
    np.testing.assert_array_equal(encoder.features_alone(others[::-3].copy()), alone[::-3])
    np.testing.assert_allclose(alone, encoder.features(others), atol=0.02)
    with pytest.raises(PatebenchError, match=r"[0-9]+ weights instead of [0-9]+"):
        contrast.ContrastEncoder.of(kept | {"weights": kept["weights"][1:]})
    with pytest.raises(PatebenchError, match="are given to an encoder of"):
        encoder.features(others[..., 1:])


def test_the_contrast_of_views_by_hand():
    """Two samples whose views agree and whose vectors are orthogonal: e^{1/τ} among e^{1/τ} + 2."""
    pairs = torch.eye(2).repeat(2, 1)
    sure = math.exp(1 / contrast.TEMPERATURE)
    assert contrast.nt_xent(3 * pairs).item() == pytest.approx(-math.log(sure / (sure + 2)))
    assert contrast.nt_xent(pairs) < contrast.nt_xent(torch.tensor([[1.0, 0], [0, 1], [0, 1], [1, 0]]))
