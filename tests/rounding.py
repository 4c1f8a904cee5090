"""Bound the differences by rounding between two runs of the same training: none on a CPU, some on a GPU."""

from patebench.models.device import device

#: Largest difference between weights or log probabilities of networks of the tests, after few epochs.
ROUNDING = 0.0 if device().type == "cpu" else 2e-3
