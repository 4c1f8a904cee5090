"""Test slugs, options as words of a command, and the check of values that a shell would change."""

import math
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.core.errors import PatebenchError
from patebench.core.spelling import Part, check_passed_on, command_words, number, parameters_slug, shell_words, slug


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


def test_numbers_have_twelve_digits_and_parameters_keep_their_names_and_order() -> None:
    assert [number(value) for value in (40.0, 1e-5, 1e100, math.inf)] == ["40", "1e-05", "1e+100", "inf"]
    assert parameters_slug({"my_scale": 2.0, "c": 1e100}) == "my_scale-2_c-1e+100"


def test_options_as_words() -> None:
    options = {"root": "my data", "download": False, "release": True, "epochs": None, "delta": 1e-5}
    assert command_words(options) == ["--root", "my data", "--no-download", "--release", "--delta", "1e-05"]
    several = {"queries": (100, 400), "parameter": {"sigma": 2.0, "k": 1}, "share": []}
    assert shell_words(several) == "--queries 100 --queries 400 --parameter sigma=2 --parameter k=1"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_shell_keeps_every_value(text: str) -> None:
    options = {"root": text, "option": {"a": text}, "name": [text]}
    assert command_words(options) == ["--root", text, "--option", f"a={text}", "--name", text]
    assert shlex.split(shell_words(options)) == command_words(options)


def test_values_that_a_cluster_s_shell_would_expand_are_refused() -> None:
    check_passed_on(["results", "it's", "$HOME", '"quoted"'])
    for text in ("it's $HOME", "'`", "'\"", "'\\"):
        with pytest.raises(PatebenchError, match="contains a single quote and one of"):
            check_passed_on(["results", text])
