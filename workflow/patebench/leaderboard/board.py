"""Write the pages of the leaderboard: rows by data set, the most accurate proved entries, and ranks of methods.

Only entries whose ε is proved are ranked. They are compared within one data set, unit of privacy and adjacency, at the
worst-case ε that our accountants compute. The pages are Markdown with HTML tables, for the documentation site. They
depend only on files of the repository.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd

from patebench.core.text import at_least, at_most, listing, plural
from patebench.leaderboard.assessment import Assessed, Status
from patebench.leaderboard.entry import Accuracy, Data, Origin
from patebench.reporting.figures.drawing import SMALLER, accuracy_over, clip_accuracy, stretch
from patebench.reporting.kept_verdicts import best_evidence, kept_runs
from patebench.reporting.pages import slug, templates
from patebench.reporting.published import is_accuracy, read_published
from patebench.reporting.significance import CONFIDENCE, ENOUGH_SEEDS, Ranks, difference_interval, rank_methods
from patebench.reporting.style import GREY, WIDE, finished, panels, styles_in_order, svg, themed
from patebench.reporting.tables.table import DASH
from patebench.reporting.verdicts import Verdict, count_by_paper
from patebench.reporting.wording import in_words

#: Target values of ε at which the best entries are shown and methods are ranked.
TARGETS = (0.1, 1.0, 3.0, 8.0)
#: Target ε of the sentences on the lead of the best method (`lead`).
LEAD_AT = 1.0

#: Data sets that come first; others follow by name.
_FIRST = ("fashion_mnist", "mnist", "cifar10", "cifar10-jpeg", "svhn", "adult")
#: Meaning of each status.
MEANINGS = {
    Status.PROVED: "The reported ε is not below the worst-case ε that our accountants compute. Only these are ranked.",
    Status.UNPROVED: "The reported ε is below what we can prove: it depends on private votes, or we know no proof.",
    Status.VIOLATED: "The reported ε is below a lower bound on the true ε, so it is wrong.",
    Status.UNCHECKED: "The source does not state enough to compute an ε.",
}
#: Verdict → status in whose colour the page shows the verdict.
_CHIPS = {
    Verdict.REPRODUCED: Status.PROVED,
    Verdict.BETTER: Status.PROVED,
    Verdict.SHORT: Status.UNPROVED,
    Verdict.UNSOUND: Status.VIOLATED,
}


def rows_by_dataset(entries: Iterable[Assessed]) -> dict[str, list[Assessed]]:
    """Return the entries of each data set, in the order of the leaderboard's tables, with ranks.

    Ranked entries come first, sorted by unit of privacy and accuracy. Entries that are not ranked follow, sorted by
    accuracy. Entries without an accuracy are left out. An entry is also left out if another entry of the same method,
    source, unit, status and right to a rank is at least as accurate at the same or a smaller ε.
    """
    datasets: dict[str, list[Assessed]] = {}
    for row in entries:
        if row.entry.accuracy is not None:
            datasets.setdefault(row.entry.data.private, []).append(row)
    order = {name: place for place, name in enumerate(_FIRST)}
    names = sorted(datasets, key=lambda name: (order.get(name, len(order)), name))
    return {name: _with_ranks(_undominated(datasets[name])) for name in names}


def source(row: Assessed) -> str:
    """Return the title of the paper of an entry, or "patebench" if the entry comes from a run of this benchmark."""
    return "patebench" if row.entry.origin is Origin.KEPT else row.entry.paper.title


def best_within_epsilon(rows: Iterable[Assessed]) -> list[Assessed]:
    """Return the Pareto front of accuracy against ε, in ascending order of ε.

    A row is left out if another row is at least as accurate at the same or a smaller ε.
    """
    best: list[Assessed] = []
    for row in sorted(rows, key=lambda row: (row.epsilon, -row.accuracy, row.entry.name)):
        if not best or row.accuracy > best[-1].accuracy:
            best.append(row)
    return best


def _undominated(rows: list[Assessed]) -> list[Assessed]:
    same: dict[tuple[object, ...], list[Assessed]] = {}
    for row in sorted(rows, key=lambda row: (row.epsilon, -row.accuracy, row.entry.name)):
        same.setdefault((row.entry.method, source(row), row.unit, row.status, row.ranked), []).append(row)
    return [row for group in same.values() for row in best_within_epsilon(group)]


def _with_ranks(rows: list[Assessed]) -> list[Assessed]:
    """Return `rows` in the order of a table, and set the field `rank` of each entry that may be ranked.

    The rank is by accuracy, among the entries with the same unit of privacy. Entries that may not be ranked come last.
    """

    def rank(row: Assessed) -> int:
        return 1 + sum(other.accuracy > row.accuracy for other in rows if other.ranked and other.unit == row.unit)

    ordered = sorted(rows, key=lambda row: (not row.ranked, row.unit * row.ranked, -row.accuracy, row.epsilon))
    return [replace(row, rank=rank(row)) if row.ranked else row for row in ordered]


def units(rows: Sequence[Assessed]) -> list[str]:
    """Return the distinct units of privacy of the ranked rows, such as "record, replaced", with records first."""
    return sorted({row.unit for row in rows if row.ranked}, key=lambda unit: (unit[:6] != "record", unit))


def leader(rows: Iterable[Assessed], unit: str, target: float) -> Assessed | None:
    """Return the most accurate ranked row with this `unit` of privacy and ε at most `target`; None if there is none.

    Of equally accurate rows, the row with the smallest ε is returned.
    """
    within = [row for row in rows if row.ranked and row.unit == unit and row.epsilon <= target * (1 + 1e-9)]
    return min(within, key=lambda row: (-row.accuracy, row.epsilon, row.entry.method), default=None)


def reported(rows: Iterable[Assessed], target: float) -> Assessed | None:
    """Return the most accurate unchecked row whose reported ε is at most `target`; None if there is none."""
    unchecked = [row for row in rows if row.status is Status.UNCHECKED and row.epsilon <= target]
    return max(unchecked, key=lambda row: row.accuracy, default=None)


def lead(rows: Sequence[Assessed], unit: str, target: float) -> str:
    """Return a sentence on the difference in accuracy between the best and the second-best method at ε ≤ `target`.

    Only ranked rows with this `unit` of privacy are compared. The result is "" if they belong to fewer than two
    methods.
    """
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
    narrow = f", too narrow with fewer than {ENOUGH_SEEDS}" if len(seeds) < ENOUGH_SEEDS else ""
    interval = f"{CONFIDENCE:.0%} interval {100 * low:.2f} to {100 * high:.2f}{narrow}"
    common = f"{100 * (fmean(ours) - fmean(theirs)):.2f} over {plural(len(seeds), 'common seed')}"
    return f"{text} ({common}, {interval})."


def rank_over_datasets(datasets: Mapping[str, Sequence[Assessed]], unit: str, target: float) -> Ranks | None:
    """Return ranks of methods over several data sets; None if no two data sets have results of the same three methods.

    A method's result on a data set is its most accurate ranked entry with this `unit` of privacy and ε at most
    `target`. The function selects at least two data sets, and ranks the methods that have a result on every selected
    data set. It selects the data sets for which the number of data sets times the number of ranked methods is largest.
    """
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
    """Return the number of corrections by paper, counted on `page`, which is docs/explanation/corrections.md."""
    counts: dict[str, int] = {}
    paper = ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            paper = line.removeprefix("## ").strip()
        elif paper and line.startswith("| ") and not line.startswith(("| where", "|---", "| ---")):
            counts[paper] = counts.get(paper, 0) + 1
    return counts


def board_files(root: Path, entries: Sequence[Assessed]) -> dict[str, str]:
    """Return the files of the leaderboard as a mapping from file name to text.

    Parameters
    ----------
    root : folder of the repository.
    entries : all entries with their assessment.

    Returns
    -------
    `index.md`, `values.md`, `values.csv`, a page of entries and an SVG figure per data set, and a JSON file per entry.
    """
    datasets = rows_by_dataset(entries)
    reference = root / "results" / "reference"
    evidence = best_evidence(reference, read_published(root / "config" / "published.csv"))
    files = {
        "values.md": _values_page(evidence, reference),
        "values.csv": evidence.to_csv(index=False, lineterminator="\n"),
    }
    for one in entries:
        text = json.dumps(one.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        files[f"entries/{one.entry.name}.json"] = f"{text}\n"
    sections = []
    for name in dict.fromkeys([*datasets, *(one.entry.data.private for one in entries)]):
        rows = datasets.get(name, [])
        members = [one for one in entries if one.entry.data.private == name]
        title, page, picture = in_words(name), f"entries-{slug(name)}", _figure(name, rows)
        files[f"{page}.md"] = _render("entries.md", title=title, id=slug(name), entries=members, facts=_facts)
        if picture:
            files[f"{slug(name)}.svg"] = picture
        sections.append(
            {
                **{"id": slug(name), "title": title, "page": page, "rows": rows, "entries": len(members)},
                **{"figure": f"{slug(name)}.svg" if picture else "", "reported": reported(rows, LEAD_AT)},
                "best": [(unit, [leader(rows, unit, target) for target in TARGETS]) for unit in units(rows)],
                "leads": [
                    f"ε ≤ {LEAD_AT:g}, {unit}: {words}" for unit in units(rows) if (words := lead(rows, unit, LEAD_AT))
                ],
            }
        )
    papers = _papers(root, evidence, entries)
    every_unit = sorted({unit for rows in datasets.values() for unit in units(rows)})
    ranks = [
        (f"ε ≤ {target:g}, {unit}", ranks)
        for unit in every_unit
        for target in TARGETS
        if (ranks := rank_over_datasets(datasets, unit, target))
    ]
    files["index.md"] = _render(
        "leaderboard.md", datasets=sections, targets=TARGETS, papers=papers, verdicts=list(map(str, Verdict)),
        meanings=MEANINGS, ranked=ranks,
    )  # fmt: skip
    return files


def _render(template: str, **values: Any) -> str:
    functions = {"epsilon": at_most, "spread": _spread, "public": _public, "notes": _notes, "source": source}
    return templates().get_template(template).render(dash=DASH, **functions, **values)


def _figure(name: str, rows: Sequence[Assessed]) -> str:
    """Return a figure of the data set `name` as SVG text: test accuracy against ε, with one marker per row.

    Rows without a positive, finite ε are left out; if none is left, the result is "". Ranked rows have filled markers,
    a colour per unit of privacy, and a line along the Pareto front of each unit. Other rows have open grey markers.
    """
    rows = [row for row in rows if 0 < row.epsilon < math.inf]
    if not rows:
        return ""
    with themed():
        figure, (axis,) = panels([in_words(name)], alone=WIDE)
        for unit, style in styles_in_order(units(rows)).items():
            ranked = sorted((row for row in rows if row.ranked and row.unit == unit), key=lambda row: row.epsilon)
            axis.plot(*_points(ranked), marker=style.marker, color=style.color, linestyle="none", label=unit)
            axis.step(*_points(best_within_epsilon(ranked)), where="post", color=style.color, linewidth=1)
        for origin, marker in ((Origin.PUBLISHED, "o"), (Origin.WRITTEN, "s"), (Origin.KEPT, "^")):
            others = [row for row in rows if not row.ranked and row.entry.origin is origin]
            if others:
                open_marker: Any = {"marker": marker, "color": GREY, "markerfacecolor": "none", "alpha": 0.7}
                axis.plot(*_points(others), **open_marker, linestyle="none", label=f"not ranked: {origin}")
        accuracy_over(axis, f"ε, recomputed where possible   {SMALLER}", "accuracy on the test set")
        stretch(axis, *axis.dataLim.intervaly)
        finished(figure, [axis])
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return svg(figure).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1) + "\n"


def _points(rows: Sequence[Assessed]) -> tuple[list[float], list[float]]:
    return [row.epsilon for row in rows], [clip_accuracy(row.accuracy) for row in rows]


def _notes(row: Assessed) -> list[str]:
    """Return the codes of the row's problems, each once, with spaces for hyphens; the code `not-stated` is left out."""
    codes = dict.fromkeys(problem.code for problem in row.problems if problem.code != "not-stated")
    return [code.replace("-", " ") for code in codes]


