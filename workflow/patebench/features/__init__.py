"""Features of public data: encoders, clusters and neighbours.

An encoder learns features of a pool without a label, maps any sample to them, and is itself public.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from patebench.core.progress import Report
from patebench.core.registry import Registry

ENCODERS = Registry("encoder")
ENCODERS.add("contrastive", "patebench.features.contrast:ContrastEncoder", about="views of a sample are alike")
ENCODERS.add("graph", "patebench.features.graph:GraphEncoder", about="contrastive, smoothed over a graph of neighbours")
ENCODERS.add("patches", "patebench.features.patches:PatchEncoder", about="clusters of small patches, for photographs")
ENCODERS.add("pixels", "patebench.features.plain_encoders:Pixels", about="grey levels as they are")
ENCODERS.add("gradients", "patebench.features.plain_encoders:Gradients", about="histograms of oriented gradients")

#: The one that learns where nothing is said.
DEFAULT = "contrastive"


class Encoder(Protocol):
    """Maps samples to vectors of at most unit length; learnt from a pool alone."""

    @classmethod
    def learn(cls, pool: NDArray[Any], report: Report | None = None) -> Self:
        """Learn from `pool` (samples, …) without a label; `report` is called with (steps done, steps in all)."""

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """A vector for each sample (samples, features). PatebenchError for samples of another shape."""

    def features_alone(self, x: NDArray[Any], report: Report | None = None) -> NDArray[np.float64]:
        """The same, of private records: for each by itself, so that none moves the last bits of another's."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that it knows, as arrays of an ENCODER."""

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `arrays`; PatebenchError where they are not those of such an encoder."""


def one_by_one(
    features: Callable[[NDArray[Any]], NDArray[np.float64]], width: int, x: NDArray[Any], report: Report | None
) -> NDArray[np.float64]:
    """`features` (samples, width) of each sample of `x` by itself: what lies beside it does not move its last bits."""
    found = np.empty((len(x), width))
    for row in range(len(x)):
        found[row] = features(x[row : row + 1])
        if report:
            report(row + 1, len(x))
    return found
