"""Stage `train_dpsgd`: train a private model by DP-SGD on all private data.

The noise and the random sampling of each training step protect one private sample. Nothing else in the output depends
on the private samples or on their number. Shapes and statistics of samples come from the pool, and all settings are
fixed beforehand.
"""

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from patebench.accounting.subsampled_gaussian import least_noise
from patebench.artefacts.reading import (
    check_pool_protection,
    locate_faults,
    model_inputs,
    private_features,
    read_encoder,
    read_samples,
    records_outside,
)
from patebench.baselines import DPSGD_FORMS
from patebench.cli.command import OutputFile, stage_command, threads
from patebench.config.parameters import DpsgdParameters
from patebench.core.bound import large_delta
from patebench.core.checks import check_finite
from patebench.core.class_accuracy import class_accuracy
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays, write_json
from patebench.core.formats import POOL
from patebench.core.progress import progress
from patebench.core.seeds import derive
from patebench.features import check_trainable

if TYPE_CHECKING:
    import torch

    from patebench.baselines.clipped_models import PrivateModel

log = logging.getLogger("patebench")

#: Number of test samples in the learning curve; the final accuracy uses all.
_CURVE_SAMPLES = 1000

#: Maximum number of images in one call of a network trained on ImageNet, which needs about 30 MB per image.
_ENLARGED_AT_ONCE = 32

#: Statement in the result.
_SEEDED = (
    "The noise of this model comes from a named seed. Anyone who knows the seed can remove the noise, so the model is "
    "not a release. Its ε is for fresh noise."
)


def run(
    *,
    private: Annotated[Path, "All private samples."],
    pool: Annotated[Path, "Public pool; its mean and standard deviation standardise all samples."],
    test: Annotated[Path, "Test set."],
    encoder: Annotated[Path | None, "Encoder trained on the pool, for the forms linear and fine-tuned."],
    training: DpsgdParameters,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the result."],
) -> None:
    """Train a model by DP-SGD on all private samples, with the smallest noise that reaches the target ε.

    Private samples that equal a test sample byte for byte are left out. The forms linear and fine-tuned start from the
    encoder of the public pool. With --student, a student is trained on the model's labels of the pool.
    """
    import torch

    from patebench.baselines.noisy_steps import NoisySteps, PoissonSampler, train

    started = time.monotonic()
    if encoder is not None and not DPSGD_FORMS[training.form].from_encoder:
        raise PatebenchError(f"the form '{training.form}' uses no encoder; leave out --encoder")
    samples, public, test_set = read_samples(private, "private"), read_arrays(pool, POOL), read_samples(test, "test")
    check_pool_protection(public)
    if training.views is not None and public["x"].ndim != 4:
        raise PatebenchError("random views need images, but these samples are not images; leave out --views")
    x, y = records_outside(samples, test_set)
    if fault := large_delta(training.delta, None, len(x)):
        log.warning(fault)
    chosen = training.chosen()
    rate, steps = chosen["rate"], int(chosen["steps"])
    noise = least_noise(training.epsilon, training.delta, rate, steps)
    smaller = {"compression": training.compression} if training.compression else {}

    def random(what: str) -> torch.Generator:
        return torch.Generator().manual_seed(derive(seed, stream, what))

    name, model = _build_model(training, x, y, public, encoder, random("views"), derive(seed, stream, "weights"))
    sampler = PoissonSampler(rate, random("sampling"))
    noisy = NoisySteps(sampler, len(x), noise=noise, clip=chosen["clip"], rng=random("noise"))

    def accuracy(weights: "torch.Tensor", most: int | None = None) -> dict[str, Any]:
        predicted = model.logits(weights, test_set["x"][:most]).argmax(1).numpy()
        return class_accuracy(test_set["y"][:most], predicted, test_set.meta["class_names"])

    with progress(f"DP-SGD, {training.form}, ε = {training.epsilon:g}", steps, "steps") as done:
        weights, curve = train(
            model,
            noisy,
            steps=steps,
            learning_rate=chosen["learning_rate"],
            ema=chosen["ema"],
            evaluate=lambda weights: accuracy(weights, _CURVE_SAMPLES)["accuracy"],
            report=done,
        )
    with locate_faults(public):
        check_finite("the weights of the private model are not finite", weights.cpu().numpy(), public["x"])
    bound = noisy.spent().bound(training.delta)
    if not bound.epsilon <= training.epsilon:
        raise PatebenchError(
            f"the training spent ε = {bound.epsilon:g}, above its target {training.epsilon:g}; this is a bug in "
            "patebench: please report it with the log"
        )
    reached = {"model": name, "model_parameters": len(weights), "curve": curve, **accuracy(weights)}
    if training.student:
        from patebench.stages.train_student import student_of_labels

        known = model.logits(weights, public["x"]).argmax(1).numpy()
        classifier = {"classifier": name, "classifier_accuracy": reached["accuracy"]}
        student = student_of_labels(training.student, public, known, test_set, derive(seed, stream, "student"))
        reached = {**classifier, **student}
    log.info(
        "DP-SGD, %s: accuracy %.2f%% on the test set at ε = %.4g",
        training.form, 100 * reached["accuracy"], bound.epsilon,
    )  # fmt: skip
    result = {
        **model_inputs(samples, public, test_set, encoder, seed),
        "system": "DP-SGD",
        "form": training.form,
        "private_model": training.slug,
        "parameters": {**chosen, **smaller, "noise": noise, "epsilon": training.epsilon, "delta": training.delta},
        "training": training.model_dump(),
        "public_use": ("features" if encoder else "scale of samples") + (", student" if training.student else ""),
        "public_samples": len(public["x"]),
        **reached,
        "seconds": round(time.monotonic() - started, 1),
        "statement": _SEEDED,
        "bounds": [bound.to_json()],
    }
    write_json(out, "train_dpsgd", result)


