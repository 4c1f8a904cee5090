"""Adjacent data sets in practice: how private records are changed, and whether more moves than a bound on ε allows.

A bound is for data sets that differ in one teacher's shard: one row of votes may then differ, in all queries at once,
and nothing that is public. Here are the changes, and the comparison of what two runs left behind; the runs themselves
are in `stages.adjacency`. `holds` is no proof: other records, or another change, may still move more.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.data.partitions import Change

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, eq=False)
class Records:
    """Private records: x (samples, …), labels y, rows and, where the partition asks for them, owners (samples,)."""

    x: NDArray[Any]
    y: NDArray[Any]
    rows: NDArray[Any]
    owners: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False)
class World:
    """What a change is chosen by.

    `holders` (samples,) says which teacher has a record, negative for nobody; `samples` of the pool and of the test set
    are public. Where the partition goes by labels, a shard is replaced label by label (`labels_deal`).
    """

    records: Records
    holders: NDArray[Any]
    pool: NDArray[Any]
    test: NDArray[Any]
    labels_deal: bool = False


@dataclass(frozen=True, eq=False)
class Changed:
    """Changed records, and in words what was done."""

    words: str
    records: Records


def replaced(world: World, at: int, rng: np.random.Generator) -> Changed:
    """One record gets content and label of another, which has another label."""
    ours = world.records
    others = np.flatnonzero(ours.y != ours.y[at])
    other = int(rng.choice(others)) if len(others) else int(rng.integers(len(ours.y)))
    words = f"record {at} becomes a copy of record {other}, of label {ours.y[other]}"
    return Changed(words, _with(ours, np.array([at]), np.array([other])))


def outlier(world: World, at: int, rng: np.random.Generator) -> Changed:
    """One record gets values far from all others', so that what is taken from all records together must move.

    A table's are ±1000 times the largest absolute value, in turns, beyond any maximum and any minimum; an image is all
    black or all white, whichever is farther from the mean.
    """
    ours = world.records
    x = np.array(ours.x)
    if x.dtype.kind != "f":
        x[at] = _extreme_level(ours)
        return Changed(f"all values of record {at} become {x[at].flat[0]}", replace(ours, x=x))
    largest = float(np.abs(ours.x).max()) or 1.0
    # Single precision still holds its square, where it holds those of the data.
    far = min(1000 * largest, max(largest, 1e18))
    x[at] = _in_turns(far, x[at])
    return Changed(f"the values of record {at} become ±{far:.3g}", replace(ours, x=x))


def outliers(world: World, at: int, rng: np.random.Generator) -> Changed:
    """Give extreme values to all records but one of the teacher that has this one; to both where it has two.

    Those of a table are the largest that there are, so in single precision their sum and their variance overflow.
    Their teacher may learn nothing from them, but no other teacher may change, and the run may not end.
    """
    ours = world.records
    held = np.flatnonzero(world.holders == world.holders[at])
    held = held[: max(2, len(held) - 1)]
    x, largest = np.array(ours.x), float(np.finfo(np.float32).max)
    table = x.dtype.kind == "f"
    x[held] = _in_turns(largest, x[at]) if table else _extreme_level(ours)
    words = f"±{largest:.3g}" if table else x[at].flat[0]
    return Changed(f"{len(held)} records of teacher {world.holders[at]} become {words}", replace(ours, x=x))


def _in_turns(value: float, like: NDArray[Any]) -> NDArray[Any]:
    """Return a record of the shape of `like` whose values are `value` and −`value` in turns."""
    return np.where(np.arange(like.size) % 2, -value, value).reshape(like.shape).astype(like.dtype)


def _extreme_level(ours: Records) -> int:
    """Return the grey level, black or white, that is farther from the mean of all images."""
    return 255 if ours.x.mean() < 127.5 else 0


def removed(world: World, at: int, rng: np.random.Generator) -> Changed:
    """One record less; the others keep their rows."""
    return Changed(f"record {at} is gone", _without(world.records, np.array([at])))


def added(world: World, at: int, rng: np.random.Generator) -> Changed:
    """One record more, of a new row: a copy with noise, of the same owner."""
    ours = world.records
    # Not one more than the largest, which may be the largest there is.
    free = np.setdiff1d(np.arange(len(ours.rows) + 1), ours.rows)[:1].astype(ours.rows.dtype)
    columns = [ours.y[at : at + 1], free]
    owners = None if ours.owners is None else np.concatenate([ours.owners, ours.owners[at : at + 1]])
    x, y = np.concatenate([ours.x, _noisy(ours.x[at], rng)[None]]), np.concatenate([ours.y, columns[0]])
    more = Records(x, y, np.concatenate([ours.rows, columns[1]]), owners)
    return Changed(f"a copy of record {at} with noise is there besides", more)


def shard(world: World, at: int, rng: np.random.Generator) -> Changed:
    """All records of the teacher that has this one are replaced, by copies of others' records."""
    held = np.flatnonzero(world.holders == world.holders[at])
    words = f"all {len(held)} records of teacher {world.holders[at]} become copies of others"
    if not world.labels_deal:
        return Changed(words, _with(world.records, held, _elsewhere(world, held, rng)))
    ours = world.records
    copies = np.array([int(rng.choice(np.flatnonzero(ours.y == ours.y[each]))) for each in held])
    return Changed(f"{words} with the same labels", _with(ours, held, copies))


