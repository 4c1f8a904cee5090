"""Train the teachers of a chunk: all at once as one stacked network on a GPU, one after another on a CPU.

On a CPU, a single network already uses a whole core, and the grouped convolutions of a stack are slower.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from patebench.core.errors import PatebenchError
from patebench.models.learner import Learner
from patebench.models.network import Network, oversampled, steps
from patebench.models.stack import Shard, Stack, stackable

log = logging.getLogger("patebench")

#: Progress callback, called with the number of trained teachers; a half-trained teacher of a stack counts as a half.
Done = Callable[[int], None]


@dataclass(frozen=True)
class SingleTeacher:
    """One fitted teacher with the same methods as a `Stack`, which holds several teachers."""

    learner: Learner

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        return self.learner.predict(x)[None]

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.floating]:
        return self.learner.log_probabilities(x)[None]

    def hints(self, x: NDArray[Any], layer: str) -> NDArray[np.floating]:
        if not isinstance(self.learner, Network):
            raise PatebenchError(
                f"the model has no layer '{layer}' to take hints from; use the model conv-small or conv-middle"
            )
        return self.learner.hints(x, layer)[None]

    @property
    def device_facts(self) -> dict[str, str]:
        return self.learner.device_facts if isinstance(self.learner, Network) else {}


#: Fitted teachers that predict together.
TrainedTeachers = SingleTeacher | Stack


def train(
    make_teacher: Callable[[], Learner],
    shards: Sequence[Shard],
    seeds: Sequence[int],
    done: Done,
    *,
    stacked: bool | None = None,
) -> Iterator[tuple[list[int], TrainedTeachers]]:
    """Train a teacher on each of the `shards`, with the seed at the same position.

    Parameters
    ----------
    make_teacher : returns an unfitted learner
    shards : samples and labels of each teacher
    seeds : one seed per shard
    done : progress callback
    stacked : train networks in stacks; by default on a GPU only. Other learners, and networks with layers that cannot
        be stacked (`stackable`), are always trained one by one.

    Yields
    ------
    positions, teachers : a group of teachers as soon as it is trained, and the positions of its shards
    """
    template = make_teacher()
    if isinstance(template, Network) and template.recipe.oversample:
        shards = [oversampled(x, y) for x, y in shards]
    if isinstance(template, Network) and _is_stacked(template, shards[0], stacked):
        ready = 0
        for positions in _equal_steps(shards, template):
            chunk = _StackedChunk(template, shards, seeds, frozenset(positions))
            yield from _stacks(chunk, list(range(len(shards))), ready, done)
            ready += len(positions)
        return
    for position, ((x, y), seed) in enumerate(zip(shards, seeds, strict=True)):
        learner = make_teacher()
        learner.fit(x, y, seed=seed)
        done(position + 1)
        yield [position], SingleTeacher(learner)


def _is_stacked(template: Network, shard: Shard, wanted: bool | None) -> bool:
    """Return True if networks like `template` are to be trained in stacks on shards like `shard`.

    `wanted` is the caller's choice; by default only networks on a GPU are. All their layers must be stackable.
    """
    if wanted is None:
        wanted = template.device.type == "cuda"
    return wanted and stackable(template.build(shard[0].shape[1:], template.classes))


def _equal_steps(shards: Sequence[Shard], template: Network) -> list[list[int]]:
    """Group the positions of shards by their number of training steps, which must be equal within a stack."""
    groups: dict[int, list[int]] = defaultdict(list)
    for position, (_, y) in enumerate(shards):
        groups[steps(len(y), template.recipe)].append(position)
    return list(groups.values())


@dataclass(frozen=True)
class _StackedChunk:
    """Shards and seeds of a chunk, of which only the teachers at the positions `members` are trained in stacks.

    All other teachers of the chunk are replaced by placeholders, so that a stack always has the same shape. The shape
    changes rounding, and without placeholders it would depend on the sizes of the shards, which may be private.
    """

    template: Network
    shards: Sequence[Shard]
    seeds: Sequence[int]
    members: frozenset[int]

    def stack(self, places: Sequence[int]) -> tuple[list[int], Stack]:
        """Return the positions of the members among the teachers at `places`, and an untrained stack of them."""
        x, y = self.shards[min(self.members)]
        placeholder = np.zeros_like(x), np.zeros_like(y)
        shards = [self.shards[place] if place in self.members else placeholder for place in places]
        shown = [number for number, place in enumerate(places) if place in self.members]
        stack = Stack(self.template, shards, [self.seeds[place] for place in places], shown)
        return [places[number] for number in shown], stack


def _stacks(
    chunk: _StackedChunk, places: list[int], ready: int, done: Done
) -> Iterator[tuple[list[int], TrainedTeachers]]:
    """Train the chunk's members at `places` as one stack, halved as often as needed if it does not fit into memory.

    `ready` is the number of teachers of the chunk that are already trained.
    """
    count = len(chunk.members.intersection(places))
    if not count:
        return
    trained: tuple[list[int], Stack] | None = None
    try:
        trained = chunk.stack(places)
        trained[1].fit(lambda epoch, of: done(ready + count * epoch // of))
    except torch.OutOfMemoryError:
        if len(places) == 1:
            raise
        trained = None
    if trained is not None:
        yield trained
        return
    half = len(places) // 2
    log.info("%d teachers do not fit into the memory of the device at once; training them in two halves", len(places))
    first = places[:half]
    yield from _stacks(chunk, first, ready, done)
    yield from _stacks(chunk, places[half:], ready + len(chunk.members.intersection(first)), done)
