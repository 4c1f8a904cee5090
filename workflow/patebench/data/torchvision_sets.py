"""Load MNIST, Fashion-MNIST, CIFAR-10 and SVHN with torchvision, which downloads and checks the files."""

import hashlib
import importlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from patebench.core.errors import PatebenchError
from patebench.data.dataset import Dataset, LabelledSamples

#: Seconds without an answer after which a download fails.
TIMEOUT = 15.0


@dataclass(frozen=True, kw_only=True)
class Files:
    """Required files of the data set `name`, in the subfolder `folder` of the data root.

    `files` maps the name of each file to its MD5, or to None if patebench does not check the MD5.
    """

    name: str
    folder: str
    files: Mapping[str, str | None]

    def require(self, root: Path, download: bool) -> None:
        """Raise PatebenchError if a file of this data set is missing below `root` and `download` is False."""
        missing = self.missing(root)
        if missing and not download:
            raise self._incomplete(root, missing, "downloads are not allowed")

    def read(self, root: Path, reader: Callable[[], Any]) -> Any:
        """Call `reader` to read or download the files, check each known MD5, and return the result of `reader`.

        Raises PatebenchError if a download or reading fails, or if an MD5 is wrong.
        """
        usual = socket.getdefaulttimeout()
        socket.setdefaulttimeout(TIMEOUT)
        try:
            contents = reader()
        except (OSError, RuntimeError, ValueError, TypeError, AssertionError, EOFError, HTTPException) as fault:
            if missing := self.missing(root):
                raise self._incomplete(root, missing, f"the download failed: {fault}") from None
            raise self._damaged(root, str(fault) or type(fault).__name__) from None
        finally:
            socket.setdefaulttimeout(usual)
        for name, expected in self.files.items():
            if expected is not None:
                with open(root / self.folder / name, "rb") as stream:
                    digest = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False))
                if digest.hexdigest() != expected:
                    raise self._damaged(root, f"the MD5 of {name} is wrong")
        return contents

    def missing(self, root: Path) -> list[str]:
        return [name for name in self.files if not (root / self.folder / name).is_file()]

    def _incomplete(self, root: Path, missing: list[str], why: str) -> PatebenchError:
        return PatebenchError(
            f"the data set '{self.name}' is incomplete ({why}); put {', '.join(missing)} into {root / self.folder}, or"
            " allow the download on a machine with internet access"
        )

    def _damaged(self, root: Path, why: str) -> PatebenchError:
        return PatebenchError(
            f"the data set '{self.name}' in {root / self.folder} is damaged ({why}); replace {', '.join(self.files)},"
            " or delete these files and run again to download them"
        )


def torchvision_datasets() -> Any:
    """Import and return `torchvision.datasets`, even if torchvision was built for CUDA but torch for the CPU.

    In this case, the import fails with "operator torchvision::nms does not exist" (pytorch/vision#9085). The function
    then declares the missing operators, which data sets do not use, and imports again.
    """
    try:
        return importlib.import_module("torchvision.datasets")
    except ImportError as fault:
        raise PatebenchError(f"this data set needs torchvision ({fault}); install torchvision") from None
    except RuntimeError as fault:
        if "does not exist" not in str(fault):
            raise
    import torch

    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return importlib.import_module("torchvision.datasets")


def _open(source: Files, reader: str, root: Path, download: bool, **arguments: Any) -> Any:
    """Return the data set that the class named `reader` in torchvision.datasets reads from the files of `source`.

    `arguments` are further arguments of this class, such as `train` or `split`.
    """
    source.require(root, download)
    dataset = getattr(torchvision_datasets(), reader)
    return source.read(root, lambda: dataset(root, download=download, **arguments))


_IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
# torchvision checks the archives of MNIST that it downloads, but not the unpacked files that it reads.
_MNIST_MD5 = (
    "6bbc9ace898e44ae57da46a324031adb",
    "a25bea736e30d166cdddb491f175f624",
    "2646ac647ad5339dbf082846283269ea",
    "27ae3e4e09519cfbb04c329615203637",
)
_MNIST = Files(name="mnist", folder="MNIST/raw", files=dict(zip(_IDX_FILES, _MNIST_MD5, strict=True)))
_FASHION_MNIST = Files(name="fashion_mnist", folder="FashionMNIST/raw", files=dict.fromkeys(_IDX_FILES))
_CIFAR10 = Files(
    name="cifar10",
    folder="cifar-10-batches-py",
    files=dict.fromkeys((*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta")),
)
_SVHN = Files(name="svhn", folder="", files=dict.fromkeys(("train_32x32.mat", "extra_32x32.mat", "test_32x32.mat")))
_DIGITS = tuple("0123456789")
_CLOTHES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


def mnist(root: Path, download: bool) -> Dataset:
    """Load MNIST: 60,000 private (train) and 10,000 public (test) images (1, 28, 28) of handwritten digits.

    Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, *Gradient-based learning applied to document recognition*, 1998.
    """
    return _load_idx(_MNIST, "MNIST", root, download, _DIGITS)


def fashion_mnist(root: Path, download: bool) -> Dataset:
    """Load Fashion-MNIST: 60,000 private (train) and 10,000 public (test) images (1, 28, 28) of clothes.

    H. Xiao, K. Rasul, R. Vollgraf, *Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms*,
    2017.
    """
    return _load_idx(_FASHION_MNIST, "FashionMNIST", root, download, _CLOTHES)


def _load_idx(source: Files, reader: str, root: Path, download: bool, class_names: tuple[str, ...]) -> Dataset:
    parts = [_open(source, reader, root, download, train=train) for train in (True, False)]
    private, public = (
        LabelledSamples(part.data.numpy()[:, None], part.targets.numpy().astype(np.int64)) for part in parts
    )
    return Dataset(private, public, class_names)


def cifar10(root: Path, download: bool) -> Dataset:
    """Load CIFAR-10: 50,000 private (train) and 10,000 public (test) colour images (3, 32, 32).

    A. Krizhevsky, *Learning multiple layers of features from tiny images*, 2009. The official batches are pickles,
    which torchvision opens only after checking their MD5.
    """
    train, test = (_open(_CIFAR10, "CIFAR10", root, download, train=train) for train in (True, False))
    private, public = (
        LabelledSamples(np.ascontiguousarray(part.data.transpose(0, 3, 1, 2)), np.asarray(part.targets, np.int64))
        for part in (train, test)
    )
    return Dataset(private, public, tuple(train.classes))


def svhn(root: Path, download: bool) -> Dataset:
    """Load SVHN: 73,257 + 531,131 private (train and extra) and 26,032 public (test) colour images (3, 32, 32).

    Y. Netzer, T. Wang, A. Coates, A. Bissacco, B. Wu, A. Ng, *Reading digits in natural images with unsupervised
    feature learning*, 2011. PATE 2017 uses train and extra as the private data. Loading needs about 5 GB of memory.
    """
    train, extra, test = (_open(_SVHN, "SVHN", root, download, split=split) for split in ("train", "extra", "test"))
    x, y = np.concatenate([train.data, extra.data]), np.concatenate([train.labels, extra.labels])
    public = LabelledSamples(np.ascontiguousarray(test.data), test.labels.astype(np.int64))
    return Dataset(LabelledSamples(x, y.astype(np.int64)), public, _DIGITS)
