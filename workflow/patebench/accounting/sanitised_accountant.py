"""Accountants that release a data-dependent bound privately, or say what that would give with hindsight.

What they release bounds the divergence in both directions, though the theorem bounds one: see `sanitised.py`.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from patebench.accounting import conversion, sanitised, smooth
from patebench.accounting.accountant import Accountant, check_queries, summed
from patebench.accounting.logspace import Array
from patebench.accounting.sanitised import ORDERS, Design
from patebench.accounting.smooth import PerQuery, Steps
from patebench.accounting.votes import Counts, Votes
from patebench.core import seeds
from patebench.core.bound import Bound, Conversion, Kind
from patebench.core.entropy import Entropy
from patebench.core.seeds import Source

log = logging.getLogger("patebench")

#: Of queries × distances × classes: what one core works through in an hour.
_CELLS_PER_HOUR = 2e10


def unwritten(queries: int, divergences: Array) -> None:
    """Tells nobody what a number costs."""


@dataclass(frozen=True)
class SanitisingNoise:
    """Where the noise in a sanitised bound comes from."""

    source: Callable[[int], Source]  #: of the noise in the bound on the first T queries, for each T
    secret: bool  #: nobody can draw it again, so that the bound may be published
    #: Told T and what the number on T queries costs by itself, before it is drawn; what it raises prevents the draw.
    #: The cost is Rényi divergences at `conversion.ORDERS`, and the same whatever the votes are.
    written_down: Callable[[int, Array], None] = unwritten


#: Discrete noise from the operating system's entropy: what a real release needs.
fresh = SanitisingNoise(lambda queries: Entropy(), secret=True)


def seeded(seed: int, *names: str | int) -> SanitisingNoise:
    """Noise that can be reproduced, for experiments: who knows the seed can take it off again."""
    return SanitisingNoise(lambda queries: seeds.generator(seed, *names, "sanitised", queries), secret=False)


def accountants(
    votes: Votes, per_query: PerQuery, worst: Callable[[Array], Array], theorem: str, noise: SanitisingNoise = fresh
) -> list[Accountant]:
    """Both sanitised accountants of a mechanism.

    `worst` is the data-independent curve of one query, which `per_query` never exceeds; `theorem` cites the latter.
    None for votes so many that the sensitivity of their bounds would take hours: that is decided by public sizes.
    """
    if (hours := smooth.work(votes.queries, votes.classes, votes.teachers) / _CELLS_PER_HOUR) > 1:
        log.warning("left out bounds that may be published: their sensitivity would take about %.0f hours", hours)
        return []
    source = (
        f"{theorem}, and for the other direction what one teacher changes; Nissim, Raskhodnikova, Smith 2007 "
        "(smooth sensitivity); Scalable PATE, appendix B (release)"
    )
    return [
        SanitisedAccountant(
            name="rdp-sanitised",
            label="Rényi",
            kind=Kind.SANITISED,
            source=source,
            counts=votes.counts,
            per_query=per_query,
            worst=worst,
            noise=noise,
        ),
        OptimisedAccountant(
            name="rdp-sanitised-optimised",
            label="Rényi, optimised",
            variant=True,
            kind=Kind.DATA_DEPENDENT,
            source=source,
            counts=votes.counts,
            per_query=per_query,
            worst=worst,
        ),
    ]


@dataclass(frozen=True, kw_only=True)
class _Releasing(Accountant):
    counts: Counts
    per_query: PerQuery
    worst: Callable[[Array], Array]

    @property
    def shape(self) -> tuple[int, int]:
        """Teachers and classes: public, like the number of queries."""
        return int(self.counts[0].sum()), self.counts.shape[1]

    @abstractmethod
    def _released(self, queries: Sequence[int], delta: float) -> list[tuple[Design, float]]:
        """The design and f̂ for each T in `queries`, which is sorted."""

    def bounds(self, queries: Sequence[int], delta: float) -> list[Bound]:
        wanted = check_queries(queries, len(self.counts))
        found = dict(zip(wanted, self._released(wanted, delta), strict=True))
        return [
            self._bound(T, *found[T], how, delta) for T in queries for how in (Conversion.CLASSIC, Conversion.TIGHT)
        ]

    def _bound(self, queries: int, design: Design, released: float, how: Conversion, delta: float) -> Bound:
        epsilon = design.epsilon(how, released, delta)
        order = design.order if np.isfinite(epsilon) else None
        found = self.bound(epsilon, delta, queries, conversion=how, order=order)
        return replace(found, source=f"{self.source}; {self._terms(design)}")

    def _terms(self, design: Design) -> str:
        return (
            f"β = {design.beta:.3g}, σ = {design.noise:.3g}, on a grid of step {design.step:.3g}; {design.failure:.3g} "
            f"of δ pays for noise that makes the bound too small; {design.cost:.3g} of the Rényi divergence pays for "
            "releasing this one number"
        )


@dataclass(frozen=True, kw_only=True)
class SanitisedAccountant(_Releasing):
    """Designs the release for a made-up profile of votes, from public facts alone, and draws it. See `sanitised.py`.

    The classic and the tight record of one T come from the same draw, so both may be published together, unless the
    noise can be drawn again.
    """

    noise: SanitisingNoise = fresh

    def _released(self, queries: Sequence[int], delta: float) -> list[tuple[Design, float]]:
        typical = sanitised.profile(*self.shape)
        local = smooth.local(Steps.of(self.per_query, *self.shape, ORDERS), typical) / len(typical)
        curve, worst = self.per_query(typical, ORDERS).mean(axis=0), self.worst(ORDERS)
        designs = [sanitised.design(T * curve, T * local, T * worst, ORDERS, delta) for T in queries]
        for T, design in zip(queries, designs, strict=True):
            self.noise.written_down(T, design.curve(conversion.ORDERS))
        return [(design, self._draw(T, design)) for T, design in zip(queries, designs, strict=True)]

    def bound(self, epsilon: float, delta: float, queries: int, **how: Any) -> Bound:
        return replace(super().bound(epsilon, delta, queries, **how), publishable=self.noise.secret)

    def _terms(self, design: Design) -> str:
        drawn = "" if self.noise.secret else "; its noise came from a named seed, so this draw is not for publishing"
        return super()._terms(design) + drawn

    def _draw(self, queries: int, design: Design) -> float:
        order, counts = np.array([design.order]), self.counts[:queries]
        local = smooth.local(Steps.of(self.per_query, *self.shape, order), counts)
        value = _totals(self.per_query, counts, [queries], order)[0, 0]
        sensitivity = float(smooth.smooth(local, design.beta)[0])
        return design.release(
            float(value), sensitivity, queries * float(self.worst(order)[0]), self.noise.source(queries)
        )


@dataclass(frozen=True, kw_only=True)
class OptimisedAccountant(_Releasing):
    """The median of the release whose design is best for these very votes, as Scalable PATE reports it.

    Design and median are functions of the votes without noise: the number is private, and tells what hindsight gains.
    """

    def _released(self, queries: Sequence[int], delta: float) -> list[tuple[Design, float]]:
        steps = Steps.of(self.per_query, *self.shape, ORDERS)
        curves, worst = _totals(self.per_query, self.counts, queries, ORDERS), self.worst(ORDERS)
        local, done, result = np.zeros(1), 0, []
        for T, curve in zip(queries, curves, strict=True):
            local, done = local + smooth.local(steps, self.counts[done:T]), T
            best = sanitised.design(curve, local, T * worst, ORDERS, delta)
            result.append((best, _median(best, curve, local, T * worst)))
        return result


def _totals(per_query: PerQuery, counts: Counts, queries: Sequence[int], orders: Array) -> Array:
    return summed(per_query.curve, per_query.log_q(counts))(queries, orders)


def _median(design: Design, curve: Array, local: Array, ceiling: Array) -> float:
    at = int(np.flatnonzero(design.order == ORDERS)[0])
    sensitivity = float(smooth.smooth(local[:, [at]], design.beta)[0])
    return design.at(float(curve[at]), sensitivity, float(ceiling[at]))
