"""Students that learn from labelled samples alone: from labels as they are, or with a model of their noise.

`trainer` fits any learner to the labels as they are. `noise_aware` maximises the likelihood of the release, which is a
function of the true classes. This function is public in two cases (`StudentData.log_likelihood`): each teacher
randomised its own votes, or the noisy counts were released.

In all other cases, the likelihood depends on private counts. `noise_aware` then estimates the share of wrong labels by
cross-validation on the released labels (after Northcutt et al. 2021, *Confident learning*). It corrects the loss for
this share as in Patrini et al. 2017 (*Making deep neural networks robust to label noise*), section 4.2.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patebench.models import make_learner
from patebench.models.architectures import require_network
from patebench.models.network import Fitting, Network
from patebench.students.interface import StudentConfig, StudentData, StudentTrainer

_FOLDS = 4
#: Largest estimated share of wrong labels; above it, no correction helps.
_MOST_WRONG = 0.5

LogProbabilities = Callable[[NDArray[Any]], NDArray[np.float64]]


class NetworkTrainer:
    """Trainer of `network`, epoch by epoch; `model` and `recipe` are the names of architecture and training recipe."""

    def __init__(
        self, network: Network, fitting: Fitting, model: str, recipe: str, settings: dict[str, Any] | None = None
    ) -> None:
        self.network, self.fitting, self.model, self.recipe = network, fitting, model, recipe
        self.epochs, self.settings = network.recipe.epochs, settings or {}

    def epoch(self) -> dict[str, float]:
        return {"loss": self.fitting.epoch()}

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.network.net = self.fitting.result
        return self.network.log_probabilities(x)

    def state(self) -> dict[str, Any]:
        return self.fitting.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.fitting.restore(state)


class OneStepTrainer:
    """Trainer that trains a student in one step, by calling `fit`.

    `fit` returns the trained student's function from samples to log-probabilities (samples, classes).
    """

    epochs = 1
    log_probabilities: LogProbabilities

    def __init__(
        self,
        fit: Callable[[], LogProbabilities],
        model: str,
        recipe: str = "own",
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.fit, self.model, self.recipe, self.settings = fit, model, recipe, settings or {}

    def epoch(self) -> dict[str, float]:
        self.log_probabilities = self.fit()
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        self.epoch()


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the trainer that fits the model of `config`, by its recipe, to the labelled samples of the pool.

    `seed` seeds all draws except the initial weights of a network, which come from torch's global generator.
    """
    model, recipe = model_and_recipe(data, config)
    learner = make_learner(model, recipe, classes=data.classes, epochs=config.epochs)
    x, y = data.pool[data.labelled], data.labels[data.labelled]
    if isinstance(learner, Network):
        return NetworkTrainer(learner, learner.begin(x, y, seed=seed), model, recipe)

    def fit() -> LogProbabilities:
        learner.fit(x, y, seed=seed)
        return learner.log_probabilities

    return OneStepTrainer(fit, model, recipe)


def model_and_recipe(data: StudentData, config: StudentConfig) -> tuple[str, str]:
    """Return the names of the model and the training recipe in `config`, or their defaults.

    The default model is small-cnn for images and mlp for tables, and the default recipe is modern.
    """
    return config.model or ("small-cnn" if data.pool.ndim == 4 else "mlp"), config.recipe or "modern"


def noise_aware(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return a trainer that fits the network of `config` by maximum likelihood of the noisy release.

    If `data.log_likelihood` is not None, it is the log-likelihood. Otherwise, `wrong_label_rate` estimates the
    probability that a label is wrong. The likelihood is then that of labels which are wrong with this probability. The
    attribute `settings` of the trainer contains the key "channel" with the value "public" in the first case and
    "estimated" in the second. Raises PatebenchError for a model that is not a network.
    """
    model, recipe = model_and_recipe(data, config)
    network = require_network(make_learner(model, recipe, classes=data.classes, epochs=config.epochs), model)
    settings: dict[str, Any] = {"channel": "public"}
    log_likelihood = data.log_likelihood
    if log_likelihood is None:
        rate = wrong_label_rate(data, network, seed)
        log_likelihood = np.log(symmetric_channel(rate, data.classes))[:, data.labels].T
        settings = {"channel": "estimated", "wrong labels": rate}
    x, released = data.pool[data.labelled], torch.from_numpy(log_likelihood[data.labelled]).float()
    fitting = network.begin(x, np.arange(len(x)), seed=seed, loss=partial(negative_log_likelihood, released))
    return NetworkTrainer(network, fitting, model, recipe, settings)


def negative_log_likelihood(log_likelihood: Tensor, logits: Tensor, rows: Tensor) -> Tensor:
    """Return a training loss: the mean over a batch of −ln Σ_class Pr[class | sample] Pr[released | class].

    The softmax of `logits` (batch, classes) is Pr[class | sample]. `log_likelihood` (samples, classes) is ln
    Pr[released | class] for all samples, and `rows` (batch,) are the rows of the batch in this array.
    """
    released = log_likelihood.to(logits.device)[rows]
    return -(logits.log_softmax(1) + released).logsumexp(1).mean()


def symmetric_channel(rate: float, classes: int) -> NDArray[np.float64]:
    """Return the matrix Pr[released label | true class] (classes, labels) if labels are wrong with probability `rate`.

    All wrong labels are equally likely.
    """
    wrong = rate / (classes - 1)
    return np.full((classes, classes), wrong) + (1 - rate - wrong) * np.eye(classes)


def wrong_label_rate(data: StudentData, network: Network, seed: int) -> float:
    """Return the share of wrong labels among the released ones, estimated by cross-validation; at most 0.5.

    For each fold, `network` is trained with `seed` on the labels of all other folds and predicts the fold. A prediction
    of class k is confident if its probability is at least the mean probability of k over samples with label k. A label
    counts as wrong if a confident prediction differs from it. The estimate is (wrong labels + ½) / (confident
    predictions + 1), so it is never 0.
    """
    labelled, labels = data.labelled, data.labels[data.labelled]
    folds = np.random.default_rng(seed).permutation(len(labelled)) % _FOLDS
    probabilities = np.zeros((len(labelled), data.classes))
    for fold in range(min(_FOLDS, len(labelled)) if len(labelled) > 1 else 0):
        others, held_out = labelled[folds != fold], labelled[folds == fold]
        network.fit(data.pool[others], data.labels[others], seed=seed)
        probabilities[folds == fold] = np.exp(network.log_probabilities(data.pool[held_out]))
    predicted = probabilities.argmax(1)
    typical = np.array(
        [probabilities[labels == k, k].mean() if (labels == k).any() else 1.0 for k in range(data.classes)]
    )
    confident = probabilities.max(1) >= typical[predicted]
    contradicted = np.sum(confident & (predicted != labels))
    return float(min(_MOST_WRONG, (contradicted + 0.5) / (confident.sum() + 1)))
