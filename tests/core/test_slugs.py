"""Slugs: words, pairs, and what is left out."""

import math

import pytest

from patebench.core.slugs import Part, number, parameters_slug, slug


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((), ""),
        ((None, ("epochs", None)), ""),
        (("gan", ("queries", 100), "mlp", None, ("epochs", 5)), "gan_queries-100_mlp_epochs-5"),
        ((("hold_out", 0.1),), "hold-out-0.1"),
        ((("random", 100), ("least-confident", 50)), "random-100_least-confident-50"),
        ((("pool", 10**13), ("share", 1 / 3)), "pool-10000000000000_share-0.333333333333"),
    ],
)
def test_parts_are_joined(parts: tuple[Part, ...], text: str) -> None:
    assert slug(*parts) == text


def test_numbers_have_twelve_digits() -> None:
    assert [number(value) for value in (40.0, 1e-5, 1e100, math.inf)] == ["40", "1e-05", "1e+100", "inf"]


def test_parameters_keep_their_names_and_their_order() -> None:
    assert parameters_slug({"sigma1": 4.0, "sigma2": 10.0}) == "sigma1-4_sigma2-10"
    assert parameters_slug({"my_scale": 2.0, "c": 1e100}) == "my_scale-2_c-1e+100"
