"""Partition the private samples among the teachers; each strategy assigns every sample to exactly one teacher.

A strategy is a function from a `Deal` to the number of the teacher of each sample, so shards neither overlap nor omit
a sample. Samples that are also public are removed from their shards afterwards.

A bound on ε holds for data sets that differ in one teacher's shard. Its meaning for a record depends on the strategy:
if one record can move others, no record is protected. Every strategy therefore states the changes of the private data
that alter at most one shard: as `protects` (values of `Change`) and as `protection` (text).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.registry import Registry
from patebench.core.seeds import Mode
from patebench.core.text import plural


class Change(StrEnum):
    """Change of the private data; the owner and the `row` of a record, and all other records, stay the same."""

    REPLACE = "replace"  # replace the content and the label of one record
    REMOVE = "remove"  # remove one record
    ADD = "add"  # add one record with a new row
    OWNER = "owner"  # any of these, for any number of records of one owner


PARTITIONS = Registry("partition")
PARTITIONS.add(
    "iid",
    "patebench.data.partitions:iid",
    about="at random, in shards of one size",
    default_in=Mode.SEEDED,
    protects=(Change.REPLACE,),
    protection="one record, replaced in its place; adding or removing one reassigns all records",
)
PARTITIONS.add(
    "skew",
    "patebench.data.partitions:skew",
    about="a share of each shard from one label",
    parameter="share",
    protects=(),
    protection="nobody's record: labels decide, and another label of one record moves many others",
)
PARTITIONS.add(
    "owners",
    "patebench.data.partitions:owners",
    about="a teacher for each owner, by your own file",
    parameter="owners",
    protects=(Change.OWNER,),
    protection="all records of one owner, replaced, added or removed, while it keeps one at least",
)
PARTITIONS.add(
    "hash",
    "patebench.data.partitions:by_row",
    about="by a hash of each record's row",
    default_in=Mode.RELEASE,
    protects=(Change.REPLACE, Change.REMOVE, Change.ADD),
    protection="one record, replaced, added or removed, while the others keep their rows",
)
PARTITIONS.add(
    "hash-owners",
    "patebench.data.partitions:by_owner",
    about="by a hash of each record's owner, by your own file",
    parameter="owners",
    protects=(Change.OWNER,),
    protection="all records of one owner, replaced, added or removed, and the owner as a whole",
)


def default_strategy(mode: Mode) -> str:
    """Return the default strategy of a mode."""
    return next(name for name in PARTITIONS if PARTITIONS.fact(name, "default_in") is mode)


def protecting() -> str:
    """Return the names of all strategies that protect some change of the private data, separated by commas."""
    return ", ".join(name for name in PARTITIONS if PARTITIONS.fact(name, "protects"))


Assignment = NDArray[np.int64]

#: Entry of an assignment for a sample that is in no shard.
NOBODY = -1


@dataclass(frozen=True, eq=False)
class Deal:
    """Arguments of a strategy: labels and rows of the private records (samples,), randomness and parameters.

    `key` is for strategies that hash instead of drawing: up to 64 bytes derived from seed and stream, and as public as
    these.
    """

    y: NDArray[Any]
    rows: NDArray[Any]
    classes: int
    rng: np.random.Generator
    key: bytes
    teachers: int | None = None
    share: float | None = None
    owners: NDArray[Any] | None = None


def iid(deal: Deal) -> Assignment:
    """Assign the samples in random order; shard sizes differ by at most one."""
    sizes = _shard_sizes(deal)
    return deal.rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def skew(deal: Deal) -> Assignment:
    """Give a share of each shard to one label, as in PET-DL's unbalanced experiment (82 % of one label each).

    Shard sizes differ by at most one, and all samples are assigned. Teacher i's main label is i mod `classes`; exactly
    round(share · size) of its samples, halves rounded up, have that label. Both parts are drawn at random.

    Raises
    ------
    PatebenchError
        If a label has too few samples for the teachers whose main label it is, or too many for the other shards.
    """
    if deal.share is None or not 0 < deal.share <= 1:
        raise PatebenchError(f"the partition 'skew' needs a share above 0 and at most 1, and not {deal.share}")
    sizes = _shard_sizes(deal)
    quotas = np.floor(deal.share * sizes + 0.5).astype(np.int64)
    mains = np.arange(len(sizes)) % deal.classes
    assignment = np.full(len(deal.y), -1)
    for label in range(deal.classes):
        own = mains == label
        stock = deal.rng.permutation(np.flatnonzero(deal.y == label))
        needed, room = int(quotas[own].sum()), int((sizes - quotas)[~own].sum())
        fix = "choose another share, or a number of teachers that is a multiple of the number of classes"
        if len(stock) < needed:
            raise PatebenchError(
                f"label {label} has {len(stock)} private samples, and a share of {deal.share:g} in {own.sum()} shards"
                f" takes {needed}; {fix}"
            )
        if len(stock) - needed > room:
            raise PatebenchError(
                f"label {label} keeps {len(stock) - needed} private samples beyond its share of {deal.share:g}, and the"
                f" other shards have room for {room}; {fix}"
            )
        slots = np.repeat(np.flatnonzero(own), quotas[own])
        assignment[stock[: len(slots)]] = slots
    rest = np.flatnonzero(assignment < 0)
    slots = deal.rng.permutation(np.repeat(np.arange(len(sizes)), sizes - quotas))
    assignment[rest] = _keep_apart(slots, mains, deal.y[rest], deal.rng)
    return assignment


def owners(deal: Deal) -> Assignment:
    """Assign each owner's samples to a teacher of its own, by the user's file.

    `deal.owners` holds one non-negative integer per private sample; the distinct ones, in ascending order, become
    teachers 0, 1, … The number of teachers, if given, must equal their number.
    """
    identities, assignment = np.unique(_column(deal), return_inverse=True)
    present, teachers = len(identities), deal.teachers
    if teachers is None or teachers == present:
        return assignment.astype(np.int64)
    asked = plural(present, "teacher")
    if identities.max() < teachers:
        absent = np.setdiff1d(np.arange(teachers), identities)[0]
        raise PatebenchError(f"owner {absent} of 0 … {teachers - 1} has no samples; ask for {asked} or fix the column")
    raise PatebenchError(
        f"the column names {plural(present, 'owner')}, and {teachers} teachers are asked for; ask for {asked}"
    )


def by_row(deal: Deal) -> Assignment:
    """Assign each record by a keyed hash of its row, independently of other records, content and labels.

    Shard sizes vary at random, with a standard deviation of about the square root of their mean.
    """
    return _hashed(deal.rows, deal.key, _teachers(deal))


def by_owner(deal: Deal) -> Assignment:
    """Assign each record by a keyed hash of its owner, so that all records of an owner are in one shard."""
    return _hashed(_column(deal), deal.key, _teachers(deal))


def _hashed(numbers: NDArray[Any], key: bytes, teachers: int) -> Assignment:
    """Return 64 bits of BLAKE2b of each number (samples,) modulo `teachers`; the bias is at most 2⁻⁴⁰."""
    words = numbers.astype("<u8").tobytes()
    hashes = (hashlib.blake2b(words[i : i + 8], digest_size=8, key=key).digest() for i in range(0, len(words), 8))
    return (np.frombuffer(b"".join(hashes), "<u8") % np.uint64(teachers)).astype(np.int64)


def _column(deal: Deal) -> NDArray[Any]:
    """Return the owner of each sample from the user's file."""
    column = deal.owners
    if column is None:
        raise PatebenchError(
            "this partition needs the owner of each record; declare the column of a table (owner), or give the path of"
            " a .npy file (owners)"
        )
    check_owners(column, len(deal.y))
    return column


