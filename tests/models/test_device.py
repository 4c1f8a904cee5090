"""Test that jobs claim different GPUs until they end, and which networks use reduced precision."""

import ctypes
import errno
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from patebench.core.errors import PatebenchError
from patebench.models.architectures import mlp, small_cnn
from patebench.models.device import (
    SWITCH,
    claim,
    compute_dtype,
    compute_dtype_for,
    keep_freed_memory,
    release,
)
from patebench.models.recipes import MODERN, PAPER


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    """Release all GPUs before and after every test."""
    release()
    yield
    release()


CLAIM = "import sys; from pathlib import Path; from patebench.models.device import claim; {then}"


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


#: Claims as two users at once, and as a third one after the first has ended; none has special rights.
USERS = """
import os, sys
from pathlib import Path
from patebench.models.device import claim

def start(number):
    end, held = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end[1])
        os.umask(0o077)
        os.setgroups([])
        os.setgid(number)
        os.setuid(number)
        os.write(held[1], str(claim(["GPU-a", "GPU-b"], Path(sys.argv[1]))).encode())
        os.read(end[0], 1)
        os._exit(0)
    os.close(held[1])
    print(os.read(held[0], 9).decode(), flush=True)
    return lambda: (os.write(end[1], b"."), os.waitpid(child, 0))

stop = start(12345)
start(12346)
stop()
start(12347)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can act as two users")
def test_users_take_different_gpus() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        words = [sys.executable, "-c", USERS, folder]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1", "0"], done.stderr


def test_what_is_no_lock_file_counts_as_held(tmp_path: Path) -> None:
    """Whoever may write to the temporary folder can put anything there, under any name."""
    target = tmp_path / "of-somebody-else"
    (tmp_path / "patebench-gpu-GPU-a.lock").symlink_to(target)
    (tmp_path / "patebench-gpu-GPU-b.lock").mkdir()
    os.mkfifo(tmp_path / "patebench-gpu-GPU-c.lock")
    assert claim(["GPU-a", "GPU-b", "GPU-c", "GPU-d"], tmp_path) == 3
    assert not target.exists()


def raising(error: OSError) -> Callable[..., str]:
    def call(*_: object) -> str:
        raise error

    return call


def test_without_locks_or_a_temporary_folder_gpus_are_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", raising(OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
        assert claim(["GPU-a"], tmp_path) is None
    nowhere = FileNotFoundError(errno.ENOENT, "No usable temporary directory found")
    monkeypatch.setattr(tempfile, "gettempdir", raising(nowhere))
    assert claim(["GPU-a"]) is None


CPU = torch.device("cpu")


def set_processor(monkeypatch: pytest.MonkeyPatch, *, supported: bool, **instructions: bool) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: supported)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_f": True, **instructions}, raising=False)


def test_reduced_precision_is_for_large_networks_and_processors_that_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    set_processor(monkeypatch, supported=True, avx512_bf16=True, amx_bf16=False)
    monkeypatch.delenv(SWITCH, raising=False)
    assert compute_dtype_for(small_cnn((1, 28, 28), 10), (1, 28, 28), MODERN, CPU) is torch.bfloat16
    assert compute_dtype_for(small_cnn((1, 28, 28), 10), (1, 28, 28), PAPER, CPU) is torch.float32
    assert compute_dtype_for(small_cnn((1, 8, 8), 10), (1, 8, 8), MODERN, CPU) is torch.float32
    assert compute_dtype_for(mlp((30,), 2), (30,), MODERN, CPU) is torch.float32
    assert compute_dtype(CPU) is torch.bfloat16
    monkeypatch.setenv(SWITCH, "single")
    assert compute_dtype(CPU) is torch.float32
    monkeypatch.setenv(SWITCH, "double")
    with pytest.raises(PatebenchError, match=f"{SWITCH} is 'double'; set it to 'single'"):
        compute_dtype(CPU)
    monkeypatch.delenv(SWITCH)
    set_processor(monkeypatch, supported=False, amx_bf16=True)
    assert compute_dtype(CPU) is torch.float32
    set_processor(monkeypatch, supported=True, avx512_bf16=False, amx_bf16=False)  # emulated
    assert compute_dtype(CPU) is torch.float32
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # older versions of torch cannot tell
    assert compute_dtype(CPU) is torch.bfloat16
