"""Captions: one small reStructuredText file for each figure and table, shared with Snakemake's own report.

Only paragraphs, *emphasis*, **strong** and ``literal`` are used in them, so only these are understood here.
"""

import html
import inspect
import re
from pathlib import Path
from typing import Any

from patebench.core.errors import ArtefactError


def read_caption(path: Path) -> str:
    """The caption as HTML paragraphs; raises ArtefactError when the file is missing or empty."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise ArtefactError(path, f"it cannot be read ({fault})", "restore it; every result has a caption") from None
    if not text:
        raise ArtefactError(path, "it is empty", "restore it; every result has a caption")
    return "\n".join(f"<p>{_inline(paragraph)}</p>" for paragraph in re.split(r"\n\s*\n", text))


def caption_of(path: Path, thing: Any) -> str:
    """The caption of a figure or table, `thing` being the function that makes it.

    One of another package has no file here unless somebody wrote one: then it is the first paragraph of its docstring.
    Raises ArtefactError where there is neither.
    """
    outside = thing.__module__.partition(".")[0] != "patebench"
    if not outside or path.exists():
        return read_caption(path)
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0].strip()
    if not paragraph:
        where = f"{thing.__module__}.{thing.__qualname__}"
        raise ArtefactError(path, "there is no such caption", f"write it, or give {where} a docstring")
    return f"<p>{_inline(paragraph)}</p>"


def plain(caption: str, sentences: int = 2) -> str:
    """The first sentences of a caption without marks: two of them are its alternative text."""
    text = html.unescape(re.sub(r"<[^>]+>", "", caption))
    return " ".join(re.split(r"(?<=[.?])\s", " ".join(text.split()))[:sentences])


def _inline(text: str) -> str:
    text = html.escape(" ".join(text.split()), quote=False)
    for mark, tag in ((r"\*\*", "strong"), (r"\*", "em"), ("``", "code")):
        text = re.sub(rf"{mark}(.+?){mark}", rf"<{tag}>\1</{tag}>", text)
    return text
