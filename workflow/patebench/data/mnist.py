"""MNIST: 60,000 private and 10,000 public images of handwritten digits.

Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, *Gradient-based learning applied to document recognition*, 1998.
"""

from pathlib import Path

from patebench.data._torchvision import Source, read_idx
from patebench.data.dataset import Dataset

SOURCE = Source(
    name="mnist",
    attribute="MNIST",
    folder="MNIST/raw",
    # torchvision checks the archives that it fetches, not the unpacked files that it reads
    files={
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
)


def load(root: Path, download: bool) -> Dataset:
    """The official training set is private, the official test set public; images (1, 28, 28)."""
    return read_idx(SOURCE, root, download, tuple("0123456789"))
