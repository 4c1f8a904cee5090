"""Random affine maps of a batch of images, drawn per image, and smooth bends (Simard, Steinkraus, Platt 2003).

What is drawn and what is done with it are two functions: networks that are trained as one draw each from a generator of
its own, and all their images are moved at once.
"""

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from patebench.models.recipes import Recipe

#: Numbers drawn for an affine map, and the points at which a bend is drawn, each with two coordinates.
_AFFINE, _POINTS = 6, 5


def random_affine(x: Tensor, recipe: Recipe, rng: torch.Generator, *, fill: float) -> Tensor:
    """Rotate, shear, scale, shift and bend each image of `x` (samples, channels, height, width) at random.

    What comes in from outside the image has the value `fill`.
    """
    return move(x, draw(len(x), recipe, rng).to(x.device), recipe, fill=fill)


def draw(samples: int, recipe: Recipe, rng: torch.Generator) -> Tensor:
    """All that is random about the maps of so many images: a row (6,) for each, or (56,) where they bend.

    Six numbers are uniform on [−1, 1), the others normal. The draws come from `rng` on the CPU, so a run on another
    device sees the same maps.
    """
    uniform = torch.rand((_AFFINE, samples), generator=rng).T * 2 - 1
    if not recipe.bend:
        return uniform
    return torch.cat([uniform, torch.randn((samples, 2 * _POINTS**2), generator=rng)], 1)


def move(x: Tensor, draws: Tensor, recipe: Recipe, *, fill: float | Tensor) -> Tensor:
    """Each image of `x` (samples, channels, height, width) under the map that its row of `draws` stands for.

    `fill` is the value outside of all images, or of each: (samples, 1, 1, 1).
    """
    turn, slant, wider, taller, right, lower = draws[:, :_AFFINE].T
    angle, shear = turn * math.radians(recipe.rotation), torch.tan(slant * math.radians(recipe.shear))
    across, down = (torch.exp(size * math.log1p(recipe.scale)) for size in (wider, taller))
    cos, sin = torch.cos(angle), torch.sin(angle)
    rows = [
        across * cos, across * (cos * shear - sin), 2 * recipe.shift * right,
        down * sin, down * (sin * shear + cos), 2 * recipe.shift * lower,
    ]  # fmt: skip
    grid = F.affine_grid(torch.stack(rows, 1).view(-1, 2, 3), list(x.shape), align_corners=False)
    if recipe.bend:
        grid = grid + _bends(draws[:, _AFFINE:], list(x.shape[2:]), recipe.bend)
    return F.grid_sample(x - fill, grid, align_corners=False) + fill


def _bends(draws: Tensor, size: list[int], deviation: float) -> Tensor:
    """Displacements (samples, height, width, 2) that are smooth over each image: random at 5×5 points, cubic between.

    The standard deviation at those points is a fraction of the image's size; the whole image is 2 units wide.
    """
    points = 2 * deviation * draws.reshape(-1, 2, _POINTS, _POINTS)
    down, across = (_cubic(length).to(points.device) for length in size)
    return (down @ points @ across.T).permute(0, 2, 3, 1)


@cache
def _cubic(size: int) -> Tensor:
    """What takes values at evenly spaced points to `size` places, by cubic interpolation: (size, points)."""
    points = torch.eye(_POINTS).view(1, _POINTS, 1, _POINTS)
    return F.interpolate(points, [1, size], mode="bicubic", align_corners=True)[0, :, 0].T.contiguous()
