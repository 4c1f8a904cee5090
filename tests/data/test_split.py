"""The split: sizes of the papers, nothing on two sides, and the same bytes for the same seed."""

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import Artefact, read_arrays
from patebench.core.formats import POOL, SAMPLES, TRUTH
from patebench.data import stage
from patebench.data.split import Split, check_apart, content, divide

Writer = Callable[..., Path]


def numbered(first: int, samples: int) -> np.ndarray:
    """Distinct images (samples, 1, 2, 2): the four bytes spell a number."""
    return np.arange(first, first + samples, dtype="<u4").view(np.uint8).reshape(samples, 1, 2, 2)


def numbers(x: np.ndarray) -> list[int]:
    return [int(number) for number in x.reshape(len(x), 4).view("<u4")[:, 0]]


def run(folder: Path, private: Path, public: Path, pool: int, test: int | None, seed: int = 0) -> list[Artefact]:
    outs = [folder / f"out-{name}.npz" for name in ("pool", "truth", "test")]
    stage.split(private, public, pool, test, seed, "tiny/seed-0", *outs)
    return [read_arrays(path, layout) for path, layout in zip(outs, (POOL, TRUTH, SAMPLES), strict=True)]


@pytest.mark.parametrize(
    ("private", "public", "pool", "test"), [(60000, 10000, 9000, 1000), (604388, 26032, 10000, 16032)]
)
def test_the_papers_sizes(private: int, public: int, pool: int, test: int) -> None:
    """MNIST and SVHN (PATE 2017, Section 4): pool and test set use all public samples, each once."""
    contents = np.arange(private + public, dtype=np.uint64)
    parts = divide(contents[:private], contents[private:], pool, None, np.random.default_rng(0))
    assert (len(parts.pool), len(parts.test), parts.in_private, parts.in_pool) == (pool, test, 0, 0)
    assert sorted([*parts.pool, *parts.test]) == list(range(public))
    assert not (np.diff(parts.pool) == 1).all()


def test_mnist_of_the_paper(tmp_path: Path, data_root: Path) -> None:
    paths = {name: tmp_path / f"{name}.npz" for name in ("private", "public")}
    stage.make_data("mnist", data_root, {}, False, paths["private"], paths["public"])
    pool, truth, test = run(tmp_path, paths["private"], paths["public"], 9000, 1000)
    private = stage.read_samples(paths["private"], "private")
    assert (len(pool["x"]), len(truth["y"]), len(test["x"])) == (9000, 9000, 1000)
    sides = [{image.tobytes() for image in part["x"]} for part in (private, pool, test)]
    assert [len(side) for side in sides] == [60000, 9000, 1000]
    assert len(set.union(*sides)) == 70000


def test_samples_keep_their_labels_and_rows(tmp_path: Path, write_samples: Writer) -> None:
    x, y = numbered(1000, 40), np.arange(40) % 3
    private = write_samples("private", numbered(0, 30), np.zeros(30, int))
    public = write_samples("public", x, y)
    pool, truth, test = run(tmp_path, private, public, 25, 10)
    np.testing.assert_array_equal(pool["x"], x[pool["row"]])
    np.testing.assert_array_equal(truth["y"], y[pool["row"]])
    np.testing.assert_array_equal(test["x"], x[test["row"]])
    np.testing.assert_array_equal(test["y"], y[test["row"]])
    assert len({*pool["row"], *test["row"]}) == 35


def test_the_meta_data_tell_where_the_parts_come_from(tmp_path: Path, write_samples: Writer) -> None:
    private = write_samples("private", numbered(0, 30), np.zeros(30, int))
    public = write_samples("public", numbered(100, 20), np.zeros(20, int))
    pool, truth, test = run(tmp_path, private, public, 12, None)
    assert truth.meta["pool"] == test.meta["pool"] == pool.digest
    assert pool.meta["public"] == read_arrays(public, SAMPLES).digest
    assert test.meta["role"] == "test"
    assert "y" not in pool.arrays
    assert [part.meta["classes"] for part in (pool, truth, test)] == [3, 3, 3]