def check_owners(column: NDArray[Any], samples: int) -> None:
    """Refuse a column of owners that is not one integer from 0 for each private sample."""
    if column.dtype.kind not in "iu" or column.shape != (samples,):
        raise PatebenchError(
            f"the column of owners is {column.dtype} of shape {column.shape}; give one integer for each of the"
            f" {samples} private samples"
        )
    if column.min() < 0:
        raise PatebenchError(f"the column of owners holds {column.min()}; number the owners from 0")


def _shard_sizes(deal: Deal) -> NDArray[np.int64]:
    """Return shard sizes that differ by at most one, the larger shards first."""
    teachers = _teachers(deal)
    small, larger = divmod(len(deal.y), teachers)
    return np.full(teachers, small) + (np.arange(teachers) < larger)


def _teachers(deal: Deal) -> int:
    """Return the number of teachers; PatebenchError if some would get no samples."""
    samples, teachers = len(deal.y), deal.teachers
    if teachers is None or teachers < 1:
        raise PatebenchError(f"{teachers} teachers were asked for; ask for at least one")
    check_teachers(teachers, samples)
    return teachers


def check_teachers(teachers: int, samples: int, people: int | None = None) -> None:
    """Refuse more teachers than private samples, or than people if whole people are assigned."""
    for most, what in ((samples, "private sample"), (people, "person")):
        if most is not None and teachers > most:
            raise PatebenchError(
                f"{teachers} teachers cannot share {plural(most, what)}; ask for at most {most}", code="bound"
            )


