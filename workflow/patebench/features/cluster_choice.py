"""How many clusters of a pool to ask about, from what is public: its features, the number of teachers, and the noise.

Clusters cost nothing where each teacher has one vote. But the more there are, the fewer votes has each, and noise hides
the label of a cluster whose votes are not well above σ. So as many are chosen as leave nearly all of the pool in
clusters of at least 2σ votes, and no more than five for each class: more have helped no student (docs/one-vote.md).

Private records are taken to lie as the pool does. No vote is looked at, and the number of teachers is the declared one,
not that of the private records, which is private by `hash`: so the choice costs no privacy.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.text import plural
from patebench.models.cells import centres, nearest
from patebench.students.strategies.prototypes import clustered
from patebench.students.strategies.prototypes import nearest as nearest_samples

#: Read together, rows are mostly right from so many times σ votes on.
LEAST_VOTES = 2.0
#: So much of the pool may lie in clusters with fewer votes.
HIDDEN = 0.05
#: More clusters for each class than this have not been found to help.
FOR_EACH_CLASS = 5


@dataclass(frozen=True)
class Clustering:
    """So many clusters: the votes that the smallest and the middle one can expect, and the share of the pool in those
    whose label noise will hide.
    """

    clusters: int
    fewest_votes: float
    median_votes: float
    hidden: float


@dataclass(frozen=True)
class Choice:
    """What was looked at, fewest clusters first, and what follows."""

    teachers: int
    sigma: float
    looked_at: Sequence[Clustering]

    @property
    def clusters(self) -> int:
        """How many to ask about: the most that have the votes that they need, or the fewest if none have."""
        return max(self._sound, default=self.looked_at[0].clusters)

    @property
    def enough(self) -> bool:
        """Whether the chosen clusters have the votes that they need; else noise is too large for any number of them."""
        return bool(self._sound)

    @property
    def _sound(self) -> list[int]:
        return [each.clusters for each in self.looked_at if each.hidden <= HIDDEN]

    def to_json(self) -> dict[str, Any]:
        return {"clusters": self.clusters, "enough": self.enough, **asdict(self)}


def choose(features: NDArray[np.floating], *, teachers: int, sigma: float, classes: int) -> Choice:
    """One to five clusters for each of the `classes` of a pool with such `features` (samples, features).

    `teachers` is their declared number, each with one vote, and σ is `sigma`. PatebenchError for a too small pool.
    """
    if len(features) < classes:
        raise PatebenchError(f"a pool of {plural(len(features), 'sample')} has no {classes} clusters; use a larger one")
    if not sigma >= 0:
        raise PatebenchError(f"sigma = {sigma:g} is no standard deviation; give one of at least 0")
    numbers = [classes * each for each in range(1, FOR_EACH_CLASS + 1) if classes * each <= len(features)]
    return Choice(teachers, sigma, [_clustering(features, number, teachers, sigma) for number in numbers])


def _clustering(features: NDArray[np.floating], clusters: int, teachers: int, sigma: float) -> Clustering:
    queries = nearest_samples(clustered(features, clusters)[1])
    member = nearest(features, centres(features, queries))
    shares = np.bincount(member, minlength=clusters) / len(features)
    votes = teachers * shares
    hidden = float(shares[votes < LEAST_VOTES * sigma].sum())
    return Clustering(clusters, float(votes.min()), float(np.median(votes)), hidden)
