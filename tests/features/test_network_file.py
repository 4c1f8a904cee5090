"""Test encoders from a user's own network in a TorchScript or ONNX file, and files that are refused."""

import base64
import hashlib
import io
import pickle
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.refusals import refuses
from tests.stages.digits import Divided
from torch import Tensor, nn

from patebench.artefacts.reading import read_encoder
from patebench.artefacts.records import split_columns
from patebench.config.parameters import SplitParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays
from patebench.core.formats import ENCODER, FEATURES, POOL
from patebench.features.trained_networks import NetworkEncoder
from patebench.stages import extract_features

#: ONNX network that multiplies the 4 pixels of an image by `WEIGHTS`; it was written by the package onnx.
ONNX = zlib.decompress(
    base64.b85decode(
        b"c-rIOuv*H<CBwy7A;g%b#O{`pSW=Rjr^U_1l30;hEWx;dk%>!?i!qIhv0R9;Qi;tsvBbADM~E?9%bJ6QgIR#liLu<"
        b"vfPtaGo&f?JAQXt-uph{U^5NhBNG=L&p*WW)2cwW67qbv!9v2e_BM>uzaFPfYW2F#37cWqj6DG^-#KOfOzzYEPM;EI"
    )
)
WEIGHTS = np.array([[1, 0, 2], [0, 1, -1], [3, 0, 0], [0, -2, 1]], np.float32)
IMAGES = np.random.default_rng(0).integers(0, 256, (9, 1, 2, 2), dtype=np.uint8)


class Linear(nn.Module):
    """The same network as `ONNX`, with a batch normalisation that changes nothing in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.weights, self.norm = nn.Parameter(torch.from_numpy(WEIGHTS)), nn.BatchNorm1d(3, eps=1e-9)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.flatten(1) @ self.weights)


class Counting(Linear):
    """Network whose output is multiplied by the number of images so far."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("images", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.images += 1
        return x.flatten(1) * self.images


class Flat(Linear):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten()


class Infinite(Linear):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).log()


class Extreme(Linear):
    """Network whose output for an image with the first pixel 255 is extreme in the way of the number `fault`."""

    def __init__(self, fault: int) -> None:
        super().__init__()
        self.fault = fault

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1).double()
        if float(flat[0, 0]) < 1:
            return flat
        if self.fault == 5:
            return flat[:, :1]
        if self.fault == 6:
            return flat.to(torch.bfloat16)
        assert self.fault < 7
        return flat * [1e300, 1e38, 3e38, float("inf"), float("nan")][self.fault]


def script(network: nn.Module) -> bytes:
    """Return the TorchScript file of a network."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(network), file)
    return file.getvalue()


def onnx() -> bytes:
    pytest.importorskip("onnxruntime")
    return ONNX


@pytest.mark.parametrize("content", [lambda: script(Linear()), onnx], ids=["torchscript", "onnx"])
def test_a_network_encodes_images_alone_and_from_the_artefact(content) -> None:
    kind = NetworkEncoder.of_content(content())
    expected = (IMAGES.reshape(9, 4) / 255).astype(np.float32) @ WEIGHTS
    np.testing.assert_allclose(kind.outputs(IMAGES), expected, rtol=1e-5)
    np.testing.assert_array_equal(kind.outputs_alone(IMAGES), kind.outputs(IMAGES))
    encoder = kind.learn(IMAGES)
    alone = encoder.features_alone(IMAGES)
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1)
    np.testing.assert_array_equal(encoder.features_alone(IMAGES[::-1].copy())[::-1], alone)
    np.testing.assert_array_equal(NetworkEncoder.of(encoder.arrays()).features_alone(IMAGES), alone)


@pytest.mark.parametrize("network", [Counting, Flat, Infinite])
def test_outputs_with_state_another_shape_or_infinite_values_are_refused(network: type[Linear]) -> None:
    images = IMAGES.copy()
    images[0, 0, 0, 0] = 0
    with refuses("network"):
        NetworkEncoder.of_content(script(network())).learn(images)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("fault", range(8))
def test_no_private_record_stops_the_encoder_or_has_long_or_infinite_features(fault: int) -> None:
    """Outputs may be beyond 32-bit floats, beyond them once standardised, infinite, NaN, refused or missing."""
    pool, records = IMAGES.copy(), IMAGES.copy()
    pool[:, 0, 0, 0], pool[:, 0, 0, 1], records[1] = np.arange(9), 9, 255
    encoder = NetworkEncoder.of_content(script(Extreme(fault))).learn(pool)
    ordinary, vectors = encoder.features_alone(IMAGES), encoder.features_alone(records)
    assert np.linalg.norm(vectors, axis=1).max() <= 1 + 1e-6
    assert not vectors[1].any()
    np.testing.assert_array_equal(np.delete(vectors, 1, axis=0), np.delete(ordinary, 1, axis=0))
    if fault not in (1, 2):
        with refuses("network"):
            encoder.features(records)


def test_images_that_the_network_does_not_accept_are_refused() -> None:
    kind = NetworkEncoder.of_content(script(Linear()))
    with refuses("network"):
        kind.learn(np.zeros((3, 1, 5, 5), np.uint8))
    with refuses("shape"):
        kind.learn(np.zeros((3, 4), np.float32))
    arrays = kind.learn(IMAGES).arrays()
    with pytest.raises(PatebenchError):
        NetworkEncoder.of({name: array for name, array in arrays.items() if name != "network"})
    with pytest.raises(PatebenchError):
        NetworkEncoder.of({**arrays, "mean": arrays["mean"][1:]})


class Trap:
    """Object whose unpickling creates the file `place`."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> object:
        return (Path.touch, (self.place,))


