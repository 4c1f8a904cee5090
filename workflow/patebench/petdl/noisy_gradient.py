"""PET-DL with noisy gradients: clip each teacher's gradient, and add noise to their sum before the student's step.

For each of n teachers, a loss compares the outputs of the student with the outputs of the teacher on a public batch.
The teacher contributes the gradient of this loss with respect to the student's weights, clipped to the norm S. Gaussian
noise of standard deviation zS is added to every entry of the sum, which is then divided by n. Each step is one release
of the kind `Summand.VECTOR`, and is (2/z)-GDP for any outcome of the earlier steps.

The samples are public and all teachers take part in every step, so there is no subsampling that would reduce the cost.
If `weighted`, a teacher's gradient is multiplied by the teacher's own confidence. These weights are not normalised by
the sum of all confidences, because then one teacher would change the contributions of all other teachers.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from patebench.core.bound import Kind
from patebench.petdl.form import Backward, Form, Settings
from patebench.petdl.noisy_sums import Summand, factors, with_noise
from patebench.petdl.student import Knowledge, PetdlStudent

#: Number of samples in one call of backpropagation, summed over teachers; it limits the memory for activations.
_AT_ONCE = 1 << 13


class NoisyGradient(Form):
    """Form that adds noise to the sum of the teachers' clipped gradients in every training step."""

    defaults = Settings(noise=20.0, hint_epochs=0, distillation_epochs=10, batch=512, clip=1.0)
    kind = Kind.WORST_CASE
    source = (
        "Dong, Roth, Su 2022, Theorem 2.7 and Corollary 3.3, with μ = 2√T/z for T clipped gradients; Balle & Wang "
        "2018, Theorem 8; of fresh noise"
    )

    def releases(self, settings: Settings, samples: int) -> dict[Summand, int]:
        return {Summand.VECTOR: settings.steps(samples)}

    def release(self, vectors: Tensor, summand: Summand, settings: Settings, rng: torch.Generator) -> Tensor:
        return aggregated([vectors], settings, rng)[0] * len(vectors)

    def gradients(
        self, student: PetdlStudent, knowledge: Knowledge, settings: Settings, rng: torch.Generator
    ) -> tuple[Backward, Backward]:
        def backward(output: Tensor, output_gradients: Tensor, rows: Tensor, parameters: list[nn.Parameter]) -> None:
            confidence = knowledge.confidence(rows) if settings.weighted else torch.ones_like(output_gradients[..., 0])
            gradients = per_teacher(output, output_gradients * confidence[..., None] / len(rows), parameters)
            noisy = aggregated(gradients, settings, rng)
            for parameter, gradient in zip(parameters, noisy, strict=True):
                # Fused optimisers need the weight's memory layout and do not check it.
                parameter.grad = torch.empty_like(parameter).copy_(gradient)

        def hint(samples: Tensor, rows: Tensor) -> None:
            hints = student.hints(samples)
            backward(hints, hints.detach() - knowledge.hints_of(rows), rows, student.hint_weights())

        def distil(samples: Tensor, rows: Tensor) -> None:
            logits = student.logits(samples) / settings.temperature
            softened = knowledge.softened(settings.temperature, rows)
            # The gradient of a cross-entropy between softened outputs with respect to the logits.
            backward(logits, logits.detach().softmax(1) - softened, rows, student.weights())

        return hint, distil


def per_teacher(output: Tensor, output_gradients: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Return the gradient of each teacher's loss, as one tensor (teachers, …) per parameter in `parameters`.

    `output` (samples, …) is the output of the student, and `output_gradients` (teachers, samples, …) the gradients of
    the teachers' losses with respect to `output`. The forward pass is the same for all teachers. Only backpropagation
    is repeated, for as many teachers at once as memory allows.
    """
    at_once = max(1, _AT_ONCE // len(output))
    parts = [
        torch.autograd.grad(output, parameters, part, retain_graph=True, is_grads_batched=True)
        for part in output_gradients.split(at_once)  # type: ignore[no-untyped-call]
    ]
    return [torch.cat(gradients) for gradients in zip(*parts, strict=True)]


def aggregated(gradients: Sequence[Tensor], settings: Settings, rng: torch.Generator) -> list[Tensor]:
    """Return, for every parameter of the student, the noisy mean of the teachers' clipped gradients.

    `gradients` has one tensor (teachers, …) per parameter. A teacher's gradient is clipped by its norm over all
    parameters together. Noise from `rng` is added to the sum over teachers, which is then divided by their number.
    """
    finite = [torch.where(gradient.isfinite(), gradient, 0.0) for gradient in gradients]
    norms = torch.stack([gradient.flatten(1).double().square().sum(1) for gradient in finite]).sum(0).sqrt()
    scale = factors(norms, settings.clip)
    sums = [torch.tensordot(scale, gradient.double(), dims=1) for gradient in finite]
    noisy = [with_noise(total, settings.clip, settings.noise, rng) for total in sums]
    return [(total / len(norms)).to(gradient.dtype) for total, gradient in zip(noisy, gradients, strict=True)]


FORM = NoisyGradient()
