"""Decode a table of noisy counts: estimate the labels of all queries jointly, with a random field as their prior.

Each query represents a cluster of the pool. Two clusters have a nearness from 0 to 1, which is computed from public
features (`QueryClusters.nearness`). The prior is a Markov random field (Geman & Geman 1984):

    ln Pr[labels] = β Σ_{q,r} nearness(q, r)·[same label] − Σ_c (share(c) − 1/classes)² / (2 (ρ/classes)²) − ln Z

The first sum, over pairs of queries q and r, makes equal labels more probable for near clusters. β is the weight of
this sum. The second sum, over classes c, makes equal class shares more probable: share(c) is the share of the pool in
clusters with the label c, and ρ is the typical relative difference from 1/classes. Z normalises the probabilities.
Several values of β and ρ are tried, and weighted by the likelihood of the table.

A labeling is one label for each query. Labelings, the normaliser Z and the likelihood are estimated by sequential Monte
Carlo (Del Moral, Doucet, Jasra 2006) with a fixed seed, so results are reproducible. Derivation:
docs/explanation/proofs-systems.md, "A field of labels".
"""

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.logspace import Array, logsumexp
from patebench.features.query_clusters import QueryClusters

Integers = NDArray[np.int64]

#: Values of β and of ρ.
_NEARNESS, _SPREAD = (0.0, 2.0, 6.0), (0.1, 0.3, np.inf)
#: Number of labelings per pair (β, ρ), and number of steps in which the exponent of the prior rises from 0 to 1.
_LABELINGS, _STEPS = 128, 24


def read(log_likelihood: Array, clusters: QueryClusters) -> tuple[Integers, Array]:
    """Return jointly estimated labels (queries,), and ln Pr[label | table] for each query and class (queries, classes).

    The prior of the labels has two parameters, β and ρ, each with several values. Pr[label | table] is a mean over all
    pairs (β, ρ), weighted by the likelihood of the table. The returned labels are different: they are the most probable
    sampled labels of all queries together, for the most likely pair (β, ρ). They need not maximise Pr[label | table]
    for each query.

    Parameters
    ----------
    log_likelihood : (queries, classes) ln Pr[row of the table | label of the query]
    clusters : sizes and nearness of the clusters that the queries represent
    """
    rng = np.random.default_rng(0)
    prior = _Labelings(np.zeros_like(log_likelihood), clusters, rng).sample_field()
    posterior = _Labelings(log_likelihood, clusters, rng).sample_field()
    weight = posterior.log_sums() - prior.log_sums()
    marginals: Array = logsumexp(posterior.log_marginals() + (weight - logsumexp(weight))[:, None, None], axis=0)
    return posterior.likeliest(int(weight.argmax())), marginals


