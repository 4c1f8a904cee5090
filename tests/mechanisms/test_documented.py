"""docs/epsilon.md: which mechanisms its table gives each accountant, and what it says of labels, as the code has it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

import patebench
from patebench.accounting.votes import SILENT, Votes
from patebench.core.errors import PatebenchError
from patebench.mechanisms import MECHANISMS
from patebench.reporting.wording import in_words

PAGE = (Path(__file__).parents[2] / "docs" / "epsilon.md").read_text(encoding="utf-8")
TEACHERS, QUERIES, DELTA = 60, 5, 1e-5

#: What the table has of releases with a budget, of several releases, and of bounds that are drawn.
OTHERWISE = {"rdp-filter", "rdp-sanitised", "rdp-sanitised-optimised", "ledger"}


def votes(mechanism: str) -> Votes:
    rng = np.random.default_rng(0)
    every = np.where(rng.random((TEACHERS, QUERIES)) < 0.9, 0, 1)
    once = np.full((TEACHERS, QUERIES), SILENT)
    once[np.arange(TEACHERS), np.arange(TEACHERS) % QUERIES] = every[:, 0]
    return Votes.of(once, 3, abstentions=True) if "sparse" in mechanism else Votes.of(every, 3)


def stated() -> dict[str, set[str]]:
    """The mechanisms that each accountant bounds, for continuous noise or discrete; a claim of NZC is no bound."""
    found: dict[str, set[str]] = {}
    for mechanism in MECHANISMS.names():
        for release in (False, True):
            for accountant in _accountants(mechanism, release):
                found.setdefault(accountant, set()).add(mechanism)
    return found


def _accountants(mechanism: str, release: bool) -> Iterator[str]:
    try:
        parameters: Any = MECHANISMS.load(mechanism).example
        bounds = patebench.bounds(votes(mechanism), mechanism, delta=DELTA, release=release, **parameters)
    except PatebenchError as error:
        if release and "no release that is safe" in str(error):
            return
        raise
    for bound in bounds:
        if bound.kind != "claimed" or bound.accountant == "rdp-expected":
            yield bound.accountant


def documented() -> dict[str, set[str]]:
    section = PAGE.split("\n## Accountants\n")[1].split("\n**")[0]
    names = {_plain(in_words(name)): name for name in MECHANISMS.names()}
    found: dict[str, set[str]] = {}
    above: set[str] = set()
    for accountant, cell in re.findall(r"^\| `([a-z-]+)`[^|]* \| ([^|]+) \|", section, re.MULTILINE):
        if accountant not in OTHERWISE:
            above = _named(cell, names, above)
            found.setdefault(accountant, set()).update(above)
    return found


def _named(cell: str, names: dict[str, str], above: set[str]) -> set[str]:
    but = cell.removeprefix("all but ")
    told = [_plain(words) for words in re.split(", | and ", but)]
    found = {names[words] for words in told if words != "the same"} | (above if "the same" in told else set())
    return {*names.values()} - found if but != cell else found


def _plain(words: str) -> str:
    return words.lower().replace("-", " ").strip()


def test_the_table_gives_each_accountant_its_mechanisms() -> None:
    found, told = stated(), documented()
    assert {name.removesuffix("-per-teacher") for name in found} == {name.removesuffix("-per-teacher") for name in told}
    assert {name: found[name] for name in told} == told


def test_what_labels_of_tied_classes_lose() -> None:
    """One vote of 250 moves where two classes tie in all of 286 queries: the label is one of two, with these odds."""
    (told,) = re.findall(r"^\| GNMax σ = 40, T = 286 \| [0-9.]+ \| [0-9.]+ \| ([0-9.]+) \|$", PAGE, re.MULTILINE)
    odds = [norm.cdf(gap / (40 * np.sqrt(2))) for gap in (0, -2)]
    drawn = np.arange(287)
    here, there = (binom.logpmf(drawn, 286, odd) for odd in odds)

    def delta(epsilon: float) -> float:
        return max(
            np.maximum(np.exp(one) - np.exp(epsilon + other), 0).sum() for one, other in ((here, there), (there, here))
        )

    assert brentq(lambda epsilon: delta(epsilon) - DELTA, 0, 10) == pytest.approx(float(told), abs=5e-4)
