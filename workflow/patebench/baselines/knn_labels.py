"""Labels by the nearest private records (Private-kNN; Zhu, Yu, Chandraker, Wang, CVPR 2020).

`sound_labels` is the form with a proven cost (`knn_accounting.py`), `published_labels` the published one.
"""

from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.baselines.knn_accounting import ANSWER, TEST, KNNSettings
from patebench.baselines.noisy_steps import NoisySteps, PoissonSampler
from patebench.core.progress import Report
from patebench.features.cells import on_grid


class NearestVotes:
    """Votes of private records on public queries, by public features (…, features) of at most unit length."""

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

    def counts(self, query: int, chosen: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the counts (classes,) of a query, by the records at positions `chosen`, which may contain repetitions.

        Of equally near records, the first are taken. Distances are exact on their grid (`features/cells.py`), so the
        order of two records does not depend on a third one.
        """
        distance = self._square[chosen] - 2 * (self._records[chosen] @ self._queries[query])
        nearest = chosen[np.argsort(distance, kind="stable")[: self._neighbours]]
        return np.bincount(self._labels[nearest], minlength=self._classes)


NO_ANSWER = -1
Labels = NDArray[np.int64]


def sound_labels(
    votes: NearestVotes,
    settings: KNNSettings,
    sampler: PoissonSampler,
    rng: torch.Generator,
    report: Report | None = None,
) -> tuple[Labels, tuple[SubsampledGaussian, SubsampledGaussian]]:
    """Return labels (queries,), −1 where there is none, and the steps taken: tests and answers.

    All queries are tested, then the first that passed are answered. Every step draws its own subset, adds the noise and
    counts itself (`noisy_steps.py`), so the account is based on the steps actually taken.
    """
    tests = NoisySteps(sampler, len(votes), noise=settings.sigma1 / TEST, clip=TEST, rng=rng)
    answers = NoisySteps(sampler, len(votes), noise=settings.sigma2 / ANSWER, clip=ANSWER, rng=rng)
    passed, total = [], settings.queries + settings.most
    for query in range(settings.queries):
        if float(tests.step(partial(_largest, votes, query))) * TEST > settings.threshold:
            passed.append(query)
        if report:
            report(query + 1, total)
    labels = np.full(settings.queries, NO_ANSWER, dtype=np.int64)
    for done, query in enumerate(passed[: settings.most], settings.queries + 1):
        labels[query] = int(answers.step(partial(_counts, votes, query)).argmax())
        if report:
            report(done, total)
    return labels, (tests.spent(), answers.spent())


def _largest(votes: NearestVotes, query: int, chosen: Tensor, clip: float) -> Tensor:
    """Return the statistic of a test: one record changes it by 1."""
    return _counts(votes, query, chosen, clip).max()


def _counts(votes: NearestVotes, query: int, chosen: Tensor, clip: float) -> Tensor:
    """Return the statistic of an answer: one record changes it by √2."""
    return torch.from_numpy(votes.counts(query, chosen.numpy())).double()


def published_labels(
    votes: NearestVotes, settings: KNNSettings, rng: torch.Generator, report: Report | None = None
) -> Labels:
    """Return labels (queries,), −1 where there is none, as the authors' code computes them.

    Each query draws one subset, of a fixed size and with replacement, for its test and its answer; a record drawn twice
    votes twice. All queries that pass are answered.
    """
    labels, size = np.full(settings.queries, NO_ANSWER, dtype=np.int64), int(settings.rate * len(votes))
    for query in range(settings.queries):
        counts = torch.from_numpy(votes.counts(query, torch.randint(len(votes), (size,), generator=rng).numpy()))
        if float(counts.max() + settings.sigma1 * torch.randn((), generator=rng)) > settings.threshold:
            labels[query] = int((counts + settings.sigma2 * torch.randn(len(counts), generator=rng)).argmax())
        if report:
            report(query + 1, settings.queries)
    return labels
