"""Writes exact_reference.json: exact Rényi divergences of histograms from their neighbours, in 40 digits by mpmath.

Run `python -m tests.accounting.exact_reference` (a few minutes). What it computes shares nothing with the package: the
Gaussian integrals are sums on a fine lattice (exponentially accurate for entire integrands), the Laplace ones closed
forms between counts, and every divergence is ln Σ P^α P′^{1−α} as it stands.
"""

import json
from collections import Counter
from functools import cache
from itertools import pairwise, permutations
from pathlib import Path

import mpmath as mp
from tests.accounting.oracles import divergence

PATH = Path(__file__).with_name("exact_reference.json")
ORDERS = [1.01, 2.0, 20.0, 1000.0]

#: Significant digits, beyond those that a divergence lies below 1.
DIGITS = 40

TENS = [
    [250] + [0] * 9,
    [25] * 10,
    [125, 125] + [0] * 8,
    [130, 120] + [0] * 8,
    [200, 20, 10, 5, 5, 2, 2, 2, 2, 2],
    [200, 30, 20] + [0] * 7,
    [249, 1] + [0] * 8,
    [84, 83, 83] + [0] * 7,
    [40, 35, 31, 30, 29, 25, 20, 17, 13, 10],
    [241] + [1] * 9,
]
FEW = [[1, 0], [1, 1], [125, 125], [126, 124], [250, 0], [2, 1, 0], [3, 2, 2], [150, 90, 10], [90, 150, 10]]
MANY = [[5000, 0], [2500, 2500], [4000, 600, 400], [4990, 5, 5]]
CROWDS = [[60, 30] + [0] * 998, [100] + [0] * 999]

#: (kind of noise, its scale, counts): ties, unanimity, two classes, 5000 teachers, 1000 classes.
CASES = [
    *(("gaussian", 40.0, counts) for counts in TENS + FEW + CROWDS),
    *(("gaussian", 200.0, counts) for counts in MANY),
    *(("gaussian", 3.0, counts) for counts in FEW[:4] + FEW[5:8]),
    *(("gaussian", 0.5, counts) for counts in ([2, 1, 0], [3, 3, 1], [12, 0])),
    *(("laplace", 20.0, counts) for counts in TENS + FEW),
    *(("laplace", 1.0, counts) for counts in ([2, 1, 0], [3, 2, 2], [9, 0])),
    *(("laplace", 0.2, counts) for counts in ([2, 1, 0], [3, 2, 2])),
    *(("laplace", 500.0, counts) for counts in MANY),
]


def neighbours(counts):
    """Yield one neighbour of `counts` for each pair of values of the counts that lose and gain a vote."""
    changes = {}
    for loses, gains in permutations(range(len(counts)), 2):
        if counts[loses] > 0:
            changes.setdefault((counts[loses], counts[gains]), (loses, gains))
    for loses, gains in changes.values():
        other = list(counts)
        other[loses], other[gains] = other[loses] - 1, other[gains] + 1
        yield other


def probabilities(kind, scale, counts):
    """Return the probability of each class to have the largest noisy count."""
    if kind == "laplace":
        with mp.extradps(20 + int(3 * max(counts) / scale)):
            return [mp.exp(log_p) for log_p in exact_laplace(counts, scale)]
    times = {count: counts.count(count) for count in counts}
    reach = mp.sqrt(2 * mp.log(10) * mp.mp.dps) + 2
    step = min(mp.mpf(1) / 8, mp.sqrt(2 * mp.pi**2 / (mp.log(10) * mp.mp.dps * len(counts))))
    first, last = (min(counts) / mp.mpf(scale) - reach) / step, (max(counts) / mp.mpf(scale) + reach + 4) / step
    total = dict.fromkeys(times, mp.mpf(0))
    for i in range(int(first), int(last)):
        tails = {count: gaussian(i * step - count / mp.mpf(scale), mp.mp.dps) for count in times}
        everyone = mp.fprod(below**k for (_, below), k in zip(tails.values(), times.values(), strict=True))
        for count, (density, below) in tails.items():
            total[count] += density * everyone / below * step
    return [total[count] for count in counts]


@cache
def gaussian(x, digits):
    with mp.workdps(digits):
        return mp.npdf(x), mp.ncdf(x)


def exact_laplace(counts, scale):
    """Compute ln P(j) from antiderivatives: between two counts every integrand is a sum of exponentials in x."""
    values = [mp.mpf(c) / mp.mpf(scale) for c in sorted(set(counts), reverse=True)]
    multiplicity = [Counter(counts)[c] for c in sorted(set(counts), reverse=True)]
    found = []
    for j, centre in enumerate(values):
        edges = [-mp.inf, *reversed(values), mp.inf]
        total = mp.mpf(0)
        for low, high in pairwise(edges):
            terms = {1: mp.exp(-centre) / 2} if high <= centre else {-1: mp.exp(centre) / 2}
            for k, value in enumerate(values):
                terms = times(terms, distribution(value, multiplicity[k] - (k == j), high <= value))
            total += mp.fsum(c * integral(power, low, high) for power, c in terms.items())
        found.append(mp.log(total))
    return [found[sorted(set(counts), reverse=True).index(c)] for c in counts]


def distribution(value, power, below):
    """Return Pr[Lap ≤ x − value]^power as {exponent of eˣ: coefficient}, for x below or above `value`."""
    if below:
        return {power: (mp.exp(-value) / 2) ** power}
    return {-i: mp.binomial(power, i) * (-mp.exp(value) / 2) ** i for i in range(power + 1)}


def times(left, right):
    product = {}
    for a, x in left.items():
        for b, y in right.items():
            product[a + b] = product.get(a + b, 0) + x * y
    return product


def integral(power, low, high):
    if power == 0:
        return high - low
    upper = mp.exp(power * high) if mp.isfinite(high) else mp.mpf(0)
    lower = mp.exp(power * low) if mp.isfinite(low) else mp.mpf(0)
    return (upper - lower) / power


def worst(kind, scale, counts):
    """Return the largest Rényi divergence between `counts` and a neighbour, for both directions and each order."""
    gap = (max(counts) - sorted(counts)[-2]) / scale
    with mp.workdps(DIGITS + int(gap if kind == "laplace" else gap**2 / 8)):
        p = probabilities(kind, scale, counts)
        others = [probabilities(kind, scale, other) for other in neighbours(counts)]
        with mp.extradps(60):
            there = [max(divergence(p, other, order) for other in others) for order in ORDERS]
            back = [max(divergence(other, p, order) for other in others) for order in ORDERS]
    gaussian.cache_clear()
    return [[mp.nstr(value, 17) for value in direction] for direction in (there, back)]


if __name__ == "__main__":
    lines = [json.dumps({"noise": k, "scale": s, "counts": c, "worst": worst(k, s, c)}) for k, s, c in CASES]
    PATH.write_text("[\n" + ",\n".join(lines) + "\n]\n")
