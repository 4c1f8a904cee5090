"""Data sets, their division into pool and test set, and their partition among the teachers.

Every entry of `DATASETS` is a function `load(root, download, **options) -> Dataset`. Importing this package imports
neither torch nor scikit-learn; a data set imports what it needs when it is loaded.
"""

from patebench.core.registry import Registry, taking

DATASETS = Registry("data set", "patebench.datasets", taking("root", "download"))
#: With how many public samples each has, so that a pool that is too large is told before anything is loaded.
for _name, _public in {
    "digits": 600,
    "mnist": 10_000,
    "fashion_mnist": 10_000,
    "svhn": 26_032,
    "cifar10": 10_000,
    "adult": 16_281,
    "breast_cancer": 200,
    "wine": 70,
}.items():
    DATASETS.add(_name, f"patebench.data.{_name}:load", public=_public)
DATASETS.add("npz", "patebench.data.npz:load", own_files=True)
DATASETS.add("folder", "patebench.data.folder:load", own_files=True)


def public_samples(name: str) -> int | None:
    """How many public samples the data set `name` has; None for one that is not built in and tells when it is read."""
    return DATASETS.fact(name, "public") if DATASETS.is_built_in(name) else None


def reads_own_files(name: str) -> bool:
    """Whether the entry `name` reads a user's own files and so needs the options `private` and `public`.

    Its fact `own_files` (default False) says so. Raises PatebenchError for an unknown name.
    """
    return bool(DATASETS.fact(name, "own_files", False))
