"""Test that models learn from any finite table, and that standardised queries stay within a limit."""

import numpy as np
import pytest
import torch

from patebench.features import contrast, graph
from patebench.models import make_learner
from patebench.models.scaling import LIMIT, Columns, Standardise
from patebench.students import STUDENTS, reads_table
from patebench.students.interface import StudentConfig, StudentData
from patebench.students.student_training import train

LARGEST = np.finfo(np.float32).max
LEAST = np.finfo(np.float32).smallest_subnormal


def table(samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(samples, 4)).astype(np.float32)
    return x, (x[:, 0] + x[:, 1] > 0).astype(np.int64)


#: What is put into the first rows of a table.
EXTREMES = {
    "one record": np.full((1, 4), LARGEST),
    "two records of one sign": np.full((2, 4), LARGEST),
    "one against others": np.array([[1], [-1], [-1], [-1]], np.float32) * LARGEST,
    "half of the records": np.array([[1, -1, 1, -1]] * 20, np.float32) * LARGEST,
    "all of one column": np.array([[LARGEST, 0, 1, -1]] * 40, np.float32),
    "subnormal values": np.array([[LEAST, -LEAST, 1e-40, 0]] * 10, np.float32),
    "subnormal columns": np.outer(np.arange(40), np.array([1, -1, 3, 5])).astype(np.float32) * LEAST,
    "both": np.array([[LEAST, LARGEST, -LEAST, -LARGEST]] * 3, np.float32),
}


def extreme(name: str) -> np.ndarray:
    x = table(40)[0]
    x[: len(EXTREMES[name])] = EXTREMES[name]
    return x


@pytest.mark.slow
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("model", ["mlp", "logistic", "random-forest"])
def test_every_model_learns_from_every_finite_table(model: str, name: str) -> None:
    learner = make_learner(model, "plain", classes=2, epochs=2)
    learner.fit(extreme(name), table(40)[1], seed=0)
    for queries in (table(30, 1)[0], extreme("both"), extreme("subnormal columns")):
        found = learner.log_probabilities(queries)
        np.testing.assert_allclose(np.exp(found).sum(1), 1, rtol=1e-5)
        assert np.array_equal(learner.predict(queries), found.argmax(1))


@pytest.mark.slow
@pytest.mark.parametrize("method", [name for name in STUDENTS if not reads_table(name)])
def test_every_student_learns_from_every_finite_table(method: str) -> None:
    labels = np.where(np.arange(40) % 2, table(40)[1], -1)
    for name in ("one against others", "both"):
        data = StudentData(pool=extreme(name), labels=labels, classes=2)
        epochs = None if method in ("label-spreading", "nearest-label") else 1
        student, _ = train(data, StudentConfig(method=method, epochs=epochs), seed=0)
        found = student.log_probabilities(extreme("half of the records"))
        np.testing.assert_allclose(np.exp(found).sum(1), 1, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", [contrast.ContrastEncoder, graph.GraphEncoder])
def test_every_finite_table_has_features(encoder: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contrast, "STEPS", 10)
    monkeypatch.setattr(contrast, "PASSES", 1)
    for name in EXTREMES:
        found = encoder.learn(extreme(name)).features_alone(extreme("both"))
        assert np.isfinite(found).all()
        assert np.linalg.norm(found, axis=1).max() < 1 + 1e-6


ROUNDED = np.tile(np.float32(0.3) + np.arange(-1, 2).astype(np.float32) * np.spacing(np.float32(0.3)), 2)


@pytest.mark.parametrize(
    "column",
    [np.zeros(6), np.full(6, 0.1), np.full(6, -LARGEST), ROUNDED, 1e6 * ROUNDED],
    ids=["zeros", "one value", "the largest", "last bits", "last bits of large values"],
)
def test_a_constant_column_is_divided_by_one_and_another_by_its_deviation(column: np.ndarray) -> None:
    shard = column.astype(np.float32)[:, None]
    queries = shard[:2] + np.array([[1.0], [0.25]], np.float32)
    expected = queries.astype(np.float64) - shard.mean(dtype=np.float64)
    np.testing.assert_allclose(Columns.of(shard).transform(queries), expected, atol=1e-6)
    np.testing.assert_allclose(Standardise(torch.from_numpy(shard))(torch.from_numpy(queries)), expected, atol=1e-6)
    years = np.array([[2019.0], [2020.0], [2021.0], [2020.0]], np.float32)
    stamps = np.array([[1.7e9], [1.7e9 + 512]], np.float32)  # constant up to rounding
    for varying in (years, 1e-30 * years, stamps):
        assert Columns.of(varying).transform(varying).std() == pytest.approx(1)


def test_no_standardised_value_exceeds_the_limit() -> None:
    shard = np.array([[0.0, 5.0], [1e-9, 5.0], [0.0, 5.0]], np.float32)
    queries = np.array([[1.0, 1e9], [-LARGEST, -LARGEST]], np.float32)
    by_torch = Standardise(torch.from_numpy(shard))(torch.from_numpy(queries))
    for found in (Columns.of(shard).transform(queries), by_torch):
        assert found.tolist() == [[LIMIT, LIMIT], [-LIMIT, -LIMIT]]


@pytest.mark.parametrize("level", [0, 1, 77, 255])
def test_a_constant_channel_is_divided_by_one(level: int) -> None:
    images = torch.randint(0, 256, (30, 3, 9, 9), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    images[:, 1] = level
    standardise = Standardise(images)
    others = images.clone()
    others[:, 1] = 80
    np.testing.assert_allclose(standardise(others)[:, 1], np.clip(80.0 - level, -LIMIT, LIMIT), atol=1e-4)
    assert standardise(others)[:, [0, 2]].abs().max() < 3
    assert abs(standardise.background) <= LIMIT


def test_images_are_standardised_in_single_precision() -> None:
    """The results of image data sets depend on these bits."""
    x = torch.randint(0, 256, (50, 3, 8, 8), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    mean = x.float().mean((0, 2, 3), keepdim=True)
    deviation = x.float().std((0, 2, 3), keepdim=True, correction=0)
    standardise = Standardise(x)
    assert torch.equal(standardise(x), (x.float() - mean) / deviation)
    assert standardise.background == float((-mean / deviation).min())
    assert standardise(x).dtype == torch.float32
