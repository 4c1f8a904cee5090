"""Load a user's own images from a private and a public folder, each with a folder per class, or from a list of files.

    private/cat/*.png  private/dog/*.png  public/cat/*.png  public/dog/*.png

The list of files is called an index. An image is identified by its class folder and file name, or by its path in the
index. The row number of an image is a hash of this identity, so it does not change if other images are added or
removed. Classes, size, colour mode and background are public: they come from the public images or from the
configuration.
"""

import os
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.text import listing, plural
from patebench.data.dataset import OWN_DATA, Dataset, LabelledSamples, Outline, check_people
from patebench.data.declaration import MISSING, ImageParameters, plain_text
from patebench.data.division import hash_names, hash_samples

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"))
T = TypeVar("T")

_GREY = frozenset(("1", "L", "LA", "La"))

#: Maximum number of pixels of one image, since a small file can declare more pixels than fit into memory.
_PIXELS = 1 << 24

#: EXIF tag of the image orientation.
_ORIENTATION = 0x0112

#: Columns of an index (`owner` is optional), and the values of its column `part`.
_INDEX_COLUMNS, _PARTS = ("path", "label", "part", "owner"), ("private", "public")


_AS_THEY_ARE = ImageParameters()


@dataclass(frozen=True)
class _Image:
    """Image file with the label, the identifying text and the owner of the image."""

    path: Path
    label: str
    # A hash of this text is the row number.
    identity: str
    owner: str | None = None


def outline(
    private: str | None = None,
    public: str | None = None,
    index: str | None = None,
    images: ImageParameters | Mapping[str, Any] | str = _AS_THEY_ARE,
    class_names: Sequence[str] | None = None,
) -> Outline:
    """Return the numbers of private and public images, the shape of an image and the number of owners, if known.

    Owners of public images are not counted. Only names and headers of the image files are read. Parameters and errors
    are as in `load`.
    """
    parameters = ImageParameters.read(images, "images")
    private_images, public_images, _ = _list_images(private, public, index, class_names, [])
    size, mode = _size_and_mode(private_images, public_images, parameters)
    owners = _owners(private_images)
    check_people(owners, _owners(public_images))
    people = None if owners is None else len(np.unique(owners))
    return Outline(len(private_images), len(public_images), (1 if mode == "L" else 3, *size), people)


def load(
    root: Path,
    download: bool,
    private: str | None = None,
    public: str | None = None,
    index: str | None = None,
    images: ImageParameters | Mapping[str, Any] | str = _AS_THEY_ARE,
    class_names: Sequence[str] | None = None,
) -> Dataset:
    """Return the images of two folders, or the images that an index lists.

    Parameters
    ----------
    root, download : ignored; relative paths start from the working directory.
    private, public : folders of the private and of the public images, each with one folder per class.
    index : a .csv or .tsv file with the columns path, label, part (private or public) and, if known, owner.
    images : size, resizing and background, as `ImageParameters`, a mapping or JSON text.
    class_names : the classes; by default the classes of the public images, in alphabetical order.

    Raises
    ------
    ArtefactError
        For an invalid file; one error names all unreadable images.
    PatebenchError
        If `images` is invalid. Also if a folder is missing, or if both `index` and a folder are given.
    """
    parameters, notes = ImageParameters.read(images, "images"), list[str]()
    private_images, public_images, names = _list_images(private, public, index, class_names, notes)
    _, mode = _size_and_mode(private_images, public_images, parameters)  # before any image is decoded
    pixels = np.stack(_read_each([*public_images, *private_images], lambda path: _pixels(path, mode, parameters)))
    pixels = pixels[:, None] if mode == "L" else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    public_pixels, private_pixels = pixels[: len(public_images)], pixels[len(public_images) :]
    parts: dict[str, LabelledSamples] = {}
    for role, part, x, here in (
        ("private", private_images, private_pixels, private or index),
        ("public", public_images, public_pixels, public or index),
    ):
        if lacking := [name for name in names if all(image.label != name for image in part)]:
            notes.append(f"{here}: no {role} image has {plural(len(lacking), 'class')}: {listing(lacking)}")
        labels = np.array([names.index(image.label) for image in part], np.int64)
        rows = hash_names([image.identity for image in part])
        parts[role] = LabelledSamples(x, labels, rows, _owners(part))
    notes += _note_copies(private_images, private_pixels, public_images, public_pixels)
    return Dataset(parts["private"], parts["public"], names, tuple(notes))


