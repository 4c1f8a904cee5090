"""List the methods that learn a classifier from public features of private records, and release it with noise.

The registry stores for each method:

- `system`, `form`: name of the method and name of its variant, for tables
- `about`: description
- `options`: names of the method's own parameters
- `labels_only`: True if the method protects only labels (`protects: labels`)

This file imports no method, so configurations are checked quickly.
"""

from patebench.core.registry import Registry

#: Changes of a private record for which a target ε may be chosen, in the order of `FeatureMethod.costs`.
CHANGES = ("replaced", "added-or-removed")

FEATURE_METHODS = Registry("feature method")
FEATURE_METHODS.add(
    "dppl-mean", "patebench.baselines.on_features.prototypes:ClassMeans",
    system="DPPL", form="mean", about="noisy class sums", options=("dimensions",),
)  # fmt: skip
FEATURE_METHODS.add(
    "dppl-public", "patebench.baselines.on_features.prototypes:PublicPrototypes", system="DPPL", form="public",
    about="public samples chosen by the exponential mechanism", options=("prototypes",),
)  # fmt: skip
FEATURE_METHODS.add(
    "least-squares", "patebench.baselines.on_features.least_squares:LeastSquares", system="least squares",
    form="public covariance", about="class sums and the pool's covariance", options=("dimensions",),
)  # fmt: skip
FEATURE_METHODS.add(
    "least-squares-private", "patebench.baselines.on_features.least_squares:PrivateLeastSquares",
    system="least squares", form="private covariance", about="class sums and a private covariance",
    options=("dimensions",),
)  # fmt: skip
FEATURE_METHODS.add(
    "private-evolution", "patebench.baselines.on_features.evolution:PrivateEvolution", system="Private Evolution",
    form="public pool", about="public samples that records vote for", options=("rounds", "candidates"),
)  # fmt: skip
FEATURE_METHODS.add(
    "ind-knn", "patebench.baselines.on_features.individual_knn:IndividualNearest", system="Ind-kNN",
    form="radii of the pool", about="public samples labelled by near records",
    options=("queries", "neighbours"),
)  # fmt: skip
FEATURE_METHODS.add(
    "cluster-histograms", "patebench.baselines.on_features.private_labels:ClusterHistograms",
    system="cluster histograms", form="largest cell", options=("clusters",), labels_only=True,
    about="for private labels: the most frequent label of a public cluster, by a noisy histogram",
)  # fmt: skip
FEATURE_METHODS.add(
    "cluster-resampling", "patebench.baselines.on_features.private_labels:ClusterResampling",
    system="cluster histograms", form="labels drawn", options=("clusters",), labels_only=True,
    about="the same with each label drawn from the histogram",
)  # fmt: skip
FEATURE_METHODS.add(
    "randomised-response", "patebench.baselines.on_features.private_labels:RandomisedResponse",
    system="RRWithPrior", form="published", options=("clusters",), labels_only=True,
    about="for private labels: each one answered at random, with a prior",
)  # fmt: skip

#: Return True if the method of this name protects only labels.
protects_only_labels = FEATURE_METHODS.flag("labels_only")
