"""A user's own arrays: one `.npz` with the private samples and one with the public ones.

Each holds `x` and `y`; the public one may hold `class_names`, and the private one no others. Each may hold `row`, an
integer of its own for each record, which it keeps when others come and go. Images are uint8
(samples, height, width), (samples, height, width, channels) or (samples, channels, height, width); tables are numbers
(samples, features).
"""

import itertools
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError
from patebench.core.text import listing, plural
from patebench.data.dataset import OWN_DATA, Dataset

#: The arrays that a file may hold.
ARRAYS = ("x", "y", "row", "class_names")
CHANNELS = range(1, 5)
_MEND = OWN_DATA


def load(root: Path, download: bool, private: str, public: str, class_names: Sequence[str] | None = None) -> Dataset:
    """Read the files `private` and `public`; relative paths start from the working directory.

    Without `class_names`, here or in the public file, the classes are 0 … the largest public label, each of which must
    have a public sample: how many there are is public, so the private file must not tell. Raises ArtefactError naming
    the file and the fault.
    """
    (ours, passed_over), (others, more) = _read(Path(private)), _read(Path(public))
    public_x, private_x = _samples(Path(public), others["x"]), _samples(Path(private), ours["x"])
    public_y, private_y = _labels(Path(public), others["y"]), _labels(Path(private), ours["y"])
    names = tuple(class_names or _named(Path(public), others) or _shown(Path(public), public_y))
    _check_enough(Path(public), names, public_y)
    if _named(Path(private), ours) not in (None, names):
        raise ArtefactError(
            private,
            f"its class names are not those of the data set, which come from {public} or the configuration",
            "leave them out here, or give the same ones as class_names there",
        )
    rows = _rows(Path(private), ours), _rows(Path(public), others)
    return Dataset(private_x, private_y, public_x, public_y, names, *rows, notes=(*passed_over, *more))


def _read(path: Path) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """The arrays of a file that mean something, and a sentence on the others."""
    if not path.is_file():
        raise ArtefactError(path, "there is no such file", "give the path of an .npz file with the arrays x and y")
    try:
        with open(path, "rb") as stream:
            if stream.read(2) != b"PK":  # numpy would speak of pickles
                raise ArtefactError(path, "it is no archive of arrays, as numpy.savez writes", _MEND)
            stream.seek(0)
            archive = np.load(stream, allow_pickle=False)
            known = set(archive.files)
            arrays = {name: archive[name] for name in ARRAYS if name in archive}
    except (ValueError, OSError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error) as fault:
        if "Object arrays" in str(fault):
            raise ArtefactError(path, "it holds pickled objects, which are never loaded", _MEND) from None
        raise ArtefactError(path, f"it is no readable .npz file ({fault})", _MEND) from None
    for name in ("x", "y"):
        if name not in arrays:
            raise ArtefactError(
                path, f"it lacks the array '{name}' and holds {listing(sorted(known)) or 'none'}", _MEND
            )
    ignored = sorted(known - set(ARRAYS))
    return arrays, [f"{path}: ignored {plural(len(ignored), 'array')}: {listing(ignored)}"] if ignored else []


def _named(path: Path, arrays: dict[str, NDArray[Any]]) -> tuple[str, ...] | None:
    """The array `class_names`, if there is one."""
    if (names := arrays.get("class_names")) is None:
        return None
    if names.dtype.kind not in "Uiu" or names.ndim != 1:
        raise ArtefactError(
            path, f"its array 'class_names' is {names.dtype} of shape {names.shape}", f"give one text each; {OWN_DATA}"
        )
    found = tuple(map(str, names.tolist()))
    if len(set(found)) < len(found) or "" in found:
        raise ArtefactError(path, "its array 'class_names' has an empty name, or one twice", "give each class its own")
    return found


def _shown(path: Path, y: NDArray[np.int64]) -> tuple[str, ...]:
    """The classes that public labels show; ArtefactError where they leave a number out."""
    labels = np.unique(y[y >= 0])
    most = int(labels.max(initial=-1)) + 1
    if len(labels) < most:
        raise ArtefactError(
            path,
            f"its labels are {listing(labels.tolist())}, so of 0 … {most - 1} these have no sample: {_gaps(labels)}",
            f"number the classes from 0 without a gap, or declare all of them in the configuration (classes: {most} or"
            f" class_names); {OWN_DATA}",
        )
    return tuple(map(str, range(most)))


def _gaps(labels: NDArray[np.int64]) -> str:
    """The runs of numbers that increasing labels leave out, from 0 on."""
    ends = [-1, *labels.tolist()]
    runs = [(a + 1, b - 1) for a, b in itertools.pairwise(ends) if b - a > 1]
    return listing([str(first) if first == last else f"{first} to {last}" for first, last in runs])


def _check_enough(path: Path, names: tuple[str, ...], y: NDArray[np.int64]) -> None:
    """Refuse labels for which there is no name; what else is wrong with labels is said for both parts alike."""
    if y.size and y.max() >= len(names):
        raise ArtefactError(
            path,
            f"its labels go up to {y.max()}, which needs {y.max() + 1} classes, and {plural(len(names), 'class')} "
            f"{'is' if len(names) == 1 else 'are'} declared ({listing(names)})",
            f"give one name for each label, that of 0 first; {OWN_DATA}",
        )


def _samples(path: Path, x: NDArray[Any]) -> NDArray[Any]:
    """Bring `x` to (samples, channels, height, width) uint8 or (samples, features) float32."""
    if x.ndim == 2 and x.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # an infinity is refused with all others
            return x.astype(np.float32)
    if x.ndim not in (3, 4) or x.dtype != np.uint8:
        raise ArtefactError(
            path, f"its array 'x' is {x.dtype} of shape {x.shape}", "images must be uint8, tables (samples, features)"
        )
    if x.ndim == 3:
        return x[:, None]
    first, last = x.shape[1] in CHANNELS, x.shape[3] in CHANNELS
    if first == last:
        raise ArtefactError(
            path,
            f"its array 'x' of shape {x.shape} does not show which axis is the channels",
            "give one to four channels on the second or the last axis, and larger images",
        )
    return x if first else np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def _labels(path: Path, y: NDArray[Any]) -> NDArray[np.int64]:
    if y.dtype.kind not in "iu" or y.ndim != 1:
        raise ArtefactError(
            path, f"its array 'y' is {y.dtype} of shape {y.shape}", "give one integer label for each sample"
        )
    return y.astype(np.int64)


def _rows(path: Path, arrays: dict[str, NDArray[Any]]) -> NDArray[np.int64] | None:
    """The array `row`, if there is one; what is too large becomes negative, and is refused as that."""
    if (rows := arrays.get("row")) is None:
        return None
    if rows.dtype.kind not in "iu":
        raise ArtefactError(
            path, f"its array 'row' is {rows.dtype}", "give one integer for each sample, or none at all"
        )
    return rows.astype(np.int64)
