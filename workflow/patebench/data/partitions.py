"""Partition the private samples among the teachers; each strategy assigns every sample to exactly one teacher.

A strategy maps `PartitionInputs` to one teacher per sample, so shards are disjoint and cover all samples. Samples that
are also public are removed from their shards afterwards.

ε protects against any change of one teacher's shard. A record is therefore protected only if changing the record leaves
all other shards unchanged. Every strategy states which changes of the private data alter at most one shard: `protects`
lists these changes as values of `Change`, and `protection` describes them as text.
"""

import hashlib
from collections.abc import Collection, Sequence
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
from patebench.data.dataset import check_numbers


class Change(StrEnum):
    """Kind of change of the private data.

    A partition protects against changes that alter at most one teacher's shard. A change concerns one record or the
    records of one owner; all other records stay the same. A replaced record keeps its owner and its row number, which
    identifies the record.
    """

    REPLACE = "replace"  # replace the content and the label of one record
    REMOVE = "remove"  # remove one record
    ADD = "add"  # add one record with a new row
    OWNER = "owner"  # replace, remove or add records of one owner, who keeps at least one record
    LEAVE = "leave"  # remove all records of one owner, or add an owner
    LABEL = "label"  # replace the label of one record, whose sample is public


#: Change of the private data that alters one teacher's shard arbitrarily. It is not a value of `Change`, because it
#: depends on the partition: draws have it in common only if all of them use the same partition.
SHARD = "shard"

#: Changes of the records of an owner. Draws from several partitions have them in common only if all of these partitions
#: group the records by owner in the same way.
OF_OWNERS = frozenset({Change.OWNER, Change.LEAVE})

#: Change of the private data → its description; in the order in which texts list them.
_IN_WORDS = {
    SHARD: "one teacher’s whole shard",
    Change.REPLACE: "a replaced record",
    Change.REMOVE: "a removed record",
    Change.ADD: "an added record",
    Change.OWNER: "changed records of an owner who keeps at least one",
    Change.LEAVE: "an added or removed owner",
    Change.LABEL: "a replaced label",
}


def changes_in_words(changes: Collection[str]) -> str:
    """Return text that lists kinds of change of the private data, such as "a replaced record or a removed record".

    Each element of `changes` is a value of `Change` or the constant `SHARD` (any change of one teacher's shard).
    """
    *others, last = [words for change, words in _IN_WORDS.items() if change in changes]
    return f"{', '.join(others)} or {last}" if others else last


#: Name of the unit of privacy if samples are public and labels private; part of the name of a split.
LABELS = "labels"
#: Description of the protected change if samples are public and labels private.
PROTECTS_LABEL = "the label of one record; its sample is public"


PARTITIONS = Registry("partition")
PARTITIONS.add(
    "iid",
    "patebench.data.partitions:iid",
    about="at random, in shards of equal size",
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
    about="one teacher per owner in your data",
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
    about="by a hash of each record's owner in your data",
    parameter="owners",
    protects=(Change.OWNER, Change.LEAVE),
    protection="all records of one owner, replaced, added or removed, and the owner as a whole",
)


def protected(strategy: str, own_rows: bool) -> tuple[Sequence[Change], str]:
    """Return the changes that alter at most one shard under the partition `strategy`, and a text that describes them.

    `own_rows` is True if row numbers identify records. If it is False, row numbers are positions, and adding or
    removing a record changes the numbers of other records. A strategy that hashes row numbers then protects only
    against the replacement of one record, like the strategy "iid".
    """
    if Change.ADD in PARTITIONS.fact(strategy, "protects") and not own_rows:
        strategy = "iid"
    return PARTITIONS.fact(strategy, "protects"), PARTITIONS.fact(strategy, "protection")


def default_strategy(mode: Mode) -> str:
    """Return the name of the default partition strategy in `mode`."""
    return next(name for name in PARTITIONS if PARTITIONS.fact(name, "default_in") is mode)


def protecting() -> str:
    """Return the names of all partition strategies that protect records or owners, joined by commas."""
    return ", ".join(name for name in PARTITIONS if PARTITIONS.fact(name, "protects"))


def protected_changes(partition: object) -> Sequence[Change]:
    """Return the kinds of change that alter at most one shard under `partition`; ε protects against these changes.

    `partition` is the name of a strategy. A share may follow the name, as in "skew-0.5". For an unknown strategy, the
    result is empty.
    """
    strategy = str(partition)
    strategy = strategy if strategy in PARTITIONS else strategy.rpartition("-")[0]
    return PARTITIONS.fact(strategy, "protects") if strategy in PARTITIONS else ()


