"""Test the publishable page of a release, and the warning on the private page."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses
from tests.reporting import made
from tests.stages.digits import LOGISTIC, Digits
from tests.stages.labels import draw_release, release_labels, state_bounds, write_votes

from patebench.config import validate
from patebench.core.entropy import Entropy
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json
from patebench.core.formats import POOL
from patebench.data.partitions import PARTITIONS
from patebench.release.ledger_file import Ledger
from patebench.reporting.wording import epsilon_in_digits
from patebench.stages import train_student

TEACHERS, QUERIES, CLASSES = 20, 60, 10
TABLES = ("ensembles", "utility-privacy")
Files = dict[str, Any]
Release = Callable[..., Files]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    return Digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture
def release(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> Release:
    """Release labels of votes of private records, by a mechanism without noise."""
    monkeypatch.setattr(Entropy, "normal", lambda self, *, scale, size: np.zeros(size, dtype=np.int64))

    def made_of(
        folder: Path, private: int, /, strategy: str = "hash", students: bool = True, **more: Any
    ) -> dict[str, Any]:
        """Write the files of a release; the records `private` change votes, but no plurality."""
        folder.mkdir()
        votes = np.tile(np.arange(300) % CLASSES, (TEACHERS, 1))
        others = np.random.default_rng(private).integers(0, CLASSES, (TEACHERS // 2 - 1, 300))
        votes[: len(others)] = others
        facts = {"partition": f"partition {private}", "pool": read_arrays(digits.pool, POOL).digest}
        facts |= {"records": f"{private:064d}"}
        facts |= {name: PARTITIONS.fact(strategy, name) for name in ("protects", "protection")}
        write_votes(folder / "votes.npz", votes, CLASSES, **facts)
        setting = {"mechanism": "gnmax", "parameters": {"sigma": 40.0}, **more}
        labels = draw_release(folder / "votes.npz", out=folder / "labels.npz", **setting)
        bounds = state_bounds(folder / "votes.npz", labels, (), folder / "bounds.json")
        files = {"labels": [labels], "bounds": [bounds], "students": [], "pools": [digits.pool]}
        if students:
            train_student.run(
                pool=digits.pool, labels=labels, test=digits.test, parameters=LOGISTIC, queries=300, seed=0, stream="s",
                out=folder / "student.json", predictions=folder / "predictions.npz",
            )  # fmt: skip
            files["students"] = [folder / "student.json"]
        return files

    return made_of


def report(folder: Path, mode: str = "release", shown: tuple[str, ...] = TABLES, **released: Any) -> str:
    """Return the private page, made from records of a run."""
    files = {kind: [str(path) for path in paths] for kind, paths in released.items()}
    modes, config = {"labels.npz": mode}, {"name": "mine"}
    records = made.files(folder / "records")
    return made.write_report(folder, *records, tables=shown, modes=modes, config=config, released=files)


def page(folder: Path, files: dict[str, Any]) -> str:
    """Return the publishable page."""
    report(folder, **files)
    return (folder / "publishable.html").read_text(encoding="utf-8")


def words(text: str) -> str:
    """Return the text of a page without tags."""
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", text, flags=re.DOTALL).split())


@pytest.mark.slow
def test_other_private_records_with_the_same_labels_give_the_same_bytes(tmp_path: Path, release: Release) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    files = [release(folder, private) for private, folder in enumerate(folders)]
    private = [(folder / "votes.npz").read_bytes() for folder in folders]
    labels = [np.load(folder / "labels.npz")["labels"] for folder in folders]
    assert private[0] != private[1]
    np.testing.assert_array_equal(*labels)
    pages = [page(folder, given) for folder, given in zip(folders, files, strict=True)]
    assert pages[0] == pages[1]


def test_page_states_labels_epsilon_unit_and_students(tmp_path: Path, release: Release) -> None:
    files = release(tmp_path / "a", 0)
    written = page(tmp_path / "a", files)
    assert not re.findall(r'(?:href|src)="[^"#][^"]*"', written)
    assert "report.html" not in written
    text = words(written)
    best = min(bound["epsilon"] for bound in read_json(files["bounds"][0], "account")["bounds"])
    assert "This page may be published" in text
    assert "300 labels for 300 public samples of digits are (ε, δ)-differentially private with" in text
    assert f"ε = {epsilon_in_digits(best)} at δ = 1e-5" in text
    assert "No other release from the same private data is known" in text
    assert "GNMax, σ = 40" in text
    assert "ε protects one teacher’s whole shard, so one record, replaced, added or removed" in text
    assert re.search(r"supervised, logistic 300 300 \d\d\.\d\d %", text)
    assert "data-dependent" not in text


def test_page_states_the_total_epsilon_of_releases(tmp_path: Path, release: Release) -> None:
    given = release(tmp_path / "a", 0, students=False)
    votes, ledger = tmp_path / "a" / "votes.npz", tmp_path / "ledger"
    limit = {"ledger": ledger, "ledger_budget": 9.0, "ledger_delta": 1e-5}
    labels = [draw_release(votes, "gnmax", {"sigma": 40.0}, tmp_path / f"{i}.npz", **limit) for i in range(2)]
    bounds = [state_bounds(votes, each, (), each.with_suffix(".json"), ledger=ledger) for each in labels]
    text = words(page(tmp_path, {**given, "labels": labels, "bounds": bounds}))
    assert "digits. All releases in the ledger together: ε = 9.00 at δ = 1e-5" in text
    assert "the limit of all draws in the ledger, for a replaced record, a removed record or an added record)" in text
    assert text.count("with ε = 9.00") == 0


def test_no_total_is_stated_for_releases_that_protect_different_units(tmp_path: Path, release: Release) -> None:
    """The records of an owner lie in several shards of `hash`, so ε of the two partitions must not be added."""
    limit = {"ledger": tmp_path / "ledger", "ledger_budget": 9.0, "ledger_delta": 1e-5, "private": "people"}
    owners = release(tmp_path / "owners", 0, "hash-owners", students=False, **limit)
    with refuses("other-unit"):
        release(tmp_path / "refused", 1, "hash", students=False, **limit)
    records = release(tmp_path / "records", 1, "hash", students=False)
    # Earlier versions entered both draws in one ledger.
    (ledger,), (other,) = (Ledger.read_all(path) for path in (limit["ledger"], tmp_path / "records/labels-ledger"))
    replace(ledger, records=ledger.records + other.records, entries=ledger.entries + other.entries).write()
    bounds = []
    for folder in (tmp_path / "owners", tmp_path / "records"):
        out = tmp_path / f"{folder.name}.json"
        bounds.append(state_bounds(folder / "votes.npz", folder / "labels.npz", (), out, ledger=limit["ledger"]))
        assert "ledger" not in {bound["accountant"] for bound in read_json(out, "account")["bounds"]}
    text = words(page(tmp_path, {**owners, "labels": [*owners["labels"], *records["labels"]], "bounds": bounds}))
    assert "All releases in the ledger together" not in text
    assert "for another change, no total ε is known" in text
    alone = words(page(tmp_path, {**records, "bounds": bounds[1:]}))
    assert "for another change, no total ε is known" in alone
    assert "No other release" not in alone


def test_the_total_is_stated_for_what_all_releases_protect(tmp_path: Path, release: Release) -> None:
    limit = {"ledger": tmp_path / "ledger", "ledger_budget": 20.0, "ledger_delta": 1e-5, "private": "people"}
    files, bounds, sources = {}, [], []
    for number in range(2):
        folder = tmp_path / str(number)
        files = release(folder, number, "hash", students=False, **limit)
        votes, labels = folder / "votes.npz", folder / "labels.npz"
        bounds.append(state_bounds(votes, labels, (), tmp_path / f"{number}.json", ledger=limit["ledger"]))
        stated = read_json(bounds[-1], "account")["bounds"]
        sources.append([bound["source"].partition(", for ")[2] for bound in stated if bound["accountant"] == "ledger"])
    assert sources == 2 * [["a replaced record, a removed record or an added record"]]
    with refuses("other-unit"):  # it does not protect an added record
        release(tmp_path / "2", 2, "iid", students=False, **limit)
    labels = [tmp_path / str(number) / "labels.npz" for number in range(2)]
    text = words(page(tmp_path, {**files, "labels": labels, "bounds": bounds}))
    assert "ε = 20.00 at δ = 1e-5" in text
    assert "a removed record or an added record)." in text


def test_page_states_owner_protection_and_budget(tmp_path: Path, release: Release) -> None:
    files = release(tmp_path / "a", 0, strategy="hash-owners", students=False, budget=1.0, delta=1e-5)
    text = words(page(tmp_path, files))
    assert "so all records of one owner, replaced, added or removed, and the owner as a whole" in text
    assert re.search(r"^.*\b74 labels for 300 public samples", text)
    assert "until the next one might exceed ε = 1 at δ = 1e-5; 74 were asked" in text


def test_labels_from_a_seed_have_no_publishable_page(tmp_path: Path, digits: Digits, release: Release) -> None:
    files = release(tmp_path / "a", 0, students=False)
    seeded = release_labels(
        tmp_path / "a" / "votes.npz", "gnmax", {"sigma": 40.0}, tmp_path / "seeded.npz", seed=0, stream="s"
    )
    with pytest.raises(PatebenchError, match="its labels were drawn with noise from a seed"):
        page(tmp_path, {**files, "labels": [seeded]})
    with pytest.raises(PatebenchError, match="none of the given files contains the bounds of these labels"):
        page(tmp_path, {**files, "bounds": []})
    assert not (tmp_path / "publishable.html").exists()


def test_report_of_a_release_marks_its_private_part(tmp_path: Path, release: Release) -> None:
    files = release(tmp_path / "a", 0, students=False)
    text = report(tmp_path, **files)
    public, mark, private = text.partition('<div class="private">')
    assert mark
    assert "Private: do not publish this page." in public
    assert '<a href="publishable.html">' in public
    for word in ("teachers trained", "Time by rule", "without privacy", "Gap"):
        assert word not in public
    assert "teachers trained" in private


@pytest.mark.parametrize("shown", [TABLES, ("ensembles",)])
def test_a_publishable_epsilon_marks_the_page_as_private(tmp_path: Path, shown: tuple[str, ...]) -> None:
    """Ignore the manifest: a publishable ε never appears with statistics of teachers without a warning."""
    public, mark, _ = report(tmp_path, mode="seeded", shown=shown).partition('<div class="private">')
    assert bool(mark) is ("do not publish" in public) is (shown == TABLES)


@pytest.mark.parametrize("mode", ["release", "seeded"])
def test_publishable_page_reads_no_private_file(mode: str) -> None:
    students = [{"method": "supervised", "model": "logistic", "mechanisms": {"gnmax": {"sigma": 2}}}]
    experiment = {"dataset": "digits", "pool": 100, "ensembles": [{"teachers": 10, "model": "logistic"}]}
    experiment |= {"mechanisms": {"gnmax": {"sigma": 2}}, "accounting": {"delta": 1e-5}}
    students = students if mode == "release" else [{**students[0], "queries": 100}]
    run = validate({"name": "a", "seeds": 0, "mode": mode, "experiments": {"a": {**experiment, "students": students}}})
    read = [path for paths in run.released().values() for path in paths]
    private = ("votes.npz", "ensemble.json", "collected.json", "truth.npz", "private.npz", "partition.npz")
    assert not [path for path in read if path.endswith(private)]
    assert len(read) == (4 if mode == "release" else 0)
