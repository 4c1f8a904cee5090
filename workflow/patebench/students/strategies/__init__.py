"""Strategies: which samples a student asks its teachers for next, from what is public alone.

A strategy is a callable (Situation, number of queries, seed) → positions in the pool, in the order to be asked, each
open and none twice; one file and one line here for each.
"""

from patebench.core.registry import Registry

STRATEGIES = Registry("strategy")
STRATEGIES.add("random", "patebench.students.strategies.random:choose")
STRATEGIES.add("least-confident", "patebench.students.strategies.least_confident:choose")
STRATEGIES.add("binary-experts", "patebench.students.strategies.binary_experts:choose")
STRATEGIES.add("siamese", "patebench.students.strategies.siamese:choose")

#: The strategy of the first round, when nothing has been learnt yet.
INITIAL = "random"