def _spread(accuracy: Accuracy) -> str:
    """Return standard deviation and binomial standard error in percent as text, such as "0.21 / 0.15"."""
    return " / ".join(
        DASH if value is None else f"{100 * value:.2f}" for value in (accuracy.std, accuracy.binomial_error)
    )


def _public(data: Data) -> str:
    encoder = f"; encoder: {data.encoder}" if data.encoder not in (None, "none") else ""
    return f"{data.public or 'not stated'}{encoder}"


def _facts(assessed: Assessed) -> Iterator[tuple[str, str]]:
    """Yield the facts that the page shows about an entry, as pairs (term, text) such as ("Reported", …)."""
    entry, bound = assessed.entry, assessed.bound
    paper, data, accuracy, making = entry.paper, entry.data, entry.accuracy, entry.making
    yield "Source", ", ".join(filter(None, [paper.title, paper.authors, str(paper.year or ""), paper.url, paper.code]))
    yield "Where", paper.place or ""
    samples = f", {data.public_samples:,} public samples" if data.public_samples else ""
    yield "Data", f"{in_words(data.private)}, n = {data.records or DASH}; public data: {_public(data)}{samples}"
    yield "ε protects", f"{assessed.unit}; δ = {entry.privacy.delta or DASH}"
    yield "Reported", f"ε = {at_most(entry.claim.epsilon)} ({entry.claim.kind.words})"
    if bound is not None:
        yield "Recomputed worst case", f"ε ≤ {at_most(bound.epsilon)} by {bound.accountant}: {bound.source}"
    yield "Mechanism", "" if entry.mechanism is None else _plain(entry.mechanism.model_dump(mode="json"))
    if assessed.lower is not None:
        yield "Lower bound", f"ε ≥ {at_least(assessed.lower)}"
    if accuracy is not None:
        seeds = f"{accuracy.seeds} seeds" if accuracy.seeds else "seeds not stated"
        test = f"; {accuracy.test_samples:,} test samples" if accuracy.test_samples else ""
        yield "Accuracy", f"{100 * accuracy.mean:.2f} % (±: {_spread(accuracy)}), {seeds}{test}"
        yield "By seed", _plain({seed: f"{100 * value:.2f}" for seed, value in (accuracy.by_seed or {}).items()})
    yield "Choices with true labels", entry.hygiene.true_labels or "not stated"
    yield "Best on test", {True: "yes", False: "no", None: "not stated"}[entry.hygiene.best_on_test]
    yield (
        "Made on",
        ", ".join(filter(None, [making.hardware, f"{making.minutes:g} minutes" if making.minutes else None])),
    )
    yield "Command", " at commit ".join(filter(None, [making.command, making.commit]))
    yield "Problems", "; ".join(problem.text for problem in assessed.problems)
    yield "Note", entry.note


