"""Test intervals of differences by enumeration, and ranks with the numbers of Demšar (2006) and of autorank."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from patebench.reporting.significance import difference_interval, rank_methods

#: AUC of C4.5 without and with parameter m, cf, and both on 14 data sets (Table 6 of Demšar 2006, JMLR 7).
DEMSAR = np.array(
    [
        *([0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967]),
        *([0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931]),
        *([0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875]),
        *([1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669]),
        *([0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970]),
    ]
)


def test_paired_interval_equals_that_of_all_resamples() -> None:
    """The 27 resamples of three pairs, in place of the random ones."""
    one, other = [0.90, 0.94, 0.95], [0.91, 0.96, 0.98]
    means = [np.mean(sample) for sample in itertools.product((0.01, 0.02, 0.03), repeat=3)]
    low, high = difference_interval(one, other, paired=True)
    assert (low, high) == pytest.approx((np.quantile(means, 0.025), np.quantile(means, 0.975)), abs=0.0035)
    assert difference_interval(one, other, paired=True) == (low, high)


def test_paired_interval_is_narrower() -> None:
    one, other = [0.90, 0.94, 0.95, 0.80], [0.91, 0.95, 0.96, 0.81]
    low, high = difference_interval(one, other, paired=True)
    assert (low, high) == pytest.approx((0.01, 0.01))
    low, high = difference_interval(one, other, paired=False)
    assert low < 0 < high


@pytest.mark.parametrize("pair", [([1.0], [2.0, 3.0]), ([1.0, math.inf], [1.0, 2.0])])
def test_no_interval_without_spread(pair) -> None:
    assert all(map(math.isnan, difference_interval(*pair, paired=False)))


def test_most_intervals_of_many_seeds_contain_the_difference() -> None:
    rng, inside = np.random.default_rng(3), 0
    for _ in range(100):
        low, high = difference_interval(*rng.normal([[0.0], [0.5]], 1.0, (2, 30)).tolist(), paired=True)
        inside += low <= 0.5 <= high
    assert 86 <= inside <= 99


def test_ranks_of_demsar() -> None:
    """Mean ranks 3.143, 2.000, 2.893, 1.964 and critical difference 1.25 on his page 16."""
    ranks = rank_methods(pd.DataFrame(DEMSAR, columns=["C4.5", "m", "cf", "m+cf"]))
    assert ranks.mean == pytest.approx({"m+cf": 1.964, "m": 2.000, "cf": 2.893, "C4.5": 3.143}, abs=6e-4)
    assert list(ranks.mean) == ["m+cf", "m", "cf", "C4.5"]
    assert ranks.critical_difference == pytest.approx(1.25, abs=0.005)
    assert 0.01 < ranks.p_value < 0.03  # his χ² = 9.28 with 3 degrees of freedom


def test_critical_difference_of_autorank() -> None:
    """Autorank 1.3.0 states 2.490084483916212 for five methods on six data sets, from a rounded quantile."""
    accuracies = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 5)), columns=list("abcde"))
    assert rank_methods(accuracies).critical_difference == pytest.approx(2.490084483916212, rel=1e-4)


@pytest.mark.parametrize("shape", [(4, 2), (1, 4)])
def test_no_ranks_where_the_test_is_not_defined(shape) -> None:
    assert rank_methods(pd.DataFrame(np.zeros(shape))) is None
