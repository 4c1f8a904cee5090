"""Local privacy: every teacher perturbs its own vote, and all reports are released (distributed PATE, Zhao 2018).

The aggregator is not trusted, so every perturbed vote (a report) is released; the joint label is post-processing. The
paper calls teachers entities. Each teacher may have its own ε and takes part in some of the queries. Adjacent data sets
differ in one teacher's shard, and hence possibly in all votes of this teacher. All bounds are worst case.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from patebench.accounting import exact, independent
from patebench.accounting.accountant import Accountant, DirectAccountant, RenyiAccountant, repeated
from patebench.accounting.exact import divergence
from patebench.accounting.logspace import Array
from patebench.accounting.votes import Counts, Votes, winners
from patebench.core.bound import Conversion, Kind
from patebench.core.errors import PatebenchError
from patebench.core.seeds import Source
from patebench.core.text import in_json
from patebench.mechanisms.base import NO_ANSWER, Answering, Labels, Mechanism, Shown, parameter

#: Suffixes of keys in records: the teachers with the least, the median and the largest cost by basic composition.
WHICH = ("least", "median", "most")

#: Fractional part of the golden ratio; its multiples spread any number of teachers evenly over a round.
_PHASE = (math.sqrt(5) - 1) / 2

#: Largest ε of a vote that is drawn. Draws have a resolution of 2⁻⁵³; with ε = 40, a vote would never change.
_LARGEST = 20.0


@dataclass(frozen=True, eq=False)
class Channel:
    """Random mapping from a teacher's vote to its report, the perturbed vote that is released; the mapping is public.

    The report of a teacher depends on no other vote, so the ε of a teacher is that of its channel. Votes for the first
    and for the last class are the easiest pair to distinguish: no other pair of rows of `log_p` has a larger δ(ε), for
    any ε. The privacy loss of a report is that for these two votes, ln Pr[report | first class] − ln Pr[report | last
    class].

    Parameters
    ----------
    log_p : (votes, reports) ln Pr[report | vote]
    inverse : inverse of the matrix of probabilities Pr[report | vote]
    loss_probabilities : distribution of the privacy loss if the vote is for the first class; the losses are evenly
        spaced from `local_epsilon` to −`local_epsilon`
    largest_loss : largest ln(Pr[report | vote] / Pr[report | other vote]), computed by a formula without rounding
        errors
    """

    log_p: Array
    inverse: Array
    loss_probabilities: Array
    largest_loss: float

    @property
    def classes(self) -> int:
        return len(self.log_p)

    @cached_property
    def matrix(self) -> Array:
        """Return Pr[report | vote], votes × reports."""
        return np.exp(self.log_p)

    @cached_property
    def local_epsilon(self) -> float:
        """Return the ε of one report, `largest_loss` rounded up."""
        return self.largest_loss * (1 + 4 * float(np.finfo(np.float64).eps))

    @cached_property
    def variance(self) -> float:
        """Return the variance of the estimate of a uniformly random vote from its report, summed over the classes.

        The estimate is the row of `inverse` for the report. It is unbiased for the vote in one-hot form.
        """
        second_moment = float(np.mean(self.matrix @ np.sum(self.inverse**2, axis=1)))
        return second_moment - 1 / self.classes

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return all ordered pairs of different votes, as two arrays (pairs,)."""
        one, other = np.nonzero(~np.eye(self.classes, dtype=bool))
        return one, other

    def renyi(self, orders: Array) -> Array:
        """Return the Rényi divergence between the reports of the two votes that are easiest to distinguish, (orders,).

        These are the votes for the first and for the last class: no other pair has a larger δ(ε), for any ε.
        """
        result: Array = divergence(self.log_p[:1], self.log_p[-1:], np.ones((1, self.classes), dtype=np.int64), orders)
        return result[0]


