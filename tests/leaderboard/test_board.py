"""Test the leaderboard: only proved entries are ranked, ranks and leads by hand, and pages that contain every entry."""

import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from patebench.core.bound import Bound, Kind
from patebench.leaderboard.assessment import Assessed, Problem, Status
from patebench.leaderboard.board import (
    board_files,
    corrections,
    lead,
    leader,
    rank_over_datasets,
    reported,
    rows_by_dataset,
    units,
)
from patebench.leaderboard.entry import (
    Accuracy,
    Change,
    Claim,
    Data,
    Entry,
    Hygiene,
    Origin,
    Paper,
    Privacy,
    Unit,
)
from patebench.reporting.significance import difference_interval

ROOT = Path(__file__).parents[2]
RECORD = "record, replaced"


def entry(method: str, accuracy: float, epsilon: float = 0.9, dataset: str = "mnist", **changes) -> Assessed:
    """Return an assessed entry, proved unless `changes` say otherwise."""
    seeds = changes.pop("by_seed", None)
    status, mechanism = changes.pop("status", Status.PROVED), changes.pop("mechanism", None)
    made = Entry(
        method=method,
        paper=Paper(title=changes.pop("paper", "A 2020"), authors="A. <b>B</b> & C."),
        data=Data(private=dataset, records=1000, public=changes.pop("public", "none"), encoder="none"),
        privacy=Privacy(unit=changes.pop("unit", Unit.RECORD), adjacency=Change.REPLACED, delta=1e-5),
        claim=Claim(epsilon=epsilon, kind=Kind.WORST_CASE),
        accuracy=Accuracy(mean=accuracy, std=0.01, seeds=3, test_samples=1000, by_seed=seeds),
        hygiene=Hygiene(true_labels="none", best_on_test=changes.pop("best_on_test", False)),
        mechanism=mechanism,
        origin=Origin.WRITTEN,
        name=f"{method}-{dataset}-{epsilon:g}".replace(" ", "-"),
    )
    assert not changes
    facts = {"delta": 1e-5, "queries": 1, "accountant": "gdp", "kind": Kind.WORST_CASE, "publishable": False}
    bound = Bound(epsilon=epsilon, **facts, source="theorem")
    problems = () if status is Status.PROVED else (Problem("refuted", "it is refuted"),)
    return Assessed(made, status, bound if status is Status.PROVED else None, None, problems)


UNRANKED = {
    "unproved": {"status": Status.UNPROVED},
    "violated": {"status": Status.VIOLATED},
    "unchecked": {"status": Status.UNCHECKED},
    "best on test": {"best_on_test": True},
}


@pytest.mark.parametrize("fault", UNRANKED)
def test_an_entry_that_is_not_proved_is_shown_but_never_ranked(fault: str) -> None:
    rows = rows_by_dataset([entry("ours", 0.9), entry("theirs", 0.99, 0.5, **UNRANKED[fault])])["mnist"]
    assert [(row.entry.method, row.rank) for row in rows] == [("ours", 1), ("theirs", None)]
    leaders = [leader(rows, RECORD, target) for target in (0.1, 1.0, 8.0)]
    assert [best and best.entry.method for best in leaders] == [None, "ours", "ours"]
    assert "theirs" not in lead(rows, RECORD, 1.0)
    alone = rows_by_dataset([entry("theirs", 0.9, dataset=name, **UNRANKED[fault]) for name in "ab"])
    assert rank_over_datasets(alone, RECORD, 1.0) is None


def test_a_data_set_without_a_proved_entry_names_the_best_unchecked_one() -> None:
    entries = [entry("refuted", 0.99, status=Status.VIOLATED), entry("a", 0.9, status=Status.UNCHECKED)]
    rows = rows_by_dataset([*entries, entry("b", 0.95, 3.0, status=Status.UNCHECKED)])["mnist"]
    assert reported(rows, 1.0).entry.method == "a"
    assert reported(rows, 0.1) is None


def test_ranks_count_more_accurate_entries_of_the_same_unit() -> None:
    entries = [entry("a", 0.9), entry("b", 0.95, 2.0), entry("c", 0.9, 0.5), entry("shard", 0.8, unit=Unit.SHARD)]
    rows = rows_by_dataset(entries)["mnist"]
    assert {row.entry.method: row.rank for row in rows} == {"a": 2, "b": 1, "c": 2, "shard": 1}
    assert units(rows)[0] == RECORD
    assert leader(rows, RECORD, 1.0).entry.method == "c", "of equal accuracies, the smaller ε"
    assert leader(rows, RECORD, 8.0).entry.method == "b"
    assert leader(rows, RECORD, 0.1) is None


def test_an_entry_that_its_own_method_exceeds_is_left_out_of_the_table() -> None:
    entries = [entry("a", 0.9, 1.0), entry("a", 0.95, 0.5), entry("a", 0.96, 2.0), entry("b", 0.8, 3.0)]
    left = {(row.entry.method, row.epsilon) for row in rows_by_dataset(entries)["mnist"]}
    assert left == {("a", 0.5), ("a", 2.0), ("b", 3.0)}