def _plain(content: Mapping[str, Any]) -> str:
    """Return `content` as text, such as "type = votes, name = gnmax, sigma = 40".

    A nested object is replaced by its own names and values. A list is replaced by its items, without names. Values that
    are None are left out.
    """
    parts = []
    for name, value in content.items():
        if isinstance(value, Mapping):
            parts.append(_plain(value))
        elif isinstance(value, list):
            parts += [_plain(part) if isinstance(part, Mapping) else str(part) for part in value]
        elif value is not None:
            parts.append(f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}")
    return ", ".join(parts)


def _papers(root: Path, evidence: pd.DataFrame, entries: Sequence[Assessed]) -> list[dict[str, Any]]:
    """Return one dictionary per paper for the leaderboard's page.

    It contains the number of published values by verdict, the number of entries by status, and the number of
    corrections. It also contains sentences on published values and entries that are wrong. `evidence` has one row per
    published value, with its verdict (`best_evidence`).
    """
    corrected = corrections(root / "docs" / "explanation" / "corrections.md")
    counts = {str(row["paper"]): row for row in count_by_paper(evidence).to_dict("records")}
    others = [one.entry.paper.title for one in entries if one.entry.origin is not Origin.KEPT]
    papers = []
    named = [name for name in corrected if name[-4:].isdigit()]  # other corrections are about software
    for name in dict.fromkeys([*counts, *named, *others]):
        row: dict[Any, Any] = counts.get(name, {"paper": name, "printed": 0, **dict.fromkeys(map(str, Verdict), 0)})
        mine = [one for one in entries if one.entry.paper.title == name]
        statuses = {status: sum(one.status is status for one in mine) for status in Status}
        papers.append(
            {
                **{**row, "entries": statuses, "anchor": slug(name), "corrections": corrected.get(name, 0)},
                "fails": _failures(evidence[evidence["paper"] == name], mine),
                "refuted": bool(row[Verdict.UNSOUND] or statuses[Status.VIOLATED]),
            }
        )
    return papers


