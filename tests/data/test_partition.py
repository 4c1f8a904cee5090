"""Test partitions: each sample has one owner, skewed shares are exact, and impossible requests are refused."""

import hashlib
import itertools
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from patebench.core.errors import PatebenchError
from patebench.core.seeds import Mode
from patebench.data.partitions import (
    PARTITIONS,
    Change,
    PartitionInputs,
    by_owner,
    by_row,
    check_disjoint,
    check_every_class,
    default_strategy,
    iid,
    owners,
    pack,
    skew,
)

labels = st.lists(st.integers(0, 3), min_size=1, max_size=60).map(np.array)
seeds = st.integers(0, 99)


def inputs(y: np.ndarray, seed: int = 0, classes: int = 4, **parameters: Any) -> PartitionInputs:
    given = {"rows": np.arange(len(y)), "key": bytes([seed]), **parameters}
    return PartitionInputs(y=y, classes=classes, rng=np.random.default_rng(seed), **given)


def shards(assignment: np.ndarray) -> list[np.ndarray]:
    """Return the shards, checked to be disjoint and to cover all samples."""
    indices, offsets = pack(assignment, int(assignment.max()) + 1)
    check_disjoint(indices, offsets, len(assignment))
    assert sorted(indices) == list(range(len(assignment)))
    return [indices[start:end] for start, end in itertools.pairwise(offsets)]


@given(labels, st.integers(1, 60), seeds)
def test_iid_deals_all_samples_in_nearly_equal_shards(y: np.ndarray, teachers: int, seed: int) -> None:
    if teachers > len(y):
        with pytest.raises(PatebenchError, match=f"there are {teachers} teachers, but only {len(y)} private sample"):
            iid(inputs(y, seed, teachers=teachers))
        return
    sizes = [len(shard) for shard in shards(iid(inputs(y, seed, teachers=teachers)))]
    assert len(sizes) == teachers
    assert max(sizes) - min(sizes) <= 1


def test_iid_gives_each_sample_to_each_teacher_alike() -> None:
    """Expect sample 0 in 1,000 of 4,000 partitions for each of 4 teachers; five standard deviations are 137."""
    rng = np.random.default_rng(0)
    y = np.zeros(6, int)
    first = [iid(replace(inputs(y, teachers=4), rng=rng))[:2] for _ in range(4000)]
    sizes = np.array([2, 2, 1, 1]) / 6
    for sample in range(2):
        counts = np.bincount([given[sample] for given in first], minlength=4)
        assert (np.abs(counts - 4000 * sizes) < 5 * np.sqrt(4000 * sizes * (1 - sizes))).all()


def possible(y: np.ndarray, teachers: int, share: float) -> bool:
    """Return True if a partition exists, by the maximum flow from labels to main part and rest of each shard."""
    sizes = [len(part) for part in np.array_split(y, teachers)]
    quotas = [int(np.floor(share * size + 0.5)) for size in sizes]
    source, sink = 4, 5
    capacity = np.zeros((6 + 2 * teachers, 6 + 2 * teachers), dtype=np.int32)
    capacity[source, :4] = np.bincount(y, minlength=4)
    for teacher, (size, quota) in enumerate(zip(sizes, quotas, strict=True)):
        main, rest = 6 + 2 * teacher, 7 + 2 * teacher
        capacity[:4, rest] = len(y)
        capacity[teacher % 4, [main, rest]] = len(y), 0
        capacity[main, sink], capacity[rest, sink] = quota, size - quota
    return bool(maximum_flow(csr_array(capacity), source, sink).flow_value == len(y))


@given(labels, st.integers(1, 12), st.floats(0.01, 1), seeds)
def test_skew_gives_the_exact_share_or_refuses_what_is_impossible(
    y: np.ndarray, teachers: int, share: float, seed: int
) -> None:
    teachers = min(teachers, len(y))
    try:
        assignment = skew(inputs(y, seed, teachers=teachers, share=share))
    except PatebenchError:
        assert not possible(y, teachers, share)
        return
    for teacher, shard in enumerate(shards(assignment)):
        assert len(shard) == len(np.array_split(y, teachers)[teacher])
        assert (y[shard] == teacher % 4).sum() == np.floor(share * len(shard) + 0.5)


def test_skew_draws_both_parts_at_random() -> None:
    y = np.arange(400) % 4
    first, second = (skew(inputs(y, seed, teachers=4, share=0.5)) for seed in (0, 1))
    for main in (y == first, y != first):
        assert (first[main] != second[main]).any()


SKEWED = [2, 20, 20, 20]


