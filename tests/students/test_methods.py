"""Test every student method: accuracy, reproducibility, interruptions, and use of its data alone."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.refusals import refuses
from tests.rounding import ROUNDING
from tests.students.world import images, student_data, table, told

from patebench.core.errors import PatebenchError
from patebench.students import STUDENTS, learns_from_unlabelled, needs_features, reads_table, takes
from patebench.students.gan import Discriminator, initialise, networks
from patebench.students.interface import StudentConfig, StudentData
from patebench.students.student_training import Checkpoint, train

STUDENTS_FOLDER = Path(__file__).parents[2] / "workflow" / "patebench" / "students"
#: Epochs of a short training, enough for an easy world.
SHORT = {"supervised": 60, "noise-aware": 60, "gan": 16, "vat": 12, "consistency": 12, "cluster-consistency": 12}
SHORT |= {"label-spreading": 1, "nearest-label": 1, "table-regression": 1, "table-spreading": 1, "table-network": 4}
#: Those that learn from labels, and not from a table alone.
BY_LABELS = [name for name in STUDENTS if not reads_table(name)]


class InterruptionError(Exception):
    """Error that simulates a killed job."""


def stop_at(epoch: int) -> Any:
    def progress(done: int, of: int) -> None:
        if done == epoch:
            raise InterruptionError

    return progress


# In this world a mirror changes the class, and two methods are for photographs: `test_table_network.py`.
@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in STUDENTS if name not in ("table-network", "table-finetuning")])
def test_every_method_learns_from_few_labels(method: str) -> None:
    x, y = images(160, seed=0)
    student, curve = train(told(method, x, y, 24), StudentConfig(method=method, epochs=SHORT[method]), seed=0)
    unseen, truth = images(200, seed=1)
    found = student.log_probabilities(unseen)
    np.testing.assert_allclose(np.exp(found).sum(1), 1, rtol=1e-6)
    assert np.mean(found.argmax(1) == truth) > 0.9
    assert [row["epoch"] for row in curve] == list(range(1, len(curve) + 1))
    if method in BY_LABELS:
        x, y = table(160, seed=0)
        student, _ = train(student_data(x, y, 16, classes=2), StudentConfig(method=method, epochs=20), seed=0)
        unseen, truth = table(200, seed=1)
        assert np.mean(student.log_probabilities(unseen).argmax(1) == truth) > 0.9, "tables too"


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in STUDENTS if name != "table-finetuning"])  # tested with its weights
def test_an_interrupted_training_ends_with_the_same_bytes(method: str, tmp_path: Path) -> None:
    """The job is killed after at most two epochs and runs again; other random draws happen in between."""
    x, y = images(64, seed=0)
    config = StudentConfig(method=method, epochs=4)
    whole, curve = train(told(method, x, y, 20), config, seed=3)
    last = min(2, whole.epochs)
    checkpoint = Checkpoint(path=tmp_path / "student.checkpoint", identity="this one", seconds=0)
    with pytest.raises(InterruptionError):
        train(told(method, x, y, 20), config, seed=3, progress=stop_at(last), checkpoint=checkpoint)
    assert checkpoint.path.is_file()
    torch.rand(5)
    epochs: list[int] = []
    again, same = train(
        told(method, x, y, 20), config, seed=3, checkpoint=checkpoint, progress=lambda done, of: epochs.append(done)
    )
    assert epochs == ([] if SHORT[method] == 1 else [3, 4])
    assert same == curve
    assert np.array_equal(whole.log_probabilities(x), again.log_probabilities(x))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, b"PK garbage", b""], ids=["another training", "garbage", "nothing"])
def test_a_checkpoint_that_is_not_its_own_is_not_used(content: bytes | None, tmp_path: Path) -> None:
    x, y = images(64, seed=0)
    data, config, path = student_data(x, y, 8), StudentConfig(method="supervised", epochs=3), tmp_path / "c"
    if content is None:
        with pytest.raises(InterruptionError):
            train(
                data, config, seed=0, progress=stop_at(2), checkpoint=Checkpoint(path=path, identity="other", seconds=0)
            )
    else:
        path.write_bytes(content)
    done: list[int] = []
    mine = Checkpoint(path=path, identity="mine")
    train(data, config, seed=0, progress=lambda epoch, of: done.append(epoch), checkpoint=mine)
    assert done == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("method", STUDENTS.names())
def test_training_changes_the_student_alone_and_evaluations_change_nothing(method: str) -> None:
    """Training changes neither the data nor torch's generator; results of `evaluate` are only in the curve."""
    x, y = images(24, seed=0)
    data, config = told(method, x, y, 20), StudentConfig(method=method, epochs=1)
    before = data.pool.copy(), data.labels.copy()
    torch.manual_seed(3)
    alone, _ = train(data, config, seed=1)
    drawn = torch.rand(4)
    other, curve = train(data, config, seed=1, evaluate=lambda student: {"accuracy": 0.5})
    assert np.array_equal(alone.log_probabilities(x), other.log_probabilities(x))
    assert curve[-1]["accuracy"] == 0.5
    torch.manual_seed(3)
    assert torch.equal(torch.rand(4), drawn)
    for array, copy in zip((data.pool, data.labels), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_training_stops_when_the_student_says_one_class_of_every_sample() -> None:
    x, _ = images(64, seed=0)
    _, curve = train(student_data(x, np.zeros(64, int), 64), StudentConfig(method="supervised", epochs=200), seed=0)
    assert len(curve) < 150


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in STUDENTS if not needs_features(name)])
def test_unlabelled_samples_matter_where_the_method_reads_the_pool_and_nowhere_else(method: str) -> None:
    """Two pools with the same labelled samples; the others are inverted images in the second."""
    x, y = images(64, seed=0)
    inverted = np.where(np.arange(64)[:, None, None, None] < 20, x, 255 - x)
    config = StudentConfig(method=method, epochs=2)
    student, other = (train(told(method, pool, y, 20), config, seed=1)[0] for pool in (x, inverted))
    same = np.allclose(student.log_probabilities(x), other.log_probabilities(x), rtol=0, atol=ROUNDING)
    assert same != learns_from_unlabelled(method)


