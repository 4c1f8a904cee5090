"""Data sets, their division into pool and test set, and their partition among the teachers.

Every entry of `DATASETS` is a function `load(root, download, **options) -> Dataset`. Importing this package imports
neither torch nor scikit-learn; a data set imports what it needs when it is loaded.
"""

from patebench.core.registry import Registry

DATASETS = Registry("data set", "patebench.datasets")
for _name in ("digits", "mnist", "fashion_mnist", "svhn", "cifar10", "breast_cancer", "npz", "folder"):
    DATASETS.add(_name, f"patebench.data.{_name}:load")

#: The entries that read a user's own files and so need the options `private` and `public`.
OWN = ("npz", "folder")
