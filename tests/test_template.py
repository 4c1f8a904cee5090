"""The package to start from, in docs/template: as it is, installed without a network, it is a sound mechanism."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PATEBENCH = Path(sys.executable).with_name("patebench")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the template with pip into a separate folder that all later processes see."""
    folder = tmp_path_factory.mktemp("template")
    shutil.copytree(ROOT / "docs" / "template", folder / "source")
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", folder / "site", folder / "source"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    paths = [str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def ran(environment: dict[str, str], *words: object) -> str:
    done = subprocess.run([PATEBENCH, *map(str, words)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_keeps_every_promise(environment: dict[str, str]) -> None:
    said = ran(environment, "test-mechanism", "coin", "--runs", 5000)
    assert said.splitlines()[-1] == "coin chance-0.5: 10 promises, none broken"


def test_it_is_a_mechanism_as_all_others_are(environment: dict[str, str], tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", np.array([[8, 1, 1], [4, 3, 3]]))
    asked = ["--mechanism", "coin", "--chance", 0.25, "--delta", 1e-5]
    assert "Dwork & Roth 2014" in ran(environment, "epsilon", tmp_path / "counts.npy", *asked)
    tiny = (ROOT / "tests" / "workflow" / "tiny.yaml").read_text()
    (tmp_path / "tiny.yaml").write_text(tiny.replace("gnmax: {sigma: 2}", "coin: {chance: 0.25}"))
    assert "sound" in ran(environment, "config", "check", tmp_path / "tiny.yaml")
