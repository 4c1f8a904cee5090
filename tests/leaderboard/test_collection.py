"""Test all entries of the leaderboard: written by hand, of kept runs and of published values."""

import csv
import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from patebench.cli import cli
from patebench.leaderboard.assessment import Assessed, Status, assess
from patebench.leaderboard.collection import assess_all, kept_entries, published_entries
from patebench.leaderboard.entry import Change, Entry, Origin, SampledGaussian, Unit, VoteMechanism

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def published() -> list[Assessed]:
    return [assess(entry) for entry in published_entries(ROOT)]


@pytest.fixture(scope="module")
def kept() -> list[Entry]:
    return list(kept_entries(ROOT))


@pytest.mark.slow
def test_names_are_unique_file_names(kept: list[Entry], published: list[Assessed]) -> None:
    names = [entry.name for entry in (*kept, *(assessed.entry for assessed in published))]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert [name for name in names if not name or set(name) & set(' /\\:"')] == []


@pytest.mark.slow
def test_every_student_and_private_model_of_a_kept_table_has_an_entry(kept: list[Entry]) -> None:
    folder = ROOT / "results" / "reference" / "one-vote-adult"
    own = [entry for entry in kept if entry.paper.title == "patebench, one-vote-adult"]
    rows = [
        list(csv.DictReader(path.read_text().splitlines())) for path in sorted((folder / "tables").glob("[pu]*.csv"))
    ]
    assert len(own) == sum(map(len, rows))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert {entry.making.commit for entry in own} == {manifest["commit"]["id"]}
    assert {(entry.origin, entry.data.records, entry.data.private) for entry in own} == {(Origin.KEPT, 32_561, "adult")}
    for entry in own:
        assert entry.accuracy
        assert entry.accuracy.by_seed
        assert np.mean(list(entry.accuracy.by_seed.values())) == pytest.approx(entry.accuracy.mean)
    assert {(entry.privacy.unit, entry.privacy.adjacency) for entry in own} == {
        (Unit.RECORD, Change.REPLACED),
        (Unit.RECORD, Change.ADDED_OR_REMOVED),
    }


@pytest.mark.slow
def test_the_computed_worst_case_is_that_of_the_kept_tables(kept: list[Entry]) -> None:
    """The tables state what `account` and the training stages computed; entries compute it again from parameters."""
    slow = [entry for entry in kept if isinstance(entry.mechanism, SampledGaussian)]
    fast = [entry for entry in kept if entry.claim.kind == "worst_case" and entry not in slow]
    for entry in (*fast[::9], *slow[::9]):
        assessed = assess(entry)
        assert assessed.bound is not None, entry.name
        assert assessed.bound.epsilon == pytest.approx(entry.claim.epsilon, rel=5e-4), entry.name
        assert assessed.status is Status.PROVED, entry.name


@pytest.mark.slow
def test_a_selection_by_private_labels_is_a_data_set_of_its_own(kept: list[Entry]) -> None:
    """One changed label can replace two records of the selection."""
    tailed = [entry for entry in kept if entry.paper.title == "patebench, one-table-long-tail"]
    assert len(tailed) == 4
    assert {(entry.data.private, entry.data.records) for entry in tailed} == {("mnist-long-tail", 12_408)}
    assert {entry.note for entry in tailed} == {"ε is for the data after a selection by private labels."}
    assert not any("selection" in entry.note for entry in kept if entry not in tailed)


@pytest.mark.slow
def test_entries_state_the_votes_of_private_records(kept: list[Entry]) -> None:
    votes = {
        (entry.mechanism.parameters.get("k"), entry.mechanism.votes_per_teacher)
        for entry in kept
        if entry.paper.title == "patebench, one-vote-adult" and isinstance(entry.mechanism, VoteMechanism)
    }
    assert votes == {(1, 1), (30, 30)}
    trained = [entry for entry in kept if entry.paper.title == "patebench, pate-2017"]
    assert {getattr(entry.mechanism, "votes_per_teacher", None) for entry in trained} == {None}


@pytest.mark.slow
def test_pet_dl_as_published_is_violated(kept: list[Entry], published: list[Assessed]) -> None:
    """The noise never reaches the gradient (tests/stages/test_train_petdl.py)."""
    ours = [assess(entry) for entry in kept if entry.method.startswith("PET-DL, published")]
    theirs = [each for each in published if each.entry.paper.title == "PET-DL 2019" and each.entry.method == "PET-DL"]
    assert len(ours) > 20
    assert len(theirs) > 8
    assert {assessed.status for assessed in (*ours, *theirs)} == {Status.VIOLATED}
    assert {assessed.ranked for assessed in (*ours, *theirs)} == {False}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "epsilon", "count", "status", "lower"),
    [
        ("NZC 2020", 0, 4, Status.VIOLATED, math.inf),
        ("PATE 2017", 2.04, 1, Status.UNPROVED, None),  # ε depends on the votes
        ("PATE 2017", 8.03, 1, Status.UNPROVED, None),
    ],
)
def test_printed_values_have_the_status_that_their_mechanism_gives_them(
    published: list[Assessed], paper: str, epsilon: float, count: int, status: Status, lower: float | None
) -> None:
    found = [each for each in published if (each.entry.paper.title, each.entry.claim.epsilon) == (paper, epsilon)]
    assert [(each.status, each.lower) for each in found] == [(status, lower)] * count


