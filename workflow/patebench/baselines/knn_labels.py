"""Private-kNN (Zhu, Yu, Chandraker, Wang, CVPR 2020): label public queries by the nearest private records.

`sound_labels` has a proven privacy cost (`knn_accounting.py`); `published_labels` follows the authors' code.
"""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.baselines.knn_accounting import ANSWER, TEST, KNNSettings
from patebench.baselines.noisy_steps import NoisySteps, PoissonSampler
from patebench.core.progress import Report, silent
from patebench.features.cells import on_grid
from patebench.mechanisms.base import NO_ANSWER


class NearestVotes:
    """Private records that vote on public queries: the records nearest to a query vote with their labels.

    `records` (records, features) and `queries` (queries, features) are feature vectors by a public encoder, of at most
    unit length. `labels` (records,) are the records' labels, and `neighbours` is the number of records that vote on a
    query.
    """

    def __init__(
        self,
        records: NDArray[np.floating],
        labels: NDArray[np.integer],
        queries: NDArray[np.floating],
        *,
        neighbours: int,
        classes: int,
    ) -> None:
        self._records, self._queries = on_grid(records), on_grid(queries)
        self._square = np.square(self._records).sum(axis=1)
        self._labels, self._neighbours, self._classes = labels, neighbours, classes

    def __len__(self) -> int:
        """Return the number of private records."""
        return len(self._records)

    def counts(self, query: int, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the vote counts (classes,) on query number `query` by the nearest of the records at `positions`.

        A record whose position is repeated may vote several times. If records are equally far from the query, those
        that come first in `positions` vote. Distances are exact, because features are rounded to a grid. So the order
        of two records does not depend on any other record.
        """
        distance = self._square[positions] - 2 * (self._records[positions] @ self._queries[query])
        nearest = positions[np.argsort(distance, kind="stable")[: self._neighbours]]
        return np.bincount(self._labels[nearest], minlength=self._classes)


Labels = NDArray[np.int64]


def sound_labels(
    votes: NearestVotes,
    settings: KNNSettings,
    sampler: PoissonSampler,
    rng: torch.Generator,
    report: Report = silent,
) -> tuple[Labels, tuple[SubsampledGaussian, SubsampledGaussian]]:
    """Label public queries by Private-kNN with Poisson subsets; return the labels, and the steps for the accountant.

    All queries are tested. Those that passed are then answered in order, up to the maximum number of answers. `sampler`
    draws a new subset for every test and answer, and `rng` the noise.

    The labels are (queries,), with −1 for unanswered queries. The steps are two mechanisms, one for the tests and one
    for the answers. Each contains the noise multiplier, the sampling rate and the number of steps that were taken.
    """
    tests = NoisySteps(sampler, len(votes), noise=settings.sigma1 / TEST, clip=TEST, rng=rng)
    answers = NoisySteps(sampler, len(votes), noise=settings.sigma2 / ANSWER, clip=ANSWER, rng=rng)
    passed, total = [], settings.queries + settings.most
    for query in range(settings.queries):
        if float(tests.step(partial(_largest_count, votes, query))) * TEST > settings.threshold:
            passed.append(query)
        report(query + 1, total)
    labels = np.full(settings.queries, NO_ANSWER, dtype=np.int64)
    for done, query in enumerate(passed[: settings.most], settings.queries + 1):
        labels[query] = int(answers.step(partial(_vote_counts, votes, query)).argmax())
        report(done, total)
    return labels, (tests.spent(), answers.spent())


def _largest_count(votes: NearestVotes, query: int, positions: Tensor, clip: float) -> Tensor:
    """Return the largest vote count on `query` of the records at `positions`.

    One added or removed record changes the largest count by at most 1 (`TEST`). `clip` is not used.
    """
    return _vote_counts(votes, query, positions, clip).max()


def _vote_counts(votes: NearestVotes, query: int, positions: Tensor, clip: float) -> Tensor:
    """Return the vote counts (classes,) on `query` of the records at `positions`.

    One added or removed record changes the counts by at most √2 in L2 norm (`ANSWER`). `clip` is not used.
    """
    return torch.from_numpy(votes.counts(query, positions.numpy())).double()


def published_labels(
    votes: NearestVotes, settings: KNNSettings, rng: torch.Generator, report: Report = silent
) -> Labels:
    """Return labels (queries,) as the authors' code computes them, with −1 for unanswered queries.

    For each query, one subset of a fixed size is drawn with replacement and used for both the test and the answer. A
    record that is drawn twice votes twice. All queries that pass their test are answered.
    """
    labels, size = np.full(settings.queries, NO_ANSWER, dtype=np.int64), int(settings.rate * len(votes))
    for query in range(settings.queries):
        counts = torch.from_numpy(votes.counts(query, torch.randint(len(votes), (size,), generator=rng).numpy()))
        if float(counts.max() + settings.sigma1 * torch.randn((), generator=rng)) > settings.threshold:
            labels[query] = int((counts + settings.sigma2 * torch.randn(len(counts), generator=rng)).argmax())
        report(query + 1, settings.queries)
    return labels
