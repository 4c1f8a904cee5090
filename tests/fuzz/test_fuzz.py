"""Configurations, files, data and mechanisms that went wrong at random: one line each, or rightly accepted.

Seeds are fixed, so what fails once fails again. More are tried by `pytest tests/fuzz --cases 2000 -s`, which prints
what came of them.
"""

import copy
import csv
import io
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image
from tests.fuzz.conftest import Tally
from tests.stages.labels import OF_VOTES

from patebench.config import load, validate
from patebench.core.files import read_arrays, read_json, write_arrays, write_json
from patebench.core.formats import LABELS, VOTES
from patebench.data import DATASETS
from patebench.data.dataset import Dataset

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
Cases = Callable[[int], range]


def pick(rng: np.random.Generator, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


# --- configurations ---

SHIPPED = sorted(ROOT.glob("config/**/*.yaml"))

#: What no key can be.
NEVER = [
    *("a\nb", "\0", "\ud800", "x\x1b[0m", int("9" * 4000) * 10**4000),
    *([[[1]]], {"a\n": 1}, date(2020, 1, 1), b"x", {1: 2}),
]
#: What some key may be.
SOMETIMES = [
    *(None, True, False, 0, -1, 1, 2, 0.5, 1e-300, 1e300, float("nan"), float("inf"), 2**63, 10**30),
    *("", " ", "..", "/"),
    *("~", "-x", "--help", "$(touch pwned)", "`x`", "a b", "ü", "digits", "1e400", "0x10", "1_000", "{x}", "null"),
    *([], {}, [1, 1], [0], ["a"], [None], {"a": 1}, {"": ""}, "a" * 300, "../../x", "a/b", "*", "lnmax"),
]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value inside `value`."""
    if place:
        yield place
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield from places(inner, (*place, step))


def parent_of(settings: Any, place: tuple[Any, ...]) -> Any:
    for step in place[:-1]:
        settings = settings[step]
    return settings


def mutated(settings: Any, rng: np.random.Generator) -> tuple[Any, bool]:
    """Return `settings` with a change in one place, and True if the result is always invalid."""
    settings = copy.deepcopy(settings)
    place = pick(rng, list(places(settings)))
    parent, last, never = parent_of(settings, place), place[-1], False
    match pick(rng, ("never", "sometimes", "sometimes", "gone", "unknown", "copied")):
        case "never":
            parent[last], never = pick(rng, NEVER), True
        case "sometimes":
            parent[last] = pick(rng, SOMETIMES)
        case "gone":
            del parent[last]
        case "unknown" if isinstance(parent, dict):
            parent[f"{last}x"] = parent.pop(last)
        case _:
            other = pick(rng, list(places(settings)))
            parent[last] = copy.deepcopy(parent_of(settings, other)[other[-1]])
    return settings, never


def planned(settings: Any, never: bool) -> str | None:
    """Validate `settings`; if accepted, return the reason why they should have been refused, or None."""
    config = validate(settings)
    if never:
        return "accepted what can never be"
    odd = [path for path in (config.results, *config.options) if set(path) & set("{}\n\0")]
    climbs = [path for path in config.options if ".." in path]
    return f"makes {(odd + climbs)[0]!r}" if odd or climbs else None


def test_configurations_with_one_thing_changed(cases: Cases, tally: Tally) -> None:
    shipped = [load(path) for path in SHIPPED]
    for number in cases(80):
        rng = np.random.default_rng([1, number])
        settings, never = mutated(pick(rng, shipped), rng)
        tally.attempt(f"{number}", lambda: planned(settings, never))  # noqa: B023


def test_configurations_with_damaged_text(cases: Cases, tally: Tally, tmp_path: Path) -> None:
    path = tmp_path / "damaged.yaml"
    texts = [each.read_text(encoding="utf-8") for each in SHIPPED]
    for number in cases(40):
        rng = np.random.default_rng([2, number])
        content = harmed(pick(rng, texts).encode(), rng)
        path.write_bytes(content)
        tally.attempt(f"{number}", lambda: planned(load(path), False))


# --- artefacts ---


def harmed(content: bytes, rng: np.random.Generator) -> bytes:
    """Return `content` with some bytes changed, removed, inserted or repeated."""
    at, length = int(rng.integers(len(content))), int(rng.integers(1, 40))
    noise = rng.integers(0, 256, length).astype(np.uint8).tobytes()
    flipped = bytes([content[at] ^ (1 << int(rng.integers(8)))])
    start, rest, after = content[:at], content[at:], content[at + length :]
    changed = (start, start + flipped + content[at + 1 :], start + noise + after, start + noise + rest, start + after)
    return bytes(pick(rng, (*changed, start + content[at : at + length] + rest)))


def test_damaged_artefacts(cases: Cases, tally: Tally, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    votes = {"votes": rng.integers(0, 3, (5, 20)), "test_votes": rng.integers(0, 3, (5, 4))}
    facts = {"partition": "p", "pool": "q", "test": "t", "classes": 3, "chunks": []}
    write_arrays(tmp_path / "votes.npz", VOTES, votes, facts)
    made = {"mechanism": "gnmax", "parameters": {"sigma": 2.0}, "mode": "seeded", "rounds": [], "votes": "v"}
    labels = {"labels": rng.integers(-1, 3, 20)}
    write_arrays(tmp_path / "labels.npz", LABELS, labels, {**made, **OF_VOTES, "pool": "q", "classes": 3})
    write_json(tmp_path / "bounds.json", "account", {"epsilon": 1.5, "queries": [1, 2], "words": "ε"})
    for number in cases(120):
        rng = np.random.default_rng([3, number])
        name = pick(rng, ("votes.npz", "labels.npz", "bounds.json"))
        sound, path = (tmp_path / name), tmp_path / f"harmed-{name}"
        path.write_bytes(harmed(sound.read_bytes(), rng))
        tally.attempt(f"{number}: {name}", lambda: differs(sound, path))  # noqa: B023


def differs(sound: Path, path: Path) -> str | None:
    """Read the damaged file `path`; return a reason to refuse it if its content differs from that of `sound`."""
    if sound.suffix == ".json":
        return None if read_json(path, "account") == read_json(sound, "account") else "reads as something else"
    layout = VOTES if "votes" in sound.name else LABELS
    one, other = read_arrays(path, layout), read_arrays(sound, layout)
    same = one.meta == other.meta and all(np.array_equal(one[name], other[name]) for name in other.arrays)
    return None if same else "reads as something else"


# --- own data ---


def odd_arrays(rng: np.random.Generator) -> dict[str, Any]:
    """Return arrays of an .npz file with at most one fault."""
    samples, classes = int(rng.integers(4, 30)), int(rng.integers(2, 5))
    x = pick(rng, (rng.integers(0, 256, (samples, 6, 7)).astype(np.uint8), rng.normal(size=(samples, 3))))
    arrays: dict[str, Any] = {"x": x, "y": np.arange(samples) % classes}
    changes: list[Callable[[], dict[str, Any]]] = [
        lambda: {},
        lambda: {"y": arrays["y"] * pick(rng, (2, 3, 100_000, -1))},
        lambda: {"y": arrays["y"] + pick(rng, (1, -1, 7, 2**62))},
        lambda: {"y": arrays["y"].astype(pick(rng, (float, str, bool, np.uint64, np.int8, object)))},
        lambda: {"y": arrays["y"][: int(rng.integers(samples))]},
        lambda: {"x": arrays["x"].astype(pick(rng, (float, str, bool, np.int16, np.float16, complex)))},
        lambda: {"x": arrays["x"].reshape(-1)},
        lambda: {"x": arrays["x"] * pick(rng, (np.nan, np.inf, 1e300))},
        lambda: {"x": np.zeros(pick(rng, ((0, 3), (samples, 0), (samples, 3, 3, 3, 3), (samples, 2, 9, 2), ())))},
        lambda: {"row": rng.integers(-1, 5, samples)},
        lambda: {"row": np.arange(samples) / 2},
        lambda: {"class_names": np.array(pick(rng, (["a"], ["a", "a"], [["a"]], "abc", [1, 2, 3], [""], [1.5, 2.5])))},
        lambda: {"class_names": np.array([f"class {i}" for i in range(int(rng.integers(1, 9)))])},
    ]
    with np.errstate(all="ignore"):
        return {**arrays, **pick(rng, changes)()}


def unsound(data: Dataset, declared: bool) -> str | None:
    """Return the reason why accepted `data` should have been refused, or None."""
    for x, y in ((data.private.x, data.private.y), (data.public.x, data.public.y)):
        if x.dtype not in (np.uint8, np.float32) or len(x) != len(y) or not len(x) or not np.isfinite(x).all():
            return f"samples {x.dtype} {x.shape}"
        if y.min() < 0 or y.max() >= data.classes:
            return f"labels {np.unique(y)}"
    if not declared and len(np.unique(data.public.y)) < data.classes:
        return f"classes {data.class_names} of labels {np.unique(data.public.y)}"
    return "a class twice" if len(set(data.class_names)) < data.classes else None


def test_own_arrays_with_one_thing_odd(cases: Cases, tally: Tally, tmp_path: Path) -> None:
    read = DATASETS.load("npz")
    for number in cases(80):
        rng = np.random.default_rng([4, number])
        files = {}
        arrays = odd_arrays(rng)
        for role in ("private", "public"):
            path = tmp_path / f"{role}.npz"
            given = arrays if rng.random() < 0.7 else odd_arrays(rng)
            np.savez(path, **given, allow_pickle=True)
            if rng.random() < 0.2:
                path.write_bytes(harmed(path.read_bytes(), rng))
            files[role] = str(path)
        tally.attempt(f"{number}", lambda: unsound(read(root=tmp_path, download=False, **files), _declares(files)))  # noqa: B023


def _declares(files: dict[str, str]) -> bool:
    with zipfile.ZipFile(files["public"]) as archive:
        return "class_names.npy" in archive.namelist()


# --- tables ---

DECLARED: dict[str, Any] = {
    "label": {"column": "state", "classes": ["well", "ill", "severe"]},
    "owner": "person",
    "public_share": 0.4,
    "features": {
        "age": {"number": [0, 110]},
        "sex": {"category": ["f", "m"]},
        "visit": {"date": ["2018-01-01", "2024-01-01"]},
        "pressure": {"number": [60, 220], "missing": "column"},
        "note": {"text": 8},
    },
    "drop": ["id"],
}
#: Cells that some column may hold, and some may not.
CELLS = ["", "abc", "1e999", '"', "\0", "ü", "nan", "-inf", "2020-13-45", "9" * 40, "a,b", "P1", "well", "\n", "∞", "5"]
#: What some key of a declaration may be.
DECLARATIONS = [*SOMETIMES, {"number": [1, 2]}, {"category": ["f"]}, {"text": 3}, ["f", "m"], [0, 50], "age", "state"]


def table_lines(rng: np.random.Generator) -> list[str]:
    """Return a header and 30 visits of ten people."""
    states, sexes = DECLARED["label"]["classes"], ("f", "m", "x")
    lines = ["id,person,age,sex,visit,pressure,note,state"]
    for number in range(30):
        pressure = "" if rng.random() < 0.2 else f"{rng.normal(130, 20):.1f}"
        visit = f"20{rng.integers(18, 24)}-0{rng.integers(1, 10)}-15"
        ages = int(rng.integers(18, 95))
        lines.append(f"{number},P{number % 10},{ages},{pick(rng, sexes)},{visit},{pressure},cough,{pick(rng, states)}")
    return lines


def changed_lines(lines: list[str], rng: np.random.Generator) -> list[str]:
    """Return the lines with up to three cells changed; some files are cut, or have a line or a column twice."""
    lines = list(lines)
    for _ in range(int(rng.integers(1, 4))):
        line = int(rng.integers(len(lines)))
        cells = lines[line].split(",")
        cells[int(rng.integers(len(cells)))] = pick(rng, CELLS)
        lines[line] = ",".join(cells)
    match int(rng.integers(12)):
        case 0:
            return lines[: int(rng.integers(4))]
        case 1:
            return [*lines, pick(rng, lines)]
        case 2:
            return [f"{line},{line.split(',')[2]}" for line in lines]
    return lines


def wrong_table(data: Dataset, text: str, declared: dict[str, Any]) -> str | None:
    """Return why a table should not have been accepted, by a reader of its own."""
    if fault := unsound(data, True):
        return fault
    records = list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
    both = np.concatenate([data.private.x, data.public.x])
    labels = np.concatenate([data.private.y, data.public.y])
    if both.min() < 0 or both.max() > 1 + 1e-6:
        return f"values from {both.min()} to {both.max()}"
    if len(both) != len(records):
        return f"{len(both)} of {len(records)} records"
    classes = list(map(str, declared["label"]["classes"]))
    if sorted(classes.index(record[declared["label"]["column"]]) for record in records) != sorted(labels.tolist()):
        return "other labels"
    if declared.get("owner") is not None:
        if data.private.owners is None or data.public.owners is None:
            return "no owners"
        if set(data.private.owners) & set(data.public.owners):
            return "a person in both parts"
        if len({record[declared["owner"]] for record in records}) != len({*data.private.owners, *data.public.owners}):
            return "another number of people"
    name, feature = next(iter(declared["features"].items()))
    if feature.get("number") is not None and feature.get("missing", "refuse") == "refuse":
        low, high = map(float, feature["number"])
        expected = sorted((min(max(float(record[name]), low), high) - low) / (high - low) for record in records)
        if not np.allclose(sorted(both[:, 0]), expected, atol=1e-6):
            return f"other values of {name}"
    return None


def test_tables_and_declarations_with_one_thing_changed(cases: Cases, tally: Tally, tmp_path: Path) -> None:
    read, path = DATASETS.load("table"), tmp_path / "visits.csv"
    for number in cases(1000):
        rng = np.random.default_rng([6, number])
        lines, declared = table_lines(rng), copy.deepcopy(DECLARED)
        if number % 2:
            place = pick(rng, list(places(declared)))
            parent = parent_of(declared, place)
            if rng.random() < 0.3:
                del parent[place[-1]]
            else:
                parent[place[-1]] = pick(rng, DECLARATIONS)
        else:
            lines = changed_lines(lines, rng)
        text = "\n".join(lines)
        path.write_text(text, encoding="utf-8")

        def use() -> str | None:
            data = read(root=tmp_path, download=False, private=str(path), table=declared)  # noqa: B023
            return wrong_table(data, text, declared)  # noqa: B023

        tally.attempt(f"{number}", use)


# --- folders of images ---


def make_images(folder: Path, rng: np.random.Generator) -> None:
    """Write eight small images of two classes in two parts, in any format, with equal names and other sizes."""
    suffixes = ("png", "jpg", "gif", "bmp", "tif", "webp", "pgm")
    mixed = rng.random() < 0.5
    for role in ("private", "public"):
        for label in ("a", "b"):
            (folder / role / label).mkdir(parents=True)
            for i in range(2):
                size = rng.integers(5, 9, 2) if mixed else (5, 5)
                pixels = rng.integers(0, 256, size).astype(np.uint8)
                Image.fromarray(pixels).save(folder / role / label / f"{i}.{pick(rng, suffixes)}")


def change_images(folder: Path, rng: np.random.Generator) -> None:
    """Change one thing: bytes, mode, size, rotation, name, place, or a copy."""
    path = pick(rng, sorted(path for path in folder.rglob("*") if path.is_file()))
    match int(rng.integers(10)):
        case 0 | 1 | 2:
            path.write_bytes(harmed(path.read_bytes(), rng))
        case 3:
            size = 5, int(rng.integers(4, 7))
            Image.new(pick(rng, ("L", "LA", "RGB", "RGBA", "P", "1", "I", "F")), size).save(path.with_suffix(".tif"))
        case 4:
            exif = Image.Exif()
            exif[0x0112] = int(rng.integers(0, 12))
            Image.new("RGB", (4, 7)).save(path.with_suffix(".jpg"), exif=exif)
        case 5:
            path.rename(path.parent.parent / pick(rng, ("a.png", "..png", "é.png")))
        case 6:
            (path.parent / pick(rng, (".x.png", "x.txt", "x.png"))).write_bytes(b"no image")
        case 7:
            shutil.copy(path, path.with_stem("copy"))
        case 8:
            path.parent.rename(path.parent.with_name(pick(rng, ("c", ".c", "ü", "a b"))))
        case 9:
            path.unlink()


def wrong_images(data: Dataset, folder: Path, size: list[int] | None) -> str | None:
    """Return why images should not have been accepted: not as many as there are, or not of the declared size."""
    if fault := unsound(data, False):
        return fault
    if size is not None and list(data.private.x.shape[2:]) != size:
        return f"images of shape {data.private.x.shape}"
    for role, x in (("private", data.private.x), ("public", data.public.x)):
        files = [path for path in folder.glob(f"{role}/[!.]*/[!.]*") if path.suffix not in ("", ".txt")]
        if len(files) != len(x):
            return f"{len(x)} of {len(files)} {role} images"
    return None


def test_own_images_with_one_thing_odd(cases: Cases, tally: Tally, tmp_path: Path) -> None:
    read = DATASETS.load("folder")
    for number in cases(200):
        rng = np.random.default_rng([5, number])
        here = tmp_path / str(number)
        make_images(here, rng)
        change_images(here, rng)
        size = [6, 8] if rng.random() < 0.7 else None
        files = {role: str(here / role) for role in ("private", "public")}
        images = {"size": size, "resize": pick(rng, ("crop", "pad", "fit"))}

        def use() -> str | None:
            return wrong_images(read(root=here, download=False, images=images, **files), here, size)  # noqa: B023

        tally.attempt(f"{number}", use)


def test_the_fuzzers_find_what_there_is_to_find(tmp_path: Path) -> None:
    """What is odd is refused, what raises is counted, and what is accepted is looked at."""
    tally = Tally()
    tally.attempt("refused", lambda: planned({"seeds": "a"}, False))
    tally.attempt("a traceback", lambda: json.loads("{") or None)
    tally.attempt("wrong", lambda: "accepted")
    tally.attempt("right", lambda: planned(yaml.safe_load((ROOT / "tests/workflow/tiny.yaml").read_text()), False))
    assert (tally.tried, tally.refused, tally.accepted) == (4, 1, 2)
    assert (len(tally.tracebacks), tally.wrongly_accepted) == (1, ["wrong: accepted"])
