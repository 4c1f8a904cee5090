"""PET-DL with noisy outputs: release a noisy sum of the teachers' outputs per public sample, then train on the sums.

For every sample, each teacher's softened output, a vector without negative entries, is clipped to the norm S. Gaussian
noise of standard deviation zS is added to the sum over teachers. This is one release of the kind
`Summand.NON_NEGATIVE`. If the student also learns hints, a second sum of the kind `Summand.VECTOR` is released per
sample: hints are clipped to the norm `hint_clip`, and the noise has z times this norm. All releases for M samples
together are μ-GDP, with μ = √(2M)/z without hints and μ = √(6M)/z with hints. Training uses only these releases, so
further epochs cost nothing. If `weighted`, a teacher's output is multiplied by the teacher's confidence.

At a small ε, fewer samples (`samples`) and no hints (`hint_epochs: 0`) give better students.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from patebench.core.bound import Kind
from patebench.petdl.form import Backward, Form, Settings
from patebench.petdl.noisy_sums import Summand, noisy_sum
from patebench.petdl.student import Knowledge, PetdlStudent


class NoisyKnowledge(Form):
    """Form that releases, per sample, a noisy sum of the teachers' clipped outputs, and one of the hints if needed."""

    defaults = Settings(noise=20.0, hint_epochs=0, distillation_epochs=100, batch=64)
    kind = Kind.WORST_CASE
    augments = True
    source = (
        "Dong, Roth, Su 2022, Theorem 2.7 and Corollary 3.3, with μ² = (2 or, with hints, 6)·M/z² for M samples; Balle "
        "& Wang 2018, Theorem 8; of fresh noise"
    )

    def releases(self, settings: Settings, samples: int) -> dict[Summand, int]:
        hints = {Summand.VECTOR: samples} if settings.hint_epochs else {}
        return {Summand.NON_NEGATIVE: samples, **hints}

    def clip_of(self, summand: Summand, settings: Settings) -> float:
        return settings.clip if summand is Summand.NON_NEGATIVE else settings.hint_clip

    def release(self, vectors: Tensor, summand: Summand, settings: Settings, rng: torch.Generator) -> Tensor:
        return noisy_sum(vectors, self.clip_of(summand, settings), settings.noise, rng)

    def gradients(
        self, student: PetdlStudent, knowledge: Knowledge, settings: Settings, rng: torch.Generator
    ) -> tuple[Backward, Backward]:
        outputs, hints = self.released(knowledge, settings, rng)

        def hint(samples: Tensor, rows: Tensor) -> None:
            assert hints is not None
            loss = (student.hints(samples) - hints[rows]).square().sum(1).mean() / 2
            loss.backward()  # type: ignore[no-untyped-call]

        def distil(samples: Tensor, rows: Tensor) -> None:
            logits = student.logits(samples) / settings.temperature
            F.cross_entropy(logits, outputs[rows]).backward()  # type: ignore[no-untyped-call]

        return hint, distil

    def released(self, knowledge: Knowledge, settings: Settings, rng: torch.Generator) -> tuple[Tensor, Tensor | None]:
        """Return noisy means over teachers of probabilities (samples, classes) and of hints (samples, features).

        The noisy probabilities of a sample are replaced by the nearest probability distribution, which is
        post-processing. Without hint learning, the hints are None. All noise is drawn from the generator `rng`.
        """
        rows = torch.arange(knowledge.samples, device=knowledge.probabilities.device)
        softened = knowledge.softened(settings.temperature, rows)
        if settings.weighted:
            softened = softened * knowledge.confidence(rows)[..., None]
        outputs = self.release(softened, Summand.NON_NEGATIVE, settings, rng) / knowledge.teachers
        if not settings.hint_epochs:
            return nearest_distribution(outputs), None
        hints = self.release(knowledge.hints_of(rows), Summand.VECTOR, settings, rng) / knowledge.teachers
        return nearest_distribution(outputs), hints


def nearest_distribution(vectors: Tensor) -> Tensor:
    """Return `vectors` (…, classes) with each vector replaced by the nearest probability distribution (Euclidean).

    A number is subtracted from all entries of a vector, and negative results are set to 0 (Held, Wolfe, Crowder 1974).
    """
    ordered = vectors.sort(dim=-1, descending=True).values
    counts = torch.arange(1, vectors.shape[-1] + 1, device=vectors.device)
    lowered = (ordered.cumsum(-1) - 1) / counts
    kept = (ordered > lowered).sum(-1, keepdim=True)
    return (vectors - lowered.gather(-1, kept - 1)).clamp_min(0)


FORM = NoisyKnowledge()
