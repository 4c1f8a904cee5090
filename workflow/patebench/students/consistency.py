"""Consistency under strong augmentation, after FixMatch (Sohn et al. 2020), made robust to wrong labels.

A moving average of the student's weights (EMA, a mean teacher; Tarvainen & Valpola 2017) predicts labels for weakly
augmented samples of the pool (weak views). If the EMA is confident about a sample, the student learns the predicted
label on a strongly augmented view of the sample. The confidence threshold falls during training, so that the student
learns from more and more samples. With a constant threshold, the student would never learn from samples for which the
EMA predicts the true label with a low probability. On large pools, the function `cleaned` first removes labels that
look wrong.

If records voted on clusters of the pool and the noisy counts were released as a table, `trainer_in_clusters` uses all
counts. The table has one row of counts per cluster. The EMA's predictions in a cluster are scaled so that their mean
moves towards the class shares of the row (`ClusterAlignment`). For example, a cluster with 90 % of its votes for one
class and 10 % for another teaches both classes, although its query has only one label. The strength of this scaling
falls to 0 during training, and so does the weight of the released labels in the loss. The reason is that the EMA's
prediction for a sample is more often right than the label of its cluster. The table is public, so its use costs no
privacy.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.features.cells import centres, nearest
from patebench.models.device import autocast
from patebench.students.interface import Student, StudentConfig, StudentData, StudentTrainer
from patebench.students.semi_supervised import (
    LARGE,
    Batch,
    DistributionAlignment,
    SemiSupervisedSettings,
    SemiSupervisedTrainer,
    agreement_loss,
    batch_and_epochs,
    model_for,
)

#: Divisor of the number of epochs for students that clean the labels.
_CLEANING_SPEED_UP = 5
#: Settings for tables of counts, chosen with true labels of MNIST (seeds 0 and 2 to 4). Let σ be the standard deviation
#: of the noise on a count. Counts of at most `_ABOVE_NOISE` · σ are replaced by `_FLOOR` · σ. A query keeps its label
#: only if one class has at least the share `_PURE` of its row, because the query of a mixed cluster may have another
#: class. `_CLUSTER_DECAY` is the decay, per sample, of the moving average of the predictions in a cluster. The weight
#: of table and labels reaches 0 after the share `_FADE` of the training.
_ABOVE_NOISE, _FLOOR, _PURE, _CLUSTER_DECAY, _FADE = 3.0, 0.1, 0.9, 0.97, 0.6


class ClusterAlignment(nn.Module):
    """Module that scales predicted class probabilities so that their mean in each cluster moves towards target shares.

    `clusters` (samples,) is the cluster of each sample of the pool. `shares` (clusters, classes) are the target shares
    of the classes in each cluster, and `guessed` (clusters, classes) the moving average of the predictions in each
    cluster.
    """

    clusters: Tensor
    shares: Tensor
    guessed: Tensor

    def __init__(self, clusters: Tensor, shares: Tensor) -> None:
        super().__init__()
        self.register_buffer("clusters", clusters)
        self.register_buffer("shares", shares)
        self.register_buffer("guessed", torch.full_like(shares, 1 / shares.shape[1]))

    @torch.no_grad()
    def forward(self, probabilities: Tensor, rows: Tensor, weight: float) -> Tensor:
        """Return `probabilities` (samples, classes), aligned to the target shares of each sample's cluster.

        `rows` (samples,) are the samples' positions in the pool. First, the moving average `guessed` is updated with
        the mean of `probabilities` in each cluster. Then `probabilities` are multiplied by (`shares` /
        `guessed`)^`weight` and normalised: `weight` 1 aligns fully, 0 not at all.
        """
        clusters = self.clusters[rows.to(self.clusters.device)]
        members = torch.bincount(clusters, minlength=len(self.shares))[:, None]
        means = torch.zeros_like(self.guessed).index_add_(0, clusters, probabilities) / members.clamp_min(1)
        self.guessed.lerp_(means, 1 - _CLUSTER_DECAY**members)
        aligned = probabilities * (self.shares / self.guessed.clamp_min(1e-4))[clusters] ** weight
        return aligned / aligned.sum(1, keepdim=True)


@dataclass(frozen=True, kw_only=True)
class ConsistencySettings(SemiSupervisedSettings):
    """Settings of consistency training: the student learns labels predicted by a moving average (EMA) of its weights.

    A predicted label is learnt if its probability is above a threshold. The threshold falls from `confident` to
    `confident_last` during training. The weight of predicted labels rises from 0 to 1 over the first share `ramp` of
    the training.
    """

    labelled: int = 16
    learning_rate: float = 2e-3
    confident: float = 0.95
    confident_last: float = 0.5
    ramp: float = 0.1


class ConsistencyTrainer(SemiSupervisedTrainer):
    """Trainer that minimises cross-entropy to released labels, and to confident predictions of an EMA of the weights.

    The student sees strongly augmented samples; the EMA of its weights predicts labels for weakly augmented ones. The
    method `align` scales the predictions towards estimated class shares.
    """

    hyperparameters: ConsistencySettings

    def __init__(
        self, data: StudentData, model: str, settings: ConsistencySettings, alignment: nn.Module | None = None
    ) -> None:
        super().__init__(data, model, settings)
        self.alignment = self.parts["alignment"] = (alignment or DistributionAlignment(data)).to(self.device)

    def align(self, probabilities: Tensor, batch: Batch) -> Tensor:
        """Return the EMA's `probabilities` (samples, classes) for `batch.x`, scaled towards estimated class shares."""
        return self.alignment(probabilities)

    def label_weight(self, progress: float) -> float:
        """Return the weight of the loss on released labels after the share `progress` (0 to 1) of the training."""
        return 1.0

    def losses(self, batch: Batch) -> Mapping[str, Tensor]:
        settings, size = self.hyperparameters, len(batch.x)
        predicted = self.predict_weak_views(batch.x)
        with autocast(self.device):
            logits = self.net(torch.cat([self.view(batch.x, "strong"), self.view(batch.labelled, "strong")])).float()
        agreement = agreement_loss(
            logits[:size], self.align(predicted, batch), settings.confident, settings.confident_last, batch.progress
        )
        return {
            "labelled loss": self.label_weight(batch.progress) * F.cross_entropy(logits[size:], batch.y),
            "unlabelled loss": min(1.0, batch.progress / settings.ramp) * agreement,
        }


