"""Acquisition strategies, which select the samples to query next from public values alone.

A strategy is an acquisition function: a callable (AcquisitionState, number of queries, seed) → distinct, unqueried
positions in the pool, in the order to be queried. The registry entry of a strategy (`students/__init__.py`) lists the
inputs that the strategy uses. Only strategies that train a network import torch.
"""

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.seeds import derive, generator
from patebench.features.query_clusters import clustered, nearest_samples
from patebench.students.interface import AcquisitionState

if TYPE_CHECKING:
    from torch import Tensor

    from patebench.models.architectures import Siamese

log = logging.getLogger("patebench")

#: Number of least confident samples per query that `unsure_prototypes` clusters: Zhdanov's β.
_CANDIDATES = 10
#: Experts are unconfident of a sample if its largest score is below CANDIDATE, and at least OTHERS of its other scores
#: are above OTHER.
CANDIDATE, OTHER, OTHERS = 0.9, 0.1, 4
#: Number of pairs per batch, number of steps and learning rate for Siamese networks.
BATCH, STEPS, LEARNING_RATE = 64, 300, 1e-3


def random(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """Return the first `queries` unqueried positions of the pool, in ascending order.

    The choice is random because the stage `split` has shuffled the pool. `seed` is not used.
    """
    return state.unqueried[:queries]


def least_confident(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """Return the pool positions of the `queries` least confident unqueried samples, the least confident first.

    The confidence of a sample is the student's highest class probability for it. This is least-confidence sampling
    (PATE 2017, Appendix C.2, third attempt). `seed` is not used.
    """
    assert state.predictions is not None
    confidence = state.predictions[state.unqueried].max(axis=1)
    return state.unqueried[np.argsort(confidence, kind="stable")[:queries]]


def prototypes(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """Return the pool positions of `queries` typical samples: the centres of large clusters without an earlier query.

    The method follows Hacohen et al. 2022, *Active learning on a budget: opposite strategies suit high and low
    budgets*. k-means divides the pool's features into clusters, one for each earlier and each new query. Clusters that
    contain an earlier query are left out. From each of the `queries` largest of the other clusters, the sample nearest
    to the mean is queried.

    With few labels, typical samples teach more than uncertain ones. Teachers also agree on typical samples, so noise
    changes fewer labels. The pool is public and clusters need no label, so this choice costs no privacy.

    `seed` is not used. Without earlier queries, the result depends only on the features of the pool and on `queries`,
    so mechanisms and students can be compared on the same queries.
    """
    queried, features = state.queried, state.features
    assert features is not None
    cluster, distance = clustered(features, len(queried) + queries)
    clusters = distance.shape[1]
    # Clusters without a queried sample come first, large ones before small ones.
    has_query, sizes = np.isin(np.arange(clusters), cluster[queried]), np.bincount(cluster, minlength=clusters)
    chosen = np.sort(np.lexsort((-sizes, has_query))[:queries])
    distance[queried] = np.inf
    return nearest_samples(distance[:, chosen])


def unsure_prototypes(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """Return the pool positions of `queries` typical samples among the least confident unqueried samples.

    The method follows Zhdanov 2019, *Diverse mini-batch active learning*. The confidence of a sample is the student's
    highest class probability for it. k-means clusters the 10 · `queries` least confident samples, each with the weight
    1 − confidence. Each query is the sample nearest to the mean of a cluster.

    Without clusters, many of the queries would be near-duplicates or outliers. If private records vote on their nearest
    query, an outlier gets few votes, and noise often makes its label wrong. `seed` is not used.
    """
    features, predictions = state.features, state.predictions
    assert features is not None
    assert predictions is not None
    doubtful = least_confident(state, _CANDIDATES * queries, seed)
    # Weights stay above 0, since a student may be sure of all samples.
    doubt = np.maximum(1 - predictions[doubtful].max(axis=1).astype(np.float64), 1e-6)
    return doubtful[nearest_samples(clustered(features[doubtful], queries, doubt)[1])]


def binary_experts(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """Return the pool positions of `queries` unqueried samples on which binary experts are unconfident.

    A binary expert is a model that distinguishes one class from all others. The function `unconfident` finds the
    samples on which the experts are unconfident (PATE 2017, Appendix C.2, second attempt). The order is random. If too
    few samples are unconfident, random other samples follow. Raises PatebenchError if the data have too few classes.
    """
    if state.data.classes <= OTHERS:
        raise PatebenchError(
            f"the strategy 'binary-experts' needs more than {OTHERS} classes, but these data have {state.data.classes};"
            " use 'least-confident'"
        )
    shuffled = generator(seed, "order").permutation(state.unqueried)
    doubtful = unconfident(expert_scores(state, shuffled, seed))
    log.info(
        "the binary experts are unsure of the label of %d of %d unqueried samples; %d samples are selected",
        doubtful.sum(), len(shuffled), queries,
    )  # fmt: skip
    return np.concatenate([shuffled[doubtful], shuffled[~doubtful]])[:queries]


def unconfident(scores: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return a mask (samples,) that is True where the binary experts are unconfident by the rule of PATE 2017.

    `scores` (samples, classes) are the probabilities of each class by its own expert, a model of this class against all
    others. By the rule, all scores of a sample are below `CANDIDATE` (0.9), and more than `OTHERS` (4) of them are
    above `OTHER` (0.1).
    """
    ordered = np.sort(scores, axis=1)
    return (ordered[:, -1] < CANDIDATE) & (ordered[:, -1 - OTHERS] > OTHER)


def expert_scores(state: AcquisitionState, samples: NDArray[np.intp], seed: int) -> NDArray[np.float64]:
    """Return scores (samples, classes): in column k, the probability of class k by the binary expert of class k.

    `samples` are positions in the pool. The expert of a class is the model of `state.config`, trained on all labels
    released so far to distinguish this class from all others.
    """
    from patebench.models import make_learner
    from patebench.students.supervised import model_and_recipe

    data, config = state.data, state.config
    assert config is not None
    x, y = data.pool[data.labelled], data.labels[data.labelled]
    model, recipe = model_and_recipe(data, config)
    scores = np.zeros((len(samples), data.classes))
    for label in range(data.classes):
        expert = make_learner(model, recipe, classes=2, epochs=config.epochs)
        expert.fit(x, (y == label).astype(np.int64), seed=derive(seed, "expert", label))
        scores[:, label] = np.exp(expert.log_probabilities(data.pool[samples])[:, 1])
    return scores


def siamese(state: AcquisitionState, queries: int, seed: int) -> NDArray[np.intp]:
    """Return the pool positions of `queries` unqueried images, least similar to labelled images and to each other.

    A Siamese network estimates the similarity of two images: it is trained to decide if two random views show the same
    image (PATE 2017, Appendix C.2, first attempt; Bromley et al. 1993, Koch 2015). The function `farthest` chooses the
    images one by one. Raises PatebenchError if the samples are not images.
    """
    import torch

    from patebench.models.network import seeded

    pool = state.data.pool
    if pool.ndim != 4:
        raise PatebenchError("'siamese' needs images, but the samples are rows of a table; use 'least-confident'")
    with seeded(seed):
        network = train_siamese(torch.from_numpy(pool), seed)
    with torch.inference_mode():
        features = torch.cat([network.embed(batch) for batch in torch.split(torch.from_numpy(pool), 100)])
        return farthest(network, features, state.data.labelled, state.unqueried, queries)


def train_siamese(pool: "Tensor", seed: int) -> "Siamese":
    """Return a Siamese network, trained to decide whether two random views show the same image of `pool`.

    `pool` is a tensor (images, channels, height, width). The network is on the device of `models.device`. Its initial
    weights come from torch's global generator, all other random draws from a generator with seed `seed`.
    """
    import torch
    import torch.nn.functional as F

    from patebench.models.architectures import Siamese
    from patebench.models.augment import random_affine
    from patebench.models.device import device
    from patebench.models.optimisers import AdamW
    from patebench.models.recipes import MODERN

    network, rng = Siamese(pool).to(device()), torch.Generator().manual_seed(seed)
    optimiser = AdamW(network.parameters(), LEARNING_RATE)
    fill = network.standardise.background
    target = torch.tensor([1.0, 0.0]).repeat_interleave(min(BATCH, len(pool))).to(device())
    for _ in range(STEPS):
        batch = pool[torch.randperm(len(pool), generator=rng)[:BATCH]]
        images = network.standardise(batch.to(device()))
        first, second = (network.features(random_affine(images, MODERN, rng, fill=fill)) for _ in range(2))
        logits = torch.cat([network(first, second), network(first, second.roll(1, 0))])
        optimiser.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(logits, target).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return network.eval()


def farthest(
    network: Any, features: "Tensor", labelled: NDArray[np.integer], candidates: NDArray[np.intp], queries: int
) -> NDArray[np.intp]:
    """Return `queries` positions among `candidates`, chosen one by one to be least similar to known images.

    Known images are the labelled images and the candidates already chosen. Each choice is the candidate whose
    similarity to the most similar known image is smallest.

    Parameters
    ----------
    network : function from the features of two images to their similarity: the logit of the probability that both are
        views of the same image.
    features : (samples, features) features of the pool.
    labelled, candidates : positions of images in the pool.
    queries : number of positions to return.
    """
    import torch

    candidate_features = features[candidates]
    best = torch.full((len(candidates),), -torch.inf, device=features.device)
    for position in labelled:
        best = torch.maximum(best, network(candidate_features, features[position]))
    chosen: list[int] = []
    for _ in range(min(queries, len(candidates))):
        chosen.append(int(best.argmin()))
        best = torch.maximum(best, network(candidate_features, candidate_features[chosen[-1]]))
        best[chosen[-1]] = torch.inf
    return candidates[chosen]
