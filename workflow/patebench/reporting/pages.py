"""Render the report: one HTML page with the figures, the tables and the manifest of a run.

The page is complete in itself. Links lead to the same figures and tables in other formats, stored next to the page.
"""

import html
import inspect
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from patebench.core.bound import Kind
from patebench.core.errors import ArtefactError
from patebench.core.registry import Registry
from patebench.core.seeds import Mode
from patebench.reporting.figures import FIGURES
from patebench.reporting.findings import duration, findings, paper_line, setup
from patebench.reporting.outcomes import selected_by_labels
from patebench.reporting.published import (
    DISTRIBUTED_2018,
    DPSGD,
    NZC_2020,
    PATE_2017,
    PETDL_2019,
    PRIVATE_KNN_2020,
    SCALABLE_2018,
)
from patebench.reporting.style import KINDS
from patebench.reporting.tables import TABLES
from patebench.reporting.tables.table import DASH, Table
from patebench.reporting.verdicts import Verdict
from patebench.reporting.wording import in_words

#: Name of the table that is split into two parts for each paper.
VERDICTS = "verdicts"
#: Maximum number of rows of a table that the page shows unfolded: `SHORT_TABLE` for tables with `folded`, `LONG_TABLE`
#: for other tables.
SHORT_TABLE, LONG_TABLE = 4, 12
#: Maximum number of rows of a folded table that appears when the page is printed. Tables of measured verdicts are
#: folded if they have more rows.
BRIEF = 40
#: Maximum number of rows of a table on the page; the files next to the page contain all rows.
MOST_ROWS = 600

#: Sections of the page in their order, with their headings on the page and in the navigation; each paper is a part of
#: "papers".
SECTIONS: Mapping[str, tuple[str, str]] = {
    "papers": ("The papers", "Papers"),
    "results": ("Accuracy and ε", "Results"),
    "audit": ("Audit: is the stated ε true?", "Audit"),
    "accounting": ("Accounting: what the queries cost", "Accounting"),
    "learning": ("Teachers and students", "Learning"),
    "further": ("Further results", "Further"),
}
#: Papers in the order of the page; other papers with numbers of the run follow.
PAPERS = (PATE_2017, SCALABLE_2018, DISTRIBUTED_2018, PETDL_2019, NZC_2020, PRIVATE_KNN_2020, *DPSGD)

#: For each kind of ε: the answer to "may it be published?" ("" if the kind does not determine it), and its meaning.
MEANINGS = {
    Kind.WORST_CASE: (
        "yes",
        "Holds for all votes and is computed from public parameters alone. It holds for labels whose noise is drawn "
        "once from the operating system’s entropy (a release), not for labels with noise from a named seed. The "
        "accountant “label” is a theorem of this project for mechanisms that release only labels, which leak less "
        "than noisy counts.",
    ),
    Kind.DATA_DEPENDENT: (
        "no",
        "Holds for the votes of this run and is computed from them. It is often much smaller than the worst case, but "
        "the number itself leaks information about the private data.",
    ),
    Kind.SANITISED: (
        "yes",
        "A data-dependent bound that is itself released with noise; it includes the cost of its own release. It may be "
        "published if its noise was drawn once for a release, but not if it came from a named seed, as in a benchmark.",
    ),
    Kind.CLAIMED: (
        "no",
        "Printed in a paper and not checked here, or without a proof that we accept. It is shown for comparison only.",
    ),
    Kind.AUDITED_LOWER: (
        "",
        "A lower bound: the mechanism's outputs rule out any smaller ε. A stated ε below it is wrong.",
    ),
}

#: Form of the configuration on the page.
_YAML: Any = {"sort_keys": False, "allow_unicode": True, "default_flow_style": None, "width": 100}
#: Text of a table cell → CSS class of the coloured chip in which the page shows the text.
_CHIPS: dict[str, str] = {
    **dict.fromkeys(("yes", "holds", Verdict.REPRODUCED, Verdict.BETTER), "yes"),
    **dict.fromkeys(("no", "violated", "disagrees", Verdict.UNSOUND, Verdict.SHORT), "no"),
    **dict.fromkeys(("vacuous", Verdict.NOT_COMPARABLE, Verdict.NOT_RUN), "other"),
}


