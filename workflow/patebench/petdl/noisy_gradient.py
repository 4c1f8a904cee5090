"""The noisy gradient: each teacher's gradient is clipped, and their sum gets noise before the student takes a step.

What a teacher says of a public batch gives the gradient of its loss with respect to the student's weights. It is
clipped to the norm S; Gaussian noise of standard deviation zS goes on every entry of the sum; the sum is divided by n.
Each step is one release of the sort `noisy_sums.Summand.VECTOR`, (2/z)-GDP, whatever the steps before have shown.

The samples are public and all teachers take part in all steps, so there is no subsampling that would help. Weighted,
a teacher counts by its own confidence alone: to divide by the sum over teachers would let each change all others.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from patebench.core.bound import Kind
from patebench.petdl.form import Backward, Form, Settings
from patebench.petdl.noisy_sums import Summand, factors, with_noise
from patebench.petdl.student import Knowledge, PetdlStudent

#: Samples, summed over teachers, that one call goes back through; bounds the memory for activations.
_AT_ONCE = 1 << 13


class NoisyGradient(Form):
    name = "noisy-gradient"
    defaults = Settings(noise=20.0, hint_epochs=0, distillation_epochs=10, batch=512, clip=1.0)
    kind = Kind.WORST_CASE
    source = (
        "Dong, Roth, Su 2022, Theorem 2.7 and Corollary 3.3, with μ = 2√T/z for T clipped gradients; Balle & Wang "
        "2018, Theorem 8; of fresh noise"
    )

    def releases(self, settings: Settings, samples: int) -> dict[Summand, int]:
        return {Summand.VECTOR: settings.steps(samples)}

    def release(self, vectors: Tensor, sort: Summand, settings: Settings, noise: torch.Generator) -> Tensor:
        return aggregated([vectors], settings, noise)[0] * len(vectors)

    def gradients(
        self, student: PetdlStudent, knowledge: Knowledge, settings: Settings, noise: torch.Generator
    ) -> tuple[Backward, Backward]:
        def take(output: Tensor, towards: Tensor, rows: Tensor, parameters: list[nn.Parameter]) -> None:
            confidence = knowledge.confidence(rows) if settings.weighted else torch.ones_like(towards[..., 0])
            gradients = per_teacher(output, towards * confidence[..., None] / len(rows), parameters)
            noisy = aggregated(gradients, settings, noise)
            for parameter, gradient in zip(parameters, noisy, strict=True):
                # In the layout of the weight: a fused optimiser does not check it.
                parameter.grad = torch.empty_like(parameter).copy_(gradient)

        def hint(samples: Tensor, rows: Tensor) -> None:
            hints = student.hints(samples)
            take(hints, hints.detach() - knowledge.hints_of(rows), rows, student.hint_weights())

        def distil(samples: Tensor, rows: Tensor) -> None:
            logits = student.logits(samples) / settings.temperature
            softened = knowledge.softened(settings.temperature, rows)
            # The gradient of a cross-entropy between softened outputs with respect to the logits.
            take(logits, logits.detach().softmax(1) - softened, rows, student.weights())

        return hint, distil


def per_teacher(output: Tensor, towards: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Return each teacher's gradient (teachers, …) of every parameter, in batched calls as large as memory allows.

    `output` (samples, …) is the student's, and `towards` (teachers, samples, …) is the gradient of each teacher's loss
    with respect to it. Samples and weights are the same for all, so only backpropagation is done for each teacher.
    """
    at_once = max(1, _AT_ONCE // len(output))
    parts = [
        torch.autograd.grad(output, parameters, each, retain_graph=True, is_grads_batched=True)
        for each in towards.split(at_once)  # type: ignore[no-untyped-call]
    ]
    return [torch.cat(each) for each in zip(*parts, strict=True)]


def aggregated(gradients: Sequence[Tensor], settings: Settings, noise: torch.Generator) -> list[Tensor]:
    """Return the noisy mean gradient of every parameter, from each teacher's (teachers, …)."""
    found = [torch.where(each.isfinite(), each, 0.0) for each in gradients]
    norms = torch.stack([each.flatten(1).double().square().sum(1) for each in found]).sum(0).sqrt()
    scale = factors(norms, settings.clip).to(found[0].dtype)
    sums = [torch.tensordot(scale, each, dims=1) for each in found]
    return [with_noise(each, settings.clip, settings.noise, noise) / len(norms) for each in sums]


FORM = NoisyGradient()
