"""Test the stage `split`: no sample in both pool and test set, and the same bytes for the same seed."""

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.refusals import refuses

from patebench.config.parameters import SplitParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import Artefact, read_arrays
from patebench.core.formats import POOL, SAMPLES, TRUTH
from patebench.data.division import PublicSplit
from patebench.stages import split

Writer = Callable[..., Path]


def numbered(first: int, samples: int) -> np.ndarray:
    """Return distinct images (samples, 1, 2, 2) whose four bytes spell a number."""
    return np.arange(first, first + samples, dtype="<u4").view(np.uint8).reshape(samples, 1, 2, 2)


def numbers(x: np.ndarray) -> list[int]:
    return [int(number) for number in x.reshape(len(x), 4).view("<u4")[:, 0]]


def run(
    folder: Path, public: Path, pool: int, test: int | None, seed: int = 0, shift: str | None = None
) -> list[Artefact]:
    outs = {f"{name}_out": folder / f"out-{name}.npz" for name in ("pool", "truth", "test")}
    parameters = SplitParameters.checked({"pool": pool, "test": test, "pool_shift": shift})
    split.run(public=public, parameters=parameters, seed=seed, stream="tiny/seed-0", **outs)
    return [read_arrays(path, layout) for path, layout in zip(outs.values(), (POOL, TRUTH, SAMPLES), strict=True)]


def test_samples_keep_their_labels_and_rows_and_say_where_they_come_from(tmp_path: Path, write_samples: Writer) -> None:
    x, y = numbered(1000, 40), np.arange(40) % 3
    public = write_samples("public", x, y)
    pool, truth, test = run(tmp_path, public, 25, 10)
    np.testing.assert_array_equal(pool["x"], x[pool["row"]])
    np.testing.assert_array_equal(truth["y"], y[pool["row"]])
    np.testing.assert_array_equal(test["x"], x[test["row"]])
    np.testing.assert_array_equal(test["y"], y[test["row"]])
    assert len({*pool["row"], *test["row"]}) == 35
    assert "y" not in pool.arrays
    assert truth.meta["pool"] == test.meta["pool"] == pool.digest
    assert pool.meta["public"] == read_arrays(public, SAMPLES).digest
    assert test.meta["role"] == "test"
    for part in (pool, test):
        assert (part.meta["seed"], part.meta["split"]) == (0, SplitParameters(pool=25, test=10).model_dump())
    assert [part.meta["classes"] for part in (pool, truth, test)] == [3, 3, 3]


def test_a_pool_from_elsewhere_is_changed_and_nothing_else(tmp_path: Path, write_samples: Writer) -> None:
    x, y = numbered(1000, 40), np.arange(40) % 3
    public = write_samples("public", x, y)
    plain = run(tmp_path, public, 25, 10)
    quarter = [1, 3, 0, 2]  # the right column becomes the upper row
    turned = [lambda image: 255 - image, lambda image: image.ravel()[quarter].reshape(2, 2)]
    for shift, change in zip(("inverted", "rotated"), turned, strict=True):
        pool, truth, test = run(tmp_path, public, 25, 10, shift=shift)
        assert all(np.array_equal(new[0], change(old[0])) for new, old in zip(pool["x"], plain[0]["x"], strict=True))
        assert np.array_equal(pool["row"], plain[0]["row"])
        assert np.array_equal(truth["y"], plain[1]["y"])
        assert np.array_equal(test["x"], plain[2]["x"])
    table = write_samples("public", np.arange(40, dtype=np.float32)[:, None], y)
    with pytest.raises(PatebenchError, match="not images and cannot be rotated; leave 'pool_shift' out"):
        run(tmp_path, table, 25, 10, shift="rotated")
    with refuses("unknown-name"):
        run(tmp_path, public, 25, 10, shift="rotate")


def test_copies_of_queries_are_left_out_of_the_test_set_counted_and_logged(
    tmp_path: Path, write_samples: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """Use public data that contains one sample six times."""
    caplog.set_level(logging.INFO, "patebench")
    repeated = np.repeat(numbered(777, 1), 6, axis=0)
    public = write_samples("public", np.concatenate([numbered(1000, 31), repeated]), np.zeros(37, int))
    for seed in range(5):
        pool, truth, test = run(tmp_path, public, 20, None, seed)
        assert not set(numbers(pool["x"])) & set(numbers(test["x"]))
        asked = numbers(pool["x"]).count(777)
        left_out = 6 - asked if asked else 0
        assert test.meta["removed_duplicates"] == left_out
        assert len(test["x"]) == 37 - 20 - left_out
        assert "removed_duplicates" not in truth.meta
        assert f"left out {left_out} test samples that are also in the pool" in caplog.text


def test_bad_sizes_other_roles_and_a_wrong_division_leave_no_file(
    tmp_path: Path, write_samples: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = write_samples("public", numbered(100, 40), np.zeros(40, int))
    private = write_samples("private", numbered(0, 30), np.zeros(30, int))
    for pool, test, words in (
        (41, None, "40 public samples, 0 of them copies of pool samples, are too few"),
        (40, None, "too few for a pool of 40 and 1 test sample;"),
        (30, 11, "too few for a pool of 30 and 11 test samples"),
    ):
        with pytest.raises(PatebenchError, match=words):
            run(tmp_path, public, pool, test)
    with refuses("kind"):
        run(tmp_path, private, 10, None)
    monkeypatch.setattr(split, "divide", lambda *given: PublicSplit(np.array([3, 4]), np.array([4]), 0))
    with pytest.raises(PatebenchError, match="the test set contains 1 sample of the pool"):
        run(tmp_path, public, 2, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["private.npz", "public.npz"]
