"""The command line: a group that imports the file of a command only when it is called for.

So asking for help or counting votes never waits for torch.
"""

import importlib
import io
import logging
import sys

import click

from patebench import __version__
from patebench.core.errors import PatebenchError, separate
from patebench.core.registry import nearest

#: The commands, each a file in `stages`, and what they do in a few words.
COMMANDS = {
    "data": "Load a data set and write its private and public samples.",
    "split": "Shuffle the public samples into the student's pool and the test set.",
    "partition": "Deal the private samples to the teachers.",
    "train_teachers": "Train a chunk of teachers and write their votes.",
    "join_votes": "Join chunks into one vote matrix and describe the ensemble.",
    "extract_features": "Learn features of the pool without a label.",
    "select_queries": "Select the queries of one round, or of an ensemble.",
    "aggregate": "Label queries by a mechanism at one noise setting.",
    "secure_share": "Cut noisy votes into shares, one for each aggregator.",
    "secure_sum": "Sum the shares that one aggregator got.",
    "secure_open": "Add the sums of all aggregators up to noisy counts and labels.",
    "account": "State every bound on ε of a label set.",
    "train_student": "Train a student on released labels.",
    "distil": "Train networks on plain labels and on probabilities, without privacy.",
    "train_petdl": "Train a student of PET-DL, as published or in a sound form.",
    "train_baseline": "Train a model without privacy.",
    "name_clusters": "Name clusters of the pool by true labels: what public data alone tells apart.",
    "train_dpsgd": "Train a model by DP-SGD, which is private itself.",
    "train_private_knn": "Train a student of labels by the nearest private records (Private-kNN).",
    "audit": "Look for two data sets that a mechanism tells apart better than it states.",
    "collect": "Gather everything known of one ensemble.",
    "manifest": "Write versions, commit, hardware, configuration, seeds and times, and what the report is made of.",
    "report": "Write tables, figures and rows, and the page that shows them.",
    "epsilon": "State every bound on ε for votes in a file.",
    "calibrate": "Find the least noise, or the most queries, for a target (ε, δ).",
    "choose_clusters": "Choose how many clusters of a pool to ask records about.",
    "ledger": "Show what was released from private data, and what that costs together.",
    "reproduce": "Run what a row of a paper's table needs, and compare.",
    "compare": "Say what differs between the results of two runs.",
    "crate": "Pack a run for others, as a Workflow Run RO-Crate.",
    "check": "Check every artefact below a folder.",
    "describe": "Propose the declaration of a table from public records.",
    "init": "Write a configuration that runs on your table.",
    "config": "Check a configuration; print its schema or its page.",
    "test_mechanism": "Test whether a mechanism of your own keeps what its interface promises.",
}


class LazyGroup(click.Group):
    """Commands by name; `train-teachers` is `train_teachers`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = name.replace("-", "_")
        if name not in COMMANDS:
            return None
        found = importlib.import_module(f"patebench.stages.{name}").command
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0].replace("-", "_")
        if name not in COMMANDS and not name.startswith("_"):
            ctx.fail(f"No such command '{args[0]}'{nearest(name, COMMANDS)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="patebench")
def cli() -> None:
    """Private learning with teacher ensembles, measured: one command per stage of the workflow.

    `snakemake --cores all` runs them all in order; each can also be run alone, as its log shows.
    """


def main() -> None:
    """Run the command line; a fault that the user can mend is one line and exit status 2."""
    logging.getLogger("patebench").addHandler(logging.NullHandler())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Greek letters ends no command
    try:
        status = cli.main(prog_name="patebench", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as fault:
        click.echo(fault.ctx.get_help(), err=True)
        sys.exit(2)
    except click.Abort:
        click.echo("patebench: stopped", err=True)
        sys.exit(130)
    except (PatebenchError, click.ClickException, OSError, MemoryError) as fault:
        for each in separate(fault) if isinstance(fault, PatebenchError) else [fault]:
            line = " ".join(_words(each).split())
            logging.getLogger("patebench").error(line)
            click.echo(f"patebench: {line}", err=True)
        sys.exit(2)
    sys.exit(status if isinstance(status, int) else 0)


def _words(fault: Exception) -> str:
    """Return the line about a fault."""
    match fault:
        case MemoryError():
            return f"not enough memory; give the job more ({fault or 'none was left'})"
        case click.UsageError():
            words = fault.format_message().rstrip(".")
            path = fault.ctx.command_path if fault.ctx else "patebench"
            return f"{words[:1].lower()}{words[1:]}; see {path} --help"
        case click.ClickException():
            return fault.format_message()
    return str(fault)
