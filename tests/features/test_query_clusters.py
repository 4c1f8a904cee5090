"""Test clusters of the pool: their number, sizes and nearness, and the labels assigned to them."""

import json
from functools import cache
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from patebench.cli import cli
from patebench.core.errors import PatebenchError
from patebench.core.files import write_arrays
from patebench.core.formats import FEATURES
from patebench.features import query_clusters
from patebench.features.query_clusters import (
    FOR_EACH_CLASS,
    QueryClusters,
    choose,
    clustered,
    majority,
    nearest_samples,
    one_to_one,
)


def heaps(sizes: list[int]) -> np.ndarray:
    """Return samples in distant heaps with the numbers of samples `sizes`."""
    rng = np.random.default_rng(0)
    corners = np.eye(len(sizes)) / 2
    parts = [corners[heap] + rng.normal(0, 0.01, (size, len(sizes))) for heap, size in enumerate(sizes)]
    return np.concatenate(parts)


def test_expected_votes_are_the_heaps_share_of_the_records() -> None:
    found = choose(heaps([300, 100]), teachers=4000, sigma=1, classes=2).looked_at[0]
    assert (found.clusters, found.fewest_votes, found.median_votes, found.hidden) == (2, 1000, 2000, 0)
    noisy = choose(heaps([50, 50]), teachers=100, sigma=1000, classes=2)
    assert (noisy.clusters, noisy.enough) == (2, False)


ANGLES = np.arange(960) * 2 * np.pi / 960
CIRCLE = np.c_[np.cos(ANGLES), np.sin(ANGLES)] / 2


@cache
def clustered_circle(clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Cluster the circle, once for all amounts of noise."""
    return clustered(CIRCLE, clusters)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sigma", "clusters"),
    [
        (0, 10),  # as many as ever help
        (30, 10),  # 100 votes in each tenth, 60 needed
        (60, 8),  # 125 votes in each eighth, 120 needed
        (120, 4),  # 250 and 240
        (240, 2),
    ],
)
def test_as_many_as_leave_each_twice_the_noise(sigma: float, clusters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand records; one to five clusters for each of two classes, in a pool that falls into equal parts."""
    monkeypatch.setattr(query_clusters, "clustered", lambda _, clusters: clustered_circle(clusters))
    found = choose(CIRCLE, teachers=1000, sigma=sigma, classes=2)
    assert [each.clusters for each in found.looked_at] == [2, 4, 6, 8, 10]
    assert abs(found.clusters - clusters) <= 2  # k-means does not divide a circle quite evenly
    assert found.enough
    assert next(each for each in found.looked_at if each.clusters == found.clusters).hidden <= 0.05


def test_a_small_cluster_may_be_hidden_and_no_more() -> None:
    """Three heaps of four are as large as is needed; the fourth has one sample of a hundred, or ten."""
    for small, enough in ((1, True), (10, False)):
        found = choose(heaps([33, 33, 34 - small, small]), teachers=100, sigma=6, classes=4)
        assert (found.looked_at[0].hidden <= 0.05) is enough
        assert found.looked_at[0].hidden == pytest.approx(small / 100)


def test_what_can_not_be_is_one_line() -> None:
    with pytest.raises(PatebenchError, match="a pool of 3 samples is too small for 4 clusters"):
        choose(np.eye(3), teachers=10, sigma=1, classes=4)
    with pytest.raises(PatebenchError, match="sigma = -1 is not a standard deviation"):
        choose(np.eye(3), teachers=10, sigma=-1, classes=2)
    small = choose(np.eye(5), teachers=10, sigma=0, classes=2)
    assert [each.clusters for each in small.looked_at] == [2, 4]  # there are no more samples


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "features.npz"
    write_arrays(path, FEATURES, {"vectors": heaps([300, 100])}, {"pool": "p", "encoder": "e"})
    given = ["choose-clusters", "--features", str(path), "--teachers", "4000", "--sigma", "10", "--classes", "2"]
    shown, told = (CliRunner().invoke(cli, [*given, *more]) for more in ([], ["--json"]))
    assert "Use 10 clusters: noise hides the label for at most 5% of the pool" in " ".join(shown.output.split())
    assert json.loads(told.output)["clusters"] == 2 * FOR_EACH_CLASS
    assert json.loads(told.output)["looked_at"][0]["median_votes"] == 2000


def test_sizes_are_shares_of_the_pool_and_near_clusters_are_second_choices():
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [0.1, 0.0], [0.9, 0.0], [0.9, 0.1]])
    features = np.repeat(places, [10, 20, 30, 40], axis=0) + rng.uniform(-0.01, 0.01, size=(100, 2))
    known = QueryClusters.of(features, np.array([0, 10, 30, 60]))
    assert known.sizes == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert np.array_equal(known.nearness, np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]))
    alone = QueryClusters.of(np.zeros((5, 2)), np.array([2]))
    assert (alone.sizes.tolist(), alone.nearness.tolist()) == ([1.0], [[0.0]])


def test_a_later_round_takes_of_clusters_that_had_their_votes_before():
    """20 samples at 0, 30 near 1 and 50 around 0.9: the third query takes those from the second one's cluster."""
    features = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.9, 0.0]], [20, 30, 50], axis=0)
    known = QueryClusters.of(features, np.array([0, 20, 50]), rounds=[2, 1])
    assert known.sizes == pytest.approx([0.2, 0.3, 0.5])
    assert known.sizes_at_vote == pytest.approx([0.2, 0.8, 0.5])
    assert QueryClusters.of(features, np.array([0, 20, 50])).sizes_at_vote == pytest.approx(known.sizes)


def test_the_nearest_sample_to_each_mean_and_none_twice():
    distance = np.array([[0.1, 0.2, 5.0], [0.5, 0.3, 0.2], [0.6, 0.9, 0.1]])
    np.testing.assert_array_equal(nearest_samples(distance), [0, 1, 2])


def test_no_naming_of_clusters_makes_more_samples_right() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        member, truth = rng.integers(0, 4, 30), rng.integers(0, 3, 30)
        names = majority(member, truth, 5, 3)
        assert names[4] == 0, "an empty cluster has a name too"
        assert right(names, member, truth) == max(right(each, member, truth) for each in product(range(3), repeat=4))
        once = one_to_one(member, truth, 4)
        assert sorted(once) == [0, 1, 2, 3]
        assert right(once, member, truth) == max(right(each, member, truth) for each in permutations(range(4)))


def right(names: object, member: np.ndarray, truth: np.ndarray) -> int:
    return int(np.sum(np.array(names)[member] == truth))
