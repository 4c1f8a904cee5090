"""A user's own images: one folder for each class, below a private and a public folder.

    private/cat/*.png  private/dog/*.png  public/cat/*.png  public/dog/*.png

All images must have one size. They become grey images if all public files are grey, and colour images otherwise. Which
classes there are, the size and the mode are public, so private images tell none of them.
"""

from collections.abc import Sequence
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

    Classes are `class_names`, or else the public sub-folders in alphabetical order; samples come by class, then by file
    name. A class may be without private images, and one of `class_names` without any.
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
    return Dataset(private_x, private_y, public_x, public_y, names)


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
    """The images below `folder` by path, and their labels."""
    if extra := [name for name in _folders(folder) if name not in names]:
        raise ArtefactError(
            folder / extra[0],
            f"it is none of the {len(names)} classes, which the public folder or the configuration say and private data"
            " never do",
            "move it away, or name all classes in the configuration: class_names",
        )
    paths = [_image_paths(folder / name) for name in names]
    if not any(paths):
        raise _lacks_images(folder)
    labels = np.repeat(np.arange(len(names)), [len(files) for files in paths])
    return {path: _open(path) for files in paths for path in files}, labels.astype(np.int64)


def _lacks_images(folder: Path) -> ArtefactError:
    return ArtefactError(folder, "it holds no images", f"put images there ({', '.join(sorted(SUFFIXES))})")


def _image_paths(folder: Path) -> list[Path]:
    """The images of a class, none where it has no folder."""
    if not folder.is_dir():
        return []
    return sorted(
        path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )


def _open(path: Path) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as opened:
            image = opened.copy()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as fault:
        raise ArtefactError(path, f"it can not be read as an image ({fault})", "replace or remove it") from None
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
