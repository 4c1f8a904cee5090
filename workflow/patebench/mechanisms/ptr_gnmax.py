"""GNMax under propose-test-release: all labels, if near-unanimous votes make them cheap, or none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from patebench.mechanisms.base import parameter
from patebench.mechanisms.lattice_noise import DiscreteGaussian
from patebench.mechanisms.propose_test_release import ProposeTestRelease


@dataclass(frozen=True)
class PtrGNMax(ProposeTestRelease):
    """Discrete Gaussian noise of scale `sigma` on every count."""

    example: ClassVar[Mapping[str, float]] = {
        "order": 4.0, "cost": 5.0, "epsilon": 10.0, "failure": 1e-6, "sigma": 20.0,
    }  # fmt: skip

    sigma: float = parameter(low=0.01, high=1e6)

    @property
    def noise(self) -> DiscreteGaussian:
        return DiscreteGaussian(self.sigma)
