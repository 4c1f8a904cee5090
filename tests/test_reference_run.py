"""`make reference` runs what is kept, as the page on it says, and keeps only what one clean commit made."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from patebench.config import load, validate
from patebench.core.files import read_json, write_json
from tests import reference

ROOT = Path(__file__).parents[1]
RUNS: Mapping[str, Mapping[str, Any]] = yaml.safe_load(reference.RUNS.read_text(encoding="utf-8"))
PAGE = (ROOT / reference.KEPT / "README.md").read_text(encoding="utf-8")
COMMIT = {"id": "0123abc", "dirty": False, "older_jobs": 0}
UNCLEAN: list[dict[str, Any]] = [{"dirty": True}, {"older_jobs": 3}, {"older_jobs": None}]


def test_every_kept_run_can_be_made_again() -> None:
    kept = {path.parent.name for path in (ROOT / reference.KEPT).glob("*/manifest.json")}
    assert kept == set(RUNS)
    assert kept == set(re.findall(r"^\| `([a-z0-9-]+)/` \|", PAGE, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.parametrize("config", sorted({run["config"] for run in RUNS.values()}))
def test_runs_are_made_of_experiments_that_there_are(config: str) -> None:
    content = load(ROOT / "config" / "papers" / f"{config}.yaml")
    for run in (run for run in RUNS.values() if run["config"] == config):
        assert set(run) <= {"config", "only", "seeds", "true_labels"}
        assert set(run.get("only", ())) <= set(content["experiments"])
    seeds = {seed for run in RUNS.values() if run["config"] == config for seed in run.get("seeds", ())}
    assert validate(content | {"only": (), **({"seeds": sorted(seeds)} if seeds else {})}, files=False).experiments


def test_the_page_says_what_each_is_made_of() -> None:
    for folder, run in RUNS.items():
        (row,) = re.findall(rf"^\| `{folder}/` \| (.*) \|", PAGE, re.MULTILINE)
        stated = [name for words in re.findall(r"`only=\[?([a-z0-9,-]+)\]?`", row) for name in words.split(",")]
        assert "only" not in run or stated == list(run["only"]), row


def test_the_page_says_by_which_clean_commit_each_was_made() -> None:
    commits = {}
    for folder in RUNS:
        commit = read_json(ROOT / reference.KEPT / folder / "manifest.json", "manifest")["commit"]
        assert reference.is_clean(commit), folder
        assert re.search(rf"^\| `{folder}/` \| .* \| `{commit['id'][:7]}` \|$", PAGE, re.MULTILINE), folder
        commits[folder] = commit["id"]
    one = len(set(commits.values())) == 1
    assert one == ("What is kept now is of one commit" in " ".join(PAGE.split()))


def test_a_kept_page_names_no_place_but_those_beside_it() -> None:
    pages = list((ROOT / reference.KEPT).rglob("report.html"))
    assert pages
    for page in pages:
        assert not re.search(r'(?:href|src)="(?:/|\.\./|file:)', page.read_text()), page


def test_a_run_has_a_page_of_its_own() -> None:
    words = reference.command("some-seeds", {"config": "one-vote", "only": ["mnist", "adult"], "seeds": [5, 6]})
    assert words[-4:] == ["--config", "name=some-seeds", "only=[mnist,adult]", "seeds=[5,6]"]
    assert words[words.index("--configfile") + 1] == "config/papers/one-vote.yaml"
    assert words[words.index("--cores") + 1] == "all"
    assert reference.command("x", {"config": "one-vote"}, cores="8")[1:3] == ["--cores", "8"]


def test_the_others_go_on_where_one_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, int("name=b" in words))

    monkeypatch.setattr(subprocess, "run", run)
    assert reference.run_all({name: {"config": "frontier"} for name in "abc"}) == ["b"]
    assert "[3 of 3] snakemake" in capsys.readouterr().out


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Create a finished run with one table that is too large to keep."""
    folder = tmp_path / "results" / "nzc"
    (folder / "tables").mkdir(parents=True)
    (folder / "tables" / "audit.csv").write_text("new\n", encoding="utf-8")
    (folder / "tables" / "bounds.csv").write_text("0\n" * 500_000, encoding="utf-8")
    write_json(folder / "manifest.json", "manifest", {"commit": COMMIT})
    return folder


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_of_a_new_run_the_small_tables_are_kept(made: Path, tmp_path: Path) -> None:
    assert reference.keep("nzc", tmp_path) == COMMIT["id"]
    assert files(tmp_path / reference.KEPT / "nzc") == {"manifest.json", "audit.csv"}


def test_of_another_run_the_files_that_are_kept_are_replaced_unless_one_was_not_made(
    made: Path, tmp_path: Path
) -> None:
    kept = tmp_path / reference.KEPT / "nzc" / "tables"
    kept.mkdir(parents=True)
    for name in ("audit.csv", "gone.csv"):
        (kept / name).write_text("old\n", encoding="utf-8")
    (made / "tables" / "papers.csv").write_text("not kept\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"lacks tables/gone.csv, which results/reference/nzc keeps"):
        reference.keep("nzc", tmp_path)
    assert (kept / "audit.csv").read_text(encoding="utf-8") == "old\n"
    (kept / "gone.csv").unlink()
    reference.keep("nzc", tmp_path)
    assert (kept / "audit.csv").read_text(encoding="utf-8") == "new\n"
    assert files(tmp_path / reference.KEPT / "nzc") == {"audit.csv"}


@pytest.mark.slow
def test_a_kept_run_stores_its_records_and_tables_are_made_of_them_again(tmp_path: Path) -> None:
    folder = "one-vote-adult"
    shutil.copytree(ROOT / reference.KEPT / folder, tmp_path / reference.KEPT / folder)
    page = reference.rebuild(folder, tmp_path)
    assert page.is_file()
    for kept in (ROOT / reference.KEPT / folder / "tables").glob("*.csv"):
        assert (page.parent / "tables" / kept.name).read_bytes() == kept.read_bytes()
    archive = (ROOT / reference.KEPT / folder / reference.RECORDS).read_bytes()
    reference.keep(folder, tmp_path)
    assert (tmp_path / reference.KEPT / folder / reference.RECORDS).read_bytes() == archive
    record = min((tmp_path / "results" / "adult").rglob("collected.json"))
    record.write_text("another run")
    with pytest.raises(SystemExit, match="a later run changed this record"):
        reference.keep(folder, tmp_path)
    with pytest.raises(SystemExit, match="differs from the kept record"):
        reference.rebuild(folder, tmp_path)
    assert record.read_text() == "another run"
    with pytest.raises(SystemExit, match="stores no records"):
        reference.rebuild("nzc-2020", tmp_path)


@pytest.mark.parametrize("commit", [None, *({**COMMIT, **one} for one in UNCLEAN)])
def test_what_is_not_of_one_commit_or_not_finished_is_not_kept(
    made: Path, tmp_path: Path, commit: dict[str, Any] | None
) -> None:
    write_json(made / "manifest.json", "manifest", {"commit": commit})
    with pytest.raises(SystemExit, match="did not all run at one clean commit"):
        reference.keep("nzc", tmp_path)
    (made / "manifest.json").unlink()
    with pytest.raises(SystemExit, match=r"is not finished; run `make reference RUNS=nzc`"):
        reference.keep("nzc", tmp_path)
    assert not (tmp_path / reference.KEPT).exists()
