"""Data sets, their division into pool and test set, and their partition among the teachers.

Every entry of `DATASETS` is a function `load(root, download, **options) -> Dataset`. Importing this package imports
neither torch nor scikit-learn; a data set imports what it needs when it is loaded.
"""

from patebench.core.registry import Registry

DATASETS = Registry("data set", "patebench.datasets")
for _name in ("digits", "mnist", "fashion_mnist", "svhn", "cifar10", "breast_cancer", "wine"):
    DATASETS.add(_name, f"patebench.data.{_name}:load")
DATASETS.add("npz", "patebench.data.npz:load", own_files=True)
DATASETS.add("folder", "patebench.data.folder:load", own_files=True)


def reads_own_files(name: str) -> bool:
    """Whether the entry `name` reads a user's own files and so needs the options `private` and `public`.

    Its fact `own_files` (default False) says so. Raises PatebenchError for an unknown name.
    """
    return bool(DATASETS.fact(name, "own_files", False))
