"""Artefact files: what comes back is what was written, and a damaged file gets one line that names it."""

import io
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.steps import OF_VOTES

from patebench.core import files
from patebench.core.errors import ArtefactError
from patebench.core.files import (
    Field,
    Layout,
    atomic,
    read_any_arrays,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
    write_text,
)
from patebench.core.formats import CHUNK, LABELS, SAMPLES, TRUTH

LAYOUT = Layout(
    "thing",
    {
        "votes": Field("iu", ("teachers", "queries"), low=0, below="classes"),
        "weights": Field("f", ("teachers",)),
        "extra": Field("f", ("teachers", "..."), optional=True),
    },
    ("classes",),
)
ARRAYS = {"votes": np.arange(12).reshape(3, 4) % 5, "weights": np.array([0.5, 1.0, 2.0])}
META = {"classes": 5, "note": "γ = 0.05"}


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "thing.npz"
    write_arrays(path, LAYOUT, ARRAYS, META)
    return path


def forge(path: Path, arrays: Mapping[str, np.ndarray], meta: Any, pickles: bool = False) -> None:
    """Write an archive like an artefact, with none of its checks."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
        warnings.simplefilter("ignore")
        archive.writestr("meta.json", meta if isinstance(meta, bytes) else json.dumps(meta))
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=pickles)
            archive.writestr(f"{name}.npy", member.getvalue())


def forged(changes: Mapping[str, Any] | None = None, drop: str = "", **meta: Any) -> Callable[[Path], None]:
    arrays = {name: array for name, array in {**ARRAYS, **(changes or {})}.items() if name != drop}
    facts = {"kind": "thing", **META, "digest": "0" * 64, **meta}
    return lambda path: forge(path, arrays, facts)


def truncated(share: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def flip_last_weight(path: Path) -> None:
    content = bytearray(path.read_bytes())
    place = content.index(np.float64(2.0).tobytes())
    content[place] ^= 1
    path.write_bytes(content)


def giant(path: Path) -> None:
    """An array header that promises more than any memory holds."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (3, 10**16)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.json", json.dumps({"kind": "thing", **META, "digest": ""}))
        archive.writestr("votes.npy", header.getvalue())


def compressed_and_damaged(path: Path) -> None:
    """Somebody else's tool may compress; a fault then shows in zlib."""
    np.savez_compressed(path, votes=np.random.default_rng(0).integers(0, 5, 2000))
    content = bytearray(path.read_bytes())
    content[200:240] = bytes(40)
    path.write_bytes(content)


def bare_array(path: Path) -> None:
    with path.open("wb") as stream:
        np.save(stream, ARRAYS["votes"])


def other_member(path: Path) -> None:
    np.savez(path, votes=ARRAYS["votes"])


def pickled(path: Path) -> None:
    forge(path, {"votes": np.array([[{}, print]], dtype=object)}, {"kind": "thing", **META}, pickles=True)


def raw_meta(text: bytes) -> Callable[[Path], None]:
    return lambda path: forge(path, ARRAYS, text)