#: Number of the teacher of each private sample, (samples,).
Assignment = NDArray[np.int64]

#: Entry of an assignment for a sample that is in no shard.
NOBODY = -1


@dataclass(frozen=True, eq=False)
class PartitionInputs:
    """Arguments of a partition strategy.

    `y`, `rows` and `owners` (samples,) are the label, the row number and the owner of each private record. `classes` is
    the number of classes. Strategies that draw at random use `rng`. Strategies based on a hash use `key`, up to 64
    public bytes derived from the seed and the name of the random stream. `share` is the parameter of `skew`. `teachers`
    is the number of teachers; None if each owner is a teacher.
    """

    y: NDArray[Any]
    rows: NDArray[Any]
    classes: int
    rng: np.random.Generator
    key: bytes
    teachers: int | None = None
    share: float | None = None
    owners: NDArray[Any] | None = None


def iid(inputs: PartitionInputs) -> Assignment:
    """Assign samples to teachers at random; shard sizes differ by at most one."""
    sizes = _shard_sizes(inputs)
    return inputs.rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def skew(inputs: PartitionInputs) -> Assignment:
    """Assign samples so that a fraction `inputs.share` of each shard has one label, the main label of the teacher.

    Shard sizes differ by at most one. The main label of teacher i is i mod `inputs.classes`. Exactly round(share ·
    size) samples of a shard have the main label (halves are rounded up). Samples are otherwise assigned at random. The
    unbalanced experiment of Sun et al. 2019 (PET-DL) uses such shards.

    Raises
    ------
    PatebenchError
        If a label has fewer samples than the shards with this main label need, or more samples than all shards can
        take.
    """
    if inputs.share is None or not 0 < inputs.share <= 1:
        raise PatebenchError(f"the share {inputs.share} is invalid for the partition 'skew'; give 0 < share ≤ 1")
    sizes = _shard_sizes(inputs)
    quotas = np.floor(inputs.share * sizes + 0.5).astype(np.int64)
    mains = np.arange(len(sizes)) % inputs.classes
    assignment = np.full(len(inputs.y), -1)
    for label in range(inputs.classes):
        own = mains == label
        stock = inputs.rng.permutation(np.flatnonzero(inputs.y == label))
        needed, room = int(quotas[own].sum()), int((sizes - quotas)[~own].sum())
        fix = "choose another share, or a number of teachers that is a multiple of the number of classes"
        if len(stock) < needed:
            raise PatebenchError(
                f"{plural(int(own.sum()), 'shard')} with main label {label} at share = {inputs.share:g} need {needed}"
                f" private samples of this label, but there are {len(stock)}; {fix}"
            )
        if len(stock) - needed > room:
            raise PatebenchError(
                f"label {label} has {len(stock)} private samples, but the shards with this main label take only"
                f" {needed}, and the other shards have room for only {room} more; {fix}"
            )
        slots = np.repeat(np.flatnonzero(own), quotas[own])
        assignment[stock[: len(slots)]] = slots
    rest = np.flatnonzero(assignment < 0)
    slots = inputs.rng.permutation(np.repeat(np.arange(len(sizes)), sizes - quotas))
    assignment[rest] = _swap_conflicts(slots, mains, inputs.y[rest], inputs.rng)
    return assignment


def owners(inputs: PartitionInputs) -> Assignment:
    """Make each owner a teacher, whose shard contains all samples of this owner.

    `inputs.owners` contains one non-negative integer per private sample. The owners in ascending order become teachers
    0, 1, … If the number of teachers is given, it must equal the number of owners.
    """
    identities, assignment = np.unique(_checked_owners(inputs), return_inverse=True)
    present, teachers = len(identities), inputs.teachers
    if teachers is None or teachers == present:
        return assignment.astype(np.int64)
    fix = f"set the number of teachers to {present}"
    if identities.max() < teachers:
        absent = np.setdiff1d(np.arange(teachers), identities)[0]
        raise PatebenchError(
            f"the owners of the {teachers} teachers are 0 … {teachers - 1}, but no sample belongs to owner {absent};"
            f" {fix}, or correct the owners"
        )
    raise PatebenchError(
        f"each owner becomes a teacher, but there are {plural(present, 'owner')} and {teachers} teachers; {fix}"
    )


