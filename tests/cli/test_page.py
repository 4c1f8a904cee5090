"""Test that the page of commands agrees with the help texts."""

import re
from pathlib import Path

import click

from patebench.cli import COMMANDS, cli
from patebench.cli.page import options, page

ROOT = Path(__file__).parents[2]


def test_the_committed_page_is_current() -> None:
    """Check that the committed page is up to date; `make pages` writes it."""
    assert (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8") == page()


def test_every_command_is_listed_and_every_option_described() -> None:
    assert re.findall(r"^\| `(\w+)` \|", page(), re.M) == list(COMMANDS)
    sections = dict(re.findall(r"^## `patebench (\w+)`\n(.*?)(?=^## |\Z)", options(), re.M | re.S))
    assert list(sections) == list(COMMANDS)
    for name, section in sections.items():
        command = cli.get_command(click.Context(cli), name)
        assert command
        for option in command.params:
            if isinstance(option, click.Option) and not (option.help or "").startswith("Parameter of"):
                assert option.opts[0] in section, (name, option.opts)


def test_a_bar_within_words_does_not_end_a_cell() -> None:
    rows = [line for line in options().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}
