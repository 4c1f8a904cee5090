"""How the teachers of a chunk are trained: as one network on a GPU, one after another on a CPU.

On a CPU a single network fills a core already; a stack only adds grouped convolutions, which are slower there.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from patebench.models.learner import Learner
from patebench.models.network import Network, steps
from patebench.models.stack import Shard, Stack, stackable

log = logging.getLogger("patebench")

#: Called with the number of teachers that are ready; parts of teachers, trained at the same time, add up.
Done = Callable[[int], None]


class Trained(Protocol):
    """Teachers that can be asked together."""

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Labels (teachers, samples)."""

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.floating]:
        """Log-probabilities of the classes (teachers, samples, classes)."""

    def save(self, position: int, path: Path) -> None:
        """Keep the weights of one of them."""

    @property
    def manner(self) -> dict[str, str]:
        """Where networks are trained and in which numbers they multiply; see `network.manner`."""


@dataclass(frozen=True)
class Alone:
    """One teacher, asked as if it were several."""

    learner: Learner

    def predict(self, x: NDArray[Any]) -> NDArray[np.int64]:
        return self.learner.predict(x)[None]

    def log_probabilities(self, x: NDArray[Any]) -> NDArray[np.floating]:
        return self.learner.log_probabilities(x)[None]

    def save(self, position: int, path: Path) -> None:
        self.learner.save(path)

    @property
    def manner(self) -> dict[str, str]:
        return self.learner.manner if isinstance(self.learner, Network) else {}


def train(
    make: Callable[[], Learner],
    shards: Sequence[Shard],
    seeds: Sequence[int],
    done: Done,
    *,
    together: bool | None = None,
) -> Iterator[tuple[list[int], Trained]]:
    """A teacher for each shard, drawing from its own seed; yields those that are ready, with their positions.

    `together` asks for stacks or refuses them; by default a GPU gets them. Learners that are no networks, or whose
    layers forbid it (`stackable`), are trained one by one everywhere.
    """
    kind = make()
    stack = isinstance(kind, Network) and (kind.device.type == "cuda" if together is None else together)
    if stack and isinstance(kind, Network) and stackable(kind.build(shards[0][0].shape[1:], kind.classes)):
        ready = 0
        for positions in _alike(shards, kind):
            yield from _stacks(kind, shards, seeds, positions, ready, done)
            ready += len(positions)
        return
    for position, ((x, y), seed) in enumerate(zip(shards, seeds, strict=True)):
        learner = make()
        learner.fit(x, y, seed=seed)
        done(position + 1)
        yield [position], Alone(learner)


def _alike(shards: Sequence[Shard], kind: Network) -> list[list[int]]:
    """The positions of shards that take the same number of steps: their networks can be trained as one."""
    groups: dict[int, list[int]] = defaultdict(list)
    for position, (_, y) in enumerate(shards):
        groups[steps(len(y), kind.recipe)].append(position)
    return list(groups.values())


def _stacks(
    kind: Network, shards: Sequence[Shard], seeds: Sequence[int], positions: list[int], ready: int, done: Done
) -> Iterator[tuple[list[int], Trained]]:
    """The networks at these positions as one stack, or as several where the device's memory is too small."""
    try:
        stack = Stack(kind, [shards[position] for position in positions], [seeds[position] for position in positions])
        stack.fit(lambda epoch, of: done(ready + len(positions) * epoch // of))
    except torch.OutOfMemoryError:
        if len(positions) == 1:
            raise
        stack = None
    if stack is not None:
        yield positions, stack
        return
    half = len(positions) // 2
    log.info("%d teachers at once do not fit into the memory of the device; halving them", len(positions))
    yield from _stacks(kind, shards, seeds, positions[:half], ready, done)
    yield from _stacks(kind, shards, seeds, positions[half:], ready + half, done)