def unlike_others(copies: Path, private: str | None = None, **others: str) -> Iterator[tuple[str, str, Path]]:
    """Yield two changed copies of the folder `private`, to test that public outputs do not depend on private images.

    The first copy contains an additional red image in an existing class folder, the second in a new class folder.
    `patebench audit --adjacency` loads each copy and compares the public outputs with those for the original folder.

    Yields tuples (kind of change, description, path of the copy). Copies are folders of links below `copies`. If
    `private` is None, because the images are listed in an index, there are no copies. `others` are ignored.
    """
    if private is None:
        return
    from PIL import Image

    for kind, what, place in (("new colour", "", "."), ("new folder", " in a folder of its own", "../new class")):
        folder = copies / kind
        shutil.copytree(Path(private).resolve(), folder, copy_function=os.symlink)
        first = min(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
        (first.parent / place).mkdir(exist_ok=True)
        with Image.open(first) as image:
            Image.new("RGB", image.size, "red").save(first.parent / place / "red-of-audit.png")
        yield kind, f"a red image is added{what}", folder


def _list_images(
    private: str | None, public: str | None, index: str | None, class_names: Sequence[str] | None, notes: list[str]
) -> tuple[list[_Image], list[_Image], tuple[str, ...]]:
    """Return the private images, the public images and the class names, without opening any image.

    Parameters are as in `load`. A message about ignored files is added to `notes`.
    """
    if index is not None:
        if private is not None or public is not None:
            hint = "the index already lists all images; leave out 'index', or both 'private' and 'public'"
            raise PatebenchError(hint, where="index")
        private_images, public_images = _list_index(Path(index))
    elif private is None or public is None:
        hint = "the images are not specified; give both 'private' and 'public', or 'index'"
        raise PatebenchError(hint, code="missing", where="private")
    else:
        private_images, public_images = _list_folder(Path(private), notes), _list_folder(Path(public), notes)
        _check_names(Path(private), private_images)
        # Public images of different classes may have the same name.
        public_images = [replace(image, identity=f"{image.label}/{image.identity}") for image in public_images]
    names = tuple(class_names or sorted({image.label for image in public_images}))
    for image in (*public_images, *private_images):
        if image.label not in names:
            raise ArtefactError(
                image.path,
                f"the class '{image.label}' of this image is not one of the known classes ({listing(names)})",
                "remove the image, or list all classes in the key 'class_names'",
                code="undeclared-label",
            )
    return private_images, public_images, names


def _owners(images: Sequence[_Image]) -> NDArray[np.int64] | None:
    return None if images[0].owner is None else hash_names([plain_text(image.owner) for image in images])


def _list_folder(folder: Path, notes: list[str]) -> list[_Image]:
    """Return the images of `folder`, which contains one folder per class; add a message on ignored files to `notes`."""
    if not folder.is_dir():
        raise ArtefactError(
            folder,
            "this folder does not exist",
            f"give a folder that contains one folder for each class; {OWN_DATA}",
        )
    classes = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not classes:
        fix = f"create a folder for each class and put its images there; {OWN_DATA}"
        raise ArtefactError(folder, "it contains no folders", fix)
    images = [
        _Image(path, class_folder.name, path.name)
        for class_folder in classes
        for path in class_folder.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    ]
    if not images:
        raise ArtefactError(
            folder,
            "none of its folders contains an image",
            f"put images of the types {', '.join(sorted(SUFFIXES))} into one folder per class; {OWN_DATA}",
        )
    known = {image.path for image in images}
    if others := sorted(path for path in folder.rglob("*") if path not in known and not path.is_dir()):
        notes.append(
            f"{folder}: ignored {plural(len(others), 'file')} not in a class folder or not an image, such as"
            f" {others[0].name}"
        )
    return sorted(images, key=lambda image: (image.path.name, image.label))


def _check_names(folder: Path, images: Sequence[_Image]) -> None:
    """Raise ArtefactError if two of the private `images` in `folder` have the same file name.

    The file name of an image determines its position and its shard. With different file names, a changed label changes
    neither the position nor the shard of any image.
    """
    first: dict[str, _Image] = {}
    for image in images:
        if (other := first.setdefault(image.identity, image)) is not image:
            fault = f"{other.label}/{other.identity} and {image.label}/{image.identity} have the same file name"
            fix = "rename them so that each private image has a name of its own, or list all images in an 'index'"
            raise ArtefactError(folder, fault, fix, code="repeated-name")


def _list_index(index: Path) -> tuple[list[_Image], list[_Image]]:
    """Return the private and the public images that an index file lists."""
    from patebench.data.own_table import read_frame

    frame = read_frame(index, MISSING)
    columns = list(map(str, frame.columns))
    if not set(_INDEX_COLUMNS[:3]) <= set(columns) <= set(_INDEX_COLUMNS):
        fault, fix = f"its columns are {listing(columns)}", "use 'path', 'label', 'part' and, if known, 'owner'"
        raise ArtefactError(index, fault, fix, code="missing-column")

    def refuse(column: str, wrong: NDArray[np.bool_], fault: str, fix: str) -> None:
        """Raise ArtefactError if `wrong` (records,) is True for a record; the message names the first one.

        {} in the text `fault` stands for this record's value in `column`.
        """
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            raise ArtefactError(index, f"record {first + 1} {fault.format(frame[column].iloc[first])}", fix)

    for column in columns:
        no_text = np.array([not isinstance(value, str) for value in frame[column]])
        refuse(column, no_text, f"has no value in column '{column}'", "add the value")
    no_part = ~frame["part"].isin(_PARTS).to_numpy()
    refuse("part", no_part, "has the part '{}'", "use 'private' or 'public' in this column")
    refuse("path", frame["path"].duplicated().to_numpy(), "repeats the path '{}'", "remove one of the two records")
    parts: dict[str, list[_Image]] = {role: [] for role in _PARTS}
    for record in sorted(frame.to_dict("records"), key=lambda record: str(record["path"])):
        path, owner = str(record["path"]), record.get("owner")
        parts[record["part"]].append(_Image(index.parent / path, str(record["label"]), path, owner))
    for role, images in parts.items():
        if not images:
            fix = f"write '{role}' into this column for some images"
            raise ArtefactError(index, f"no image has '{role}' in the column 'part'", fix)
    return parts["private"], parts["public"]


def _size_and_mode(
    private_images: Sequence[_Image], public_images: Sequence[_Image], parameters: ImageParameters
) -> tuple[tuple[int, int], Literal["L", "RGB"]]:
    """Return the size (height, width) and the colour mode that all images get; only headers are read."""
    images = [*public_images, *private_images]
    headers = _read_each(images, _read_header)
    first, _ = headers[0]
    if parameters.size is None:
        for image, (size, _) in zip(images, headers, strict=True):
            if size != first:
                raise ArtefactError(
                    image.path,
                    f"it has {size[1]}×{size[0]} pixels, but {images[0].path} has {first[1]}×{first[0]}",
                    "resize all images: add 'images: {size: [height, width]}' to the configuration",
                    code="image-size",
                )
    # The default size is that of the first public image; the mode depends on public images only.
    return parameters.size or first, "L" if all(grey for _, grey in headers[: len(public_images)]) else "RGB"


def _read_each(images: Sequence[_Image], read: Callable[[Path], T]) -> list[T]:
    """Return `read(path)` for the path of each image; raise one ArtefactError that names all unreadable files."""
    results: list[T] = []
    faults: list[tuple[Path, str]] = []
    for image in images:
        try:
            with warnings.catch_warnings(action="ignore"):
                results.append(read(image.path))
        except Exception as fault:  # decoders raise many kinds of errors
            faults.append((image.path, str(fault) or type(fault).__name__))
    if faults:
        (path, words), *more = faults
        others = f", and neither can {listing([str(path) for path, _ in more])}" if more else ""
        raise ArtefactError(
            path, f"it cannot be read as an image ({words}){others}", "replace or remove these files", code="image"
        )
    return results


def _read_header(path: Path) -> tuple[tuple[int, int], bool]:
    """Return the size (height, width) of an image in upright position, and True if it is grey."""
    from PIL import Image

    with Image.open(path) as image:
        if image.mode.startswith(("I", "F")):
            raise ValueError("grey values have more than 8 bits; convert the image to 8 bits")
        if image.width * image.height > _PIXELS:
            raise ValueError(f"{image.width}×{image.height} pixels are more than {_PIXELS:,}; make the image smaller")
        on_its_side = image.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
        return image.size if on_its_side else image.size[::-1], image.mode in _GREY


def _pixels(path: Path, mode: str, parameters: ImageParameters) -> NDArray[np.uint8]:
    """Return the pixels (height, width[, channels]) of the image at `path`, upright, opaque and resized."""
    from PIL import Image, ImageOps

    with Image.open(path) as opened:
        image = ImageOps.exif_transpose(opened)
        if {"A", "a"} & set(image.getbands()) or "transparency" in image.info:
            behind = Image.new("RGBA", image.size, (*parameters.background, 255))
            image = Image.alpha_composite(behind, image.convert("RGBA"))
        image = image.convert("RGB")
        if parameters.size is not None:
            size, how = (parameters.size[1], parameters.size[0]), Image.Resampling.BILINEAR
            if parameters.resize == "crop":
                image = ImageOps.fit(image, size, method=how)
            elif parameters.resize == "pad":
                image = ImageOps.pad(image, size, method=how, color=parameters.background)
            else:
                image = image.resize(size, how)
        return np.asarray(image.convert(mode), dtype=np.uint8)


def _note_copies(
    private_images: Sequence[_Image],
    private_pixels: NDArray[np.uint8],
    public_images: Sequence[_Image],
    public_pixels: NDArray[np.uint8],
) -> Iterator[str]:
    """Yield messages on identical images: within the private images, within the public images, and in both parts."""
    hashes = hash_samples(private_pixels), hash_samples(public_pixels)
    for part, keys in zip((private_images, public_images), hashes, strict=True):
        counts = Counter(keys.tolist())
        if twice := [(key, image) for image, key in zip(part, keys.tolist(), strict=True) if counts[key] > 1]:
            first, second = [image for key, image in twice if key == twice[0][0]][:2]
            yield (
                f"{plural(len(twice), 'image')} are identical to another image in the same part of the data,"
                f" such as {first.path} and {second.path}; each copy counts as a record, so remove the copies"
            )
    if both := [image for image, key in zip(private_images, np.isin(*hashes), strict=True) if key]:
        yield (
            f"{plural(len(both), 'private image')} {'are' if both[1:] else 'is'} identical to a public image, such as "
            f"{both[0].path}; teachers do not use such images: remove them from the public part to protect them"
        )
