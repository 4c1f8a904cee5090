"""Test the crate of a run: its content by hand and with the validator of RO-Crates."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from patebench.core.errors import PatebenchError
from patebench.core.files import read_json, write_json
from patebench.stages import crate

ROOT = Path(__file__).parents[2]
RUN = ROOT / "results" / "reference" / "one-vote-graph-table"

rocrate = pytest.importorskip("rocrate", reason="rocrate is pinned in envs/requirements.txt, and not installed here")


def exported_votes(folder: Path) -> Path:
    """Write a stand-in for a folder of exported votes."""
    folder.mkdir()
    (folder / "votes.npz").write_bytes(b"votes")
    listed = [{"name": "votes.npz", "sha256": hashlib.sha256(b"votes").hexdigest()}]
    (folder / "croissant.json").write_text(json.dumps({"distribution": listed}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pack a kept run with a leaderboard and exported votes, beside a table and a figure of an earlier run."""
    folder = tmp_path_factory.mktemp("crate")
    shutil.copytree(RUN, folder / "run", ignore=shutil.ignore_patterns("records*"))
    for name in ("tables/audit.csv", "figures/audit.png"):
        (folder / "run" / name).parent.mkdir(exist_ok=True)
        (folder / "run" / name).touch()
    (folder / "board" / "entries").mkdir(parents=True)
    for name in ("index.md", "entries/one.json", "notes.txt"):
        (folder / "board" / name).write_text("{}")
    beside = {"leaderboard": folder / "board", "votes": [exported_votes(folder / "digits")]}
    crate.run(results=folder / "run", out=folder / "packed", home=ROOT, **beside)
    return folder / "packed"


@pytest.fixture(scope="module")
def entities(packed: Path) -> dict[str, dict]:
    graph = json.loads((packed / "ro-crate-metadata.json").read_text(encoding="utf-8"))["@graph"]
    assert len({each["@id"] for each in graph}) == len(graph)
    return {each["@id"]: each for each in graph}


def _linked(value: object) -> set[str]:
    return {each["@id"] for each in (value if isinstance(value, list) else [value])}


def test_it_follows_the_profiles_of_workflow_runs(entities) -> None:
    wanted = {"https://w3id.org/ro/wfrun/process/0.5", "https://w3id.org/ro/wfrun/workflow/0.5"}
    assert _linked(entities["./"]["conformsTo"]) > wanted
    assert entities["./"]["mainEntity"] == {"@id": "Snakefile"}
    assert "ComputationalWorkflow" in entities["Snakefile"]["@type"]


def test_the_run_says_what_went_in_and_what_came_out(entities, packed) -> None:
    run, manifest = entities["#run"], read_json(RUN / "manifest.json", "manifest")
    assert (run["@type"], run["instrument"]) == ("CreateAction", {"@id": "Snakefile"})
    assert (run["startTime"], run["endTime"]) == (manifest["started"], manifest["finished"])
    assert _linked(run["object"]) == {"configuration.json", "config/published.csv"}
    assert {"report.html", "manifest.json", "tables/bits.csv"} <= _linked(run["result"])
    for name in _linked(run["object"]) | _linked(run["result"]):
        assert entities[name]["exampleOfWork"]["@id"] in entities
        assert int(entities[name].get("contentSize", (packed / name).stat().st_size)) == (packed / name).stat().st_size
    assert json.loads((packed / "configuration.json").read_text(encoding="utf-8")) == manifest["config"]


def test_every_file_is_described_and_every_described_file_is_there(entities, packed) -> None:
    described = {name for name, each in entities.items() if "File" in each["@type"]} - {"ro-crate-metadata.json"}
    there = {path.relative_to(packed).as_posix() for path in packed.rglob("*") if path.is_file()}
    assert described == there - {"ro-crate-metadata.json"}
    tables = {path.relative_to(RUN).as_posix() for path in (RUN / "tables").iterdir()}
    assert {name for name in there if name.startswith(("tables/", "figures/"))} == tables, "none of an earlier run"
    beside = {name for name in there if name.startswith(("leaderboard/", "votes/"))}
    votes = {f"votes/digits/{name}" for name in ("votes.npz", "croissant.json")}
    assert beside == {"leaderboard/index.md", "leaderboard/entries/one.json"} | votes
    assert [name for name in there if name.endswith(".npz")] == ["votes/digits/votes.npz"], "no labels or private data"


