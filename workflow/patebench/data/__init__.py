"""Data sets, their division into pool and test set, and their partition among the teachers.

Every entry of `DATASETS` is a function `load(root, download, **options) -> Dataset`. Importing this package imports
neither torch nor scikit-learn; a data set imports what it needs when it is loaded.
"""

from patebench.core.registry import Registry, taking

DATASETS = Registry("data set", "patebench.datasets", taking("root", "download"))
# The number of public samples is known beforehand, so that a pool that is too large is refused before loading.
DATASETS.add("digits", "patebench.data.scikit_learn_sets:digits", public=600)
DATASETS.add("mnist", "patebench.data.torchvision_sets:mnist", public=10_000)
DATASETS.add("fashion_mnist", "patebench.data.torchvision_sets:fashion_mnist", public=10_000)
DATASETS.add("svhn", "patebench.data.torchvision_sets:svhn", public=26_032)
DATASETS.add("cifar10", "patebench.data.torchvision_sets:cifar10", public=10_000)
DATASETS.add("adult", "patebench.data.adult:load", public=16_281)
DATASETS.add("breast_cancer", "patebench.data.scikit_learn_sets:breast_cancer", public=200)
DATASETS.add("wine", "patebench.data.scikit_learn_sets:wine", public=70)
DATASETS.add("npz", "patebench.data.npz:load", own_files=True)
DATASETS.add("folder", "patebench.data.folder:load", own_files=True)
DATASETS.add("table", "patebench.data.own_table:load", own_files=True)


def public_samples(name: str) -> int | None:
    """Return the number of public samples of the data set `name`; None for one that is not built in."""
    return DATASETS.fact(name, "public") if DATASETS.is_built_in(name) else None


def reads_own_files(name: str) -> bool:
    """Return whether the entry `name` reads a user's own files and so needs the options `private` and `public`.

    Its fact `own_files` (default False) says so. Raises PatebenchError for an unknown name.
    """
    return bool(DATASETS.fact(name, "own_files", False))
