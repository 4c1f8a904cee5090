"""Files for catalogues and citations exist and are correct."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import patebench

ROOT = Path(__file__).parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
CATALOGUE = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text(encoding="utf-8"))


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
    from patebench.reporting.published import read_published

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
