"""Changes of private data match their descriptions, and a comparison names every output that must not change."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from patebench.audit.adjacent_data import KINDS, AuditedData, ChangeFinding, Moved, Records, Traces, World
from patebench.data.partitions import PARTITIONS

#: Twelve records of three labels and four owners; teacher i has records 3i … 3i + 2, and nobody the last one.
RECORDS = {
    "x": np.arange(48, dtype=np.float32).reshape(12, 4),
    "y": np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2]),
    "row": np.arange(12),
    "owner": np.repeat(np.arange(4), 3),
}
HOLDERS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, -1])
WORLD = World(RECORDS, HOLDERS, pool=np.full((2, 4), 100, np.float32), test=np.full((2, 4), 200, np.float32))
BEFORE = Traces({"pool.npz": "a", "classes": "3"}, {0: "s0", 1: "s1", 2: "s2"}, {0: "v0", 1: "v1", 2: "v2"})


def world_of(x: np.ndarray) -> World:
    return replace(WORLD, records={**RECORDS, "x": x})


def changed(name: str, at: int = 4, world: World = WORLD) -> Records:
    return world.change(name, at, np.random.default_rng(0))[1]


def chosen(world: World, kind: str, repeat: int, seeds: int = 50) -> set[int]:
    return {world.choose(kind, repeat, *map(np.random.default_rng, (seed, seed))) for seed in range(seeds)}


def differing(after: Records) -> set[int]:
    """Return the rows of the records whose content or label changed."""
    same = zip(RECORDS["x"], after["x"], RECORDS["y"], after["y"], strict=True)
    return {i for i, (x, other, y, label) in enumerate(same) if (x != other).any() or y != label}


@pytest.mark.parametrize(
    ("kind", "rows", "same_label"),
    [
        ("replace", {4}, False),
        ("shard", {3, 4, 5}, None),
        ("owner", {3, 4, 5}, None),
        ("twin in pool", {4}, True),
        ("twin in test", {4}, True),
        ("outlier", {4}, True),
        ("outliers", {3, 4}, True),
    ],
)
def test_changes_change_what_they_say(kind: str, rows: set[int], same_label: bool | None) -> None:
    after = changed(kind)
    assert differing(after) == rows
    if same_label is not None:
        assert (after["y"][4] == RECORDS["y"][4]) == same_label
    if kind == "shard":
        assert np.isin(after["x"][3:6, 0], RECORDS["x"][[0, 1, 2, *range(6, 12)], 0]).all()
    if kind.startswith("twin"):
        assert (after["x"][4] == {"twin in pool": 100, "twin in test": 200}[kind]).all()


def test_an_outlier_is_beyond_all_others() -> None:
    assert changed("outlier")["x"][4].tolist() == [47000, -47000, 47000, -47000]
    assert changed("outlier", world=world_of(np.zeros((12, 1), np.float32)))["x"][4] == 1000
    for value, power in ((1e17, 2), (np.finfo(np.float32).max, 1)):
        after = changed("outlier", world=world_of(np.full((12, 2), value, np.float32)))
        assert np.isfinite(after["x"][4] ** power).all()
    for level, value in ((100, 255), (200, 0)):
        after = changed("outlier", world=world_of(np.full((12, 1, 5, 5), level, np.uint8)))
        assert (after["x"].dtype, np.unique(after["x"][4]).tolist()) == (np.uint8, [value])


def test_outliers_of_a_shard_overflow_its_mean() -> None:
    with np.errstate(over="ignore"):
        assert np.isinf(changed("outliers")["x"][3:6].mean(axis=0)).all()
    assert differing(changed("outliers", at=9)) == {9, 10}, "both of two"
    images = world_of(np.full((12, 1, 5, 5), 100, np.uint8))
    assert changed("outliers", world=images)["x"][3:6, 0, 0, 0].tolist() == [255, 255, 100]


def test_others_keep_their_rows() -> None:
    assert changed("remove")["row"].tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert changed("owner leaves")["row"].tolist() == [0, 1, 2, 4, 6, 7, 8, 9, 10, 11]
    after = changed("add")
    assert after["row"].tolist() == list(range(13))
    assert (after["x"][:12] == RECORDS["x"]).all()
    assert 0 < np.abs(after["x"][12] - RECORDS["x"][4]).max() < 2
    for each in (changed("remove"), changed("owner leaves"), after):
        assert len({len(column) for column in each.values()}) == 1
    bright = changed("add", world=world_of(np.full((12, 1, 5, 5), 255, np.uint8)))
    assert bright["x"].dtype == np.uint8
    assert bright["x"][12].min() >= 247


def test_where_labels_deal_a_shard_keeps_its_labels() -> None:
    after = changed("shard", at=7, world=replace(WORLD, protects=()))
    assert (after["y"] == RECORDS["y"]).all()


def test_the_record_that_is_changed_has_first_the_rarest_label_that_a_shard_holds() -> None:
    assert chosen(WORLD, "replace", 0) == {6, 7, 8, 9, 10}
    assert chosen(WORLD, "replace", 1, seeds=200) == set(range(11))


def test_an_outlier_is_in_the_smallest_shard_or_one_of_its_size() -> None:
    uneven = replace(WORLD, holders=np.array([-1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, -1]))  # 5, 3 and 2 records
    for seed in range(50):
        usual, outlier = (uneven.choose(kind, 1, *map(np.random.default_rng, (seed, 0))) for kind in ("add", "outlier"))
        assert outlier in ({9, 10} if usual < 6 else {usual})


def test_outliers_are_those_of_the_first_teacher_of_a_chunk() -> None:
    def holders(world: World) -> set[int]:
        return {int(world.holders[at]) for at in chosen(world, "outliers", 0)}

    assert [holders(replace(WORLD, chunk=chunk)) for chunk in (1, 2, 3, 4)] == [{2, 3}, {2}, {0, 3}, {0}]
    empty = replace(WORLD, holders=np.where(HOLDERS == 0, 1, HOLDERS), chunk=3)
    assert holders(empty) == {2, 3}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("skew", {"shard", "outliers"}),
        ("iid", {"shard", "outliers", "replace", "outlier", "twin in pool", "twin in test"}),
        ("hash", {"shard", "outliers", "replace", "outlier", "twin in pool", "twin in test", "remove", "add"}),
        ("owners", set(KINDS) - {"owner gone", "owner new"}),
        ("hash-owners", set(KINDS)),
    ],
)
def test_a_partition_claims_what_it_protects(strategy: str, expected: set[str]) -> None:
    protects = PARTITIONS.fact(strategy, "protects")
    assert {kind for kind in KINDS if replace(WORLD, protects=protects).claims_one_shard(kind)} == expected


def moved(claimed: bool, after: Traces) -> ChangeFinding:
    return ChangeFinding.of("add", "", claimed, BEFORE, after)


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"public": {**BEFORE.public, "pool.npz": "b"}}, "pool.npz changed"),
        ({"public": {"pool.npz": "a"}}, "classes changed"),
        ({"public": {**BEFORE.public, "more.npz": "c"}}, "more.npz changed"),
        ({"votes": {0: "v0", 1: "x", 2: "x"}}, "the outputs of 2 teachers changed, but not their shards: 1, 2"),
        (
            {"shards": {**BEFORE.shards, 0: "x"}, "votes": {**BEFORE.votes, 2: "x"}},
            "the outputs of 1 teacher changed, but not their shards: 2",
        ),
    ],
)
def test_nothing_excuses_public_things_and_strays(changes: dict[str, Any], words: str, claimed: bool) -> None:
    found = moved(claimed, replace(BEFORE, **changes))
    assert found.verdict is Moved.VIOLATED
    assert words in found.moved[0]


@pytest.mark.parametrize("shards", [("x", "x", "s2"), ("x", "s1"), ("x", "s1", "s2", "s3")])
def test_one_shard_and_its_votes_may_move_and_more_where_the_partition_says_so(shards: tuple[str, ...]) -> None:
    one = moved(True, replace(BEFORE, shards={**BEFORE.shards, 1: "x"}, votes={**BEFORE.votes, 1: "x"}))
    assert (one.verdict, one.moved) == (Moved.HOLDS, ())
    assert (one.shards_moved, one.votes_moved, one.retrained) == ((1,), (1,), (0, 1, 2))
    for claimed, verdict in ((True, Moved.VIOLATED), (False, Moved.NOT_CLAIMED)):
        more = moved(claimed, replace(BEFORE, shards=dict(enumerate(shards))))
        assert more.verdict is verdict
        assert more.moved == (f"2 of {max(3, len(shards))} teachers' shards changed",)


def test_a_claimed_change_may_not_be_refused() -> None:
    stray = ChangeFinding.of("replace", "record 1", True, BEFORE, replace(BEFORE, votes={**BEFORE.votes, 0: "x"}))
    other = ChangeFinding.refused("add", "more", False, "not so")
    claimed = ChangeFinding.refused("remove", "", True, "no")
    assert (other.verdict, claimed.verdict) == (Moved.REFUSED, Moved.VIOLATED)
    assert claimed.moved == ("refused: no",)
    assert stray.cells()[2:] == ["violated", "the outputs of 1 teacher changed, but not their shards: 0", "—", "1 of 3"]
    assert other.cells()[2:] == ["refused", "not so", "—", "—"]
    audited = AuditedData("mine", {}, ["A note."], [stray, other])
    assert audited.violations == 1
    assert [change["verdict"] for change in audited.to_json()["changes"]] == ["violated", "refused"]