class _Labelings:
    """Sampled labelings with weights, from sequential Monte Carlo.

    A labeling is one label for each query. Each pair of parameters (β, ρ) defines a prior, also called field. For each
    prior, `_LABELINGS` labelings are sampled from the posterior. Arrays with the axis "labelings" contain the labelings
    of prior 0 first, then those of prior 1, and so on.
    """

    def __init__(self, log_likelihood: Array, clusters: QueryClusters, rng: np.random.Generator) -> None:
        # A labeling is sampled ∝ likelihood · prior^`on`, where `on` rises from 0 to 1.
        self.own, self.sizes, self.rng, self.on = log_likelihood, clusters.sizes, rng, 0.0
        fields = [(beta, rho) for beta in _NEARNESS for rho in _SPREAD]
        beta, rho = np.repeat(np.array(fields), _LABELINGS, axis=0).T
        self.beta, self.stiffness = beta, (log_likelihood.shape[1] / rho) ** 2 / 2
        self.labels: Integers = (log_likelihood + rng.gumbel(size=(len(beta), *log_likelihood.shape))).argmax(axis=2)
        self.rows, self.log_weight = np.arange(len(beta)), np.zeros(len(beta))
        # Neighbours of each query, padded with queries of nearness 0.
        degree = max(1, int((clusters.nearness > 0).sum(axis=1).max()))
        self.neighbours = np.argsort(-clusters.nearness, axis=1, kind="stable")[:, :degree]
        self.between = clusters.nearness
        self.nearness = np.take_along_axis(clusters.nearness, self.neighbours, axis=1)

    def sample_field(self) -> "_Labelings":
        for step in range(1, _STEPS + 1):
            on = (step / _STEPS) ** 2  # small steps first, while labelings are still far from the field's distribution
            self.log_weight += (on - self.on) * self._log_field()
            self.on = on
            self._resample()
            self._draw_labels()
            self._exchange_labels()
        return self

    def log_sums(self) -> Array:
        """Return, for each prior, an estimate of ln Σ likelihood · prior (priors,); the sum is over all labelings.

        The priors are not normalised. The estimate is ln of the mean weight of the sampled labelings. A constant that
        is the same for all priors is left out.
        """
        return logsumexp(self.log_weight.reshape(-1, _LABELINGS)) - np.log(_LABELINGS)

    def log_marginals(self) -> Array:
        """Return ln of the probability of each label of each query, for each prior (priors, queries, classes).

        The probabilities are estimated from the sampled labelings.
        """
        shares = self._shares()
        conditional = np.stack([self._log_conditional(q, shares) for q in range(len(self.own))], axis=1)
        weight = self.log_weight.reshape(-1, _LABELINGS)
        weight = weight - logsumexp(weight)[:, None]
        return logsumexp(conditional.reshape(*weight.shape, *self.own.shape) + weight[:, :, None, None], axis=1)

    def likeliest(self, field: int) -> Integers:
        """Return the most probable sampled labeling (queries,) for `field`, the index of a prior."""
        log_p = self.own[np.arange(len(self.own)), self.labels].sum(axis=1) + self.on * self._log_field()
        first = field * _LABELINGS
        return self.labels[first + log_p[first : first + _LABELINGS].argmax()]

    def _shares(self) -> Array:
        """Return, for each labeling, the share of the pool in clusters with each label (labelings, classes)."""
        shares = np.zeros((len(self.rows), self.own.shape[1]))
        for q, size in enumerate(self.sizes):
            shares[self.rows, self.labels[:, q]] += size
        return shares

    def _match(self, q: Integers, label: Integers) -> Array:
        """Return, for each labeling, the total nearness of query `q` to the queries with label `label` (labelings,).

        `q` and `label` (labelings,) contain one query and one label per labeling.
        """
        same_label = self.labels[self.rows[:, None], self.neighbours[q]] == label[:, None]
        return np.einsum("ln,ln->l", same_label, self.nearness[q])

    def _log_field(self) -> Array:
        """Return ln of the prior probability of each sampled labeling (labelings,), up to a constant per prior."""
        queries = [np.full_like(self.rows, q) for q in range(len(self.own))]
        same = sum(self._match(q, self.labels[self.rows, q]) for q in queries) / 2
        uneven = np.square(self._shares() - 1 / self.own.shape[1]).sum(axis=1)
        return self.beta * same - self.stiffness * uneven

    def _resample(self) -> None:
        """Redraw the labelings of each prior in proportion to their weights, and make the weights equal.

        Priors whose effective sample size is at least half the number of labelings are left unchanged.
        """
        for field, log_weight in enumerate(self.log_weight.reshape(-1, _LABELINGS)):
            total = logsumexp(log_weight)
            share = np.exp(log_weight - total)
            if 1 / np.square(share).sum() < _LABELINGS / 2:
                at = (np.arange(_LABELINGS) + self.rng.random()) / _LABELINGS  # systematic resampling
                chosen = np.minimum(np.searchsorted(np.cumsum(share), at), _LABELINGS - 1)
                of_field = slice(field * _LABELINGS, (field + 1) * _LABELINGS)
                self.labels[of_field] = self.labels[of_field][chosen]
                self.log_weight[of_field] = total - np.log(_LABELINGS)

    def _log_conditional(self, q: int, shares: Array) -> Array:
        """Return ln Pr[label of query `q` | table and all other labels] for each labeling (labelings, classes).

        `shares` (labelings, classes) is the result of `_shares`.
        """
        without, same = shares.copy(), np.zeros_like(shares)
        without[self.rows, self.labels[:, q]] -= self.sizes[q]
        for r in self.neighbours[q]:
            same[self.rows, self.labels[:, r]] += self.between[q, r]
        # (share + size − 1/classes)² without the terms that are the same for all labels
        uneven = self.sizes[q] * (2 * without + self.sizes[q] - 2 / shares.shape[1])
        log_p = self.own[q] + self.on * (self.beta[:, None] * same - self.stiffness[:, None] * uneven)
        return log_p - logsumexp(log_p)[:, None]

    def _draw_labels(self) -> None:
        """Draw the label of each query again, given all other labels (Gibbs sampling)."""
        shares = self._shares()
        for q, size in enumerate(self.sizes):
            drawn = (self._log_conditional(q, shares) + self.rng.gumbel(size=shares.shape)).argmax(axis=1)
            shares[self.rows, self.labels[:, q]] -= size
            shares[self.rows, drawn] += size
            self.labels[:, q] = drawn

    def _exchange_labels(self) -> None:
        """Propose, for each query, to exchange its label with that of a random other query (Metropolis step)."""
        # If the field requires equal class shares, only exchanges can change labels.
        shares, queries = self._shares(), len(self.own)
        for first in range(queries if queries > 1 else 0):
            q = np.full_like(self.rows, first)
            r = (q + 1 + self.rng.integers(queries - 1, size=len(q))) % queries
            a, b = self.labels[self.rows, q], self.labels[self.rows, r]
            own = self.own[q, b] - self.own[q, a] + self.own[r, a] - self.own[r, b]
            # The two labels differ before and after, so the nearness of q and r does not count.
            same = (
                self._match(q, b) - self._match(q, a) + self._match(r, a) - self._match(r, b) - 2 * self.between[q, r]
            )
            size_change = self.sizes[r] - self.sizes[q]
            uneven = 2 * size_change * (shares[self.rows, a] - shares[self.rows, b] + size_change)
            log_ratio = own + self.on * (self.beta * same - self.stiffness * uneven)
            accepted = (a != b) & (np.log(self.rng.random(len(q))) < log_ratio)
            self.labels[accepted, q[accepted]], self.labels[accepted, r[accepted]] = b[accepted], a[accepted]
            shares[self.rows, a] += np.where(accepted, size_change, 0.0)
            shares[self.rows, b] -= np.where(accepted, size_change, 0.0)
