"""Students: all that learn from released labels and public samples, never from votes, counts or true labels.

A method is a callable (StudentData, StudentConfig, seed) → StudentTrainer (`interface.py`), in a file of its own. The
data is all it sees, the shared loop (`training.py`) calls its epochs, and only the stages read and write files. What
needs votes, like distillation, is no student and lies elsewhere.

The fact `options` of a method names those of "model" and "recipe" that can be chosen for it; it decides the rest
itself. A method of another package has them as an attribute `options` of its callable.
"""

from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry

STUDENTS = Registry("student method", "patebench.students")
STUDENTS.add("supervised", "patebench.students.supervised:trainer", options=("model", "recipe"))
STUDENTS.add("noise-aware", "patebench.students.noise_aware:trainer", options=("model", "recipe"))
STUDENTS.add("gan", "patebench.students.gan:trainer", options=())
STUDENTS.add("vat", "patebench.students.vat:trainer", options=("model",))
STUDENTS.add("consistency", "patebench.students.consistency:trainer", options=("model",))
STUDENTS.add("label-spreading", "patebench.students.label_spreading:trainer", options=())


def takes(method: str, option: str) -> bool:
    """Whether `option`, "model" or "recipe", can be chosen for `method`; PatebenchError for an unknown method."""
    return option in STUDENTS.fact(method, "options", ())


def refuse_choice(method: str, option: str) -> None:
    """Raise PatebenchError if `option`, "model" or "recipe", can not be chosen for `method`."""
    if not takes(method, option):
        takers = ", ".join(name for name in STUDENTS if takes(name, option))
        raise PatebenchError(f"the method '{method}' has a {option} of its own; leave it out, or use {takers}")
