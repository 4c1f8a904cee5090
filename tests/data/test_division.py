"""Test the split of public samples: the papers' sizes, and no sample in both pool and test set."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patebench.core.errors import PatebenchError
from patebench.data.division import check_pool_and_test, digest_owners, divide, hash_samples


@pytest.mark.parametrize(("public", "pool", "test"), [(10000, 9000, 1000), (26032, 10000, 16032)])
def test_the_papers_sizes(public: int, pool: int, test: int) -> None:
    """Use every public sample once in pool or test set, for MNIST and SVHN (PATE 2017, Section 4)."""
    parts = divide(np.arange(public, dtype=np.uint64), pool, None, np.random.default_rng(0))
    assert (len(parts.pool), len(parts.test), parts.in_pool) == (pool, test, 0)
    assert sorted([*parts.pool, *parts.test]) == list(range(public))
    assert not (np.diff(parts.pool) == 1).all()


few = st.lists(st.integers(0, 12), min_size=1, max_size=40).map(lambda values: np.array(values, dtype=np.uint64))


@given(public=few, pool=st.integers(1, 10), test=st.none() | st.integers(1, 10), seed=st.integers(0, 99))
def test_no_content_is_on_two_sides_and_none_is_left_out_without_need(
    public: np.ndarray, pool: int, test: int | None, seed: int
) -> None:
    every = public.tolist()
    try:
        parts = divide(public, pool, test, np.random.default_rng(seed))
    except PatebenchError:
        # whatever pool was drawn, at most `pool` distinct contents are in it and all their copies are lost
        copies = sorted((every.count(value) for value in set(every)), reverse=True)
        assert len(every) < pool or len(every) - sum(copies[:pool]) < (test or 1)
        return
    asked, tested = public[parts.pool], public[parts.test]
    assert not set(tested) & set(asked)
    assert len(set(parts.pool)) == pool == len(parts.pool)
    assert len(set(parts.test)) == len(parts.test)
    unseen = sum(value not in asked for value in every)
    assert len(parts.test) == (unseen if test is None else test)
    assert parts.in_pool == len(every) - pool - unseen


def test_parts_that_share_a_sample_or_have_none_are_refused() -> None:
    a, b, c = (np.array(values, dtype=np.uint64) for values in ([1, 2, 3], [4, 5], [5, 6, 5]))
    check_pool_and_test(a, b)
    with pytest.raises(PatebenchError, match="the test set contains 1 sample of the pool"):
        check_pool_and_test(b, c)
    for pool, test in ((0, 10), (10, 0), (-3, None)):
        with pytest.raises(PatebenchError, match="at least one sample for each"):
            divide(np.arange(40, dtype=np.uint64), pool, test, np.random.default_rng(0))


def test_equal_samples_have_equal_contents_and_others_do_not() -> None:
    x = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4)).astype(np.uint8)
    np.testing.assert_array_equal(hash_samples(x[::-1].copy()), hash_samples(x)[::-1])
    assert len(set(hash_samples(x))) == 50
    changed = x.copy()
    changed[7, 2, 3, 3] ^= 1
    assert np.flatnonzero(hash_samples(changed) != hash_samples(x)).tolist() == [7]
    first, second, third = hash_samples(np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, -1.0]], dtype=np.float32))
    assert first == second != third, "the two zeros are one content"


def test_identical_records_that_change_owners_change_the_digest_of_owners() -> None:
    """Records 0 and 1 are identical: whoever owns one of them and record 2 differs between the two groupings."""
    x, y, rows = np.array([[7.0], [7.0], [1.0], [2.0]]), np.zeros(4, np.int64), np.arange(4)
    one, other = np.array([0, 1, 0, 1]), np.array([1, 0, 0, 1])
    assert digest_owners(x, y, one, rows) != digest_owners(x, y, other, rows)
    assert digest_owners(x, y, one, rows) == digest_owners(x, y, 1 - one, rows)
