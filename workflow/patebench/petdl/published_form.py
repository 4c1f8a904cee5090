"""PET-DL as published (Sun et al. 2019, Algorithm 1): noise is added to a loss, which no gradient sees.

The equations were lost in the text at hand. As they are read here, for a batch: teacher i's loss L_i is the mean of
½‖u(x) − v_i(x)‖² in hint learning (1) and of the cross-entropy between softened outputs in distillation (2); it is
clipped to L_i / max(1, |L_i|/B) (3); the mean over teachers gets Gaussian noise of standard deviation σB/n (4), and the
sum is backpropagated. The divisor of (3) is a constant of the batch, as where gradients are clipped: differentiated
through, a loss above B would have no gradient at all. Weighted, each teacher's loss of a sample counts by its
confidence, and the weights of a sample add up to one.

The noise does not depend on a weight. So its derivative is 0, the student is the same whatever σ is, and no ε holds;
`audit.trained_models` shows it on what is run here. The ε is the paper's claim, for T batches as T releases.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from patebench.core.bound import Kind
from patebench.petdl.form import Done, Form, Settings, Stage, Streams, run
from patebench.petdl.noisy_sums import Summand
from patebench.petdl.student import Knowledge, PetdlStudent


class PublishedForm(Form):
    name = "published"
    defaults = Settings(noise=20.0, hint_epochs=10, distillation_epochs=40, batch=128, clip=4.0)
    kind = Kind.CLAIMED
    source = (
        "Sun et al. 2019, Theorem 2, its unspecified constants replaced by the exact composition of T batches (Dong, "
        "Roth, Su 2022, Corollary 3.3); the noise is a constant of the loss and reaches no weight"
    )

    def releases(self, settings: Settings, samples: int) -> dict[Summand, int]:
        return {Summand.LOSS: settings.steps(samples)}

    def learn(
        self, student: PetdlStudent, x: Tensor, knowledge: Knowledge, settings: Settings, streams: Streams, done: Done
    ) -> None:
        noise = streams.noise()

        def backward(losses: Tensor, rows: Tensor) -> None:
            aggregated(losses, weights(knowledge, rows, settings), settings, noise).backward()  # type: ignore[no-untyped-call]

        def hint(samples: Tensor, rows: Tensor) -> None:
            differences = student.hints(samples) - knowledge.hints_of(rows)
            backward(differences.square().sum(2) / 2, rows)

        def distil(samples: Tensor, rows: Tensor) -> None:
            log_p = F.log_softmax(student.logits(samples) / settings.temperature, 1)
            backward(-(knowledge.softened(settings.temperature, rows) * log_p).sum(2), rows)

        stages = Stage("hint", settings.hint_epochs, student.hint_weights(), hint)
        run(student, x, stages, settings, streams)
        stages = Stage("distil", settings.distillation_epochs, student.weights(), distil)
        run(student, x, stages, settings, streams, done)


def weights(knowledge: Knowledge, rows: Tensor, settings: Settings) -> Tensor:
    """How much each teacher's loss of each sample counts (teachers, rows): 1 on average over the teachers."""
    if not settings.weighted:
        return torch.ones(knowledge.teachers, len(rows), device=rows.device)
    confidence = knowledge.confidence(rows)
    found: Tensor = confidence / confidence.mean(0)
    return found


def aggregated(losses: Tensor, weights: Tensor, settings: Settings, noise: torch.Generator) -> Tensor:
    """The noisy loss (4) of a batch, from each teacher's loss (teachers, samples) of each sample."""
    each = (losses * weights).mean(1)
    clipped = each / (each.detach().abs() / settings.clip).clamp_min(1)
    scale = settings.noise * settings.clip / len(each)
    return clipped.mean() + scale * torch.randn((), generator=noise).to(each.device)


FORM = PublishedForm()
