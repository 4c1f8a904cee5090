"""Test that seeds of named random streams never change, so that published runs can be reproduced."""

import numpy as np
import pytest

from patebench.core import seeds
from patebench.core.seeds import derive, generator


def test_known_seeds_and_draws() -> None:
    r"""Compare with `printf '0\037digits' | sha256sum`: the first 16 hexadecimal digits, halved."""
    assert derive(0, "digits") == 0xD6549DC2ED7EC152 >> 1
    assert derive(1, "mnist/seed-1_pool-9000", 7) == 0x1F0D8A1CA8756295 >> 1
    expected = np.random.Generator(np.random.PCG64(0xD6549DC2ED7EC152 >> 1)).random(5)
    np.testing.assert_array_equal(generator(0, "digits").random(5), expected)


def test_a_renamed_folder_keeps_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = "digits/seed-0_pool-9/gnmax/sigma-20_release"
    assert seeds.stream_name(kept) == kept
    monkeypatch.setattr(seeds, "RENAMED", {"gaussian-max": "gnmax", "scale": "sigma"})
    assert seeds.stream_name("digits/seed-0_pool-9/gaussian-max/scale-20_release") == kept
    assert seeds.stream_name("digits/rescale-3/gaussian-maximum") == "digits/rescale-3/gaussian-maximum"


def test_neighbouring_names_give_distinct_seeds() -> None:
    names = [(0, "a", "b"), (0, "ab"), (0, "a b"), (1, "a", "b"), (0, "b", "a"), (0, "a"), (0, "a", "b", 0)]
    assert len({derive(*name) for name in [*names, (10,), (1, 0)]}) == 9
