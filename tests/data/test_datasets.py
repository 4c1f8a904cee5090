"""Test data sets without network access: the embedded ones, and a user's arrays and folders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.datasets

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.data import DATASETS, known_outline, reads_own_files
from patebench.data.dataset import Dataset, Outline

NOWHERE = Path("no-such-root")


def load(name: str, **options: Any) -> Dataset:
    data = DATASETS.load(name)(root=NOWHERE, download=False, **options)
    assert isinstance(data, Dataset)
    return data


def test_every_data_set_can_be_loaded_and_says_whether_it_reads_own_files() -> None:
    assert {name for name in DATASETS if reads_own_files(name)} == {"npz", "folder", "table"}
    assert all(callable(DATASETS.load(name)) for name in DATASETS)


@pytest.mark.parametrize(("name", "private"), [("digits", 1197), ("breast_cancer", 369), ("wine", 108)])
def test_embedded_data_are_those_of_scikit_learn_divided_the_same_every_time(name: str, private: int) -> None:
    data, again, source = load(name), load(name), getattr(sklearn.datasets, f"load_{name}")()
    np.testing.assert_array_equal(data.private.x, again.private.x)
    np.testing.assert_array_equal(data.public.y, again.public.y)
    shares = [np.bincount(y, minlength=data.classes) / len(y) for y in (data.private.y, data.public.y)]
    np.testing.assert_allclose(*shares, atol=0.06)
    assert Outline.of(data) == known_outline(name), "which is known beforehand"
    assert len(data.private.x) == private
    assert data.class_names == tuple(str(each) for each in source.target_names)
    x, y = (np.concatenate([getattr(part, of) for part in (data.private, data.public)]) for of in "xy")
    raw = source.data.astype(np.float32)
    if name == "digits":
        assert (x.shape[1:], x.min(), x.max()) == ((1, 8, 8), 0, 255), "16 levels spread over a byte"
        x = np.round(x.reshape(-1, 64) * (16 / 255))
    assert len(x) == len(raw)
    assert {(*row, label) for row, label in zip(x.tolist(), y.tolist(), strict=True)} == {
        (*row, label) for row, label in zip(raw.tolist(), source.target.tolist(), strict=True)
    }


# --- a user's own arrays ---

Saver = Callable[..., dict[str, str]]


@pytest.fixture
def save(tmp_path: Path) -> Saver:
    """Write private.npz and public.npz; arguments for the public file replace those of the private one."""

    def write(private: dict[str, Any], **public: Any) -> dict[str, str]:
        paths = {role: str(tmp_path / f"{role}.npz") for role in ("private", "public")}
        np.savez(paths["private"], **private)
        np.savez(paths["public"], **{**private, **public})
        return paths

    return write


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


Y = np.array([0, 1, 2, 1, 0, 2])


@pytest.mark.parametrize("channels", [1, 3])
def test_npz_channels_may_come_first_or_last(save: Saver, channels: int) -> None:
    x = images(6, channels, 9, 7)
    np.testing.assert_array_equal(load("npz", **save({"x": x[:, 0], "y": Y})).private.x, x[:, :1])
    for given in (x, x.transpose(0, 2, 3, 1)):
        found = load("npz", **save({"x": given, "y": Y})).private.x
        np.testing.assert_array_equal(found, x)
        assert found.flags.c_contiguous


def test_npz_tables_become_float32(save: Saver) -> None:
    x = np.arange(24).reshape(6, 4)
    data = load("npz", **save({"x": x, "y": Y}, x=x[:3] / 2, y=Y[:3]))
    assert data.private.x.dtype == data.public.x.dtype == np.float32
    np.testing.assert_array_equal(data.public.x, x[:3] / 2)


NAMES = np.array(["cat", "dog", "eel", "fox"])
ARRAYS = {"x": images(6, 9, 9), "y": Y}


def test_npz_files_may_say_the_rows_and_what_is_ignored_is_said(save: Saver) -> None:
    rows = [7, 0, 2**63 - 1, 3, 4, 5]
    data = load("npz", **save(ARRAYS | {"row": np.array(rows, np.uint64)}, row=np.arange(6)[::-1]))
    assert [part.rows.tolist() for part in (data.private, data.public)] == [rows, [5, 4, 3, 2, 1, 0]]  # type: ignore[union-attr]
    plain, more = load("npz", **save(ARRAYS)), load("npz", **save(ARRAYS, ages=Y, place=Y))
    assert (plain.private.rows, plain.notes) == (None, ())
    assert [note.split(": ", 1)[1] for note in more.notes] == ["ignored 2 arrays: ages, place"]


def test_npz_classes_come_from_the_public_file_or_the_configuration(save: Saver) -> None:
    assert load("npz", **save(ARRAYS, class_names=NAMES)).class_names == tuple(NAMES)
    assert load("npz", **save(ARRAYS | {"class_names": NAMES})).class_names == tuple(NAMES)
    told = ("a", "b", "c", "d", "e")
    assert load("npz", **save(ARRAYS, class_names=NAMES), class_names=told).class_names == told
    assert load("npz", **save(ARRAYS, y=np.array([0, 2, 2, 2, 0, 0])), class_names=told).class_names == told, "gaps too"
    for private in (Y, np.zeros(6, int), np.array([0, 1, 2, 4, 3, 0])):
        public = {"x": images(6, 9, 9), "y": np.array([0, 1, 2, 3, 4, 0])}
        assert load("npz", **save(ARRAYS | {"y": private}, **public)).class_names == tuple("01234")


def test_npz_a_private_label_or_name_that_is_not_public_is_refused(save: Saver) -> None:
    paths = save(ARRAYS, y=np.array([0, 1, 1, 1, 0, 0]))
    words = r"private labels run from 0 to 2, but the public data .* the classes 0 … 1; .* 'class_names'"
    with pytest.raises(PatebenchError, match=words):
        load("npz", **paths)
    assert load("npz", **paths, class_names=("a", "b", "c")).class_names == ("a", "b", "c")
    paths = save(ARRAYS)
    np.savez(paths["private"], **ARRAYS, class_names=NAMES)
    for told in (None, ("0", "1", "2", "3")):
        with pytest.raises(ArtefactError, match=r"private\.npz: its class names differ from those of"):
            load("npz", **paths, class_names=told)


NPZ_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no labels": ({"y": None}, "it lacks the array 'y'"),
    "float images": ({"x": images(6, 9, 9) / 255, "y": Y}, "give images as uint8"),
    "no channel axis": ({"x": images(6, 9, 9, 9), "y": Y}, "not clear which axis contains the channels"),
    "float labels": ({"y": Y / 1.0}, "give one integer for each sample"),
    "label above the names": (
        {"y": Y, "class_names": np.array(["a", "b"])},
        r"public\.npz: its largest label is 2, but only 2 classes are declared \(a, b\)",
    ),
    "names that are one text": ({"y": Y, "class_names": np.array("cat")}, "all different"),
    "a name twice": ({"y": Y, "class_names": np.array(["a", "b", "a"])}, "values a, b, a"),
    "other names of arrays": ({"x": None, "X": images(6, 9, 9), "y": Y}, "lacks the array 'x' .arrays in .* X, y"),
    "labels from 1": ({"y": Y + 1}, "are 1, 2, 3, but no sample has the label 0;"),
    "a label of 100000": (
        {"y": np.array([0, 1, 0, 1, 0, 100_000])}, "the label 2; .*classes: 100001"
    ),
    "fractions for rows": ({"y": Y, "row": np.arange(6) / 2}, "'row' has dtype float64"),
    "negative rows": ({"y": Y, "row": np.arange(6) - 1}, "rows contain -1; give numbers from 0"),
    "equal rows": (
        {"y": Y, "row": np.array([5, 0, 1, 2, 3, 0])},
        "samples 1 and 5 have the same row number 0",
    ),
    "NaN": ({"x": np.full((6, 2), np.nan), "y": Y}, r"public\.npz: 12 values .* in row 0, column 0"),
    "beyond float32": ({"x": np.full((6, 2), 1e200), "y": Y}, r"are NaN, infinite or beyond ±3\.4e38; replace"),
    "nothing": ({"x": images(0, 9, 9), "y": Y[:0]}, "the array of samples is empty"),
    "pickled": ({"x": np.array([{}] * 6), "y": Y}, "pickled Python objects, which patebench never loads"),
}  # fmt: skip


@pytest.mark.parametrize("name", NPZ_FAULTS)
def test_npz_faults_get_one_line(save: Saver, name: str) -> None:
    arrays, words = NPZ_FAULTS[name]
    given = {key: value for key, value in (ARRAYS | arrays).items() if value is not None}
    with pytest.raises(PatebenchError, match=words):
        load("npz", **save(given))


def test_npz_parts_of_other_shapes_are_refused(save: Saver) -> None:
    with pytest.raises(PatebenchError, match="give both the same shape"):
        load("npz", **save(ARRAYS, x=images(6, 8, 9)))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not an .npz file"),
        (b"\x93NUMPY", "not an .npz file"),
        (b"PK\x03\x04 cut off", "not a readable .npz file"),
    ],
)
def test_npz_what_is_no_npz_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(ArtefactError, match=rf"a\.npz: it is {words}"):
        load("npz", private=str(path), public=str(path))