def by_row(inputs: PartitionInputs) -> Assignment:
    """Assign each record to a teacher by a keyed hash of its row number; other records have no influence.

    Shard sizes vary at random, with a standard deviation of about the square root of their mean.
    """
    return _assign_by_hash(inputs.rows, inputs.key, _checked_teachers(inputs))


def by_owner(inputs: PartitionInputs) -> Assignment:
    """Assign each record to a teacher by a keyed hash of its owner; all records of an owner are in one shard."""
    return _assign_by_hash(_checked_owners(inputs), inputs.key, _checked_teachers(inputs))


def _assign_by_hash(numbers: NDArray[Any], key: bytes, teachers: int) -> Assignment:
    """Assign each of `numbers` to a teacher by a hash with `key`; all teachers are almost equally likely."""
    words = numbers.astype("<u8").tobytes()
    hashes = (hashlib.blake2b(words[i : i + 8], digest_size=8, key=key).digest() for i in range(0, len(words), 8))
    # The probabilities of teachers differ by at most 2⁻⁴⁰.
    return (np.frombuffer(b"".join(hashes), "<u8") % np.uint64(teachers)).astype(np.int64)


def _checked_owners(inputs: PartitionInputs) -> NDArray[Any]:
    """Return the owner of each sample; raise PatebenchError if owners are unknown or invalid."""
    column = inputs.owners
    if column is None:
        raise PatebenchError(
            "this partition needs the owner of each record; set 'owner' in the key 'table', or 'partition.owners' to a"
            " .npy file"
        )
    check_numbers("owners", column, len(inputs.y))
    return column


def _shard_sizes(inputs: PartitionInputs) -> NDArray[np.int64]:
    """Return shard sizes that differ by at most one, the larger first."""
    teachers = _checked_teachers(inputs)
    small, larger = divmod(len(inputs.y), teachers)
    return np.full(teachers, small) + (np.arange(teachers) < larger)


def _checked_teachers(inputs: PartitionInputs) -> int:
    """Return the number of teachers; raise PatebenchError if it is below 1 or exceeds the number of samples."""
    samples, teachers = len(inputs.y), inputs.teachers
    if teachers is None or teachers < 1:
        raise PatebenchError(f"the number of teachers is {teachers}; use at least one teacher")
    check_teachers(teachers, samples)
    return teachers


def check_teachers(teachers: int, samples: int, people: int | None = None) -> None:
    """Raise PatebenchError if there are more teachers than private samples or, if `people` is given, than people."""
    for most, what in ((samples, "private sample"), (people, "person")):
        if most is not None and teachers > most:
            raise PatebenchError(
                f"there are {teachers} teachers, but only {plural(most, what)}; use at most {plural(most, 'teacher')}",
                code="bound",
            )


def assigns_people(strategy: str) -> bool:
    """Return True if the partition `strategy` assigns all records of a person to one teacher.

    Raises PatebenchError for an unknown strategy.
    """
    return bool(PARTITIONS.fact(strategy, "parameter") == "owners")


def check_keeps_people(people: NDArray[Any], owners: NDArray[Any]) -> None:
    """Raise PatebenchError if records of one person belong to several owners.

    `people` (samples,) contains the person of each record according to the data set, and `owners` (samples,) the owner
    according to a file. Owners may be groups of several people, such as households.
    """
    numbers = [np.unique(column, return_inverse=True)[1] for column in (people, owners)]
    if len(np.unique(np.stack(numbers), axis=1).T) > len(np.unique(people)):
        raise PatebenchError(
            "the file of owners gives records of one person of the data set to several owners; leave 'owners' out, or"
            " give all records of a person to the same owner",
            code="owners",
        )


def read_owners(path: Path) -> NDArray[Any]:
    """Read the owner of each private sample from a `.npy` file; raise ArtefactError if the file cannot be read."""
    fix = "give a .npy file with one integer for each private sample"
    if not path.is_file():
        raise ArtefactError(path, "this file does not exist", fix)
    try:
        with open(path, "rb") as stream:
            owners: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, EOFError, OSError) as fault:
        if "Object arrays" in str(fault):
            own_fix = "save the owners as a .npy file of integers"
            raise ArtefactError(path, "it contains pickled objects, which are never loaded", own_fix) from None
        raise ArtefactError(path, f"it is not a readable .npy file ({fault})", fix) from None
    return owners


