"""The other systems: DP-SGD, Private-kNN and distillation; here the forms of the first two.

No torch here, so that a configuration is checked at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest

AnyForm = TypeVar("AnyForm")


@dataclass(frozen=True, kw_only=True)
class DPSGDForm:
    """What learns, and its default settings: constants, so that no run chooses a setting by its private samples."""

    about: str
    from_encoder: bool
    rate: float
    steps: int
    clip: float
    learning_rate: float
    views: int
    ema: float


#: Settings were found by about ten runs with MNIST at ε = 1. As in most papers, no ε counts what that choice leaks of
#: MNIST; for other private data they are public numbers.
DPSGD_FORMS: Mapping[str, DPSGDForm] = {
    "scratch": DPSGDForm(
        about="a network that learns from the private data alone",
        from_encoder=False, rate=0.05, steps=300, clip=1.0, learning_rate=1e-2, views=1, ema=0.9,
    ),
    "linear": DPSGDForm(
        about="a linear classifier of features that were learnt from the public pool",
        from_encoder=True, rate=1.0, steps=100, clip=1.0, learning_rate=1.0, views=1, ema=0.9,
    ),
    "fine-tuned": DPSGDForm(
        about="a network that starts from the one that learnt these features",
        from_encoder=True, rate=0.02, steps=100, clip=1.0, learning_rate=5e-3, views=1, ema=0.9,
    ),
}  # fmt: skip

#: What each form of Private-kNN does. Only the second has a proof.
KNN_FORMS: Mapping[str, str] = {
    "published": "as its authors' code: one subset for test and label, drawn with replacement, every query that passes"
    " answered",
    "sound": "Poisson subsets, a fresh one for each test and each label, at most so many answers",
}


def form_of(forms: Mapping[str, AnyForm], name: str) -> AnyForm:
    """Return the form of that name among `forms`; PatebenchError if there is none."""
    if name not in forms:
        raise PatebenchError(f"unknown form '{name}'{nearest(name, forms)}; there are {', '.join(forms)}")
    return forms[name]
