"""What PET-DL's teachers say of public samples, and the student, whose guided layer learns what their hints say."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from patebench.models import architectures
from patebench.models.device import autocast_to, compute_dtype_for, device
from patebench.models.network import GRID, WithHints, seeded
from patebench.models.recipes import MODERN
from patebench.models.scaling import Standardise

#: The least probability that a logarithm is taken of.
_LEAST = 1e-30


@dataclass(frozen=True)
class Knowledge:
    """Probabilities (teachers, samples, classes), and hints (teachers, samples, features) where there are any."""

    probabilities: Tensor
    hints: Tensor | None = None

    @property
    def teachers(self) -> int:
        return len(self.probabilities)

    @property
    def samples(self) -> int:
        return self.probabilities.shape[1]

    @property
    def features(self) -> int:
        """Return the length of a hint, 0 where there are none."""
        return 0 if self.hints is None else self.hints.shape[2]

    def first(self, samples: int) -> "Knowledge":
        """Return what is said of the first samples alone."""
        hints = None if self.hints is None else self.hints[:, :samples]
        return replace(self, probabilities=self.probabilities[:, :samples], hints=hints)

    def to(self, device: torch.device) -> "Knowledge":
        """Return the same on that device, where the student's samples are."""
        hints = None if self.hints is None else self.hints.to(device)
        return replace(self, probabilities=self.probabilities.to(device), hints=hints)

    def softened(self, temperature: float, rows: Tensor) -> Tensor:
        """Return softmax(logits / temperature) (teachers, rows, classes) of some of the samples."""
        return (self.probabilities[:, rows].clamp_min(_LEAST).log() / temperature).softmax(2)

    def confidence(self, rows: Tensor) -> Tensor:
        """Return each teacher's largest probability (teachers, rows): how sure it is of some of the samples."""
        return self.probabilities[:, rows].amax(2)

    def hints_of(self, rows: Tensor) -> Tensor:
        """Return the hints (teachers, rows, features) of some of the samples."""
        assert self.hints is not None
        return self.hints[:, rows].float()


#: Samples that are predicted at once.
_AT_ONCE = 500


class PetdlStudent:
    """A network of that width, with a regressor from its guided layer to the teachers' hints (FitNets).

    The regressor is a 1×1 convolution: the widths of the two layers may differ. Inputs are standardised by the public
    pool. Batch normalisation sees public samples alone. Like the networks of today's recipes it computes in bfloat16
    where that pays.
    """

    def __init__(self, pool: Tensor, classes: int, width: int, *, guided: str, features: int, seed: int) -> None:
        self.device = device()
        self.standardise = Standardise(pool.to(self.device))
        with seeded(seed):
            shape = tuple(pool.shape[1:])
            net = architectures.conv_net(shape, classes, width=width)
            self.compute_dtype = compute_dtype_for(net, shape, MODERN, self.device)
            self.net = WithHints(net, guided).to(device=self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
            with torch.no_grad():
                _, hints = self.net.eval()(torch.zeros(2, *shape, device=self.device))
            self.regressor = nn.Conv2d(hints.shape[1], features // GRID**2 or 1, 1).to(self.device)
        self.guided = guided

    @property
    def parameters(self) -> int:
        """Return the number of parameters of the released student: the regressor only helps to train it."""
        return sum(each.numel() for each in self.net.parameters())

    def hint_weights(self) -> list[nn.Parameter]:
        """Return what hint learning trains: all up to the guided layer, and the regressor."""
        found = []
        for name, part in self.net.net.named_children():
            found += list(part.parameters())
            if name == self.guided:
                break
        return [*found, *self.regressor.parameters()]

    def weights(self) -> list[nn.Parameter]:
        """Return what distillation trains: the whole network."""
        return list(self.net.parameters())

    def hints(self, x: Tensor) -> Tensor:
        """Return what the guided layer says of samples, in the teachers' words: (samples, features)."""
        with autocast_to(self.device, self.compute_dtype):
            found: Tensor = self.regressor(self.net.hints(x)).float().flatten(1)
        return found

    def logits(self, x: Tensor) -> Tensor:
        with autocast_to(self.device, self.compute_dtype):
            logits: Tensor = self.net(x)[0].float()
        return logits

    def samples(self, x: Tensor) -> Tensor:
        """Return standardised samples on the student's device."""
        found: Tensor = self.standardise(x.to(self.device))
        return found

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return labels of raw samples."""
        self.net.eval()
        batches = x.split(_AT_ONCE)  # type: ignore[no-untyped-call]
        return torch.cat([self.logits(self.samples(batch)).argmax(1).cpu() for batch in batches])

    def state(self) -> list[Tensor]:
        """Return copies of all weights and running statistics, for comparing."""
        return [each.detach().clone() for each in self.net.state_dict().values()]
