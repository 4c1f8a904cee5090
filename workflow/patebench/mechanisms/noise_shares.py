"""Noise that the teachers of an ensemble add together, each a share of its own, whatever counts it is added to.

Mechanisms of this kind can be released without anybody seeing a vote: `patebench.secure` sums the same votes with the
same shares. What shares make up costs is in `accounting/distributed.py`.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.votes import Counts
from patebench.core.entropy import discrete_normal
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.core.text import plural
from patebench.mechanisms.base import Labels, Mechanism, parameter
from patebench.mechanisms.integer_noise import IntegerNoise, log_sum_of_normals


@dataclass(frozen=True)
class NoiseShares(Mechanism):
    """Every count has n discrete Gaussian shares of variance σ²/(n − t), one of each teacher, t the tolerance.

    So the noise that a teacher's vote hides in has variance σ² even if t other teachers tell what they added, or never
    send.
    """

    discrete = True
    cost_needs_teachers = True
    secure = True

    sigma: float = parameter(low=0)
    tolerance: float = parameter(low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not float(self.tolerance).is_integer():
            raise PatebenchError(f"{type(self).__name__}: tolerance = {self.tolerance:g} is no number of teachers")

    @abstractmethod
    def counted(self, votes: NDArray[np.integer], teachers: NDArray[np.integer]) -> NDArray[np.integer]:
        """Which of these teachers' votes (teachers × queries) count; it is silent on the rest.

        `teachers` are their numbers in the ensemble. What counts of a row follows from that row and its number alone.
        """

    def needed(self, teachers: int) -> int:
        """How many teachers' shares make up the promised noise."""
        needed = teachers - int(self.tolerance)
        if needed < 1:
            raise PatebenchError(
                f"of {plural(teachers, 'teacher')} {self.tolerance:g} can not be missing; give a smaller tolerance"
            )
        return needed

    def share_scale(self, teachers: int) -> float:
        """The scale of the noise that one of so many teachers adds."""
        return self.sigma / math.sqrt(self.needed(teachers))

    def share(self, teachers: int, shape: tuple[int, ...], source: Source) -> NDArray[np.int64]:
        """The noise that one of so many teachers adds."""
        return discrete_normal(source, self.share_scale(teachers), shape)

    def whole_noise(self, teachers: int) -> IntegerNoise:
        """The exact distribution of what so many teachers add to a count, if all of them do."""
        return log_sum_of_normals(self.share_scale(teachers), teachers)

    def noisy(self, counts: Counts, teachers: int, rng: Source) -> Counts:
        """Counts with every teacher's share of the noise, each drawn from a source of its own."""
        noisy = counts.copy()
        for source in rng.spawn(teachers):
            noisy += self.share(teachers, noisy.shape, source)
        return noisy


def plurality(noisy: Counts) -> Labels:
    """The class with the largest noisy count per query, the lowest of tied ones."""
    return np.asarray(np.argmax(noisy, axis=1), dtype=np.int32)
