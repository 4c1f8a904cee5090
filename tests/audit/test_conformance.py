"""The tests of a mechanism find what is wrong with it, and only that."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from patebench.accounting.accountant import DirectAccountant
from patebench.accounting.votes import Votes
from patebench.audit.conformance import Conformance
from patebench.core.bound import Kind
from patebench.core.seeds import generator
from patebench.mechanisms.base import Mechanism, parameter
from tests.audit.faults import NoNoise

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Coin(Mechanism):
    """Sound: with some chance any class, else the plurality."""

    chance: float = parameter(low=0, above=True, high=1)

    def release(self, votes: Votes, rng: Any) -> Any:
        drawn = rng.integers(0, votes.classes, size=votes.queries)
        return np.where(rng.random(size=votes.queries) < self.chance, drawn, votes.plurality).astype(np.int32)

    def log_outcome_probabilities(self, votes: Votes) -> Any:
        probabilities = np.full((votes.queries, votes.classes + 1), self.chance / votes.classes)
        probabilities[:, -1] = 0
        probabilities[np.arange(votes.queries), votes.plurality] += 1 - self.chance
        with np.errstate(divide="ignore"):
            return np.log(probabilities)


class GlobalRandomness(Coin):
    def release(self, votes: Votes, rng: Any) -> Any:
        return np.random.randint(0, votes.classes, size=votes.queries)


class ChangesVotes(Coin):
    def release(self, votes: Votes, rng: Any) -> Any:
        votes.counts[:, 0] += 1
        return super().release(votes, rng)


class MoreThanSaid(Coin):
    """Answers at random half as often as it says."""

    def release(self, votes: Votes, rng: Any) -> Any:
        return Coin(self.chance / 2).release(votes, rng)


class LessThanLost(Coin):
    def accountants(self, votes: Votes) -> Any:
        return [DirectAccountant(name="kind", kind=Kind.WORST_CASE, source="none", epsilon=lambda T, delta: 0.1)]


class NoWorstCase(Coin):
    def accountants(self, votes: Votes) -> Any:
        epsilon = 10.0 + votes.counts.max()
        return [DirectAccountant(name="w", kind=Kind.WORST_CASE, source="none", epsilon=lambda T, delta: T * epsilon)]


class Nothing(Coin):
    def accountants(self, votes: Votes) -> Any:
        return []


class Discrete(Coin):
    """Says it has a discrete form, and no accountant holds for it."""

    discrete: ClassVar[bool] = True


class Fails(Coin):
    def release(self, votes: Votes, rng: Any) -> Any:
        raise ZeroDivisionError


BROKEN = {
    Coin: [],
    GlobalRandomness: ["equal seeds draw equal labels"],
    ChangesVotes: ["votes are left as they are"],
    MoreThanSaid: ["labels are drawn as the probabilities say"],
    LessThanLost: ["no bound says less than what is lost"],
    NoWorstCase: ["a worst case is the same whatever the votes"],
    Nothing: ["bounds are stated"],
    Discrete: ["labels to hand out"],
    Fails: ["labels are classes, or −1 for no answer", "equal seeds draw equal labels", "the audit"],
}


def broken(mechanism: Mechanism, runs: int = 2000) -> list[str]:
    streams = partial(generator, 0, "test")
    asked = Conformance("toy", mechanism, 11, 3, 1e-5, runs, 0.999, streams)
    return [check.what for check in asked.checks() if check.kept is False]


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_what_is_wrong_is_found(kind: type[Coin]) -> None:
    found = broken(kind(0.6))
    assert set(BROKEN[kind]) <= set(found)
    assert found or not BROKEN[kind]
    if kind is Coin:
        assert found == []


def test_noise_that_was_forgotten_is_found() -> None:
    assert "labels are drawn as the probabilities say" in broken(NoNoise(3.0))
