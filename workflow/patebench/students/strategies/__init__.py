"""Strategies: which samples to query next, from what is public alone.

A strategy is an acquisition function: a callable (AcquisitionState, number of queries, seed) → positions in the pool,
in the order to be queried, none queried before and none twice. One file and one line here for each.

Its facts say what it chooses by: `needs_student` (default True) the labels and predictions of earlier rounds, so that
the first round is random, and `needs_features` (default False) the features of the pool. A strategy of another package
has them as attributes of its callable.
"""

from patebench.core.registry import Registry, called_with

STRATEGIES = Registry("strategy", "patebench.strategies", called_with("state", "queries", "seed"))
STRATEGIES.add("random", "patebench.students.strategies.random:acquire", needs_student=False)
STRATEGIES.add(
    "prototypes", "patebench.students.strategies.prototypes:acquire", needs_student=False, needs_features=True
)
STRATEGIES.add("least-confident", "patebench.students.strategies.least_confident:acquire")
STRATEGIES.add("unsure-prototypes", "patebench.students.strategies.unsure_prototypes:acquire", needs_features=True)
STRATEGIES.add("binary-experts", "patebench.students.strategies.binary_experts:acquire")
STRATEGIES.add("siamese", "patebench.students.strategies.siamese:acquire")


def needs_student(strategy: str) -> bool:
    """Whether `strategy` chooses by labels or predictions of earlier rounds; PatebenchError for an unknown name."""
    return bool(STRATEGIES.fact(strategy, "needs_student", True))


def needs_features(strategy: str) -> bool:
    """Whether `strategy` chooses by features of the pool; PatebenchError for an unknown name."""
    return bool(STRATEGIES.fact(strategy, "needs_features", False))


def initial(strategy: str) -> str:
    """The strategy of the first round: `strategy` itself, or random if it needs a student."""
    return "random" if needs_student(strategy) else strategy
