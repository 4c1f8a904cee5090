"""Students: all that learn from released labels and public samples, never from votes, counts or true labels.

A method is a callable (Lesson, Approach, seed) → Training, in a file of its own: the lesson is everything it sees, the
shared loop (`training.py`) drives it epoch by epoch, and only `stage.py` reads and writes files. What needs votes, like
distillation, is no student and lies elsewhere.
"""

from collections.abc import Mapping

from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry

STUDENTS = Registry("student method")
STUDENTS.add("supervised", "patebench.students.supervised:start")
STUDENTS.add("noise-aware", "patebench.students.noise_aware:start")
STUDENTS.add("gan", "patebench.students.gan:start")
STUDENTS.add("vat", "patebench.students.vat:start")
STUDENTS.add("consistency", "patebench.students.consistency:start")

#: What may be chosen for a method besides its epochs; the rest is its own.
CHOICES: Mapping[str, tuple[str, ...]] = {
    "supervised": ("model", "recipe"),
    "noise-aware": ("model", "recipe"),
    "gan": (),
    "vat": ("model",),
    "consistency": ("model",),
}


def refuse_choice(method: str, key: str) -> None:
    """Raise PatebenchError if `key`, "model" or "recipe", can not be chosen for `method`."""
    if key not in CHOICES[method]:
        takers = ", ".join(name for name, keys in CHOICES.items() if key in keys)
        raise PatebenchError(f"the method '{method}' has a {key} of its own; leave it out, or use {takers}")
