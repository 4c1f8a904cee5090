"""Fashion-MNIST: 60,000 private and 10,000 public images of clothes.

H. Xiao, K. Rasul, R. Vollgraf, *Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms*,
2017.
"""

from pathlib import Path

from patebench.data._torchvision import Source, read_idx
from patebench.data.dataset import Dataset

SOURCE = Source(
    name="fashion_mnist",
    attribute="FashionMNIST",
    folder="FashionMNIST/raw",
    files=dict.fromkeys(
        (
            "train-images-idx3-ubyte",
            "train-labels-idx1-ubyte",
            "t10k-images-idx3-ubyte",
            "t10k-labels-idx1-ubyte",
        )
    ),
)

CLASS_NAMES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def load(root: Path, download: bool) -> Dataset:
    """The official training set is private, the official test set public; images (1, 28, 28)."""
    return read_idx(SOURCE, root, download, CLASS_NAMES)
