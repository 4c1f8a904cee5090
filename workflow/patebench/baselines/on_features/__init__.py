"""List the methods that learn a classifier from public features of private records, and release it with noise.

Each method is one file. Facts of a method are `system` and `form`, its names in tables; `about`; and `options`, the
names of its own parameters. This file imports no method, so configurations are checked quickly.
"""

from collections.abc import Mapping

from patebench.core.bound import Adjacency
from patebench.core.registry import Registry

#: Changes of private data for which a target ε may be chosen.
CHANGES: Mapping[str, Adjacency] = {
    "replaced": Adjacency.REPLACE_RECORD,
    "added-or-removed": Adjacency.ADD_OR_REMOVE_RECORD,
}

FEATURE_METHODS = Registry("feature method")


def _add(name: str, target: str, system: str, form: str, about: str, *options: str) -> None:
    target = f"{__name__}.{target}"
    FEATURE_METHODS.add(name, target, system=system, form=form, about=about, options=options)


_add(
    *("dppl-mean", "class_means:ClassMeans", "DPPL", "mean"),
    *("the noisy sum of each class's features", "dimensions"),
)
_add(
    *("dppl-public", "public_prototypes:PublicPrototypes", "DPPL", "public"),
    *("public samples for each class, chosen by the exponential mechanism", "prototypes"),
)
_add(
    *("least-squares", "least_squares:LeastSquares", "least squares", "public covariance"),
    *("noisy class sums and the covariance of the pool", "dimensions"),
)
_add(
    *("least-squares-private", "least_squares:PrivateLeastSquares", "least squares", "private covariance"),
    *("noisy class sums and a noisy covariance of the private records", "dimensions"),
)
_add(
    *("private-evolution", "evolution:PrivateEvolution", "Private Evolution", "public pool"),
    *("public samples that get the noisy votes of the nearest records of a class", "rounds", "candidates"),
)
