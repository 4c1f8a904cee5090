"""Baselines to compare PATE with: DP-SGD, Private-kNN, methods on public features, and distillation.

This file lists the forms of DP-SGD and Private-kNN. It does not import torch, so configurations are checked quickly.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DPSGDForm:
    """Variant of DP-SGD, such as "linear", with its default settings, which are constants and therefore public.

    Parameters
    ----------
    about : description of the variant
    from_encoder : True if the model uses an encoder trained on the public pool
    rate : sampling rate of a batch
    steps : number of steps
    learning_rate : initial learning rate
    clip : clipping norm
    views : number of random augmentations over which a sample's gradient is averaged
    ema : decay per step of the exponential moving average of the weights
    """

    about: str
    from_encoder: bool
    rate: float
    steps: int
    learning_rate: float
    clip: float = 1.0
    views: int = 1
    ema: float = 0.9


#: The settings were chosen in about ten runs with MNIST at ε = 1. As in most papers, ε does not account for what this
#: choice leaks about MNIST. For other private data, the settings do not depend on the data.
DPSGD_FORMS: Mapping[str, DPSGDForm] = {
    "scratch": DPSGDForm(
        about="a network that learns from the private data alone",
        from_encoder=False, rate=0.05, steps=300, learning_rate=1e-2,
    ),
    "linear": DPSGDForm(
        about="a linear classifier of features learnt from the public pool",
        from_encoder=True, rate=1.0, steps=100, learning_rate=1.0,
    ),
    "fine-tuned": DPSGDForm(
        about="a network initialised with the one that learnt these features",
        from_encoder=True, rate=0.02, steps=100, learning_rate=5e-3,
    ),
}  # fmt: skip

#: Descriptions of the forms of Private-kNN. Only the form "sound" has a proof.
KNN_FORMS: Mapping[str, str] = {
    "published": "as in its authors' code, with one subset for test and label, drawn with replacement, and an answer to"
    " every query that passes",
    "sound": "a new Poisson subset for each test and each label, and at most `answers` answers",
}
