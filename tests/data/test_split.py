"""The split of public samples: sizes of the papers, nothing on two sides, and what is one content."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.core.errors import PatebenchError
from patebench.data.split import check_apart, content, divide


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


@pytest.mark.parametrize(("pool", "test"), [(0, 10), (10, 0), (-3, None)])
def test_parts_without_a_sample_are_refused(pool: int, test: int | None) -> None:
    contents = np.arange(40, dtype=np.uint64)
    with pytest.raises(PatebenchError, match="both need at least one sample"):
        divide(contents[:0], contents, pool, test, np.random.default_rng(0))
