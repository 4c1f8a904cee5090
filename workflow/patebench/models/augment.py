"""Augmentation: a random affine map for each image of a batch, and smooth distortions (Simard, Steinkraus, Platt 2003).

`draw` draws the random numbers of the maps, and `move` applies the maps. In a stack of networks, each network draws
from its own generator, and `move` is called once for the images of all networks.
"""

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from patebench.models.recipes import Recipe

#: Number of random numbers per affine map; number of points on each side of the grid on which distortions are drawn.
_AFFINE, _POINTS = 6, 5


def random_affine(x: Tensor, recipe: Recipe, rng: torch.Generator, *, fill: float) -> Tensor:
    """Turn, shear, scale, shift and bend each image of `x` (samples, channels, height, width) at random.

    `recipe` limits these changes. Pixels that come from outside the image get the value `fill`.
    """
    return move(x, draw(len(x), recipe, rng).to(x.device), recipe, fill=fill)


def draw(samples: int, recipe: Recipe, rng: torch.Generator) -> Tensor:
    """Return random numbers (samples, 6) or (samples, 56), by which `move` distorts `samples` images.

    The first 6 numbers of a row, uniform on [−1, 1), define the affine map of an image. If `recipe.bend` is positive,
    50 standard normal numbers follow, which define a smooth distortion. All are drawn on the CPU, so images are changed
    alike on every device.
    """
    uniform = torch.rand((_AFFINE, samples), generator=rng).T * 2 - 1
    if not recipe.bend:
        return uniform
    return torch.cat([uniform, torch.randn((samples, 2 * _POINTS**2), generator=rng)], 1)


def move(x: Tensor, draws: Tensor, recipe: Recipe, *, fill: float | Tensor) -> Tensor:
    """Apply to each image of `x` the affine map and distortion that its row of `draws` defines; return the images.

    `x` is (samples, channels, height, width), and `draws` come from `draw` with the same `recipe`. `fill` is the value
    of pixels outside the image: one number, or one per image (samples, 1, 1, 1).
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
        grid = grid + _displacements(draws[:, _AFFINE:], list(x.shape[2:]), recipe.bend)
    return F.grid_sample(x - fill, grid, align_corners=False) + fill


def _displacements(draws: Tensor, size: list[int], deviation: float) -> Tensor:
    """Return smooth displacements (samples, height, width, 2) of the pixels of images of this `size` (height, width).

    `draws` (samples, 50) are standard normal numbers. `deviation` is the standard deviation of the displacements, as a
    fraction of the image's size.
    """
    # Displacements are in units of half the image's size; `deviation` is a fraction of the whole size.
    points = 2 * deviation * draws.reshape(-1, 2, _POINTS, _POINTS)
    down, across = (_cubic_matrix(length).to(points.device) for length in size)
    return (down @ points @ across.T).permute(0, 2, 3, 1)


@cache
def _cubic_matrix(size: int) -> Tensor:
    """Return the matrix (size, points) of cubic interpolation from evenly spaced points to `size` pixels."""
    points = torch.eye(_POINTS).view(1, _POINTS, 1, _POINTS)
    return F.interpolate(points, [1, size], mode="bicubic", align_corners=True)[0, :, 0].T.contiguous()
