"""Test what all encoders share: reading from files, records encoded alone, refusal of other samples and arrays."""

import numpy as np
import pytest
import torch
from tests.rounding import ROUNDING

from patebench.core.errors import PatebenchError
from patebench.features import ENCODERS, Encoder, contrast, has_fixed_outputs, patches, principal_axes
from patebench.features.principal_axes import PrincipalAxes

TOP = np.finfo(np.float32).max
RNG = np.random.default_rng(0)
SAMPLES = {
    "images": RNG.integers(0, 256, (24, 3, 12, 16), dtype=np.uint8),
    "tables": RNG.normal(2, 3, (24, 5)).astype(np.float32),
}
CASES = [
    *((name, "images") for name in ENCODERS if ENCODERS.fact(name, "reads") != "tables" and "imagenet" not in name),
    *((name, "tables") for name in ENCODERS if ENCODERS.fact(name, "reads") != "images"),
]


def learnt(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> Encoder:
    few = {contrast: {"STEPS": 3, "PASSES": 0}, patches: {"CLUSTERS": 10, "PATCHES": 2000, "ROUNDS": 3}}
    for module, values in (few | {principal_axes: {"WIDTH": 12}}).items():
        for constant, value in values.items():
            monkeypatch.setattr(module, constant, value)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder: Encoder = ENCODERS.load(name).learn(SAMPLES[kind])
    return encoder


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_features_are_the_same_in_any_batch_and_from_a_file(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, x = learnt(name, kind, monkeypatch), SAMPLES[kind]
    again, alone = type(encoder).of(encoder.arrays()), encoder.features_alone(x)
    np.testing.assert_allclose(again.features(x), encoder.features(x), rtol=0, atol=10 * ROUNDING)
    np.testing.assert_array_equal(again.features_alone(x[::-3].copy()), alone[::-3])
    np.testing.assert_allclose(encoder.features(x), alone, atol=0.02)
    assert np.linalg.norm(alone, axis=1).max() <= 1 + 1e-6


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_extreme_records_have_finite_features_of_at_most_unit_length(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = SAMPLES[kind].copy()
    if kind == "tables":
        pool[:, 0], pool[:, 1] = 7, np.where(np.arange(len(pool)) < 13, TOP, -TOP)
        records = np.outer([0, 1e-45, 1e30, TOP], [1, -1, 1, -1, 0]).astype(np.float32)
        records = np.concatenate([records, -records])
    else:
        records = np.zeros((3, *pool.shape[1:]), np.uint8)
        records[1], records[2, ..., ::2] = 255, 255
    monkeypatch.setitem(SAMPLES, kind, pool)
    vectors = learnt(name, kind, monkeypatch).features_alone(records)
    assert np.linalg.norm(vectors, axis=1).max() <= 1 + 1e-6


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_other_samples_and_arrays_are_refused(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = learnt(name, kind, monkeypatch)
    with pytest.raises(PatebenchError, match="but the encoder reads samples of shape"):
        encoder.features(SAMPLES[kind][..., 1:])
    arrays = encoder.arrays()
    with pytest.raises(PatebenchError, match=r"do not fit|so it is damaged|instead of"):
        type(encoder).of({**arrays, "weights": arrays["weights"][1:]})
    if reads := ENCODERS.fact(name, "reads"):
        with pytest.raises(PatebenchError, match="samples of shape"):
            type(encoder).learn(next(x for other, x in SAMPLES.items() if other != reads))


def test_only_fixed_outputs_may_replace_the_samples_of_a_data_set() -> None:
    assert set(filter(has_fixed_outputs, ENCODERS)) == {"imagenet", "imagenet-lite2", "scattering", "axes"}


@pytest.mark.parametrize("samples", [30, 8])
def test_units_are_those_of_a_singular_value_decomposition(samples: int) -> None:
    """For more samples than numbers and for fewer, similarities of samples do not depend on the signs of axes."""
    numbers = torch.from_numpy(np.random.default_rng(0).normal(size=(samples, 12)) * np.arange(1, 13) + 5)
    scaled = ((numbers - numbers.mean(0)) / numbers.std(0)).numpy()
    left, singular, _ = np.linalg.svd(scaled, full_matrices=False)
    rank = min(samples - 1, 12)
    units = left[:, :rank] * singular[:rank] * (singular[:rank] ** 2 / samples) ** -0.35
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    axes = PrincipalAxes.learn(numbers)
    assert axes.axes.shape == (12, rank)
    computed = axes.units(numbers.float())
    np.testing.assert_allclose(computed @ computed.T, units @ units.T, atol=1e-4)
