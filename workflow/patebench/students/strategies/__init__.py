"""Strategies: which samples a student asks its teachers for next, from what is public alone.

A strategy is a callable (Situation, number of queries, seed) → positions in the pool, in the order to be asked, each
open and none twice; one file and one line here for each, and a place in `INITIAL` for one that needs no student,
in `FEATURED` for one that needs features.
"""

from patebench.core.registry import Registry

STRATEGIES = Registry("strategy")
STRATEGIES.add("random", "patebench.students.strategies.random:choose")
STRATEGIES.add("prototypes", "patebench.students.strategies.prototypes:choose")
STRATEGIES.add("least-confident", "patebench.students.strategies.least_confident:choose")
STRATEGIES.add("binary-experts", "patebench.students.strategies.binary_experts:choose")
STRATEGIES.add("siamese", "patebench.students.strategies.siamese:choose")

#: What chooses by the features of the pool.
FEATURED = ("prototypes",)

#: What can choose in the first round, when there is neither a label nor a student.
INITIAL = ("random", "prototypes")


def initial(strategy: str) -> str:
    """The first round of a strategy: of its own, or random where it chooses by what was learnt."""
    return strategy if strategy in INITIAL else "random"