@pytest.mark.parametrize(
    ("counts", "parameters", "words"),
    [
        (
            SKEWED,
            {"teachers": 4, "share": 0.5},
            "need 8 private samples of this label, but there are 2",
        ),
        (SKEWED, {"teachers": 1, "share": 0.01}, "with this main label take only|with main label 0"),
        (SKEWED, {"teachers": 4, "share": 0.0}, "the share 0.0 is invalid"),
        (SKEWED, {"teachers": 4, "share": 1.01}, "give 0 < share ≤ 1"),
        (SKEWED, {"teachers": 4, "share": float("nan")}, "give 0 < share ≤ 1"),
        (SKEWED, {"teachers": 4, "share": None}, "give 0 < share ≤ 1"),
        (SKEWED, {"teachers": 63, "share": 0.5}, "there are 63 teachers, but only 62 private samples; use at most 62"),
        (SKEWED, {"teachers": None, "share": 0.5}, "use at least one"),
        (
            [1, 9, 1, 1],
            {"teachers": 4, "share": 0.3},
            "label 1 has 9 private .* take only 1, .* room for only 6 more",
        ),
    ],
)
def test_skew_refuses(counts: list[int], parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(PatebenchError, match=words):
        skew(inputs(np.repeat(np.arange(4), counts), **parameters))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40).map(np.array))
def test_owners_keep_their_samples_and_become_teachers_in_order(column: np.ndarray) -> None:
    parts = shards(owners(inputs(np.zeros(len(column), int), owners=207 * column)))
    assert [set(column[part]) for part in parts] == [{identity} for identity in sorted(set(column))]


@pytest.mark.parametrize(
    ("column", "teachers", "words"),
    [
        (
            np.array([0, 1, 3, 0, 1, 3]),
            4,
            r"owners of the 4 teachers are 0 … 3, but .* to owner 2; set .* to 3",
        ),
        (np.array([0, 1, 2, 0, 1, 9]), 3, "there are 4 owners and 3 teachers"),
        (np.array([0, 1, 2, 0, 1]), 3, r"shape \(5,\); give one integer for each of the 6 samples"),
        (np.zeros((6, 1), int), 1, "give one integer for each"),
        (np.zeros(6), 1, "the owners have dtype float64"),
        (np.array([0, 1, -1, 0, 1, 2]), 3, "the owners contain -1"),
        (None, 3, "needs the owner of each record"),
    ],
)
def test_owners_refuse(column: np.ndarray | None, teachers: int, words: str) -> None:
    with pytest.raises(PatebenchError, match=words):
        owners(inputs(np.zeros(6, int), owners=column, teachers=teachers))


def test_rows_are_hashed_with_their_key() -> None:
    """Expect 64 bits of BLAKE2b, little-endian, modulo the number of teachers."""
    rows, key = np.array([0, 1, 5, 2**40]), b"a key"
    expected = [
        int.from_bytes(hashlib.blake2b(struct.pack("<Q", row), key=key, digest_size=8).digest(), "little") % 7
        for row in rows.tolist()
    ]
    sample = inputs(np.zeros(8, int), rows=np.tile(rows, 2), key=key, teachers=7)
    assert by_row(sample).tolist() == expected * 2
    assert by_owner(replace(sample, rows=np.arange(8), owners=sample.rows)).tolist() == expected * 2
    assert by_row(replace(sample, key=b"another")).tolist() != expected * 2


@pytest.mark.parametrize("strategy", [by_row, by_owner])
def test_hashes_refuse_what_leaves_a_teacher_without_samples(strategy: Callable[[PartitionInputs], Any]) -> None:
    for teachers, words in ((None, "use at least one"), (7, "there are 7 teachers, but only 6 private samples")):
        with pytest.raises(PatebenchError, match=words):
            strategy(inputs(np.zeros(6, int), teachers=teachers, owners=np.arange(6)))
    with pytest.raises(PatebenchError, match="needs the owner of each record"):
        by_owner(inputs(np.zeros(6, int), teachers=2))


# --- protection of a strategy ---


class Record(NamedTuple):
    """Private record in a `row` of the data, with its `owner`, content `x` and label `y`."""

    row: int
    owner: int
    x: int
    y: int


records = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=12, max_size=40).map(
    lambda drawn: [Record(row, owner, 0, y) for row, (owner, y) in enumerate(drawn)]
)


def held(name: str, data: list[Record], seed: int, teachers: int | None = 5) -> list[set[Record]]:
    """Return the records of each teacher."""
    rows, owned, _, y = (np.array(column) for column in zip(*data, strict=True))
    parameters = {"share": 0.3} if PARTITIONS.fact(name, "parameter") == "share" else {}
    given = inputs(y, seed, rows=rows, owners=owned, teachers=teachers, **parameters)
    assignment = PARTITIONS.load(name)(given)
    found: list[set[Record]] = [set() for _ in range(teachers or len(set(owned)))]
    for record, teacher in zip(data, assignment, strict=True):
        found[teacher].add(record)
    return found


def altered(data: list[Record], change: Change, draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Record]:
    """Return the data after a change of this kind, for any replacement."""
    chosen = draw(st.sampled_from(data))
    others = [record for record in data if record != chosen]
    new = Record(len(data) + draw(st.integers(0, 9)), chosen.owner, 1, draw(st.integers(0, 3)))
    match change:
        case Change.REPLACE:
            return [new._replace(row=chosen.row) if record == chosen else record for record in data]
        case Change.REMOVE:
            return others
        case Change.ADD:
            return [*data, new]
        case Change.OWNER:
            others = [record for record in data if record.owner != chosen.owner]
            own = [record for record in data if record.owner == chosen.owner]
            kept = [record._replace(x=2, y=new.y) for record in own if draw(st.booleans())]
            return sorted([*others, *kept, new])
        case Change.LEAVE:
            return [record for record in data if record.owner != chosen.owner] or [*data, new._replace(owner=99)]


CLAIMS = [(name, change) for name in PARTITIONS for change in PARTITIONS.fact(name, "protects")]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "change"), CLAIMS)
@given(data=records, seed=seeds, draws=st.data())
def test_what_a_strategy_protects_alters_one_shard_at_most(
    name: str, change: Change, data: list[Record], seed: int, draws: st.DataObject
) -> None:
    teachers, changed = None if name == "owners" else 5, altered(data, change, draws.draw)
    assume(len(changed) >= 5)
    before, after = (held(name, each, seed, teachers) for each in (data, changed))
    assert len(before) == len(after)
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1


def test_what_skew_and_iid_do_not_protect() -> None:
    """Another label (skew) or a removed record (iid) moves many other records."""
    data = [Record(row, 0, 0, row % 4) for row in range(300)]
    relabelled = [data[0]._replace(y=1), *data[1:]]

    def moved(name: str, after: list[Record]) -> int:
        """Return the number of rows that belong to another teacher after the change."""
        before, after_it = (
            {record.row: teacher for teacher, shard in enumerate(held(name, each, 0, 10)) for record in shard}
            for each in (data, after)
        )
        return sum(before[row] != after_it[row] for row in before.keys() & after_it.keys())

    assert PARTITIONS.fact("skew", "protects") == ()
    assert moved("skew", relabelled) > 100
    assert Change.REMOVE not in PARTITIONS.fact("iid", "protects")
    assert moved("iid", data[1:]) > 20
    assert moved("iid", relabelled) == moved("hash", relabelled) == moved("hash", data[1:]) == 0


def test_the_page_on_teachers_says_what_each_strategy_protects() -> None:
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "teachers.md").read_text(encoding="utf-8")
    for name in PARTITIONS:
        assert f"| `{name}` | {PARTITIONS.fact(name, 'about')} | {PARTITIONS.fact(name, 'protection')} |" in page
    assert [default_strategy(mode) for mode in (Mode.SEEDED, Mode.RELEASE)] == ["iid", "hash"]


@pytest.mark.parametrize(
    ("indices", "offsets", "words"),
    [
        ([0, 1, 2, 1], [0, 2, 4], "private sample 1 belongs to both teacher 0 and teacher 1"),
        ([0, 0, 2], [0, 2, 3], "private sample 0 belongs to both teacher 0 and teacher 0"),
        ([0, 1, 2], [0, 2, 2, 3], "teacher 1 has no samples"),
        ([0, 1, 2], [0, 3, 2, 3], "teacher 1 has no samples"),
        ([0, 1, 2], [1, 3], "offsets"),
        ([0, 1, 2], [0, 2], "offsets"),
        ([0, 1, 5], [0, 3], "index outside 0 … 4"),
        ([0, 1, -1], [0, 3], "index outside"),
    ],
)
def test_shards_that_are_none_are_refused(indices: list[int], offsets: list[int], words: str) -> None:
    with pytest.raises(PatebenchError, match=words):
        check_disjoint(np.array(indices), np.array(offsets), 5)


def test_a_shard_that_lacks_a_class_is_named() -> None:
    y, assignment, names = np.array([0, 1, 2, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 1]), ["cat", "dog", "eel"]
    with pytest.raises(PatebenchError, match=r"teacher 1 has no sample of class 2 \('eel'\)"):
        check_every_class(assignment, y, names)
    check_every_class(assignment[:3], y[:3], names)
