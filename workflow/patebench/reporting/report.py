"""The report: one self-contained page from figures, tables and the manifest.

Everything is inside the page; it loads nothing from anywhere. Links lead to the files beside it.
"""

import base64
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Kind
from patebench.core.errors import ArtefactError
from patebench.core.seeds import Mode
from patebench.core.workers import available
from patebench.reporting.captions import caption_of, plain, read_caption
from patebench.reporting.citation import read_citations
from patebench.reporting.figures import FIGURES
from patebench.reporting.findings import cards, duration, findings, paper_line, release_cards
from patebench.reporting.sections import PAPERS, SECTIONS, SHORT, section_of, slug
from patebench.reporting.style import KINDS
from patebench.reporting.tables import TABLES
from patebench.reporting.tables.table import DASH
from patebench.reporting.templates import templates
from patebench.reporting.verdicts import COLUMNS, Verdict
from patebench.reporting.wording import in_words

if TYPE_CHECKING:
    import pandas as pd
    from PIL.Image import Image

    from patebench.reporting.tables.table import Column, Table

#: The table that stands in pieces, two with each paper, and what these are called.
VERDICTS = "verdicts"
MEASURED, OTHERS = "Printed and measured: the numbers", "Not run, or not comparable: the other numbers"
#: Tables of more rows are folded at first: those that are for looking things up, and others.
SHORT_TABLE, LONG_TABLE = 4, 12
#: Folded tables of no more rows are printed.
BRIEF = 40
#: More rows than that are not for reading on a page: the files beside it hold them.
MOST_ROWS = 600

#: What each kind of ε says, and whether it may be published ("": that is not settled by the kind).
MEANINGS = {
    Kind.WORST_CASE: (
        "yes",
        "Holds whatever the teachers vote and is computed from public parameters alone. It is the ε of a release, "
        "whose noise is drawn afresh and never again; labels whose noise comes from a named seed are none. The "
        "accountant called label is a theorem of this project on what labels tell, less than noisy counts would.",
    ),
    Kind.DATA_DEPENDENT: (
        "no",
        "Holds for the votes of this very run and is computed from them. It is often much smaller, but the number "
        "itself tells something about the private data.",
    ),
    Kind.SANITISED: (
        "yes",
        "A data-dependent bound that was itself released with noise, at a cost that it includes. What may be published "
        "is one draw with noise that nobody can draw again; those of a benchmark come from named seeds.",
    ),
    Kind.CLAIMED: (
        "no",
        "Printed by a paper and not checked here, or without a proof that we accept. Shown to compare, never to rely "
        "on.",
    ),
    Kind.AUDITED_LOWER: (
        "",
        "Not an upper bound: no mechanism with a smaller ε behaves as measured. A bound below it is wrong.",
    ),
}

#: Words that stand for themselves in a cell, and whether they are good news.
_CHIPS: dict[str, str] = {
    **dict.fromkeys(("yes", "holds", Verdict.REPRODUCED, Verdict.BETTER), "yes"),
    **dict.fromkeys(("no", "violated", "disagrees", Verdict.UNSOUND, Verdict.SHORT), "no"),
    **dict.fromkeys(("vacuous", Verdict.NOT_COMPARABLE, Verdict.NOT_RUN), "other"),
}


