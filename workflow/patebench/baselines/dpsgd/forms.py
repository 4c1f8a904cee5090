"""The forms of DP-SGD: what learns, and how by default. No torch here, so that a configuration is checked at once."""

from collections.abc import Mapping
from dataclasses import dataclass

from patebench.core.errors import PatebenchError
from patebench.core.registry import nearest


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form, and its defaults: constants, so that no run chooses a setting by its private samples."""

    about: str
    from_encoder: bool
    rate: float
    steps: int
    clip: float
    learning_rate: float
    views: int
    ema: float


#: Found by some ten runs with MNIST at ε = 1. What that choice tells of MNIST is in no ε, as in most papers; for
#: private data of one's own they are public numbers.
FORMS: Mapping[str, Form] = {
    "scratch": Form(
        about="a network that learns from the private data alone",
        from_encoder=False, rate=0.05, steps=300, clip=1.0, learning_rate=1e-2, views=1, ema=0.9,
    ),
    "linear": Form(
        about="a linear classifier of features that were learnt from the public pool",
        from_encoder=True, rate=1.0, steps=100, clip=1.0, learning_rate=1.0, views=1, ema=0.9,
    ),
    "fine-tuned": Form(
        about="a network that starts from the one that learnt these features",
        from_encoder=True, rate=0.02, steps=100, clip=1.0, learning_rate=5e-3, views=1, ema=0.9,
    ),
}  # fmt: skip


def form_of(name: str) -> Form:
    """The form of that name; PatebenchError if there is none."""
    if name not in FORMS:
        raise PatebenchError(f"unknown form '{name}'{nearest(name, FORMS)}; there are {', '.join(FORMS)}")
    return FORMS[name]
