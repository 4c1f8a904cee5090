"""results/reference/papers.md names every table and figure of the papers, and what it names is there."""

import re
from functools import cache
from pathlib import Path

import pytest

from patebench.config import load, validate
from patebench.reporting.figures import FIGURES
from patebench.reporting.published import read_published
from patebench.reporting.tables import TABLES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "results" / "reference" / "papers.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
TOGETHER = "Comparisons and baselines"
PUBLISHED = read_published(ROOT / "config" / "published.csv").values
PAPERS = sorted({value.paper for value in PUBLISHED})
#: The configurations of papers with a section of their own.
CONFIGURATIONS = {
    **{"PATE 2017": "pate-2017", "Scalable PATE 2018": "scalable-pate-2018", "NZC 2020": "nzc-2020"},
    **{"PET-DL 2019": "petdl-2019", "Distributed PATE 2018": "distributed-pate-2018"},
}
#: Figures and tables of the papers whose texts are available. The one table of PATE 2017 is its Figure 4.
COUNTED = {"PATE 2017": (5, 0), "NZC 2020": (2, 3), "PET-DL 2019": (5, 3)}


def of(paper: str) -> str:
    """Return the section of a paper; papers without their own are in the last section."""
    return SECTIONS.get(paper) or SECTIONS[TOGETHER]


def cells(section: str) -> list[list[str]]:
    """Return the rows of its table without the heading."""
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


def places(paper: str) -> set[str]:
    """Return the tables, figures and parts in the first column of its section; "Tables 1 to 3" are three.

    In a joint section, a cell starts with the name of the paper whose parts follow.
    """
    found, kind, whose = set(), "", paper
    for words in (word for row in cells(of(paper)) for word in re.split(r", | and ", row[0])):
        if paper not in SECTIONS:
            others = [other for other in PAPERS if words.startswith(other)]
            whose, words = (others[0], words.removeprefix(others[0]).strip()) if others else (whose, words)
            if whose != paper:
                continue
        named = re.fullmatch(r"(Table|Figure|Section|Appendix)(?:s)? (.+)", words)
        kind, which = (named[1], named[2]) if named else (kind, words)
        several = re.fullmatch(r"(\d+) to (\d+)", which)
        numbers = range(int(several[1]), int(several[2]) + 1) if several else [which]
        found |= {f"{kind} {number}" for number in numbers}
    return found


@cache
def experiments(file: str) -> set[str]:
    config = validate({**load(ROOT / "config" / "papers" / file), "only": ()}, files=False)
    return {experiment.name for experiment in config.experiments}


@pytest.mark.parametrize("paper", PAPERS)
def test_what_a_paper_prints_is_named(paper: str) -> None:
    text = of(paper).replace("`", "")
    assert paper in text
    for table in {value.table for value in PUBLISHED if value.paper == paper} - places(paper):
        assert not re.match("Table|Figure|Section|Appendix", table)
        assert table in text


@pytest.mark.parametrize("paper", COUNTED)
def test_every_figure_and_table_is_named(paper: str) -> None:
    for kind, count in zip(("Figure", "Table"), COUNTED[paper], strict=True):
        assert {f"{kind} {number}" for number in range(1, count + 1)} <= places(paper)


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_what_it_names_is_there(section: str) -> None:
    text = SECTIONS[section]
    own = [f"{CONFIGURATIONS[section]}.yaml"] if section in CONFIGURATIONS else []
    for row in cells(text) or [[text]]:
        files = re.findall(r"`([a-z0-9-]+\.yaml)`", " ".join(row)) or own
        known = set().union(*map(experiments, files))
        asked = set(re.findall(r"`only=([a-z0-9-]+)`", " ".join(row)))
        assert asked <= known, row
    shown = {name for row in cells(text) for name in re.findall(r"`([a-z0-9-]+)`", row[3])}
    assert shown <= {*FIGURES.names(), *TABLES.names()}


@pytest.mark.parametrize("section", [name for name in sorted(SECTIONS) if cells(SECTIONS[name])])
def test_each_row_is_kept_or_says_why_not(section: str) -> None:
    for row in cells(SECTIONS[section]):
        assert len(row) == 5, row
        assert re.search(r"\]\([^)]+\)", row[4]) or row[4].startswith("not ") or "no data" in row[1], row