def owner(world: World, at: int, rng: np.random.Generator) -> Changed:
    """All records of the owner of this one are replaced, by copies of others' records."""
    held = _owned(world.records, at)
    words = f"all {len(held)} records of owner {_owner(world.records, at)} become copies of others"
    return Changed(words, _with(world.records, held, _elsewhere(world, held, rng)))


def owner_leaves(world: World, at: int, rng: np.random.Generator) -> Changed:
    """An owner takes all its records away but this one."""
    held = _owned(world.records, at)
    gone = held[held != at]
    words = f"owner {_owner(world.records, at)} keeps record {at} of {len(held)} alone"
    return Changed(words, _without(world.records, gone))


def twin_in_pool(world: World, at: int, rng: np.random.Generator) -> Changed:
    """One record gets the content of a sample of the pool: were that seen in public, it would tell who is a member."""
    return _twin(world, at, world.pool, "the pool", rng)


def twin_in_test(world: World, at: int, rng: np.random.Generator) -> Changed:
    """The same with a sample of the test set."""
    return _twin(world, at, world.test, "the test set", rng)


@dataclass(frozen=True)
class Kind:
    """A way to change the private data: how, and the changes of which a partition must protect one to claim it."""

    name: str
    change: Callable[[World, int, np.random.Generator], Changed]
    protected_by: frozenset[Change] = frozenset()
    always: bool = False
    needs_owners: bool = False
    of_smallest: bool = False  # the record is one of the smallest shard
    of_first: bool = False  # the record is one of the first teacher that is trained with its own

    def claimed(self, protects: Iterable[str]) -> bool:
        """Whether a partition that protects these changes says that this one alters one shard at most."""
        return self.always or bool(self.protected_by & {Change(each) for each in protects})


def _single(change: Change) -> frozenset[Change]:
    """A change of one record is one of its owner, too."""
    return frozenset((change, Change.OWNER))


KINDS = (
    Kind("replace", replaced, _single(Change.REPLACE)),
    Kind("outlier", outlier, _single(Change.REPLACE), of_smallest=True),
    Kind("remove", removed, _single(Change.REMOVE)),
    Kind("add", added, _single(Change.ADD)),
    Kind("shard", shard, always=True),
    Kind("outliers", outliers, always=True, of_first=True),
    Kind("owner", owner, frozenset((Change.OWNER,)), needs_owners=True),
    Kind("owner leaves", owner_leaves, frozenset((Change.OWNER,)), needs_owners=True),
    Kind("twin in pool", twin_in_pool, _single(Change.REPLACE)),
    Kind("twin in test", twin_in_test, _single(Change.REPLACE)),
)


def choose(world: World, repeat: int, rng: np.random.Generator) -> int:
    """The record that is changed: first one of the rarest label, then any, of a shard that has more than one.

    What is taken from private labels, such as the number of classes, most likely moves with the rarest of them.
    """
    sizes = np.bincount(world.holders[world.holders >= 0])
    able = np.flatnonzero((world.holders >= 0) & (sizes[world.holders] > 1))
    if not len(able):
        able = np.flatnonzero(world.holders >= 0)
    if repeat == 0:
        labels, counts = np.unique(world.records.y[able], return_counts=True)
        able = able[world.records.y[able] == labels[counts == counts.min()][-1]]
    return int(rng.choice(able))


