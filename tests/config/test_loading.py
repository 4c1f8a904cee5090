"""YAML that is hostile or hurt: one line each, and soon."""

import time
from pathlib import Path

import pytest

from patebench.config import load, validate
from patebench.core.errors import PatebenchError

#: Each list holds the one before it nine times: ten lines stand for 9¹⁰ values.
BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)

HOSTILE = {
    "a list in itself": ("only: &a [*a]", ", line 1: a value that holds itself"),
    "a mapping in itself": ("seeds: [0]\nexperiments: &e\n  demo: *e", ", line 2: a value that holds itself"),
    "a mapping merged into itself": ("a: &a {<<: *a}", ", line 1: a value that holds itself"),
    "3,000 brackets": ("only: " + "[" * 3000 + "]" * 3000, "is nested too deeply"),
    "3,000 braces": ("only: " + "{a: " * 3000 + "}" * 3000, "is nested too deeply"),
    "3,000 dashes": ("only:\n" + "- " * 3000 + "a", "is nested too deeply"),
    "an alias bomb": (BOMB, "more than 100,000 values, once its aliases are written out"),
    "a number of 5,000 digits": ("seeds: " + "9" * 5000, ", line 1: Exceeds the limit (4300 digits)"),
    "a day that there is not": ("name: a\nseeds: 2020-13-45", ", line 2: month must be in 1..12"),
    "a key that is a list": ("? [a, b]\n: c", "unhashable key"),
    "an object of Python": ("results: !!python/object:os.system ls", "could not determine a constructor"),
    "two documents": ("a: 1\n---\nb: 2", "another document"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_one_line(tmp_path: Path, name: str) -> None:
    text, words = HOSTILE[name]
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    with pytest.raises(PatebenchError) as caught:
        load(path)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{path}")


@pytest.mark.slow
def test_twenty_thousand_keys_take_no_minute(tmp_path: Path) -> None:
    path = tmp_path / "many.yaml"
    path.write_text("".join(f"k{i}: 1\n" for i in range(20_000)))
    began = time.process_time()
    assert len(load(path)) == 20_000
    assert time.process_time() - began < 30


def test_aliases_that_are_meant_pass(tmp_path: Path) -> None:
    path = tmp_path / "sound.yaml"
    path.write_text("a: &grid {lnmax: {gamma: 1}}\nb: *grid\nc: {<<: *grid, gnmax: {sigma: 2}}\n")
    lnmax = {"lnmax": {"gamma": 1}}
    assert load(path) == {"a": lnmax, "b": lnmax, "c": {**lnmax, "gnmax": {"sigma": 2}}}


def test_what_never_ends_is_not_read() -> None:
    with pytest.raises(PatebenchError, match="is no file; give the path of a YAML file"):
        load("/dev/zero")


HUGE = int("9" * 4000) * 10**4000


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"name": "abc\n"}, "name: is 'abc\\n'; text on one line"),
        ({"results": "a\0b"}, "results: is 'a\\x00b'; text on one line"),
        ({"results": "a\ud800b"}, "results: is 'a\\ud800b'"),
        ({"results": "a\nb"}, "results: is 'a\\nb'; text on one line"),
        ({"data_root": "a\nb"}, "data_root: is 'a\\nb'; text on one line"),
        ({"seeds": HUGE}, "seeds: is a very long number; a whole number of 64 bits"),
        ({"seeds": 1e300}, "seeds: is 1e+300; a whole number of 64 bits"),
        ({"ledger": {"budget": HUGE, "delta": 1e-5}}, "ledger.budget: is a very long number; a finite number"),
        ({"datasets": {"a\n": {}}}, "no plain name"),
        ({"datasets": {"a": {"loader": "npz", "private": "a\nb", "public": "c"}}}, "private: is 'a\\nb'"),
        ({"datasets": {"a": {"loader": "npz", "private": "a", "public": "{b}"}}}, "is '{b}'; a path without braces"),
        ({"datasets": {"a": {"loader": "npz", "private": "a", "public": "b\x7f"}}}, "public: is 'b\\x7f'"),
    ],
)  # fmt: skip
def test_values_that_no_path_and_no_array_can_hold(written: dict[str, object], words: str) -> None:
    with pytest.raises(PatebenchError) as caught:
        validate({"seeds": [0], "experiments": {}, **written})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
