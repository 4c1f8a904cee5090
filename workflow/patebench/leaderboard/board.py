"""Order the entries of the leaderboard: rows per data set, the most accurate proved entries, and ranks of methods.

Only entries whose ε is proved are ranked. They are compared within one data set, unit of privacy and adjacency, at the
worst-case ε that our accountants compute.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from patebench.core.text import plural
from patebench.leaderboard.assessment import Assessed, Status
from patebench.leaderboard.entry import Origin
from patebench.reporting.significance import CONFIDENCE, ENOUGH_SEEDS, Ranks, difference_interval, rank_methods
from patebench.reporting.wording import in_words

#: Largest ε at which the best entries are shown and methods ranked over data sets, and that of sentences on the lead.
TARGETS = (0.1, 1.0, 3.0, 8.0)
LEAD_AT = 1.0

#: Data sets that come first; others follow by name.
_FIRST = ("fashion_mnist", "mnist", "cifar10", "cifar10-jpeg", "svhn", "adult")


def rows_by_dataset(entries: Iterable[Assessed]) -> dict[str, list[Assessed]]:
    """Return the rows of each data set: ranked entries by unit and accuracy, then the others by accuracy.

    Entries without an accuracy are left out, and so is an entry if another one of the same method, unit and status is
    as accurate at the same or a smaller ε.
    """
    datasets: dict[str, list[Assessed]] = {}
    for row in entries:
        if row.entry.accuracy is not None:
            datasets.setdefault(row.entry.data.private, []).append(row)
    order = {name: place for place, name in enumerate(_FIRST)}
    names = sorted(datasets, key=lambda name: (order.get(name, len(order)), name))
    return {name: _ranked(_undominated(datasets[name])) for name in names}


def source(row: Assessed) -> str:
    """Return the paper of an entry, or "patebench" for a kept run."""
    return "patebench" if row.entry.origin is Origin.KEPT else row.entry.paper.title


def best_within_epsilon(rows: Iterable[Assessed]) -> list[Assessed]:
    """Return the rows, by ε, that no other one exceeds in accuracy at the same or a smaller ε."""
    best: list[Assessed] = []
    for row in sorted(rows, key=lambda row: (row.epsilon, -row.accuracy, row.entry.name)):
        if not best or row.accuracy > best[-1].accuracy:
            best.append(row)
    return best


def _undominated(rows: list[Assessed]) -> list[Assessed]:
    same: dict[tuple[str, ...], list[Assessed]] = {}
    for row in sorted(rows, key=lambda row: (row.epsilon, -row.accuracy, row.entry.name)):
        same.setdefault((row.entry.method, source(row), row.unit, row.status), []).append(row)
    return [row for group in same.values() for row in best_within_epsilon(group)]


def _ranked(rows: list[Assessed]) -> list[Assessed]:
    """Sort rows and number the ranked ones of each unit by accuracy; equal accuracies share a rank."""

    def rank(row: Assessed) -> int:
        return 1 + sum(other.accuracy > row.accuracy for other in rows if other.ranked and other.unit == row.unit)

    ordered = sorted(rows, key=lambda row: (not row.ranked, row.unit * row.ranked, -row.accuracy, row.epsilon))
    return [replace(row, rank=rank(row)) if row.ranked else row for row in ordered]


def units(rows: Sequence[Assessed]) -> list[str]:
    """Return the units of ranked rows, those of single records first."""
    return sorted({row.unit for row in rows if row.ranked}, key=lambda unit: (unit[:6] != "record", unit))


def leader(rows: Iterable[Assessed], unit: str, target: float) -> Assessed | None:
    """Return the most accurate ranked row of a unit with ε at most `target`, with the smallest ε of equal ones."""
    within = [row for row in rows if row.ranked and row.unit == unit and row.epsilon <= target * (1 + 1e-9)]
    return min(within, key=lambda row: (-row.accuracy, row.epsilon, row.entry.method), default=None)


def reported(rows: Iterable[Assessed], target: float) -> Assessed | None:
    """Return the most accurate row with a reported ε at most `target` that could not be checked."""
    unchecked = [row for row in rows if row.status is Status.UNCHECKED and row.epsilon <= target]
    return max(unchecked, key=lambda row: row.accuracy, default=None)


def lead(rows: Sequence[Assessed], unit: str, target: float) -> str:
    """Return a sentence on the lead of the best row over the best one of another method; "" if there is none."""
    first = leader(rows, unit, target)
    second = leader([row for row in rows if first and row.entry.method != first.entry.method], unit, target)
    if first is None or second is None:
        return ""
    text = f"{first.entry.method} leads {second.entry.method} by {100 * (first.accuracy - second.accuracy):.2f} points"
    by_seed = [(row.entry.accuracy and row.entry.accuracy.by_seed) or {} for row in (second, first)]
    seeds = sorted(by_seed[0].keys() & by_seed[1].keys())
    if len(seeds) < 2:
        return f"{text}; without common seeds there is no interval."
    theirs, ours = ([values[seed] for seed in seeds] for values in by_seed)
    low, high = difference_interval(theirs, ours, paired=True)
    narrow = f", too narrow for fewer than {ENOUGH_SEEDS}" if len(seeds) < ENOUGH_SEEDS else ""
    interval = f"{100 * low:.2f} to {100 * high:.2f}"
    return f"{text} ({CONFIDENCE:.0%} interval over {plural(len(seeds), 'common seed')} {interval}{narrow})."


def rank_over_datasets(datasets: Mapping[str, Sequence[Assessed]], unit: str, target: float) -> Ranks | None:
    """Rank the methods that have a proved entry of `unit` with ε at most `target` on several data sets.

    Of all sets of data sets, the one with the most entries of at least three common methods is used; None if there is
    none with two data sets.
    """
    import pandas as pd

    best = {
        (in_words(name), method): found.accuracy
        for name, rows in datasets.items()
        for method in sorted({row.entry.method for row in rows if row.unit == unit})
        if (found := leader([row for row in rows if row.entry.method == method], unit, target))
    }
    frame = pd.Series(best, dtype=float).unstack() if best else pd.DataFrame()
    choices = [list(names) for size in range(2, len(frame) + 1) for names in combinations(frame.index, size)]
    complete = [frame.loc[names].dropna(axis=1) for names in choices]
    return rank_methods(max(complete, key=lambda part: part.size * (part.shape[1] > 2), default=frame))


def corrections(page: Path) -> dict[str, int]:
    """Return the number of corrections of each paper on the page docs/explanation/corrections.md."""
    counts: dict[str, int] = {}
    paper = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            paper = line.removeprefix("## ").strip()
        elif paper and line.startswith("| ") and not line.startswith(("| where", "|---", "| ---")):
            counts[paper] = counts.get(paper, 0) + 1
    return counts


#: Meaning of each status.
MEANINGS = {
    Status.PROVED: "The reported ε is not below the worst-case ε that our accountants compute. Only these are ranked.",
    Status.UNPROVED: "The reported ε is below what we can prove: it depends on private votes, or has no proof here.",
    Status.VIOLATED: "The reported ε is below a lower bound on the true ε, so it is wrong.",
    Status.UNCHECKED: "The source does not state enough to compute an ε.",
}
