"""Run a command of patebench in this process, as from a shell."""

from typing import Any

from click.testing import CliRunner, Result

from patebench.cli import cli


def invoke(*words: object, **settings: Any) -> Result:
    """Return the result of the command `patebench` with these words; an exception is part of the result."""
    return CliRunner().invoke(cli, [str(word) for word in words], **settings)
