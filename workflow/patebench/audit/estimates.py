"""Lower bounds on ε, from probabilities or from counts of outcomes on a data set D and on its neighbour D′.

P and Q are the distributions of outcomes on D and on D′. The hockey-stick divergence δ(ε) = Σ_j (P_j − e^ε Q_j)⁺ is the
least δ with P(E) ≤ e^ε Q(E) + δ for every event E (Balle & Wang 2018, Theorem 5). Every ε is rounded towards 0, so that
it remains a lower bound.

Outcome j is given by `log_p` = ln P_j, `log_p_neighbour` = ln Q_j and `multiplicity`, the number of outcomes that have
these probabilities.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.exact import ERROR
from patebench.accounting.logspace import Array, log1mexp, logsumexp

Integers = NDArray[np.integer]

#: Number of cells of the grid on which losses are composed.
_CELLS = 1 << 18

#: Fraction of δ that is subtracted three times: for rounding losses to the grid, and for the losses beyond each of the
#: two ends of the grid.
_GIVEN_UP = 1e-3

#: Relative error of sums of a few terms.
_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 64 * _EPS


def least_epsilon(log_p: Array, log_p_neighbour: Array, multiplicity: Integers, delta: float) -> Array:
    """Return the least ε ≥ 0 with δ(ε) ≤ `delta` for each row of outcome distributions P and Q: (rows,).

    δ(ε) = Σ_j (P_j − e^ε Q_j)⁺ is the hockey-stick divergence. Let the outcomes be sorted by P_j / Q_j, largest first.
    Then the least ε is the largest ln((Σ_{j≤k} P_j − `delta`) / Σ_{j≤k} Q_j) over k. It is ∞ if outcomes that are
    impossible under Q have a probability above `delta` under P.

    Parameters
    ----------
    log_p, log_p_neighbour : (rows, outcomes) ln P on a data set D, and ln Q on its neighbour D′
    multiplicity : (rows, outcomes) number of outcomes with these probabilities
    """
    likely, rare = _nested_events(log_p, log_p_neighbour, multiplicity)
    return _largest_epsilon(likely, rare, delta)


def measurable_epsilon(
    log_p: Array, log_p_neighbour: Array, multiplicity: Integers, delta: float, runs: int, confidence: float
) -> Array:
    """Return approximately the ε lower bound that a sampled audit will find, for each row of distributions: (rows,).

    The audit has `runs` runs on each of D and D′, and its bounds hold with probability `confidence`. The other
    parameters are those of `least_epsilon`.
    """
    from scipy.special import ndtri

    z = float(ndtri((1 + confidence) / 2))
    likely, rare = (np.exp(log) for log in _nested_events(log_p, log_p_neighbour, multiplicity))
    likely = np.maximum(likely - z * np.sqrt(likely / runs), 0.0)
    rare = rare + z * np.sqrt(rare / runs) + z * z / runs
    with np.errstate(divide="ignore"):
        return _largest_epsilon(np.log(likely), np.log(rare), delta)


def _nested_events(log_p: Array, log_p_neighbour: Array, multiplicity: Integers) -> tuple[Array, Array]:
    """Return the log-probabilities of nested events on D and on D′: two arrays (rows, outcomes).

    Event k of a row consists of the k entries with the largest P/Q, where P and Q are the probabilities of an entry on
    D and on D′. Probabilities are rounded down on D and up on D′. The arguments are those of `least_epsilon`.
    """
    lower, upper = _bound_log_probabilities(log_p, log_p_neighbour, multiplicity)
    with np.errstate(invalid="ignore"):
        ratio = np.where(lower > -np.inf, lower - upper, -np.inf)
    order = np.argsort(-ratio, axis=1, kind="stable")
    likely, rare = (np.take_along_axis(logs, order, axis=1) for logs in (lower, upper))
    return np.logaddexp.accumulate(likely, axis=1), np.logaddexp.accumulate(rare, axis=1)


def _bound_log_probabilities(log_p: Array, log_p_neighbour: Array, multiplicity: Integers) -> tuple[Array, Array]:
    """Return lower bounds on ln P and upper bounds on ln Q for the entries of the arrays, despite rounding errors.

    P and Q are the probabilities of an entry on a data set D and on its neighbour D′. An entry stands for
    `multiplicity` outcomes, each with the log-probabilities `log_p` on D and `log_p_neighbour` on D′.
    """
    with np.errstate(divide="ignore"):
        times = np.log(multiplicity)
    lower = log_p * (1 + ERROR) - _ROUNDING + times
    upper = log_p_neighbour * (1 - ERROR) + _ROUNDING + times
    return lower, upper


def _largest_epsilon(likely: Array, rare: Array, delta: float) -> Array:
    """Return the largest ln((P − `delta`)/Q) over the events of each row, at least 0.

    P and Q are the probabilities of an event on D and on D′. `likely` is ln P and `rare` is ln Q, with the events on
    the last axis.
    """
    exceeds = likely > math.log(delta)
    margin = log1mexp(np.where(exceeds, math.log(delta) - likely, -np.inf))
    with np.errstate(invalid="ignore"):
        # ln((P − δ)/Q) = ln P + ln(1 − δ/P) − ln Q
        candidates = np.where(exceeds, likely + margin - rare, 0.0)
    return np.max(candidates, axis=-1, initial=0.0)


def compose_event(likely: float, rare: float, queries: int, delta: float) -> float:
    """Return a lower bound on the ε of `queries` independent queries at `delta`, from the probabilities of an event.

    In each query, the event has a probability of at least `likely` on one data set and at most `rare` on its neighbour.
    The bound comes from the best test of the form "the event occurs in at least k queries".
    """
    from scipy.special import gammaln, xlogy

    if likely <= rare:
        return 0.0
    i = np.arange(queries, -1, -1)
    ways = gammaln(queries + 1) - gammaln(i + 1) - gammaln(queries - i + 1)
    tails = [np.logaddexp.accumulate(ways + xlogy(i, p) + xlogy(queries - i, 1 - p)) for p in (likely, rare)]
    slack = 1e-12 * queries
    return float(_largest_epsilon(np.minimum(tails[0], 0.0) - slack, tails[1] + slack, delta))


def compose(log_p: Array, log_p_neighbour: Array, multiplicity: Integers, queries: int, delta: float) -> float:
    """Return a lower bound on the ε for which `queries` independent queries are (ε, `delta`)-DP.

    `log_p` and `log_p_neighbour` (outcomes,) are ln P and ln Q of the outcomes of one query on two neighbouring data
    sets. Each entry stands for `multiplicity` equally likely outcomes.

    The bound is computed from the distribution of the total privacy loss, the sum of ln P/Q over the queries (Sommer,
    Meiser, Mohammadi 2019, Theorem 1). Losses are rounded to a grid, and the bound allows for the rounding errors.
    """
    single = float(least_epsilon(log_p[None], log_p_neighbour[None], multiplicity[None], delta)[0])
    if queries == 1 or math.isinf(single):
        return single
    lower, upper = _bound_log_probabilities(log_p, log_p_neighbour, multiplicity)
    infinite = float(np.sum(np.exp(lower[np.isneginf(upper)])))
    p_infinite = -math.expm1(queries * math.log1p(-infinite))
    if p_infinite > delta:
        return math.inf
    finite = (lower > -np.inf) & (upper > -np.inf)
    # The probabilities may sum to a little less than 1, which lowers ε.
    return max(single, _on_grid(lower[finite] - upper[finite], np.exp(lower[finite]), queries, delta, p_infinite))


def _bound_sum(loss: Array, probability: Array, queries: int, log_probability: float) -> float:
    """Return Chernoff's bound on a sum of `queries` independent privacy losses.

    The sum exceeds the bound with probability at most e^`log_probability`. `loss` and `probability` (losses,) are the
    possible values of one loss and their probabilities.
    """
    largest = max(float(np.max(np.abs(loss))), 1e-300)
    deviation = max(math.sqrt(queries * float(probability @ loss**2)), 1e-300)
    s = np.concatenate([np.geomspace(1e-3, 1e3, 200) / largest, np.geomspace(1e-2, 1e2, 100) / deviation])
    with np.errstate(divide="ignore", over="ignore"):
        cumulants = logsumexp(np.log(probability) + s[:, None] * loss)
    bounds = (queries * cumulants - log_probability) / s
    return float(min(np.min(bounds), queries * np.max(loss)))


def _on_grid(loss: Array, probability: Array, queries: int, delta: float, p_infinite: float) -> float:
    """Return a lower bound on the ε of `queries` queries at `delta`, from the distribution of their total privacy loss.

    The privacy loss of each query is rounded to a grid, and the bound allows for the rounding errors. `loss` and
    `probability` (losses,) are the finite losses of one query and their probabilities on D. `p_infinite` is the
    probability on D that the loss of at least one query is infinite.
    """
    given_up = _GIVEN_UP * delta
    high = _bound_sum(loss, probability, queries, math.log(given_up))
    low = -_bound_sum(-loss, probability, queries, math.log(given_up))
    if high <= 0:
        return 0.0
    # The rounding errors of the T queries are independent, have mean 0 and lie in intervals of length h, one cell. By
    # Hoeffding's inequality, their sum is above η = h √(T ln(1/δ₀)/2) with probability at most δ₀ (`given_up`). So
    # δ(ε) ≥ δ_grid(ε + η) − δ₀, with δ_grid the divergence of the rounded losses. `off` is η in cells.
    off = min(math.sqrt(queries * math.log(1 / given_up) / 2), queries)
    spare = math.ceil(off) + 2
    width = max(high - low, 1e-9 * high) / (_CELLS - 2 * spare)
    index = math.floor(low / width) - spare + np.arange(_CELLS)
    masses = _total_loss(loss / width, probability, queries)[index % _CELLS]
    error = 16 * _EPS * math.sqrt(_CELLS) * (queries + math.log2(_CELLS)) * float(np.linalg.norm(masses))
    losses, masses = index[index > 0][::-1] * width, masses[index > 0][::-1]
    with np.errstate(divide="ignore"):
        rare = np.logaddexp.accumulate(np.log(np.maximum(masses, 0.0)) - losses)
    likely = np.cumsum(masses) - 3 * given_up - error + p_infinite
    above = likely > delta
    epsilon = np.log(likely[above] - delta) - np.logaddexp(rare[above], math.log(error) - losses[above])
    return max(0.0, float(np.max(epsilon, initial=0.0)) - off * width)


def _total_loss(loss_in_cells: Array, probability: Array, queries: int) -> Array:
    """Return the distribution of the total privacy loss of `queries` independent queries, (cells,).

    `loss_in_cells` and `probability` (losses,) are the possible losses of one query, in grid steps, and their
    probabilities. Each loss is rounded to a whole number of steps, up or down at random, so that its mean is unchanged.
    Entry i of the result is the probability that the sum of the rounded losses is i modulo `_CELLS`.
    """
    below = np.floor(loss_in_cells)
    share = loss_in_cells - below
    one = np.zeros(_CELLS)
    np.add.at(one, below.astype(np.int64) % _CELLS, probability * (1 - share))
    np.add.at(one, (below.astype(np.int64) + 1) % _CELLS, probability * share)
    return np.fft.irfft(np.fft.rfft(one) ** queries, _CELLS)


#: Fraction of α = 1 − confidence for the separate bounds on P and Q; number of points on the boundary of the joint
#: bound (the line on which the weighted sum of both z-scores is constant) at which bounds are computed.
_BOX, _POINTS = 0.02, 48

#: If P or Q has less than this share of the variance of ln(P/Q), only the separate bounds are used. The probability
#: with the small share of the variance then gets this fraction of α, and the other probability gets the rest.
_LITTLE = 0.05


def lower_limit(successes: float, runs: float, alpha: float | Array) -> Array:
    """Return a lower bound on the probability of an event that occurred in `successes` of `runs` runs.

    The bound fails with probability ≤ `alpha` (Clopper & Pearson 1934). The result has the shape of `alpha`.
    """
    from scipy.special import betaincinv

    level = np.asarray(alpha, dtype=np.float64)
    return np.asarray(betaincinv(successes, runs - successes + 1, level)) if successes > 0 else np.zeros_like(level)


def upper_limit(successes: float, runs: float, alpha: float | Array) -> Array:
    """Return an upper bound on the probability of an event that occurred in `successes` of `runs` runs.

    The bound fails with probability ≤ `alpha` (Clopper & Pearson 1934). The result has the shape of `alpha`.
    """
    from scipy.special import betainccinv

    level = np.asarray(alpha, dtype=np.float64)
    return np.asarray(betainccinv(successes + 1, runs - successes, level)) if successes < runs else np.ones_like(level)


@dataclass(frozen=True)
class Rates:
    """Counts of an event in runs on a data set D and on its neighbour D′, which bound ε and μ from below.

    The unknown probabilities of the event are P on D and Q on D′. Both are bounded together: a pair of values (P, Q) is
    excluded if the two counts are too unlikely for it. The test uses a weighted sum of the z-scores of both counts
    (Stouffer et al. 1949). P and Q are also bounded separately (Clopper & Pearson 1934). Proof:
    docs/explanation/proofs-systems.md, "Two probabilities bounded together".

    Parameters
    ----------
    positives, false_positives : number of runs with the event on D, and on D′
    runs : number of runs on each of D and D′
    confidence : probability with which a bound on ε or μ holds
    weight : weight of the count on D, between 0 and 1. The function `weight` returns it; it must be chosen before
        counting
    """

    positives: float
    false_positives: float
    runs: float
    confidence: float
    weight: float = 0.5

    def epsilon(self, delta: float, queries: int = 1) -> float:
        """Return a lower bound on the ε of `queries` independent queries at `delta`, from an event about one query.

        For one query, ε ≥ ln((P − δ)/Q), where P and Q are the event's probabilities on D and on D′.
        """
        return min(compose_event(float(p), float(q), queries, delta) for p, q in zip(*self._corners(), strict=True))

    def mu(self, rate: float = 1.0) -> float:
        """Return a lower bound on μ of a μ-GDP mechanism: Φ⁻¹(P) − Φ⁻¹(Q) (Dong, Roth, Su 2022, Definition 2.6).

        P and Q are the event's probabilities on D and on D′.

        For a subsampled mechanism, `rate` is the sampling rate of a record that is in D but not in D′, and the bound is
        on μ of the mechanism without subsampling. P is then replaced by P₁, the event's probability if the record is
        sampled, which follows from P = rate·P₁ + (1 − rate)·Q.
        """
        from scipy.special import ndtri

        likely, rare = self._corners()
        with np.errstate(invalid="ignore"):
            run = np.clip((likely - (1 - rate) * rare) / rate, 0.0, 1.0)
            least = ndtri(run) - ndtri(rare)
        return max(0.0, float(np.min(np.where(np.isnan(least), 0.0, least))))

    def bound_nested(self, wider: "Rates") -> tuple[Array, Array]:
        """Return bounds on the probabilities of two events: this event, and the larger event counted in `wider`.

        The first array (2,) contains lower bounds on D, the second (2,) upper bounds on D′. All four bounds hold
        together with probability `confidence`.
        """
        part, events = (1 - self.confidence) / 4, (self, wider)
        likely = [lower_limit(event.positives, event.runs, part) for event in events]
        rare = [upper_limit(event.false_positives, event.runs, part) for event in events]
        return np.array(likely), np.array(rare)

    def _corners(self) -> tuple[Array, Array]:
        """Return lower bounds on P and upper bounds on Q, the event's probabilities on D and on D′.

        Both arrays are (bounds,). With probability `confidence`, the two bounds with the same index are both true for
        at least one index. So the smallest ε over all indices is a valid lower bound.
        """
        from scipy.special import ndtr, ndtri

        alpha, w = 1 - self.confidence, self.weight
        if not _LITTLE <= w <= 1 - _LITTLE:
            of_likely = _LITTLE if w < _LITTLE else 1 - _LITTLE
            of_p, of_q = np.array([alpha * of_likely]), np.array([alpha * (1 - of_likely)])
            return lower_limit(self.positives, self.runs, of_p), upper_limit(self.false_positives, self.runs, of_q)
        both, each = -ndtri((1 - _BOX) * alpha), -ndtri(_BOX * alpha / 2)
        of_p = np.linspace((both - math.sqrt(1 - w) * each) / math.sqrt(w), each, _POINTS + 1)
        of_q = (both - math.sqrt(w) * of_p) / math.sqrt(1 - w)
        likely = lower_limit(self.positives, self.runs, ndtr(-of_p[1:]))
        return likely, upper_limit(self.false_positives, self.runs, ndtr(-of_q[:-1]))


def weight(likely: float, rare: float) -> float:
    """Return the weight w of `Rates`: the share of the variance of an estimated ln(P/Q) that is due to P.

    `likely` and `rare` are approximate values of P and Q, the probabilities of an event on D and on D′.
    """
    of_p, of_q = (max((1 - p) / max(p, 1e-12), 1e-12) for p in (likely, rare))
    return of_p / (of_p + of_q)


def expected_bounds(likely: Array, rare: Array, runs: float, confidence: float) -> tuple[Array, Array]:
    """Return approximately the bounds that `Rates` will give: lower ones on P and upper ones on Q, (events,) each.

    `likely` and `rare` (events,) are the true probabilities P on D and Q on D′ of each event, which is counted in
    `runs` runs on each data set.
    """
    from scipy.special import ndtri

    likely, rare = np.clip(likely, 1e-300, 1.0), np.clip(rare, 0.0, 1.0)
    of_p = (1 - likely) / (runs * likely)
    of_q = (1 - rare) / (runs * np.maximum(rare, 1 / runs))
    z = float(ndtri(confidence)) / np.sqrt(np.maximum(of_p + of_q, 1e-300))
    lower = np.minimum(likely * np.exp(-z * of_p), 1.0)  # z is negative if the confidence is below 1/2
    upper = np.minimum((rare + np.where(rare * runs < 1, -math.log(1 - confidence) / runs, 0)) * np.exp(z * of_q), 1.0)
    return lower, upper


def expected_nested(likely: Array, rare: Array, runs: float, confidence: float) -> tuple[Array, Array]:
    """Predict the bounds of `Rates.bound_nested` for two events; the second event contains the first.

    `likely` and `rare` (2,) are the true probabilities of the two events on D and on D′. The events are counted in
    `runs` runs on each data set, and all bounds hold together with probability `confidence`. Return lower bounds (2,)
    for D and upper bounds (2,) for D′.
    """
    from scipy.special import ndtri

    z = float(ndtri(1 - (1 - confidence) / 4))
    off = [z * np.sqrt(p * (1 - p) / runs) for p in (likely, rare)]
    return np.maximum(likely - off[0], 0.0), np.minimum(rare + off[1] + 1 / runs, 1.0)


def compose_nested(likely: Array, rare: Array, queries: int, delta: float) -> float:
    """Return a lower bound on the ε of `queries` independent queries at `delta`, from two nested events of each query.

    The two events divide the outcomes of a query into three groups: the smaller event, the rest of the larger event,
    and all other outcomes. The bound is the ε of a mechanism that releases only the group, with event probabilities
    `likely` on D and `rare` on D′. Tests of its outcome distinguish D and D′ at most as well as tests of the original
    outcomes, also under composition (Blackwell 1951; Dong, Roth, Su 2022, Theorem 2.10). If one event alone gives a
    larger bound (`compose_event`), the larger bound is returned.

    Parameters
    ----------
    likely : (2,) lower bounds on the probabilities of the smaller and of the larger event on D
    rare : (2,) upper bounds on the probabilities of the smaller and of the larger event on D′
    """
    alone = max(compose_event(float(p), float(q), queries, delta) for p, q in zip(likely, rare, strict=True))
    p, q = (np.diff([0.0, *each, 1.0]) for each in (likely, rare))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(p) - np.log(q)
    # A point inside the hull of the others adds nothing.
    if p.min() <= 0 or q.min() <= 0 or np.any(np.diff(ratio) >= 0):
        return alone
    return max(alone, compose(np.log(p), np.log(q), np.ones(3, dtype=np.int64), queries, delta))
