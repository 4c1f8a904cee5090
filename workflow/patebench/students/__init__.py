"""Students: all that learn from released labels and public samples, never from votes, counts or true labels.

A method is a callable (StudentData, StudentConfig, seed) → StudentTrainer (`interface.py`), in a file of its own. The
data is all it sees, the shared loop (`training.py`) calls its epochs, and only the stages read and write files. What
needs votes, like distillation, is no student and lies elsewhere.

The fact `options` of a method names those of "model" and "recipe" that can be chosen for it; it decides the rest
itself. `unlabelled` (default True) says whether it learns from samples of the pool without a label, and
`needs_features` (default False) whether it is given features of the pool. `reads_table` (default False) says that it
reads a released table itself, and is given no labels that were read from it. Those of another package's method are
attributes of its callable.
"""

from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry, called_with

STUDENTS = Registry("student method", "patebench.students", called_with("data", "config", "seed"))
STUDENTS.add("supervised", "patebench.students.supervised:trainer", options=("model", "recipe"), unlabelled=False)
STUDENTS.add("noise-aware", "patebench.students.noise_aware:trainer", options=("model", "recipe"), unlabelled=False)
STUDENTS.add("gan", "patebench.students.gan:trainer", options=())
STUDENTS.add("vat", "patebench.students.vat:trainer", options=("model",))
STUDENTS.add("consistency", "patebench.students.consistency:trainer", options=("model",))
STUDENTS.add("label-spreading", "patebench.students.label_spreading:trainer", options=())
STUDENTS.add("nearest-label", "patebench.students.nearest_label:trainer", options=(), needs_features=True)
STUDENTS.add(
    "table-regression", "patebench.students.table_regression:trainer", options=(), needs_features=True, reads_table=True
)
STUDENTS.add(
    "table-network", "patebench.students.table_network:trainer", options=(), needs_features=True, reads_table=True
)


def takes(method: str, option: str) -> bool:
    """Whether `option`, "model" or "recipe", can be chosen for `method`; PatebenchError for an unknown method."""
    return option in STUDENTS.fact(method, "options", ())


def learns_from_unlabelled(method: str) -> bool:
    """Whether `method` learns from samples of the pool without a label; PatebenchError for an unknown method."""
    return bool(STUDENTS.fact(method, "unlabelled", True))


def needs_features(method: str) -> bool:
    """Whether `method` is given features of the pool; PatebenchError for an unknown method."""
    return bool(STUDENTS.fact(method, "needs_features", False))


def reads_table(method: str) -> bool:
    """Whether `method` reads a released table of noisy counts itself; PatebenchError for an unknown method."""
    return bool(STUDENTS.fact(method, "reads_table", False))


def refuse_choice(method: str, option: str) -> None:
    """Raise PatebenchError if `option`, "model" or "recipe", can not be chosen for `method`."""
    if not takes(method, option):
        takers = ", ".join(name for name in STUDENTS if takes(name, option))
        raise PatebenchError(f"the method '{method}' has a {option} of its own; leave it out, or use {takers}")
