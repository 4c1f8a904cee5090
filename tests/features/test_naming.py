"""Names of clusters, against all namings."""

from itertools import permutations, product

import numpy as np

from patebench.features.query_clusters import majority, one_to_one


def right(names: tuple[int, ...], member: np.ndarray, truth: np.ndarray) -> int:
    return int(np.sum(np.array(names)[member] == truth))


def test_no_naming_makes_more_samples_right() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        member, truth = rng.integers(0, 4, 30), rng.integers(0, 3, 30)
        found = tuple(majority(member, truth, 5, 3).tolist())
        assert right(found[:4], member, truth) == max(
            right(each, member, truth) for each in product(range(3), repeat=4)
        )
        assert found[4] == 0, "an empty cluster has a name too"


def test_of_namings_that_use_each_class_once_none_is_better() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        member, truth = rng.integers(0, 4, 25), rng.integers(0, 4, 25)
        found = tuple(one_to_one(member, truth, 4).tolist())
        assert sorted(found) == [0, 1, 2, 3]
        assert right(found, member, truth) == max(right(each, member, truth) for each in permutations(range(4)))
