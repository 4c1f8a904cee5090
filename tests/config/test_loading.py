"""Test that malicious or damaged YAML is refused quickly with one line."""

from pathlib import Path

import pytest
from tests.refusals import refuses

from patebench.config import load, validate

#: Each list contains the one before it nine times, so ten lines expand to 9¹⁰ values.
BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)

HOSTILE = {
    "a list in itself": ("only: &a [*a]", "nested too deeply"),
    "a mapping in itself": ("seeds: [0]\nexperiments: &e\n  demo: *e", "nested too deeply"),
    "a mapping merged into itself": ("a: &a {<<: *a}", "nested too deeply"),
    "3,000 brackets": ("only: " + "[" * 3000 + "]" * 3000, "nested too deeply"),
    "an alias bomb": (BOMB, "more than 100,000 values if every alias"),
    "a number of 5,000 digits": ("seeds: " + "9" * 5000, ": Exceeds the limit (4300 digits)"),
    "a key that is a list": ("? [a, b]\n: c", "unhashable key"),
    "a key twice": (
        "seeds: [0]\nname: x\nseeds: [1]\n",
        ", line 3: the YAML is invalid here (the key 'seeds' occurs",
    ),
    "a list": ("- a\n- b\n", "instead of keys"),
    "nothing": ("# only a comment\n", "nothing instead of keys"),
    "an object of Python": ("results: !!python/object:os.system ls", "could not determine a constructor"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_or_broken_yaml_is_one_line(tmp_path: Path, name: str) -> None:
    text, words = HOSTILE[name]
    path = tmp_path / "hostile.yaml"
    path.write_text(text)
    with refuses("yaml") as fault:
        load(path)
    line = str(fault.value)
    assert words in line
    assert line.startswith(f"{path}")
    assert "\n" not in line


def test_intended_aliases_are_read(tmp_path: Path) -> None:
    path = tmp_path / "sound.yaml"
    path.write_text("a: &grid {lnmax: {gamma: 1}}\nb: *grid\nc: {<<: *grid, gnmax: {sigma: 2}}\n")
    lnmax = {"lnmax": {"gamma": 1}}
    assert load(path) == {"a": lnmax, "b": lnmax, "c": {**lnmax, "gnmax": {"sigma": 2}}}


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9\n")
    for path in (tmp_path / "none.yaml", tmp_path, Path("/dev/zero")):  # the last one never ends
        with refuses("missing-file", path):
            load(path)
    with refuses("yaml", tmp_path / "latin.yaml"):
        load(tmp_path / "latin.yaml")


HUGE = int("9" * 4000) * 10**4000


@pytest.mark.parametrize(
    ("written", "code", "where"),
    [
        ({"name": "abc\n"}, "type", "name"),
        ({"results": "a\0b"}, "type", "results"),
        ({"seeds": HUGE}, "type", "seeds"),
        ({"seeds": 1e300}, "type", "seeds"),
        ({"ledger": {"budget": HUGE, "delta": 1e-5}}, "type", "ledger.budget"),
        ({"datasets": {"a\n": {}}}, "name", "datasets"),
        ({"datasets": {"a": {"loader": "npz", "private": "a\nb", "public": "c"}}}, "type", "datasets.a.private"),
        ({"datasets": {"a": {"loader": "npz", "private": "a", "public": "{b}"}}}, "value", "datasets.a.public"),
    ],
)
def test_values_that_fit_neither_paths_nor_arrays_are_refused(
    written: dict[str, object], code: str, where: str
) -> None:
    with refuses(code, where) as fault:
        validate({"seeds": [0], "experiments": {}, **written})
    assert "\n" not in str(fault.value)
