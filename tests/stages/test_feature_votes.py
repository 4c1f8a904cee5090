"""Test weighted votes, from records to a student: outputs of each stage, and the effect of a single record."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import change_record
from tests.stages.labels import bounds_of, draw_release, state_bounds
from tests.stages.test_nearest_query import NAMED, SETTING, TEACHERS, K, OneVote

from patebench.accounting.votes import UNIT
from patebench.config.parameters import SplitParameters, TrainingParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, read_json
from patebench.core.formats import CHUNK, LABELS, POOL, SAMPLES, VOTES
from patebench.stages import account, aggregate, secure_open, secure_share, secure_sum


class FeatureVotes(OneVote):
    """Stages as in `OneVote`, with the model feature-votes, whose votes have weights."""

    training = TrainingParameters(model="feature-votes")


class Encoded(FeatureVotes):
    """`FeatureVotes` on features: the scattering transform of digits, with votes along its principal axes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SplitParameters(pool=300, test=100, encoder="axes"), {"features": "scattering"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> FeatureVotes:
    return FeatureVotes(tmp_path_factory.mktemp("features")).complete()


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Encoded:
    return Encoded(tmp_path_factory.mktemp("encoded")).complete()


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
@pytest.mark.parametrize(("name", "white"), [("world", 255), ("encoded", 1)])
def test_one_record_changes_nothing_public_and_its_own_votes_alone(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, white: int
) -> None:
    known: FeatureVotes = request.getfixturevalue(name)
    table = read_arrays(known.file("labels.npz"), LABELS)["noisy_counts"]
    other = type(known)(tmp_path / "other")
    change_record(other.private, 3, white)
    other.complete()
    for public in ("encoder.npz", "features.npz", "queries.npz"):
        assert other.file(public).read_bytes() == known.file(public).read_bytes(), public
    assert 0.5 < np.linalg.norm(read_arrays(other.file("labels.npz"), LABELS)["noisy_counts"] - table) <= 2


@pytest.mark.slow
def test_bound_records_and_student_follow_from_the_table(world: FeatureVotes) -> None:
    path = state_bounds(world.file("votes.npz"), world.file("labels.npz"), [], world.file("bounds.json"), **NAMED)
    bounds = {each["accountant"]: each for each in read_json(path, "account")["bounds"]}
    assert bounds["gdp"]["epsilon"] == pytest.approx(2.7534, abs=1e-4)  # of a 2/3-GDP release
    assert {each["kind"] for each in bounds.values()} == {"worst_case"}
    assert world.learn(method="table-regression")["accuracy"] > 0.5
    assert world.collect()["ensemble"]["ensemble"] == f"teachers-{TEACHERS}_queries-{K}_iid_feature-votes_modern"


@pytest.mark.slow
def test_a_release_has_noise_in_units_and_the_bound_of_discrete_noise(world: FeatureVotes, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate, "check_protects", lambda *_: None)
        patch.setattr(account, "check_protects", lambda *_: None)
        ledger = {"ledger": tmp_path / "ledger"}
        labels = draw_release(world.file("votes.npz"), *SETTING.values(), tmp_path / "release.npz", **ledger)
        stated = bounds_of(world.file("votes.npz"), labels, **ledger)["bounds"]
    table = read_arrays(labels, LABELS)["noisy_counts"] * UNIT
    assert np.array_equal(table, np.rint(table))
    assert [each["accountant"] for each in stated] == ["rdp", "rdp"]
    assert all(each["publishable"] and each["epsilon"] > 2.7534 for each in stated)


@pytest.mark.slow
def test_the_secure_path_leads_to_the_same_table_bound_and_student(world: FeatureVotes) -> None:
    parameters = {"k": 1.0, "sigma": 3.0, "tolerance": 6.0}
    setting: dict[str, Any] = {"mechanism": "distributed-sparse-gnmax", "parameters": parameters, **NAMED}
    secure, alone = world.file("secure.npz"), world.file("plain.npz")
    chunks = [world.vote(*ends) for ends in ((0, 249), (250, TEACHERS - 1))]
    sums = [world.file(f"{aggregator}.npz") for aggregator in "ab"]
    for chunk in chunks:
        secure_share.run(
            chunk=chunk, teachers=TEACHERS, **setting, out=[world.file(f"{name}-{chunk.name}") for name in "ab"]
        )
    for out in sums:
        secure_sum.run(shares=[world.file(f"{out.stem}-{chunk.name}") for chunk in chunks], out=out)
    secure_open.run(sums=sums, labels=secure, counts=world.file("counts.npz"))
    aggregate.run(votes=world.file("votes.npz"), **setting, out=alone)
    opened, plain = read_arrays(secure, LABELS), read_arrays(alone, LABELS)
    assert all(np.array_equal(opened[name], plain[name]) for name in ("labels", "noisy_counts", "queries"))
    assert {name: opened.meta.get(name) for name in plain.meta} == {**plain.meta, "votes": None}
    assert world.epsilon(secure) == pytest.approx(2.7534, abs=1e-4)
    assert world.learn("secure.npz", method="table-regression")["accuracy"] > 0.5


@pytest.mark.slow
def test_other_mechanisms_and_students_are_refused(world: FeatureVotes, tmp_path: Path) -> None:
    refused = {"votes": world.file("votes.npz"), **NAMED, "out": tmp_path / "refused.npz"}
    with refuses("weights"):
        aggregate.run(mechanism="gnmax", parameters={"sigma": 3.0}, **refused)  # type: ignore[arg-type]
    with refuses("weights"):
        world.learn(reads="features", method="supervised", model="logistic")
    with pytest.raises(PatebenchError, match=r"need 99 principal axes"):
        world.vote(selected=())


@pytest.mark.slow
def test_a_table_of_features_teaches_a_regression_and_a_network_on_images(encoded: Encoded) -> None:
    pool = read_arrays(encoded.pool, POOL)
    assert (pool["x"].shape, pool["images"].shape) == ((300, 324), (300, 1, 8, 8))
    assert encoded.learn(method="table-regression")["accuracy"] > 0.5
    network = encoded.learn(method="table-network", epochs=20)
    assert network["accuracy"] > 0.3
    assert network["model"] == "mirror-cnn"


@pytest.mark.slow
def test_linear_teachers_read_the_encoder_and_do_not_depend_on_chunks(encoded: Encoded) -> None:
    given = {"partition": encoded.file("shards.npz"), "features": None, "selected": []}
    given["training"] = TrainingParameters(model="linear-head")
    encoded.deal(teachers=6, out=encoded.file("shards.npz"))
    whole, part = (read_arrays(encoded.vote(first, 5, **given), CHUNK) for first in (0, 4))
    assert np.array_equal(whole["votes"][4:], part["votes"])
    assert (whole["test_votes"] == read_arrays(encoded.test, SAMPLES)["y"]).mean() > 0.8
    assert whole.meta["encoder"]
    with refuses("encoder"):
        encoded.vote(0, 1, **given, encoder=None)
