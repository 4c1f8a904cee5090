"""Bootstrap intervals for differences of two methods over the seeds, and ranks of methods over data sets.

Ranks are compared with Friedman's test and Nemenyi's critical difference.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

#: Confidence of intervals; 1 minus the significance level of ranks.
CONFIDENCE = 0.95
#: Minimum number n of paired seeds for a sign test at the 5 % level. If no method is better, all n differences have the
#: same sign with probability 2 · 2⁻ⁿ, which is below 5 % for n ≥ 6.
ENOUGH_SEEDS = 6
_RESAMPLES = 1999


def difference_interval(one: Sequence[float], other: Sequence[float], paired: bool) -> tuple[float, float]:
    """Return the percentile bootstrap interval of `mean(other) - mean(one)` with confidence `CONFIDENCE`.

    The seed of the resamples is fixed. With fewer than `ENOUGH_SEEDS` values the interval is too narrow.

    Parameters
    ----------
    one, other : one value per seed; if `paired`, of the same seeds in the same order.
    paired : True to resample seeds, with both of their values; False to resample `one` and `other` independently.

    Returns
    -------
    Lower and upper end. Both ends are NaN if `one` or `other` has fewer than two values, or a value that is not finite.
    """
    from scipy.stats import bootstrap

    if min(len(one), len(other)) < 2 or not np.isfinite([*one, *other]).all():
        return math.nan, math.nan

    interval = bootstrap(
        (np.asarray(one), np.asarray(other)),
        lambda first, second, axis: np.mean(second, axis=axis) - np.mean(first, axis=axis),
        paired=paired,
        vectorized=True,
        n_resamples=_RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(interval.low), float(interval.high)


@dataclass(frozen=True)
class Ranks:
    """Ranks of methods over data sets (Demšar 2006): Friedman's test, and Nemenyi's critical difference.

    Attributes
    ----------
    mean : mean rank by method, best first; rank 1 is the most accurate method.
    datasets : names of the data sets.
    p_value : p-value of Friedman's χ² test of the hypothesis that all methods are equally good.
    critical_difference : smallest significant difference between the mean ranks of two methods.
    """

    mean: dict[str, float]
    datasets: tuple[str, ...]
    p_value: float
    critical_difference: float


def rank_methods(accuracies: pd.DataFrame) -> Ranks | None:
    """Return each method's mean rank over data sets, with Friedman's test; tied methods get their average rank.

    Parameters
    ----------
    accuracies : one row per data set and one column per method, without missing values.

    Returns
    -------
    The ranks; None with fewer than three methods, or fewer than two data sets, for which the test is not defined.
    """
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    datasets, methods = accuracies.shape
    if methods < 3 or datasets < 2:
        return None
    mean = rankdata(-accuracies.to_numpy(float), axis=1).mean(axis=0)
    quantile = studentized_range.ppf(CONFIDENCE, methods, np.inf) / math.sqrt(2)
    ranked = sorted(zip(mean.tolist(), map(str, accuracies.columns), strict=True))
    return Ranks(
        mean={method: rank for rank, method in ranked},
        datasets=tuple(map(str, accuracies.index)),
        p_value=float(friedmanchisquare(*accuracies.to_numpy(float).T).pvalue),
        critical_difference=float(quantile * math.sqrt(methods * (methods + 1) / (6 * datasets))),
    )
