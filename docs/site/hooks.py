"""Steps of the site's build that MkDocs lacks: links out of docs/, formulas, generated pages and the leaderboard."""

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import patebench
from patebench.cli.page import options
from patebench.core.files import write_text
from patebench.leaderboard.board import board_files
from patebench.leaderboard.collection import assess_all

ROOT = Path(__file__).parents[2]
#: Folder of the site with the leaderboard, and where its files are written. They are made again if an input changes.
BOARD, MADE = "leaderboard", ROOT / "build" / "leaderboard"
BOARD_INPUTS = (
    *("workflow/patebench/**/*", "results/reference/*/manifest.json", "results/reference/*/tables/*.csv"),
    *("config/published.csv", "leaderboard/entries/*", "docs/explanation/corrections.md"),
)
#: Pages and pictures outside docs/ that are part of the site, by pattern, and the folder in which they appear.
INCLUDED = {
    "results/reference/*.md": "kept",
    "results/reference/*.png": "kept",
    "results/reference/*/figures/*.png": "kept",
    "config/README.md": "config",
    "*.md": "project",
}
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2 *$", re.DOTALL | re.MULTILINE)
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def _included() -> dict[Path, str]:
    """Return where on the site each included file appears."""
    places = {}
    for pattern, folder in INCLUDED.items():
        start = ROOT / pattern.split("*")[0].rpartition("/")[0]
        for path in sorted(ROOT.glob(pattern)):
            places[path] = f"{folder}/{path.relative_to(start).as_posix()}"
    return {**places, ROOT / "README.md": "index.md"}


def _write_board() -> None:
    """Write the leaderboard, unless its files were made from the same inputs."""
    paths = sorted({path for pattern in BOARD_INPUTS for path in ROOT.glob(pattern) if path.is_file()})
    inputs = [path for path in paths if path.suffix != ".pyc"]
    lines = [f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in inputs]
    stamp, content = MADE / "inputs.txt", "\n".join(lines)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == content:
        return
    shutil.rmtree(MADE, ignore_errors=True)
    for name, text in board_files(ROOT, assess_all(ROOT)).items():
        write_text(MADE / name, text)
    write_text(stamp, content)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the included files and the leaderboard."""
    _write_board()
    for path in sorted(MADE.rglob("*.*")):
        if path.name != "inputs.txt":
            place = f"{BOARD}/{path.relative_to(MADE).as_posix()}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    for path, place in _included().items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the site's own files; name files that are not part of it."""
    if page.file.src_uri == "reference/commands.md":
        markdown += "\n" + options()
    if page.file.src_uri == "reference/api.md":
        objects = [getattr(patebench, name) for name in patebench.__all__]
        documented = [thing for thing in objects if isinstance(thing, type) or callable(thing)]
        markdown += "".join(f"\n::: {thing.__module__}.{thing.__qualname__}\n" for thing in documented)
    if page.file.src_uri.startswith(f"{BOARD}/"):  # its links are those of the site
        return markdown
    source = Path(str(page.file.abs_src_path))
    places = _included()

    def rewrite(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        path, _, anchor = target.partition("#")
        if "://" in path or not path:
            return match[0]
        aim = Path(os.path.normpath(source.parent / path))
        if not aim.exists():
            raise PluginError(f"{source}: {target} leads nowhere")
        if aim.is_relative_to(config.docs_dir) and aim.is_file() and files.get_file_from_path(_uri(aim, config)):
            place = _uri(aim, config)
        elif aim in places:
            place = places[aim]
        else:
            name = aim.relative_to(ROOT).as_posix()
            return words if name in words else f"{words} (`{name}`)"
        relative = os.path.relpath(place, Path(page.file.src_uri).parent)
        return f"{mark}[{words}]({relative}{'#' + anchor if anchor else ''})"

    pieces, last = [], 0
    for block in _FENCED.finditer(markdown):
        pieces += [_LINK.sub(rewrite, markdown[last : block.start()]), block[0]]
        last = block.end()
    return "".join([*pieces, _LINK.sub(rewrite, markdown[last:])])


def _uri(path: Path, config: MkDocsConfig) -> str:
    return path.relative_to(config.docs_dir).as_posix()


def on_page_content(html: str, **_: Any) -> str:
    """Write formulas as MathML, which browsers show without a script."""

    def convert(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        return latex2mathml.converter.convert(match[2].strip(), display=display)

    return _FORMULA.sub(convert, html)


def on_post_page(output: str, **_: Any) -> str:
    """Name the search dialogue for screen readers, which the theme leaves out."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')
