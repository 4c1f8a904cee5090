"""Features by a network trained on ImageNet, for photographs, or by a user's own TorchScript or ONNX network.

With a network trained on ImageNet, the public data are ImageNet's 1.3 million labelled photographs and the pool. The
means of five layers of EfficientNet-Lite0 separate the classes of CIFAR-10 better than the last layer: 81.1 % instead
of 78.8 % by least squares on 8,000 labels (2,000 test images).

A user's own network maps images (1, channels, height, width) with values from 0 to 1 to vectors (1, numbers). It must
be public: trained on public data, and chosen without private records.

The outputs of a network are mapped to principal axes of the pool and scaled to unit length.

Use a network's file only if you trust its source, because operations of a TorchScript network can read files. Loading a
file executes no Python code: torch reads TorchScript with its own unpickler, which creates only tensors and modules,
and onnxruntime reads ONNX without external files.
"""

import io
import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from patebench.core.errors import PatebenchError
from patebench.core.progress import Report, silent
from patebench.features import in_batches
from patebench.features.principal_axes import AxesEncoder
from patebench.models.device import autocast, device
from patebench.models.efficientnet_lite import enlarge, pretrained

#: Width and height of the enlarged images, in pixels.
_SIDE = 160
_BATCH = 8


class ImageNetEncoder(AxesEncoder):
    """Encoder of grey or colour images by outputs of several layers of EfficientNet-Lite0, averaged over positions."""

    kind = "imagenet"
    #: Version of EfficientNet-Lite: 0 or 2.
    version: ClassVar[int] = 0
    #: Numbers of the blocks whose outputs are used in addition to those of the last layer.
    blocks: ClassVar[tuple[int, ...]] = (5, 8, 11, 13)

    @classmethod
    def check(cls, shape: tuple[int, ...]) -> None:
        super().check(shape)
        if shape[0] not in (1, 3):
            raise PatebenchError(
                f"the encoder '{cls.kind}' reads images with 1 or 3 channels, not {shape[0]}; use the encoder"
                " 'contrastive'",
                code="shape",
            )

    @classmethod
    @torch.inference_mode()
    def outputs(cls, x: NDArray[Any], report: Report = silent) -> Tensor:
        network = pretrained(cls.version)

        def means(images: NDArray[Any]) -> NDArray[np.float32]:
            return network.means(enlarge(torch.from_numpy(images).float(), _SIDE), cls.blocks).float().numpy()

        with autocast(torch.device("cpu")):
            return torch.from_numpy(in_batches(means, x, report, _BATCH))

    def network(self) -> nn.Sequential:
        """Return a copy of this encoder that can be trained, without the scaling of its outputs to unit length.

        The network maps images with values 0 … 255 (samples, channels, height, width) to coordinates along the
        principal axes (samples, axes). It is on this process's device.
        """
        mean, spread, axes = self.axes.mean, self.axes.spread, self.axes.axes
        projection = nn.Linear(*axes.shape)
        projection.weight.data.copy_((axes / spread[:, None]).T)
        projection.bias.data.copy_(-(mean / spread) @ axes)
        return nn.Sequential(_Means(self.version, self.blocks), projection).to(device())


class _Means(nn.Module):
    """Network that computes the outputs of an `ImageNetEncoder` before the principal axes."""

    def __init__(self, version: int, blocks: tuple[int, ...]) -> None:
        super().__init__()
        self.body, self.blocks = deepcopy(pretrained(version)), blocks

    def forward(self, x: Tensor) -> Tensor:
        return self.body.means(enlarge(x, _SIDE, torch.contiguous_format), self.blocks)


class LargerImageNetEncoder(ImageNetEncoder):
    """Encoder like `ImageNetEncoder`, but by EfficientNet-Lite2, which has more blocks and channels."""

    kind = "imagenet-lite2"
    version = 2
    blocks = (7, 11, 15, 17)


#: Map from one image (1, channels, height, width) to the network's output.
Network = Callable[[NDArray[np.float32]], Any]

_EXPECTED = "the network must map images (1, channels, height, width) of 32-bit floats to vectors (1, numbers)"
_LENGTHS = f"the length of the output differs between images; {_EXPECTED}"


