"""Run Snakemake on a copy of the workflow, so that each test has its own results, locks and logs."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from patebench.core.files import read_arrays
from patebench.core.formats import VOTES

REPOSITORY = Path(__file__).parents[2]
TINY = Path(__file__).with_name("tiny.yaml")
WHOLE = Path(__file__).with_name("whole.yaml")

Settings = dict[str, Any]

#: Time limit in seconds of a run that needs one minute on an idle machine.
PATIENCE = 1200


class Workflow:
    """Copy of the workflow in a folder, with one configuration, `settings`."""

    #: Options that set where jobs run.
    where: tuple[str, ...] = ("--cores", "2")

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        shutil.copy(REPOSITORY / "Snakefile", folder)
        for part in ("config", "report", "envs", "profiles", "workflow/rules", "workflow/profiles"):
            shutil.copytree(REPOSITORY / part, folder / part)
        self.settings = settings

    @classmethod
    def copied(cls, finished: Path, folder: Path) -> "Workflow":
        """Return a copy of a finished tiny benchmark, with Snakemake's metadata and times."""
        made = object.__new__(cls)
        made.folder, made.settings = shutil.copytree(finished, folder), yaml.safe_load(TINY.read_text())
        return made

    def command(self, *arguments: str) -> list[str]:
        (self.folder / "test.yaml").write_text(yaml.safe_dump(self.settings, sort_keys=False))
        return [sys.executable, "-m", "snakemake", "--configfile", "test.yaml", *self.where, *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start Snakemake in a separate process group."""
        return subprocess.Popen(
            self.command(*arguments), cwd=self.folder, env=environment(), start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, *arguments: str) -> str:
        """Return the output of a Snakemake call that must succeed."""
        status, said = self.attempt(*arguments)
        assert status == 0, said
        return said

    def attempt(self, *arguments: str) -> tuple[int, str]:
        return self.end(self.start(*arguments))

    def end(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """Return exit status and output of Snakemake; kill it and fail the test if it takes too long."""
        try:
            said, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            pytest.fail(f"snakemake was not done after {PATIENCE} s; it said:\n{process.communicate()[0]}")
        return process.returncode, said

    def planned(self, *arguments: str) -> set[str]:
        """Return the rules that a dry run would run."""
        return rules_of(self.run(*arguments, "--dry-run", "--quiet", "host"))

    def tables(self) -> dict[str, bytes]:
        files = sorted((self.folder / "results" / "tables").iterdir())
        return {file.name: file.read_bytes() for file in files}

    def votes(self) -> list[list[int]]:
        """Return the votes (teachers, queries) in the only file of votes below the results."""
        rows: list[list[int]] = read_arrays(self.find("**/votes.npz"), VOTES)["votes"].tolist()
        return rows

    def find(self, pattern: str) -> Path:
        """Return the only file below the results that matches the glob `pattern`."""
        (found,) = (self.folder / "results").glob(pattern)
        return found


Make = Callable[[Settings], Workflow]


def rules_of(said: str) -> set[str]:
    """Return the rules that the output of a dry run lists."""
    if "Nothing to be done" in said:
        return set()
    stats = said.split("Job stats:")[1].split("total")[0]
    return {line.split()[0] for line in stats.splitlines()[3:] if line.strip()}


def environment() -> dict[str, str]:
    """Return the environment of a fresh terminal: without this environment's commands and without colours."""
    return {**os.environ, "PATH": "/usr/local/bin:/usr/bin:/bin", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


@pytest.fixture
def tiny() -> Settings:
    settings: Settings = yaml.safe_load(TINY.read_text())
    return settings


@pytest.fixture
def workflow(tmp_path: Path) -> Make:
    """Return a function that makes a working copy from settings; a second copy is next to the first."""

    def make(settings: Settings) -> Workflow:
        folder = tmp_path / f"copy-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return Workflow(folder, settings)

    return make


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """Run the tiny benchmark once for all test processes; tests copy it before they change anything.

    Each process has its own copy, because Snakemake locks the folder in which it plans or reports. The run has /proc as
    home folder, in which not even root can write.
    """
    own = tmp_path_factory.getbasetemp()
    together = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    ready = together / "finished-workflow"
    with (together / "finished-workflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            made = Workflow(tmp_path_factory.mktemp("made"), yaml.safe_load(TINY.read_text()))
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HOME", "/proc/no-home")
                for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR"):
                    patch.delenv(name, raising=False)
                made.run()
            made.folder.rename(ready)
    return Workflow.copied(ready, tmp_path_factory.mktemp("finished") / "copy")


@pytest.fixture
def copy(finished: Workflow, tmp_path: Path) -> Workflow:
    """Return a copy of the finished benchmark, with Snakemake's metadata and times."""
    return Workflow.copied(finished.folder, tmp_path / "copy")