def test_an_entry_that_may_not_be_ranked_displaces_no_ranked_one() -> None:
    rows = rows_by_dataset([entry("a", 0.9, 1.0), entry("a", 0.95, 0.5, best_on_test=True)])["mnist"]
    assert [(row.epsilon, row.rank) for row in rows] == [(1.0, 1), (0.5, None)]


def test_a_lead_has_the_interval_of_common_seeds() -> None:
    ours, theirs = {"0": 0.95, "1": 0.96, "2": 0.97}, {"0": 0.93, "1": 0.95, "2": 0.94, "9": 0.1}
    rows = rows_by_dataset([entry("a", 0.96, by_seed=ours), entry("b", 0.7325, by_seed=theirs)])["mnist"]
    low, high = difference_interval([0.93, 0.95, 0.94], [0.95, 0.96, 0.97], paired=True)
    words = lead(rows, RECORD, 1.0)
    assert f"{100 * low:.2f} to {100 * high:.2f}" in words
    assert "leads b by 22.75 points (2.00 over 3 common seeds, " in words
    assert "no interval" in lead(rows_by_dataset([entry("a", 0.96), entry("b", 0.94)])["mnist"], RECORD, 1.0)


def test_methods_are_ranked_on_the_data_sets_that_they_share() -> None:
    accuracies = {"a": (0.9, 0.8, 0.7), "b": (0.8, 0.9, 0.6), "c": (0.7, 0.7, 0.5), "d": (0.99, None, None)}
    entries = [
        entry(method, accuracy, dataset=dataset)
        for method, values in accuracies.items()
        for dataset, accuracy in zip(("mnist", "adult", "svhn"), values, strict=True)
        if accuracy is not None
    ]
    ranks = rank_over_datasets(rows_by_dataset(entries), RECORD, 1.0)
    assert ranks.mean == pytest.approx({"a": 4 / 3, "b": 5 / 3, "c": 3.0})
    assert set(ranks.datasets) == {"MNIST", "UCI Adult", "SVHN"}
    assert rank_over_datasets(rows_by_dataset(entries), RECORD, 0.1) is None


def test_corrections_are_counted_by_paper() -> None:
    page = ROOT / "docs" / "explanation" / "corrections.md"
    counts = corrections(page)
    assert counts["NZC 2020"] == 3
    assert sum(counts.values()) == len(re.findall(r"^\| (?!where)\w", page.read_text(encoding="utf-8"), re.MULTILINE))


class _Page(HTMLParser):
    """Collect the ids, the links and the rows of the HTML in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = re.findall(r"\{: #([a-z0-9-]+) \}", text)
        self.links: list[str] = re.findall(r"\]\(([^)]+)\)", text)
        self.cells = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if "href" in values else []
        self.cells += tag == "td"


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    petdl = {"paper": "PET-DL 2019"}
    entries = [entry("ours", 0.9), entry("ours", 0.9, 0.9, "svhn"), entry("x<y>", 0.8, 3.0, public="a | b", **petdl)]
    entries += [entry("wrong", 0.99, 0.1, status=Status.VIOLATED, **petdl), entry("∞", 0.9, math.inf)]
    return board_files(ROOT, entries)


@pytest.mark.slow
def test_links_lead_to_sections_and_every_entry_has_one(files: dict[str, str]) -> None:
    pages = {name.replace(".md", ".html"): _Page(text) for name, text in files.items() if name.endswith(".md")}
    assert {"index.html", "values.html", "entries-mnist.html", "entries-svhn.html"} <= set(pages)
    for name, page in pages.items():
        assert len(page.ids) == len(set(page.ids)), name
        for link in page.links:
            path, _, anchor = link.partition("#")
            if not path.startswith("../") and (path := path.replace(".md", ".html") or name) in pages:
                assert not anchor or anchor in pages[path].ids, f"{name}: {link}"
            elif not path.startswith("../"):
                assert path in files, f"{name}: {link}"
            else:
                assert (ROOT / "docs" / path[3:].replace(".html", ".md")).is_file() or path.startswith("../kept/")
    assert "wrong-mnist-0.1" in pages["entries-mnist.html"].ids


@pytest.mark.slow
def test_text_of_entries_is_escaped_and_faults_are_explained(files: dict[str, str]) -> None:
    assert "x&lt;y&gt;" in files["index.md"]
    assert "x<y>" not in files["index.md"]
    assert "A. &lt;b&gt;B&lt;/b&gt; &amp; C." in files["entries-mnist.md"]
    failing = files["index.md"].partition("## Papers whose")[2].partition("Not refuted")[0]
    assert "PET-DL 2019" in failing
    assert "PATE 2017" not in failing
    assert "it is refuted" in failing
    assert "it is refuted" in files["entries-mnist.md"]


@pytest.mark.slow
def test_every_published_value_has_a_row(files: dict[str, str]) -> None:
    values = (ROOT / "config" / "published.csv").read_text(encoding="utf-8").count("\n") - 1
    assert _Page(files["values.md"]).cells == 9 * values
    assert files["values.csv"].count("\n") >= values
