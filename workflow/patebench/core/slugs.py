"""Slugs: facts as the name of one folder, and of one thing in the records.

Facts go into a slug; nothing is ever read back out of one. Whoever needs the facts takes them from the artefact.
"""

from collections.abc import Mapping

#: A bare word, a name with its value, or what is left out.
Part = str | None | tuple[str, str | float | None]


def number(value: float) -> str:
    """A number as slugs and command lines spell it: 12 significant digits, no trailing zeros."""
    return format(value, ".12g")


def slug(*parts: Part) -> str:
    """The parts joined by "_", such as "skew-0.8_mlp_epochs-5" of ("skew", 0.8), "mlp", ("epochs", 5).

    A string stands as it is; a pair gives `name-value`, with dashes for the underscores of the name and floats as
    `number` has them; None and a pair whose value is None are left out. Without any part it is "".
    """
    return "_".join(word for part in parts if (word := _word(part)) is not None)


def parameters_slug(parameters: Mapping[str, float]) -> str:
    """A mechanism's parameters, in the order given and under the very names that they have: "sigma1-4_sigma2-10"."""
    return slug(*(f"{name}-{number(value)}" for name, value in parameters.items()))


def _word(part: Part) -> str | None:
    if part is None or isinstance(part, str):
        return part
    name, value = part
    if value is None:
        return None
    return f"{name.replace('_', '-')}-{number(value) if isinstance(value, float) else value}"
