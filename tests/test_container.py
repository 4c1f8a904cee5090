"""The container's recipe: linted, and its steps tried as far as a machine without containers can."""

import os
import re
import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "envs" / "Containerfile"
BIN = Path(sys.executable).parent


def values(instruction: str) -> list[str]:
    """Return the words of each `instruction`, such as RUN, in the recipe."""
    steps = DockerfileParser(fileobj=BytesIO(RECIPE.read_bytes())).structure
    return [step["value"] for step in steps if step["instruction"] == instruction]


def test_it_is_linted() -> None:
    done = subprocess.run([BIN / "hadolint", RECIPE], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_is_copied_holds_nothing_that_is_made() -> None:
    """Docker and podman leave out what this file names: the same that git does."""
    assert os.readlink(ROOT / ".dockerignore") == ".gitignore"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return the files that `COPY . .` copies, which are those that git tracks."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target, follow_symlinks=False)
    return tmp_path


def preparations() -> list[str]:
    """Return the commands that prepare the copied files."""
    (run,) = [words for words in values("RUN") if not words.startswith("apt-get")]
    return re.split(r"\s*&&\s*", run)


@pytest.mark.slow
def test_its_steps_work_on_what_is_copied(copied: Path) -> None:
    """Set-up is what `make` does anywhere, and takes a minute: here its commands are only looked for."""
    assert preparations()[0] == "make setup"
    asked = subprocess.run(["make", "--dry-run", "setup"], cwd=copied, capture_output=True, text=True, check=True)
    assert "pip install" in asked.stdout
    assert (values("ENTRYPOINT"), values("CMD")) == (['["snakemake"]'], ['["--cores", "all"]'])
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    words = ["snakemake", "--cores", "all", "--dry-run", "--quiet"]
    planned = subprocess.run(words, cwd=copied, capture_output=True, text=True, env=environment)
    assert planned.returncode == 0, planned.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only the superuser gives files away")
def test_any_user_runs_it(copied: Path) -> None:
    """As with `--user`: somebody without a name or a home, whose folder it is not, and without special rights."""
    temporary = copied / "tmp"
    subprocess.run(["chown", "-R", "4242", copied], check=True)
    for command in preparations()[1:-1]:
        subprocess.run(command.replace(" /data", ""), shell=True, cwd=copied, check=True)
    temporary.mkdir(mode=0o1777)
    (variables,) = values("ENV")
    declared = dict(word.split("=", 1) for word in variables.replace("/tmp", str(temporary)).split())
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    environment = {**declared, "PATH": path, "TMPDIR": str(temporary), "PYTHONPATH": str(copied / "workflow")}
    as_another = ["unshare", "--user", "--map-user=12345"]
    words = [*as_another, "snakemake", "--cores", "all", "--until", "data", "--workflow-profile=none"]
    done = subprocess.run(words, cwd=copied, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert list((copied / "results").glob("digits/**/*.npz"))


def test_what_make_needs_is_installed() -> None:
    (apt,) = [words for words in values("RUN") if words.startswith("apt-get")]
    for program in ("make", "git", "python3", "python3-venv", "ca-certificates"):
        assert f" {program} " in apt
