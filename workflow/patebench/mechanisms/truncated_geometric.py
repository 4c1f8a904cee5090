"""Truncated geometric votes, the local mechanism of distributed PATE (Zhao 2018, equations 1 and 2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from patebench.mechanisms.channels import Channel
from patebench.mechanisms.local import LocalMechanism


@dataclass(frozen=True)
class TruncatedGeometric(LocalMechanism):
    """Geometric noise with ratio α = e^{−ε/M} is added to a vote's number, and the sum is cut off at both end classes.

    The paper's formula lets the sum run over M + 1 values, one more than there are classes; here they are the M
    classes (as in Ghosh, Roughgarden, Sundararajan 2012). α is the paper's, for a sensitivity of M; two votes differ by
    M − 1 at most, so that one vote is ε·(M − 1)/M-locally private, which is what the accountants count.

    Labels get an order that they do not have: what a vote becomes depends on how the classes are numbered.
    """

    example: ClassVar[Mapping[str, float]] = {"epsilon": 8.0, "unbiased": 1.0, "participation": 1.0, "spread": 1.0}

    @staticmethod
    def channel(epsilon: float, classes: int) -> Channel:
        """Vote k is reported as z with α^{|z − k|}, times 1/(1 + α) at the ends and (1 − α)/(1 + α) between them.

        The matrix of α^{|z − k|} has a tridiagonal inverse (Kac, Murdock, Szegő 1953), and so has the channel.
        """
        rate, distance = epsilon / classes, np.abs(np.subtract.outer(np.arange(classes), np.arange(classes)))
        alpha, less = np.exp(-rate), -np.expm1(-rate)
        ends = np.isin(np.arange(classes), (0, classes - 1))
        log_scale = np.where(ends, 0.0, np.log(less)) - np.log1p(alpha)
        log_power = np.where(distance > 0, -rate, 0.0) * np.maximum(distance, 1)
        log_p = log_power + log_scale
        band = np.where(distance == 1, -alpha, 0.0) + np.diag(np.where(ends, 1.0, 1 + alpha * alpha))
        inverse = band / np.where(ends, less, less * less)[:, None]
        return Channel(log_p, inverse, np.exp(log_p[0]))