VOTES = ARRAYS["votes"]
DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "removed": (lambda path: path.unlink(), "there is no such file"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "there is no such file"),
    "empty": (truncated(0), "it is empty"),
    "one byte": (lambda path: os.truncate(path, 1), "truncated or damaged"),
    "truncated at 10%": (truncated(0.1), "truncated or damaged"),
    "truncated at 50%": (truncated(0.5), "truncated or damaged"),
    "truncated at 99%": (truncated(0.99), "truncated or damaged"),
    "text": (lambda path: path.write_text("hello\n" * 100), "truncated or damaged"),
    "a bare .npy": (bare_array, "truncated or damaged"),
    "flipped bit": (flip_last_weight, "damaged|checksum"),
    "pickled objects": (pickled, "pickled objects, which are never loaded"),
    "giant header": (giant, "damaged"),
    "damaged zlib stream": (compressed_and_damaged, "meta.json|damaged"),
    "not ours": (other_member, "it has no meta.json, so it is not a patebench artefact"),
    "other digest": (forged(), "checksum does not match"),
    "other kind": (forged(kind="labels"), "it is of kind 'labels', and 'thing' is needed"),
    "no kind": (forged(kind=None), "it is of kind 'None'"),
    "meta entry missing": (
        lambda path: forge(path, ARRAYS, {"kind": "thing", "digest": ""}), "its meta.json lacks 'classes'"
    ),
    "meta entry not a number": (forged(classes="ten"), "gives 'classes' as 'ten', and an integer is needed"),
    "meta a list": (lambda path: forge(path, ARRAYS, [1, 2]), "its meta.json is not an object"),
    "meta cut off": (raw_meta(b'{"kind": "thing", "cla'), "damaged"),
    "meta with NaN": (raw_meta(b'{"kind": "thing", "classes": 5, "x": NaN}'), "NaN is not a number"),
    "meta with infinity": (raw_meta(b'{"kind": "thing", "classes": 5, "x": -Infinity}'), "-Infinity is not a number"),
    "meta not UTF-8": (raw_meta(b'{"kind": "\xff"}'), "damaged"),
    "array missing": (forged(drop="weights"), "it lacks the array 'weights'"),
    "unknown array": (forged({"wieghts": np.ones(3)}), "it holds the unknown array 'wieghts'"),
    "float votes": (forged({"votes": VOTES / 2}), "dtype float64, and a signed integer or unsigned integer type"),
    "boolean votes": (forged({"votes": VOTES > 2}), "dtype bool"),
    "text votes": (forged({"votes": VOTES.astype(str)}), "dtype <U"),
    "integer weights": (forged({"weights": np.ones(3, int)}), "dtype int64, and a floating point type"),
    "NaN": (forged({"weights": np.array([0, np.nan, 1])}), "'weights' holds NaN or infinite values"),
    "infinity": (forged({"weights": np.array([0, -np.inf, 1])}), "'weights' holds NaN or infinite values"),
    "NaN in an optional array": (forged({"extra": np.full((3, 2, 2), np.nan)}), "'extra' holds NaN"),
    "negative": (forged({"votes": VOTES - 1}), "'votes' holds -1, below the least value 0"),
    "class out of range": (forged({"votes": VOTES + 1}), "'votes' holds 5, which must be below classes = 5"),
    "too few axes": (forged({"votes": VOTES[0]}), r"shape \(4,\) instead of \(teachers, queries\)"),
    "too many axes": (forged({"weights": np.ones((3, 1))}), r"shape \(3, 1\) instead of \(teachers\)"),
    "a scalar": (forged({"weights": np.float64(1)}), r"shape \(\) instead of"),
    "lengths differ": (forged({"weights": np.ones(4)}), "'weights' has 4 teachers where others have 3"),
    "empty array": (forged({"votes": VOTES[:, :0]}), "its array 'votes' is empty"),
}  # fmt: skip


