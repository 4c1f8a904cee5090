"""Data sets of features: teachers, tables and students read the same numbers, and image students the images behind."""

from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses
from tests.stages.digits import change_record
from tests.stages.test_feature_votes import FeatureVotes
from tests.stages.test_nearest_query import NAMED, K

from patebench.config.parameters import PartitionParameters, SplitParameters, StudentParameters, TrainingParameters
from patebench.core.files import read_arrays, read_json
from patebench.core.formats import CHUNK, LABELS, POOL, SAMPLES
from patebench.stages import partition, train_student

SPLIT = SplitParameters(pool=300, test=100, encoder="axes")


class Encoded(FeatureVotes):
    """Digits by their scattering transform, and votes with weights along its principal axes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SPLIT, {"features": "scattering"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Encoded:
    return Encoded(tmp_path_factory.mktemp("encoded")).complete()


def learn(world: Encoded, method: str, epochs: int | None = None) -> dict[str, object]:
    train_student.run(
        pool=world.pool, labels=world.file("labels.npz"), test=world.test, queries=K, **NAMED,
        encoder=world.file("encoder.npz"), parameters=StudentParameters(method=method, epochs=epochs),
        out=world.file("student.json"), predictions=world.file("predictions.npz"),
    )  # fmt: skip
    return dict(read_json(world.file("student.json"), "train_student"))


@pytest.mark.slow
def test_a_table_of_features_teaches_a_regression_and_a_network_on_images(world: Encoded) -> None:
    assert read_arrays(world.pool, POOL)["x"].shape == (300, 324)
    assert read_arrays(world.pool, POOL)["images"].shape == (300, 1, 8, 8)
    linear, network = learn(world, "table-regression"), learn(world, "table-network", epochs=20)
    assert linear["accuracy"] > 0.5
    assert network["accuracy"] > 0.3
    assert network["model"] == "mirror-cnn"


def test_a_replaced_record_changes_its_own_votes_alone(world: Encoded, tmp_path: Path) -> None:
    table = read_arrays(world.file("labels.npz"), LABELS)["noisy_counts"]
    other = Encoded(tmp_path)
    change_record(other.private, 3, white=1)
    other.complete()
    assert 0.5 < np.linalg.norm(read_arrays(other.file("labels.npz"), LABELS)["noisy_counts"] - table) <= 2


def heads(world: Encoded, first: int, last: int, **changes: object) -> Path:
    partition.run(
        private=world.private, public=world.public, teachers=6, parameters=PartitionParameters(), **NAMED,
        out=world.file("shards.npz"),
    )  # fmt: skip
    given = {"partition": world.file("shards.npz"), "features": None, "selected": []}
    training = TrainingParameters(model="linear-head")
    return super(FeatureVotes, world).vote(first, last, **{**given, "training": training, **changes})


def test_linear_teachers_read_the_encoder_and_do_not_depend_on_chunks(world: Encoded) -> None:
    whole, part = read_arrays(heads(world, 0, 5), CHUNK), read_arrays(heads(world, 4, 5), CHUNK)
    assert np.array_equal(whole["votes"][4:], part["votes"])
    truth = read_arrays(world.test, SAMPLES)["y"]
    assert (whole["test_votes"] == truth).mean() > 0.8
    assert whole.meta["encoder"]


def test_linear_teachers_without_an_encoder_are_refused(world: Encoded) -> None:
    with refuses("encoder"):
        heads(world, 0, 1, encoder=None)
