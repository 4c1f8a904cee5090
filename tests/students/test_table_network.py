"""Test networks that learn the predictions of a table regression, on stripes, which a mirror does not change."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.features.test_imagenet import installed
from tests.features.test_patches import photographs

from patebench.models.efficientnet_lite import EfficientNetLite, pretrained
from patebench.students.interface import NoisyTable, StudentConfig, StudentData
from patebench.students.student_training import train
from patebench.students.table_network import finetuning


def brightness(x: np.ndarray) -> np.ndarray:
    """Return unit vectors (samples, 2) of the mean changes of grey level downwards and across."""
    flat = x.astype(float).mean(axis=1)
    found = np.stack([np.abs(np.diff(flat, axis=axis)).mean(axis=(1, 2)) for axis in (1, 2)], axis=1)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def table_of_stripes() -> tuple[StudentData, np.ndarray, np.ndarray]:
    """Return a table of votes on stripes with its pool, and unseen images with their classes."""
    pool, kind = photographs(200)
    unseen, truth = photographs(100, seed=1)
    points, queries = brightness(pool), np.arange(20)
    near = np.square(points[:, None] - points[queries]).sum(axis=2).argsort(axis=1)[:, :5]
    counts = np.random.default_rng(0).normal(size=(20, 2))
    np.add.at(counts, (near, kind[:, None]), 1)
    table = NoisyTable(counts=counts, queries=queries, variance=1.0, records=200, neighbours=5)
    labels = np.where(np.arange(200) < 20, counts.argmax(axis=1).repeat(10), -1)
    data = StudentData(pool=pool, labels=labels, classes=2, features=brightness, table=table)
    return data, unseen, truth


def test_it_predicts_unseen_images_and_their_mirror_images_alike() -> None:
    data, unseen, truth = table_of_stripes()
    student, curve = train(data, StudentConfig(method="table-network", epochs=6), seed=0)
    found = student.log_probabilities(unseen)
    assert np.mean(found.argmax(1) == truth) > 0.95
    np.testing.assert_allclose(student.log_probabilities(np.ascontiguousarray(unseen[..., ::-1])), found, atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=1e-6)
    assert curve[-1]["loss"] < curve[0]["loss"]


@pytest.mark.slow
@installed
def test_a_pretrained_network_learns_the_table_and_continues_from_a_stored_state() -> None:
    data, unseen, truth = table_of_stripes()
    config = StudentConfig(method="table-finetuning", epochs=4)
    student, curve = train(data, config, seed=0)
    assert np.mean(student.log_probabilities(unseen).argmax(1) == truth) > 0.95
    assert curve[-1]["loss"] < curve[0]["loss"]
    weights = pretrained().state_dict()
    again = EfficientNetLite()
    again.load_state_dict(weights)  # the shared network is not the one that was trained
    assert all(torch.equal(one, weights[name]) for name, one in again.state_dict().items())
    few = replace(data, pool=data.pool[:40], labels=data.labels[:40])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        whole = finetuning(few, config, seed=1)
        whole.epoch()
        state = copy.deepcopy(whole.state())
        before = torch.get_rng_state()
        loss = whole.epoch()
        other = finetuning(few, config, seed=1)
        other.restore(state)
        torch.set_rng_state(before)
        assert other.epoch() == loss
