"""Test the best evidence of all kept runs: verdicts from tables equal the kept ones, and planted changes are found."""

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from patebench.reporting.kept_verdicts import best_evidence, measured_verdicts
from patebench.reporting.published import read_published
from patebench.reporting.verdicts import NUMBER, count_by_paper

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "reference"
PUBLISHED = read_published(ROOT / "config" / "published.csv")


@pytest.fixture(scope="module")
def measured() -> pd.DataFrame:
    return measured_verdicts(KEPT, PUBLISHED)


@pytest.fixture(scope="module")
def evidence() -> pd.DataFrame:
    return best_evidence(KEPT, PUBLISHED)


def test_verdicts_from_means_are_those_that_runs_computed_from_all_seeds(measured: pd.DataFrame) -> None:
    both = measured.groupby([*NUMBER, "run", "measured_mean"])["verdict"]
    twice = both.nunique()[both.size() > 1]
    assert len(twice) > 100
    assert (twice == 1).all()


def test_every_published_value_has_one_verdict_with_a_run_or_a_reason(evidence: pd.DataFrame) -> None:
    assert len(evidence) == len(PUBLISHED.values)
    assert not evidence[NUMBER].duplicated().any()
    judged = evidence["run"].notna()
    assert evidence.loc[judged, "measured_mean"].notna().all()
    assert set(evidence.loc[~judged, "verdict"]) == {"not comparable", "not run"}
    assert (evidence.loc[~judged, "why"].str.len() > 5).all()
    assert all((KEPT / run).is_dir() for run in evidence.loc[judged, "run"])


def test_counts_are_those_of_the_values(evidence: pd.DataFrame) -> None:
    counts = count_by_paper(evidence).set_index("paper")
    assert counts["printed"].sum() == len(PUBLISHED.values)
    unsound = evidence.loc[evidence["verdict"] == "unsound", "paper"]
    assert counts.loc["PET-DL 2019", "unsound"] == (unsound == "PET-DL 2019").sum() > 0


def test_a_changed_measurement_changes_the_verdict(tmp_path: Path, evidence: pd.DataFrame) -> None:
    """Without its audits, the published form of PET-DL is not refuted; a worse student falls short."""
    for run in ("petdl-2019", "one-vote-private-knn"):
        shutil.copytree(KEPT / run, tmp_path / run)
    path = tmp_path / "petdl-2019" / "tables" / "petdl.csv"
    table = pd.read_csv(path)
    table.assign(audited=0.0, accuracy_mean=0.5).to_csv(path, index=False)
    changed = best_evidence(tmp_path, PUBLISHED)
    ours, theirs = (frame[frame["paper"] == "PET-DL 2019"] for frame in (evidence, changed))
    accuracies = theirs[(theirs["run"] == "petdl-2019") & (theirs["quantity"] == "student_accuracy")]
    assert set(accuracies["verdict"]) == {"short"}
    assert not accuracies.empty
    assert "unsound" in set(ours["verdict"])
    assert "unsound" not in set(theirs["verdict"])


def test_a_value_marked_as_not_comparable_stays_so() -> None:
    values = tuple(replace(value, not_comparable="another test set") for value in PUBLISHED.values)
    assert set(best_evidence(KEPT, replace(PUBLISHED, values=values))["verdict"]) == {"not comparable"}
