"""LNMax under propose-test-release: all labels, if near-unanimous votes make them cheap, or none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from patebench.mechanisms.base import parameter
from patebench.mechanisms.lattice_noise import DiscreteLaplace
from patebench.mechanisms.propose_test_release import ProposeTestRelease


@dataclass(frozen=True)
class PtrLNMax(ProposeTestRelease):
    """Discrete Laplace noise of scale 1/`gamma` on every count."""

    example: ClassVar[Mapping[str, float]] = {
        "order": 6.0, "cost": 6.0, "epsilon": 9.0, "failure": 1e-6, "gamma": 0.05,
    }  # fmt: skip

    gamma: float = parameter(low=1e-6, high=100)

    @property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(1 / self.gamma)