@pytest.mark.slow
@pytest.mark.parametrize("method", BY_LABELS)
def test_samples_without_a_label_teach_no_class(method: str) -> None:
    """Labels of −1 at any position are no class, and the likelihood of unlabelled samples is not read."""
    x, y = images(64, seed=0)
    labels = np.where(np.arange(64) % 3 == 1, y, -1)
    known = np.log(np.where(np.arange(4) == y[:, None], 0.7, 0.1))
    found = []
    for other in (0.0, -7.5 * np.arange(4)):
        likelihood = np.where(labels[:, None] >= 0, known, other)
        data = StudentData(pool=x, labels=labels, classes=4, log_likelihood=likelihood)
        found.append(train(data, StudentConfig(method=method, epochs=2), seed=1)[0].log_probabilities(x))
    np.testing.assert_allclose(*found, rtol=0, atol=ROUNDING)


def test_no_epochs_and_models_that_are_no_networks_are_refused() -> None:
    x, y = images(32, seed=0)
    with refuses("bound", "epochs"):
        StudentConfig.checked({"method": "consistency", "epochs": 0})
    with pytest.raises(PatebenchError, match="'random-forest' is not a network"):
        train(student_data(x, y, 8), StudentConfig(method="vat", model="random-forest"), seed=0)


@pytest.mark.parametrize("method", STUDENTS.names())
def test_every_method_uses_the_options_that_it_says_it_takes(method: str) -> None:
    x, y = images(32, seed=0)
    options = {"model": "mlp", "recipe": "fast"}
    taken = {name: value for name, value in options.items() if takes(method, name)}
    trainer, _ = train(told(method, x, y, 8), StudentConfig(method=method, epochs=1, **taken), seed=0)
    assert {name: getattr(trainer, name) for name in taken} == taken
    for name in options.keys() - taken:
        with refuses("own-choice", name):
            StudentConfig.checked({"method": method, name: options[name]})


@pytest.mark.slow
def test_wrong_labels_are_left_out_by_consistency() -> None:
    """A tenth of the labels is wrong; the student gives most of those samples their true label."""
    x, y = images(240, seed=0)
    wrong = np.arange(0, 60, 10)
    noisy = y.copy()
    noisy[wrong] = (y[wrong] + 1) % 4
    student, _ = train(student_data(x, noisy, 60), StudentConfig(method="consistency", epochs=30), seed=0)
    assert np.mean(student.log_probabilities(x[wrong]).argmax(1) == y[wrong]) > 0.8


@pytest.mark.parametrize("path", sorted(STUDENTS_FOLDER.rglob("*.py")), ids=lambda path: path.name)
def test_no_student_can_read_counts_votes_or_true_labels(path: Path) -> None:
    text = path.read_text()
    secrets = r"patebench\.(teachers|stages|artefacts|accounting\.votes|core\.formats)|\bopen\(|memmap"
    assert not re.search(secrets, text)
    if path.name != "student_training.py":  # it reads and writes its own checkpoint
        assert not re.search(r"patebench\.core\.files|\bPath\b", text)


# The GAN's networks.


@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 8, 8), (3, 32, 32), (3, 18, 21), (5,)])
def test_networks_fit_all_shapes_and_the_perceptron_has_the_published_layers(shape: tuple[int, ...]) -> None:
    """1000-500-250-250-250 for MNIST, weight normalisation (a length for each unit) in every layer."""
    name, discriminator, generator = networks(shape, 7)
    logits, features = discriminator(generator(torch.rand(4, 100)))
    assert logits.shape == (4, 7)
    assert features.ndim == 2
    assert name == ("salimans-cnn" if shape[0] == 3 else "salimans-mlp")
    if shape == (1, 28, 28):
        by_hand = sum(a * b + b + b for a, b in itertools.pairwise([784, 1000, 500, 250, 250, 250, 7]))
        assert sum(weights.numel() for weights in discriminator.parameters()) == by_hand


def test_initialisation_gives_each_layer_mean_zero_and_variance_one() -> None:
    torch.manual_seed(0)
    _, discriminator, _ = networks((1, 8, 8), 4)
    x = torch.rand(300, 1, 8, 8)
    discriminator.eval()  # without noise
    initialise(discriminator, x)
    first: Discriminator = discriminator
    outputs = first.features[:3](x)
    np.testing.assert_allclose(outputs.mean(0).detach(), 0, atol=1e-3)
    np.testing.assert_allclose(outputs.std(0).detach(), 1, rtol=1e-3)