def deals_people(strategy: str) -> bool:
    """Return True if a strategy assigns whole people; PatebenchError for an unknown name."""
    return bool(PARTITIONS.fact(strategy, "parameter") == "owners")


def read_owners(path: Path) -> NDArray[Any]:
    """Read the column of owners from a `.npy` file; ArtefactError for a file of another kind."""
    fix = "give a .npy file with one integer for each private sample"
    if not path.is_file():
        raise ArtefactError(path, "there is no such file", fix)
    try:
        with open(path, "rb") as stream:
            owners: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError, OSError) as fault:
        if "Object arrays" in str(fault):
            raise ArtefactError(path, "it holds pickled objects, which are never loaded", fix) from None
        raise ArtefactError(path, f"it is not a readable .npy file ({fault})", fix) from None
    return owners


def _keep_apart(
    slots: NDArray[Any], mains: NDArray[Any], labels: NDArray[Any], rng: np.random.Generator
) -> NDArray[Any]:
    """Swap slots at random until no teacher has its own main label among its other samples.

    A slot of teacher i with label mains[i] = l is swapped with a slot in which neither the teacher's main label nor the
    sample's label is l. There are enough of these because the labels fit, and no swap creates a new fault.
    """
    slots = slots.copy()
    for label in np.unique(labels):
        main, held = mains[slots] == label, labels == label
        faults = np.flatnonzero(main & held)
        partners = rng.choice(np.flatnonzero(~main & ~held), size=len(faults), replace=False)
        slots[faults], slots[partners] = slots[partners], slots[faults]
    return slots


def pack(assignment: Assignment, teachers: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return indices and offsets of the shards: teacher i owns indices[offsets[i]:offsets[i + 1]], in ascending order.

    Samples assigned to `NOBODY` are in no shard.
    """
    sizes = np.bincount(assignment[assignment != NOBODY], minlength=teachers)
    order = np.argsort(assignment, kind="stable")
    return order[len(assignment) - sizes.sum() :], np.concatenate([[0], np.cumsum(sizes)])


def check_filled(sizes: NDArray[np.integer], left_out: int) -> None:
    """Refuse a shard without samples; `left_out` private samples were removed because they are also public."""
    if (sizes < 1).any():
        note = f" ({left_out} private samples are left out because they are also public)" if left_out else ""
        raise PatebenchError(f"teacher {int(np.argmin(sizes))} has no samples{note}; ask for fewer teachers")


def check_disjoint(indices: NDArray[Any], offsets: NDArray[Any], samples: int, *, empty: bool = False) -> None:
    """Refuse shards that overlap, point outside 0 … samples − 1 or, unless `empty`, have no samples."""
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(indices):
        raise PatebenchError("the offsets of the shards do not begin at 0 and end at the number of indices")
    sizes = np.diff(offsets.astype(np.int64))
    if (sizes < (0 if empty else 1)).any():
        raise PatebenchError(f"teacher {int(np.argmin(sizes))} has no samples")
    if not len(indices):
        raise PatebenchError("no teacher has a sample")
    if indices.min() < 0 or indices.max() >= samples:
        raise PatebenchError(f"a shard points outside the {samples} private samples")
    counts = np.bincount(indices.astype(np.int64), minlength=samples)
    if (counts > 1).any():
        sample = int(np.argmax(counts > 1))
        first, second = np.searchsorted(offsets, np.flatnonzero(indices == sample)[:2], side="right") - 1
        raise PatebenchError(f"private sample {sample} belongs to both teacher {first} and teacher {second}")


def check_every_class(assignment: Assignment, y: NDArray[Any], class_names: Sequence[str]) -> None:
    """Refuse a partition in which a teacher has no sample of a class; the error names both."""
    teachers, classes = int(assignment.max()) + 1, len(class_names)
    seen = np.bincount(assignment * classes + y, minlength=teachers * classes).reshape(teachers, classes)
    if (seen == 0).any():
        teacher, label = (int(axis[0]) for axis in np.nonzero(seen == 0))
        raise PatebenchError(
            f"teacher {teacher} has no sample of class {label} ('{class_names[label]}'), which this learner needs;"
            " ask for fewer teachers, a smaller skew or another learner"
        )