def test_damaged_files_are_refused_and_nothing_is_unpickled(tmp_path: Path) -> None:
    trap = Trap(tmp_path / "unpickled")
    saved = io.BytesIO()
    torch.save(trap, saved)
    cut = script(Linear())[:-100]
    for number, content in enumerate([saved.getvalue(), pickle.dumps(trap), cut, b"PK", b"", b"junk"]):
        path = tmp_path / f"{number}.pt"
        path.write_bytes(content)
        with pytest.raises(PatebenchError) as fault:
            NetworkEncoder.of_file(path)
        assert fault.value.where == str(path)
        assert fault.value.code in ("network", "missing")  # missing: onnxruntime is not installed
        assert len(str(fault.value).splitlines()) == 1
    assert not trap.place.exists()
    with refuses("missing-file", tmp_path / "none.pt"):
        NetworkEncoder.of_file(tmp_path / "none.pt")


def test_the_stage_stores_the_network_and_what_it_has_seen(tmp_path: Path) -> None:
    class Pixels(Linear):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)

    own = SplitParameters(pool=40, test=10, encoder="mine", encoder_data="LAION-400M")
    made, file = Divided(tmp_path, own, "digits/seed-0_pool-40_test-10"), tmp_path / "mine.pt"
    file.write_bytes(script(Pixels()))
    files = {"out": tmp_path / "features.npz", "encoder": tmp_path / "encoder.npz"}
    extract_features.run(pool=made.pool, network=file, seed=0, stream="features", **files)
    stored, pool = read_arrays(files["encoder"], ENCODER), read_arrays(made.pool, POOL)
    assert stored.meta["network_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert stored["network"].tobytes() == file.read_bytes()
    file.unlink()
    vectors = read_arrays(files["out"], FEATURES)["vectors"]
    np.testing.assert_array_equal(read_encoder(files["encoder"], pool).features(pool["x"]), vectors)
    columns = split_columns(made.pool, pool.meta)
    assert (columns["setting"], columns["encoder_data"]) == ("pool-40_test-10_mine", "LAION-400M")
    with refuses("network"):
        extract_features.run(pool=made.pool, seed=0, stream="features", **files)


@pytest.mark.parametrize(
    ("encoder", "seen", "code"),
    [
        ("contrastiv", None, "unknown-name"),
        ("imagenet", "LAION-400M", "value"),
        (None, "LAION-400M", "value"),
        *((name, "LAION-400M", "name") for name in ("a/b", "inverted", "test-10")),
    ],
)
def test_names_of_own_encoders_need_the_data_that_they_have_seen(
    encoder: str | None, seen: str | None, code: str
) -> None:
    with refuses(code):
        SplitParameters.checked({"pool": 40, "encoder": encoder, "encoder_data": seen}, "split")