def render(
    *,
    title: str,
    tables: Mapping[str, pd.DataFrame],
    figures: Mapping[str, str],
    manifest: Mapping[str, Any],
    manifest_link: str,
    captions: Path,
    publishable: str | None = None,
) -> str:
    """Return the report page of a run as HTML.

    Parameters
    ----------
    title : name of the run.
    tables : frames by name, as read from their CSV files; `tables/NAME.csv`, `.md` and `.tex` are beside the page.
    figures : SVG by name, "" for an empty figure; `figures/NAME.png` and `.pdf` are beside the page.
    manifest, manifest_link : content of the manifest, and its path relative to the page.
    captions : folder of the captions.
    publishable : link to the run's second page, which may be published; None without such a page. If the run released
        labels, the returned page starts with a warning that forbids its publication, with this link.
    """
    students = tables.get("utility-privacy")
    released = students is not None and bool((students["may_publish"] == "yes").any())
    release = released or Mode.RELEASE in manifest["labels"].values()
    drawn = [_figure(name, svg, captions) for name, svg in figures.items() if svg]
    headline = [figure for figure in drawn if figure["place"] == "results"][:1]  # shown at the top of the page
    drawn = [figure for figure in drawn if figure not in headline]
    shown = [part for name, frame in tables.items() if len(frame) for part in _tables(name, frame, captions)]
    environment = templates()
    environment.filters |= {"duration": duration, "pieces": pieces}
    environment.globals |= {"chips": _CHIPS, "dash": DASH, "brief": BRIEF}
    return environment.get_template("page.html").render(
        title=title,
        headline=headline,
        findings=findings(tables, selected_by_labels(manifest["config"])),
        setup=setup(tables),
        introduction=read_caption(captions / "workflow.rst"),
        release=release,
        publishable=publishable,
        sections=_sections(drawn, shown, tables.get("papers")),
        kinds=[(in_words(kind), KINDS[kind].color, *MEANINGS[kind]) for kind in MEANINGS],
        manifest=manifest,
        manifest_link=manifest_link,
        config=yaml.safe_dump(manifest["config"], **_YAML),
        slowest=max((rule["seconds"] for rule in manifest["rules"]), default=0) or 1,
    )


def _sections(
    figures: Sequence[dict[str, Any]], tables: Sequence[dict[str, Any]], papers: pd.DataFrame | None
) -> list[dict[str, Any]]:
    """Return the sections of the page in order, each with its figures and tables, in the form that the template needs.

    Empty sections are left out, except for "accounting". `papers` is the table `papers`, from which each paper gets a
    sentence on its verdicts.
    """

    def part(place: str, title: str, **more: Any) -> dict[str, Any]:
        content = {"figures": [figure for figure in figures if figure["place"] == place]}
        content["tables"] = [table for table in tables if table["place"] == place]
        return {"id": slug(place), "title": title, "parts": [], **content, **more}

    lines = {} if papers is None else {str(row["paper"]): paper_line(row) for row in papers.to_dict("records")}
    sections = [part(place, title, short=short) for place, (title, short) in SECTIONS.items()]
    places = {*lines, *(content["place"] for content in (*figures, *tables))}
    papers_in_order = [*(paper for paper in PAPERS if paper in places), *sorted({*lines} - {*PAPERS})]
    for section in sections:
        if section["id"] == "papers":
            section["parts"] = [part(paper, paper, line=lines.get(paper, "")) for paper in papers_in_order]
    return [
        section
        for section in sections
        if section["figures"] or section["tables"] or section["parts"] or section["id"] == "accounting"
    ]


def section_of(registry: Registry, name: str) -> str:
    """Return the section or the paper under which the page shows the figure or table `name`.

    The result is a key of `SECTIONS` or one of `PAPERS`, as stated by the entry of `name` in `registry`. If the entry
    states none of them, the result is "further".
    """
    place = str(registry.fact(name, "section", ""))
    return place if place in SECTIONS or place in PAPERS else "further"


def slug(place: str) -> str:
    """Return the HTML id of `place`, a section or paper, such as "pate-2017"."""
    return re.sub(r"[^a-z0-9]+", "-", place.lower()).strip("-")


def _figure(name: str, svg: str, captions: Path) -> dict[str, Any]:
    """Return a figure in the form that the page's template needs, with its SVG, caption and links."""
    caption = caption_of(captions / "figures" / f"{name}.rst", FIGURES.load(name))
    return {
        "name": name,
        "svg": svg,
        "place": section_of(FIGURES, name),
        "title": first_sentences(caption, 1),
        "alt": first_sentences(caption),
        "caption": caption,
        "links": [(suffix.upper(), f"figures/{name}.{suffix}") for suffix in ("pdf", "png")],
    }


