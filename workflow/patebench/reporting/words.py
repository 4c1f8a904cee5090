"""Settings as people say them: the parameters of a mechanism, and how the queries of a label set were selected."""

from collections.abc import Mapping, Sequence
from typing import Any

from patebench.core.slugs import number

#: Signs of the papers; other parameters go by their names.
_SIGNS = {"sigma": "σ", "sigma1": "σ₁", "sigma2": "σ₂", "gamma": "γ", "epsilon": "ε", "delta": "δ"}


def parameters_in_words(parameters: Mapping[str, Any]) -> str:
    """Such as "σ = 40" or "γ = 0.05, distance = 3"; an infinite value, which strict JSON spells "inf", is "∞"."""
    return ", ".join(f"{_SIGNS.get(name, name)} = {_in_words(float(value))}" for name, value in parameters.items())


def rounds_in_words(rounds: Sequence[Mapping[str, Any]]) -> str:
    """Such as "random 100 + siamese 50", from the strategy and the number of queries of each round; "" for none."""
    return " + ".join(f"{each['strategy']} {each['queries']}" for each in rounds)


def _in_words(value: float) -> str:
    return "∞" if value == float("inf") else number(value)
