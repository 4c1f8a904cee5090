"""Small worlds, exact probabilities and divergences, with which accountants and mechanisms are compared."""

import math
from functools import cache
from itertools import permutations, product

import mpmath as mp
import numpy as np
from scipy.special import logsumexp
from scipy.stats import chisquare

from patebench.mechanisms.noise import DiscreteLaplace


def histograms(teachers, classes):
    """Return all histograms of that many votes, in every order of the classes."""
    return np.array([row for row in product(range(teachers + 1), repeat=classes) if sum(row) == teachers])


def ensembles(teachers, classes):
    """Return all histograms of that many votes, up to the order of the classes."""
    return np.unique(-np.sort(-histograms(teachers, classes), axis=1), axis=0)[::-1].tolist()


def extremes(teachers, classes):
    """Return three histograms: unanimous for the last class, two classes that tie, and two that nearly tie."""
    unanimous, tied, narrow = np.zeros((3, classes), dtype=np.int64)
    unanimous[-1] = teachers
    tied[:2] = teachers // 2
    narrow[:2] = teachers // 2 + 1, teachers - teachers // 2 - 1
    return [unanimous, tied, narrow]


def moved(counts):
    """Yield every histogram after one teacher changed its vote."""
    for loses, gains in permutations(range(len(counts)), 2):
        if counts[loses] > 0:
            yield tuple(count - (j == loses) + (j == gains) for j, count in enumerate(counts))


def neighbours(counts):
    return np.array(list(moved(counts)))


def renyi(log_p, log_q, orders):
    """Return D_α of distributions over the last axis, (…, orders)."""
    with np.errstate(invalid="ignore"):
        terms = [np.where(np.isneginf(log_p), -np.inf, a * log_p + (1 - a) * log_q) for a in orders]
    return np.stack([logsumexp(each, axis=-1) / (a - 1) for each, a in zip(terms, orders, strict=True)], axis=-1)


def hockey_stick(p, q, epsilon):
    """Return δ(ε) of distributions over the last axis."""
    return np.maximum(p - np.exp(epsilon) * q, 0).sum(axis=-1)


def divergence(p, q, order):
    """Return D_α of two distributions in the precision of mpmath."""
    order = mp.mpf(order)
    return mp.log(mp.fsum(a**order * b ** (1 - order) for a, b in zip(p, q, strict=True) if a > 0)) / (order - 1)


def gaussian_delta(mu, epsilon):
    """Return δ(ε) of N(μ, 1) and N(0, 1): φ(t)·(R(t) − R(t + μ)), with t = ε/μ − μ/2 and the Mills ratio R."""
    with mp.workdps(60 + max(0, round(-2 * math.log10(mu)))):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        t = epsilon / mu - mu / 2

        def mills(x):
            return mp.sqrt(mp.pi / 2) * mp.exp(x * x / 2) * mp.erfc(x / mp.sqrt(2))

        return mp.npdf(t) * (mills(t) - mills(t + mu))


@cache
def label_probabilities(noise, counts):
    """Return Pr of each label with discrete noise to 50 digits; of tied classes, the lowest wins."""
    laplace, scale = isinstance(noise, DiscreteLaplace), mp.mpf(noise.scale)
    far = 60 if laplace else int(14 * noise.scale) + 6
    with mp.workdps(50):
        law = [mp.exp(-abs(z) / scale if laplace else -mp.mpf(z * z) / (2 * scale**2)) for z in range(-far, far + 1)]
        law = [each / mp.fsum(law) for each in law]
        cdf = np.cumsum(law)

        def below(z):
            return cdf[z + far] if -far <= z <= far else mp.mpf(z > far)

        def wins(j, own):
            others = [(k, count) for k, count in enumerate(counts) if k != j]
            return mp.fsum(
                law[z + far] * mp.fprod(below(z + own - count - (k < j)) for k, count in others)
                for z in range(-far, far + 1)
            )

        return [wins(j, own) for j, own in enumerate(counts)]


def winners(counts, law):
    """Return Pr of each label if `law` (of odd length, around 0) is that of the noise; of tied classes, the lowest."""
    far = len(law) // 2
    noise, below = np.arange(-far, far + 1), np.append(0.0, np.cumsum(law))
    result = []
    for j, own in enumerate(counts):
        others = [
            below[np.clip(noise + own - k - (i < j) + far + 1, 0, len(law))] for i, k in enumerate(counts) if i != j
        ]
        result.append(np.sum(law * np.prod(others, axis=0)))
    return np.array(result)


def sum_of_gaussians(sigma, number):
    """Return the law of the sum of discrete Gaussians by convolutions, so that relative errors are only of rounding."""
    reach, widest = math.ceil(38 * sigma) + 1, math.ceil(38 * sigma * math.sqrt(number)) + 1
    power, law = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma * sigma)), np.ones(1)
    while number:
        power /= power.sum()
        law = _cut(np.convolve(law, power), widest) if number & 1 else law
        number >>= 1
        power = _cut(np.convolve(power, power), widest) if number else power
    return law


def _cut(law, reach):
    off = max(0, len(law) // 2 - reach)
    return law[off : len(law) - off]


def p_value(observed, expected, least=10):
    """Return that of a χ² test on the values that are expected more often than `least` times."""
    observed, expected = (np.asarray(each)[np.asarray(expected) > least] for each in (observed, expected))
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue
