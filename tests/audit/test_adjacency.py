"""Changes of private data do what they say, and a comparison calls by name whatever moved that may not."""

from dataclasses import replace

import numpy as np
import pytest

from patebench.audit.adjacency import (
    KINDS,
    Records,
    Traces,
    Verdict,
    World,
    choose,
    choose_of_first,
    choose_of_smallest,
    compare,
    refused,
    render,
    teachers,
)
from patebench.data.partitions import PARTITIONS

#: Twelve records of three labels and four owners; teacher i has records 3i … 3i + 2, and nobody the last one.
RECORDS = Records(
    x=np.arange(48, dtype=np.float32).reshape(12, 4),
    y=np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2]),
    rows=np.arange(12),
    owners=np.repeat(np.arange(4), 3),
)
HOLDERS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, -1])
WORLD = World(RECORDS, HOLDERS, pool=np.full((2, 4), 100, np.float32), test=np.full((2, 4), 200, np.float32))
BY_NAME = {kind.name: kind for kind in KINDS}
BEFORE = Traces({"pool.npz": "a", "classes": "3"}, ("s0", "s1", "s2"), {0: "v0", 1: "v1", 2: "v2"})


def changed(name: str, at: int = 4, world: World = WORLD) -> Records:
    return BY_NAME[name].change(world, at, np.random.default_rng(0)).records


def differing(after: Records) -> set[int]:
    """The records, by row, whose content or label is another."""
    same = zip(RECORDS.x, after.x, RECORDS.y, after.y, strict=True)
    return {i for i, (x, other, y, label) in enumerate(same) if (x != other).any() or y != label}


def test_changes_change_what_they_say() -> None:
    after = changed("replace")
    assert differing(after) == {4}
    assert after.y[4] != RECORDS.y[4]
    assert differing(changed("shard")) == differing(changed("owner")) == {3, 4, 5}
    assert np.isin(changed("shard").x[3:6, 0], RECORDS.x[[0, 1, 2, *range(6, 12)], 0]).all()
    for name, value in (("twin in pool", 100), ("twin in test", 200)):
        after = changed(name)
        assert differing(after) == {4}
        assert (after.x[4] == value).all()
        assert after.y[4] == RECORDS.y[4]


def test_an_outlier_is_beyond_all_others() -> None:
    after = changed("outlier")
    assert differing(after) == {4}
    assert after.y[4] == RECORDS.y[4]
    assert after.x[4].tolist() == [47000, -47000, 47000, -47000]
    bare = replace(WORLD, records=replace(RECORDS, x=np.zeros((12, 1), np.float32)))
    assert changed("outlier", world=bare).x[4] == 1000
    huge = replace(WORLD, records=replace(RECORDS, x=np.full((12, 2), 1e17, np.float32)))
    assert np.isfinite(np.square(changed("outlier", world=huge).x[4])).all()
    most = replace(WORLD, records=replace(RECORDS, x=np.full((12, 2), np.finfo(np.float32).max)))
    assert np.isfinite(changed("outlier", world=most).x[4]).all()
    for level, value in ((100, 255), (200, 0)):
        images = replace(WORLD, records=replace(RECORDS, x=np.full((12, 1, 5, 5), level, np.uint8)))
        after = changed("outlier", world=images)
        assert (after.x.dtype, np.unique(after.x[4]).tolist()) == (np.uint8, [value])


def test_outliers_of_a_shard_overflow_its_mean() -> None:
    after = changed("outliers")
    assert differing(after) == {3, 4}
    assert (after.y == RECORDS.y).all()
    with np.errstate(over="ignore"):
        assert np.isinf(after.x[3:6].mean(axis=0)).all()
    assert differing(changed("outliers", at=9)) == {9, 10}, "both of two"
    images = replace(WORLD, records=replace(RECORDS, x=np.full((12, 1, 5, 5), 100, np.uint8)))
    assert changed("outliers", world=images).x[3:6, 0, 0, 0].tolist() == [255, 255, 100]


def test_the_first_teacher_of_a_chunk_is_chosen() -> None:
    assert [int(HOLDERS[choose_of_first(WORLD, 7, chunk)]) for chunk in (1, 2, 3, 4)] == [2, 2, 0, 0]
    empty = replace(WORLD, holders=np.where(HOLDERS == 0, 1, HOLDERS))
    assert choose_of_first(empty, 7, 3) == 7


def test_others_keep_their_rows() -> None:
    assert changed("remove").rows.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert changed("owner leaves").rows.tolist() == [0, 1, 2, 4, 6, 7, 8, 9, 10, 11]
    after = changed("add")
    assert after.rows.tolist() == list(range(13))
    assert (after.x[:12] == RECORDS.x).all()
    assert 0 < np.abs(after.x[12] - RECORDS.x[4]).max() < 2
    for each in (changed("remove"), changed("owner leaves"), after):
        assert each.owners is not None
        assert len(each.x) == len(each.y) == len(each.rows) == len(each.owners)


