"""Test data sets read with torchvision: correct arrays, and one-line errors for wrong or missing files."""

import gzip
import hashlib
import pickle
import socket
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patebench.core.errors import PatebenchError
from patebench.data import DATASETS, torchvision_sets
from patebench.data.dataset import Dataset
from patebench.data.torchvision_sets import torchvision_datasets

RNG = np.random.default_rng(0)
LABELS = np.arange(12) % 10
FILES = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]


def load(name: str, root: Path, download: bool = False) -> Dataset:
    data = DATASETS.load(name)(root=root, download=download)
    assert isinstance(data, Dataset)
    return data


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def write_idx(folder: Path) -> dict[str, np.ndarray]:
    """Write four small files in the layout of http://yann.lecun.com/exdb/mnist/: big-endian magic, sizes, bytes."""
    folder.mkdir(parents=True)
    images = {}
    for part, samples in (("train", 12), ("t10k", 5)):
        images[part] = RNG.integers(0, 256, (samples, 28, 28)).astype(np.uint8)
        header = struct.pack(">IIII", 0x803, samples, 28, 28)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(header + images[part].tobytes())
        labels = LABELS[:samples].astype(np.uint8)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, samples) + labels.tobytes())
    return images


def test_mnist(data_root: Path, tmp_path: Path) -> None:
    """Compare counts per class and mean grey level with the published ones; refuse other content."""
    data = load("mnist", data_root)
    assert data.private.x.shape == (60000, 1, 28, 28)
    assert data.public.x.shape == (10000, 1, 28, 28)
    assert np.bincount(data.private.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(data.public.y).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert data.private.x.mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    write_idx(tmp_path / "MNIST" / "raw")
    with pytest.raises(PatebenchError, match=r"'mnist' in .* is damaged \(the MD5 of train-images-idx3-ubyte is wrong"):
        load("mnist", tmp_path)


def test_fashion_mnist(tmp_path: Path) -> None:
    images = write_idx(tmp_path / "FashionMNIST" / "raw")
    data = load("fashion_mnist", tmp_path)
    np.testing.assert_array_equal(data.private.x[:, 0], images["train"])
    np.testing.assert_array_equal(data.public.x[:, 0], images["t10k"])
    assert data.private.y.tolist() == LABELS.tolist()
    assert (data.class_names[0], data.class_names[9]) == ("T-shirt/top", "ankle boot")


@pytest.mark.parametrize(("part", "length"), [("train-images-idx3-ubyte", 12), ("t10k-labels-idx1-ubyte", 0)])
def test_a_truncated_idx_file_is_refused(tmp_path: Path, part: str, length: int) -> None:
    write_idx(tmp_path / "FashionMNIST" / "raw")
    path = tmp_path / "FashionMNIST" / "raw" / part
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(PatebenchError, match=r"'fashion_mnist' in .* is damaged"):
        load("fashion_mnist", tmp_path, download=True)


@pytest.fixture
def svhn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """Write the three .mat files: X (32, 32, 3, samples), y (samples, 1) in 1 … 10, where 10 is the digit 0."""
    from scipy.io import savemat

    published, images = torchvision_datasets().SVHN, {}
    known = dict(published.split_list)
    for split, samples in (("train", 12), ("extra", 7), ("test", 5)):
        images[split] = RNG.integers(0, 256, (samples, 3, 32, 32)).astype(np.uint8)
        path = tmp_path / f"{split}_32x32.mat"
        labels = np.where(LABELS[:samples] == 0, 10, LABELS[:samples]).astype(np.uint8)
        savemat(path, {"X": images[split].transpose(2, 3, 1, 0), "y": labels[:, None]})
        known[split] = ["http://127.0.0.1:9/", path.name, md5(path)]
    monkeypatch.setattr(published, "split_list", known)
    return images


def test_svhn_takes_train_and_extra_as_private(tmp_path: Path, svhn: dict[str, np.ndarray]) -> None:
    data = load("svhn", tmp_path)
    np.testing.assert_array_equal(data.private.x, np.concatenate([svhn["train"], svhn["extra"]]))
    np.testing.assert_array_equal(data.public.x, svhn["test"])
    assert data.private.y.tolist() == [*LABELS, *LABELS[:7]]


@pytest.mark.parametrize("download", [False, True])
def test_a_half_fetched_svhn_is_refused(tmp_path: Path, svhn: dict[str, np.ndarray], download: bool) -> None:
    path = tmp_path / "extra_32x32.mat"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(PatebenchError, match=r"'svhn' in .* is damaged"):
        load("svhn", tmp_path, download)


@pytest.fixture
def cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Write the Python batches: data (samples, 3072), channels first, and a list of labels."""
    published, folder = torchvision_datasets().CIFAR10, tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    pixels = RNG.integers(0, 256, (6, 2, 3072)).astype(np.uint8)
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    batches = {
        name: {"data": data, "labels": [number, 9]}
        for number, (name, data) in enumerate(zip(names, pixels, strict=True))
    }
    batches["batches.meta"] = {"label_names": list("abcdefghij")}
    for name, batch in batches.items():
        (folder / name).write_bytes(pickle.dumps(batch))
    monkeypatch.setattr(published, "train_list", [[name, md5(folder / name)] for name in names[:5]])
    monkeypatch.setattr(published, "test_list", [[names[5], md5(folder / names[5])]])
    monkeypatch.setitem(published.meta, "md5", md5(folder / "batches.meta"))
    return pixels.reshape(6, 2, 3, 32, 32)


def test_cifar10(tmp_path: Path, cifar10: np.ndarray) -> None:
    data = load("cifar10", tmp_path)
    np.testing.assert_array_equal(data.private.x, cifar10[:5].reshape(10, 3, 32, 32))
    np.testing.assert_array_equal(data.public.x, cifar10[5])
    assert data.private.y.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
    assert data.class_names == tuple("abcdefghij")


class Trap:
    """Object whose unpickling runs code."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_batch_of_unknown_content_is_never_unpickled(tmp_path: Path, cifar10: np.ndarray) -> None:
    sprung = tmp_path / "sprung"
    (tmp_path / "cifar-10-batches-py" / "data_batch_3").write_bytes(pickle.dumps(Trap(sprung)))
    with pytest.raises(PatebenchError, match=r"'cifar10' in .* is damaged"):
        load("cifar10", tmp_path)
    assert not sprung.exists()


FIRST_FILES = {
    "mnist": "train-images-idx3-ubyte",
    "fashion_mnist": "train-images-idx3-ubyte",
    "svhn": "extra_32x32.mat",
    "cifar10": "data_batch_5",
}


@pytest.mark.parametrize("name", FIRST_FILES)
def test_a_missing_data_set_says_what_to_put_where(tmp_path: Path, name: str) -> None:
    with pytest.raises(PatebenchError, match=f"'{name}' is incomplete .downloads are not allowed.; put ") as caught:
        load(name, tmp_path)
    assert FIRST_FILES[name] in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    if name == "mnist":
        write_idx(tmp_path / "MNIST" / "raw")
        (tmp_path / "MNIST" / "raw" / FILES[3]).unlink()
        with pytest.raises(PatebenchError, match="put t10k-labels-idx1-ubyte into"):
            load("mnist", tmp_path)


def point_at(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(torchvision_datasets().MNIST, "mirrors", [f"http://127.0.0.1:{port}/"])


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torchvision_sets, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        point_at(monkeypatch, silent.getsockname()[1])
        with pytest.raises(PatebenchError, match=r"the download failed: .*timed out"):
            load("mnist", tmp_path, download=True)
    assert socket.getdefaulttimeout() is None


def test_a_half_fetched_archive_is_not_taken_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network, neither a download nor the incomplete archive of an interrupted one gives data."""
    point_at(monkeypatch, 9)
    with pytest.raises(PatebenchError, match=r"the download failed: .*; put train-images-idx3-ubyte, "):
        load("mnist", tmp_path, download=True)
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (raw / f"{name}.gz").write_bytes(gzip.compress(b"half of it"))
    with pytest.raises(PatebenchError, match="is incomplete"):
        load("mnist", tmp_path, download=True)
    assert not (raw / FILES[0]).exists()
