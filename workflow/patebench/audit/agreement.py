"""Does the code do what it says? Outcomes of `release` against the probabilities that the mechanism states.

All tests are exact: each cell of a tally is binomial if the statement is true, so both its tails are known, and the
probability that any cell of any tally looks worse than the worst one is at most the sum over the cells. A sound
mechanism is accused with probability `ALPHA` at most by all the tests that are looked at together: in an audit, those
of seeded releases, and those of release mode.

Measured: of 90 planted faults (tests/audit/faults.py) an audit of 20 000 runs accuses each, by these tests or by a
bound that is contradicted; of 200 audits of sound mechanisms, 15 in turn with 2000 runs and different seeds, none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.audit.runs import Outcomes

#: The probability that a sound mechanism is accused by tests that are looked at together; they share it out.
ALPHA = 1e-6

#: Labels among which distances are looked for, and labels that are told apart there; others share a name.
_SEARCHED, _TOLD_APART = 1 << 16, 12

#: What stated probabilities may be wrong by for rounding, relatively and at all.
_ROUNDING = 1e-9, 1e-15


@dataclass(frozen=True, eq=False)
class Tally:
    """How often each of several things was seen, and the probability that each has by what is stated.

    `where` completes "… in so many of so many", and `names` are those of the cells. `plain` ones
    are about labels alone, and not about how labels depend on each other.
    """

    where: str
    names: Sequence[str]
    seen: NDArray[np.integer]
    stated: Array
    runs: int
    plain: bool = True

    def p_values(self) -> Array:
        """For each cell, a bound on the probability of so many or more, or so few or fewer, whichever is rarer."""
        from scipy.special import betainc

        relative, absolute = _ROUNDING
        upper = np.minimum(self.stated * (1 + relative) + absolute, 1.0)
        lower = np.clip(self.stated * (1 - relative) - absolute, 0.0, 1.0)
        x, n = self.seen, self.runs
        many = np.where(x > 0, betainc(np.maximum(x, 1), n - x + 1, upper), 1.0)
        few = np.where(x < n, betainc(np.maximum(n - x, 1), x + 1, 1 - lower), 1.0)
        result: Array = np.minimum(2 * np.minimum(many, few), 1.0)
        return result

    def described(self, cell: int) -> str:
        seen, runs, p = int(self.seen[cell]), self.runs, float(self.stated[cell])
        return f"{self.names[cell]} in {seen} of {runs} {self.where}, where {runs * p:.6g} are to be expected"


class Test(Protocol):
    """Some cells, each of which may be too unlikely."""

    @property
    def runs(self) -> int: ...

    @property
    def plain(self) -> bool: ...

    def p_values(self) -> Array: ...

    def described(self, cell: int) -> str: ...


def disagreements(tallies: Iterable[Test]) -> list[str]:
    """The cell that is least likely by what is stated, as one line; none where nothing is too unlikely.

    Of tests that fail, a plain one is the easiest to understand, and is told.
    """
    every = [tally for tally in tallies if tally.runs > 0]
    values = [tally.p_values() for tally in every]
    tests = sum(map(len, values))
    failed = [
        (not tally.plain, float(p.min()), tally.described(int(p.argmin())))
        for p, tally in zip(values, every, strict=True)
        if float(p.min()) * tests < ALPHA
    ]
    if not failed:
        return []
    _, least, words = min(failed)
    return [f"{words} (p < {max(least * tests, 1e-300):.1g} over {tests} tests)"]


def of_labels(where: str, seen: NDArray[np.integer], stated: Array) -> Tally:
    """Outcomes of queries that are alike."""
    names = [*(f"class {label}" for label in range(len(stated) - 1)), "no answer"]
    return Tally(where, names, seen, stated, int(seen.sum()))


def of_neighbours(where: str, outcomes: Outcomes, stated: Array) -> Iterator[Tally]:
    """Whether the labels of one release are independent of each other: queries that are alike, at many distances.

    Labels are compared in pairs that share none, so that comparisons are independent as well.
    """
    n, same = len(outcomes), float(stated @ stated)
    cells = len(stated)
    pairs = outcomes[: n // 2 * 2].reshape(-1, 2)
    names = [f"outcome {a} followed by {b}" for a in range(cells) for b in range(cells)]
    joint = np.bincount(pairs @ np.array([cells, 1]), minlength=cells**2)
    yield Tally(where, names, joint, np.outer(stated, stated).ravel(), len(pairs), plain=False)
    yield from (_again(where, outcomes, lag, same) for lag in lags(n) if lag > 1)
    chosen = likely_lag(outcomes[: n // 2][:_SEARCHED])
    if 0 < chosen <= n // 4:
        yield _again(where, outcomes[n // 2 :], chosen, same)


def lags(queries: int) -> list[int]:
    """The distances at which labels of a release are compared: powers of two, and half of its length."""
    powers = (1 << power for power in range(max(1, queries.bit_length() - 1)))
    return [lag for lag in sorted({*powers, queries // 2}) if 0 < lag <= queries // 2]


def came_again(outcomes: Outcomes, lag: int) -> NDArray[np.int64]:
    """How often a label is the one so many queries before, and how often not; each is in one comparison only."""
    pairs = outcomes[: len(outcomes) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
    equal, number = int(np.sum(pairs[:, 0] == pairs[:, 1])), pairs.size // 2
    return np.array([equal, number - equal])


def names_again(lag: int) -> list[str]:
    """What `came_again` counts, in words."""
    return [f"the label {lag} queries before came again", f"another label than {lag} queries before"]


def _again(where: str, outcomes: Outcomes, lag: int, same: float) -> Tally:
    seen = came_again(outcomes, lag)
    return Tally(where, names_again(lag), seen, np.array([same, 1 - same]), int(seen.sum()), plain=False)


def likely_lag(outcomes: Outcomes) -> int:
    """The distance at which labels came again most often; it is tested on others than these."""
    n, names = len(outcomes), outcomes % _TOLD_APART
    total: Array = np.zeros(n // 2)
    for name in np.unique(names):
        shown = np.fft.rfft((names == name) - np.mean(names == name), 2 * n)
        total += np.fft.irfft(np.abs(shown) ** 2, 2 * n)[: n // 2]
    return int(np.argmax(total[1:] / np.sqrt(n - np.arange(1, n // 2)))) + 1 if n >= 4 else 0


def of_places(where: str, transcripts: Outcomes, stated: Array) -> Iterator[Tally]:
    """Outcomes of each query of several releases of the same votes; `stated` has a row for each query."""
    for place, probabilities in enumerate(stated):
        words = f"{where}, as answer {place + 1} of a release"
        yield of_labels(words, np.bincount(transcripts[:, place], minlength=len(probabilities)), probabilities)