def test_where_labels_deal_a_shard_keeps_its_labels() -> None:
    after = changed("shard", at=7, world=replace(WORLD, labels_deal=True))
    assert (after.y == RECORDS.y).all()


def test_bytes_stay_bytes() -> None:
    images = replace(RECORDS, x=np.full((12, 1, 5, 5), 255, np.uint8))
    after = BY_NAME["add"].change(replace(WORLD, records=images), 4, np.random.default_rng(0)).records
    assert after.x.dtype == np.uint8
    assert after.x[12].min() >= 247


def test_the_first_record_that_is_changed_has_the_rarest_label_that_a_shard_holds() -> None:
    assert {choose(WORLD, 0, np.random.default_rng(i)) for i in range(50)} == {6, 7, 8, 9, 10}
    assert {choose(WORLD, 1, np.random.default_rng(i)) for i in range(200)} == set(range(11))


def test_a_record_of_the_smallest_shard_is_any_of_it_or_the_one_that_was_chosen() -> None:
    uneven = replace(WORLD, holders=np.array([-1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 3, -1]))  # 5, 3 and 2 records
    assert {choose_of_smallest(uneven, 4, np.random.default_rng(i)) for i in range(50)} == {9, 10}
    for at in (7, 10):
        assert choose_of_smallest(uneven, at, np.random.default_rng(0)) == at


@pytest.mark.parametrize(
    ("strategy", "claimed"),
    [
        ("skew", {"shard", "outliers"}),
        ("iid", {"shard", "outliers", "replace", "outlier", "twin in pool", "twin in test"}),
        ("hash", {"shard", "outliers", "replace", "outlier", "twin in pool", "twin in test", "remove", "add"}),
        ("owners", set(BY_NAME)),
        ("hash-owners", set(BY_NAME)),
    ],
)
def test_a_partition_claims_what_it_protects(strategy: str, claimed: set[str]) -> None:
    protects = PARTITIONS.fact(strategy, "protects")
    assert {name for name, kind in BY_NAME.items() if kind.claimed(map(str, protects))} == claimed


def test_one_shard_and_its_votes_may_move() -> None:
    after = Traces(BEFORE.public, ("s0", "x", "s2"), {1: "x", 2: "v2"})
    found = compare("replace", "", BEFORE, after, claimed=True)
    assert (found.verdict, found.shards, found.votes, found.retrained) == (Verdict.HOLDS, (1,), (1,), (1, 2))
    assert found.moved == ()


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize(
    ("after", "moved"),
    [
        (replace(BEFORE, public={**BEFORE.public, "pool.npz": "b"}), "pool.npz changed"),
        (replace(BEFORE, public={"pool.npz": "a"}), "classes changed"),
        (replace(BEFORE, public={**BEFORE.public, "more.npz": "c"}), "more.npz changed"),
        (replace(BEFORE, votes={0: "v0", 1: "x", 2: "x"}), "the votes of teachers 1–2 changed, and not their shards"),
        (replace(BEFORE, shards=("x", "s1", "s2"), votes={2: "x"}), "the votes of teacher 2 changed, and not their"),
    ],
)
def test_nothing_excuses_public_things_and_strays(after: Traces, moved: str, claimed: bool) -> None:
    found = compare("add", "", BEFORE, after, claimed)
    assert found.verdict is Verdict.VIOLATED
    assert moved in found.moved[0]


@pytest.mark.parametrize(("claimed", "verdict"), [(True, Verdict.VIOLATED), (False, Verdict.NOT_CLAIMED)])
@pytest.mark.parametrize("shards", [("x", "x", "s2"), ("x", "s1"), ("x", "s1", "s2", "s3")])
def test_more_than_one_shard_may_move_where_the_partition_says_so(
    shards: tuple[str, ...], claimed: bool, verdict: Verdict
) -> None:
    found = compare("remove", "", BEFORE, replace(BEFORE, shards=shards), claimed)
    assert found.verdict is verdict
    assert found.moved == (f"2 of {max(3, len(shards))} teachers' shards moved",)


def test_a_claimed_change_may_not_be_refused() -> None:
    assert refused("remove", "", False, "no").verdict is Verdict.REFUSED
    found = refused("remove", "", True, "no")
    assert (found.verdict, found.moved) == (Verdict.VIOLATED, ("refused: no",))


def test_teachers_are_listed_shortly() -> None:
    assert teachers([]) == "no teacher"
    assert teachers([4]) == "teacher 4"
    assert teachers([0, 1, 2, 9, 11, 12]) == "teachers 0–2, 9 and 11–12"


def test_the_table_shows_verdicts() -> None:
    from rich.console import Console

    from patebench.audit.adjacency import Audited

    stray = compare("replace", "record 1", BEFORE, replace(BEFORE, votes={0: "x"}), True)
    console = Console(width=200, record=True)
    with console.capture() as captured:
        console.print(render([Audited("mine", {}, ["A note."], [stray, refused("add", "more", False, "not so")])]))
    said = captured.get()
    assert all(words in said for words in ("mine", "A note.", "violated", "refused", "not so", "record 1"))
    assert "1 of 2 changes moved more than they may." in said
