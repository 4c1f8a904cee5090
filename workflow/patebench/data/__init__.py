"""Load data sets, divide them into pool and test set, and partition them among the teachers.

Every entry of `DATASETS` is a function `load(root, download, **options) -> Dataset`. Importing this package imports
neither torch nor scikit-learn; loading a data set imports its dependencies.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry, called_with, imported, nearest
from patebench.data.dataset import Dataset, Outline

DATASETS = Registry("data set", "patebench.datasets", called_with("root", "download", by_name=True))
# With outlines (numbers and shape of private and public samples), a configuration is checked without loading data.
DATASETS.add("digits", "patebench.data.scikit_learn_sets:digits", outline=Outline(1197, 600, (1, 8, 8)))
DATASETS.add("mnist", "patebench.data.torchvision_sets:mnist", outline=Outline(60_000, 10_000, (1, 28, 28)))
DATASETS.add(
    "fashion_mnist", "patebench.data.torchvision_sets:fashion_mnist", outline=Outline(60_000, 10_000, (1, 28, 28))
)
DATASETS.add("svhn", "patebench.data.torchvision_sets:svhn", outline=Outline(604_388, 26_032, (3, 32, 32)))
DATASETS.add("cifar10", "patebench.data.torchvision_sets:cifar10", outline=Outline(50_000, 10_000, (3, 32, 32)))
DATASETS.add("adult", "patebench.data.adult:load", outline=Outline(32_561, 16_281, (88,)))
DATASETS.add("breast_cancer", "patebench.data.scikit_learn_sets:breast_cancer", outline=Outline(369, 200, (30,)))
DATASETS.add("wine", "patebench.data.scikit_learn_sets:wine", outline=Outline(108, 70, (13,)))
DATASETS.add("npz", "patebench.data.npz:load", own_files=True)
DATASETS.add(
    "folder",
    "patebench.data.folder:load",
    own_files=True,
    outlined_by="patebench.data.folder:outline",
    unlike_others="patebench.data.folder:unlike_others",
)
DATASETS.add(
    "table",
    "patebench.data.own_table:load",
    own_files=True,
    unlike_others="patebench.data.own_table:unlike_others",
)


#: Function that returns True if the loader with the given name reads a user's own files.
reads_own_files = DATASETS.flag("own_files")


def known_outline(name: str) -> Outline | None:
    """Return sizes and sample shape of the built-in data set `name`; None if they are unknown before loading."""
    return DATASETS.fact(name, "outline") if DATASETS.is_built_in(name) else None


def outline_of(loader: str, root: Path, options: Mapping[str, Any], class_names: Sequence[str] | None) -> Outline:
    """Return the numbers of private and public samples in a user's own data, and the shape of a sample.

    `loader` is the name of the loading function in `DATASETS`, such as "folder", and `options` are the options of this
    function. `root` is the folder of downloaded data sets. `class_names` is None if the configuration declares no
    names. Raises PatebenchError for invalid options or data.
    """
    arguments = check_options(loader, options, class_names)
    measure = DATASETS.fact(loader, "outlined_by")
    if measure is None:
        data: Dataset = DATASETS.load(loader)(root=root, download=False, **arguments)
        return Outline.of(data)
    return imported(measure)(**arguments)


def check_options(loader: str, options: Mapping[str, Any], class_names: Sequence[str] | None) -> dict[str, Any]:
    """Return the keyword arguments for a loading function: `options`, and `class_names` if it is not None.

    `loader` is the name of the function in `DATASETS`. Raises PatebenchError for an unknown or missing option, and for
    class names of a data set with fixed classes.
    """
    load: Callable[..., Dataset] = DATASETS.load(loader)
    taken = inspect.signature(load).parameters
    wanted = [name for name in taken if name not in ("root", "download", "class_names")]
    for name in options:
        if name not in wanted:
            known = ", ".join(wanted) or "none"
            raise PatebenchError(
                f"the data set '{loader}' has no option '{name}'{nearest(name, wanted)}; its options are: {known}"
            )
    for name in wanted:
        if name not in options and taken[name].default is inspect.Parameter.empty:
            raise PatebenchError(
                f"the data set '{loader}' requires the option '{name}'; set it, for example by --option {name}=…"
            )
    if class_names is None:
        return dict(options)
    if "class_names" not in taken:
        raise PatebenchError(f"the data set '{loader}' has fixed classes; leave out 'classes' and 'class_names'")
    return {**options, "class_names": class_names}