class NetworkEncoder(AxesEncoder):
    """Encoder of images by a user's network from a file; `of_content` returns a subclass for one file's content."""

    kind = "of a file"
    content: ClassVar[bytes]
    network: ClassVar[Network]

    @classmethod
    def of_content(cls, content: bytes) -> type[Self]:
        """Return the encoder class for the network in `content`; raise PatebenchError if `content` cannot be read."""
        network = _read_torchscript(content) if content.startswith(b"PK") else _read_onnx(content)
        return type(cls.__name__, (cls,), {"content": content, "network": staticmethod(network)})

    @classmethod
    def of_file(cls, path: Path) -> type[Self]:
        """Return the encoder class for the network in the file `path`; raise PatebenchError for an unreadable file."""
        try:
            return cls.of_content(path.read_bytes())
        except OSError as fault:
            line = f"the file cannot be read ({fault.strerror}); give a TorchScript or ONNX file"
            raise PatebenchError(line, code="missing-file", where=path) from None
        except PatebenchError as fault:
            raise PatebenchError(str(fault), code=fault.code, where=path) from None

    @classmethod
    @torch.inference_mode()
    def outputs(cls, x: NDArray[Any], report: Report = silent) -> Tensor:
        """Return the network's outputs (samples, numbers) for images `x`, each computed independently of the others.

        `x` is (samples, channels, height, width). Raises PatebenchError if an output is not a vector of finite 32-bit
        floats, or if outputs differ in length. The output for the first image is computed twice, and PatebenchError is
        also raised if the two results differ.
        """
        if not len(x):
            return cls.outputs(np.zeros((1, *x.shape[1:]), np.uint8))[:0]
        rows = []
        for number in range(len(x)):
            rows.append(cls._vector(x[number]))
            report(number + 1, len(x))
        if len(x) > 1 and not np.array_equal(cls._vector(x[0]), rows[0]):
            line = "the network's output for an image changes between calls; give a network without state or randomness"
            raise PatebenchError(line, code="network")
        if len({len(row) for row in rows}) > 1:
            raise PatebenchError(_LENGTHS, code="network")
        return torch.from_numpy(np.stack(rows))

    def features(self, x: NDArray[Any]) -> NDArray[np.float64]:
        self.check_shape(x)
        outputs = self.outputs(x)
        if outputs.shape[1] != len(self.axes.mean):
            raise PatebenchError(_LENGTHS, code="network")
        return self.axes.units(outputs)

    def features_alone(self, x: NDArray[Any], report: Report = silent) -> NDArray[np.float64]:
        """Return the features (records, features) of private records `x`, each computed alone.

        If the network fails for a record or its output is not finite, the features of this record are the zero vector.
        No error is raised, because an error would stop the program and thereby leak a fact about a private record.
        """
        self.check_shape(x)
        return in_batches(self._features_or_zero, x, report)

    def _features_or_zero(self, record: NDArray[Any]) -> NDArray[np.float64]:
        try:
            return super().features_alone(record)
        except PatebenchError:
            return np.zeros((len(record), self.axes.axes.shape[1]))

    @classmethod
    def _vector(cls, image: NDArray[Any]) -> NDArray[np.float32]:
        try:
            output = cls.network((image[None] / 255).astype(np.float32))
            vector = output.numpy() if isinstance(output, Tensor) else output
        except Exception as fault:  # a user's own network may raise any error
            line = f"the network fails on an image of shape {image.shape} ({_cause(fault)}); {_EXPECTED}"
            raise PatebenchError(line, code="network") from None
        if not isinstance(vector, np.ndarray) or vector.ndim != 2 or len(vector) != 1 or vector.dtype.kind != "f":
            shape = f"{vector.dtype} {vector.shape}" if isinstance(vector, np.ndarray) else type(vector).__name__
            raise PatebenchError(f"the network's output for one image is {shape}; {_EXPECTED}", code="network")
        with np.errstate(over="ignore"):
            row = vector[0].astype(np.float32)
        if not np.isfinite(row).all():
            line = "the network's output contains NaN or values beyond 32-bit floats; give another network"
            raise PatebenchError(line, code="network")
        return row

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {**super().arrays(), "network": np.frombuffer(self.content, np.uint8)}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        if "network" not in arrays:
            raise PatebenchError("it lacks the array 'network', but the encoder of the pool is one from your own file")
        return super(NetworkEncoder, cls.of_content(arrays["network"].tobytes())).of(arrays)


def _read_torchscript(content: bytes) -> Network:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            network = torch.jit.load(io.BytesIO(content), map_location="cpu").eval()  # type: ignore[no-untyped-call]
    except Exception as fault:  # torch raises various errors for damaged files
        line = f"it is not a TorchScript file ({_cause(fault)}); save the network by torch.jit.save"
        raise PatebenchError(line, code="network") from None
    return lambda image: network(torch.from_numpy(image))


def _read_onnx(content: bytes) -> Network:
    try:
        import onnxruntime
    except ImportError:
        line = "onnxruntime, which reads ONNX files, is not installed; run pip install patebench[encoders]"
        raise PatebenchError(line, code="missing") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        (name,) = (entry.name for entry in session.get_inputs())
    except Exception as fault:  # onnxruntime raises various errors for damaged files
        line = f"it is neither a TorchScript file nor an ONNX file with one input ({_cause(fault)}); export it again"
        raise PatebenchError(line, code="network") from None
    return lambda image: session.run(None, {name: image})[0]


def _cause(fault: Exception) -> str:
    """Return the cause of the error `fault`: the first sentence of the last line of its message."""
    lines = str(fault).strip().splitlines()
    return lines[-1].strip().partition(". ")[0].rstrip(".")[:200] if lines else type(fault).__name__
