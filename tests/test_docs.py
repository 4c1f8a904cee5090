"""Examples in the documentation produce the output that they show.

In README.md and docs/, a block fenced as `python` is run, and of one fenced as `console` each line `$ patebench …` is,
its output compared with what the block shows below it, whatever the width of the columns. All blocks of a page run in
turn, in one empty folder. With PATEBENCH_WRITE_DOCS=1 in the environment the outputs are
written into the pages instead.
"""

import os
import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from patebench.cli import cli
from patebench.mechanisms import MECHANISMS
from tests import rules

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKING = [
    *PAGES,
    *sorted((ROOT / "results" / "reference").glob("*.md")),
    *sorted(ROOT.glob("*.md")),
    ROOT / "config" / "README.md",
]
FENCED = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def said(command: str) -> str:
    """Return the output of a command without trailing spaces."""
    program, *words = shlex.split(command)
    assert program == "patebench", f"only patebench is run here, not {program}"
    done = CliRunner().invoke(cli, words)
    # Commands that audit have exit status 1 where something is violated, and so it is shown.
    ended = isinstance(done.exception, SystemExit | None)
    assert ended and done.exit_code <= (words[0] == "audit"), f"{command}: {done.output or done.exception}"  # noqa: PT018
    output = done.output.replace(str(Path.cwd()), "/home/you").rstrip()
    return "\n".join(line.rstrip() for line in output.splitlines())


def replayed(block: str) -> str:
    """Return a console block with the current outputs of its commands."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{line}\n{said(line.removeprefix('$ '))}\n" for line in commands)


def steady(text: str) -> list[str]:
    """Split each line into words, independently of column widths."""
    return [re.sub("──+", "──", " ".join(line.split())) for line in text.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run_and_show_what_they_print(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}

    def replay(match: re.Match[str]) -> str:
        language, block = match.groups()
        if language == "python":
            exec(compile(block, page.name, "exec"), names)
            return match[0]
        return f"```console\n{replayed(block)}```"

    text = page.read_text(encoding="utf-8")
    today = FENCED.sub(replay, text)
    if os.environ.get("PATEBENCH_WRITE_DOCS"):
        page.write_text(today, encoding="utf-8")
    else:
        assert steady(today) == steady(text)


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_links_lead_somewhere() -> None:
    for page in LINKING:
        for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                aim = page.parent / target if target else page
                assert aim.exists(), f"{page} links to {target}"
                assert not anchor or anchor in headings(aim), f"{page} links to {target}#{anchor}"


def test_the_picture_of_the_rules_shows_every_stage() -> None:
    shown = re.findall(r"<text .*>(\w+)</text>", (ROOT / "docs/images/dag.svg").read_text(encoding="utf-8"))
    assert {rules.STAGES[rule] for rule in shown if rule != "all"} == set(rules.STAGES.values())


def test_the_table_of_files_to_hand_out_names_every_file_that_a_run_makes() -> None:
    (table,) = re.findall(
        r"## What may be published\n+((?:\|.*\n)+)", (ROOT / "docs/how-to/publish-labels.md").read_text()
    )
    named = set(re.findall(r"`([^`]+)`", table))
    blocks = (re.findall(r" output:\n(.*?)\n +log:", body, re.DOTALL)[-1] for body in rules.BODIES.values())
    paths = (path for block in blocks for path in re.findall(r'"(?:<\w+>/)+([^"]+)"', block))
    made = {Path(re.sub(r"\{+\w+\}+", "*", path)) for path in paths}
    assert len(made) > 25
    unnamed = {str(path) for path in made if not named & {path.name, path.suffix, f"{path.parent.name}/*{path.suffix}"}}
    assert not unnamed
    assert {"logs/", "benchmarks/", "weights/", ".snakemake/"} <= named


#: Parameters of mechanisms, one of them that of docs/template.
MECHANISM_OPTIONS = {"--adjacency", "--chance"} | {
    f"--{field.name}" for name in MECHANISMS.names() for field in fields(MECHANISMS.load(name))
}


def words(page: Path) -> int:
    """Count words: what contains a letter or a digit."""
    return sum(bool(re.search(r"\w", word)) for word in page.read_text(encoding="utf-8").split())


#: Pages that `make pages` writes.
GENERATED = {"configuration.md", "commands.md", "bounds.md"}


def test_the_documentation_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
    pages = {page.name: words(page) for page in PAGES[1:]}
    assert sum(pages.values()) <= 35_000
    assert {name: count for name, count in pages.items() if count > 2_500 and name not in GENERATED} == {}


def test_commands_in_shell_blocks_have_these_options() -> None:
    """Blocks fenced as `sh` are not run, but each `patebench` command in them is one, and takes its options."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    for line in "".join(blocks).splitlines():
        program, *rest = shlex.split(line, comments=True) or [""]
        if program == "patebench":
            command = cli.get_command(click.Context(cli), rest[0])
            assert command is not None, line
            options = {option for parameter in command.params for option in parameter.opts}
            given = {word.partition("=")[0] for word in rest if word.startswith("--")}
            assert given - MECHANISM_OPTIONS <= options, line
