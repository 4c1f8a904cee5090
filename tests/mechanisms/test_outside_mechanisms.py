"""Mechanisms of other packages: unsuitable objects are refused, and wrong probabilities give no bound."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packages import install

import patebench
from patebench.accounting.accountant import RenyiAccountant, repeated
from patebench.accounting.conversion import ORDERS
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.core.errors import PatebenchError
from patebench.mechanisms.base import Mechanism, fault_of, parameter

VOTES = Votes.from_counts(np.array([[8, 1, 1], [4, 3, 3], [10, 0, 0]]))


@dataclass(frozen=True)
class Sound(Mechanism):
    """Mechanism that releases a random class with probability `chance`, else the plurality."""

    chance: float = parameter(low=0, above=True, high=1)

    def release(self, votes: Votes, rng: Any) -> Any:
        drawn = rng.integers(0, votes.classes, size=votes.queries)
        return np.where(rng.random(size=votes.queries) < self.chance, drawn, votes.plurality).astype(np.int32)

    def log_outcome_probabilities(self, votes: Votes) -> Any:
        probabilities = np.full((votes.queries, votes.classes + 1), self.chance / votes.classes)
        probabilities[np.arange(votes.queries), votes.plurality] += 1 - self.chance
        probabilities[:, -1] = 0
        with np.errstate(divide="ignore"):
            return np.log(probabilities)


def fails(*given: object) -> Any:
    raise KeyError("colour")


def changed(method: str, change: Callable[[Any], Any]) -> Mechanism:
    """Return a sound mechanism except for the result of one method."""

    def other(self: Sound, *given: Any) -> Any:
        return change(getattr(Sound, method)(self, *given))

    kind = type("Changed", (Sound,), {method: other, "__module__": __name__})
    return dataclass(frozen=True)(kind)(0.5)


#: What is done to the logarithms of the probabilities.
PROBABILITIES: dict[str, Callable[[Any], Any]] = {
    "one NaN": lambda p: np.where(np.arange(p.size).reshape(p.shape) == 1, np.nan, p),
    "infinite": lambda p: np.full_like(p, np.inf),
    "half of it": lambda p: p - np.log(2),
    "a little too much": lambda p: p + 1e-4,
}


@pytest.mark.parametrize("name", PROBABILITIES)
def test_wrong_probabilities_give_no_bound(name: str) -> None:
    with pytest.raises(PatebenchError, match="instead of 1"):
        patebench.bounds(VOTES, changed("log_outcome_probabilities", PROBABILITIES[name]), delta=1e-5)


#: What is done to the labels, and the words of the refusal.
LABELS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a class too high": (lambda labels: labels + 3, "Changed.release returned the label 3 for query"),
    "below −1": (lambda labels: labels - 9, "Changed.release returned the label -9 for query"),
    "too few": (lambda labels: labels[1:], "Changed.release returned labels of dtype int32 and shape (2,)"),
    "floats": (lambda labels: labels / 2, "Changed.release returned labels of dtype float64"),
    "None": (lambda labels: None, "Changed.release returned labels of dtype object"),
    "an exception": (fails, "the mechanism Changed raised KeyError: 'colour'; correct it"),
}


@pytest.mark.parametrize("name", LABELS)
def test_wrong_labels_are_refused(name: str, caplog: pytest.LogCaptureFixture) -> None:
    change, words = LABELS[name]
    with pytest.raises(PatebenchError, match=re.escape(words)):
        patebench.label(Votes.from_counts(np.array([[9, 0, 0]] * 3)), changed("release", change), seed=0)
    assert ("Traceback" in caplog.text) is (change is fails)


def test_an_exception_in_a_bound_names_the_mechanism() -> None:
    with pytest.raises(PatebenchError, match="the mechanism Changed raised KeyError"):
        patebench.bounds(VOTES, changed("log_outcome_probabilities", fails), delta=1e-5)


def test_what_is_sound_passes() -> None:
    bounds = patebench.bounds(VOTES, Sound(0.5), delta=1e-5)
    assert all(bound.epsilon > 0 for bound in bounds)
    assert not patebench.audit(Sound(0.5), teachers=10, classes=3, delta=1e-5, runs=1000).violated


@pytest.mark.parametrize("number", [np.nan, -1.0, -np.inf])
def test_an_accountant_of_odd_divergences_is_refused(number: float) -> None:
    """A negative divergence would be an ε of 0."""

    @dataclass(frozen=True)
    class Odd(Sound):
        def accountants(self, votes: Votes) -> Any:
            totals = repeated(lambda orders: np.full(len(orders), number))
            return [RenyiAccountant(name="odd", kind=Kind.WORST_CASE, source="none", totals=totals, orders=ORDERS)]

    with pytest.raises(PatebenchError, match="the accountant 'odd' computed a Rényi divergence that is negative"):
        patebench.bounds(VOTES, Odd(0.5), delta=1e-5)


class NoMechanism:
    pass


class Undecorated(Sound):
    more: float = 1.0


@dataclass(frozen=True)
class Bare(Sound):
    more: float = 1.0


@dataclass(frozen=True)
class Abstract(Mechanism):
    chance: float = parameter(low=0, high=1)

    def release(self, votes: Votes, rng: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (NoMechanism, "is no subclass of"),
        (fails, "is no subclass of"),
        (Sound(0.5), "is no subclass of"),
        (Undecorated, "is no dataclass"),
        (Bare, "has the field more, which is no parameter"),
        (Abstract, "lacks the method log_outcome_probabilities"),
        (Sound, None),
    ],
)
def test_what_can_not_be_a_mechanism(thing: object, words: str | None) -> None:
    found = fault_of(thing)
    assert found == words or (words and found and words in found)


PATEBENCH = Path(sys.executable).with_name("patebench")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "module", "words"),
    [
        ("patebench.mechanisms", "raise RuntimeError('no licence')", "'toy' of the package toys cannot be loaded (Run"),
        ("patebench.mechanisms", "Toy = 5", "'toy' of the package toys is no subclass of"),
        (
            "patebench.mechanism",
            "Toy = 5",
            "the package toys registers it as an entry point of patebench.mechanism, not of",
        ),
    ],
)
def test_a_package_that_can_not_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, module: str, words: str
) -> None:
    install(tmp_path, f"[{group}]\ntoy = toy_module:Toy\n", toy_module=module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    np.save(tmp_path / "counts.npy", VOTES.counts)
    log = tmp_path / "log"
    asked = ["epsilon", tmp_path / "counts.npy", "--mechanism", "toy", "--chance", "0.5", "--delta", "1e-5"]
    done = subprocess.run([PATEBENCH, *asked, "--log", log], capture_output=True, text=True)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    if "cannot" in words:
        assert "Traceback" in log.read_text()
    check = [PATEBENCH, "config", "check", Path(__file__).parents[1] / "workflow" / "tiny.yaml"]
    checked = subprocess.run(check, capture_output=True, text=True)
    wrong_group = group == "patebench.mechanism"
    assert checked.returncode == (2 if wrong_group else 0)
    assert (
        "registers 'toy' in the unknown entry-point group patebench.mechanism (did you" in checked.stderr
    ) is wrong_group


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "words"), [("return votes.plurality + 3", "Toy.release returned the label"), ("1 / 0", "Toy raised Zero")]
)
def test_wrong_labels_of_a_package_stop_the_command_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: str
) -> None:
    source = (Path(__file__).parents[2] / "docs" / "template" / "src" / "patebench_coin.py").read_text()
    source += f"\n\nclass Toy(Coin):\n    def release(self, votes, rng):\n        {body}\n"
    install(tmp_path, "[patebench.mechanisms]\ntoy = toy_module:Toy\n", toy_module=source)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    np.save(tmp_path / "counts.npy", VOTES.counts)
    log, out = tmp_path / "log", tmp_path / "labels.npz"
    asked = ["aggregate", "--votes", tmp_path / "counts.npy", "--mechanism", "toy", "--chance", "0.5", "--seed", "0"]
    done = subprocess.run(
        [PATEBENCH, *asked, "--stream", "s", "--out", out, "--log", log], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert ("Traceback" in log.read_text()) is ("raised" in words)
    assert not out.exists()
