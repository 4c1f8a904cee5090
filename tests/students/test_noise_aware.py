"""Test likelihoods of released labels: exact for local mechanisms, estimated for the others."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.stages.labels import release_labels
from tests.students.world import images, student_data

from patebench.artefacts.student_data import student_data as student_data_of
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays, write_arrays
from patebench.core.formats import LABELS, POOL, VOTES
from patebench.decoding.report_likelihood import log_likelihood, report_log_likelihood
from patebench.mechanisms.base import make_mechanism
from patebench.models import make_learner
from patebench.models.network import Network
from patebench.students.interface import StudentConfig
from patebench.students.student_training import train
from patebench.students.supervised import negative_log_likelihood, symmetric_channel, wrong_label_rate


def channels(*epsilons: float, classes: int = 3) -> list[np.ndarray]:
    mechanism = make_mechanism("randomised-response", {"epsilon": 1, "unbiased": 1, "participation": 1, "spread": 1})
    return [mechanism.channel(epsilon, classes).matrix for epsilon in epsilons]  # type: ignore[attr-defined]


def test_the_likelihood_of_reports_is_that_of_all_votes_that_may_lie_behind_them() -> None:
    """Compare with sums over both votes of two teachers, for the accuracy of teachers that fits best."""
    both = channels(1.0, 0.5)
    reports = np.array([[2], [0]])
    found = np.exp(log_likelihood(reports, both))[0]

    def by_hand(right: float) -> np.ndarray:
        vote = np.full((3, 3), (1 - right) / 2) + (right - (1 - right) / 2) * np.eye(3)
        return (vote @ both[0][:, 2]) * (vote @ both[1][:, 0])

    assert min(np.abs(by_hand(right) - found).max() for right in np.linspace(1 / 3, 0.999, 20001)) < 1e-4


def test_accurate_teachers_give_accurate_likelihoods() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 400)
    votes = np.where(rng.random((30, 400)) < 0.8, truth, (truth + rng.integers(1, 3, (30, 400))) % 3)
    (channel,) = channels(1.5)
    reports = np.array([[rng.choice(3, p=channel[vote]) for vote in row] for row in votes])
    found = log_likelihood(reports, [channel] * 30)
    assert np.mean(found.argmax(1) == truth) > 0.95
    silent = log_likelihood(np.full((30, 2), -1), [channel] * 30)
    assert (silent == 0).all(), "a teacher that abstains has no effect"


def a_pool(folder: Path) -> Artefact:
    facts = {"dataset": "d", "classes": 4, "class_names": list("abcd"), "seed": 0, "split": {}}
    write_arrays(folder / "pool.npz", POOL, {"x": np.zeros((70, 3), np.float32), "row": np.arange(70)}, facts)
    return read_arrays(folder / "pool.npz", POOL)


def released(folder: Path, mechanism: str, parameters: dict[str, float], pool: str = "p") -> Artefact:
    """Return labels of 50 queries, on each of which six teachers agree."""
    votes = np.tile(np.random.default_rng(0).integers(0, 4, 50), (6, 1)).astype(np.uint8)
    facts = {"partition": "", "pool": pool, "test": "", "classes": 4, "chunks": []}
    write_arrays(folder / "votes.npz", VOTES, {"votes": votes, "test_votes": votes[:, :3]}, facts)
    release_labels(folder / "votes.npz", mechanism, parameters, folder / "labels.npz", seed=0, stream="s")
    return read_arrays(folder / "labels.npz", LABELS)


def test_local_labels_alone_come_with_all_that_was_sent(tmp_path: Path) -> None:
    pool = a_pool(tmp_path)
    for mechanism, epsilon in (
        ("randomised-response", 3.0),
        ("truncated-geometric", 3.0),
        ("randomised-response", np.inf),
    ):
        parameters = {"epsilon": epsilon, "unbiased": 1.0, "participation": 0.5, "spread": 2.0}
        found = released(tmp_path, mechanism, parameters, pool.digest)
        assert found["reports"].shape == (6, 50)
        assert 0 < np.mean(found["reports"] < 0) < 1, "half of them take part"
        likelihood = student_data_of(pool, found, 20).log_likelihood
        assert likelihood is not None
        assert likelihood.shape == (70, 4)
        assert (likelihood[20:] == 0).all()
        assert np.mean(likelihood[:20].argmax(1) == found["labels"][:20]) > 0.7
    other = released(tmp_path, "lnmax", {"gamma": 1.0})
    assert set(other.arrays) == {"labels"}
    with pytest.raises(PatebenchError, match="lnmax is not a local mechanism"):
        report_log_likelihood(np.zeros((2, 3), int), other.meta)


def test_the_loss_is_the_likelihood_of_what_was_released() -> None:
    logits = torch.tensor([[1.0, 0.0, -1.0], [0.5, 0.5, 0.0]])
    p, channel = logits.softmax(1), torch.from_numpy(symmetric_channel(0.2, 3)).float()
    labels = torch.tensor([2, 0])
    by_hand = -torch.stack([(p[i] * channel[:, labels[i]]).sum().log() for i in range(2)]).mean()
    torch.testing.assert_close(negative_log_likelihood(channel[:, labels].T.log(), logits, torch.arange(2)), by_hand)
    np.testing.assert_allclose(symmetric_channel(0.2, 3).sum(1), 1)


@pytest.mark.slow
def test_the_share_of_wrong_labels_is_found_from_released_labels_alone() -> None:
    x, y = images(240, seed=0)
    rng = np.random.default_rng(1)
    noisy = np.where(rng.random(240) < 0.2, (y + 1) % 4, y)
    network = make_learner("mlp", "plain", classes=4, epochs=20)
    assert isinstance(network, Network)
    assert wrong_label_rate(student_data(x, noisy, 240), network, 0) == pytest.approx(0.2, abs=0.08)
    assert wrong_label_rate(student_data(x, y, 240), network, 0) < 0.05
    student, _ = train(student_data(x, y, 30), StudentConfig(method="noise-aware", model="mlp", epochs=2), seed=0)
    assert student.settings["channel"] == "estimated"
    assert 0 < student.settings["wrong labels"] < 0.5
