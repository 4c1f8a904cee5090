"""One GPU for each job of a machine: claims are exclusive, and end with the process."""

import subprocess
import sys
from pathlib import Path

from patebench.models.device import claim, device

CLAIM = "import sys; from pathlib import Path; from patebench.models.device import claim; {then}"


def test_without_a_gpu_the_cpu_computes() -> None:
    import torch

    assert device().type == ("cuda" if torch.cuda.is_available() else "cpu")


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