def _failures(evidence: pd.DataFrame, entries: Sequence[Assessed]) -> list[str]:
    """Return sentences on the unsound published values and on the violated or unproved entries of one paper."""
    sentences = []
    unsound = evidence[evidence["verdict"] == Verdict.UNSOUND]
    if not unsound.empty:
        sentences.append(f"{plural(len(unsound), 'published value')} of ε unsound: {unsound.iloc[0]['why']}")
    codes = {Status.VIOLATED: "refuted", Status.UNPROVED: "below-worst-case"}
    for status, code in codes.items():
        mine = [one for one in entries if one.status is status]
        if mine:
            why = next((problem.text for problem in mine[0].problems if problem.code == code), MEANINGS[status])
            noun = f"{plural(len(mine), 'entry')} {status}"
            note = f". {mine[0].entry.note.removesuffix('.')}" if mine[0].entry.note else ""
            data = in_words(mine[0].entry.data.private)
            sentences.append(f"{noun}, such as {mine[0].entry.method} on {data}: {why}{note}")
    return sentences


def _values_page(evidence: pd.DataFrame, reference: Path) -> str:
    rows = [_value_row(row) for row in evidence.to_dict("records")]
    missing = [folder.name for folder in kept_runs(reference) if not (folder / "tables" / "verdicts.csv").is_file()]
    words = f"{len(missing)} runs have no table of verdicts; other tables give their verdicts: {listing(missing, 40)}."
    return _render("values.md", rows=rows, not_kept=words if missing else "")


def _value_row(row: dict[Any, Any]) -> dict[str, Any]:
    """Return `row`, completed by the texts that the page of published values shows.

    `row` is one published value with its verdict and measurement, a row of `best_evidence`. The texts are the value's
    place in the paper, the name of the data set, formatted numbers, and the reason for the verdict.
    """

    def shown(value: float) -> str:
        return f"{100 * value:.2f} %" if is_accuracy(row["quantity"]) else f"{value:.4g}"

    measured, std = pd.notna(row["run"]), row["measured_std"]
    spread = f" ± {shown(std).removesuffix(' %')}" if measured and pd.notna(std) else ""
    why = ", ".join(text for text in (row["how"] if measured else "", row["why"]) if isinstance(text, str) and text)
    return {
        **row,
        "where": f"{row['table']}: {row['row']}: {row['column']}",
        "data": in_words(row["dataset"]),
        "published_text": shown(row["published"]),
        "measured_text": f"{shown(row['measured_mean'])}{spread}" if measured else DASH,
        "seeds_text": f"{row['seeds']:.0f}" if measured else DASH,
        "run_text": row["run"] if measured else DASH,
        "chip": _CHIPS.get(Verdict(row["verdict"]), Status.UNCHECKED),
        "why_text": why,
    }
