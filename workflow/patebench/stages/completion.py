"""The command `completion`: what makes a shell complete commands, options and paths."""

import click
from click.shell_completion import get_completion_class

from patebench.core.errors import PatebenchError
from patebench.stages.command import stage_command

#: The shells that click can complete for.
SHELLS = ("bash", "zsh", "fish")


def run(*, shell: str) -> None:
    """Print what makes SHELL (bash, zsh or fish) complete commands and options.

    For bash: `eval "$(patebench completion bash)"`, in ~/.bashrc for good. For zsh the same in ~/.zshrc; for fish
    `patebench completion fish | source`.
    """
    kind, root = get_completion_class(shell), click.get_current_context().find_root()
    if kind is None or root.info_name is None:
        raise PatebenchError(f"there is no completion for {shell}; use one of {', '.join(SHELLS)}")
    click.echo(kind(root.command, {}, "patebench", "_PATEBENCH_COMPLETE").source())


command = stage_command(run, click.argument("shell", type=click.Choice(SHELLS)))
