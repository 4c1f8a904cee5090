"""Additive shares: masks that know no value, and one share that closes them."""

import numpy as np

from patebench.core import seeds
from patebench.secure import shares


def test_masks_are_drawn_without_values_and_close_to_any():
    source, shape = seeds.generator(0, "masks"), (50, 3)
    masks = shares.draw_masks(source, 4, shape)
    assert len(masks) == 3
    for values in (np.zeros(shape, dtype=np.int64), np.full(shape, -(2**40)), np.arange(150).reshape(shape)):
        np.testing.assert_array_equal(shares.open_sums([*masks, shares.closing_share(masks, values)], shape), values)
