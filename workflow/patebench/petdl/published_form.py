"""PET-DL as published (Sun et al. 2019, Algorithm 1): noise is added to the loss and does not change any gradient.

The loss L_i of teacher i is clipped to L_i / max(1, |L_i|/B). Gaussian noise of standard deviation σB/n is added to the
mean loss of n teachers, and the sum is backpropagated. The noise does not depend on the weights, so its derivative is
0. The student is the same for every σ, so training is not private (`audit.trained_models` shows this). The reported ε
is the paper's claim, which treats T batches as T private releases. Assumptions about missing equations:
docs/explanation/proofs-systems.md, "PET-DL as published".
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from patebench.core.bound import Kind
from patebench.petdl.form import Backward, Form, Settings
from patebench.petdl.noisy_sums import Summand
from patebench.petdl.student import Knowledge, PetdlStudent


class PublishedForm(Form):
    """Published form of PET-DL, which is not private: noise does not change the gradients, and ε is only a claim."""

    defaults = Settings(noise=20.0, hint_epochs=10, distillation_epochs=40, batch=128, clip=4.0)
    kind = Kind.CLAIMED
    source = (
        "Sun et al. 2019, Theorem 2, its unspecified constants replaced by the exact composition of T batches (Dong, "
        "Roth, Su 2022, Corollary 3.3); the noise is a constant of the loss and reaches no weight"
    )

    def releases(self, settings: Settings, samples: int) -> dict[Summand, int]:
        return {Summand.LOSS: settings.steps(samples)}

    def gradients(
        self, student: PetdlStudent, knowledge: Knowledge, settings: Settings, rng: torch.Generator
    ) -> tuple[Backward, Backward]:
        def backward(losses: Tensor, rows: Tensor) -> None:
            aggregated(losses, weights(knowledge, rows, settings), settings, rng).backward()  # type: ignore[no-untyped-call]

        def hint(samples: Tensor, rows: Tensor) -> None:
            differences = student.hints(samples) - knowledge.hints_of(rows)
            backward(differences.square().sum(2) / 2, rows)

        def distil(samples: Tensor, rows: Tensor) -> None:
            log_p = F.log_softmax(student.logits(samples) / settings.temperature, 1)
            backward(-(knowledge.softened(settings.temperature, rows) * log_p).sum(2), rows)

        return hint, distil


def weights(knowledge: Knowledge, rows: Tensor, settings: Settings) -> Tensor:
    """Return the weight of each teacher's loss for the samples at the positions `rows` of the pool, (teachers, rows).

    The weights are proportional to the teachers' confidences (`Knowledge.confidence`) if `settings.weighted`, and equal
    otherwise. For each sample, their mean over teachers is 1.
    """
    if not settings.weighted:
        return torch.ones(knowledge.teachers, len(rows), device=rows.device)
    confidence = knowledge.confidence(rows)
    return confidence / confidence.mean(0)


def aggregated(losses: Tensor, weights: Tensor, settings: Settings, rng: torch.Generator) -> Tensor:
    """Return the noisy loss of a batch, Equation (4) of the paper: the mean of the teachers' clipped losses plus noise.

    A teacher's loss is the mean over samples of `losses` · `weights`, both (teachers, samples). `rng` draws the noise.
    """
    means = (losses * weights).mean(1)
    clipped = means / (means.detach().abs() / settings.clip).clamp_min(1)
    scale = settings.noise * settings.clip / len(means)
    return clipped.mean() + scale * torch.randn((), generator=rng).to(means.device)


FORM = PublishedForm()
