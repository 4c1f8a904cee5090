"""Adjacency audits: change private records and compare the outputs of two runs.

A bound on ε holds for data sets that differ in one teacher's shard. Then only one row of votes may differ, in any
number of queries, and no public output. `stages.adjacency` runs the stages. The verdict `holds` is not a proof: other
records or other changes may still alter more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from patebench.data.partitions import Change

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Private records by column: x (samples, …), and y, row and, where the partition asks for them, owners (samples,).
Records = Mapping[str, NDArray[Any]]

#: Kinds of change to private data → the protected changes, one of which a partition needs in order to claim that this
#: kind alters at most one shard. A change of one record is also a change of its owner's records. None: every partition
#: makes this claim.
KINDS: Mapping[str, frozenset[Change] | None] = {
    "replace": frozenset({Change.REPLACE, Change.OWNER}),
    "outlier": frozenset({Change.REPLACE, Change.OWNER}),
    "remove": frozenset({Change.REMOVE, Change.OWNER}),
    "add": frozenset({Change.ADD, Change.OWNER}),
    "shard": None,
    "outliers": None,
    "owner": frozenset({Change.OWNER}),
    "owner leaves": frozenset({Change.OWNER}),
    "twin in pool": frozenset({Change.REPLACE, Change.OWNER}),
    "twin in test": frozenset({Change.REPLACE, Change.OWNER}),
}


def claimed(kind: str, protects: Iterable[str]) -> bool:
    """Return True if a partition that protects the changes `protects` claims that `kind` alters at most one shard."""
    needed = KINDS[kind]
    return needed is None or bool(needed & {Change(name) for name in protects})


@dataclass(frozen=True, eq=False)
class World:
    """Private records, their teachers and the public samples, from which changes are made.

    Parameters
    ----------
    holders : (samples,) teacher of each record, negative for none
    pool, test : (samples, …) public samples
    labels_deal : True if the partition depends on labels, so that a shard is replaced label by label
    chunk : number of teachers that are trained together
    """

    records: Records
    holders: NDArray[Any]
    pool: NDArray[Any]
    test: NDArray[Any]
    labels_deal: bool = False
    chunk: int = 1

    def choose(self, kind: str, repeat: int, shared: np.random.Generator, own: np.random.Generator) -> int:
        """Choose the record to change, from a shard with more than one record if there is one.

        Repeat 0 takes a record of the rarest label, since facts derived from private labels, such as the number of
        classes, most likely change with it; later repeats take any record. With equal `shared` generators most kinds
        choose the same record, so that the same teachers are trained on the unchanged data. For "outlier" the record is
        in the smallest shard, unless the chosen shard has at most one record more, as in `iid` partitions. For
        "outliers" it belongs to the first teacher of the chunk, where accidental sharing mostly starts.
        """
        sizes = np.bincount(self.holders[self.holders >= 0])
        able = np.flatnonzero((self.holders >= 0) & (sizes[self.holders] > 1))
        if not len(able):
            able = np.flatnonzero(self.holders >= 0)
        if repeat == 0:
            labels, counts = np.unique(self.records["y"][able], return_counts=True)
            able = able[self.records["y"][able] == labels[counts == counts.min()][-1]]
        at = int(shared.choice(able))
        holder, least = self.holders[at], sizes[sizes > 0].min()
        if kind == "outlier" and sizes[holder] > least + 1:
            return int(own.choice(np.flatnonzero(self.holders == np.flatnonzero(sizes == least)[0])))
        held = np.flatnonzero(self.holders == holder // self.chunk * self.chunk)
        return int(held[0]) if kind == "outliers" and len(held) else at

    def change(self, kind: str, at: int, rng: np.random.Generator) -> tuple[str, Records]:
        """Change the private data at the record `at`; return a description of the change and the changed records."""
        ours = self.records
        x, y, holder = ours["x"], ours["y"], self.holders[at]
        match kind:
            case "replace":  # with a record of another label
                others = np.flatnonzero(y != y[at])
                other = int(rng.choice(others)) if len(others) else int(rng.integers(len(y)))
                return f"record {at} becomes a copy of record {other}, of label {y[other]}", _copied(ours, at, other)
            case "outlier":  # larger than all others, but its square is still finite in single precision
                largest = float(np.abs(x).max()) or 1.0
                what, values = _extreme(x, at, min(1000 * largest, max(largest, 1e18)))
                which = "the values" if x.dtype.kind == "f" else "all values"
                return f"{which} of record {at} become {what}", _with_values(ours, at, values)
            case "remove":
                return f"record {at} is gone", _without(ours, at)
            case "add":  # a copy with noise, in an unused row number; last + 1 may not fit the integer type
                row = np.setdiff1d(np.arange(len(y) + 1), ours["row"])[0]
                more = {name: np.append(column, column[at : at + 1], axis=0) for name, column in ours.items()}
                more["x"][-1], more["row"][-1] = _noisy(x[at], rng), row
                return f"a copy of record {at} with noise is there besides", more
            case "shard":
                held = np.flatnonzero(self.holders == holder)
                what = f"all {len(held)} records of teacher {holder} become copies of others"
                if not self.labels_deal:
                    return what, _copied(ours, held, _others(ours, held, rng))
                copies = [int(rng.choice(np.flatnonzero(y == label))) for label in y[held]]
                return f"{what} with the same labels", _copied(ours, held, copies)
            case "outliers":  # all records of a teacher except one: sum and variance overflow in single precision
                held = np.flatnonzero(self.holders == holder)
                held = held[: max(2, len(held) - 1)]
                what, values = _extreme(x, at, float(np.finfo(np.float32).max))
                return f"{len(held)} records of teacher {holder} become {what}", _with_values(ours, held, values)
            case "owner" | "owner leaves":
                owner = ours["owners"][at]
                held = np.flatnonzero(ours["owners"] == owner)
                if kind == "owner leaves":
                    return f"owner {owner} keeps record {at} of {len(held)} alone", _without(ours, held[held != at])
                what = f"all {len(held)} records of owner {owner} become copies of others"
                return what, _copied(ours, held, _others(ours, held, rng))
            case "twin in pool" | "twin in test":  # if this changes public results, they leak membership
                public, where = (self.pool, "the pool") if kind == "twin in pool" else (self.test, "the test set")
                sample = int(rng.integers(len(public)))
                what = f"record {at} becomes equal to sample {sample} of {where}"
                return what, _with_values(ours, at, public[sample])
        raise ValueError(kind)


def _with_values(ours: Records, at: Any, values: Any) -> Records:
    x = np.array(ours["x"])
    x[at] = values
    return {**ours, "x": x}


def _copied(ours: Records, at: Any, sources: Any) -> Records:
    """Replace content and labels of the records `at` with those of the records `sources`."""
    y = np.array(ours["y"])
    y[at] = ours["y"][sources]
    return {**_with_values(ours, at, ours["x"][sources]), "y": y}


def _without(ours: Records, at: Any) -> Records:
    return {name: np.delete(column, at, axis=0) for name, column in ours.items()}


def _others(ours: Records, held: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Draw as many records as `held`, from the other records if there are any."""
    others = np.setdiff1d(np.arange(len(ours["y"])), held)
    return rng.choice(others if len(others) else held, size=len(held))