@pytest.mark.slow
def test_a_result_that_another_paper_quotes_is_no_entry(published: list[Assessed]) -> None:
    """Private-kNN and PET-DL quote PATE on SVHN with another number of queries, and another accuracy, than PATE."""
    of_pate = [each.entry for each in published if each.entry.method == "LNMax" and each.entry.claim.epsilon == 8.19]
    assert {entry.paper.title for entry in of_pate} == {"PATE 2017", "NZC 2020"}


@pytest.mark.slow
def test_the_command_prints_a_line_per_problem(tmp_path: Path) -> None:
    def run(*words: object) -> Result:
        return CliRunner().invoke(cli, ["check_entry", *map(str, words)])

    folder, own = ROOT / "leaderboard" / "entries", tmp_path / "entry.json"
    done = run(folder / "dpsda-figure-5-as-printed.json")
    assert done.exit_code == 0
    assert "flagged: below-worst-case" in done.stdout
    assert "unproved: ε = 3.34" in done.stdout.splitlines()[-1]
    entry = json.loads((folder / "dpsda-figure-5-corrected.json").read_text())
    entry["privacy"]["unit"] = None
    own.write_text(json.dumps(entry))
    done = run(own)
    assert done.exit_code == 1
    assert "rejected: missing-unit" in done.stdout
    own.write_text('{"method": "M"}')
    done = run(own, folder / "dpsda-figure-5-corrected.json", "--json")
    assert done.exit_code == 1
    assert "rejected: invalid-entry" in done.stderr
    (assessed,) = json.loads(done.stdout)
    assert assessed["status"] == "proved"
    assert assessed["worst_case"]["epsilon"] == pytest.approx(3.3414, abs=1e-3)
    assert str(run(own, "nope.json").exception).startswith("nope.json: this file does not exist")


@pytest.mark.slow
def test_entries_of_all_origins_are_assessed_alike_each_time(tmp_path: Path) -> None:
    """Use a repository with one entry written by hand and one run."""
    for path in ("config/published.csv", "leaderboard/entries/dpsda-figure-5-corrected.json"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes((ROOT / path).read_bytes())
    for path in sorted((ROOT / "results/reference/scalable-pate-2018-interactive").rglob("*.*")):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    first, second = ([json.dumps(assessed.to_json()) for assessed in assess_all(tmp_path)] for _ in range(2))
    assert first == second
    assert {json.loads(text)["origin"] for text in first} == set(Origin)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "epsilon", "adjacency", "expected"),
    [
        ("dppl-mean_epsilon-0.086_delta-1e-05_change-replaced_dimensions-64", 0.086, "replace_record", 0.086),
        ("least-squares_epsilon-0.497_delta-1e-05_change-added-or-removed", 1.1, "replace_record", None),
        ("dppl-public_epsilon-1_delta-1e-05_change-replaced_prototypes-10", 1.0, "replace_record", 1.0),
        ("randomised-response_epsilon-1_delta-1e-05_change-replaced", 1.0, "replace_label", 1.0),
    ],
)
def test_methods_on_public_features_are_accounted_from_their_settings(
    tmp_path: Path, model: str, epsilon: float, adjacency: str, expected: float | None
) -> None:
    folder = tmp_path / "results" / "reference" / "run"
    (folder / "tables").mkdir(parents=True)
    manifest = {"config": {"experiments": {}}, "hardware": {"cores": 2, "processor": "P", "gpus": []}, "rules": []}
    (folder / "manifest.json").write_text(json.dumps(manifest | {"commit": {"id": "abc"}}))
    row = {
        "dataset": "fashion-mnist-encoded", "setting": "pool-9000_test-1000", "system": "DPPL", "form": "mean",
        "private_model": model, "model": "linear", "public_use": "features", "public_samples": "9000",
        "queries": "1", "delta": "1e-05", "kind": "worst_case", "adjacency": adjacency,
        "epsilon_mean": str(epsilon), "accuracy_mean": "0.8", "accuracy_std": "0.01", "seeds": "3",
    }  # fmt: skip
    (folder / "tables" / "private-models.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    (entry,) = kept_entries(tmp_path)
    assessed = assess(entry)
    assert assessed.bound is not None
    assert assessed.status is Status.PROVED
    assert entry.data.private == "fashion_mnist"
    if expected is not None:
        assert assessed.bound.epsilon == pytest.approx(expected, rel=1e-3)
    else:  # calibrated for an added record: a replaced one costs more, but less than claimed
        assert 0.9 < assessed.bound.epsilon < 1.1