@dataclass(frozen=True)
class LocalMechanism(Mechanism):
    """Mechanism whose participating teachers send their votes through a public channel, which perturbs each vote.

    The label of a query is computed from all reports.

    Parameters
    ----------
    epsilon : largest ε of a teacher, per query
    unbiased : 0 to label with the class reported most often, as in Zhao 2018, equation 4; 1 to label with the class of
        the largest unbiased estimate
    participation : share of the queries in which each teacher takes part
    spread : largest ε of a teacher divided by the smallest; ln ε decreases linearly in the index of the teacher
    """

    published = ("basic", Conversion.NONE)
    cost_needs = ("classes",)
    answering = Answering.BY_TEACHER

    epsilon: float = parameter(low=1e-100, words="ε of a vote")
    unbiased: float = parameter(low=0, high=1)
    participation: float = parameter(low=0, above=True, high=1)
    spread: float = parameter(low=1, high=1e6)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unbiased not in (0, 1):
            raise PatebenchError(
                f"{type(self).__name__}: unbiased = {self.unbiased:g} is neither 0 nor 1; choose 0 (as in the paper) or"
                " 1 (unbiased)"
            )

    @staticmethod
    @abstractmethod
    def channel(epsilon: float, classes: int) -> Channel:
        """Return the channel, which maps a vote to a random report, of a teacher with the local ε `epsilon`."""

    def personal(self, teachers: int) -> Array:
        """Return the ε per query of each teacher, (teachers,); these values are public."""
        return self.epsilon * self.spread ** -np.linspace(0, 1, teachers)

    def asked(self, teachers: int, queries: int) -> NDArray[np.int64]:
        """Return how many of the first `queries` queries each teacher takes part in, (teachers,)."""
        return self.participants(teachers, queries).sum(axis=1)

    def participants(self, teachers: int, queries: int) -> NDArray[np.bool_]:
        """Return a mask (teachers × queries) of the teachers that take part in each query; N(x) in Zhao 2018.

        The schedule is public: teacher i takes part in query q if ⌊(q + 1)·s + φ_i⌋ > ⌊q·s + φ_i⌋, with
        s = `participation` and a phase φ_i in [0, 1) that depends on i only. So every teacher takes part in ⌊T·s⌋ or
        ⌈T·s⌉ of the first T queries.
        """
        phases = np.arange(teachers)[:, None] * _PHASE % 1
        turns = np.floor(np.arange(queries + 1) * self.participation + phases)
        return np.diff(turns, axis=1) > 0

    def most_participation(self, queries: int) -> int:
        return min(queries, math.ceil(queries * self.participation))

    def perturbed(self, votes: Votes, rng: Source) -> NDArray[np.int32]:
        """Draw each teacher's report, its perturbed vote, (teachers × queries); NO_ANSWER if it does not take part."""
        if votes.matrix is None:
            raise PatebenchError(
                f"{type(self).__name__} perturbs each teacher's vote, but only counts are available; "
                "give a table of votes (teachers × queries)"
            )
        if _LARGEST < (largest := float(np.max(self.personal(votes.teachers)))) < math.inf:
            raise PatebenchError(
                f"the ε of a teacher's vote is {largest:.4g}, above the limit of {_LARGEST:g}, because rounding would"
                " hide the least probable reports; use a smaller epsilon or spread",
                code="bound",
            )
        reports = np.empty(votes.matrix.shape, dtype=np.int32)
        for i, channel in enumerate(self.channels(votes.teachers, votes.classes)):
            thresholds = np.cumsum(channel.matrix, axis=1)[:, :-1][votes.matrix[i]]
            reports[i] = np.sum(rng.random(size=votes.queries)[:, None] >= thresholds, axis=1)
        return np.where(self.participants(votes.teachers, votes.queries), reports, np.int32(NO_ANSWER))

    def release(self, votes: Votes, rng: Source) -> Labels:
        """Draw the reports and return one joint label per query; NO_ANSWER if no teacher takes part.

        Ties go to the lowest class.
        """
        return self.joint(votes, self.perturbed(votes, rng))

    def released(self, votes: Votes, rng: Source) -> dict[str, NDArray[Any]]:
        reports = self.perturbed(votes, rng)
        return {"labels": self.joint(votes, reports), "reports": reports.astype(np.min_scalar_type(-votes.classes))}

    def joint(self, votes: Votes, reports: NDArray[np.int32]) -> Labels:
        """Return one label per query, computed from the perturbed votes, `reports` (teachers × queries)."""
        labels = winners(self.estimates(votes, reports))
        return np.where(np.any(reports != NO_ANSWER, axis=0), labels, np.int32(NO_ANSWER))

    def estimates(self, votes: Votes, reports: NDArray[np.int32]) -> Array:
        """Return the score of each class, (queries × classes); the joint label is the class with the largest score.

        With `unbiased` = 0, the score of a class is the number of teachers that report it (Zhao 2018, equation 3). With
        `unbiased` = 1, the scores are a weighted sum of unbiased estimates of all teachers' votes in one-hot form. The
        weight of a teacher is 1/`Channel.variance`, which minimises the variance of the sum (Aitken 1936, generalised
        least squares) and is public.
        """
        result = np.zeros((votes.queries, votes.classes))
        for i, channel in enumerate(self.channels(votes.teachers, votes.classes)):
            took_part = np.flatnonzero(reports[i] != NO_ANSWER)
            of_report = channel.inverse / channel.variance if self.unbiased else np.eye(votes.classes)
            result[took_part] += of_report[reports[i, took_part]]
        return result

    def log_outcome_probabilities(self, votes: Votes) -> None:
        """Return None, as the exact distribution of the joint label is not computed."""
        return None

    def outcome_probabilities(self, votes: Votes) -> Array | None:
        """Return the probability of each label, (queries, classes + 1); None if there are several teachers.

        The label of a single teacher is its perturbed vote. The teacher is assumed to take part in each query, so "no
        answer", in the last column, has probability 0.
        """
        if votes.teachers != 1:
            return None
        reports = self.channel(self.epsilon, votes.classes).matrix[votes.plurality]
        return np.column_stack([reports, np.zeros(votes.queries)])

    def neighbours(self, counts: Counts) -> Iterator[exact.Pairs]:
        """Yield the distributions of one teacher's perturbed vote for all pairs of different votes, once per histogram.

        The teacher has the largest ε. Its perturbed vote depends only on its own vote, so the distributions are the
        same for all histograms in `counts`. The fields `loses` and `gains` of the result contain the classes of the two
        votes, not ranks as in other mechanisms.
        """
        channel = self.channel(self.epsilon, counts.shape[1])
        vote, other = channel.pairs
        ones = np.ones((len(vote), channel.classes), dtype=np.int64)
        for row in range(len(counts)):
            yield exact.Pairs(np.full_like(vote, row), vote, other, channel.log_p[vote], channel.log_p[other], ones)

    def accountants(self, votes: Votes) -> list[Accountant]:
        """Return accountants that bound the ε of every teacher.

        Each accountant computes the ε of a teacher with the largest ε per query and the largest number of queries
        (`most_participation`).
        """
        channel, paper = self.channel(self.epsilon, votes.classes), "Zhao 2018, end of the section on its framework"
        top = channel.local_epsilon
        return [
            DirectAccountant(
                name="basic",
                kind=Kind.WORST_CASE,
                source=f"{paper}: T_n·ε_n of the teacher that pays most",
                epsilon=lambda T, delta: self.most_participation(T) * self.epsilon,
            ),
            DirectAccountant(
                name="pld",
                kind=Kind.WORST_CASE,
                source="one vote is ε-locally private; Kairouz, Oh, Viswanath 2015, Theorem 3.3",
                epsilon=lambda T, delta: independent.pure_composition(top, self.most_participation(T), delta),
            ),
            DirectAccountant(
                name="pld-channel",
                label="Gaussian DP, PLD",
                kind=Kind.WORST_CASE,
                source="Sommer, Meiser, Mohammadi 2019, Lemma 5, for the pair of votes that is told apart best",
                epsilon=lambda T, delta: independent.lattice_composition(
                    channel.loss_probabilities, top, self.most_participation(T), delta
                ),
            ),
            RenyiAccountant(
                kind=Kind.WORST_CASE,
                source="Mironov 2017, Definition 4 and Proposition 1, for the worst pair of votes, computed",
                totals=repeated(channel.renyi, self.most_participation),
            ),
        ]

    def teacher_costs(self, votes: Votes, queries: Sequence[int], delta: float) -> list[dict[str, float | str]]:
        return [self._teacher_costs(votes, T, delta) for T in queries]

    def _teacher_costs(self, votes: Votes, queries: int, delta: float) -> dict[str, float | str]:
        """Return the costs of the first `queries` queries for three teachers, by names such as "basic_most".

        The teachers are those with the least, the median and the most ε by basic composition. A name consists of a cost
        and a teacher. The costs are:

        - "asked": number of queries in which the teacher takes part
        - "epsilon": ε per query
        - "basic": ε by basic composition
        - "composed": ε at `delta` by exact composition

        The result also contains `queries` and `delta`.
        """
        personal, asked = self.personal(votes.teachers), self.asked(votes.teachers, queries)
        order = np.argsort(asked * personal, kind="stable")
        record: dict[str, float | str] = {"queries": queries, "delta": delta}
        for which, i in zip(WHICH, (order[0], order[len(order) // 2], order[-1]), strict=True):
            epsilon, times = float(personal[i]), int(asked[i])
            channel = self.channel(epsilon, votes.classes)
            composed = independent.lattice_composition(channel.loss_probabilities, channel.local_epsilon, times, delta)
            values = {"asked": times, "epsilon": epsilon, "basic": times * epsilon, "composed": composed}
            record |= {f"{name}_{which}": in_json(value) for name, value in values.items()}
        return record

    def channels(self, teachers: int, classes: int) -> Iterator[Channel]:
        """Return the channel (the public mapping from votes to reports) of each teacher, in order of their indices."""
        channel = cache(self.channel)  # teachers may have the same ε
        return (channel(float(epsilon), classes) for epsilon in self.personal(teachers))


@dataclass(frozen=True)
class TruncatedGeometric(LocalMechanism):
    """Truncated geometric votes, the local mechanism of distributed PATE (Zhao 2018, equations 1 and 2).

    Geometric noise with ratio α = e^{−ε/M} is added to the index of the voted class; M is the number of classes. The
    sum is truncated to the range from the first to the last class. A report is likely to be near the vote, so the
    mechanism suits ordered labels.

    A report takes M values, one per class (as in Ghosh, Roughgarden, Sundararajan 2012), although the paper's formula
    has M + 1 values. Two votes differ by at most M − 1, so the local ε of a report is ε·(M − 1)/M. All accountants use
    this value, except basic composition, which uses ε as in the paper.
    """

    shown = Shown("truncated geometric", color="orange", marker="d")
    example: ClassVar[Mapping[str, float]] = {"epsilon": 8.0, "unbiased": 1.0, "participation": 1.0, "spread": 1.0}

    @staticmethod
    def channel(epsilon: float, classes: int) -> Channel:
        """Return the channel that reports vote k as z with probability f_z·α^{|z − k|}; α = e^{−ε/M}, M = `classes`.

        f_z is 1/(1 + α) for the first and the last class z, and (1 − α)/(1 + α) for all other classes. The matrix of
        these probabilities has a tridiagonal inverse, because the matrix with entries α^{|z − k|} has one (Kac,
        Murdock, Szegő 1953).
        """
        rate, distance = epsilon / classes, np.abs(np.subtract.outer(np.arange(classes), np.arange(classes)))
        alpha, less = np.exp(-rate), -np.expm1(-rate)
        ends = np.isin(np.arange(classes), (0, classes - 1))
        log_scale = np.where(ends, 0.0, np.log(less)) - np.log1p(alpha)
        log_power = np.where(distance > 0, -rate, 0.0) * np.maximum(distance, 1)
        log_p = log_power + log_scale
        band = np.where(distance == 1, -alpha, 0.0) + np.diag(np.where(ends, 1.0, 1 + alpha * alpha))
        inverse = band / np.where(ends, less, less * less)[:, None]
        return Channel(log_p, inverse, np.exp(log_p[0]), rate * (classes - 1))


@dataclass(frozen=True)
class RandomisedResponse(LocalMechanism):
    """Randomised response: report the vote with probability e^ε/(e^ε + M − 1), each other class with 1/(e^ε + M − 1).

    M is the number of classes. A report is ε-locally private. The mechanism suits labels without an order (Kairouz, Oh,
    Viswanath 2014, *Extremal mechanisms for local differential privacy*).
    """

    shown = Shown("randomised response", color="vermillion", marker="*")
    example: ClassVar[Mapping[str, float]] = {"epsilon": 2.0, "unbiased": 1.0, "participation": 1.0, "spread": 1.0}

    @staticmethod
    def channel(epsilon: float, classes: int) -> Channel:
        """Return the channel that reports the vote with probability p = e^ε·q, and each other class with probability q.

        With M classes, q = 1/(e^ε + M − 1). The inverse of the matrix of these probabilities has the entries
        (1 − q)/(p − q) on the diagonal and −q/(p − q) elsewhere.
        """
        log_sum = np.log1p((classes - 1) * np.exp(-epsilon))
        log_p = np.where(np.eye(classes, dtype=bool), -log_sum, -epsilon - log_sum)
        p, q = np.exp(-log_sum), np.exp(-epsilon - log_sum)
        inverse = (np.eye(classes) - q) / (-np.expm1(-epsilon) * p)
        return Channel(log_p, inverse, np.array([p, (classes - 2) * q, q]), epsilon)