def _extreme(x: NDArray[Any], at: int, largest: float) -> tuple[str, Any]:
    """Return extreme values for a record: ± `largest` alternating, or for images the level farther from the mean."""
    if x.dtype.kind != "f":
        level = 255 if x.mean() < 127.5 else 0
        return str(level), level
    signs = np.where(np.arange(x[at].size) % 2, -1.0, 1.0)
    return f"±{largest:.3g}", (largest * signs).reshape(x[at].shape).astype(x.dtype)


def _noisy(x: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    if x.dtype.kind == "f":
        return np.asarray(x + rng.normal(scale=0.01 + 0.01 * np.abs(x), size=x.shape), x.dtype)
    changed: NDArray[Any] = np.clip(x.astype(np.int64) + rng.integers(-8, 9, x.shape), 0, 255).astype(x.dtype)
    return changed


class Moved(StrEnum):
    """The verdict on a change, from the outputs that it altered."""

    HOLDS = "holds"  # at most one shard and its teacher's votes
    NOT_CLAIMED = "not claimed"  # several shards, and the partition claims no less
    REFUSED = "refused"  # the changed data were refused, and the partition does not claim to accept them
    VIOLATED = "violated"  # anything else


@dataclass(frozen=True)
class Traces:
    """Outputs of one run: public facts by name, the content of each shard, and the votes of the trained teachers.

    All values are digests or facts and are only compared for equality.
    """

    public: Mapping[str, str]
    shards: Sequence[str] = ()
    votes: Mapping[int, str] = field(default_factory=dict)

    def shards_moved(self, after: "Traces") -> tuple[int, ...]:
        """Return the teachers whose shards differ or exist in one run only."""
        return tuple(i for i, (one, other) in enumerate(zip_longest(self.shards, after.shards)) if one != other)

    def public_moved(self, after: "Traces") -> list[str]:
        """Return the names of the public facts that differ or exist in one run only."""
        names = dict.fromkeys((*self.public, *after.public))
        return [name for name in names if self.public.get(name) != after.public.get(name)]


@dataclass(frozen=True)
class ChangeFinding:
    """A change, the outputs that it altered, and the verdict."""

    change: str
    what: str
    verdict: Moved
    claimed: bool
    moved: tuple[str, ...] = ()
    shards_moved: tuple[int, ...] = ()
    votes_moved: tuple[int, ...] = ()
    retrained: tuple[int, ...] = ()


def compare(kind: str, what: str, before: Traces, after: Traces, claimed: bool) -> ChangeFinding:
    """Return the verdict on a change from the outputs before and after it.

    A partition may allow a change to alter several shards. No change may alter public facts, or the votes of a teacher
    whose shard did not change.
    """
    shards = before.shards_moved(after)
    votes = tuple(i for i in after.votes if before.votes.get(i) != after.votes[i])
    faults = [f"{name} changed" for name in before.public_moved(after)]
    if strays := [i for i in votes if i not in shards]:
        faults.append(f"the votes of {teachers(strays)} changed, and not their shards")
    verdict = Moved.VIOLATED if faults else Moved.HOLDS
    if len(shards) > 1:
        faults.append(f"{len(shards)} of {max(len(before.shards), len(after.shards))} teachers' shards moved")
        verdict = Moved.VIOLATED if claimed or verdict is Moved.VIOLATED else Moved.NOT_CLAIMED
    return ChangeFinding(kind, what, verdict, claimed, tuple(faults), shards, votes, tuple(after.votes))


def refused(kind: str, what: str, claimed: bool, why: str) -> ChangeFinding:
    """Return the verdict on changed data that were refused; a refusal is public, since no labels follow."""
    verdict = Moved.VIOLATED if claimed else Moved.REFUSED
    return ChangeFinding(kind, what, verdict, claimed, (f"refused: {why}" if claimed else why,))


def teachers(numbers: Sequence[int]) -> str:
    """Return the text for teacher `numbers`, consecutive ones as a range: "teachers 3–5 and 9"."""
    if not numbers:
        return "no teacher"
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    runs = [f"{part[0]}" if len(part) == 1 else f"{part[0]}–{part[-1]}" for part in np.split(np.array(numbers), cuts)]
    listed = " and ".join(part for part in (", ".join(runs[:-1]), runs[-1]) if part)
    return f"{'teacher' if len(numbers) == 1 else 'teachers'} {listed}"


@dataclass(frozen=True)
class AuditedData:
    """All findings about one ensemble or one data set's loader, with the settings of the audit."""

    name: str
    facts: Mapping[str, Any]
    notes: Sequence[str]
    findings: Sequence[ChangeFinding]

    @property
    def violations(self) -> int:
        return sum(finding.verdict is Moved.VIOLATED for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        changes = [asdict(finding) for finding in self.findings]
        return {"of": self.name, **self.facts, "notes": list(self.notes), "changes": changes}


def render(audited: Sequence[AuditedData]) -> "RenderableType":
    """Return one table per ensemble with its notes, and the overall verdict."""
    from rich import box
    from rich.console import Group
    from rich.table import Column, Table

    parts: list[Any] = []
    for data in audited:
        look: Any = {"box": box.SIMPLE_HEAD, "title_justify": "left", "title_style": "bold", "pad_edge": False}
        numbers = [Column(name, justify="right", no_wrap=True) for name in ("shards", "votes")]
        change, verdict = Column("change", no_wrap=True), Column("verdict", no_wrap=True)
        table = Table(change, "what", *numbers, verdict, "what moved", title=data.name, **look)
        for each in data.findings:
            shards = str(len(each.shards_moved)) if each.shards_moved or each.verdict is Moved.HOLDS else "—"
            votes = f"{len(each.votes_moved)} of {len(each.retrained)}" if each.retrained else "—"
            style = {Moved.VIOLATED: "bold red", Moved.HOLDS: None}.get(each.verdict, "dim")
            table.add_row(each.change, each.what, shards, votes, each.verdict, "; ".join(each.moved), style=style)
        parts += [table, *data.notes, ""]
    bad, total = sum(data.violations for data in audited), sum(len(data.findings) for data in audited)
    last = f"{bad} of {total} changes moved more than they may." if bad else f"None of {total} changes moved too much."
    return Group(*parts, last)
