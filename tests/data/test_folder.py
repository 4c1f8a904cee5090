"""Test a user's images: folders and indexes, sizes, rotation, transparency, copies and errors."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.refusals import refuses

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.data.dataset import Dataset
from patebench.data.folder import load


def paint(path: Path, mode: str = "L", size: tuple[int, int] = (7, 9), level: int = 50, **saved: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    colours = {"L": level, "RGB": (level, level + 1, level + 2), "RGBA": (0, 0, 0, level), "I;16": level}
    Image.new(mode, size, colours[mode]).save(path, **saved)


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    for role, count in (("private", 3), ("public", 2)):
        for label, name in enumerate(("ant", "bee")):
            for number in range(count):
                level = 100 * label + number + 50 * (role == "public")
                paint(tmp_path / role / name / f"{2 * number + label}.png", level=level)
    return {role: str(tmp_path / role) for role in ("private", "public")}


def read(folders: dict[str, Any], **more: Any) -> Dataset:
    return load(Path("."), False, **folders, **more)


def test_images_come_by_name_and_classes_are_the_public_ones(folders: dict[str, str]) -> None:
    paint(Path(folders["public"], "cat", "8.png"), level=8)
    data = read(folders)
    assert data.class_names == ("ant", "bee", "cat")
    assert data.private.x.shape == (6, 1, 9, 7)
    assert data.private.x[:, 0, 0, 0].tolist() == [0, 100, 1, 101, 2, 102]
    assert data.private.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert data.notes == (f"{folders['private']}: no private image has 1 class: cat",)


def test_a_record_keeps_its_row_when_others_come_and_go_or_its_label_changes(folders: dict[str, str]) -> None:
    """Identify the records by their painted content."""

    def rows() -> dict[int, int]:
        data = read(folders)
        assert data.private.rows is not None
        return dict(zip(data.private.x[:, 0, 0, 0].tolist(), data.private.rows.tolist(), strict=True))

    before = rows()
    paint(Path(folders["private"], "bee", "00.png"), level=200)
    more = rows()
    assert more == before | {200: more[200]}
    Path(folders["private"], "bee", "00.png").rename(Path(folders["private"], "ant", "00.png"))
    assert rows() == more
    Path(folders["private"], "ant", "0.png").unlink()
    assert rows() == {level: row for level, row in more.items() if level != 0}


def test_private_images_of_one_name_are_refused(folders: dict[str, str]) -> None:
    """With the class in a row's name, a changed label would move the image to another shard."""
    paint(Path(folders["public"], "bee", "0.png"))
    read(folders)
    paint(Path(folders["private"], "bee", "0.png"))
    with refuses("repeated-name", Path(folders["private"])):
        read(folders)


def test_one_public_colour_image_makes_all_colour(folders: dict[str, str]) -> None:
    colour = Path(folders["public"], "bee", "9.png")
    paint(colour, mode="RGB", level=200)
    data = read(folders)
    assert data.public.x[-1, :, 0, 0].tolist() == [200, 201, 202]
    assert data.private.x[2, :, 0, 0].tolist() == [1, 1, 1]
    colour.unlink()
    paint(Path(folders["private"], "bee", "1.png"), mode="RGB", level=200)
    assert read(folders).private.x.shape == (6, 1, 9, 7), "private colour images become grey"


@pytest.mark.parametrize("name", ["public/ant/9.png", "private/ant/0.png", "private/bee/1.png"])
def test_without_a_declared_size_all_have_that_of_the_first_public_image(
    folders: dict[str, str], tmp_path: Path, name: str
) -> None:
    paint(tmp_path / name, size=(8, 9))
    with refuses("image-size", tmp_path / name):
        read(folders)


