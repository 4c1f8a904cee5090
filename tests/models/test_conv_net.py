"""Test Conv-Middle and Conv-Small: numbers of parameters as printed in papers, names of blocks, and hints."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from patebench.core.errors import PatebenchError
from patebench.models import architectures, make_learner
from patebench.models.network import Network, blocks, hint_layers

MNIST, COLOUR = (1, 28, 28), (3, 32, 32)


@pytest.mark.parametrize(
    ("width", "shape", "printed"),
    [
        (architectures.SMALL, MNIST, 157.1e3),  # the teachers of PET-DL, Table 3, and its students
        (12, MNIST, 23.0e3),
        (9, MNIST, 13.2e3),
        (architectures.MIDDLE, COLOUR, 1.43e6),
        (49, COLOUR, 0.37e6),
        (33, COLOUR, 0.17e6),
        (24, COLOUR, 0.09e6),
    ],
)
def test_sizes_are_near_those_that_are_printed(width: int, shape: tuple[int, ...], printed: float) -> None:
    built = architectures.conv_net(shape, 10, width=width)
    count = sum(weights.numel() for weights in built.parameters())
    assert count == architectures.parameters(width, shape, 10)
    assert abs(count / printed - 1) < 0.04
    assert architectures.parameters(architectures.SMALL, MNIST, 10) == 157_066


@pytest.mark.parametrize(("count", "width"), [(157_066 / 6.83, 12), (157_066 / 11.9, 9), (157_066, 32), (1, 1)])
def test_the_width_for_a_number_of_parameters(count: float, width: int) -> None:
    assert architectures.width_of(count, MNIST, 10) == width


def test_networks_say_which_layers_give_hints() -> None:
    net = architectures.conv_net((1, 8, 8), 3, width=2)
    assert (blocks(net), blocks(nn.Linear(2, 2))) == (["block1", "block2", "block3"], [])
    with pytest.raises(PatebenchError, match="no layer 'block4' for hints; choose one of block1, block2, block3"):
        hint_layers(net, "block4")
    with pytest.raises(PatebenchError, match="use the model conv-small"):
        hint_layers(nn.Sequential(nn.Linear(2, 2)), "block1")


def test_hints_of_a_learner_are_those_of_its_network() -> None:
    x = np.random.default_rng(0).integers(0, 255, (30, 1, 8, 8)).astype(np.uint8)
    learner = make_learner("conv-small", "plain", classes=2, epochs=1)
    assert isinstance(learner, Network)
    learner.fit(x, np.arange(30) % 2, seed=0)
    hints = learner.hints(x, "block1")
    assert hints.shape == (30, 4 * architectures.SMALL)
    net = learner.net.eval()
    maps = net.block1(learner.standardise(torch.from_numpy(x).to(learner.device)))  # type: ignore[operator]
    assert np.allclose(hints, F.avg_pool2d(maps, 4).flatten(1).detach().cpu().numpy(), atol=2e-2)
