"""Project files: changelog, hooks before a commit, templates, wheel, citation and the workflow catalogue."""

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import yaml

import patebench
from patebench.reporting.published import read_published

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
CATALOGUE = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text(encoding="utf-8"))


def test_the_changelog_begins_with_this_version() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+) – \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == patebench.__version__
    assert versions == sorted(versions, key=lambda version: [*map(int, version.split("."))], reverse=True)


def test_pre_commit_runs_what_make_lint_runs() -> None:
    (lint,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = {re.sub(r"^\$\(RUN\) ", "", line.strip()).split(" Snakefile")[0] for line in lint.splitlines()}
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entries = [hook["entry"].replace(".venv/bin/", "") for hook in hooks]
    assert [command for command in commands if not any(command.removesuffix(" .") in entry for entry in entries)] == []


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_workflows_and_issue_templates_are_sound(path: Path) -> None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.parent.name == "ISSUE_TEMPLATE":
        assert {"name", "description", "body"} <= set(content)
        assert {part["type"] for part in content["body"]} <= {"input", "textarea", "markdown"}
        assert any(part.get("validations", {}).get("required") for part in content["body"])
    else:
        targets = re.findall(r"run: make ?(\w*)", path.read_text(encoding="utf-8"))
        assert {"quick", "", "docs"} <= set(targets), "the fast tests, the digits benchmark and the site"


@pytest.mark.slow
def test_a_wheel_states_epsilon_in_an_environment_of_its_own(tmp_path: Path) -> None:
    """The wheel is built, installed where nothing of this repository is, and run; its dependencies are those here."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def run(*command: object) -> str:
        done = subprocess.run(list(map(str, command)), cwd=tmp_path, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    source = tmp_path / "source"
    shutil.copytree(ROOT / "workflow", source / "workflow", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    quiet = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    run(sys.executable, "-m", "pip", "wheel", *quiet, "--no-build-isolation", "--wheel-dir", tmp_path, source)
    (wheel,) = tmp_path.glob("patebench-*.whl")
    assert patebench.__version__ in wheel.name

    venv.create(tmp_path / "env")
    run(sys.executable, "-m", "pip", "--python", tmp_path / "env/bin/python", "install", *quiet, wheel)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    # The packages here, but not what their .pth files add, by which this repository may be installed.
    (site / "dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    where = run(tmp_path / "env/bin/python", "-c", "import patebench; print(patebench.__file__)")
    assert Path(where.strip()).is_relative_to(tmp_path)
    np.save(tmp_path / "counts.npy", np.array([[200, 50]] * 100))
    asked = ["counts.npy", "--mechanism", "gnmax", "--sigma", "50", "--delta", "1e-5", "--json"]
    assert '"accountant": "label"' in run(tmp_path / "env/bin/patebench", "epsilon", *asked)


def test_the_workflow_catalogue_finds_what_it_asks_for():
    """workflow/Snakefile, instructions in config/README.md, and how the software gets there."""
    assert 'include: "../Snakefile"' in (ROOT / "workflow" / "Snakefile").read_text(encoding="utf-8")
    assert (ROOT / "config" / "README.md").read_text(encoding="utf-8").startswith("# Configuration")
    assert set(CATALOGUE) == {"usage"}
    assert set(CATALOGUE["usage"]) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(CATALOGUE["usage"]["mandatory-flags"]) == {"desc", "flags"}
    deployed = CATALOGUE["usage"]["software-stack-deployment"]
    conda = "conda:" in (ROOT / "workflow" / "rules" / "data.smk").read_text(encoding="utf-8")
    assert deployed == {"conda": conda, "apptainer": False, "apptainer+conda": False}


def test_the_catalogue_s_readme_names_every_paper_s_source():
    text = (ROOT / "config" / "README.md").read_text(encoding="utf-8")
    papers = {value.paper for value in read_published(ROOT / "config" / "published.csv").values}
    assert [paper for paper in papers if paper.split(" (")[0] not in text] == []


def test_the_citation_says_what_the_schema_requires():
    """Citation File Format 1.2.0: its required keys, and those of authors and references."""
    assert CITATION["cff-version"] == "1.2.0"
    assert all(isinstance(CITATION[key], str) and CITATION[key] for key in ("message", "title"))
    assert CITATION["type"] == "software"
    assert CITATION["version"] == patebench.__version__
    licence = re.search(r'^license = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert licence is not None
    assert CITATION["license"] == licence[1]
    for each in (CITATION, *CITATION["references"]):
        assert all(author.keys() <= {"name", "family-names", "given-names"} for author in each["authors"])
        assert each["authors"]
    assert all({"type", "title", "authors"} <= each.keys() for each in CITATION["references"])


def test_cffconvert_validates_the_citation():
    tool = shutil.which("cffconvert")
    if tool is None:
        pytest.skip("cffconvert is not on PATH; envs/requirements-checkers.txt names it")
    done = subprocess.run([tool, "--validate"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
