"""Test data sets without network access: the embedded ones, and a user's arrays and folders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


def test_digits_are_scikit_learns_spread_over_a_byte() -> None:
    from sklearn.datasets import load_digits

    data, source = load("digits"), load_digits()
    assert data.private.x.shape == (1197, 1, 8, 8)
    assert data.public.x.shape == (600, 1, 8, 8)
    assert (data.private.x.min(), data.private.x.max()) == (0, 255)
    levels = np.concatenate([data.private.x, data.public.x])[:, 0].reshape(-1, 64) * (16 / 255)
    labels = np.concatenate([data.private.y, data.public.y])
    ours = {(tuple(np.round(row).astype(int)), int(y)) for row, y in zip(levels, labels, strict=True)}
    theirs = {(tuple(row.astype(int)), int(y)) for row, y in zip(source.data, source.target, strict=True)}
    assert ours == theirs
    assert len(theirs) == 1797


@pytest.mark.parametrize(("name", "private"), [("breast_cancer", 369), ("wine", 108)])
def test_tables_are_the_raw_ones(name: str, private: int) -> None:
    import sklearn.datasets

    data, source = load(name), getattr(sklearn.datasets, f"load_{name}")()
    assert data.private.x.shape == (private, source.data.shape[1])
    assert data.class_names == tuple(source.target_names)
    rows, labels = (
        np.concatenate(parts) for parts in ((data.private.x, data.public.x), (data.private.y, data.public.y))
    )
    ours = {(*row, y) for row, y in zip(rows.tolist(), labels.tolist(), strict=True)}
    theirs = {(*row, y) for row, y in zip(source.data.astype(np.float32).tolist(), source.target.tolist(), strict=True)}
    assert ours == theirs


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine"])
def test_the_division_is_the_same_every_time_and_mixes_the_classes(name: str) -> None:
    first, second = load(name), load(name)
    np.testing.assert_array_equal(first.private.x, second.private.x)
    np.testing.assert_array_equal(first.public.y, second.public.y)
    shares = [np.bincount(y, minlength=first.classes) / len(y) for y in (first.private.y, first.public.y)]
    np.testing.assert_allclose(*shares, atol=0.06)
    assert Outline.of(first) == known_outline(name), "which is known beforehand"


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
    grey = load("npz", **save({"x": x[:, 0], "y": Y}))
    np.testing.assert_array_equal(grey.private.x, x[:, :1])
    first = load("npz", **save({"x": x, "y": Y}))
    last = load("npz", **save({"x": x.transpose(0, 2, 3, 1), "y": Y}))
    np.testing.assert_array_equal(first.private.x, x)
    np.testing.assert_array_equal(last.private.x, x)
    assert last.private.x.flags.c_contiguous


def test_npz_tables_become_float32(save: Saver) -> None:
    x = np.arange(24).reshape(6, 4)
    data = load("npz", **save({"x": x, "y": Y}, x=x[:3] / 2, y=Y[:3]))
    assert data.private.x.dtype == data.public.x.dtype == np.float32
    np.testing.assert_array_equal(data.public.x, x[:3] / 2)


NAMES = np.array(["cat", "dog", "eel", "fox"])
ARRAYS = {"x": images(6, 9, 9), "y": Y}


def test_npz_files_may_say_the_rows(save: Saver) -> None:
    rows = [7, 0, 2**63 - 1, 3, 4, 5]
    data = load("npz", **save(ARRAYS | {"row": np.array(rows, np.uint64)}, row=np.arange(6)[::-1]))
    assert [part.rows.tolist() for part in (data.private, data.public)] == [rows, [5, 4, 3, 2, 1, 0]]  # type: ignore[union-attr]
    assert load("npz", **save(ARRAYS)).private.rows is None


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
    words = r"private labels run from 0 to 2, but the public data .* the classes 0 … 1; .* class_names"
    with pytest.raises(PatebenchError, match=words):
        load("npz", **paths)
    assert load("npz", **paths, class_names=("a", "b", "c")).class_names == ("a", "b", "c")
    paths = save(ARRAYS)
    np.savez(paths["private"], **ARRAYS, class_names=NAMES)
    for told in (None, ("0", "1", "2", "3")):
        with pytest.raises(ArtefactError, match=r"private\.npz: its class names differ from those of"):
            load("npz", **paths, class_names=told)


NPZ_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no labels": ({"x": images(6, 9, 9)}, "the array 'y' is missing"),
    "float images": ({"x": images(6, 9, 9) / 255, "y": Y}, "give images as uint8"),
    "no channel axis": ({"x": images(6, 9, 9, 9), "y": Y}, "the axis of the channels is ambiguous"),
    "float labels": ({"x": images(6, 9, 9), "y": Y / 1.0}, "give one integer for each sample"),
    "fewer labels": ({"x": images(6, 9, 9), "y": Y[:5]}, "6 samples have labels of shape"),
    "negative labels": ({"x": images(6, 9, 9), "y": Y - 1}, "labels run from -1 to 1"),
    "label above the names": (
        {"x": images(6, 9, 9), "y": Y, "class_names": np.array(["a", "b"])},
        r"public\.npz: its largest label is 2, but only 2 classes are declared \(a, b\)",
    ),
    "names that are one text": ({"x": images(6, 9, 9), "y": Y, "class_names": np.array("cat")}, "all different"),
    "a name twice": ({"x": images(6, 9, 9), "y": Y, "class_names": np.array(["a", "b", "a"])}, "values a, b, a"),
    "other names of arrays": ({"X": images(6, 9, 9), "y": Y}, "the array 'x' is missing; arrays in the file: X, y"),
    "labels from 1": ({"x": images(6, 9, 9), "y": Y + 1}, "are 1, 2, 3, but no sample has the label 0;"),
    "a label of 100000": (
        {"x": images(6, 9, 9), "y": np.array([0, 1, 0, 1, 0, 100_000])}, "the label 2; .*classes: 100001"
    ),
    "fractions for rows": ({"x": images(6, 9, 9), "y": Y, "row": np.arange(6) / 2}, "'row' has dtype float64"),
    "negative rows": ({"x": images(6, 9, 9), "y": Y, "row": np.arange(6) - 1}, "rows contain -1; give numbers from 0"),
    "equal rows": (
        {"x": images(6, 9, 9), "y": Y, "row": np.array([5, 0, 1, 2, 3, 0])},
        "samples 1 and 5 have the same row number 0",
    ),
    "NaN": ({"x": np.full((6, 2), np.nan), "y": Y}, r"public\.npz: 12 values .* in row 0, column 0"),
    "nothing": ({"x": images(0, 9, 9), "y": Y[:0]}, "there are no samples"),
    "pickled": ({"x": np.array([{}] * 6), "y": Y}, "pickled objects, which are never loaded"),
}  # fmt: skip


@pytest.mark.parametrize("name", NPZ_FAULTS)
def test_npz_faults_get_one_line(save: Saver, name: str) -> None:
    arrays, words = NPZ_FAULTS[name]
    with pytest.raises(PatebenchError, match=words):
        load("npz", **save(arrays))


def test_npz_faults_of_both_parts_are_said_of_the_public_one_and_shapes_must_be_equal(save: Saver) -> None:
    with pytest.raises(PatebenchError, match="the public labels run from -1 to 2"):
        load("npz", **save({"x": images(6, 9, 9), "y": np.array([-1, 0, 1, 2, 0, 1])}))
    with pytest.raises(PatebenchError, match="give both the same shape"):
        load("npz", **save({"x": images(6, 9, 9), "y": Y}, x=images(6, 8, 9)))


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


def test_npz_what_is_ignored_is_said(save: Saver) -> None:
    assert load("npz", **save(ARRAYS)).notes == ()
    notes = load("npz", **save(ARRAYS, ages=Y, place=Y)).notes
    assert [note.split(": ", 1)[1] for note in notes] == ["ignored 2 arrays: ages, place"]
