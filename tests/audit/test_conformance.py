"""The conformance checks find the fault of a mechanism, and only that."""

from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from patebench.accounting.accountant import DirectAccountant
from patebench.accounting.votes import Votes
from patebench.audit.conformance import Conformance
from patebench.core.bound import Kind
from patebench.core.seeds import generator
from patebench.mechanisms.base import Mechanism
from patebench.mechanisms.noisy_argmax import GNMax
from tests.audit.faults import NO_NOISE
from tests.mechanisms.test_outside_mechanisms import Sound

pytestmark = pytest.mark.slow


class GlobalRandomness(Sound):
    def release(self, votes: Votes, rng: Any) -> Any:
        return np.random.randint(0, votes.classes, size=votes.queries)


class ChangesVotes(Sound):
    def release(self, votes: Votes, rng: Any) -> Any:
        votes.counts[:, 0] += 1
        return super().release(votes, rng)


class ChangesMatrix(Sound):
    def release(self, votes: Votes, rng: Any) -> Any:
        votes.matrix[:, 0] = 0  # type: ignore[index]
        return super().release(votes, rng)


class MoreThanSaid(Sound):
    """Mechanism that returns a random class half as often as stated."""

    def release(self, votes: Votes, rng: Any) -> Any:
        return Sound(self.chance / 2).release(votes, rng)


class LessThanLost(Sound):
    def accountants(self, votes: Votes) -> Any:
        return [DirectAccountant(name="kind", kind=Kind.WORST_CASE, source="none", epsilon=lambda T, delta: 0.1)]


class NoWorstCase(Sound):
    def accountants(self, votes: Votes) -> Any:
        epsilon = 10.0 + votes.counts.max()
        return [DirectAccountant(name="w", kind=Kind.WORST_CASE, source="none", epsilon=lambda T, delta: T * epsilon)]


class Nothing(Sound):
    def accountants(self, votes: Votes) -> Any:
        return []


class Discrete(Sound):
    """Mechanism that declares a discrete form, but has no accountant for this form."""

    discrete: ClassVar[bool] = True


class Fails(Sound):
    def release(self, votes: Votes, rng: Any) -> Any:
        raise ZeroDivisionError


class Exits(Sound):
    def log_outcome_probabilities(self, votes: Votes) -> Any:
        raise SystemExit(0)


class CheatingGNMax(GNMax):
    """Mechanism that states too small a cost per query."""

    def per_query_cost(self, teachers: int, classes: int) -> Any:
        return super().per_query_cost(teachers, classes)._replace(answer=lambda orders: 1e-4 * np.asarray(orders))


class OtherLabels(GNMax):
    def released(self, votes: Votes, rng: Any) -> Any:
        return {"labels": votes.plurality}


class MoreArrays(GNMax):
    def released(self, votes: Votes, rng: Any) -> Any:
        return {**super().released(votes, rng), "noisy_counts": votes.counts}


class NoSecretNoise(GNMax):
    def release(self, votes: Votes, rng: Any) -> Any:
        return super().release(votes, rng) if isinstance(rng, np.random.Generator) else votes.plurality


BROKEN = {
    Exits: ["probabilities sum to one", "the audit"],
    GlobalRandomness: ["equal seeds draw equal labels"],
    ChangesVotes: ["votes are not modified"],
    ChangesMatrix: ["votes are not modified"],
    MoreThanSaid: ["labels follow the stated probabilities"],
    LessThanLost: ["no bound is below the audited ε"],
    NoWorstCase: ["worst-case bounds do not depend on the votes"],
    Nothing: ["bounds are stated"],
    Discrete: ["labels can be released"],
    Fails: ["labels are classes, or −1 for no answer", "equal seeds draw equal labels", "the audit"],
}


def broken(mechanism: Mechanism, runs: int = 2000) -> list[str]:
    streams = partial(generator, 0, "test")
    asked = Conformance("toy", mechanism, 11, 3, 1e-5, runs, 0.999, streams)
    return [check.what for check in asked.checks() if check.kept is False]


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_what_is_wrong_is_found(kind: type[Sound]) -> None:
    assert set(BROKEN[kind]) <= set(broken(kind(0.6)))


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (CheatingGNMax, "a budget counts at least the exact cost of a query"),
        (OtherLabels, "labels can be released"),
        (MoreArrays, "labels can be released"),
        (NoSecretNoise, "labels can be released"),
    ],
)
def test_a_mechanism_that_deceives_only_a_release_is_found(kind: type[GNMax], check: str) -> None:
    assert broken(kind(8.0), runs=200) == [check]
    assert check not in broken(GNMax(8.0), runs=200)


def test_a_sound_mechanism_passes_and_one_without_noise_does_not() -> None:
    assert broken(Sound(0.6)) == []
    assert "labels follow the stated probabilities" in broken(NO_NOISE)
