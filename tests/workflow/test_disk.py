"""Test the workflow on a full disk, and in a folder whose files are removed."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workflow.conftest import Make, Settings

pytestmark = pytest.mark.workflow


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 64 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_stops_the_run_and_with_more_space_it_goes_on(
    workflow: Make, tiny: Settings, small_disk: Path
) -> None:
    tiny["results"] = str(small_disk)
    run = workflow(tiny)
    status, said = run.attempt("--until", "split")
    assert status != 0
    assert "private.npz: it cannot be written (No space left on device); free space and run the same command" in said
    assert "Traceback" not in said
    assert not [path for path in small_disk.rglob("*") if path.suffix in (".npz", ".tmp")]
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    run.run("--until", "split", "--rerun-incomplete")
    assert (small_disk / "digits" / "seed-0_pool-100" / "test.npz").exists()


#: Code that Python runs first: it removes the first partition that is written, like a node that loses its folder.
LOSING = """
import os

replace = os.replace


def losing(source, target, **rest):
    if str(target).endswith("partition.npz") and not os.path.exists({mark!r}):
        open({mark!r}, "w").close()
        os.unlink(source)
    else:
        replace(source, target, **rest)


os.replace = losing
"""


def test_an_output_that_does_not_appear_fails_its_job_which_is_tried_again(
    workflow: Make, tiny: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "sitecustomize.py").write_text(LOSING.format(mark=str(tmp_path / "lost")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "early"), prepend=os.pathsep)
    run = workflow(tiny)
    said = run.run("--until", "partition", "--retries", "1", "--latency-wait", "1")
    assert "some output files are missing. Missing files after 1 seconds" in said
    assert "Trying to restart job" in said
    assert (tmp_path / "lost").exists()
    assert run.find("**/partition.npz").exists()
