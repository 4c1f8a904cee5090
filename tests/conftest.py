"""Fixtures that several parts share: the folder of real data sets, and tiny artefacts to work on."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from patebench.config.parameters import PartitionParameters, SplitParameters
from patebench.core.files import write_arrays
from patebench.core.formats import SAMPLES
from patebench.stages import partition, split
from tests.browsing import CHROMIUM

CLASSES = 3

# Tests have no deadline, because a busy machine is slow. Continuous integration tries the same cases in every run, so
# that failures can be reproduced.
settings.register_profile("patebench", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("patebench")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, default=None, help="number of cases of each fuzzer [default: a few]")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use one worker more than cores for tests that run the workflow, which spend a third of their time waiting."""
    return (os.cpu_count() or 1) + ("not workflow" not in config.option.markexpr)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order parallel tests: first those that run the workflow, and of these, first those that wait for SLURM."""
    items.sort(key=lambda item: (item.get_closest_marker("workflow") is None, item.path.name != "test_slurm.py"))


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Yield a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Return the folder of data sets, from the variable PATEBENCH_DATA; skip the test if the folder lacks MNIST."""
    root = Path(os.environ.get("PATEBENCH_DATA", "data"))
    if not (root / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        pytest.skip("no MNIST under PATEBENCH_DATA")
    return root


@pytest.fixture
def write_samples(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes x (samples, channels, height, width) or (samples, features) and y as SAMPLES."""

    def write(role: str, x: np.ndarray, y: np.ndarray, classes: int = CLASSES, dataset: str = "tiny") -> Path:
        path = tmp_path / f"{role}.npz"
        names = [f"class {label}" for label in range(classes)]
        facts = {"dataset": dataset, "role": role, "classes": classes, "class_names": names}
        write_arrays(path, SAMPLES, {"x": x, "y": y, "row": np.arange(len(x))}, facts)
        return path

    return write


@pytest.fixture
def tiny(tmp_path: Path, write_samples: Callable[..., Path]) -> Path:
    """Return a folder with private, public, pool, truth, test and partition: 60 + 40 images (1, 4, 4) of 3 classes.

    The pool and the test set have 20 images each, and there are 6 teachers. In images of class k, row k is bright.
    """
    rng = np.random.default_rng(0)
    for role, samples in (("private", 60), ("public", 40)):
        y = np.arange(samples) % CLASSES
        x = rng.integers(0, 100, (samples, 1, 4, 4)).astype(np.uint8)
        x[np.arange(samples), 0, y] += 120
        write_samples(role, x, y)
    private, public = tmp_path / "private.npz", tmp_path / "public.npz"
    outs = {f"{name}_out": tmp_path / f"{name}.npz" for name in ("pool", "truth", "test")}
    named = {"seed": 0, "stream": "tiny"}
    split.run(public=public, parameters=SplitParameters(pool=20), **named, **outs)
    dealt = {"teachers": 6, "parameters": PartitionParameters(), "out": tmp_path / "partition.npz", **named}
    partition.run(private=private, public=public, **dealt)
    return tmp_path