def render(
    *,
    title: str,
    figures: Sequence[Path],
    tables: Sequence[Path],
    manifest: Path,
    content: dict[str, Any],
    captions: Path,
    citation: Path | None,
    out: Path,
    publishable: Path | None = None,
) -> str:
    """The page of a run called `title`, to lie at `out`: links lead from there.

    Of a release, `publishable` is the page that may be published. This one says that it may not, and separates what
    may be published from the rest.

    `figures` are PNG and `tables` CSV files named after what they show; `captions` is the folder of the captions;
    `content` is that of the file `manifest`; `citation` is a CITATION.cff. Raises ArtefactError for a file that is
    missing or not sound.
    """
    frames = {path.stem: _read_table(path) for path in tables}
    release = Mode.RELEASE in content.get("labels", {}).values() or bool(release_cards(frames.get("utility-privacy")))
    with ThreadPoolExecutor(available()) as threads:
        drawn = list(threads.map(lambda path: _figure(path, captions, out), figures))  # pictures take most of the time
    shown = [table for path in tables for table in _tables(frames[path.stem], path, captions, out)]
    environment = templates()
    environment.filters |= {"duration": duration, "pieces": pieces}
    environment.globals |= {"chips": _CHIPS, "dash": DASH, "brief": BRIEF}
    return environment.get_template("page.html").render(
        title=title,
        findings=findings(frames),
        introduction=read_caption(captions / "workflow.rst"),
        cards=cards(frames, content, release=release),
        release=release,
        publishable=publishable and _relative(publishable, out),
        of_release=release_cards(frames.get("utility-privacy")) if release else [],
        sections=_sections(drawn, shown, frames.get("papers")),
        absent=_absent(drawn, shown),
        kinds=[(in_words(kind), KINDS[kind].color, *MEANINGS[kind]) for kind in MEANINGS],
        citations=None if citation is None else read_citations(citation),
        manifest=content,
        manifest_link=_relative(manifest, out),
        config=_yaml(content["config"]),
        slowest=max((rule["seconds"] for rule in content["rules"]), default=0) or 1,
    )


def _sections(
    figures: Sequence[dict[str, Any]], tables: Sequence[dict[str, Any]], papers: "pd.DataFrame | None"
) -> list[dict[str, Any]]:
    """The parts of the page, those of papers within the one of that name; what has nothing to show is left out."""
    figures, tables = [each for each in figures if not each["missing"]], [each for each in tables if each["rows"]]

    def part(place: str, title: str, **more: Any) -> dict[str, Any]:
        mine = {"figures": [each for each in figures if each["place"] == place]}
        mine["tables"] = [each for each in tables if each["place"] == place]
        return {"id": slug(place), "title": title, "parts": [], **mine, **more}

    lines = {} if papers is None else {str(row["paper"]): paper_line(row) for row in papers.to_dict("records")}
    found = [part(place, title, short=SHORT[place]) for place, title in SECTIONS.items()]
    of_papers = [
        paper for paper in PAPERS if paper in lines or any(paper == each["place"] for each in (*figures, *tables))
    ]
    others = sorted({*lines} - {*of_papers})
    for section in found:
        if section["id"] == "papers":
            section["parts"] = [part(paper, paper, line=lines.get(paper, "")) for paper in (*of_papers, *others)]
    return [each for each in found if each["figures"] or each["tables"] or each["parts"] or each["id"] == "accounting"]


def _absent(figures: Sequence[dict[str, Any]], tables: Sequence[dict[str, Any]]) -> list[tuple[str, list[str]]]:
    """What has nothing to show, and why."""
    return [
        ("Not drawn", [each["missing"] for each in figures if each["missing"]]),
        ("Empty in this run", [each["title"] for each in tables if not each["rows"]]),
    ]


