"""List the methods that learn a classifier from public features of private records, and release it with noise.

Facts of a method are `system` and `form`, its names in tables; `about`, its description; `options`, the names of its
own parameters; and `labels_only`, True if the method protects only labels (`protects: labels`). This file imports no
method, so configurations are checked quickly.
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


def _add(name: str, target: str, system: str, form: str, about: str, *options: str, labels_only: bool = False) -> None:
    facts = {"system": system, "form": form, "about": about, "options": options, "labels_only": labels_only}
    FEATURE_METHODS.add(name, f"{__name__}.{target}", **facts)


_add(
    *("dppl-mean", "prototypes:ClassMeans", "DPPL", "mean"),
    *("noisy class sums", "dimensions"),
)
_add(
    *("dppl-public", "prototypes:PublicPrototypes", "DPPL", "public"),
    *("public samples chosen by the exponential mechanism", "prototypes"),
)
_add(
    *("least-squares", "least_squares:LeastSquares", "least squares", "public covariance"),
    *("class sums and the pool's covariance", "dimensions"),
)
_add(
    *("least-squares-private", "least_squares:PrivateLeastSquares", "least squares", "private covariance"),
    *("class sums and a private covariance", "dimensions"),
)
_add(
    *("private-evolution", "evolution:PrivateEvolution", "Private Evolution", "public pool"),
    *("public samples that records vote for", "rounds", "candidates"),
)
_add(
    *("cluster-histograms", "private_labels:ClusterHistograms", "cluster histograms", "largest cell"),
    *("for private labels: the most frequent label of a public cluster, by a noisy histogram", "clusters"),
    labels_only=True,
)
_add(
    *("cluster-resampling", "private_labels:ClusterResampling", "cluster histograms", "labels drawn"),
    *("the same with each label drawn from the histogram", "clusters"),
    labels_only=True,
)
_add(
    *("randomised-response", "private_labels:RandomisedResponse", "RRWithPrior", "published"),
    *("for private labels: each one answered at random, with a prior", "clusters"),
    labels_only=True,
)
