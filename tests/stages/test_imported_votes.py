"""Test that votes are packed only of public data sets, and that imported votes give the same labels and bounds."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests import dry_run
from tests.refusals import refuses
from tests.stages.digits import ENSEMBLE_STREAM, Ensemble
from tests.stages.labels import state_bounds

from patebench.config import validate
from patebench.config.parameters import ImportParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json, write_arrays, write_json
from patebench.core.formats import LABELS, VOTES
from patebench.stages import adjacency, aggregate, collect, export_votes, import_votes

NAMED = ImportParameters(name="others")
OF_TABLE = ImportParameters(name="others", classes=10)
NOISE = {"mechanism": "gnmax", "parameters": {"sigma": 2.0}, "seed": 0, "stream": ENSEMBLE_STREAM}
STUDENT = {"method": "supervised", "mechanisms": {"gnmax": {"sigma": 2}}}
STATED = {"licence": "https://spdx.org/licenses/CC-BY-4.0", "creator": "us", "cite": "a paper", "url": None}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Ensemble:
    ensemble = Ensemble(tmp_path_factory.mktemp("ensemble"))
    ensemble.join(ensemble.train(0, 5))
    return ensemble


@pytest.fixture
def export(trained: Ensemble, tmp_path: Path):
    def run(**changes: object) -> Path:
        files = {"votes": trained.folder / "votes.npz", "summary": trained.folder / "ensemble.json", "manifest": None}
        export_votes.run(**{**files, **STATED, "out": tmp_path / "packed", **changes})  # type: ignore[arg-type]
        return tmp_path / "packed"

    return run


def import_file(file: Path, folder: Path, parameters: ImportParameters = NAMED, **files: object) -> Path:
    folder.mkdir(exist_ok=True)
    places = {"out": folder / "votes.npz", "summary": folder / "ensemble.json"}
    import_votes.run(**{"votes": file, "parameters": parameters, "teachers": 6, **places, **files})  # type: ignore[arg-type]
    return places["out"]


def labels_of(votes: Path, folder: Path, **changes: object) -> Path:
    aggregate.run(**{"votes": votes, "out": folder / "labels.npz", **NOISE, **changes})  # type: ignore[arg-type]
    return folder / "labels.npz"


def bounds_of(votes: Path, labels: Path, folder: Path) -> list[dict]:
    return read_json(state_bounds(votes, labels, [], folder / "bounds.json"), "account")["bounds"]


def test_others_read_a_packed_folder_without_this_package(trained: Ensemble, export) -> None:
    folder = export()
    metadata = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
    required = {"@context", "@type", "conformsTo", "name", "description", "license", "url", "creator", "datePublished"}
    assert required <= metadata.keys()
    files = {each["name"]: each for each in metadata["distribution"]}
    assert {*files, "croissant.json"} == {path.name for path in folder.iterdir()}
    for name, file in files.items():
        assert file["sha256"] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    facts = {each["name"]: json.loads(each["value"]) for each in metadata["variableMeasured"]}
    assert (facts["dataset"], facts["teachers"], facts["queries"]) == ("digits", 6, 100)
    own = read_arrays(trained.folder / "votes.npz", VOTES)
    with np.load(folder / "votes.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["votes"], own["votes"])
    assert facts["digest"] == own.digest


def test_the_validator_of_the_format_finds_no_fault(export, tmp_path: Path) -> None:
    validator = shutil.which("mlcroissant")
    if validator is None:
        pytest.skip("mlcroissant is not on PATH; envs/requirements-checkers.txt names it")

    def complaints(folder: Path) -> str:
        command = [validator, "validate", "--jsonld", "croissant.json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        return "" if done.returncode == 0 and "Done" in done.stderr else done.stderr

    folder = export()
    assert complaints(folder) == ""
    metadata = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
    del metadata["distribution"][0]["contentUrl"]
    (folder / "croissant.json").write_text(json.dumps(metadata), encoding="utf-8")
    assert "contentUrl" in complaints(folder)


def test_votes_on_data_that_may_be_private_are_not_packed(trained: Ensemble, export, tmp_path: Path) -> None:
    summary = read_json(trained.folder / "ensemble.json", "join_votes")
    own, manifest = tmp_path / "own.json", tmp_path / "manifest.json"
    write_json(own, "join_votes", {**summary, "dataset": "patients"})
    entries = ("config", "seeds", "versions", "commit", "hardware", "rules", "started", "finished")
    for copies in ({}, {"patients": "npz"}, {"patients": "unknown"}, {"others": "digits"}):
        write_json(manifest, "manifest", {**dict.fromkeys(entries), "copies": copies})
        for given in (None, manifest):
            with refuses("private-data"):
                export(summary=own, manifest=given)
    assert not (tmp_path / "packed").exists()
    write_json(manifest, "manifest", {**dict.fromkeys(entries), "copies": {"patients": "digits"}})
    assert (export(summary=own, manifest=manifest) / "croissant.json").is_file()


def test_only_matching_files_are_packed_and_nothing_is_overwritten(trained: Ensemble, export, tmp_path: Path) -> None:
    source = read_arrays(trained.folder / "votes.npz", VOTES)
    other = tmp_path / "other.npz"
    write_arrays(other, VOTES, {**source.arrays, "votes": source["votes"][::-1]}, source.meta)
    for code, changes in (("mismatch", {"votes": other}), ("exists", {"out": tmp_path})):
        with refuses(code):
            export(**changes)
    assert not (tmp_path / "packed").exists()


def test_imported_votes_give_the_same_labels_and_bounds_and_no_release(
    trained: Ensemble, export, tmp_path: Path
) -> None:
    own = trained.folder / "votes.npz"
    votes = import_file(export() / "votes.npz", tmp_path / "imported", pool=trained.pool, truth=trained.truth)
    (tmp_path / "own").mkdir()
    labels = [labels_of(each, folder) for each, folder in ((own, tmp_path / "own"), (votes, votes.parent))]
    np.testing.assert_array_equal(*(read_arrays(each, LABELS)["labels"] for each in labels))
    assert bounds_of(own, labels[0], tmp_path / "own") == bounds_of(votes, labels[1], votes.parent)
    collect.run(
        ensemble=votes.parent / "ensemble.json", votes=votes, truth=trained.truth, labels=[labels[1]],
        bounds=[votes.parent / "bounds.json"], out=tmp_path / "collected.json",
    )  # fmt: skip
    first, second, *_ = read_json(tmp_path / "collected.json", "collect")["records"]
    assert (first["record"], first["ensemble"]) == ("ensemble", "teachers-6_imported_others")
    assert second["label_accuracy"] > 0.5
    assert (first["pool"], first["model"]) == (100, "others")
    with refuses("unprotected"):
        labels_of(votes, tmp_path, release=True, seed=None, stream=None, ledger=tmp_path / "ledger")
    assert not (tmp_path / "ledger").exists()


def test_what_does_not_fit_together_is_not_imported(trained: Ensemble, tmp_path: Path) -> None:
    source = read_arrays(trained.folder / "votes.npz", VOTES)
    other = tmp_path / "other.npz"
    write_arrays(other, VOTES, source.arrays, {**source.meta, "pool": "0" * 64})
    given = {"file": source.path, "folder": tmp_path / "imported", "pool": trained.pool, "truth": trained.truth}
    for changes, code in (
        ({"pool": None}, "options"),
        ({"dataset": "digits"}, "options"),
        ({"parameters": OF_TABLE}, "options"),
        ({"parameters": OF_TABLE, "dataset": "svhn"}, "options"),
        ({"file": other}, "mismatch"),
        ({"teachers": 7}, "invalid"),
    ):
        with refuses(code):
            import_file(**{**given, **changes})  # type: ignore[arg-type]
    assert not list((tmp_path / "imported").iterdir())


@pytest.mark.parametrize("votes", [[[None]], [[11]], "damaged"])
def test_a_plain_archive_is_checked_as_a_table_is(tmp_path: Path, votes: list | str) -> None:
    path = tmp_path / "table.npz"
    np.savez(path, votes=np.zeros((1, 100), int) if votes == "damaged" else np.array(votes))
    if votes == "damaged":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    with pytest.raises(PatebenchError) as caught:
        import_file(path, tmp_path / "imported", OF_TABLE, dataset="svhn", teachers=1)
    assert str(path) in str(caught.value)


def configuration(**changes: object) -> dict:
    votes = {"name": "others", "teachers": 6, "file": "votes.npz", "classes": 10}
    experiment = {
        "dataset": "svhn", "pool": 100, "votes": [votes], "mechanisms": {"gnmax": {"sigma": 2}},
        "accounting": {"delta": 1e-5}, "audit": {"runs": 1000},
    }  # fmt: skip
    top = {name: changes.pop(name) for name in ("mode", "datasets") if name in changes}
    return {"seeds": 0, **top, "experiments": {"e": {**experiment, **changes}}}


def test_a_configuration_of_a_table_loads_no_data_set(tmp_path: Path) -> None:
    run = validate(configuration())
    folder, audited = "svhn/seed-0_pool-100/teachers-6_imported_others", "svhn/audit/teachers-6/gnmax/sigma-2"
    labels = f"{folder}/gnmax/sigma-2"
    jobs = {f"import_votes/{folder}", f"aggregate/{labels}", f"account/{labels}", f"collect/{folder}"}
    assert set(run.jobs) == jobs | {f"audit/{audited}"}
    with refuses("imported-votes"):
        list(adjacency.audit(run, tmp_path))
    assert run.audited_votes == {audited: [f"results/{folder}/votes.npz"]}


def test_a_configuration_of_packed_votes_loads_the_pool_and_trains_students() -> None:
    votes = [{"name": "others", "teachers": 6, "file": "votes.npz"}]
    run = validate(configuration(votes=votes, students=[STUDENT]))
    stages = {job.partition("/")[0] for job in run.jobs}
    assert stages == {"data", "split", "import_votes", "aggregate", "account", "train_student", "collect", "audit"}
    assert (run.without_pool, run.audited_votes) == (set(), {})


@pytest.mark.parametrize(
    ("changes", "code", "where"),
    [
        ({"votes": []}, "missing", "ensembles"),
        ({"mode": "release"}, "release", "votes[0]"),
        ({"queries": 10}, "queries", "votes[0]"),
        ({"students": [STUDENT]}, "no-samples", "votes[0]"),
    ],
)
def test_a_wrong_configuration_is_refused(changes: dict, code: str, where: str) -> None:
    with refuses(code, f"experiments.e.{where}"):
        validate(configuration(**changes))


def test_votes_on_own_data_are_imported_only_of_public_copies(tmp_path: Path) -> None:
    for part in (0, 1):
        np.savez(tmp_path / f"{part}.npz", x=np.full((500, 4), part, np.float32), y=np.arange(500) % 10)
    own = {"loader": "npz", "private": str(tmp_path / "0.npz"), "public": str(tmp_path / "1.npz")}
    with refuses("private-data", "experiments.e.votes[0]"):
        validate(configuration(datasets={"own": own}, dataset="own"))
    validate(configuration(datasets={"own": {**own, "copy_of": "digits"}}, dataset="own"))


@pytest.mark.slow
def test_a_table_has_bounds_and_audits_but_no_accuracy(trained: Ensemble, tmp_path: Path) -> None:
    """Run every job that Snakemake plans, from a table in the folder of data sets to the page."""
    (tmp_path / "data").mkdir()
    table = read_arrays(trained.folder / "votes.npz", VOTES)["votes"]
    np.savez_compressed(tmp_path / "data" / "votes.npz", votes=table)
    (tmp_path / "config.json").write_text(json.dumps(configuration()), encoding="utf-8")
    dry_run.make(tmp_path / "config.json", tmp_path)
    results = tmp_path / "results"
    (collected,), (audited,) = results.rglob("collected.json"), results.rglob("audit.json")
    records = read_json(collected, "collect")["records"]
    assert {each["record"] for each in records} == {"label_set", "bound", "curve"}
    assert all(each["epsilon"] > 0 for each in records if each["record"] == "bound")
    assert {records[0][name] for name in ("label_accuracy", "expected_label_accuracy")} == {None}
    assert (records[0]["answered"], records[0]["dataset"], records[0]["pool"]) == (100, "svhn", 100)
    found = read_json(audited, "audit")
    assert (found["dataset"], found["classes"], found["teachers"]) == ("svhn", 10, 6)
    assert "others" in (results / "report.html").read_text(encoding="utf-8")
    assert len(list((results / "tables").glob("*.csv"))) > 2
