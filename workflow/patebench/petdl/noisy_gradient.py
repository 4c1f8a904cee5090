"""The noisy gradient: each teacher's gradient is clipped, and their sum gets noise before the student takes a step.

A teacher's output for a public batch gives the gradient of its loss with respect to the student's weights. It is
clipped to the norm S. Gaussian noise of standard deviation zS is added to every entry of the sum, which is divided by
n. Each step is one release of the sort `noisy_sums.Summand.VECTOR`, (2/z)-GDP for any outcome of the steps before.

The samples are public and all teachers take part in all steps, so no subsampling reduces the cost. With `weighted`, a
teacher is weighted by its own confidence alone: dividing by the sum over teachers would let each teacher change all
others.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from patebench.core.bound import Kind
from patebench.petdl.form import Backward, Form, Settings
from patebench.petdl.noisy_sums import Summand, factors, with_noise
from patebench.petdl.student import Knowledge, PetdlStudent

#: Samples, summed over teachers, in one call of backpropagation, which bounds the memory for activations.
_AT_ONCE = 1 << 13


class NoisyGradient(Form):
    """Form that adds noise to the sum of clipped gradients, one per teacher, in every step."""

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
                # Fused optimisers need the weight's memory layout and do not check it.
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
    with respect to it. Samples and weights are the same for all teachers, so only backpropagation is done for each
    teacher.
    """
    at_once = max(1, _AT_ONCE // len(output))
    parts = [
        torch.autograd.grad(output, parameters, part, retain_graph=True, is_grads_batched=True)
        for part in towards.split(at_once)  # type: ignore[no-untyped-call]
    ]
    return [torch.cat(gradients) for gradients in zip(*parts, strict=True)]


def aggregated(gradients: Sequence[Tensor], settings: Settings, noise: torch.Generator) -> list[Tensor]:
    """Return the noisy mean gradient of every parameter, from each teacher's gradients (teachers, …)."""
    finite = [torch.where(gradient.isfinite(), gradient, 0.0) for gradient in gradients]
    norms = torch.stack([gradient.flatten(1).double().square().sum(1) for gradient in finite]).sum(0).sqrt()
    scale = factors(norms, settings.clip).to(finite[0].dtype)
    sums = [torch.tensordot(scale, gradient, dims=1) for gradient in finite]
    return [with_noise(total, settings.clip, settings.noise, noise) / len(norms) for total in sums]


FORM = NoisyGradient()
