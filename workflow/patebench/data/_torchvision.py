"""The way to torchvision's data sets: its files, its checksums, its download; one line when that fails."""

import hashlib
import importlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from patebench.core.errors import PatebenchError
from patebench.data.dataset import Dataset

#: Seconds without an answer after which a download gives up.
TIMEOUT = 15.0

# torchvision registers a fake kernel for each of these, whether or not its compiled part could be loaded
_SCHEMAS = {
    "torchvision::nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def torchvision_datasets() -> Any:
    """The module `torchvision.datasets`.

    Where torchvision's compiled part does not fit the torch at hand (a CUDA build beside a CPU torch), importing it
    fails with "operator torchvision::nms does not exist" (pytorch/vision#9085). Data sets need no compiled operator,
    so declaring the two that the import expects is enough.
    """
    try:
        return importlib.import_module("torchvision.datasets")
    except ImportError as fault:
        raise PatebenchError(f"this data set needs torchvision ({fault}); install it beside torch") from None
    except RuntimeError as fault:
        if "does not exist" not in str(fault):
            raise
    _declare_operators()
    return importlib.import_module("torchvision.datasets")


def _declare_operators() -> None:
    import torch

    for name, schema in _SCHEMAS.items():
        torch.library.define(name, schema)


@dataclass(frozen=True)
class Source:
    """One of torchvision's data sets: its class there and the files that it keeps below the data root.

    `files` gives an MD5 where torchvision itself does not check the file that it reads; otherwise None.
    """

    name: str
    attribute: str
    folder: str
    files: Mapping[str, str | None]

    def open(self, root: Path, download: bool, **arguments: Any) -> Any:
        """torchvision's data set object; PatebenchError when a file is missing, damaged or can not be fetched."""
        missing = self.missing(root)
        if missing and not download:
            raise self._lacks(root, missing, "downloading is off")
        reader = getattr(torchvision_datasets(), self.attribute)
        try:
            with _impatient():
                opened = reader(root, download=download, **arguments)
        except (OSError, RuntimeError, ValueError, TypeError, AssertionError, EOFError, HTTPException) as fault:
            if missing := self.missing(root):
                raise self._lacks(root, missing, f"the download failed: {fault}") from None
            raise self._damaged(root, str(fault) or type(fault).__name__) from None
        self._verify(root)
        return opened

    def missing(self, root: Path) -> list[str]:
        return [name for name in self.files if not (root / self.folder / name).is_file()]

    def _verify(self, root: Path) -> None:
        for name, expected in self.files.items():
            if expected is not None and _md5(root / self.folder / name) != expected:
                raise self._damaged(root, f"the MD5 of {name} is wrong")

    def _lacks(self, root: Path, missing: list[str], why: str) -> PatebenchError:
        return PatebenchError(
            f"the data set '{self.name}' is not complete under {root} ({why}); put {', '.join(missing)} into"
            f" {root / self.folder}, or allow the download where there is a network"
        )

    def _damaged(self, root: Path, why: str) -> PatebenchError:
        return PatebenchError(
            f"the data set '{self.name}' in {root / self.folder} is damaged ({why}); put good"
            f" files in the place of {', '.join(self.files)}, or move these away and let them be downloaded again"
        )


@contextmanager
def _impatient() -> Iterator[None]:
    """Let no socket wait for ever: a machine behind a silent firewall should fail in seconds."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _md5(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def read_idx(source: Source, root: Path, download: bool, class_names: tuple[str, ...]) -> Dataset:
    """A data set of MNIST's layout: the training set is private, the test set public; images (1, 28, 28)."""
    train = source.open(root, download, train=True)
    test = source.open(root, download, train=False)
    return Dataset(
        train.data.numpy()[:, None],
        train.targets.numpy().astype(np.int64),
        test.data.numpy()[:, None],
        test.targets.numpy().astype(np.int64),
        class_names,
    )
