"""What a mechanism of another package gives back: anything odd is one line, and never a bound."""

import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import patebench
from patebench.accounting.accountant import DirectAccountant, RenyiAccountant, repeated
from patebench.accounting.conversion import ORDERS
from patebench.accounting.votes import Votes
from patebench.core.bound import Kind
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS, boundary
from patebench.mechanisms.base import Mechanism, parameter

VOTES = Votes.from_counts(np.array([[8, 1, 1], [4, 3, 3], [10, 0, 0]]))


@dataclass(frozen=True)
class Sound(Mechanism):
    """With some chance any class, else the plurality."""

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
    """Sound, but for what one of its methods gives."""

    def other(self: Sound, *given: Any) -> Any:
        return change(getattr(Sound, method)(self, *given))

    kind = type("Changed", (Sound,), {method: other, "__module__": __name__})
    return dataclass(frozen=True)(kind)(0.5)


#: What is done to the logarithms of the probabilities, and what is said of it.
PROBABILITIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "NaN everywhere": (lambda p: np.full_like(p, np.nan), "NaN in place of"),
    "one NaN": (lambda p: np.where(np.arange(p.size).reshape(p.shape) == 5, np.nan, p), "NaN in place of"),
    "infinite": (lambda p: np.full_like(p, np.inf), "that sum to"),
    "probabilities and no logarithms": (np.exp, "that sum to"),
    "no probability at all": (lambda p: np.full_like(p, -np.inf), "of query 0 that sum to 0 and not to 1"),
    "half of it": (lambda p: p - np.log(2), "probabilities of query 0 that sum to 0.5 and not to 1"),
    "a little too much": (lambda p: p + 1e-4, "that sum to 1.0001 and not to 1"),
    "one row": (lambda p: p + np.array([[0], [0], [1e-3]]), "probabilities of query 2 that sum to"),
    "no column for no answer": (lambda p: p[:, :-1], r"float64 of shape \(3, 3\) in place of floats \(3, 4\)"),
    "a column too many": (lambda p: np.column_stack([p, p[:, -1]]), r"of shape \(3, 5\)"),
    "a query too few": (lambda p: p[1:], r"of shape \(2, 4\)"),
    "turned": (lambda p: p.T, r"of shape \(4, 3\)"),
    "one row alone": (lambda p: p[0], r"of shape \(4,\)"),
    "a number": (lambda p: 0.0, r"of shape \(\)"),
    "whole numbers": (lambda p: np.zeros(p.shape, int), "int64"),
    "truths": (lambda p: p < 0, "bool"),
    "text": (lambda p: p.astype(str), "<U"),
    "objects": (lambda p: p.astype(object), "object"),
    "complex": (lambda p: p.astype(complex), "complex"),
    "an exception": (fails, r"failed in log_outcome_probabilities \(KeyError: 'colour'\); mend that package"),
}  # fmt: skip

#: What is done to the labels, and what is said of it.
LABELS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a class that there is not": (lambda y: y + 3, "labels from 3 to 5, and there are 0 to 2 and −1"),
    "below no answer": (lambda y: y - 4, "labels from -4 to"),
    "floats": (lambda y: y / 1.0, r"float64 of shape \(3,\) in place of a whole number for each of 3 queries"),
    "NaN": (lambda y: np.full(len(y), np.nan), "float64"),
    "a label too few": (lambda y: y[:-1], r"of shape \(2,\)"),
    "a label too many": (lambda y: np.append(y, 0), r"of shape \(4,\)"),
    "a column": (lambda y: y[:, None], r"of shape \(3, 1\)"),
    "one label": (lambda y: y[0], r"of shape \(\)"),
    "nothing": (lambda y: None, "object"),
    "words": (lambda y: y.astype(str), "<U"),
    "truths": (lambda y: y > 0, "bool"),
    "an exception": (fails, r"failed in release \(KeyError: 'colour'\); mend that package"),
}


@pytest.mark.parametrize("name", PROBABILITIES)
def test_odd_probabilities_are_no_bound(name: str) -> None:
    change, words = PROBABILITIES[name]
    made = changed("log_outcome_probabilities", change)
    for ask in (
        lambda: made.log_outcome_probabilities(VOTES),
        lambda: patebench.bounds(VOTES, made, delta=1e-5),
        lambda: patebench.audit(made, teachers=10, classes=3, delta=1e-5, runs=1000),
    ):
        with pytest.raises(PatebenchError) as caught:
            ask()
        assert str(caught.value).startswith(f"the mechanism Changed of the module {__name__}")
        assert "\n" not in str(caught.value)
    with pytest.raises(PatebenchError, match=words):
        made.log_outcome_probabilities(VOTES)


