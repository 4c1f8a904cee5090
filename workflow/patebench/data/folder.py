"""A user's own images: one folder for each class, below a private and a public folder.

    private/cat/*.png  private/dog/*.png  public/cat/*.png  public/dog/*.png

All images must have one size. They become grey images if all files are grey, and colour images otherwise.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError
from patebench.data.dataset import Dataset

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
_GREY = frozenset(("1", "L"))


def load(root: Path, download: bool, private: str, public: str) -> Dataset:
    """Read the folders `private` and `public`; relative paths start from the working directory.

    Classes are the private sub-folders in alphabetical order; samples come by class, then by file name.
    Raises ArtefactError naming the folder or file and the fault.
    """
    names = _class_names(Path(private))
    if _class_names(Path(public)) != names:
        raise ArtefactError(public, f"its class folders are not those of {private}", "give both the same class folders")
    private_images, private_y = _read(Path(private), names)
    public_images, public_y = _read(Path(public), names)
    _check_sizes({**private_images, **public_images})
    images = [*private_images.values(), *public_images.values()]
    mode = "L" if all(image.mode in _GREY for image in images) else "RGB"
    x = np.stack([_pixels(image, mode) for image in images])
    held = len(private_y)
    return Dataset(x[:held], private_y, x[held:], public_y, names)


def _class_names(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir():
        raise ArtefactError(folder, "there is no such folder", "give a folder that holds one folder for each class")
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not names:
        raise ArtefactError(
            folder, "it holds no class folders", "put the images of each class into a folder of its own"
        )
    return tuple(names)


def _read(folder: Path, names: tuple[str, ...]) -> tuple[dict[Path, Any], NDArray[np.int64]]:
    """The images below `folder` by path, and their labels."""
    paths = [_image_paths(folder / name) for name in names]
    labels = np.repeat(np.arange(len(names)), [len(files) for files in paths])
    return {path: _open(path) for files in paths for path in files}, labels.astype(np.int64)


def _image_paths(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")]
    if not found:
        raise ArtefactError(folder, "it holds no images", f"put images there ({', '.join(sorted(SUFFIXES))})")
    return sorted(found)


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
