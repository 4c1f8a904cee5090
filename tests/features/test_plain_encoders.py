"""Compare features without learning with loops over single pixels."""

import math

import numpy as np
import pytest

from patebench.features.plain_encoders import BLOCK, CUT, DIRECTIONS, Gradients, Pixels, TableColumns

rng = np.random.default_rng(0)
COLOUR = rng.integers(0, 256, (5, 3, 15, 17), dtype=np.uint8)


def slope(image: np.ndarray, row: int, column: int) -> tuple[float, float]:
    """Return the gradient of the grey level, downwards and to the right, by differences of neighbours."""
    up, low = max(row - 1, 0), min(row + 1, image.shape[0] - 1)
    left, right = max(column - 1, 0), min(column + 1, image.shape[1] - 1)
    down = (image[low, column] - image[up, column]) / (low - up)
    return down, (image[row, right] - image[row, left]) / (right - left)


def histogram(image: np.ndarray, side: int) -> np.ndarray:
    """Return the features of `Gradients` for `image` with cells of `side` pixels, computed pixel by pixel."""
    rows, columns = image.shape[0] // side, image.shape[1] // side
    cells = np.zeros((rows, columns, DIRECTIONS))
    for row in range(rows * side):
        for column in range(columns * side):
            down, across = slope(image, row, column)
            angle = math.degrees(math.atan2(down, across)) % 180
            step = 180 / DIRECTIONS
            for direction in range(DIRECTIONS):
                apart = abs(angle - direction * step)
                near = min(apart, 180 - apart) / step
                cells[row // side, column // side, direction] += max(0.0, 1 - near) * math.hypot(down, across)
    blocks = []
    for row in range(rows - BLOCK + 1):
        for column in range(columns - BLOCK + 1):
            block = cells[row : row + BLOCK, column : column + BLOCK].ravel()
            block = np.minimum(block / np.linalg.norm(block), CUT)
            blocks.append(block / np.linalg.norm(block))
    found = np.concatenate(blocks)
    return found / np.linalg.norm(found)


def test_histograms_are_those_of_a_loop_over_pixels() -> None:
    found = Gradients.learn(COLOUR).features(COLOUR)
    due = [histogram(image.mean(axis=0) / 255, side=2) for image in COLOUR.astype(float)]
    np.testing.assert_allclose(found, due, atol=1e-12)
    even = np.full((1, 1, 8, 8), 9, dtype=np.uint8)
    assert not Gradients.learn(even).features(even).any()


def test_pixels_are_as_far_apart_as_they_differ() -> None:
    found = Pixels.learn(COLOUR).features(COLOUR)
    due = np.sqrt(np.mean((COLOUR[0].astype(float) - COLOUR[1]) ** 2)) / 255
    assert np.linalg.norm(found[0] - found[1]) == pytest.approx(due)
    full = np.full((1, 1, 8, 8), 255, dtype=np.uint8)
    assert np.linalg.norm(Pixels.learn(full).features(full)) == pytest.approx(1)


def test_columns_of_a_table_are_unit_vectors() -> None:
    x = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    x[3] = 0
    vectors = TableColumns.learn(x).features(x)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1, 0, 1, 1])
    np.testing.assert_allclose(vectors * np.linalg.norm(x, axis=1)[:, None], x, atol=1e-6)
