"""Random affine maps of a batch of images, drawn per image, and smooth bends (Simard, Steinkraus, Platt 2003)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from patebench.models.recipes import Recipe


def random_affine(x: Tensor, recipe: Recipe, rng: torch.Generator, *, fill: float) -> Tensor:
    """Rotate, shear, scale, shift and bend each image of `x` (samples, channels, height, width) at random.

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
    if recipe.bend:
        grid = grid + _bends(x, recipe.bend, rng)
    return F.grid_sample(x - fill, grid, align_corners=False) + fill


def _bends(x: Tensor, deviation: float, rng: torch.Generator) -> Tensor:
    """Displacements (samples, height, width, 2) that are smooth over each image: random at 5×5 points, cubic between.

    The standard deviation at those points is a fraction of the image's size; the whole image is 2 units wide.
    """
    points = 2 * deviation * torch.randn((len(x), 2, 5, 5), generator=rng).to(x.device)
    return F.interpolate(points, list(x.shape[2:]), mode="bicubic", align_corners=True).permute(0, 2, 3, 1)
