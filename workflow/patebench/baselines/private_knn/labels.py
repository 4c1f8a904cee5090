"""Labels by the nearest private records: the form whose cost is proven, and the one that was published."""

from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.accounting.subsampled_gaussian import SubsampledGaussian
from patebench.baselines.dpsgd.steps import NoisySteps, Sampler
from patebench.baselines.private_knn.accounting import ANSWER, TEST, Settings
from patebench.core.progress import Report

NO_ANSWER = -1
Labels = NDArray[np.int64]


class Votes(Protocol):
    """Who votes on a query: `voting.NearestVotes`."""

    def __len__(self) -> int: ...

    def counts(self, query: int, chosen: NDArray[np.integer]) -> NDArray[np.int64]: ...


def sound(
    votes: Votes, settings: Settings, sampler: Sampler, rng: torch.Generator, report: Report | None = None
) -> tuple[Labels, tuple[SubsampledGaussian, SubsampledGaussian]]:
    """Labels (queries,), −1 where there is none, and what was done: tests and answers.

    All queries are tested, then the first that passed are answered. Every step draws its own subset, adds the noise and
    counts itself (`dpsgd/steps.py`), so what was done is what the account is made of.
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


def _largest(votes: Votes, query: int, chosen: Tensor, clip: float) -> Tensor:
    """What a test is of: one record changes it by 1."""
    return _counts(votes, query, chosen, clip).max()


def _counts(votes: Votes, query: int, chosen: Tensor, clip: float) -> Tensor:
    """What an answer is of: one record changes it by √2."""
    return torch.from_numpy(votes.counts(query, chosen.numpy())).double()


def published(votes: Votes, settings: Settings, rng: torch.Generator, report: Report | None = None) -> Labels:
    """Labels (queries,), −1 where there is none, as the authors' code makes them.

    Each query draws one subset, of a fixed size and with replacement, for its test and for its answer; a record that is
    drawn twice votes twice. All that pass are answered.
    """
    labels, size = np.full(settings.queries, NO_ANSWER, dtype=np.int64), int(settings.rate * len(votes))
    for query in range(settings.queries):
        counts = torch.from_numpy(votes.counts(query, torch.randint(len(votes), (size,), generator=rng).numpy()))
        if float(counts.max() + settings.sigma1 * torch.randn((), generator=rng)) > settings.threshold:
            labels[query] = int((counts + settings.sigma2 * torch.randn(len(counts), generator=rng)).argmax())
        if report:
            report(query + 1, settings.queries)
    return labels
