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
from patebench.models import Learner
from patebench.models.network import Network, oversampled, steps
from patebench.models.stack import Shard, Stack, stackable

log = logging.getLogger("patebench")

#: Progress callback, called with the number of trained teachers; a stack counts in proportion to its finished epochs.
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
                f"the model has no layer '{layer}' to take hints from; use the model 'conv-small' or 'conv-middle'"
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
    """Train a teacher on each of the `shards`, with its own seed.

    Parameters
    ----------
    make_teacher : function that returns an unfitted learner
    shards : samples and labels of each teacher
    seeds : one seed per shard
    done : progress callback, called with the number of trained teachers
    stacked : True to train several networks together as a `Stack`, False to train them one by one; None: True on a GPU,
        False on a CPU. Learners that cannot form a stack (`stackable`) are always trained one by one.

    Yields
    ------
    positions, teachers : indices in `shards` of a group of teachers, and this group, as soon as it is trained
    """
    template = make_teacher()
    if isinstance(template, Network):
        if template.recipe.oversample:
            shards = [oversampled(x, y) for x, y in shards]
        wanted = template.device.type == "cuda" if stacked is None else stacked
        if wanted and stackable(template.build(shards[0][0].shape[1:], template.classes)):
            yield from _train_stacks(template, shards, seeds, done)
            return
    for position, ((x, y), seed) in enumerate(zip(shards, seeds, strict=True)):
        learner = make_teacher()
        learner.fit(x, y, seed=seed)
        done(position + 1)
        yield [position], SingleTeacher(learner)


def _train_stacks(
    template: Network, shards: Sequence[Shard], seeds: Sequence[int], done: Done
) -> Iterator[tuple[list[int], Stack]]:
    """Train networks in stacks, and yield groups of teachers as `train` does.

    Networks with the same number of training steps form a stack. If a stack does not fit into memory, each half of it
    is trained separately.
    """
    groups: dict[int, list[int]] = defaultdict(list)
    for position, (_, y) in enumerate(shards):
        groups[steps(len(y), template.recipe)].append(position)
    earlier = 0
    for members in groups.values():
        waiting = [range(len(shards))]
        while waiting:
            positions = waiting.pop(0)
            teachers = [position for position in positions if position in members]
            if not teachers:
                continue
            stack = _train_stack(template, shards, seeds, teachers, positions, earlier, done)
            if stack is None:
                middle = len(positions) // 2
                waiting = [positions[:middle], positions[middle:], *waiting]
            else:
                earlier += len(teachers)
                yield teachers, stack


def _train_stack(
    template: Network,
    shards: Sequence[Shard],
    seeds: Sequence[int],
    teachers: Sequence[int],
    positions: Sequence[int],
    earlier: int,
    done: Done,
) -> Stack | None:
    """Train several teachers together as a stack of networks; return the stack, or None if it exceeds the memory.

    `positions` are the indices in `shards` of all networks in the stack. `teachers` are some of these indices. Only
    these networks are trained on their shards and appear in the result. The other networks are placeholders, trained on
    dummy samples: with them, the size of the stack does not depend on private shard sizes. `earlier` is the number of
    teachers already trained.
    """
    x, y = shards[teachers[0]]
    # Placeholders make the shape of a stack independent of the sizes of the shards, which may be private. The shape
    # affects the rounding of the results.
    placeholder = np.zeros_like(x), np.zeros_like(y)
    own = [shards[position] if position in teachers else placeholder for position in positions]
    visible = [number for number, position in enumerate(positions) if position in teachers]
    try:
        stack = Stack(template, own, [seeds[position] for position in positions], visible)
        stack.fit(lambda epoch, of: done(earlier + len(teachers) * epoch // of))
    except torch.OutOfMemoryError:
        if len(positions) == 1:
            raise
        log.info(
            "%d teachers do not fit into the memory of the device at once; training them in two halves", len(positions)
        )
        return None
    return stack
