"""Load a user's own arrays from one `.npz` file with the private samples and one with the public samples.

Both files contain `x`, the samples, and `y`, their labels. The public file may contain `class_names`; if the private
file contains them too, they must be the same. Both may contain `row`, a distinct integer that a record keeps when
others are added or removed, and `owner`, the number of the person of each record. Images are uint8 (samples, height,
width), (samples, height, width, channels) or (samples, channels, height, width); tables are numbers (samples,
features).
"""

import itertools
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError
from patebench.core.text import listing, plural
from patebench.data.dataset import OWN_DATA, Dataset, not_finite

#: Names of the arrays that are read.
ARRAYS = ("x", "y", "row", "owner", "class_names")
CHANNELS = range(1, 5)


def load(root: Path, download: bool, private: str, public: str, class_names: Sequence[str] | None = None) -> Dataset:
    """Read the files `private` and `public`; relative paths start from the working directory.

    If neither the argument nor the public file gives `class_names`, the classes are 0 … the largest public label, and
    each needs a public sample. The private file does not influence the classes, which are public. Raises ArtefactError
    for an invalid file.
    """
    own, shown = _File.read(Path(private)), _File.read(Path(public))
    public_x, private_x, public_y, private_y = shown.samples(), own.samples(), shown.labels(), own.labels()
    names = tuple(class_names or shown.class_names() or shown.shown_classes(public_y))
    if public_y.size and public_y.max() >= len(names):  # `Dataset` checks the other faults of labels
        raise shown.fault(
            f"its largest label is {public_y.max()}, but only {plural(len(names), 'class')}"
            f" {'is' if len(names) == 1 else 'are'} declared ({listing(names)})",
            f"give {public_y.max() + 1} class names, that of label 0 first; {OWN_DATA}",
        )
    if own.class_names() not in (None, names):
        raise own.fault(
            f"its class names differ from those of {public} or the configuration",
            "leave class_names out of this file, or give the same class names in both places",
        )
    (rows, owners), (public_rows, public_owners) = (
        (part.whole_numbers("row"), part.whole_numbers("owner")) for part in (own, shown)
    )
    notes = (*own.notes, *shown.notes)
    return Dataset(private_x, private_y, public_x, public_y, names, rows, public_rows, notes, owners, public_owners)


@dataclass(frozen=True, eq=False)
class _File:
    """Arrays of one file that are used, and notes about arrays that are ignored."""

    path: Path
    arrays: dict[str, NDArray[Any]]
    notes: Sequence[str]

    @classmethod
    def read(cls, path: Path) -> Self:
        if not path.is_file():
            fix = "give the path of an .npz file with the arrays x and y"
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
                raise ArtefactError(path, "it contains pickled objects, which are never loaded", OWN_DATA) from None
            raise ArtefactError(path, f"it is not a readable .npz file ({fault})", OWN_DATA) from None
        for name in ("x", "y"):
            if name not in arrays:
                names = listing(sorted(known)) or "none"
                raise ArtefactError(path, f"the array '{name}' is missing; arrays in the file: {names}", OWN_DATA)
        ignored = sorted(known - set(ARRAYS))
        notes = [f"{path}: ignored {plural(len(ignored), 'array')}: {listing(ignored)}"] if ignored else []
        return cls(path, arrays, notes)

    def fault(self, fault: str, fix: str) -> ArtefactError:
        return ArtefactError(self.path, fault, fix)

    def samples(self) -> NDArray[Any]:
        """Return `x` as (samples, channels, height, width) uint8 or (samples, features) float32."""
        x = self.arrays["x"]
        if x.ndim == 2 and x.dtype.kind in "biuf":
            with np.errstate(over="ignore"):
                table = x.astype(np.float32)
            if fault := not_finite(table):
                raise ArtefactError(
                    self.path, f"its array 'x' contains {fault}", "fill or drop them first", code="not-finite"
                )
            return table
        shape = f"its array 'x' has dtype {x.dtype} and shape {x.shape}"
        if x.ndim not in (3, 4) or x.dtype != np.uint8:
            raise self.fault(shape, "give images as uint8, or a table of numbers of shape (samples, features)")
        if x.ndim == 3:
            return x[:, None]
        first, last = x.shape[1] in CHANNELS, x.shape[3] in CHANNELS
        if first == last:
            raise self.fault(
                f"{shape}, so the axis of the channels is ambiguous",
                "give images with sides of more than 4 pixels, and the channels on either the second or the last axis",
            )
        return x if first else np.ascontiguousarray(x.transpose(0, 3, 1, 2))

    def labels(self) -> NDArray[np.int64]:
        y = self.arrays["y"]
        if y.dtype.kind not in "iu" or y.ndim != 1:
            fault = f"its array 'y' has dtype {y.dtype} and shape {y.shape}"
            raise self.fault(fault, "give one integer label for each sample")
        return y.astype(np.int64)

    def whole_numbers(self, name: str) -> NDArray[np.int64] | None:
        """Return the array `name` as int64, or None if the file has none.

        Numbers beyond int64 become negative, which `Dataset` refuses.
        """
        if (numbers := self.arrays.get(name)) is None:
            return None
        if numbers.dtype.kind not in "iu":
            raise self.fault(
                f"its array '{name}' has dtype {numbers.dtype}",
                "give one integer for each sample, or leave out the array",
            )
        return numbers.astype(np.int64)

    def class_names(self) -> tuple[str, ...] | None:
        """Return the array `class_names` as text, or None if the file has none."""
        if (array := self.arrays.get("class_names")) is None:
            return None
        if array.dtype.kind not in "Uiu" or array.ndim != 1:
            fault = f"its array 'class_names' has dtype {array.dtype} and shape {array.shape}"
            raise self.fault(fault, f"give one text for each class; {OWN_DATA}")
        names = tuple(map(str, array.tolist()))
        if len(set(names)) < len(names) or "" in names:
            fault = "its array 'class_names' contains an empty name or a name twice"
            raise self.fault(fault, "give each class a different name")
        return names

    def shown_classes(self, y: NDArray[np.int64]) -> tuple[str, ...]:
        """Return the classes 0 … largest label of `y` as text; raise ArtefactError if one of them does not occur."""
        labels = np.unique(y[y >= 0])
        most = int(labels.max(initial=-1)) + 1
        if len(labels) == most:
            return tuple(map(str, range(most)))
        runs = [(a + 1, b - 1) for a, b in itertools.pairwise([-1, *labels.tolist()]) if b - a > 1]
        gaps = listing([str(first) if first == last else f"{first} to {last}" for first, last in runs])
        raise self.fault(
            f"its labels are {listing(labels.tolist())}, but these labels below {most} have no sample: {gaps}",
            f"number the classes 0, 1, …, or declare all of them in the configuration (classes: {most} or class_names);"
            f" {OWN_DATA}",
        )
