"""The way to torchvision's data sets: its readers, its checksums, its download."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from patebench.core.errors import PatebenchError
from patebench.data._files import Files
from patebench.data.dataset import Dataset

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


@dataclass(frozen=True, kw_only=True)
class Source(Files):
    """One of torchvision's data sets: its class there, and the files that it keeps below the data root.

    `files` gives an MD5 where torchvision itself does not check the file that it reads; otherwise None.
    """

    attribute: str

    def open(self, root: Path, download: bool, **arguments: Any) -> Any:
        """torchvision's data set object; PatebenchError when a file is missing, damaged or can not be fetched."""
        self.require(root, download)
        reader = getattr(torchvision_datasets(), self.attribute)
        return self.read(root, lambda: reader(root, download=download, **arguments))


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