@pytest.fixture(params=["in memory", "on the disk"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays are read as small ones are, or as large ones."""
    if request.param == "on the disk":
        monkeypatch.setattr(files, "_LARGE", 1)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_artefact_is_refused_in_one_line_that_names_it(good: Path, name: str) -> None:
    damage, words = DAMAGES[name]
    damage(good)
    with pytest.raises(ArtefactError, match=words) as caught:
        read_arrays(good, LAYOUT)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{good}: ")


@pytest.mark.usefixtures("large")
def test_no_changed_byte_and_no_truncation_goes_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "truth.npz"
    digest = write_arrays(path, TRUTH, {"y": np.arange(10)}, {"pool": "p", "classes": 10})
    content = path.read_bytes()
    flipped = [content[:i] + bytes([content[i] ^ 0x81]) + content[i + 1 :] for i in range(len(content))]
    refused = 0
    for damaged in [*flipped, *(content[:length] for length in range(0, len(content), 5))]:
        path.write_bytes(damaged)
        try:
            artefact = read_any_arrays(path, {TRUTH.kind: TRUTH})  # reads the facts alone, and then all
        except ArtefactError:
            refused += 1
        else:  # a byte of the archive's own bookkeeping, such as a time stamp
            assert (artefact["y"] == np.arange(10)).all()
            assert artefact.digest == digest
    assert refused > 0.9 * len(content)


def test_what_is_read_is_what_was_written(good: Path) -> None:
    artefact = read_arrays(good, LAYOUT)
    assert dict(artefact.meta) == {**META, "kind": "thing"}
    assert artefact.digest == write_arrays(good, LAYOUT, ARRAYS, META)
    for name, array in ARRAYS.items():
        assert artefact[name].dtype == array.dtype
        np.testing.assert_array_equal(artefact[name], array)


def test_large_arrays_stay_on_the_disk(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same content, the same checks; writing to one is as with any array, and leaves the file alone."""
    by_column = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    digest = write_arrays(good, LAYOUT, {**ARRAYS, "extra": by_column}, META)
    before = good.read_bytes()
    monkeypatch.setattr(files, "_LARGE", 1)
    artefact = read_arrays(good, LAYOUT)
    assert artefact.digest == digest
    for name, array in {**ARRAYS, "extra": by_column}.items():
        assert isinstance(artefact[name].base, np.memmap)
        np.testing.assert_array_equal(artefact[name], array)
    artefact["weights"][0] = 7.0
    assert good.read_bytes() == before


def test_plain_numpy_opens_an_artefact(good: Path) -> None:
    with np.load(good, allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["votes"], VOTES)
        np.testing.assert_array_equal(archive["weights"], ARRAYS["weights"])


def test_bytes_depend_on_content_alone(tmp_path: Path) -> None:
    backwards = dict(reversed(ARRAYS.items()))
    strided = {name: np.asfortranarray(array) for name, array in backwards.items()}
    first = write_arrays(tmp_path / "a.npz", LAYOUT, ARRAYS, META)
    second = write_arrays(tmp_path / "elsewhere" / "b.npz", LAYOUT, strided, dict(reversed(META.items())))
    assert first == second
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "elsewhere" / "b.npz").read_bytes()


@pytest.mark.parametrize(
    ("arrays", "meta"),
    [
        ({"votes": VOTES + 1}, {}),
        ({"votes": VOTES.astype(np.uint8)}, {}),
        ({"votes": VOTES.reshape(3, 2, 2)[:, :, 0]}, {}),
        ({}, {"classes": 6}),
        ({}, {"note": "other"}),
    ],
)
def test_another_content_has_another_digest(
    tmp_path: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any]
) -> None:
    meta = {**META, "classes": 6, **meta}
    changed = write_arrays(tmp_path / "b.npz", LAYOUT, {**ARRAYS, **arrays}, {**meta, "mark": 1})
    assert changed != write_arrays(tmp_path / "a.npz", LAYOUT, ARRAYS, {**META, "classes": 6})
    assert changed != write_arrays(tmp_path / "a.npz", LAYOUT, ARRAYS, {**META, "mark": 1})


