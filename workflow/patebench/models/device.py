"""Choice of the device on which a process trains, and of the precision of networks.

The device is a GPU, if possible one that no other process on this machine has claimed, or else the CPU. All training
code gets it from `device()`, so a process never uses a second GPU. Networks compute in bfloat16 (autocast) if the
device does so natively, and otherwise in single precision.
"""

import ctypes
import fcntl
import logging
import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.models.recipes import Recipe

log = logging.getLogger("patebench")

#: Descriptors of the lock files of this process; a lock ends when `release` or the end of the process closes its file.
_held: list[int] = []

#: glibc's parameters of `mallopt`: the free memory above which it returns memory to the kernel, and the size above
#: which it takes blocks directly from the kernel.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


@cache
def device() -> torch.device:
    """Return the device of this process: a GPU if the machine has one, else the CPU.

    The result is the first GPU that no other process has claimed. If all GPUs are claimed, this process shares one. If
    the result is the CPU, allocation of memory is also made faster (see `keep_freed_memory`).
    """
    if not torch.cuda.is_available():
        keep_freed_memory()
        return torch.device("cpu")
    gpu_names = [str(torch.cuda.get_device_properties(i).uuid) for i in range(torch.cuda.device_count())]
    index = claim(gpu_names)
    if index is None:
        index = os.getpid() % len(gpu_names)
        log.info("no GPU is free; sharing GPU %d (--resources gpu=%d prevents sharing)", index, len(gpu_names))
    return torch.device("cuda", index)


def claim(gpu_names: Sequence[str], folder: Path | None = None) -> int | None:
    """Claim the first free GPU of `gpu_names`, and return its position; return None if other processes claim all GPUs.

    A claim is a lock on a file in `folder`, by default the temporary folder. It lasts until `release`, or until the
    process ends. A GPU whose lock file cannot be opened or locked counts as claimed.
    """
    for index, name in enumerate(gpu_names):
        with suppress(OSError):
            _held.append(_lock((folder or Path(tempfile.gettempdir())) / f"patebench-gpu-{name}.lock"))
            return index
    return None


def _lock(path: Path) -> int:
    """Lock the file `path`, which may belong to another user; return its descriptor, or raise OSError."""
    # All users may write to the temporary folder, so links are not followed, and the file is opened only for reading.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        lock = os.open(path, flags)
    except FileNotFoundError:
        lock = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444)
    try:
        status = os.fstat(lock)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:  # a hard link could be any file of this user
            raise OSError(f"{path} is not a lock file")
        if os.fstat(lock).st_uid == os.geteuid():
            os.fchmod(lock, 0o444)  # regardless of the umask, so that other users can open it
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def release() -> None:
    """Release all GPUs that this process has claimed, and let the next call of `device` choose again."""
    while _held:
        os.close(_held.pop())
    device.cache_clear()


def keep_freed_memory() -> None:
    """Make glibc reuse freed memory instead of returning the memory to the kernel.

    Predictions of small networks then take a third less time, because the kernel fills all memory that it provides with
    zeros. On systems without glibc, this function does nothing.
    """
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    if change is not None:
        change(_MMAP_THRESHOLD, 32 << 20)
        change(_TRIM_THRESHOLD, 512 << 20)


#: Environment variable; the value "single" turns autocast off for the whole process.
SWITCH = "PATEBENCH_PRECISION"

#: Minimum number of multiplications per sample of networks that use bfloat16; in smaller ones, conversions take longer
#: than bfloat16 saves.
_WORTH_IT = 1_000_000


def autocast(device: torch.device, dtype: torch.dtype | None = None) -> AbstractContextManager[object]:
    """Return a context in which matrix products and convolutions on `device` run in `dtype`.

    `dtype` is bfloat16 or float32; by default, it is `compute_dtype(device)`.
    """
    return torch.autocast(device.type, torch.bfloat16, enabled=(dtype or compute_dtype(device)) is torch.bfloat16)


def compute_dtype(device: torch.device) -> torch.dtype:
    """Return bfloat16 if `device` computes it natively and the environment allows it, else float32.

    On processors with AVX512-BF16 or AMX, bfloat16 is twice as fast as float32; other processors emulate it. The
    environment variable PATEBENCH_PRECISION is "reduced" (the default) or "single", which forbids bfloat16. Raises
    PatebenchError for another value.
    """
    allowed = os.environ.get(SWITCH, "reduced")
    if allowed not in ("reduced", "single"):
        raise PatebenchError(
            f"the environment variable {SWITCH} is '{allowed}'; set it to 'single' or 'reduced', or unset it"
        )
    native = device.type == "cuda" or _has_bfloat16()
    return torch.bfloat16 if native and allowed == "reduced" else torch.float32


def _has_bfloat16() -> bool:
    """Return True if the processor has instructions for bfloat16, as far as torch can tell.

    oneDNN also supports bfloat16 on processors that emulate it, where teachers take 2.8 times as long as in float32.
    """
    supported = bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    if not hasattr(torch.cpu, "get_capabilities"):  # older versions of torch
        return supported
    capabilities = torch.cpu.get_capabilities()
    return supported and any(has for name, has in capabilities.items() if name.endswith("bf16"))


def compute_dtype_for(net: nn.Module, shape: tuple[int, ...], recipe: Recipe, device: torch.device) -> torch.dtype:
    """Return the dtype in which `net` will compute on `device`: bfloat16 or float32.

    The result is float32 if `recipe.precision` is not "reduced", or if `net` is so small that bfloat16 saves no time.
    Otherwise, it is `compute_dtype(device)`.

    To count the multiplications of `net`, this function runs `net` on the CPU, on one sample of this `shape`. So call
    this function before you move `net` to `device`.
    """
    worth_it = recipe.precision == "reduced" and _count_multiplications(net, shape) >= _WORTH_IT
    return compute_dtype(device) if worth_it else torch.float32


def _count_multiplications(net: nn.Module, shape: tuple[int, ...]) -> int:
    """Count the multiplications for one sample in the linear and convolutional layers of `net`."""
    # torch.utils.flop_counter would import torch's compiler, which takes seconds.
    counts = []

    def count(layer: nn.Linear | nn.modules.conv._ConvNd, _: object, out: Tensor) -> None:
        counts.append(out.numel() * layer.weight[0].numel())

    layers = [layer for layer in net.modules() if isinstance(layer, nn.Linear | nn.modules.conv._ConvNd)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    with torch.no_grad():
        net.eval()(torch.zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return sum(counts)