@pytest.mark.parametrize("how", ["crop", "pad", "fit"])
def test_images_of_any_size_become_images_of_one(folders: dict[str, str], how: str) -> None:
    paint(Path(folders["private"], "ant", "0.png"), size=(40, 10), level=10)
    paint(Path(folders["private"], "bee", "1.png"), size=(3, 30), level=20)
    images = {"size": [12, 8], "resize": how, "background": [255, 255, 255]}
    data = read(folders, images=images)
    assert data.private.x.shape == (6, 1, 12, 8)
    corner, centre = data.private.x[0, 0, 0, 0], data.private.x[0, 0, 6, 4]
    assert (corner, centre) == ((255, 10) if how == "pad" else (10, 10))
    with pytest.raises(PatebenchError, match=r"images\.resize"):
        read(folders, images={**images, "resize": "stretch"})


def test_a_photograph_is_turned_as_its_camera_was_held(folders: dict[str, str]) -> None:
    half = np.zeros((4, 6), np.uint8)
    half[:, 3:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by a quarter, clockwise
    Image.fromarray(half).save(Path(folders["private"], "ant", "x.jpg"), exif=exif, quality=95)
    for path in (*Path(folders["private"]).rglob("*.png"), *Path(folders["public"]).rglob("*.png")):
        paint(path, size=(4, 6), level=len(path.parts) + int(path.stem))
    data = read(folders)
    turned = data.private.x[-1, 0]
    assert turned.shape == (6, 4)
    assert turned[:2].max() < 50
    assert turned[-2:].min() > 200


def test_icons_drawn_in_the_alpha_channel_are_drawn_on_the_background(folders: dict[str, str]) -> None:
    icon = np.zeros((9, 7, 4), np.uint8)
    icon[2:5, 2:5, 3] = 255
    Image.fromarray(icon).save(Path(folders["private"], "ant", "0.png"))
    for level in (255, 10):
        drawn = read(folders, images={"background": [level] * 3}).private.x[0, 0]
        assert (drawn[0, 0], drawn[3, 3]) == (level, 0)


def test_copies_are_counted_with_an_example(folders: dict[str, str]) -> None:
    copies = {"private/ant/6.png": 221, "private/ant/7.png": 222, "private/bee/8.png": 222, "private/bee/9.png": 221}
    for name, level in (copies | {"public/bee/9.png": 222}).items():
        paint(Path(folders["private"]).parent / name, level=level)
    inside, across = read(folders).notes
    assert "4 images are identical to another" in inside
    assert inside.count("6.png") == inside.count("9.png") == 1, "the examples have the same pixels"
    assert "2 private images are identical to a public image" in across


def test_all_damaged_images_are_named_at_once_and_16_bits_are_refused(folders: dict[str, str]) -> None:
    deep = Path(folders["private"], "ant", "0.png")
    sound = deep.read_bytes()
    Image.fromarray(np.full((9, 7), 40000, np.uint16)).save(deep)
    with pytest.raises(ArtefactError, match="more than 8 bits"):
        read(folders)
    deep.write_bytes(sound)
    broken = [Path(folders["private"], "bee", f"{number}.png") for number in (1, 3, 5)]
    for path in broken:
        path.write_bytes(path.read_bytes()[:40])
    with refuses("image") as caught:
        read(folders)
    assert all(str(path) in str(caught.value) for path in broken)


def test_what_fits_no_class_is_refused_or_counted(folders: dict[str, str], tmp_path: Path) -> None:
    private = Path(folders["private"])
    paint(private / "cat" / "8.png")
    with refuses("undeclared-label"):
        read(folders)
    assert read(folders, class_names=("cat", "bee", "ant")).private.y.tolist() == [2, 1, 2, 1, 2, 1, 0]
    (private / "cat" / "8.png").unlink()
    for name in ("notes.txt", "ant/a.txt", "bee/.hidden.png", "ant/more/6.png"):
        (private / name).parent.mkdir(exist_ok=True)
        (private / name).write_text("not an image, such as")
    assert read(folders).notes == (f"{private}: ignored 4 files not in a class folder or not an image, such as a.txt",)
    for given, words in (
        ({"private": str(tmp_path / "none")}, "folder does not exist"),
        ({"private": str(private / "bee")}, "contains no folders"),
        ({"private": str(tmp_path)}, "is not one of the known classes|none of its folders contains an image"),
    ):
        with pytest.raises(ArtefactError, match=words):
            read({**folders, **given})
    with pytest.raises(PatebenchError, match="or 'index'"):
        load(Path("."), False, private=str(private))


def bomb(path: Path, width: int, height: int) -> None:
    """Write a small PNG whose header states the given number of pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    content = zlib.compress(bytes(1000))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b""))


@pytest.mark.parametrize(("name", "side"), [("public/ant/0.png", 5000), ("private/bee/1.png", 60_000)])
def test_sizes_are_checked_before_anything_is_decoded(
    folders: dict[str, str], tmp_path: Path, name: str, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb(tmp_path / name, side, side)
    monkeypatch.setattr(Image.Image, "convert", lambda *given: pytest.fail("an image was decoded"))
    with refuses("image", tmp_path / name):
        read(folders)


@pytest.fixture
def index(folders: dict[str, str], tmp_path: Path) -> Path:
    lines = ["path,label,part,owner"]
    for role in folders:
        for path in sorted(Path(folders[role]).rglob("*.png")):
            lines.append(f"{path.relative_to(tmp_path)},{path.parent.name},{role},{role[:3]}-{int(path.stem) // 2}")
    file = tmp_path / "photos.csv"
    file.write_text("\n".join(lines))
    return file


def test_an_index_names_paths_labels_parts_and_owners(folders: dict[str, str], index: Path) -> None:
    data = load(Path("."), False, index=str(index))
    assert sorted(data.private.x[:, 0, 0, 0].tolist()) == sorted(read(folders).private.x[:, 0, 0, 0].tolist())
    assert data.class_names == ("ant", "bee")
    assert data.private.owners is not None
    assert len(set(data.private.owners.tolist())) == 3
    relabelled = index.read_text().replace("private/ant/0.png,ant", "private/ant/0.png,bee")
    index.write_text(relabelled)
    np.testing.assert_array_equal(load(Path("."), False, index=str(index)).private.rows, data.private.rows)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "other"), [("anna", "anna "), ("7", "7.0"), ("Jos\u00e9", "Jose\u0301")], ids=["space", "number", "accent"]
)
def test_an_owner_in_an_index_is_one_person_however_it_is_written(index: Path, text: str, other: str) -> None:
    """One person in several shards would not be protected by `hash-owners`."""
    lines = index.read_text().replace("pri-0", text).replace("pri-1", other)
    index.write_text(lines, encoding="utf-8")
    data = load(Path("."), False, index=str(index))
    assert data.private.owners is not None
    assert len(set(data.private.owners.tolist())) == 2
    index.write_text(lines.replace("pub-0", f" {other}"), encoding="utf-8")
    with pytest.raises(PatebenchError, match="both private and public records"):
        load(Path("."), False, index=str(index))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("private,pri-0", "secret,pri-0", "use 'private' or 'public'"),
        ("path,label", "file,label", "use 'path', 'label', 'part'"),
        ("private/ant/2.png", "private/ant/0.png", "repeats the path"),
        ("private/ant/2.png", "private/ant/nothing.png", "cannot be read"),
        ("private/ant/2.png,ant", "private/ant/2.png,", "no value in column 'label'"),
        ("pub-0", "pri-0", "both private and public records"),
        (",private,", ",public,", "no image has 'private' in the column 'part'"),
    ],
)
def test_a_wrong_index_is_one_line(index: Path, old: str, new: str, words: str) -> None:
    index.write_text(index.read_text().replace(old, new))
    with pytest.raises(PatebenchError, match=words):
        load(Path("."), False, index=str(index))