def _build_model(
    training: DpsgdParameters,
    x: NDArray[Any],
    y: NDArray[np.integer],
    pool: Artefact,
    encoder: Path | None,
    view_rng: "torch.Generator",
    weight_seed: int,
) -> tuple[str, "PrivateModel"]:
    """Return the name of the architecture, and an untrained model for DP-SGD on the samples `x` with labels `y`.

    `view_rng` is the random generator of augmented views, and `weight_seed` the seed of the initial weights.
    """
    from patebench.baselines.clipped_models import AT_ONCE, LinearModel, NetworkModel, with_new_head, with_public_norms
    from patebench.features.contrast import ContrastEncoder
    from patebench.features.trained_networks import ImageNetEncoder
    from patebench.models.architectures import untrained_network
    from patebench.models.network import seeded as weights_from
    from patebench.models.scaling import Standardise, Unscaled

    classes, several, at_once = pool.meta["classes"], int(training.chosen()["views"]), AT_ONCE
    scaling: Standardise | Unscaled
    # Architecture and initial weights depend only on public data and seeds.
    if DPSGD_FORMS[training.form].from_encoder:
        if encoder is None:
            raise PatebenchError(f"the form '{training.form}' needs the encoder of the public pool; give --encoder")
        learnt = read_encoder(encoder, pool)
        if training.form == "linear":
            return "linear", LinearModel(learnt.features, private_features(learnt, x), y, classes)
        check_trainable(learnt.kind)
        if isinstance(learnt, ImageNetEncoder):
            net, scaling, at_once = with_public_norms(learnt.network()), Unscaled(), _ENLARGED_AT_ONCE
        else:
            assert isinstance(learnt, ContrastEncoder)
            net, scaling = learnt.net, learnt.standardise
        net, name = with_new_head(net, classes), "encoder"
    else:
        name = training.model or ("tanh-cnn" if pool["x"].ndim == 4 else "mlp")
        with weights_from(weight_seed):
            net, scaling = untrained_network(name, pool["x"], classes, training.compression or 1)
    return name, NetworkModel(net, scaling, x, y, views=several, rng=view_rng, at_once=at_once)


command = stage_command(run, threads)