def _figure(path: Path, captions: Path, out: Path) -> dict[str, Any]:
    """What the template needs of a figure; `missing` says why there is nothing to see, if so."""
    from PIL import Image, UnidentifiedImageError

    name = FIGURES.check(path.stem)
    caption = caption_of(captions / "figures" / f"{name}.rst", FIGURES.load(name))
    try:
        content = path.read_bytes()
        with Image.open(BytesIO(content), formats=["PNG"]) as image:
            size, missing, small = image.size, image.info.get("Comment"), _small(image)
    except UnidentifiedImageError:
        raise ArtefactError(path, "it is no PNG image") from None
    except OSError as fault:
        raise ArtefactError(path, f"it cannot be read ({fault})") from None
    width, height = (pixels * 5 // 8 for pixels in size)  # sharp on fine screens too
    links = [(suffix.upper(), _relative(path.with_suffix(f".{suffix}"), out)) for suffix in ("pdf", "png")]
    shown = {"image": base64.b64encode(small).decode(), "width": width, "height": height, "missing": missing}
    shown |= {"place": section_of(FIGURES, name)}
    return {
        "name": name,
        **shown,
        "title": plain(caption, 1),
        "alt": plain(caption),
        "caption": caption,
        "links": links,
    }


def _small(image: "Image") -> bytes:
    """A picture of 256 colours, which is all that drawings need: a quarter of the bytes."""
    from PIL.Image import Dither

    stream = BytesIO()
    image.convert("RGB").quantize(256, dither=Dither.NONE).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def _tables(frame: "pd.DataFrame", path: Path, captions: Path, out: Path) -> list[dict[str, Any]]:
    """What the template needs of a table: of the verdicts two for each paper, what was measured open to all eyes."""
    if path.stem != VERDICTS or frame.empty:
        return [_table(frame, path, captions, out)]
    parts: list[dict[str, Any]] = []
    for paper, rows in frame.groupby("paper", sort=False):
        measured = rows["measured_mean"].notna()
        for kind, mine in ((MEASURED, rows[measured]), (OTHERS, rows[~measured])):
            if not mine.empty:
                part = _table(mine, path, captions, out)
                name = f"{slug(str(paper))}-{VERDICTS}" + ("" if kind == MEASURED else "-others")
                parts.append(part | {"id": name, "place": paper, "title": f"{kind} of {paper}"})
    for part in parts[1:]:
        part["caption"] = ""  # said once, and not for every paper
    return parts


def _table(frame: "pd.DataFrame", path: Path, captions: Path, out: Path) -> dict[str, Any]:
    """What the template needs of a table; what is the same in all rows is said once, above them."""
    name = path.stem
    table: Table = TABLES.load(name)
    columns, (_, *rows) = table.shown(frame), table.rows(frame)
    places = range(len(columns)) if len(rows) > 1 else ()
    measured = name == VERDICTS and frame["measured_mean"].notna().all()
    folded = len(rows) > (BRIEF if measured else SHORT_TABLE if table.folded else LONG_TABLE)
    same = [index for index in places if _of_all(columns[index]) and len({row[index] for row in rows}) == 1]
    varying = [index for index in range(len(columns)) if index not in same]
    suffixes = {"CSV": ".csv", "Markdown": ".md", "LaTeX": ".tex"}
    return {
        "id": f"table-{name}",
        "place": section_of(TABLES, name),
        "title": table.title,
        "caption": caption_of(captions / "tables" / f"{name}.rst", table.build),
        "same": [(columns[index].heading, rows[0][index]) for index in same],
        "columns": [columns[index] for index in varying],
        "headings": _headings([columns[index] for index in varying]),
        "rows": [[row[index] for index in varying] for row in rows],
        "folded": folded,
        "shown": len(rows) <= MOST_ROWS,
        "links": [(title, _relative(path.with_suffix(suffix), out)) for title, suffix in suffixes.items()],
    }


def _of_all(column: "Column") -> bool:
    """Whether what is the same in all rows may leave the table: numbers that stand beside others of a group may not."""
    return not (column.group and column.right)


def _headings(columns: Sequence["Column"]) -> list[tuple[str, list["Column"]]]:
    """Columns by their common heading; a column without one stands alone under ""."""
    found: list[tuple[str, list[Column]]] = []
    for group, neighbours in groupby(columns, key=lambda column: column.group):
        members = list(neighbours)
        found += [(group, members)] if group else [("", [column]) for column in members]
    return found


def pieces(text: str) -> list[str]:
    """A cell's text where a line may end: after a parameter, between rounds, within a name."""
    return re.split(r"(?<=, )|(?<= \+ )|(?<=-)(?=[a-z])", text)


def _read_table(path: Path) -> "pd.DataFrame":
    import pandas as pd

    table: Table = TABLES.load(path.stem)
    try:
        frame = pd.read_csv(path, keep_default_na=False, na_values=[""], float_precision="round_trip")
    except (OSError, ValueError) as fault:
        raise ArtefactError(path, f"it cannot be read ({str(fault).splitlines()[0]})") from None
    needed = {column.value for column in table.all_columns(frame)}
    needed |= set(COLUMNS) if path.stem == VERDICTS else set()  # findings read what no column shows
    if missing := needed - set(frame.columns):
        raise ArtefactError(path, f"it lacks the column '{min(missing)}'")
    return frame


def _yaml(config: dict[str, Any]) -> str:
    import yaml

    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    assert isinstance(text, str)
    return text


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out.parent)).as_posix()