def _swap_conflicts(
    slots: NDArray[Any], mains: NDArray[Any], labels: NDArray[Any], rng: np.random.Generator
) -> NDArray[Any]:
    """Swap samples between teachers such that no sample has its teacher's main label; return the teachers (samples,).

    The samples are those that remain after `skew` has given each shard its samples of the main label. `labels`
    (samples,) contains their labels, and `slots` (samples,) their teachers before the swaps. `mains` (teachers,)
    contains the main label of each teacher. A sample with its teacher's main label swaps teachers with a random sample
    of another label.
    """
    slots = slots.copy()
    for label in np.unique(labels):
        main, has_label = mains[slots] == label, labels == label
        # Partners have another label and another main label, so no swap creates a conflict; `skew` has checked that
        # there are enough of them.
        conflicts = np.flatnonzero(main & has_label)
        partners = rng.choice(np.flatnonzero(~main & ~has_label), size=len(conflicts), replace=False)
        slots[conflicts], slots[partners] = slots[partners], slots[conflicts]
    return slots


def pack(assignment: Assignment, teachers: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the shards of `assignment` as arrays `indices` (samples in shards,) and `offsets` (teachers + 1,).

    The shard of teacher i is the samples at positions indices[offsets[i]:offsets[i + 1]], in ascending order. Samples
    assigned to `NOBODY` are in no shard.
    """
    sizes = np.bincount(assignment[assignment != NOBODY], minlength=teachers)
    order = np.argsort(assignment, kind="stable")
    return order[len(assignment) - sizes.sum() :], np.concatenate([[0], np.cumsum(sizes)])


def check_filled(sizes: NDArray[np.integer], left_out: int) -> None:
    """Raise PatebenchError if one of the shard `sizes` (teachers,) is 0.

    The message states `left_out`, the number of private samples that are in no shard because they are also public.
    """
    if (sizes < 1).any():
        note = f" ({left_out} private samples are left out because they are also public)" if left_out else ""
        raise PatebenchError(f"teacher {int(np.argmin(sizes))} has no samples{note}; use fewer teachers")


def check_disjoint(indices: NDArray[Any], offsets: NDArray[Any], samples: int, *, empty: bool = False) -> None:
    """Raise PatebenchError if shards overlap, or contain indices outside 0 … `samples` − 1.

    `indices` and `offsets` describe the shards as in `pack`. Each shard must contain a sample. If `empty` is True, one
    shard with a sample is enough.
    """
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(indices):
        raise PatebenchError(
            f"the array 'offsets' of the shards must run from 0 to {len(indices)}, the length of the array 'indices',"
            f" but runs from {offsets[0]} to {offsets[-1]}; make the partition again"
        )
    sizes = np.diff(offsets.astype(np.int64))
    if (sizes < (0 if empty else 1)).any():
        raise PatebenchError(f"teacher {int(np.argmin(sizes))} has no samples; give each teacher at least one")
    if not len(indices):
        raise PatebenchError("no teacher has any samples; use a partition with non-empty shards")
    if indices.min() < 0 or indices.max() >= samples:
        raise PatebenchError(
            f"a shard contains an index outside 0 … {samples - 1}, the positions of the private samples; make the"
            " partition again"
        )
    counts = np.bincount(indices.astype(np.int64), minlength=samples)
    if (counts > 1).any():
        sample = int(np.argmax(counts > 1))
        first, second = np.searchsorted(offsets, np.flatnonzero(indices == sample)[:2], side="right") - 1
        raise PatebenchError(
            f"private sample {sample} belongs to both teacher {first} and teacher {second}; make the partition again"
        )


def check_every_class(assignment: Assignment, y: NDArray[Any], class_names: Sequence[str]) -> None:
    """Raise PatebenchError if a teacher has no sample of some class; the message names the teacher and the class."""
    teachers, classes = int(assignment.max()) + 1, len(class_names)
    seen = np.bincount(assignment * classes + y, minlength=teachers * classes).reshape(teachers, classes)
    if (seen == 0).any():
        teacher, label = (int(axis[0]) for axis in np.nonzero(seen == 0))
        raise PatebenchError(
            f"teacher {teacher} has no sample of class {label} ('{class_names[label]}'), but 'every_class' requires"
            " one; leave 'every_class' out, use fewer teachers or, for the partition 'skew', lower 'share'"
        )
