"""`make clean` removes generated files, and nothing else."""

import shutil
import subprocess
from pathlib import Path

import pytest

MAKEFILE = Path(__file__).parents[1] / "Makefile"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")


def clean(folder: Path) -> str:
    command = ["make", "--silent", "-f", str(MAKEFILE), "-C", str(folder), "clean"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def write(path: Path, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(path.name)
    path.chmod(mode)
    return path


def test_clean_keeps_releases_and_says_which(tmp_path: Path) -> None:
    release = write(tmp_path / "results/mine/gnmax/sigma-40_release/labels.npz", 0o444)
    write(tmp_path / "results/mine/gnmax/sigma-40_release/bounds.json")
    assert release.name in clean(tmp_path)
    assert [path for path in (tmp_path / "results").rglob("*") if path.is_file()] == [release]
    assert release.read_text() == "labels.npz"
    assert f"kept, because it is write-protected: {release.relative_to(tmp_path)}" in clean(tmp_path), (
        "the second time too"
    )


def test_clean_removes_all_else_and_no_reference(tmp_path: Path) -> None:
    kept = [write(tmp_path / f"results/reference/{name}") for name in ("README.md", "pate-2017/manifest.json")]
    kept += [write(tmp_path / "results/ledger/ab.json")]  # what was released: nothing else knows it
    kept += [write(tmp_path / "config/config.yaml"), write(tmp_path / "data/mine.npz")]
    for name in ("report.html", "digits/seed-0/votes.npz", "a folder/with spaces.json", ".hidden"):
        write(tmp_path / "results" / name)
    write(tmp_path / "results/group-writable.npz", 0o464)
    write(tmp_path / ".snakemake/metadata/notes")
    (tmp_path / "results/empty/folder").mkdir(parents=True)
    (tmp_path / "results/link").symlink_to(kept[-1])
    assert [clean(tmp_path) for _ in range(2)] == ["", ""]
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["ledger", "reference"]
