"""Students learn from released labels and public samples, never from votes, counts or true labels.

A student method is a callable (StudentData, StudentConfig, seed) → StudentTrainer (`interface.py`), which sees no other
data. The shared loop (`student_training.py`) calls the trainer's epochs, and only stages read and write files. Methods
that need votes, such as distillation, are not students. The registry stores these facts about each method:

- `options`: which of "model" and "recipe" users may choose;
- `unlabelled` (default True): the method learns from samples of the pool without a label;
- `needs_features` (default False): the method needs features of the pool;
- `reads_table` (default False): the method uses the whole released table of noisy counts;
- `sees_images` (default False): if the samples are features of images, the method learns from the images themselves.

Acquisition strategies select the samples to query next (`acquisition.py`). The registry stores these facts about each
strategy:

- `needs_student` (default True): the strategy uses labels and predictions of earlier rounds, so the first round is
  random;
- `needs_features` (default False): the strategy uses features of the pool.

Methods and strategies of other packages state these facts as attributes of the callable.
"""

from patebench.core.errors import PatebenchError
from patebench.core.registry import Registry, called_with

STUDENTS = Registry("student method", "patebench.students", called_with("data", "config", "seed"))
STUDENTS.add("supervised", "patebench.students.supervised:trainer", options=("model", "recipe"), unlabelled=False)
STUDENTS.add("noise-aware", "patebench.students.supervised:noise_aware", options=("model", "recipe"), unlabelled=False)
STUDENTS.add("gan", "patebench.students.gan:trainer", options=())
STUDENTS.add("vat", "patebench.students.vat:trainer", options=("model",))
STUDENTS.add("consistency", "patebench.students.consistency:trainer", options=("model",))
STUDENTS.add(
    "cluster-consistency",
    "patebench.students.consistency:trainer_in_clusters",
    options=("model",),
    needs_features=True,
    reads_table=True,
    sees_images=True,
)
STUDENTS.add("label-spreading", "patebench.students.neighbour_labels:label_spreading", options=())
STUDENTS.add("nearest-label", "patebench.students.neighbour_labels:nearest_label", options=(), needs_features=True)
STUDENTS.add(
    "table-regression", "patebench.students.table_regression:trainer", options=(), needs_features=True, reads_table=True
)
STUDENTS.add(
    "table-spreading", "patebench.students.neighbour_labels:table_spreading", options=(), needs_features=True,
    reads_table=True,
)  # fmt: skip
STUDENTS.add(
    "table-network",
    "patebench.students.table_network:trainer",
    options=(),
    needs_features=True,
    reads_table=True,
    sees_images=True,
)
STUDENTS.add(
    "table-finetuning",
    "patebench.students.table_network:finetuning",
    options=(),
    needs_features=True,
    reads_table=True,
    sees_images=True,
)

STRATEGIES = Registry("strategy", "patebench.strategies", called_with("state", "queries", "seed"))
STRATEGIES.add("random", "patebench.students.acquisition:random", needs_student=False)
STRATEGIES.add("prototypes", "patebench.students.acquisition:prototypes", needs_student=False, needs_features=True)
STRATEGIES.add("least-confident", "patebench.students.acquisition:least_confident")
STRATEGIES.add("unsure-prototypes", "patebench.students.acquisition:unsure_prototypes", needs_features=True)
STRATEGIES.add("binary-experts", "patebench.students.acquisition:binary_experts")
STRATEGIES.add("siamese", "patebench.students.acquisition:siamese")


# Facts of a method and of a strategy, as described above.
learns_from_unlabelled = STUDENTS.flag("unlabelled", True)
needs_features = STUDENTS.flag("needs_features")
reads_table = STUDENTS.flag("reads_table")
sees_images = STUDENTS.flag("sees_images")
selects_by_features = STRATEGIES.flag("needs_features")


def takes(method: str, option: str) -> bool:
    """Return True if users may set `option` ("model" or "recipe") for the student method `method`.

    Raises PatebenchError for an unknown method.
    """
    return option in STUDENTS.fact(method, "options", ())


def refuse_choice(method: str, option: str) -> None:
    """Raise PatebenchError if users may not set `option` ("model" or "recipe") for the student method `method`."""
    if not takes(method, option):
        takers = ", ".join(name for name in STUDENTS if takes(name, option))
        line = f"the method '{method}' uses a fixed {option}; leave '{option}' out, or use one of the methods {takers}"
        raise PatebenchError(line, code="own-choice")


def initial_strategy(strategy: str) -> str:
    """Return the acquisition strategy of the first round: `strategy`, or "random" if `strategy` needs a student."""
    return "random" if STRATEGIES.fact(strategy, "needs_student", True) else strategy