@pytest.mark.parametrize("name", LABELS)
def test_odd_labels_are_no_release(name: str) -> None:
    change, words = LABELS[name]
    made = changed("release", change)
    for ask in (
        lambda: made.release(VOTES, np.random.default_rng(0)),
        lambda: made.released(VOTES, np.random.default_rng(0)),
        lambda: patebench.label(VOTES, made, seed=0),
        lambda: patebench.audit(made, teachers=10, classes=3, delta=1e-5, runs=1000),
    ):
        with pytest.raises(PatebenchError) as caught:
            ask()
        assert str(caught.value).startswith(f"the mechanism Changed of the module {__name__}")
        assert "\n" not in str(caught.value)
    with pytest.raises(PatebenchError, match=words):
        made.release(VOTES, np.random.default_rng(0))


def test_a_list_of_labels_becomes_an_array() -> None:
    labels = changed("release", lambda y: y.tolist()).release(VOTES, np.random.default_rng(0))
    assert labels.shape == (3,)


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

    with pytest.raises(PatebenchError, match="the accountant 'odd' gave a divergence below 0 or none"):
        patebench.bounds(VOTES, Odd(0.5), delta=1e-5)


def leaves(*given: object) -> Any:
    raise SystemExit(0)


@pytest.mark.parametrize("method", ["release", "log_outcome_probabilities"])
def test_one_that_leaves_the_program_is_told(method: str) -> None:
    made = changed(method, leaves)
    asked = {"release": lambda: made.release(VOTES, np.random.default_rng(0)), "log_outcome_probabilities": None}
    with pytest.raises(PatebenchError, match=rf"mechanism Changed .* failed in {method} \(SystemExit: 0\)"):
        (asked[method] or (lambda: made.bounds(VOTES, [3], 1e-5)))()


@pytest.mark.parametrize("given", [None, ["x"], "rdp"])
def test_accountants_that_are_none_are_told(given: object) -> None:
    with pytest.raises(PatebenchError, match=r"mechanism Changed .*: accountants gave .* in place of a list of"):
        changed("accountants", lambda _: given).bounds(VOTES, [3], 1e-5)


def test_an_accountant_whose_theorem_fails_is_told_with_its_mechanism() -> None:
    accountant = DirectAccountant(name="odd", kind=Kind.WORST_CASE, source="none", epsilon=lambda *_: float("nan"))
    with pytest.raises(PatebenchError, match=r"mechanism Changed .*: the accountant 'odd' gave ε = nan"):
        changed("accountants", lambda _: [accountant]).bounds(VOTES, [3], 1e-5)
    failing = replace(accountant, epsilon=fails)
    with pytest.raises(PatebenchError, match=r"mechanism Changed .* failed in the accountant 'odd' \(KeyError"):
        changed("accountants", lambda _: [failing]).bounds(VOTES, [3], 1e-5)


def test_neighbours_with_nan_are_refused() -> None:
    from dataclasses import replace

    @dataclass(frozen=True)
    class Odd(Sound):
        def neighbours(self, counts: Any) -> Any:
            for pairs in super().neighbours(counts):
                yield replace(pairs, log_p_neighbour=pairs.log_p_neighbour * np.nan)

    with pytest.raises(PatebenchError, match=r"Odd.*: neighbours gave NaN in place of logarithms"):
        patebench.bounds(VOTES, Odd(0.5), delta=1e-5)


def test_the_traceback_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("patebench").propagate = True
    with pytest.raises(PatebenchError):
        changed("release", fails).release(VOTES, np.random.default_rng(0))
    assert "Traceback" in caplog.text
    assert "raise KeyError" in caplog.text


def test_what_is_built_in_is_not_wrapped() -> None:
    for name in MECHANISMS.names():
        assert not getattr(MECHANISMS.load(name).release, "guarded", False)


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
    found = boundary.fault_of(thing)
    assert found == words or (words and found and words in found)


PATEBENCH = Path(sys.executable).with_name("patebench")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "module", "words"),
    [
        ("patebench.mechanisms", "raise RuntimeError('no licence')", "'toy' of the package toys cannot be loaded (Run"),
        ("patebench.mechanisms", "import nothing_there", "cannot be loaded (No module named 'nothing_there')"),
        ("patebench.mechanisms", "def Toy(: pass", "cannot be loaded (SyntaxError: "),
        ("patebench.mechanisms", "Toy = 5", "'toy' of the package toys is no subclass of"),
        ("patebench.mechanism", "Toy = 5", "the package toys offers it under patebench.mechanism, and not under"),
    ],
)
def test_a_package_that_can_not_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, module: str, words: str
) -> None:
    info = tmp_path / "toys-1.0.dist-info"
    info.mkdir()
    (tmp_path / "toy_module.py").write_text(module)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\ntoy = toy_module:Toy\n")
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
        "offers 'toy' under the group patebench.mechanism, which there is not (did you" in checked.stderr
    ) is wrong_group
