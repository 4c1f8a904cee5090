"""What is one content: equal samples, and the two zeros of floating point."""

import numpy as np

from patebench.data.division import content


def test_equal_samples_have_equal_contents_and_others_do_not() -> None:
    x = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4)).astype(np.uint8)
    doubled = np.concatenate([x, x[::-1]])
    np.testing.assert_array_equal(content(doubled)[:50], content(doubled)[50:][::-1])
    assert len(set(content(x))) == 50
    changed = x.copy()
    changed[7, 2, 3, 3] ^= 1
    assert np.flatnonzero(content(changed) != content(x)).tolist() == [7]


def test_the_two_zeros_are_one_content() -> None:
    table = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]], dtype=np.float32)
    first, second, third = content(table)
    assert first == second != third