def test_planted_duplicates_are_left_out_counted_and_logged(
    tmp_path: Path, write_samples: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """Three public samples are private; one other sample stands in the public data six times."""
    caplog.set_level(logging.INFO, "patebench")
    stolen, repeated = numbered(5, 3), np.repeat(numbered(777, 1), 6, axis=0)
    private = write_samples("private", numbered(0, 30), np.zeros(30, int))
    public = write_samples("public", np.concatenate([numbered(1000, 31), stolen, repeated]), np.zeros(40, int))
    for seed in range(5):
        pool, truth, test = run(tmp_path, private, public, 20, None, seed)
        assert not set(numbers(pool["x"])) & set(numbers(test["x"]))
        assert not set(range(30)) & {*numbers(pool["x"]), *numbers(test["x"])}
        assert truth.meta["removed_duplicates"] == 3
        asked = numbers(pool["x"]).count(777)
        assert test.meta["removed_duplicates"] == (6 - asked if asked else 0)
        assert len(test["x"]) == 37 - 20 - test.meta["removed_duplicates"]
        assert "left out 3 public samples that are private" in caplog.text


def test_another_seed_or_stream_gives_another_split_and_the_same_gives_the_same_bytes(
    tmp_path: Path, write_samples: Writer
) -> None:
    private = write_samples("private", numbered(0, 30), np.zeros(30, int))
    public = write_samples("public", numbered(100, 40), np.zeros(40, int))
    outs = [tmp_path / f"{name}.npz" for name in "abc"]

    def pool_bytes(seed: int, stream: str) -> bytes:
        stage.split(private, public, 20, 20, seed, stream, *outs)
        return outs[0].read_bytes()

    first = pool_bytes(0, "d/seed-0")
    assert pool_bytes(0, "d/seed-0") == first
    assert pool_bytes(1, "d/seed-0") != first
    assert pool_bytes(0, "d/seed-1") != first


few = st.lists(st.integers(0, 12), min_size=1, max_size=40).map(lambda values: np.array(values, dtype=np.uint64))


@given(private=few, public=few, pool=st.integers(1, 10), test=st.none() | st.integers(1, 10), seed=st.integers(0, 99))
def test_no_content_is_on_two_sides_and_none_is_left_out_without_need(
    private: np.ndarray, public: np.ndarray, pool: int, test: int | None, seed: int
) -> None:
    fresh = [int(value) for value in public if value not in private]
    try:
        parts = divide(private, public, pool, test, np.random.default_rng(seed))
    except PatebenchError:
        # whatever pool was drawn, at most `pool` distinct contents are in it and all their copies are lost
        copies = sorted((fresh.count(value) for value in set(fresh)), reverse=True)
        assert len(fresh) < pool or len(fresh) - sum(copies[:pool]) < (test or 1)
        return
    asked, tested = public[parts.pool], public[parts.test]
    assert not set(asked) & set(private)
    assert not set(tested) & (set(private) | set(asked))
    assert len(set(parts.pool)) == pool == len(parts.pool)
    assert len(set(parts.test)) == len(parts.test)
    assert parts.in_private == len(public) - len(fresh)
    unseen = sum(value not in asked for value in fresh)
    assert len(parts.test) == (unseen if test is None else test)
    assert parts.in_pool == len(fresh) - pool - unseen


def test_equal_samples_have_equal_contents_and_others_do_not() -> None:
    x = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4)).astype(np.uint8)
    doubled = np.concatenate([x, x[::-1]])
    np.testing.assert_array_equal(content(doubled)[:50], content(doubled)[50:][::-1])
    assert len(set(content(x))) == 50
    changed = x.copy()
    changed[7, 2, 3, 3] ^= 1
    assert np.flatnonzero(content(changed) != content(x)).tolist() == [7]


def test_the_two_zeros_are_one_content() -> None:
    table = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]], dtype=np.float32)
    first, second, third = content(table)
    assert first == second != third


def test_parts_that_share_a_sample_are_refused() -> None:
    a, b, c = (np.array(values, dtype=np.uint64) for values in ([1, 2, 3], [4, 5], [5, 6, 5]))
    check_apart(private=a, pool=b, test=np.array([7], dtype=np.uint64))
    with pytest.raises(PatebenchError, match="are in the pool part and in the test part"):
        check_apart(private=a, pool=b, test=c)


def test_the_stage_checks_what_it_is_about_to_write(
    tmp_path: Path, write_samples: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the division went wrong, no file with a sample on two sides is written."""
    private = write_samples("private", numbered(0, 30), np.zeros(30, int))
    public = write_samples("public", numbered(29, 40), np.zeros(40, int))
    for pool, test, sides in (
        ([0, 1], [2], "private part and in the pool"),
        ([3, 4], [4], "pool part and in the test"),
    ):
        wrong = Split(np.array(pool), np.array(test), 0, 0)
        monkeypatch.setattr(stage, "divide", lambda *given, wrong=wrong: wrong)
        with pytest.raises(PatebenchError, match=sides):
            run(tmp_path, private, public, 2, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["private.npz", "public.npz"]


@pytest.mark.parametrize(
    ("pool", "test", "words"),
    [
        (41, None, "40 public samples, less 0 that are private and 0 that are in the pool, are too few"),
        (40, None, "too few for a pool of 40 and any test samples"),
        (30, 11, "too few for a pool of 30 and 11 test samples"),
        (0, 10, "both need at least one sample"),
        (10, 0, "both need at least one sample"),
        (-3, None, "both need at least one sample"),
    ],
)
def test_sizes_that_can_not_work_are_refused(
    tmp_path: Path, write_samples: Writer, pool: int, test: int | None, words: str
) -> None:
    private = write_samples("private", numbered(0, 30), np.zeros(30, int))
    public = write_samples("public", numbered(100, 40), np.zeros(40, int))
    with pytest.raises(PatebenchError, match=words):
        run(tmp_path, private, public, pool, test)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["private.npz", "public.npz"]


def test_files_in_the_wrong_place_are_refused(tmp_path: Path, write_samples: Writer) -> None:
    private = write_samples("private", numbered(0, 30), np.zeros(30, int))
    public = write_samples("public", numbered(100, 40), np.zeros(40, int), dataset="other")
    with pytest.raises(ArtefactError, match="it holds the private samples where the public ones are needed"):
        run(tmp_path, private, private, 10, None)
    with pytest.raises(ArtefactError, match=r"public\.npz: it was made with another dataset than .*private\.npz"):
        run(tmp_path, private, public, 10, None)
    public = write_samples("public", np.zeros((40, 2), np.float32), np.zeros(40, int))
    with pytest.raises(ArtefactError, match="another shape or dtype"):
        run(tmp_path, private, public, 10, None)
