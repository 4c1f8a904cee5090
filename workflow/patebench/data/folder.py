"""A user's own images: one folder for each class, below a private and a public folder.

    private/cat/*.png  private/dog/*.png  public/cat/*.png  public/dog/*.png

A file's name, without its folder, says which record it is: within a part no two images may share one. Order and rows
follow from names alone, so a record that gets another label, comes or goes moves no other.

All images must have one size. They become grey images if all public files are grey, and colour images otherwise. Which
classes there are, the size and the mode are public, so private images tell none of them.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError
from patebench.data.dataset import Dataset

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
_GREY = frozenset(("1", "L"))


def load(root: Path, download: bool, private: str, public: str, class_names: Sequence[str] | None = None) -> Dataset:
    """Read the folders `private` and `public`; relative paths start from the working directory.

    Classes are `class_names`, or else the public sub-folders in alphabetical order; samples come by file
    name, whatever the class. A class may be without private images, and one of `class_names` without any.
    Raises ArtefactError naming the folder or file and the fault.
    """
    names = tuple(class_names or _shown(Path(public)))
    public_images, public_y = _read(Path(public), names)
    private_images, private_y = _read(Path(private), names)
    # The public images come first, so they say which size is right.
    _check_sizes({**public_images, **private_images})
    mode = "L" if all(image.mode in _GREY for image in public_images.values()) else "RGB"
    private_x, public_x = (
        np.stack([_pixels(image, mode) for image in images.values()]) for images in (private_images, public_images)
    )
    rows = (_rows(images) for images in (private_images, public_images))
    return Dataset(private_x, private_y, public_x, public_y, names, *rows)


def _shown(public: Path) -> tuple[str, ...]:
    """The classes that the public folder shows, each with an image at least."""
    names = _folders(public)
    if not names:
        raise ArtefactError(
            public, "it holds no class folders", "put the images of each class into a folder of its own"
        )
    for name in names:
        if not _image_paths(public / name):
            raise _lacks_images(public / name)
    return names


def _folders(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        raise ArtefactError(folder, "there is no such folder", "give a folder that holds one folder for each class")
    return tuple(sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith(".")))


def _read(folder: Path, names: tuple[str, ...]) -> tuple[dict[Path, Any], NDArray[np.int64]]:
    """The images below `folder` by path, in the order of their names, and their labels."""
    if extra := [name for name in _folders(folder) if name not in names]:
        raise ArtefactError(
            folder / extra[0],
            f"it is none of the {len(names)} classes, which the public folder or the configuration say and private data"
            " never do",
            "move it away, or name all classes in the configuration: class_names",
        )
    labels = {path: label for label, name in enumerate(names) for path in _image_paths(folder / name)}
    if not labels:
        raise _lacks_images(folder)
    paths = sorted(labels, key=lambda path: path.name)
    return {path: _open(path) for path in paths}, np.array([labels[path] for path in paths], np.int64)


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
    return ArtefactError(folder, "it holds no images", f"put images there ({', '.join(sorted(SUFFIXES))})")


def _image_paths(folder: Path) -> list[Path]:
    """The images of a class in any order, none where it has no folder."""
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")]


def _open(path: Path) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as opened:
            image = opened.copy()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as fault:
        raise ArtefactError(path, f"it can not be read as an image ({fault})", "replace it, or move it away") from None
    if image.mode.startswith(("I", "F")):
        raise ArtefactError(path, "it has more than 8 bits for each grey value", "convert it to 8 bits")
    return image


def _check_sizes(images: dict[Path, Any]) -> None:
    (first, model), *others = images.items()
    for path, image in others:
        if image.size != model.size:
            raise ArtefactError(
                path,
                f"it is {image.width}×{image.height} pixels where {first} is {model.width}×{model.height}",
                "bring all images to one size",
            )


def _pixels(image: Any, mode: str) -> NDArray[np.uint8]:
    """Channels first."""
    pixels = np.asarray(image.convert(mode), dtype=np.uint8)
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)
