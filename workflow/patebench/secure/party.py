"""What every party of a secure release knows, and how a teacher cuts its votes into shares."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.entropy import Draws, uniform_words
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import make_mechanism, plain
from patebench.mechanisms.noise_shares import NoiseShares
from patebench.secure import shares


@dataclass(frozen=True)
class Party:
    """What every party knows: the mechanism, how many teachers and aggregators there are, and where it draws from."""

    name: str
    mechanism: NoiseShares
    teachers: int
    draws: Draws

    @classmethod
    def of(cls, mechanism: str, parameters: Mapping[str, float], teachers: int, draws: Draws) -> "Party":
        made = make_mechanism(mechanism, parameters)
        if not isinstance(made, NoiseShares):
            raise PatebenchError(f"the mechanism '{mechanism}' has no secure path; use {', '.join(secure())}")
        made.needed(teachers)
        return cls(mechanism, made, teachers, draws)

    def meta(self, aggregators: int) -> dict[str, Any]:
        """What files of shares say of the release that they belong to."""
        return {
            "mechanism": self.name,
            "parameters": plain(self.mechanism.parameters()),
            "mode": str(self.draws.mode),
            "ensemble": self.teachers,
            "aggregators": aggregators,
        }

    def cut(
        self, teachers: NDArray[np.integer], votes: NDArray[np.integer], classes: int, aggregators: int
    ) -> list[shares.Words]:
        """The votes of these teachers (teachers × queries) as shares, teachers × queries × classes for each aggregator.

        Which votes count follows from a teacher's row and its number in the ensemble, wherever its chunk begins.
        """
        masks, noise = (self.draws.source(*names).spawn(self.teachers) for names in (("masks",), ()))
        rows = zip(teachers.tolist(), self.mechanism.counted(votes, teachers), strict=True)
        each = [self._share(masks[number], noise[number], row, classes, aggregators) for number, row in rows]
        return [np.stack(held) for held in zip(*each, strict=True)]

    def _share(
        self, for_masks: Source, for_noise: Source, counted: NDArray[np.integer], classes: int, aggregators: int
    ) -> list[shares.Words]:
        """One teacher's votes that count as shares, one for each aggregator.

        The masks come first and from a stream of their own: nothing that all aggregators but the last get depends on a
        vote. The noise is what the plain path draws for this teacher, and is added where it keeps silent too: a cell
        without noise would tell that it does.
        """
        shape = len(counted), classes
        masks = shares.masks(for_masks, aggregators, shape)
        noise = self.mechanism.share(self.teachers, shape, for_noise)
        return [*masks, shares.closing(masks, shares.one_hot(counted, classes) + noise)]

    def session(self) -> str:
        """A name for this cut of the shares: shares of two cuts do not add up to anything, and must not be mixed."""
        return f"{int(uniform_words(self.draws.source('session'), 1)[0]):016x}"


def secure(*, abstentions: bool = False) -> list[str]:
    """The mechanisms that have a secure path; those whose teachers may keep silent."""
    kinds = {name: MECHANISMS.load(name) for name in MECHANISMS}
    return [name for name, kind in kinds.items() if kind.secure and (kind.abstentions or not abstentions)]


def check_teachers(mechanism: NoiseShares, teachers: NDArray[np.integer], ensemble: int, where: str) -> None:
    """Every teacher at most once, and enough of them for the noise that was promised; `where` names a file of them."""
    if len(set(teachers.tolist())) < len(teachers):
        raise PatebenchError(f"shares of one teacher were given twice, among them {where}; give each file once")
    if len(teachers) < (needed := mechanism.needed(ensemble)):
        raise PatebenchError(
            f"only {len(teachers)} of {ensemble} teachers sent shares, and the noise of {needed} was promised; "
            "wait for more, or begin again with a larger tolerance"
        )