def test_what_can_not_be_packed_leaves_nothing(tmp_path: Path) -> None:
    manifest = read_json(RUN / "manifest.json", "manifest")
    runs = {"empty": {}, "part": manifest, "release": manifest | {"labels": {"labels.npz": "release"}}}
    for name, content in runs.items():
        write_json(tmp_path / name / "manifest.json", "manifest", content)
    more = exported_votes(tmp_path / "more")
    (more / "private.npz").write_bytes(b"records")
    for changes, fault in (
        ({"results": tmp_path / "empty"}, "it lacks 'config'"),
        ({"results": tmp_path / "part"}, r"contains no report\.html"),
        ({"results": tmp_path / "release"}, "release mode"),
        ({"out": tmp_path / "part"}, "already exists"),
        ({"home": tmp_path}, "Snakefile does not exist"),
        ({"leaderboard": tmp_path / "part"}, "contains no leaderboard"),
        ({"votes": [tmp_path / "part"]}, r"its files differ from those that croissant\.json lists"),
        ({"votes": [more]}, r"its files differ from those that croissant\.json lists"),
    ):
        with pytest.raises(PatebenchError, match=fault):
            crate.run(**{"results": RUN, "out": tmp_path / "out", "home": ROOT, **changes})
    assert {path.name for path in tmp_path.iterdir()} == {*runs, "more"}


#: Differences between the context of RO-Crate 1.1 and that of 1.3, which the library contains.
TERMS = {
    "ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow",
    "FormalParameter": "https://bioschemas.org/FormalParameter",
    "input": "https://bioschemas.org/ComputationalWorkflow#input",
    "output": "https://bioschemas.org/ComputationalWorkflow#output",
}
#: Replaces the context on the web by that of the library, because tests use no network.
CACHE = """
import sys, requests, requests_cache, urllib3
name, url, path = sys.argv[1:]
session = requests_cache.CachedSession(cache_name=name, expire_after=-1, backend="sqlite")
answer = requests.Response()
answer.status_code, answer.url, answer.reason, answer._content = 200, url, "OK", open(path, "rb").read()
answer.headers["Content-Type"], answer.request = "application/ld+json", requests.Request("GET", url).prepare()
answer.raw = urllib3.HTTPResponse(body=b"", status=200, preload_content=False)
session.cache.save_response(answer, cache_key=session.cache.create_key(answer.request))
"""


@pytest.mark.slow
def test_the_validator_finds_nothing_that_is_required_amiss(packed, tmp_path) -> None:
    validator = shutil.which("rocrate-validator")
    if validator is None:
        pytest.skip("rocrate-validator is not on PATH; envs/requirements-checkers.txt names it")
    context, cache = tmp_path / "context.jsonld", tmp_path / "cache"
    library = json.loads((Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_text(encoding="utf-8"))
    context.write_text(json.dumps({"@context": library["@context"] | TERMS}), encoding="utf-8")
    url = "https://w3id.org/ro/crate/1.1/context"
    subprocess.run([Path(validator).parent / "python", "-c", CACHE, cache, url, context], check=True)

    def validated(folder: Path) -> bool:
        out = tmp_path / "said.json"
        words = ["-p", "workflow-run-crate-0.5", "-l", "required", "--offline", "--cache-path", cache, "-f", "json"]
        command = [validator, "-y", "validate", *words, "--no-paging", "-o", out, folder]
        subprocess.run(command, check=False, capture_output=True)
        return bool(json.loads(out.read_text(encoding="utf-8"))["passed"])

    assert validated(packed)
    broken = tmp_path / "broken"
    shutil.copytree(packed, broken)
    metadata = broken / "ro-crate-metadata.json"
    content = json.loads(metadata.read_text(encoding="utf-8"))
    for entity in content["@graph"]:
        entity.pop("instrument", None)
    metadata.write_text(json.dumps(content), encoding="utf-8")
    assert not validated(broken), "a run without its workflow"
