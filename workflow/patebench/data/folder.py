"""A user's own images: one folder for each class, below a private and a public folder.

    private/cat/*.png  private/dog/*.png  public/cat/*.png  public/dog/*.png

A file's name, without its folder, says which record it is: within a part no two images may share one. Order and rows
follow from names alone, so a record that gets another label, comes or goes moves no other.

All images must have one size. They become grey images if all public files are grey, and colour images otherwise. Which
classes there are, the size and the mode are public, so private images tell none of them.
"""

import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError
from patebench.core.text import listing, plural
from patebench.data.dataset import OWN_DATA, Dataset

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
_GREY = frozenset(("1", "L"))
#: Maximum number of pixels of one image: a small file can promise more than any memory holds.
_PIXELS = 1 << 24


@dataclass(frozen=True)
class _Image:
    """What an image's file says before anything is decoded, and its label."""

    path: Path
    size: tuple[int, int]
    mode: str
    label: int

    def pixels(self, mode: str) -> NDArray[np.uint8]:
        """Decode to (channels, height, width)."""
        with _opened(self.path) as image:
            pixels = np.asarray(image.convert(mode), dtype=np.uint8)
        return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def load(root: Path, download: bool, private: str, public: str, class_names: Sequence[str] | None = None) -> Dataset:
    """Read the folders `private` and `public`; relative paths start from the working directory.

    Classes are `class_names`, or else the public sub-folders in alphabetical order; samples come by file name, whatever
    the class. A class may be without private images, and one of `class_names` without any. Raises ArtefactError naming
    the folder or file and the fault.
    """
    ours, others = Path(private), Path(public)
    names = tuple(class_names or _shown_classes(others))
    public_images, private_images = _read(others, names), _read(ours, names)
    # The public images come first, so they say which size is right.
    model, *rest = [*public_images, *private_images]
    for image in rest:
        if image.size != model.size:
            size, right = ("×".join(map(str, each.size)) for each in (image, model))
            fault = f"it is {size} pixels where {model.path} is {right}"
            raise ArtefactError(image.path, fault, "bring all images to one size")
    mode = "L" if all(image.mode in _GREY for image in public_images) else "RGB"
    (x, y, rows), (public_x, public_y, public_rows) = (
        (
            np.stack([image.pixels(mode) for image in images]),
            np.array([image.label for image in images], np.int64),
            _rows([image.path for image in images]),
        )
        for images in (private_images, public_images)
    )
    notes = [
        *_notes_on_ignored(ours, private_images),
        *_notes_on_ignored(others, public_images),
        *_notes_on_absent(ours, others, names),
    ]
    return Dataset(x, y, public_x, public_y, names, rows, public_rows, notes=tuple(notes))


def _shown_classes(public: Path) -> tuple[str, ...]:
    """Return the classes that the public folder shows, each with an image at least."""
    names = _folders(public)
    if not names:
        fix = f"put the images of each class into a folder of its own; {OWN_DATA}"
        raise ArtefactError(public, "it holds no class folders", fix)
    for name in names:
        if not _image_paths(public / name):
            raise _without_images(public / name)
    return names


def _folders(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        fix = f"give a folder that holds one folder for each class; {OWN_DATA}"
        raise ArtefactError(folder, "there is no such folder", fix)
    return tuple(sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")))


def _read(folder: Path, names: tuple[str, ...]) -> list[_Image]:
    """Return the images below `folder` in the order of their names, nothing decoded yet."""
    if extra := [name for name in _folders(folder) if name not in names]:
        lacking = [name for name in names if not (folder / name).is_dir()]
        besides = f"; these classes have no folder: {listing(lacking)}" if lacking else ""
        raise ArtefactError(
            folder / extra[0],
            f"it is none of the {plural(len(names), 'class')}, which the public folder or the configuration say and "
            f"private data never do; these folders are no classes: {listing(extra)}{besides}",
            "move it away, rename it, or name all classes in the configuration: class_names",
        )
    labels = {path: label for label, name in enumerate(names) for path in _image_paths(folder / name)}
    if not labels:
        raise _without_images(folder)
    return [_header(path, labels[path]) for path in sorted(labels, key=lambda path: path.name)]


def _notes_on_ignored(folder: Path, images: Sequence[_Image]) -> list[str]:
    """Say in a sentence what below `folder` is none of the `images`."""
    read = {image.path for image in images}
    ignored = sorted(path for path in folder.rglob("*") if not path.is_dir() and path not in read)
    if not ignored:
        return []
    files = plural(len(ignored), "file")
    return [f"{folder}: ignored what is no image of a class: {files}, such as {ignored[0].name}"]


def _notes_on_absent(private: Path, public: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each part that shows fewer classes than there are."""
    for folder in (private, public):
        if lacking := [name for name in names if not _image_paths(folder / name)]:
            yield f"{folder}: has no image of {plural(len(lacking), 'class')}: {listing(lacking)}"


def _rows(paths: Sequence[Path]) -> NDArray[np.int64]:
    """Return a row for each image, from its name alone; raises ArtefactError where two have one."""
    seen: dict[int, Path] = {}
    for path in paths:
        if (other := seen.setdefault(_row(path.name), path)) is not path:
            raise ArtefactError(
                path,
                f"its name {'is' if path.name == other.name else 'has the same hash as'} that of {other}, and by names"
                " records are told apart",
                "rename one of them",
            )
    return np.array(list(seen), np.int64)


def _row(name: str) -> int:
    """Return 63 bits of a hash of a file's name."""
    return int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), "little") >> 1


def _without_images(folder: Path) -> ArtefactError:
    return ArtefactError(folder, "it holds no images", f"put images there ({', '.join(sorted(SUFFIXES))}); {OWN_DATA}")


def _image_paths(folder: Path) -> list[Path]:
    """Return the images of a class in any order, none where it has no folder."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return [path for path in paths if path.suffix.lower() in SUFFIXES and path.name[0] != "." and path.is_file()]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open the image in a file without decoding it; any fault of it is one line."""
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path) as image:
            yield image
    except ArtefactError:
        raise
    except Exception as fault:  # a damaged image fails in as many ways as there are formats
        words = str(fault) or type(fault).__name__
        raise ArtefactError(path, f"it cannot be read as an image ({words})", "replace it, or move it away") from None


def _header(path: Path, label: int) -> _Image:
    with _opened(path) as image:
        if image.mode.startswith(("I", "F")):
            raise ArtefactError(path, "it has more than 8 bits for each grey value", "convert it to 8 bits")
        if image.width * image.height > _PIXELS:
            fault = f"it is {image.width}×{image.height} pixels, and no image may have more than {_PIXELS:,}"
            raise ArtefactError(path, fault, "make it smaller")
        return _Image(path, image.size, image.mode, label)
