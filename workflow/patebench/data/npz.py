"""A user's own arrays: one `.npz` with the private samples and one with the public ones.

Each holds `x` and `y`; the public one may hold `class_names`, and the private one no others. Each may hold `row`, an
integer of its own for each record, which it keeps when others come and go. Images are uint8
(samples, height, width), (samples, height, width, channels) or (samples, channels, height, width); tables are numbers
(samples, features).
"""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError
from patebench.data.dataset import Dataset

CHANNELS = range(1, 5)
_MEND = "see the documentation on own data for the arrays that are needed"


def load(root: Path, download: bool, private: str, public: str, class_names: Sequence[str] | None = None) -> Dataset:
    """Read the files `private` and `public`; relative paths start from the working directory.

    Without `class_names`, here or in the public file, the classes are 0 … the largest public label: how many there are
    is public, so the private file must not tell. Raises ArtefactError naming the file and the fault.
    """
    ours, others = _read(Path(private)), _read(Path(public))
    private_x, public_x = _samples(Path(private), ours["x"]), _samples(Path(public), others["x"])
    private_y, public_y = _labels(Path(private), ours["y"]), _labels(Path(public), others["y"])
    shown = others.get("class_names", np.arange(public_y.max(initial=0) + 1))
    names = tuple(class_names or (str(name) for name in shown.tolist()))
    if "class_names" in ours and tuple(map(str, ours["class_names"].tolist())) != names:
        raise ArtefactError(
            private,
            f"its class names are not those of the data set, which come from {public} or the configuration",
            "leave them out here, or give the same ones as class_names there",
        )
    rows = _rows(Path(private), ours), _rows(Path(public), others)
    return Dataset(private_x, private_y, public_x, public_y, names, *rows)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise ArtefactError(path, "there is no such file", "give the path of an .npz file with the arrays x and y")
    try:
        with open(path, "rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ArtefactError(path, "it holds one array and not several by name", _MEND)
            arrays = {name: archive[name] for name in ("x", "y", "row", "class_names") if name in archive}
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as fault:
        if "allow_pickle" in str(fault):
            raise ArtefactError(path, "it holds pickled objects, which are never loaded", _MEND) from None
        raise ArtefactError(path, f"it is no readable .npz file ({fault})", _MEND) from None
    for name in ("x", "y"):
        if name not in arrays:
            raise ArtefactError(path, f"it lacks the array '{name}'", _MEND)
    return arrays


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
