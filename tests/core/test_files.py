"""Test that artefact files are read as written, and that a damaged file raises an error of one line that names it."""

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
from tests.refusals import refuses
from tests.stages.labels import OF_VOTES

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
    """Write an archive like an artefact, without any checks."""
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


def giant(path: Path) -> None:
    """Write an array header with a size beyond any memory."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (3, 10**16)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.json", json.dumps({"kind": "thing", **META, "digest": ""}))
        archive.writestr("votes.npy", header.getvalue())


def compressed_and_damaged(path: Path) -> None:
    """Write a damaged archive that another tool compressed, which raises an error of zlib."""
    np.savez_compressed(path, votes=np.random.default_rng(0).integers(0, 5, 2000))
    content = bytearray(path.read_bytes())
    content[200:240] = bytes(40)
    path.write_bytes(content)


def other_member(path: Path) -> None:
    np.savez(path, votes=ARRAYS["votes"])


def pickled(path: Path) -> None:
    forge(path, {"votes": np.array([[{}, print]], dtype=object)}, {"kind": "thing", **META}, pickles=True)


def raw_meta(text: bytes) -> Callable[[Path], None]:
    return lambda path: forge(path, ARRAYS, text)


VOTES = ARRAYS["votes"]
DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "removed": (lambda path: path.unlink(), "missing-file"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "missing-file"),
    "empty": (lambda path: os.truncate(path, 0), "empty"),
    "pickled objects": (pickled, "pickled"),
    "giant header": (giant, "damaged"),
    "damaged zlib stream": (compressed_and_damaged, "not-ours"),
    "not a patebench artefact": (other_member, "not-ours"),
    "other digest": (forged(), "checksum"),
    "other kind": (forged(kind="labels"), "kind"),
    "meta entry missing": (
        lambda path: forge(path, ARRAYS, {"kind": "thing", "digest": ""}), "layout"),
    "meta entry not a number": (forged(classes="ten"), "layout"),
    "meta a list": (lambda path: forge(path, ARRAYS, [1, 2]), "damaged"),
    "meta cut off": (raw_meta(b'{"kind": "thing", "cla'), "damaged"),
    "meta with NaN": (raw_meta(b'{"kind": "thing", "classes": 5, "x": NaN}'), "damaged"),
    "meta not UTF-8": (raw_meta(b'{"kind": "\xff"}'), "damaged"),
    "array missing": (forged(drop="weights"), "layout"),
    "unknown array": (forged({"wieghts": np.ones(3)}), "layout"),
    "float votes": (forged({"votes": VOTES / 2}), "layout"),
    "infinity": (forged({"weights": np.array([0, -np.inf, 1])}), "layout"),
    "NaN in an optional array": (forged({"extra": np.full((3, 2, 2), np.nan)}), "layout"),
    "negative": (forged({"votes": VOTES - 1}), "layout"),
    "class out of range": (forged({"votes": VOTES + 1}), "layout"),
    "too few axes": (forged({"votes": VOTES[0]}), "layout"),
    "too many axes": (forged({"weights": np.ones((3, 1))}), "layout"),
    "lengths differ": (forged({"weights": np.ones(4)}), "layout"),
    "empty array": (forged({"votes": VOTES[:, :0]}), "layout"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_artefact_is_refused_in_one_line_that_names_it(good: Path, name: str) -> None:
    damage, code = DAMAGES[name]
    damage(good)
    with refuses(code, good) as caught:
        read_arrays(good, LAYOUT)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{good}: ")


def test_every_changed_byte_and_every_truncation_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "truth.npz"
    digest = write_arrays(path, TRUTH, {"y": np.arange(10)}, {"pool": "p", "classes": 10})
    content = path.read_bytes()
    flipped = [content[:i] + bytes([content[i] ^ 0x81]) + content[i + 1 :] for i in range(len(content))]
    refused = 0
    for damaged in [*flipped, *(content[:length] for length in range(0, len(content), 5))]:
        path.write_bytes(damaged)
        try:
            artefact = read_any_arrays(path, {TRUTH.kind: TRUTH})  # reads the metadata first, then all content
        except ArtefactError:
            refused += 1
        else:  # a byte of the archive's own bookkeeping, such as a time stamp
            assert (artefact["y"] == np.arange(10)).all()
            assert artefact.digest == digest
    assert refused > 0.9 * len(content)


def test_arrays_are_read_as_written_also_by_plain_numpy(good: Path) -> None:
    artefact = read_arrays(good, LAYOUT)
    assert dict(artefact.meta) == {**META, "kind": "thing"}
    with np.load(good, allow_pickle=False) as archive:
        for name, array in ARRAYS.items():
            assert artefact[name].dtype == array.dtype
            np.testing.assert_array_equal(artefact[name], array)
            np.testing.assert_array_equal(archive[name], array)


def test_bytes_depend_on_content_alone(tmp_path: Path) -> None:
    backwards = dict(reversed(ARRAYS.items()))
    strided = {name: np.asfortranarray(array) for name, array in backwards.items()}
    first = write_arrays(tmp_path / "a.npz", LAYOUT, ARRAYS, META)
    second = write_arrays(tmp_path / "elsewhere" / "b.npz", LAYOUT, strided, dict(reversed(META.items())))
    assert first == second
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "elsewhere" / "b.npz").read_bytes()


def test_another_content_has_another_digest(tmp_path: Path) -> None:
    votes = [VOTES + 1, VOTES.astype(np.uint8), VOTES[:, :2]]
    changes = [{}, *({"votes": each} for each in votes), {"meta": {"classes": 6}}, {"meta": {"note": "other"}}]
    digests = set()
    for change in changes:
        meta = {**META, "classes": 7, **change.pop("meta", {})}  # type: ignore[attr-defined]
        digests.add(write_arrays(tmp_path / "a.npz", LAYOUT, {**ARRAYS, **change}, meta))
    assert len(digests) == 6


def test_arrays_that_do_not_fit_the_layout_are_not_written(tmp_path: Path) -> None:
    with refuses("layout"):
        write_arrays(tmp_path / "a.npz", LAYOUT, {**ARRAYS, "votes": VOTES - 1}, META)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_arrays(tmp_path / "a.npz", LAYOUT, ARRAYS, {**META, "gamma": float("nan")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", "account", {"epsilon": float("inf")})
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
    with refuses("mismatch", good):
        artefact.require("pool", "abc", "votes.npz")


def test_layouts_refuse_invalid_arrays(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    answers = {"votes": "v", "pool": "p", "classes": 3, "mechanism": "lnmax", "parameters": {}, "mode": "counts"}
    answers |= {"rounds": [], **OF_VOTES}
    write_arrays(path, LABELS, {"labels": np.array([-1, 0, 2])}, answers)
    made = {"partition": "p", "pool": "q", "test": "t", "classes": 3, "model": "m", "recipe": "r", "training": {}}
    votes = {"teachers": np.arange(2), "votes": np.zeros((2, 4), int), "test_votes": np.zeros((3, 5), int)}
    facts = {"dataset": "d", "role": "private", "classes": 2, "class_names": ["a", "b"]}
    images = {"x": np.zeros((3, 1, 2, 2), np.uint8), "y": np.array([0, 1]), "row": np.arange(2)}
    wrong = [(LABELS, {"labels": np.array([-2, 0])}, answers), (CHUNK, votes, made), (SAMPLES, images, facts)]
    for layout, arrays, meta in wrong:
        with refuses("layout"):
            write_arrays(path, layout, arrays, meta)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "bounds.json"
    write_json(path, "account", {"queries": [100], "epsilon": 1.61, "word": "ε"})
    return path


JSON_DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "removed": (lambda path: path.unlink(), "missing-file"),
    "empty": (lambda path: os.truncate(path, 0), "empty"),
    "not UTF-8": (lambda path: path.write_bytes(b'{"kind": "\xff"}'), "damaged"),
    "a list": (lambda path: path.write_text("[1]"), "kind"),
    "NaN": (lambda path: path.write_text('{"kind": "account", "epsilon": NaN}'), "damaged"),
    "other kind": (lambda path: write_json(path, "train_student", {}), "kind"),
    "other value": (lambda path: path.write_text(path.read_text().replace("1.61", "0.61")), "checksum"),
    "no digest": (lambda path: path.write_text('{"kind": "account"}'), "checksum"),
    "nested too deep": (lambda path: path.write_text("[" * 100_000), "damaged"),
    "half a character": (lambda path: path.write_text('{"kind": "account", "word": "\\ud800"}'), "checksum"),
}


@pytest.mark.parametrize("name", JSON_DAMAGES)
def test_damaged_json_is_refused_in_one_line_that_names_it(record: Path, name: str) -> None:
    assert read_json(record, "account") == {"kind": "account", "queries": [100], "epsilon": 1.61, "word": "ε"}
    damage, code = JSON_DAMAGES[name]
    damage(record)
    with refuses(code, record) as caught:
        read_json(record, "account")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{record}: ")
    if name == "other kind":
        assert str(caught.value).endswith("; give a file of kind 'account'."), "an undamaged file must not be deleted"
