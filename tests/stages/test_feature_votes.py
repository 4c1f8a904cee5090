"""Votes with weights, from records to a student: what each stage writes, and what a single record can change."""

from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import change_record
from tests.stages.test_nearest_query import NAMED, SETTING, TEACHERS, K, OneVote

from patebench.accounting.votes import UNIT
from patebench.config.parameters import AccountParameters, StudentParameters, TrainingParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json
from patebench.core.formats import LABELS, VOTES
from patebench.stages import account, aggregate, collect, train_student


class FeatureVotes(OneVote):
    """Stages as in `OneVote`, with the model feature-votes, whose votes have weights."""

    def vote(self, first: int = 0, last: int = TEACHERS - 1, **changes: object) -> Path:
        return super().vote(first, last, training=TrainingParameters(model="feature-votes"), **changes)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> FeatureVotes:
    return FeatureVotes(tmp_path_factory.mktemp("features")).complete()


@pytest.mark.slow
def test_chunks_do_not_change_votes_and_no_teacher_exceeds_one_vote(world: FeatureVotes) -> None:
    whole = read_arrays(world.file("votes.npz"), VOTES)
    world.join(*(world.vote(*ends) for ends in ((0, 0), (1, 399), (400, TEACHERS - 1))))
    parts = read_arrays(world.file("votes.npz"), VOTES)
    for name in ("weights", "row_labels", "row_teachers"):
        assert np.array_equal(whole[name], parts[name]), name
    squares = np.bincount(whole["row_teachers"], np.square(whole["weights"], dtype=float).sum(axis=1))
    assert squares.max() <= UNIT**2
    assert squares.min() > 0.95 * UNIT**2
    world.join(world.vote())


@pytest.mark.slow
def test_one_record_changes_nothing_public_and_its_own_votes_alone(world: FeatureVotes, tmp_path: Path) -> None:
    before = {name: world.file(name).read_bytes() for name in ("encoder.npz", "features.npz", "queries.npz")}
    table = read_arrays(world.file("labels.npz"), LABELS)["noisy_counts"]
    distances = []
    for record in (3, 77):
        other = FeatureVotes(tmp_path / str(record))
        change_record(other.private, record)
        other.prepare()
        for name, known in before.items():
            assert other.file(name).read_bytes() == known, name
        other.join(other.vote())
        distances.append(np.linalg.norm(read_arrays(other.label(), LABELS)["noisy_counts"] - table))
    assert 0.5 < max(distances) <= 2


def test_bound_records_and_student_follow_from_the_table(world: FeatureVotes, tmp_path: Path) -> None:
    given = {"votes": world.file("votes.npz"), "labels": world.file("labels.npz")}
    account.run(**given, accounting=AccountParameters(delta=1e-5), **NAMED, out=tmp_path / "bounds.json")  # type: ignore[arg-type]
    bounds = {each["accountant"]: each for each in read_json(tmp_path / "bounds.json", "account")["bounds"]}
    assert bounds["gdp"]["epsilon"] == pytest.approx(2.7534, abs=1e-4)  # of a 2/3-GDP release
    assert {each["kind"] for each in bounds.values()} == {"worst_case"}
    train_student.run(
        pool=world.pool, labels=world.file("labels.npz"), test=world.test, queries=K, **NAMED,
        encoder=world.file("encoder.npz"), parameters=StudentParameters(method="table-regression"),
        out=tmp_path / "student.json", predictions=tmp_path / "predictions.npz",
    )  # fmt: skip
    assert read_json(tmp_path / "student.json", "train_student")["accuracy"] > 0.5
    collect.run(
        ensemble=world.file("ensemble.json"), votes=world.file("votes.npz"), truth=world.truth,
        labels=[world.file("labels.npz")], bounds=[tmp_path / "bounds.json"], students=[tmp_path / "student.json"],
        out=tmp_path / "collected.json",
    )  # fmt: skip
    records = {each["record"]: each for each in read_json(tmp_path / "collected.json", "collect")["records"]}
    assert records["ensemble"]["ensemble"] == f"teachers-{TEACHERS}_queries-{K}_iid_feature-votes_modern"


def test_a_release_has_noise_in_units_and_the_bound_of_discrete_noise(world: FeatureVotes, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate, "check_protects", lambda *_: None)
        patch.setattr(account, "check_protects", lambda *_: None)
        aggregate.run(
            votes=world.file("votes.npz"), **SETTING, release=True, out=tmp_path / "release.npz",
            ledger=tmp_path / "ledger", private="records",
        )  # fmt: skip
        table = read_arrays(tmp_path / "release.npz", LABELS)["noisy_counts"] * UNIT
        account.run(
            votes=world.file("votes.npz"), labels=tmp_path / "release.npz", ledger=tmp_path / "ledger",
            accounting=AccountParameters(delta=1e-5), out=tmp_path / "bounds.json",
        )  # fmt: skip
    assert np.array_equal(table, np.rint(table))
    stated = read_json(tmp_path / "bounds.json", "account")["bounds"]
    assert [each["accountant"] for each in stated] == ["rdp", "rdp"]
    assert all(each["publishable"] and each["epsilon"] > 2.7534 for each in stated)


def test_other_mechanisms_and_students_are_refused(world: FeatureVotes, tmp_path: Path) -> None:
    refused = {"votes": world.file("votes.npz"), **NAMED, "out": tmp_path / "refused.npz"}
    for mechanism, parameters in (("gnmax", {"sigma": 3.0}), ("sparse-lnmax", {"k": 1.0, "gamma": 1.0})):
        with refuses("weights"):
            aggregate.run(mechanism=mechanism, parameters=parameters, **refused)  # type: ignore[arg-type]
    with refuses("weights"):
        train_student.run(
            pool=world.pool, labels=world.file("labels.npz"), test=world.test, queries=K, **NAMED,
            features=world.file("features.npz"), parameters=StudentParameters(method="supervised", model="logistic"),
            out=tmp_path / "s.json", predictions=tmp_path / "s.npz",
        )  # fmt: skip
    with pytest.raises(PatebenchError, match=r"need 99 principal axes"):
        world.vote(selected=())
