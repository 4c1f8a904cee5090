"""The command line: one line for a fault, status 2, nothing left behind."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from patebench.cli import cli
from patebench.core.files import write_arrays
from patebench.core.formats import VOTES

PATEBENCH = Path(sys.executable).with_name("patebench")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PATEBENCH, *map(str, words)], capture_output=True, text=True, check=False)


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    facts = {"partition": "p", "pool": "q", "test": "t", "classes": 3, "model": "m", "recipe": "r", "chunks": []}
    arrays = {name: rng.integers(0, 3, (20, 30)).astype(np.uint8) for name in ("votes", "test_votes")}
    write_arrays(tmp_path / "votes.npz", VOTES, arrays, facts)
    return tmp_path / "votes.npz"


def test_every_command_explains_itself() -> None:
    for name, command in cli.commands.items():
        said = CliRunner().invoke(cli, [name, "--help"])
        assert said.exit_code == 0
        assert command.help
        assert f"Usage: cli {name}" in said.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mechanism", "lnmx", "--parameter", "gamma=1"], "unknown mechanism 'lnmx' (did you mean 'lnmax'?)"),
        (["--mechanism", "lnmax", "--parameter", "sigma=1"], "sigma"),
        (["--mechanism", "lnmax", "--parameter", "gamma=-1"], "gamma"),
        (["--mechanism", "gnmax", "--parameter", "sigma=nan"], "sigma"),
    ],
)
def test_a_fault_is_one_line_and_leaves_nothing(votes: Path, words: list[str], message: str) -> None:
    out = votes.with_name("labels.npz")
    log = votes.with_name("log")
    done = run("aggregate", "--votes", votes, *words, "--seed", 0, "--stream", "s", "--out", out, "--log", log)
    assert done.returncode == 2
    assert done.stderr.startswith("patebench: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()
    assert message in log.read_text(), "the log must hold the fault too"


@pytest.mark.parametrize("words", [["--parameter", "gamma"], ["--parameter", "gamma=much"], ["--seed", "-1"]])
def test_malformed_options_are_refused_by_name(votes: Path, words: list[str]) -> None:
    done = run("aggregate", "--votes", votes, "--mechanism", "lnmax", *words, "--stream", "s", "--out", "x")
    assert done.returncode == 2
    assert f"Invalid value for '{words[0]}'" in done.stderr


def test_a_full_disk_or_a_forbidden_folder_is_one_line(votes: Path) -> None:
    done = run(
        "aggregate", "--votes", votes, "--mechanism", "lnmax", "--parameter", "gamma=1", "--seed", 0, "--stream", "s",
        "--out", "/proc/nowhere/labels.npz",
    )  # fmt: skip
    assert done.returncode == 2
    assert "/proc/nowhere" in done.stderr
    assert done.stderr.count("\n") == 1


def test_bounds_from_the_command_line(votes: Path) -> None:
    out = votes.with_name("bounds.json")
    done = run(
        "account", "--votes", votes, "--mechanism", "gnmax", "--parameter", "sigma=4", "--queries", 10, "--queries", 30,
        "--delta", 1e-5, "--seed", 0, "--stream", "s", "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    bounds = json.loads(out.read_text())["bounds"]
    assert {bound["queries"] for bound in bounds} == {10, 30}


def test_config_check_says_what_a_configuration_makes(tmp_path: Path) -> None:
    config = Path(__file__).parent / "workflow" / "tiny.yaml"
    assert "teach 2" in run("config", "check", config).stdout
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(config.read_text().replace("logistic", "logistik", 1))
    done = run("config", "check", wrong)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "did you mean 'logistic'?" in done.stderr