def test_what_does_not_fit_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="below the least value"):
        write_arrays(tmp_path / "a.npz", LAYOUT, {**ARRAYS, "votes": VOTES - 1}, META)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_arrays(tmp_path / "a.npz", LAYOUT, ARRAYS, {**META, "gamma": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(good: Path) -> None:
    before = good.read_bytes()

    def fail_midway() -> None:
        with atomic(good) as temporary:
            temporary.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail_midway()
    assert good.read_bytes() == before
    assert [path.name for path in good.parent.iterdir()] == [good.name]


def test_a_partner_of_another_origin_is_refused(good: Path) -> None:
    artefact = read_arrays(good, LAYOUT)
    artefact.require("classes", 5, "votes.npz")
    with pytest.raises(ArtefactError, match=r"made with another pool than votes\.npz"):
        artefact.require("pool", "abc", "votes.npz")


def test_the_formats_refuse_what_they_should(tmp_path: Path) -> None:
    answers = {
        "votes": "v",
        "pool": "p",
        "classes": 3,
        "mechanism": "lnmax",
        "parameters": {},
        "mode": "counts",
        "rounds": [],
        **OF_VOTES,
    }
    write_arrays(tmp_path / "labels.npz", LABELS, {"labels": np.array([-1, 0, 2])}, answers)
    with pytest.raises(ArtefactError, match="below the least value -1"):
        write_arrays(tmp_path / "labels.npz", LABELS, {"labels": np.array([-2, 0])}, answers)
    made = {"partition": "p", "pool": "q", "test": "t", "classes": 3, "model": "m", "recipe": "r", "training": {}}
    arrays = {"teachers": np.arange(2), "votes": np.zeros((2, 4), int), "test_votes": np.zeros((3, 5), int)}
    with pytest.raises(ArtefactError, match=r"votes' has [23] teachers where others have [23]"):
        write_arrays(tmp_path / "chunk.npz", CHUNK, arrays, made)
    facts = {"dataset": "d", "role": "private", "classes": 2, "class_names": ["a", "b"]}
    images = {"x": np.zeros((3, 1, 2, 2), np.uint8), "y": np.array([0, 1]), "row": np.arange(2)}
    with pytest.raises(ArtefactError, match=r"has [23] samples where others have [23]"):
        write_arrays(tmp_path / "samples.npz", SAMPLES, images, facts)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "bounds.json"
    write_json(path, "account", {"queries": [100], "epsilon": 1.61, "word": "ε"})
    return path


def test_json_comes_back_as_written(record: Path) -> None:
    assert read_json(record, "account") == {"kind": "account", "queries": [100], "epsilon": 1.61, "word": "ε"}
    assert "ε" in record.read_text(encoding="utf-8")


JSON_DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "removed": (lambda path: path.unlink(), "there is no such file"),
    "empty": (truncated(0), "it is empty"),
    "truncated": (truncated(0.7), "truncated or not valid JSON"),
    "not UTF-8": (lambda path: path.write_bytes(b'{"kind": "\xff"}'), "not valid JSON"),
    "a list": (lambda path: path.write_text("[1]"), "kind 'list'"),
    "NaN": (lambda path: path.write_text('{"kind": "account", "epsilon": NaN}'), "NaN is not a number"),
    "other kind": (lambda path: write_json(path, "train_student", {}), "kind 'train_student', and 'account' is needed"),
    "other value": (lambda path: path.write_text(path.read_text().replace("1.61", "0.61")), "checksum"),
    "no digest": (lambda path: path.write_text('{"kind": "account"}'), "checksum"),
    "nested too deep": (lambda path: path.write_text("[" * 100_000), "not valid JSON"),
    "half a character": (lambda path: path.write_text('{"kind": "account", "word": "\\ud800"}'), "checksum"),
}


@pytest.mark.parametrize("name", JSON_DAMAGES)
def test_damaged_json_is_refused_in_one_line_that_names_it(record: Path, name: str) -> None:
    damage, words = JSON_DAMAGES[name]
    damage(record)
    with pytest.raises(ArtefactError, match=words) as caught:
        read_json(record, "account")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{record}: ")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_lacks_are_not_written(tmp_path: Path, number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", "account", {"epsilon": number})
    assert list(tmp_path.iterdir()) == []


def test_text_is_written_into_new_folders(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "table.md", "γ\n")
    assert (tmp_path / "a" / "b" / "table.md").read_bytes() == "γ\n".encode()


def test_a_sound_file_of_another_kind_is_not_to_be_deleted(tmp_path: Path) -> None:
    files.write_json(tmp_path / "mine.json", "account", {})
    with pytest.raises(ArtefactError, match=r"it is of kind 'account', and 'audit' is needed; give the right file\.$"):
        files.read_json(tmp_path / "mine.json", "audit")