def choose_of_smallest(world: World, at: int, rng: np.random.Generator) -> int:
    """A record of the smallest shard; `at` where its own has one record more at most, as all have that `iid` deals.

    Then no other teachers need be trained.
    """
    sizes = np.bincount(world.holders[world.holders >= 0])
    least = sizes[sizes > 0].min()
    if sizes[world.holders[at]] <= least + 1:
        return at
    return int(rng.choice(np.flatnonzero(world.holders == np.flatnonzero(sizes == least)[0])))


def choose_of_first(world: World, at: int, chunk: int) -> int:
    """Choose a record of the first teacher of the `chunk` that trains the holder of `at`.

    What is shared by accident is mostly taken from the first one. Return `at` where that teacher has no record.
    """
    held = np.flatnonzero(world.holders == world.holders[at] // chunk * chunk)
    return int(held[0]) if len(held) else at


def _with(ours: Records, at: NDArray[Any], copies: NDArray[Any]) -> Records:
    """Content and labels of some records replaced by those of others."""
    x, y = np.array(ours.x), np.array(ours.y)
    x[at], y[at] = ours.x[copies], ours.y[copies]
    return replace(ours, x=x, y=y)


def _without(ours: Records, at: NDArray[Any]) -> Records:
    owners = None if ours.owners is None else np.delete(ours.owners, at)
    return Records(np.delete(ours.x, at, axis=0), np.delete(ours.y, at), np.delete(ours.rows, at), owners)


def _elsewhere(world: World, held: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """As many records as these, none of them among them where there are others."""
    others = np.setdiff1d(np.arange(len(world.records.y)), held)
    return rng.choice(others if len(others) else held, size=len(held))


def _owned(ours: Records, at: int) -> NDArray[Any]:
    return np.flatnonzero(_owners(ours) == _owner(ours, at))


def _owner(ours: Records, at: int) -> int:
    return int(_owners(ours)[at])


def _owners(ours: Records) -> NDArray[Any]:
    assert ours.owners is not None, "only where the partition has owners"
    return ours.owners


def _twin(world: World, at: int, public: NDArray[Any], where: str, rng: np.random.Generator) -> Changed:
    sample = int(rng.integers(len(public)))
    x = np.array(world.records.x)
    x[at] = public[sample]
    return Changed(f"record {at} becomes equal to sample {sample} of {where}", replace(world.records, x=x))


def _noisy(x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    if x.dtype.kind == "f":
        return np.asarray(x + rng.normal(scale=0.01 + 0.01 * np.abs(x), size=x.shape), x.dtype)
    changed: NDArray[Any] = np.clip(x.astype(np.int64) + rng.integers(-8, 9, x.shape), 0, 255).astype(x.dtype)
    return changed


# What two runs left behind, and what differs.


class Verdict(StrEnum):
    """What a change of the private data moved."""

    HOLDS = "holds"  # one shard and its teacher's votes at most
    NOT_CLAIMED = "not claimed"  # more shards, and the partition says so
    REFUSED = "refused"  # the changed data were refused, and nobody claims that they are not
    VIOLATED = "violated"  # anything else


@dataclass(frozen=True)
class Traces:
    """What one run left: public things by name, the content of each shard, and the votes of those that were trained.

    All values are digests or facts, compared for equality alone.
    """

    public: Mapping[str, str]
    shards: Sequence[str] = ()
    votes: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A change, what it moved, and the verdict."""

    kind: str
    words: str
    verdict: Verdict
    claimed: bool
    moved: tuple[str, ...] = ()
    shards: tuple[int, ...] = ()
    votes: tuple[int, ...] = ()
    retrained: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "change": self.kind,
            "what": self.words,
            "verdict": str(self.verdict),
            "claimed": self.claimed,
            "moved": list(self.moved),
            "shards_moved": list(self.shards),
            "votes_moved": list(self.votes),
            "retrained": list(self.retrained),
        }


def shards_moved(before: Traces, after: Traces) -> tuple[int, ...]:
    """The teachers whose shards differ; of a teacher that only one run has, too."""
    ours, others = before.shards, after.shards
    more = range(min(len(ours), len(others)), max(len(ours), len(others)))
    return (*(i for i, pair in enumerate(zip(ours, others, strict=False)) if pair[0] != pair[1]), *more)


def public_moved(before: Traces, after: Traces) -> tuple[str, ...]:
    """The public things that differ, or that only one run left."""
    names = dict.fromkeys((*before.public, *after.public))
    return tuple(name for name in names if before.public.get(name) != after.public.get(name))


def compare(kind: str, words: str, before: Traces, after: Traces, claimed: bool) -> Finding:
    """The verdict on a change, from what was left before it and after it.

    A partition may leave open how many shards a change moves. That what is public moves, or the votes of a teacher
    whose shard did not, is never among what it may leave open.
    """
    shards = shards_moved(before, after)
    votes = tuple(i for i in after.votes if before.votes.get(i) != after.votes[i])
    strays = [i for i in votes if i not in shards]
    faults = [f"{name} changed" for name in public_moved(before, after)]
    if strays:
        faults.append(f"the votes of {teachers(strays)} changed, and not their shards")
    verdict = Verdict.VIOLATED if faults else Verdict.HOLDS
    if len(shards) > 1:
        faults.append(f"{len(shards)} of {max(len(before.shards), len(after.shards))} teachers' shards moved")
        verdict = Verdict.VIOLATED if claimed or verdict is Verdict.VIOLATED else Verdict.NOT_CLAIMED
    return Finding(kind, words, verdict, claimed, tuple(faults), shards, votes, tuple(after.votes))


def refused(kind: str, words: str, claimed: bool, why: str) -> Finding:
    """The verdict where the changed data were refused, so that nothing was made.

    A refusal tells of the data as well, whoever sees that there are labels or none: no claim covers it.
    """
    verdict = Verdict.VIOLATED if claimed else Verdict.REFUSED
    return Finding(kind, words, verdict, claimed, (f"refused: {why}" if claimed else why,))


def teachers(numbers: Sequence[int]) -> str:
    """Teachers by number, neighbours as a range: "teachers 3–5 and 9"."""
    if not numbers:
        return "no teacher"
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    runs = [f"{part[0]}" if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in np.split(np.array(numbers), cuts)]
    listed = runs[0] if len(runs) == 1 else f"{', '.join(runs[:-1])} and {runs[-1]}"
    return f"{'teacher' if len(numbers) == 1 else 'teachers'} {listed}"


# How it is shown.


@dataclass(frozen=True)
class Audited:
    """All findings about one ensemble, or about a data set's loader, and how it was looked at."""

    name: str
    facts: Mapping[str, Any]
    notes: Sequence[str]
    findings: Sequence[Finding]

    @property
    def violated(self) -> bool:
        return any(each.verdict is Verdict.VIOLATED for each in self.findings)

    def to_json(self) -> dict[str, Any]:
        found = [each.to_json() for each in self.findings]
        return {"of": self.name, **self.facts, "notes": list(self.notes), "changes": found}


_STYLES = {Verdict.VIOLATED: "bold red", Verdict.NOT_CLAIMED: "dim", Verdict.REFUSED: "dim"}


def render(audited: Sequence[Audited]) -> "RenderableType":
    """A table for each ensemble, its notes, and the verdict on all of them."""
    from rich.console import Group

    parts: list[Any] = []
    for each in audited:
        parts += [_table(each), *each.notes, ""]
    bad = sum(finding.verdict is Verdict.VIOLATED for each in audited for finding in each.findings)
    every = sum(len(each.findings) for each in audited)
    last = f"{bad} of {every} changes moved more than they may." if bad else f"None of {every} changes moved too much."
    return Group(*parts, last)


def _table(audited: Audited) -> "RenderableType":
    from rich import box
    from rich.table import Table

    table = Table(title=audited.name, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("change", no_wrap=True)
    table.add_column("what")
    table.add_column("shards", justify="right", no_wrap=True)
    table.add_column("votes", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("what moved")
    for each in audited.findings:
        votes = f"{len(each.votes)} of {len(each.retrained)}" if each.retrained else "—"
        shards = str(len(each.shards)) if each.shards or each.verdict is Verdict.HOLDS else "—"
        cells = (each.kind, each.words, shards, votes, each.verdict, "; ".join(each.moved))
        table.add_row(*cells, style=_STYLES.get(each.verdict))
    return table
