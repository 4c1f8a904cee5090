"""Augmentation: a random affine map for each image of a batch, and smooth distortions (Simard, Steinkraus, Platt 2003).

`draw` draws the random numbers of these changes, and `move` applies them. If several networks are trained together,
each draws from its own generator, and `move` is called once for the images of all networks.

`random_view` changes images or rows of tables in one of three strengths: weak, medium and strong. A view has the same
class as the original. Images therefore keep their colours and are not flipped; a flipped digit may be another digit.
"""

import math
from dataclasses import replace
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from patebench.models.recipes import MODERN, Recipe

#: Number of random numbers per affine map; number of points on each side of the grid on which distortions are drawn.
_AFFINE, _POINTS = 6, 5

#: Limits of the random views of images, by strength.
VIEWS = {
    "weak": replace(MODERN, rotation=4.0, shear=4.0, scale=0.04, shift=0.04),
    "medium": replace(MODERN, rotation=10.0, shear=10.0, scale=0.1, shift=0.08, bend=0.02),
    "strong": replace(MODERN, rotation=15.0, shear=15.0, scale=0.15, shift=0.1, bend=0.03),
}
#: Fraction of a table's features that a view swaps, and standard deviation of the noise on all features, by strength.
_SWAPPED = {"weak": 0.05, "medium": 0.1, "strong": 0.25}
_JITTER = {"weak": 0.05, "medium": 0.1, "strong": 0.15}


def random_view(x: Tensor, strength: str, *, fill: float) -> Tensor:
    """Return a random view of each standardised sample of `x` (samples, …): a distorted image or a changed row.

    `strength` is "weak", "medium" or "strong". `fill` is the value of pixels outside an image. In a row of a table,
    random features are replaced by those of other samples of the batch ("swap noise"). Gaussian noise is then added to
    all features.
    """
    if x.ndim == 4:
        moved = random_affine(x, VIEWS[strength], torch.default_generator, fill=fill)
        return moved.contiguous(memory_format=torch.channels_last)
    others = x[torch.randint(len(x), x.shape), torch.arange(x.shape[1])]
    swapped = torch.where((torch.rand(x.shape) < _SWAPPED[strength]).to(x.device), others, x)
    return swapped + _JITTER[strength] * torch.randn(x.shape).to(x.device)


def random_affine(x: Tensor, recipe: Recipe, rng: torch.Generator, *, fill: float) -> Tensor:
    """Turn, shear, scale, shift and bend each image of `x` (samples, channels, height, width) at random.

    `recipe` limits these changes. Pixels that come from outside the image get the value `fill`.
    """
    return move(x, draw(len(x), recipe, rng).to(x.device), recipe, fill=fill)


def draw(samples: int, recipe: Recipe, rng: torch.Generator) -> Tensor:
    """Return random numbers by which `move` distorts `samples` images, one row per image.

    The first 6 numbers of a row, uniform on [−1, 1), define the affine map of an image. If `recipe.bend` is positive,
    50 standard normal numbers follow, which define a smooth distortion. The numbers are drawn on the CPU, so they are
    the same on every device.
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
    """Return smooth displacements (samples, height, width, 2) of all pixels, for images of `size` (height, width).

    `draws` (samples, 50) are standard normal numbers, two for each point of a grid of 5 × 5 points. Displacements
    between these points are interpolated. `deviation` is the standard deviation of the displacement of a point. It is a
    fraction of the width for horizontal displacements, and a fraction of the height for vertical ones.
    """
    # Displacements are in units of half the image's size; `deviation` is a fraction of the whole size.
    points = 2 * deviation * draws.reshape(-1, 2, _POINTS, _POINTS)
    down, across = (_cubic_matrix(length).to(points.device) for length in size)
    return (down @ points @ across.T).permute(0, 2, 3, 1)


@cache
def _cubic_matrix(size: int) -> Tensor:
    """Return the matrix (size, 5) of cubic interpolation from values at 5 evenly spaced points to `size` pixels."""
    points = torch.eye(_POINTS).view(1, _POINTS, 1, _POINTS)
    return F.interpolate(points, [1, size], mode="bicubic", align_corners=True)[0, :, 0].T.contiguous()