class ClusterTrainer(ConsistencyTrainer):
    """Consistency trainer that moves the mean prediction in each cluster of the pool towards target class shares.

    The weights of this alignment (`ClusterAlignment`) and of the loss on released labels fall from 1 to 0 over the
    first 60 % of the training (`_FADE`).
    """

    def align(self, probabilities: Tensor, batch: Batch) -> Tensor:
        return self.alignment(probabilities, batch.rows, self.label_weight(batch.progress))

    def label_weight(self, progress: float) -> float:
        return max(0.0, 1 - progress / _FADE)


def _settings(data: StudentData, config: StudentConfig) -> ConsistencySettings:
    return ConsistencySettings(**batch_and_epochs(data, config, batch=64, small=150, large=24))


def trainer(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the consistency trainer of the model `config.model` or, if this is None, of a default model for the pool.

    In pools of at least `LARGE` samples, the function `cleaned` first removes labels that look wrong. Random draws come
    from torch's global generator, which `student_training.train` seeds.
    """
    settings = _settings(data, config)
    remaining = _clean_labels(data, config, settings) if len(data.pool) >= LARGE else data
    student = ConsistencyTrainer(remaining, model_for(data, config, large="student-cnn"), settings)
    student.settings |= {"labels left out": len(data.labelled) - len(remaining.labelled)}
    return student


def trainer_in_clusters(data: StudentData, config: StudentConfig, seed: int) -> StudentTrainer:
    """Return the consistency trainer that also uses a released table of noisy counts, one row per cluster of the pool.

    In each cluster, predictions are aligned to the class shares in the cluster's row (`ClusterAlignment`). Before the
    shares are computed, counts of at most three standard deviations of the noise are replaced by a small value. A query
    keeps its label only if one class has a share of at least 90 % (`_PURE`) in its row. Draws come from torch's global
    generator.

    Raises PatebenchError in four cases:

    - `data.features` is None;
    - `data.table` is None;
    - `data.table.neighbours` or `data.table.weighted` is set: the student needs one vote per record, for its cluster;
    - no query keeps its label.
    """
    table = data.table
    if table is None or data.features is None or table.neighbours or table.weighted:
        raise PatebenchError(
            "'cluster-consistency' needs a table with one vote per record, on its nearest query; use labels of "
            "'sparse-gnmax' or 'sparse-lnmax' from teachers of the model 'nearest-query' without the key 'neighbours'"
        )
    noise = math.sqrt(table.variance)
    shares = np.where(table.counts > _ABOVE_NOISE * noise, table.counts, _FLOOR * noise)
    shares /= shares.sum(axis=1, keepdims=True)
    pure = shares.max(axis=1) >= _PURE
    if not pure.any():
        raise PatebenchError(
            "no query of the released table has a class whose count stands out from the noise; draw labels with less"
            " noise, or on fewer queries"
        )
    vectors = data.features(data.pool)
    clusters = torch.from_numpy(nearest(vectors, centres(vectors, table.queries)))
    alignment = ClusterAlignment(clusters, torch.from_numpy(shares).float())
    labelled = data.without(table.queries[~pure])
    return ClusterTrainer(labelled, model_for(data, config, large="student-cnn"), _settings(data, config), alignment)


def _clean_labels(data: StudentData, config: StudentConfig, settings: ConsistencySettings) -> StudentData:
    """Return `data` without improbable labels; `cleaned` finds them with students trained for a fifth of the epochs."""
    short = replace(settings, epochs=math.ceil(settings.epochs / _CLEANING_SPEED_UP))

    def train(part: StudentData) -> Student:
        judge = ConsistencyTrainer(part, model_for(data, config), short)
        for _ in range(short.epochs):
            judge.epoch()
        return judge

    return cleaned(data, train)


_FOLDS = 4
#: Probability below which `cleaned` removes a label.
_IMPROBABLE = 0.1
#: Largest share of labels that `cleaned` removes. If more labels are improbable, the judging students have learnt too
#: little, and all labels are kept.
_MOST = 0.25
#: Smallest share of labels that `cleaned` removes. If fewer labels are improbable, all labels are kept: most improbable
#: labels then belong to rare samples, which may have only one label, and the few wrong labels do little harm.
_LEAST = 0.05


def cleaned(data: StudentData, train: Callable[[StudentData], Student]) -> StudentData:
    """Return `data` without labels that have a probability below 0.1 for a student trained on other labels.

    Noise makes some labels wrong. Labels are divided into folds, stratified by class and drawn from torch's global
    generator. For each fold, `train` returns a student trained on the labels of all other folds. This student gives
    each label of the fold a probability (cross-fitting after Northcutt et al. 2021, *Confident learning*).

    If less than 5 % or more than 25 % of the labels have a probability below 0.1, no label is removed. Labels of
    classes with fewer labels than folds are never removed. A wrong label on which most teachers agree looks probable,
    so it stays.
    """
    labelled, labels = data.labelled, data.labels[data.labelled]
    shuffled = torch.randperm(len(labelled)).numpy()
    fold = np.empty(len(labelled), int)
    fold[shuffled[np.argsort(labels[shuffled], kind="stable")]] = np.arange(len(labelled)) % _FOLDS
    probability = np.ones(len(labelled))
    for held_out in (np.flatnonzero(fold == number) for number in range(_FOLDS)):
        if 0 < len(held_out) < len(labelled):
            judge = train(data.without(labelled[held_out]))
            log_p = judge.log_probabilities(data.pool[labelled[held_out]])
            probability[held_out] = np.exp(log_p[np.arange(len(held_out)), labels[held_out]])
    improbable = (probability < _IMPROBABLE) & (np.bincount(labels)[labels] >= _FOLDS)
    return data.without(labelled[improbable]) if _LEAST <= improbable.mean() <= _MOST else data
