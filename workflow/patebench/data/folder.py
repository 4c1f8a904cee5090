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
from collections.abc import Iterable, Iterator, Sequence
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
#: The most pixels of one image. A small file can promise more than any memory holds.
_PIXELS = 1 << 24


@dataclass(frozen=True)
class _Header:
    """What an image's file says before anything is decoded."""

    path: Path
    size: tuple[int, int]
    mode: str


@dataclass(frozen=True, eq=False)
class _ImagePart:
    """The images below a folder in the order of their names, their labels, and what else lay there."""

    images: list[_Header]
    labels: NDArray[np.int64]
    ignored: list[Path]

    def pixels(self, mode: str) -> NDArray[np.uint8]:
        return np.stack([_pixels(image.path, mode) for image in self.images])

    def rows(self) -> NDArray[np.int64]:
        return _rows(image.path for image in self.images)

    def notes(self, folder: Path) -> list[str]:
        """What was passed over, in a sentence."""
        if not self.ignored:
            return []
        files = plural(len(self.ignored), "file")
        return [f"{folder}: ignored what is no image of a class: {files}, such as {self.ignored[0].name}"]


def load(root: Path, download: bool, private: str, public: str, class_names: Sequence[str] | None = None) -> Dataset:
    """Read the folders `private` and `public`; relative paths start from the working directory.

    Classes are `class_names`, or else the public sub-folders in alphabetical order; samples come by file
    name, whatever the class. A class may be without private images, and one of `class_names` without any.
    Raises ArtefactError naming the folder or file and the fault.
    """
    ours, others = Path(private), Path(public)
    names = tuple(class_names or _shown(others))
    public_part, private_part = _read(others, names), _read(ours, names)
    # The public images come first, so they say which size is right.
    _check_sizes([*public_part.images, *private_part.images])
    mode = "L" if all(image.mode in _GREY for image in public_part.images) else "RGB"
    x, y = (private_part.pixels(mode), public_part.pixels(mode)), (private_part.labels, public_part.labels)
    notes = [*private_part.notes(ours), *public_part.notes(others), *_without_images(ours, others, names)]
    return Dataset(x[0], y[0], x[1], y[1], names, private_part.rows(), public_part.rows(), notes=tuple(notes))


def _shown(public: Path) -> tuple[str, ...]:
    """The classes that the public folder shows, each with an image at least."""
    names = _folders(public)
    if not names:
        raise ArtefactError(
            public, "it holds no class folders", f"put the images of each class into a folder of its own; {OWN_DATA}"
        )
    for name in names:
        if not _image_paths(public / name):
            raise _lacks_images(public / name)
    return names


def _folders(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        raise ArtefactError(
            folder, "there is no such folder", f"give a folder that holds one folder for each class; {OWN_DATA}"
        )
    return tuple(sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")))


def _read(folder: Path, names: tuple[str, ...]) -> _ImagePart:
    """The images below `folder` and their labels, nothing decoded yet."""
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
        raise _lacks_images(folder)
    paths = sorted(labels, key=lambda path: path.name)
    ignored = sorted(path for path in _files(folder) if path not in labels)
    return _ImagePart([_header(path) for path in paths], np.array([labels[path] for path in paths], np.int64), ignored)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if not path.is_dir())


def _without_images(private: Path, public: Path, names: Sequence[str]) -> Iterator[str]:
    """A sentence for each part that shows fewer classes than there are."""
    for folder in (private, public):
        if lacking := [name for name in names if not _image_paths(folder / name)]:
            yield f"{folder}: has no image of {plural(len(lacking), 'class')}: {listing(lacking)}"


def _rows(paths: Iterable[Path]) -> NDArray[np.int64]:
    """A row for each image, from its name alone; raises ArtefactError where two have one."""
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
    """63 bits of a hash of a file's name."""
    return int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), "little") >> 1


def _lacks_images(folder: Path) -> ArtefactError:
    return ArtefactError(folder, "it holds no images", f"put images there ({', '.join(sorted(SUFFIXES))}); {OWN_DATA}")


def _image_paths(folder: Path) -> list[Path]:
    """The images of a class in any order, none where it has no folder."""
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if _is_image(path)]


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The image in a file, not decoded; whatever fails in it is one line."""
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"), Image.open(path) as image:
            yield image
    except ArtefactError:
        raise
    except Exception as fault:  # a damaged image fails in as many ways as there are formats
        words = str(fault) or type(fault).__name__
        mend = "replace it, or move it away"
        raise ArtefactError(path, f"it can not be read as an image ({words})", mend) from None


def _header(path: Path) -> _Header:
    with _opened(path) as image:
        if image.mode.startswith(("I", "F")):
            raise ArtefactError(path, "it has more than 8 bits for each grey value", "convert it to 8 bits")
        if image.width * image.height > _PIXELS:
            raise ArtefactError(
                path,
                f"it is {image.width}×{image.height} pixels, and no image may have more than {_PIXELS:,}",
                "make it smaller",
            )
        return _Header(path, image.size, image.mode)


def _check_sizes(images: Sequence[_Header]) -> None:
    model, *others = images
    for image in others:
        if image.size != model.size:
            ours, right = ("×".join(map(str, each.size)) for each in (image, model))
            raise ArtefactError(
                image.path, f"it is {ours} pixels where {model.path} is {right}", "bring all images to one size"
            )


def _pixels(path: Path, mode: str) -> NDArray[np.uint8]:
    """Channels first."""
    with _opened(path) as image:
        pixels = np.asarray(image.convert(mode), dtype=np.uint8)
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)
