"""Test accounting and mechanisms on votes that others cast: those of Prom-PATE on SVHN, if the data root has them."""

import os
from pathlib import Path

import numpy as np
import pytest
from tests.stages.test_corrections import LOG, PROM_PATE, RELEASED, _printed
from tests.stages.test_imported_votes import OF_TABLE, bounds_of, import_file, labels_of

from patebench.accounting.votes import Votes
from patebench.artefacts.votes_file import read_source
from patebench.config import load, validate
from patebench.core.files import read_arrays
from patebench.core.formats import LABELS
from patebench.mechanisms.base import make_mechanism

FOLDER = Path(os.environ.get("PATEBENCH_DATA", "data")) / "prom-pate"
FILE = FOLDER / "svhn_votes.npz"
CONFIGURATION = Path(__file__).parents[2] / "config" / "papers" / "prom-pate-2023.yaml"

needs_votes = pytest.mark.skipif(not FILE.is_file(), reason="the data root has no votes of Prom-PATE")


@needs_votes
def test_the_votes_are_those_that_were_published() -> None:
    _, votes = read_source(FILE, labels=True, classes=10)
    ordered = np.sort(votes.counts, axis=1)
    assert (votes.teachers, votes.queries) == (250, 2000)
    assert ordered[:, -1].mean() == pytest.approx(116.5, abs=0.05)
    assert (ordered[:, -1] - ordered[:, -2]).mean() == pytest.approx(68.4, abs=0.05)


@needs_votes
def test_numbers_of_answers_in_the_log_are_those_of_the_released_labels() -> None:
    with np.load(FOLDER / "released_labels.npz", allow_pickle=False) as released:
        names = ("cifar10_e1", "cifar100_e4", "cifar100_e8")
        answered = {row: int((released[name] >= 0).sum()) for name, (row, *_) in zip(names, RELEASED, strict=True)}
    column = "labeled data number (last run)"
    assert answered == {row: _printed(PROM_PATE, LOG, row, column) for row, *_ in RELEASED}


@needs_votes
def test_their_settings_on_these_votes_cost_more_than_stated(tmp_path: Path) -> None:
    """Label 100 queries; the data-dependent ε is below the worst case, which no number of votes lowers."""
    with np.load(FILE, allow_pickle=False) as arrays:
        np.savez(tmp_path / "part.npz", votes=arrays["votes"][:, :100])
    votes = import_file(tmp_path / "part.npz", tmp_path / "imported", OF_TABLE, dataset="svhn", teachers=250)
    setting = {"threshold": 122.0, "sigma1": 50.0, "sigma2": 10.0}
    labels = labels_of(votes, tmp_path, mechanism="confident-gnmax", parameters=setting)
    answered = read_arrays(labels, LABELS)["labels"] >= 0
    expected = make_mechanism("confident-gnmax", setting).log_outcome_probabilities(read_source(votes)[1])
    assert expected is not None
    chance = -np.expm1(expected[:, -1])
    assert abs(answered.sum() - chance.sum()) < 5 * np.sqrt((chance * (1 - chance)).sum())
    bounds = bounds_of(votes, labels, tmp_path)
    least = {kind: min(b["epsilon"] for b in bounds if b["kind"] == kind) for kind in ("worst_case", "data_dependent")}
    assert 0 < least["data_dependent"] < least["worst_case"]
    other = Votes.from_counts(np.tile([[125, 125, *[0] * 8]], (100, 1)))
    costs = [b.epsilon for b in make_mechanism("confident-gnmax", setting).bounds(other, [100], 1e-5)]
    assert least["worst_case"] in costs


def test_the_configuration_needs_no_data_set() -> None:
    run = validate(load(CONFIGURATION), files=False)
    assert {job.partition("/")[0] for job in run.jobs} == {"import_votes", "aggregate", "account", "collect", "audit"}
    assert {Path(file).name for files in run.own_files.values() for file in files} == {"svhn_votes.npz"}
