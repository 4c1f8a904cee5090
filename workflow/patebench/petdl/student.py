"""Student of PET-DL, and the teachers' outputs from which the student learns."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patebench.models import architectures
from patebench.models.device import autocast, compute_dtype_for, device
from patebench.models.network import GRID, hint_layers, seeded
from patebench.models.recipes import MODERN
from patebench.models.scaling import Standardise

#: Lower limit on probabilities before their logarithm is taken.
_LEAST = 1e-30


@dataclass(frozen=True)
class Knowledge:
    """Outputs of the teachers for public samples: class probabilities and, if available, hints.

    `probabilities` have the shape (teachers, samples, classes). `hints` (teachers, samples, features) are outputs of a
    hidden layer. In all methods, `rows` are positions of samples.
    """

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
        """Return the number of features of a hint, or 0 if there are no hints."""
        return 0 if self.hints is None else self.hints.shape[2]

    def first(self, samples: int) -> "Knowledge":
        """Return the teachers' outputs for the first `samples` samples only."""
        return Knowledge(self.probabilities[:, :samples], None if self.hints is None else self.hints[:, :samples])

    def to(self, device: torch.device) -> "Knowledge":
        """Return the teachers' outputs, moved to `device`."""
        return Knowledge(self.probabilities.to(device), None if self.hints is None else self.hints.to(device))

    def softened(self, temperature: float, rows: Tensor) -> Tensor:
        """Return softmax(ln(probabilities) / `temperature`) of the samples at positions `rows`.

        The result has the shape (teachers, rows, classes).
        """
        return (self.probabilities[:, rows].clamp_min(_LEAST).log() / temperature).softmax(2)

    def confidence(self, rows: Tensor) -> Tensor:
        """Return each teacher's largest class probability for the samples at positions `rows`: (teachers, rows)."""
        return self.probabilities[:, rows].amax(2)

    def hints_of(self, rows: Tensor) -> Tensor:
        """Return the hints for the samples at positions `rows`: (teachers, rows, features)."""
        assert self.hints is not None
        return self.hints[:, rows].float()


#: Samples per batch of predictions.
_AT_ONCE = 500


class PetdlStudent:
    """Student network: a `conv_net` of the given `width`, whose layer `guided` learns the teachers' hints (FitNets).

    In hint learning, a regressor (1×1 convolution) maps the outputs of that layer to hints with `features` features.
    Samples are standardised by the public `pool`, and batch normalisation uses only public samples. The student
    computes in bfloat16 if that is faster (`compute_dtype_for`).
    """

    def __init__(self, pool: Tensor, classes: int, width: int, *, guided: str, features: int, seed: int) -> None:
        self.device = device()
        self.standardise = Standardise(pool.to(self.device))
        with seeded(seed):
            shape = tuple(pool.shape[1:])
            net = architectures.conv_net(shape, classes, width=width)
            self.compute_dtype = compute_dtype_for(net, shape, MODERN, self.device)
            self.net = net.to(device=self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.hint_layers = hint_layers(self.net, guided)
            self.net.eval()
            with torch.no_grad():
                hints = self.hint_layers(torch.zeros(2, *shape, device=self.device))
            self.regressor = nn.Conv2d(hints.shape[1], features // GRID**2 or 1, 1).to(self.device)

    @property
    def parameters(self) -> int:
        """Return the number of parameters of the student, without the regressor, which is used only in training."""
        return sum(parameter.numel() for parameter in self.net.parameters())

    def hint_weights(self) -> list[nn.Parameter]:
        """Return the weights trained in hint learning: of the layers up to the guided layer, and of the regressor."""
        return [*self.hint_layers.parameters(), *self.regressor.parameters()]

    def weights(self) -> list[nn.Parameter]:
        """Return the weights that are trained in distillation: all weights of the network."""
        return list(self.net.parameters())

    def hints(self, x: Tensor) -> Tensor:
        """Return the hints (samples, features) that the regressor predicts for standardised samples `x`."""
        with autocast(self.device, self.compute_dtype):
            return self.regressor(self.hint_layers(x)).float().flatten(1)

    def logits(self, x: Tensor) -> Tensor:
        with autocast(self.device, self.compute_dtype):
            return self.net(x).float()

    def samples(self, x: Tensor) -> Tensor:
        """Return a standardised copy of samples `x` (samples, …), on the student's device."""
        return self.standardise(x.to(self.device))

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """Return the predicted labels (samples,) of samples `x`, which are not yet standardised."""
        self.net.eval()
        batches = x.split(_AT_ONCE)  # type: ignore[no-untyped-call]
        return torch.cat([self.logits(self.samples(batch)).argmax(1).cpu() for batch in batches])

    def state(self) -> list[Tensor]:
        """Return copies of all weights and running statistics (batch normalisation), to compare two students."""
        return [tensor.detach().clone() for tensor in self.net.state_dict().values()]
