"""The largest Rényi divergence of three outcomes over many cells, each known by bounds on its probabilities and ratios.

With r = ln P − ln Q the divergence is ln(1 + Σ P·f(r))/(α − 1), f(r) = (e^{(α−1)r} − 1) + (α−1)(e^{−r} − 1) ≥ 0, as the
probabilities sum to 1 on both sides. f grows with |r|.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array

#: Relative rounding of the sums and functions below, with room to spare: f loses at most 4·2⁻⁵²/_SMALL to cancellation.
_ROUNDING = 1e-10

#: Up to this α·|r|, f is bounded by its Taylor polynomial.
_SMALL = 1e-4

_ROWS, _COLUMNS = 3, 3  # of one block of cells


def excess(ratio: Array, order: float) -> Array:
    """f(r), or at most a share of 1e-4 more.

    f′(r) = (α−1)e^{(α−1)r}(1 − e^{−αr}) is at most α(α−1)·r·e^{(α−1)r} for r ≥ 0, and −f′(r) at most
    α(α−1)·|r|·e^{|r|} for r < 0; so f(r) ≤ α(α−1)r²/2 · e^{max((α−1)r, −r)}.
    """
    scaled = (order - 1) * ratio
    small = order * np.abs(ratio) <= _SMALL
    with np.errstate(over="ignore", invalid="ignore"):
        power = np.exp(np.maximum(scaled, -ratio))
        polynomial = order * scaled * ratio / 2 * power
        result: Array = np.where(small, polynomial, np.expm1(scaled) + (order - 1) * np.expm1(-ratio))
    return result


@dataclass(frozen=True, eq=False)
class Cells:
    """Bounds per cell on the probabilities of a, b and neither, and on their ratios, in blocks.

    `low` and `high` (3 × cells) bound P. `ratio` (4 × cells) holds what r is at most for a, at least for b, and at most
    and at least for neither. Cells lie block after block, `size` to each; `blocks` has the bounds of whole blocks.
    """

    low: Array
    high: Array
    ratio: Array
    blocks: "Cells | None" = None
    size: int = 1

    @classmethod
    def of(cls, low: Array, high: Array, ratio: Array) -> "Cells":
        """From arrays of rows × columns of cells, adjacent ones being alike."""
        lows, highs, ratios = (_blocked(each) for each in (low, high, ratio))
        together = cls(lows.min(axis=2), highs.max(axis=2), _away(ratios))
        plain = [each.reshape(len(each), -1) for each in (lows, highs, ratios)]
        return cls(plain[0], plain[1], plain[2], blocks=together, size=_ROWS * _COLUMNS)

    def with_ratio(self, ratio: Array) -> "Cells":
        """The same cells with other ratios (4 × rows × columns)."""
        assert self.blocks is not None
        ratios = _blocked(ratio)
        blocks = replace(self.blocks, ratio=_away(ratios))
        return replace(self, ratio=ratios.reshape(len(ratios), -1), blocks=blocks)

    def worst(self, order: float) -> float:
        """A bound on the largest divergence of order α: the greatest bound of any cell.

        Cells are looked at only where their block's own bound is above what the best block holds.
        """
        assert self.blocks is not None
        outer = self.blocks._sums(order, slice(None))
        found = float(self._sums(order, self._within(np.array([np.argmax(outer)]))).max())
        found = max(found, float(self._sums(order, self._within(np.flatnonzero(outer > found))).max(initial=0.0)))
        return float(np.log1p(found)) * (1 + _ROUNDING) / (order - 1)

    def _within(self, blocks: NDArray[np.intp]) -> NDArray[np.intp]:
        result: NDArray[np.intp] = (blocks[:, None] * self.size + np.arange(self.size)).ravel()
        return result

    def _sums(self, order: float, where: NDArray[np.intp] | slice) -> Array:
        """Σ P·f(r) at most, per cell: each P at its bound, or what ΣP = 1 leaves to one of the two classes."""
        low, high = self.low[:, where], self.high[:, where]
        first, second, above, below = excess(self.ratio[:, where], order)
        neither = np.maximum(above, below)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = high[0] * first + high[1] * second + high[2] * neither
            for other, mine, yours in ((1, first, second), (0, second, first)):
                gain, rest = yours - mine, neither - mine
                left = mine + np.where(gain > 0, high[other], low[other]) * gain
                sums = np.fmin(sums, left + np.where(rest > 0, high[2], low[2]) * rest)
        result: Array = np.where(np.isnan(sums), np.inf, sums * (1 + _ROUNDING))
        return result


def _blocked(values: Array) -> Array:
    """Rows × columns cut into blocks: … × blocks × cells of a block, the last ones repeated to fill it."""
    rows, columns = values.shape[-2:]
    more = [(0, 0)] * (values.ndim - 2) + [(0, -rows % _ROWS), (0, -columns % _COLUMNS)]
    padded = np.pad(values, more, mode="edge")
    cut = padded.reshape(*values.shape[:-2], padded.shape[-2] // _ROWS, _ROWS, -1, _COLUMNS)
    moved = np.moveaxis(cut, -3, -2)
    result: Array = moved.reshape(*values.shape[:-2], -1, _ROWS * _COLUMNS)
    return result


def _away(ratio: Array) -> Array:
    """The ratios of blocks, farthest from 0."""
    largest = np.abs(ratio).max(axis=2)
    result: Array = largest * np.array([1, -1, 1, -1])[:, None]
    return result
