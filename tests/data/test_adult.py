"""Test UCI Adult: encoding of rows, and one-line errors for missing, damaged or incomplete files."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from patebench.core.errors import PatebenchError
from patebench.data import adult, known_outline
from patebench.data.dataset import Outline

PRIVATE = [
    "39, Private, 77516, Bachelors, 13, Never-married, Sales, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K",
    "54, ?, 180211, Some-college, 10, Divorced, ?, Husband, Other, Female, 0, 1902, 60, ?, >50K",
]
#: The test file begins with a comment, ends its classes with a point, and closes with an empty line.
PUBLIC = ["|1x3 Cross validator", PRIVATE[1] + ".", PRIVATE[0] + ".", PRIVATE[0] + ".", ""]


def write(folder: Path, monkeypatch: pytest.MonkeyPatch, private: list[str] = PRIVATE) -> Path:
    """Write files with the right layout, which pass for the published ones."""
    folder.mkdir(parents=True)
    digests = {}
    for name, lines in (("adult.data", private), ("adult.test", PUBLIC)):
        (folder / name).write_text("\n".join(lines) + "\n")
        digests[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    monkeypatch.setattr(adult, "SOURCE", replace(adult.SOURCE, files=digests))
    return folder


def test_numbers_stay_and_each_word_is_a_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "adult", monkeypatch)
    data = adult.load(tmp_path, download=False)
    assert data.private.x.shape == (2, adult.FEATURES) == (2, 88)
    assert data.public.x.shape == (3, 88)
    assert (data.private.y.tolist(), data.public.y.tolist()) == ([0, 1], [1, 0, 0])
    first, unknown = data.private.x
    assert [first[place] for place in (0, 9, 44, 45, 46)] == [39, 13, 2174, 0, 40], "age, education, gain, loss, hours"
    words = np.delete(first, [0, 9, 44, 45, 46])
    assert set(words.tolist()) == {0, 1}
    assert words.sum() == 7, "one word of each of seven columns"
    assert np.delete(unknown, [0, 9, 44, 45, 46]).sum() == 4, "three words are not known"
    np.testing.assert_array_equal(data.public.x[1], first)


def test_another_word_or_another_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "adult", monkeypatch, [PRIVATE[0].replace("White", "Green")])
    with pytest.raises(PatebenchError, match=r"'adult' in .* is damaged \('Green' is not a value of race\)"):
        adult.load(tmp_path, download=False)
    for line, words in ((PRIVATE[0], r"damaged \(the MD5 of adult.data is wrong"), ("39, State-gov", "is damaged")):
        (folder / "adult.data").write_text(line + "\n")
        with pytest.raises(PatebenchError, match=words):
            adult.load(tmp_path, download=False)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder whose files replace the download address of Adult."""
    folder = write(tmp_path / "server", monkeypatch)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)) as serving:
        Thread(target=serving.serve_forever, daemon=True).start()
        monkeypatch.setattr(adult, "URL", f"http://127.0.0.1:{serving.server_port}/")
        yield folder
        serving.shutdown()


@pytest.mark.slow
def test_what_is_missing_is_fetched_and_checked(tmp_path: Path, server: Path) -> None:
    with pytest.raises(PatebenchError, match=r"put adult.data, adult.test into .*adult, or allow the download"):
        adult.load(tmp_path, download=False)
    assert len(adult.load(tmp_path, download=True).public.x) == 3
    assert sorted(path.name for path in (tmp_path / "adult").iterdir()) == ["adult.data", "adult.test"]
    (server / "adult.test").write_text("half of")
    (tmp_path / "adult" / "adult.test").unlink()
    with pytest.raises(PatebenchError, match=r"the download failed: .*; put adult.test into"):
        adult.load(tmp_path, download=True)
    assert [path.name for path in (tmp_path / "adult").iterdir()] == ["adult.data"]


def test_the_published_files_if_present(data_root: Path) -> None:
    if adult.SOURCE.missing(data_root):
        pytest.skip("UCI Adult is not under the data root")
    data = adult.load(data_root, download=False)
    assert np.bincount(data.private.y).tolist() == [24_720, 7_841]
    assert np.bincount(data.public.y).tolist() == [12_435, 3_846]
    assert Outline.of(data) == known_outline("adult")
