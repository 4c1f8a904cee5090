"""A pool of small images of three classes, and outputs of teachers that are nearly always right."""

import torch
from torch import Tensor

from patebench.petdl.form import Settings
from patebench.petdl.student import Knowledge, PetdlStudent

TEACHERS, SAMPLES, CLASSES = 4, 96, 3
FEATURES = 20


def pool(samples: int = SAMPLES) -> tuple[Tensor, Tensor]:
    """Return images (samples, 1, 8, 8) and their classes (samples,); rows 2k to 2k + 2 of class k are bright."""
    rng = torch.Generator().manual_seed(0)
    y = torch.arange(samples) % CLASSES
    x = 40 * torch.rand((samples, 1, 8, 8), generator=rng)
    for image, label in zip(x, y.tolist(), strict=True):
        image[0, 2 * label : 2 * label + 3] += 150
    return x.byte(), y


def knowledge(y: Tensor, seed: int = 1, hints: bool = True) -> Knowledge:
    """Return outputs of teachers that are nearly always right, with hints that depend on the class if `hints`."""
    rng = torch.Generator().manual_seed(seed)
    logits = 4.0 * torch.eye(CLASSES)[y] + torch.randn((TEACHERS, len(y), CLASSES), generator=rng)
    centres = torch.randn((CLASSES, FEATURES), generator=rng)
    said = centres[y] + 0.1 * torch.randn((TEACHERS, len(y), FEATURES), generator=rng)
    return Knowledge(logits.softmax(2), said if hints else None)


def student(x: Tensor, seed: int = 0, width: int = 4) -> PetdlStudent:
    return PetdlStudent(x, CLASSES, width, guided="block2", features=FEATURES, seed=seed)


def learnt(
    form: object, settings: Settings, known: Knowledge | None = None, seed: int = 5
) -> tuple[PetdlStudent, float]:
    """Return a student trained by `form`, and its accuracy on the pool."""
    x, y = pool()
    made = student(x)
    known = (known or knowledge(y)).to(made.device)
    form.learn(made, made.samples(x), known, settings, seed, lambda epoch: None)  # type: ignore[attr-defined]
    return made, float((made.predict(x) == y).double().mean())
