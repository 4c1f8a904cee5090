"""Captions: one small reStructuredText file for each figure and table, shared with Snakemake's own report.

Only paragraphs, *emphasis*, **strong** and ``literal`` are used in them, so only these are understood here.
"""

import html
import re
from pathlib import Path

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


def plain(caption: str) -> str:
    """The first two sentences of a caption without marks, as alternative text."""
    text = html.unescape(re.sub(r"<[^>]+>", "", caption))
    return " ".join(re.split(r"(?<=[.?])\s", " ".join(text.split()))[:2])


def _inline(text: str) -> str:
    text = html.escape(" ".join(text.split()), quote=False)
    for mark, tag in ((r"\*\*", "strong"), (r"\*", "em"), ("``", "code")):
        text = re.sub(rf"{mark}(.+?){mark}", rf"<{tag}>\1</{tag}>", text)
    return text
