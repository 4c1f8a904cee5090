"""Adjacency audits: change private records, run the stages again, and compare the outputs.

A bound on ε holds for data sets that differ in one teacher's shard. A change of one record may therefore alter one
shard and its teacher's votes, on any number of queries, but no public output. `stages.adjacency` runs the stages. The
verdict `holds` is not a proof, since untested records and changes may alter more.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.text import listing, plural
from patebench.data.partitions import Change

#: Private records by column: x (samples, …), and y, row and, if known, owner (samples,).
Records = Mapping[str, NDArray[Any]]

#: Kind of change to the private data → the changes (`Change`) of a partition that cover this kind. A partition that
#: protects at least one of these changes claims that the kind alters at most one shard. If the list is empty, every
#: partition makes this claim.
KINDS: Mapping[str, Collection[Change]] = {
    "replace": (Change.REPLACE, Change.OWNER),
    "outlier": (Change.REPLACE, Change.OWNER),
    "remove": (Change.REMOVE, Change.OWNER),
    "add": (Change.ADD, Change.OWNER),
    "shard": (),
    "outliers": (),
    "owner": (Change.OWNER,),
    "owner leaves": (Change.OWNER,),
    "owner gone": (Change.LEAVE,),
    "owner new": (Change.LEAVE,),
    "twin in pool": (Change.REPLACE, Change.OWNER),
    "twin in test": (Change.REPLACE, Change.OWNER),
    "label": (Change.LABEL, Change.OWNER),
}


@dataclass(frozen=True, eq=False)
class World:
    """Data of an adjacency audit: private records, which change, the teachers that hold them, and public samples.

    Parameters
    ----------
    records : private records by column, see `Records`
    holders : (records,) index of the teacher whose shard contains the record; negative if no shard contains it
    pool, test : (samples, …) public samples
    protects : changes (`Change`) that alter at most one shard, as the partition claims; empty if the partition depends
        on labels
    chunk : number of teachers that are trained together
    """

    records: Records
    holders: NDArray[Any]
    pool: NDArray[Any]
    test: NDArray[Any]
    protects: Sequence[str] = tuple(Change)
    chunk: int = 1

    def claims_one_shard(self, kind: str) -> bool:
        """Return True if the partition claims that a change of `kind`, a key of `KINDS`, alters at most one shard."""
        return not KINDS[kind] or any(change in self.protects for change in KINDS[kind])

    def choose(self, kind: str, repeat: int, shared: np.random.Generator, own: np.random.Generator) -> int:
        """Return the index of the record that a change of `kind`, a key of `KINDS`, will alter.

        The record is drawn at random from shards with more than one record, if there are any. There are three
        exceptions:

        - "owner gone" (all records of one owner are removed): the record is drawn from shards with several owners.
        - "outlier" (one record gets extreme values): if the smallest shard has at least two records fewer than the
          shard of the drawn record, a record of the smallest shard is drawn instead.
        - "outliers" (many records of one teacher get extreme values): the result is the first record of the first
          teacher in the drawn record's chunk. A chunk is a group of teachers that are trained together.

        Parameters
        ----------
        repeat : number of the repetition, from 0. In repetition 0, only records of the rarest label are drawn
        shared : generator that draws the record
        own : generator that draws from the smallest shard, for the kind "outlier"
        """
        sizes = np.bincount(self.holders[self.holders >= 0])
        able = np.flatnonzero((self.holders >= 0) & (sizes[self.holders] > 1))
        if kind == "owner gone":  # of a shard with another owner, as a shard may not become empty
            pairs = np.unique(np.stack([self.holders[able], self.records["owner"][able]]), axis=1)
            able = able[np.bincount(pairs[0], minlength=len(sizes))[self.holders[able]] > 1]
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
        """Apply a change of `kind`, a key of `KINDS`, to the record with index `at`; draw the new content with `rng`.

        Some kinds change all records of the same teacher, or all records of the same owner, such as a person. If the
        partition into shards depends on labels, the kind "shard" replaces each record by one of the same label.

        Returns
        -------
        A description of the change, and the changed records.
        """
        records, x, y = self.records, self.records["x"], self.records["y"]
        unit, column = ("owner", records["owner"]) if kind.startswith("owner") else ("teacher", self.holders)
        held, whose = np.flatnonzero(column == column[at]), f"{unit} {column[at]}"
        match kind:
            case "replace":  # with a record of another label
                others = np.flatnonzero(y != y[at])
                other = int(rng.choice(others)) if len(others) else int(rng.integers(len(y)))
                what = f"record {at} becomes a copy of record {other}, of label {y[other]}"
                return what, self._with(at, x[other], y[other])
            case "label":
                label = int(rng.choice(np.setdiff1d(y, y[at])))
                return f"record {at} gets the label {label} instead of {y[at]}", self._with(at, x[at], label)
            case "outlier":  # larger than all others, but its square is still finite in single precision
                largest = float(np.abs(x).max()) or 1.0
                shown, values = _extreme(x, min(1000 * largest, max(largest, 1e18)))
                return f"all values of record {at} become {shown}", self._with(at, values, y[at])
            case "outliers":  # all records of a teacher except one: sum and variance overflow in single precision
                held = held[: max(2, len(held) - 1)]
                shown, values = _extreme(x, float(np.finfo(np.float32).max))
                return f"all values of {len(held)} records of {whose} become {shown}", self._with(held, values, y[held])
            case "remove":
                return f"record {at} is removed", self._without(at)
            case "owner leaves":
                return f"of {len(held)} records of {whose}, only record {at} remains", self._without(held[held != at])
            case "owner gone":
                return f"all {len(held)} records of {whose} are removed", self._without(held)
            case "add" | "owner new":  # with unused numbers; last + 1 may not fit the integer type
                more = {name: np.append(values, values[at : at + 1], axis=0) for name, values in records.items()}
                noisy = x[at] + rng.normal(scale=0.01 + 0.01 * np.abs(x[at].astype(float)), size=x[at].shape)
                more["x"][-1] = noisy if x.dtype.kind == "f" else np.clip(np.rint(noisy), 0, 255)
                numbered, new = (("row",), "") if kind == "add" else (("row", "owner"), " of a new owner")
                for name in numbered:
                    more[name][-1] = np.setdiff1d(np.arange(len(y) + 1), records[name])[0]
                return f"a copy of record {at}{new} with noise is added", more
            case "shard" | "owner":
                others = np.setdiff1d(np.arange(len(y)), held)
                sources, same = rng.choice(others if len(others) else held, size=len(held)), ""
                if kind == "shard" and not self.protects:
                    sources = np.array([rng.choice(np.flatnonzero(y == label)) for label in y[held]])
                    same = " with the same labels"
                what = f"all {len(held)} records of {whose} become copies of others{same}"
                return what, self._with(held, x[sources], y[sources])
            case "twin in pool" | "twin in test":  # if this changes public results, they leak membership
                public, where = (self.pool, "the pool") if kind == "twin in pool" else (self.test, "the test set")
                sample = int(rng.integers(len(public)))
                return f"record {at} becomes equal to sample {sample} of {where}", self._with(at, public[sample], y[at])
        raise ValueError(kind)

    def _with(self, at: Any, values: Any, labels: Any) -> Records:
        """Return a copy of all records, with the samples `values` and the labels `labels` at the indices `at`."""
        x, y = np.array(self.records["x"]), np.array(self.records["y"])
        x[at], y[at] = values, labels
        return {**self.records, "x": x, "y": y}

    def _without(self, at: Any) -> Records:
        return {name: np.delete(column, at, axis=0) for name, column in self.records.items()}


def _extreme(x: NDArray[Any], largest: float) -> tuple[str, Any]:
    """Return extreme content for one record of `x`, as text for messages and as values.

    The values are ±`largest` or, if `x` contains integers, 0 or 255.
    """
    if x.dtype.kind != "f":
        level = 255 if x.mean() < 127.5 else 0
        return str(level), level
    signs = np.where(np.arange(x[0].size) % 2, -1.0, 1.0)
    return f"±{largest:.3g}", (largest * signs).reshape(x[0].shape).astype(x.dtype)


class Moved(StrEnum):
    """Verdict of an adjacency audit on one change of the private data, by the outputs that changed with it."""

    HOLDS = "holds"  # at most one shard and its teacher's votes changed
    NOT_CLAIMED = "not claimed"  # several shards changed, and the partition does not claim that only one does
    REFUSED = "refused"  # a stage refused the changed data, and the partition makes no claim about this change
    VIOLATED = "violated"  # anything else


@dataclass(frozen=True)
class Traces:
    """Outputs of one run of the stages, to be compared for equality with those of another run.

    Parameters
    ----------
    public : digest or value of each public output, by name
    shards : digest of each teacher's shard, by teacher
    votes : digest of each trained teacher's votes, by teacher
    """

    public: Mapping[str, str]
    shards: Mapping[int, str] = field(default_factory=dict)
    votes: Mapping[int, str] = field(default_factory=dict)


def differing_keys(before: Mapping[Any, str], after: Mapping[Any, str]) -> list[Any]:
    """Return the keys whose values differ, or that exist in one mapping only."""
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


@dataclass(frozen=True)
class ChangeFinding:
    """Effect of one change of the private data on the outputs of the stages, and the verdict.

    Parameters
    ----------
    change : kind of the change, a key of `KINDS`
    what : description of the change
    claimed : True if the partition claims that the change alters at most one shard
    moved : reasons for the verdict in words, such as "2 of 50 teachers' shards changed"; empty if the verdict is
        "holds"
    shards_moved, votes_moved : teachers whose shards changed, and teachers whose votes changed
    retrained : teachers that were trained on the changed data
    """

    change: str
    what: str
    verdict: Moved
    claimed: bool
    moved: tuple[str, ...] = ()
    shards_moved: tuple[int, ...] = ()
    votes_moved: tuple[int, ...] = ()
    retrained: tuple[int, ...] = ()

    @classmethod
    def of(cls, kind: str, what: str, claimed: bool, before: Traces, after: Traces) -> "ChangeFinding":
        """Compare the outputs `before` and `after` a change of the private data, and return the finding.

        `kind` and `what` describe the change. `claimed` is True if the partition claims that the change alters at most
        one shard. The verdict is "violated" if one of these differs:

        - a public output
        - the votes of a teacher whose shard stays the same
        - several shards, if `claimed` is True
        """
        shards, votes = differing_keys(before.shards, after.shards), differing_keys(before.votes, after.votes)
        faults = [f"{name} changed" for name in differing_keys(before.public, after.public)]
        if strays := [i for i in votes if i not in shards]:
            faults.append(
                f"the outputs of {plural(len(strays), 'teacher')} changed, but not their shards: {listing(strays)}"
            )
        verdict = Moved.VIOLATED if faults else Moved.HOLDS
        if len(shards) > 1:
            verdict = Moved.VIOLATED if faults or claimed else Moved.NOT_CLAIMED
            faults.append(f"{len(shards)} of {max(len(before.shards), len(after.shards))} teachers' shards changed")
        return cls(kind, what, verdict, claimed, tuple(faults), tuple(shards), tuple(votes), tuple(after.votes))

    @classmethod
    def refused(cls, kind: str, what: str, claimed: bool, why: str) -> "ChangeFinding":
        """Return the finding if a stage refuses the changed data with the message `why`.

        `claimed` is True if the partition claims that the change alters at most one shard and nothing public. A refusal
        is public, so it violates this claim.
        """
        verdict = Moved.VIOLATED if claimed else Moved.REFUSED
        return cls(kind, what, verdict, claimed, (f"refused: {why}" if claimed else why,))

    def cells(self) -> list[str]:
        """Return a row of a table: change, description, verdict, faults, and how many shards and votes changed."""
        shards = str(len(self.shards_moved)) if self.shards_moved or self.verdict is Moved.HOLDS else "—"
        votes = f"{len(self.votes_moved)} of {len(self.retrained)}" if self.retrained else "—"
        return [self.change, self.what, self.verdict, "; ".join(self.moved), shards, votes]


@dataclass(frozen=True)
class AuditedData:
    """All findings of an adjacency audit of one ensemble, or of the loader of one data set.

    Parameters
    ----------
    name : name of the ensemble or data set
    facts : settings and counts of the audit, for JSON
    notes : remarks in words
    findings : one finding per change
    """

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
