"""Random affine maps of a batch of images, drawn per image."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from patebench.models.recipes import Recipe


def random_affine(x: Tensor, recipe: Recipe, rng: torch.Generator, *, fill: float) -> Tensor:
    """Rotate, shear, scale and shift each image of `x` (samples, channels, height, width) at random.

    What comes in from outside the image has the value `fill`. The draws come from `rng` on the CPU, so a run on another
    device sees the same maps.
    """
    draws = torch.rand((6, len(x)), generator=rng) * 2 - 1
    angle = draws[0] * math.radians(recipe.rotation)
    shear = torch.tan(draws[1] * math.radians(recipe.shear))
    across, down = torch.exp(draws[2:4] * math.log1p(recipe.scale))
    cos, sin = torch.cos(angle), torch.sin(angle)
    rows = [
        across * cos, across * (cos * shear - sin), 2 * recipe.shift * draws[4],
        down * sin, down * (sin * shear + cos), 2 * recipe.shift * draws[5],
    ]  # fmt: skip
    theta = torch.stack(rows, 1).view(-1, 2, 3).to(x.device)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x - fill, grid, align_corners=False) + fill