def _tables(name: str, frame: pd.DataFrame, captions: Path) -> list[dict[str, Any]]:
    """Return the parts in which the page shows the table `name`, in the form that the page's template needs.

    Most tables have one part. The table of verdicts has two parts per paper: numbers with a measurement, and others.
    """
    if name != VERDICTS:
        return [_table(name, frame, captions)]
    parts: list[dict[str, Any]] = []
    for paper, rows in frame.groupby("paper", sort=False):
        measured = rows["measured_mean"].notna()
        for title, suffix, selected in (
            ("Measured numbers", "", rows[measured]),
            ("Numbers not run or not comparable", "-others", rows[~measured]),
        ):
            if not selected.empty:
                place = {"id": f"{slug(str(paper))}-{name}{suffix}", "place": paper, "title": f"{title}: {paper}"}
                parts.append(_table(name, selected, captions) | place)
    for part in parts[1:]:
        part["caption"] = ""  # the same for all papers
    return parts


def _table(name: str, frame: pd.DataFrame, captions: Path) -> dict[str, Any]:
    """Return a table in the form that the page's template needs, with its caption, columns, rows and links."""
    table: Table = TABLES.load(name)
    columns, (_, *rows) = table.shown(frame), table.rows(frame)
    measured = name == VERDICTS and frame["measured_mean"].notna().all()
    # Columns with equal cells in all rows are listed above the table. Columns of numbers with a common heading stay
    # in the table, next to the other columns of their group.
    same = [
        index
        for index, column in enumerate(columns)
        if len(rows) > 1 and not (column.group and column.right) and len({row[index] for row in rows}) == 1
    ]
    varying = [index for index in range(len(columns)) if index not in same]
    # Neighbouring columns of one group share a heading; a column without a group has its own.
    neighbours = groupby((columns[index] for index in varying), key=lambda column: column.group or column)
    groups = [list(members) for _, members in neighbours]
    return {
        "id": f"table-{name}",
        "place": section_of(TABLES, name),
        "title": table.title,
        "caption": caption_of(captions / "tables" / f"{name}.rst", table.build),
        "same": [(columns[index].heading, rows[0][index]) for index in same],
        "columns": [columns[index] for index in varying],
        "headings": [(members[0].group, members) for members in groups],
        "rows": [[row[index] for index in varying] for row in rows],
        "folded": len(rows) > (BRIEF if measured else SHORT_TABLE if table.folded else LONG_TABLE),
        "shown": len(rows) <= MOST_ROWS,
        "links": [("CSV", f"tables/{name}.csv"), ("Markdown", f"tables/{name}.md"), ("LaTeX", f"tables/{name}.tex")],
    }


def pieces(text: str) -> list[str]:
    """Return the `text` of a table cell, split where a line may break: after ", " and " + ", and after hyphens."""
    return re.split(r"(?<=, )|(?<= \+ )|(?<=-)(?=[a-z])", text)


def templates() -> Environment:
    """Return the Jinja environment that loads the templates of pages, with HTML escaping."""
    return Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FileSystemLoader(Path(__file__).with_name("page")),
    )


def read_caption(path: Path) -> str:
    """Return the caption in the reStructuredText file `path` as HTML paragraphs.

    Only paragraphs, *emphasis*, **strong** and ``literal`` are converted. Raises ArtefactError if the file is missing
    or empty.
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise ArtefactError(path, f"this caption cannot be read ({fault})", "restore the file") from None
    if not text:
        raise ArtefactError(
            path, "this caption file is empty", "restore the file, or write the caption of the figure or table into it"
        )
    return "\n".join(f"<p>{_inline(paragraph)}</p>" for paragraph in re.split(r"\n\s*\n", text))


def caption_of(path: Path, function: Any) -> str:
    """Return the caption of a figure or table as HTML, from the file `path`.

    `function` makes the figure or table. If another package defines `function` and the file does not exist, the
    caption is the first paragraph of the docstring. Raises ArtefactError if there is no caption.
    """
    outside = function.__module__.partition(".")[0] != "patebench"
    if not outside or path.exists():
        return read_caption(path)
    paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0].strip()
    if not paragraph:
        where = f"{function.__module__}.{function.__qualname__}"
        raise ArtefactError(path, "this caption file does not exist", f"write it, or add a docstring to {where}")
    return f"<p>{_inline(paragraph)}</p>"


def first_sentences(caption: str, sentences: int = 2) -> str:
    """Return the first `sentences` sentences of the HTML text `caption`, without tags."""
    text = html.unescape(re.sub(r"<[^>]+>", "", caption))
    return " ".join(re.split(r"(?<=[.?])(?<!al\.)\s", " ".join(text.split()))[:sentences])


def _inline(text: str) -> str:
    text = html.escape(" ".join(text.split()), quote=False)
    for mark, tag in ((r"\*\*", "strong"), (r"\*", "em"), ("``", "code")):
        text = re.sub(rf"{mark}(.+?){mark}", rf"<{tag}>\1</{tag}>", text)
    return text
