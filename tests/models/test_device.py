"""One GPU for each job of a machine: claims are exclusive, and end with the process."""

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from patebench.models.device import claim, device, keep_freed_memory, release


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    """Every test starts and ends without a claim."""
    release()
    yield
    release()


CLAIM = "import sys; from pathlib import Path; from patebench.models.device import claim; {then}"


def test_without_a_gpu_the_cpu_computes() -> None:
    import torch

    assert device().type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_memory_is_kept_where_the_c_library_can(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    library = SimpleNamespace(mallopt=lambda what, value: asked.append((what, value)))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    keep_freed_memory()
    assert asked == [(-3, 1 << 25), (-1, 1 << 29)], "glibc's M_MMAP_THRESHOLD, at its largest, and M_TRIM_THRESHOLD"
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    keep_freed_memory()


@pytest.mark.slow
def test_jobs_side_by_side_take_different_gpus(tmp_path: Path) -> None:
    names = ["GPU-a", "GPU-b"]
    then = f"print(claim({names}, Path({str(tmp_path)!r})), flush=True); sys.stdin.read()"
    first = subprocess.Popen(
        [sys.executable, "-c", CLAIM.format(then=then)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert first.stdout is not None
    assert first.stdout.readline().strip() == "0"
    assert claim(names, tmp_path) == 1
    assert claim(names, tmp_path) is None
    first.kill()
    first.communicate()
    assert claim(names, tmp_path) == 0, "a killed job's GPU is free again"


def test_released_gpus_are_free_again(tmp_path: Path) -> None:
    assert [claim(["GPU-a", "GPU-b"], tmp_path) for _ in range(3)] == [0, 1, None]
    release()
    assert claim(["GPU-a", "GPU-b"], tmp_path) == 0
