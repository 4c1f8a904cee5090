"""Tests of the outcomes of `release` against the probabilities that the mechanism states.

All tests are exact. If the statement is true, each cell of a tally is binomial with known tails. The probability that
any cell of any tally is more extreme than the worst one is at most the sum over the cells. All tests that are evaluated
together reject a sound mechanism with probability at most `ALPHA`; an audit evaluates those of seeded releases together
and those of release mode together.

Measured: an audit of 20 000 runs detects each of 90 planted faults (tests/audit/faults.py), by these tests or by a
contradicted bound. In 200 audits of sound mechanisms (15 mechanisms in turn, 2000 runs, different seeds) nothing was
rejected.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.audit.runs import Outcomes

#: Probability that tests which are evaluated together reject a sound mechanism (Bonferroni over all of them).
ALPHA = 1e-6

#: Number of labels in which `likely_lag` searches, and number of classes that it distinguishes (classes modulo this).
_SEARCHED, _TOLD_APART = 1 << 16, 12

#: Allowed rounding error of stated probabilities: relative, absolute.
_ROUNDING = 1e-9, 1e-15


@dataclass(frozen=True, eq=False)
class Tally:
    """Observed counts of several cells and their stated probabilities.

    `where` completes "… in 3 of 10", and `names` are the names of the cells. A `plain` tally is about single labels and
    not about dependence between labels.
    """

    where: str
    names: Sequence[str]
    seen: NDArray[np.integer]
    stated: Array
    runs: int
    plain: bool = True

    def p_values(self) -> Array:
        """Return the p-value of each cell: an upper bound on twice its smaller binomial tail."""
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
    """A test of several cells, each with a p-value."""

    @property
    def runs(self) -> int: ...

    @property
    def plain(self) -> bool: ...

    def p_values(self) -> Array: ...

    def described(self, cell: int) -> str: ...


def disagreements(tallies: Iterable[Test]) -> list[str]:
    """Return one line about the failed cell with the smallest p-value, or nothing if no test fails.

    Plain tests come first, since they are the easiest to understand.
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
    """Return the tally of the outcomes of equal queries."""
    names = [*(f"class {label}" for label in range(len(stated) - 1)), "no answer"]
    return Tally(where, names, seen, stated, int(seen.sum()))


def of_neighbours(where: str, outcomes: Outcomes, stated: Array) -> Iterator[Tally]:
    """Yield tests that labels are independent if one release answers the same query many times.

    Labels that lie k positions apart are compared, for many k. The compared pairs are disjoint,
    so that comparisons are independent as well.
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
    """Return the distances at which labels of a release are compared: powers of two, and half of its length."""
    powers = (1 << power for power in range(max(1, queries.bit_length() - 1)))
    return [lag for lag in sorted({*powers, queries // 2}) if 0 < lag <= queries // 2]


def came_again(outcomes: Outcomes, lag: int) -> NDArray[np.int64]:
    """Count how often a label equals the one `lag` queries earlier, and how often not, over disjoint pairs."""
    pairs = outcomes[: len(outcomes) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
    equal, number = int(np.sum(pairs[:, 0] == pairs[:, 1])), pairs.size // 2
    return np.array([equal, number - equal])


def names_again(lag: int) -> list[str]:
    """Return the names of the cells that `came_again` counts."""
    return [f"the label {lag} queries before came again", f"another label than {lag} queries before"]


def _again(where: str, outcomes: Outcomes, lag: int, same: float) -> Tally:
    seen = came_again(outcomes, lag)
    return Tally(where, names_again(lag), seen, np.array([same, 1 - same]), int(seen.sum()), plain=False)


def likely_lag(outcomes: Outcomes) -> int:
    """Return the distance at which labels repeat most often; test it on other labels than these."""
    n, names = len(outcomes), outcomes % _TOLD_APART
    total: Array = np.zeros(n // 2)
    for name in np.unique(names):
        shown = np.fft.rfft((names == name) - np.mean(names == name), 2 * n)
        total += np.fft.irfft(np.abs(shown) ** 2, 2 * n)[: n // 2]
    return int(np.argmax(total[1:] / np.sqrt(n - np.arange(1, n // 2)))) + 1 if n >= 4 else 0


def of_places(where: str, transcripts: Outcomes, stated: Array) -> Iterator[Tally]:
    """Yield the tally of each query over several releases of the same votes; `stated` has one row per query."""
    for place, probabilities in enumerate(stated):
        words = f"{where}, as answer {place + 1} of a release"
        yield of_labels(words, np.bincount(transcripts[:, place], minlength=len(probabilities)), probabilities)
