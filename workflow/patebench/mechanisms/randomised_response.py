"""k-ary randomised response: each teacher tells its true vote, or, with a known probability, any other one.

It is the mechanism for labels without an order (Kairouz, Oh, Viswanath 2014, *Extremal mechanisms for local
differential privacy*), beside the truncated geometric one of distributed PATE.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from patebench.mechanisms.channels import Channel
from patebench.mechanisms.local import LocalMechanism


@dataclass(frozen=True)
class RandomisedResponse(LocalMechanism):
    """The true vote with probability e^ε/(e^ε + M − 1), each other class with 1/(e^ε + M − 1): ε-locally private."""

    example: ClassVar[Mapping[str, float]] = {"epsilon": 2.0, "unbiased": 1.0, "participation": 1.0, "spread": 1.0}

    @staticmethod
    def channel(epsilon: float, classes: int) -> Channel:
        """Truth has p, each other class q; inverting gives (1[report = j] − q)/(p − q) per class j.

        A report is evidence for the first class against the last (ε), the other way round (−ε), or neither (0).
        """
        log_sum = np.log1p((classes - 1) * np.exp(-epsilon))
        log_p = np.where(np.eye(classes, dtype=bool), -log_sum, -epsilon - log_sum)
        p, q = np.exp(-log_sum), np.exp(-epsilon - log_sum)
        inverse = (np.eye(classes) - q) / (-np.expm1(-epsilon) * p)
        return Channel(log_p, inverse, np.array([p, (classes - 2) * q, q]))
