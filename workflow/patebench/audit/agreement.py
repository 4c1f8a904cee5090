"""Tests of a mechanism's outcomes against the probabilities that the mechanism states.

A tally counts how often each outcome occurs in runs. A cell of a tally is an outcome or a group of outcomes. An audit
has two groups of tests:

- Runs with noise from a seed are compared with the stated probabilities. If these are right, the count in each cell has
  a binomial distribution.
- Runs with noise from the operating system (release mode) are compared with runs with noise from a seed.

All tests are exact. In each group, p-values are multiplied by the number of cells in the group (Bonferroni). So each
group rejects a sound mechanism with probability at most `ALPHA`.

Measured: audits of up to 20 000 runs detect each planted fault (tests/audit/faults.py), by these tests or by a
contradicted bound. 200 audits of sound mechanisms (15 mechanisms in turn, 2000 runs, different seeds) rejected none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array
from patebench.audit.runs import Outcomes

#: Probability that tests which are evaluated together reject a sound mechanism (Bonferroni over all of them).
ALPHA = 1e-6

#: For `most_likely_lag`: number of labels searched, and number of classes distinguished (labels are taken modulo it).
_SEARCHED, _DISTINGUISHED = 1 << 16, 12

#: Allowed rounding error of stated probabilities: relative, absolute.
_ROUNDING = 1e-9, 1e-15


@dataclass(frozen=True, eq=False)
class _Counts:
    """Counts of outcomes in runs, with one exact test per cell.

    A cell is an outcome, a group of outcomes or, to test independence, a pair of outcomes.

    Parameters
    ----------
    where : description of the runs for messages, such as "on the counts (3, 2)" for votes with these counts
    seen : (cells,) number of runs in each cell
    names : (cells,) name of each cell; () if the cells are "class 0", "class 1", … and, last, "no answer"
    plain : True if single labels are counted, False if pairs of labels are counted to test their independence
    """

    where: str
    seen: NDArray[np.integer]
    names: Sequence[str] = field(default=(), kw_only=True)
    plain: bool = field(default=True, kw_only=True)

    @property
    def runs(self) -> int:
        return int(self.seen.sum())

    def name(self, cell: int) -> str:
        return self.names[cell] if self.names else f"class {cell}" if cell < len(self.seen) - 1 else "no answer"


@dataclass(frozen=True, eq=False)
class Tally(_Counts):
    """Exact binomial tests of how often outcomes occurred in runs, one per cell (an outcome or a group of outcomes).

    `stated` (cells,) are the stated probabilities. The other parameters are those of `_Counts`.
    """

    stated: Array

    def p_values(self) -> Array:
        """Return the two-sided p-value of each cell, (cells,): twice the smaller binomial tail, rounded up, but ≤ 1."""
        from scipy.special import betainc

        relative, absolute = _ROUNDING
        upper = np.minimum(self.stated * (1 + relative) + absolute, 1.0)
        lower = np.clip(self.stated * (1 - relative) - absolute, 0.0, 1.0)
        x, n = self.seen, self.runs
        many = np.where(x > 0, betainc(np.maximum(x, 1), n - x + 1, upper), 1.0)
        few = np.where(x < n, betainc(np.maximum(n - x, 1), x + 1, 1 - lower), 1.0)
        return np.minimum(2 * np.minimum(many, few), 1.0)

    def describe(self, cell: int) -> str:
        seen, runs, p = int(self.seen[cell]), self.runs, float(self.stated[cell])
        return f"{self.name(cell)} in {seen} of {runs} {self.where}, where {runs * p:.6g} are expected"


@dataclass(frozen=True, eq=False)
class TwoTallies(_Counts):
    """Exact tests of whether outcomes are equally likely in release mode and with seeded noise, one test per outcome.

    In release mode, noise comes from the operating system. Given the total count of an outcome in both modes, its count
    in release mode is hypergeometric (Fisher 1935, exact test).

    `seen` are the counts in release mode, and `reference` (cells,) those with seeded noise.
    """

    reference: NDArray[np.integer]

    def p_values(self) -> Array:
        """Return the two-sided p-value of each outcome, (outcomes,): twice the smaller hypergeometric tail, but ≤ 1."""
        from scipy.stats import hypergeom

        law = hypergeom(self.runs + int(self.reference.sum()), self.runs, self.seen + self.reference)
        return np.minimum(2 * np.minimum(law.cdf(self.seen), law.sf(self.seen - 1)), 1.0)

    def describe(self, cell: int) -> str:
        return (
            f"in release mode, {self.name(cell)} in {self.seen[cell]} of {self.runs} {self.where}, and with seeded "
            f"discrete noise in {self.reference[cell]} of {self.reference.sum()}"
        )


def disagreements(tallies: Iterable[Tally | TwoTallies]) -> list[str]:
    """Return [a message] about the most significant failure of the tests `tallies`, or [] if none fails.

    Each tally has one test per cell, such as an outcome. A test fails if its p-value times the number of cells in all
    `tallies` is below `ALPHA`. The message describes the failed test with the smallest p-value. If tests of single
    labels (`plain`) fail, only these are considered, because they are easier to understand.
    """
    tallies = [tally for tally in tallies if tally.runs > 0]
    p_values = [tally.p_values() for tally in tallies]
    tests = sum(map(len, p_values))
    failed = [
        (not tally.plain, float(p.min()), tally.describe(int(p.argmin())))
        for p, tally in zip(p_values, tallies, strict=True)
        if float(p.min()) * tests < ALPHA
    ]
    if not failed:
        return []
    _, least, words = min(failed)
    return [f"{words} (p < {max(least * tests, 1e-300):.1g} over {tests} tests)"]


def tally_neighbours(where: str, outcomes: Outcomes, stated: Array) -> Iterator[Tally]:
    """Yield tests that labels at different positions of one release are independent; the release repeats one query.

    Each test compares labels that are a fixed number of queries apart, the lag. All lags that the function `lags`
    returns are tested. One more lag is chosen by `most_likely_lag` on the first half of the release and tested on the
    second half.

    Parameters
    ----------
    where : description of the release, see `Tally`
    outcomes : (queries,) outcomes
    stated : (classes + 1,) stated probability of each outcome
    """
    n, same = len(outcomes), float(stated @ stated)
    cells = len(stated)
    pairs = outcomes[: n // 2 * 2].reshape(-1, 2)
    names = [f"outcome {a} followed by {b}" for a in range(cells) for b in range(cells)]
    joint = np.bincount(pairs @ np.array([cells, 1]), minlength=cells**2)
    yield Tally(where, joint, np.outer(stated, stated).ravel(), names=names, plain=False)
    yield from (_tally_repeats(where, outcomes, lag, same) for lag in lags(n) if lag > 1)
    chosen = most_likely_lag(outcomes[: n // 2][:_SEARCHED])
    if 0 < chosen <= n // 4:
        yield _tally_repeats(where, outcomes[n // 2 :], chosen, same)


def lags(queries: int) -> list[int]:
    """Return the distances at which labels are compared: powers of two up to `queries`/2, and `queries`/2."""
    powers = (1 << power for power in range(max(1, queries.bit_length() - 1)))
    return [lag for lag in sorted({*powers, queries // 2}) if 0 < lag <= queries // 2]


def count_repeats(outcomes: NDArray[Any], lag: int) -> NDArray[np.int64]:
    """Return how often two outcomes that are `lag` queries apart are equal, and how often they are unequal: (2,).

    Each entry of `outcomes` (queries,) is in at most one comparison.
    """
    pairs = outcomes[: len(outcomes) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
    equal, number = int(np.sum(pairs[:, 0] == pairs[:, 1])), pairs.size // 2
    return np.array([equal, number - equal])


def repeat_names(lag: int) -> list[str]:
    """Return two phrases for messages: "the same label as … queries before" and "another label than … queries before".

    `lag` is the number of queries.
    """
    return [f"the same label as {lag} queries before", f"another label than {lag} queries before"]


def _tally_repeats(where: str, outcomes: Outcomes, lag: int, same: float) -> Tally:
    stated = np.array([same, 1 - same])
    return Tally(where, count_repeats(outcomes, lag), stated, names=repeat_names(lag), plain=False)


def most_likely_lag(outcomes: Outcomes) -> int:
    """Return the number of queries after which the noise of a release most likely repeats.

    `outcomes` (queries,) are the outcomes of one release; for fewer than 4 outcomes, the result is 0. Repeated noise
    makes outcomes equal more often than by chance. For each distance between two queries, the function counts how often
    their outcomes are equal. It returns the distance with the largest excess over chance, in standard deviations. This
    distance must be tested on outcomes that did not choose it.
    """
    n, names = len(outcomes), outcomes % _DISTINGUISHED
    total: Array = np.zeros(n // 2)
    for name in np.unique(names):
        shown = np.fft.rfft((names == name) - np.mean(names == name), 2 * n)
        total += np.fft.irfft(np.abs(shown) ** 2, 2 * n)[: n // 2]
    return int(np.argmax(total[1:] / np.sqrt(n - np.arange(1, n // 2)))) + 1 if n >= 4 else 0
