"""Load a user's own arrays from one `.npz` file with the private samples and one with the public samples.

Each file contains the following arrays, of which only `x` and `y` are required:

- `x`: samples. Images are uint8 (samples, height, width), (samples, height, width, channels) or (samples, channels,
  height, width); tables are numbers (samples, features).
- `y`: labels of the samples.
- `class_names`: names of the classes. The names in the private file must equal those in the public file.
- `row`: a distinct integer for each record, which stays the same if other records are added or removed.
- `owner`: number of the person of each record.
"""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError, located
from patebench.core.text import listing, plural
from patebench.data.dataset import OWN_DATA, Dataset, LabelledSamples

#: Names of the arrays that are read.
ARRAYS = ("x", "y", "row", "owner", "class_names")
#: Numbers of channels.
CHANNELS = range(1, 5)

Arrays = dict[str, NDArray[Any]]


def load(root: Path, download: bool, private: str, public: str, class_names: Sequence[str] | None = None) -> Dataset:
    """Return the data set in the files `private` and `public`; relative paths start from the working directory.

    `class_names` are by default those in the public file. If this file contains none, the classes are 0 … the largest
    public label, and each class must have a public sample. The private file never determines the classes. Raises
    PatebenchError for invalid files.
    """
    private_path, public_path, notes = Path(private), Path(public), list[str]()
    private_arrays, public_arrays = _read(private_path, notes), _read(public_path, notes)
    public_part, private_part = _samples(public_path, public_arrays), _samples(private_path, private_arrays)
    names = tuple(class_names or _class_names(public_path, public_arrays) or _classes_of(public_path, public_part.y))
    if (largest := int(public_part.y.max())) >= len(names):  # `Dataset` checks the other faults of labels
        raise ArtefactError(
            public_path,
            f"its largest label is {largest}, but only {plural(len(names), 'class')}"
            f" {'is' if len(names) == 1 else 'are'} declared ({listing(names)})",
            f"give {largest + 1} class names in the order of the labels; {OWN_DATA}",
        )
    if _class_names(private_path, private_arrays) not in (None, names):
        raise ArtefactError(
            private_path,
            f"its class names differ from those of {public} or the configuration ({listing(names)})",
            "leave 'class_names' out of this file, or give the same class names in both places",
        )
    if private_part.owners is not None and public_part.owners is None:
        notes.append(f"{public}: it names no owners, so a person with private records may have public records too")
    return Dataset(private_part, public_part, names, tuple(notes))


def _read(path: Path, notes: list[str]) -> Arrays:
    """Return the arrays of the .npz file `path` that are in `ARRAYS`; add a message on other arrays to `notes`."""
    if not path.is_file():
        fix = "give the path of an .npz file with arrays 'x' and 'y'"
        raise ArtefactError(path, "this file does not exist", fix)
    try:
        with open(path, "rb") as stream:
            if stream.read(2) != b"PK":  # otherwise numpy's message would mention pickles
                raise ArtefactError(path, "it is not an .npz file as written by numpy.savez", OWN_DATA)
            stream.seek(0)
            archive = np.load(stream, allow_pickle=False)
            known = set(archive.files)
            arrays = {name: archive[name] for name in ARRAYS if name in archive}
    except (ValueError, OSError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error) as fault:
        if "Object arrays" in str(fault):
            raise ArtefactError(
                path,
                "it contains pickled Python objects, which patebench never loads",
                f"store only arrays of numbers or text; {OWN_DATA}",
            ) from None
        raise ArtefactError(
            path, f"it is not a readable .npz file ({fault})", f"write it again with numpy.savez; {OWN_DATA}"
        ) from None
    for name in ("x", "y"):
        if name not in arrays:
            names = listing(sorted(known)) or "none"
            raise ArtefactError(
                path, f"it lacks the array '{name}' (arrays in the file: {names})", f"add this array; {OWN_DATA}"
            )
    if ignored := sorted(known - set(ARRAYS)):
        notes.append(f"{path}: ignored {plural(len(ignored), 'array')}: {listing(ignored)}")
    return arrays


def _samples(path: Path, arrays: Arrays) -> LabelledSamples:
    """Return the samples in `arrays`, which were read from `path`; raise PatebenchError if they are invalid."""
    for name in ("y", "row", "owner"):
        if name in arrays and (arrays[name].dtype.kind not in "iu" or arrays[name].ndim != 1):
            raise ArtefactError(
                path,
                f"its array '{name}' has dtype {arrays[name].dtype} and shape {arrays[name].shape}",
                "give one integer for each sample",
            )
    # Integers beyond int64 become negative, which is invalid.
    y, rows, owners = (arrays[name].astype(np.int64) if name in arrays else None for name in ("y", "row", "owner"))
    x = _images_or_table(path, arrays["x"])
    with located(path):
        return LabelledSamples(x, y, rows, owners)  # type: ignore[arg-type]


def _images_or_table(path: Path, x: NDArray[Any]) -> NDArray[Any]:
    """Return `x` as images (samples, channels, height, width) or as a float32 table (samples, features).

    Raises ArtefactError if `x` is neither; the message names the file `path`.
    """
    if x.ndim == 2 and x.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return x.astype(np.float32)
    shape = f"its array 'x' has dtype {x.dtype} and shape {x.shape}"
    if x.ndim not in (3, 4) or x.dtype != np.uint8:
        raise ArtefactError(
            path,
            f"its array 'x' has dtype {x.dtype} and shape {x.shape}",
            "give images as uint8, or a table of numbers of shape (samples, features)",
        )
    if x.ndim == 3:
        return x[:, None]
    first, last = x.shape[1] in CHANNELS, x.shape[3] in CHANNELS
    if first == last:
        raise ArtefactError(
            path,
            f"{shape}, so it is not clear which axis contains the channels",
            "put the channels on the second or the last axis, and use images of more than 4×4 pixels",
        )
    return x if first else np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def _class_names(path: Path, arrays: Arrays) -> tuple[str, ...] | None:
    """Return the class names in `arrays`, which were read from `path`, or None if the file contains none."""
    if (array := arrays.get("class_names")) is None:
        return None
    names = tuple(map(str, array.ravel().tolist()))
    if array.dtype.kind not in "Uiu" or array.ndim != 1 or len(set(names)) < len(names) or "" in names:
        raise ArtefactError(
            path,
            f"its array 'class_names' has dtype {array.dtype}, shape {array.shape} and values {listing(names)}",
            f"give one name per class, all different; {OWN_DATA}",
        )
    return names


def _classes_of(path: Path, y: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the class names "0", "1", … of the labels `y`; raise ArtefactError if the labels skip a number."""
    labels = np.unique(y[y >= 0])
    if len(gaps := np.flatnonzero(labels != np.arange(len(labels)))):
        raise ArtefactError(
            path,
            f"its labels are {listing(labels.tolist())}, but no sample has the label {gaps[0]}",
            f"number the classes 0, 1, …, or declare all in the configuration ('classes: {labels.max() + 1}' or"
            f" 'class_names'); {OWN_DATA}",
        )
    return tuple(map(str, range(len(labels))))
