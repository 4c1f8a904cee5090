"""The report: one self-contained page from figures, tables and the manifest.

Everything is inside the page; it loads nothing from anywhere. Links lead to the files beside it.
"""

import base64
import os
import re
from collections.abc import Sequence
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patebench.core.bound import Kind
from patebench.core.errors import ArtefactError
from patebench.reporting.captions import caption_of, plain, read_caption
from patebench.reporting.figures import FIGURES
from patebench.reporting.style import KINDS
from patebench.reporting.summary import cards, duration, sentence
from patebench.reporting.tables import TABLES

if TYPE_CHECKING:
    import pandas as pd

    from patebench.reporting.tables.table import Column, Table

HEADLINE = "utility-privacy"
#: More rows than that are not for reading on a page: the files beside it hold them.
MOST_ROWS = 600

#: What each kind of ε says, and whether it may be published ("": that is not settled by the kind).
MEANINGS = {
    Kind.WORST_CASE: (
        "yes",
        "Holds whatever the teachers vote and is computed from public parameters alone. It is the ε of a release, "
        "whose noise is drawn afresh and never again; labels whose noise comes from a named seed are none.",
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
    Kind.CLAIMED: ("no", "Printed by a paper; we know of no proof that we accept. Shown to compare, never to rely on."),
    Kind.AUDITED_LOWER: (
        "",
        "Not an upper bound: no mechanism with a smaller ε behaves as measured. A bound below it is wrong.",
    ),
}


def render(
    *,
    figures: Sequence[Path],
    tables: Sequence[Path],
    manifest: Path,
    content: dict[str, Any],
    captions: Path,
    out: Path,
) -> str:
    """The page, to lie at `out`: links lead from there.

    `figures` are PNG and `tables` CSV files named after what they show; `captions` is the folder of the captions;
    `content` is that of the file `manifest`. Raises ArtefactError for a file that is missing or not sound.
    """
    from jinja2 import Environment, StrictUndefined

    _check_manifest(manifest, content)
    frames = {path.stem: _read_table(path) for path in tables}
    shown = [_table(frames[path.stem], path, captions, out) for path in tables]
    template = Path(__file__).with_name("template.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"duration": duration, "pieces": pieces}
    return environment.from_string(template).render(
        title=content["config"].get("name") or "default run",
        sentence=sentence(frames),
        introduction=read_caption(captions / "workflow.rst"),
        cards=cards(frames, content),
        headline=[table for table in shown if table["name"] == HEADLINE and table["rows"]],
        tables=[table for table in shown if table["name"] != HEADLINE or not table["rows"]],
        figures=[_figure(path, captions, out) for path in figures],
        kinds=[(kind.replace("_", " "), KINDS[kind].color, *MEANINGS[kind]) for kind in MEANINGS],
        manifest=content,
        manifest_link=_relative(manifest, out),
        config=_yaml(content["config"]),
        slowest=max((rule["seconds"] for rule in content["rules"]), default=0) or 1,
    )


def _figure(path: Path, captions: Path, out: Path) -> dict[str, Any]:
    """What the template needs of a figure; `missing` says why there is nothing to see, if so."""
    from PIL import Image, UnidentifiedImageError

    name = FIGURES.check(path.stem)
    caption = caption_of(captions / "figures" / f"{name}.rst", FIGURES.load(name))
    try:
        content = path.read_bytes()
        with Image.open(BytesIO(content), formats=["PNG"]) as image:
            size, missing = image.size, image.info.get("Comment")
    except UnidentifiedImageError:
        raise ArtefactError(path, "it is no PNG image") from None
    except OSError as fault:
        raise ArtefactError(path, f"it cannot be read ({fault})") from None
    width, height = (pixels * 5 // 8 for pixels in size)  # sharp on fine screens too
    links = [(suffix.upper(), _relative(path.with_suffix(f".{suffix}"), out)) for suffix in ("pdf", "png")]
    shown = {"image": base64.b64encode(content).decode(), "width": width, "height": height, "missing": missing}
    return {"name": name, **shown, "alt": plain(caption), "caption": caption, "links": links}


def _table(frame: "pd.DataFrame", path: Path, captions: Path, out: Path) -> dict[str, Any]:
    """What the template needs of a table; what is the same in all rows is said once, above them."""
    name = path.stem
    table: Table = TABLES.load(name)
    columns, (_, *rows) = table.shown(frame), table.rows(frame)
    places = range(len(columns)) if len(rows) > 1 else ()
    same = [index for index in places if not columns[index].group and len({row[index] for row in rows}) == 1]
    varying = [index for index in range(len(columns)) if index not in same]
    suffixes = {"CSV": ".csv", "Markdown": ".md", "LaTeX": ".tex"}
    return {
        "name": name,
        "title": table.title,
        "caption": caption_of(captions / "tables" / f"{name}.rst", table.build),
        "same": [(columns[index].title, rows[0][index]) for index in same],
        "columns": [columns[index] for index in varying],
        "headings": _headings([columns[index] for index in varying]),
        "rows": [[row[index] for index in varying] for row in rows],
        "folded": table.folded,
        "shown": len(rows) <= MOST_ROWS,
        "links": [(title, _relative(path.with_suffix(suffix), out)) for title, suffix in suffixes.items()],
    }


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
    if missing := needed - set(frame.columns):
        raise ArtefactError(path, f"it lacks the column '{min(missing)}'")
    return frame


def _check_manifest(path: Path, content: dict[str, Any]) -> None:
    for entry in ("config", "seeds", "versions", "commit", "hardware", "rules", "started", "finished"):
        if entry not in content:
            raise ArtefactError(path, f"it lacks '{entry}'")


def _yaml(config: dict[str, Any]) -> str:
    import yaml

    text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    assert isinstance(text, str)
    return text


def _relative(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out.parent)).as_posix()
