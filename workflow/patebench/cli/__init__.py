"""Command line of the package.

The module of a command is imported only when the command is used, so help and fast commands do not import torch.
"""

import importlib
import io
import logging
import sys

import click

from patebench import __version__
from patebench.core.errors import PatebenchError, separate
from patebench.core.registry import nearest

#: Short description of each command; the name is that of a module in `stages`.
COMMANDS = {
    "data": "Load a data set and write its private and public samples.",
    "split": "Shuffle the public samples into the student's pool and the test set.",
    "partition": "Divide the private samples among the teachers.",
    "train_teachers": "Train a chunk of teachers and write their votes.",
    "join_votes": "Join the chunks into one vote matrix and describe the ensemble.",
    "import_votes": "Import votes from a file, in place of trained teachers.",
    "extract_features": "Compute features of the pool with a public encoder.",
    "select_queries": "Select the queries of one round, or of an ensemble.",
    "aggregate": "Label queries with a mechanism at one noise setting.",
    "secure_share": "Split noisy votes into shares, one per aggregator.",
    "secure_sum": "Sum the shares of one aggregator.",
    "secure_open": "Add up the sums of all aggregators to get noisy counts and labels.",
    "account": "Compute every bound on ε for a label set.",
    "train_student": "Train a student on released labels.",
    "distil": "Train networks on labels and on the teachers' probabilities, without privacy.",
    "train_petdl": "Train a student of PET-DL, as published or in a sound form.",
    "train_baseline": "Train a model without privacy.",
    "name_clusters": "Label clusters of the pool by true labels, to measure the accuracy without private data.",
    "train_dpsgd": "Train a private model by DP-SGD.",
    "train_private_knn": "Train a student on labels from the nearest private records (Private-kNN).",
    "train_on_features": "Train a classifier of public features with noise (DPPL, Ind-kNN, Private Evolution …).",
    "audit": "Estimate an ε lower bound for a mechanism and compare it with its stated ε.",
    "collect": "Collect all results of one ensemble.",
    "manifest": "Write versions, commit, hardware, configuration, seeds, times and the inputs of the report.",
    "report": "Write tables, figures, result rows (rows.json) and the report page.",
    "epsilon": "Compute every bound on ε for votes in a file.",
    "calibrate": "Find the smallest noise, or the largest number of queries, for a target (ε, δ).",
    "choose_clusters": "Choose the number of clusters of a pool to use as queries.",
    "ledger": "Show all releases from private data and their total ε.",
    "reproduce": "Run the experiments behind a row of a paper's table, and compare the values.",
    "compare": "Compare the results of two runs.",
    "crate": "Pack a run for publication as a Workflow Run RO-Crate.",
    "export_votes": "Pack the votes of an ensemble on a public data set for publication.",
    "check": "Check every artefact below a folder.",
    "check_entry": "Check entries of the leaderboard and compute their ε.",
    "leaderboard": "Write the leaderboard: every entry with its computed ε, and the pages.",
    "describe": "Propose the declaration of a table from public records.",
    "init": "Write a configuration for your table.",
    "config": "Check a configuration; print the schema or the reference page.",
    "test_mechanism": "Test whether your own mechanism satisfies its interface.",
}


class LazyGroup(click.Group):
    """Group of all commands, each imported when it is used; in command names, `-` and `_` are the same."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        name = name.replace("-", "_")
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"patebench.stages.{name}").command
        assert isinstance(command, click.Command)
        return command

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
    """Benchmark private learning with teacher ensembles (PATE): one command per stage of the workflow.

    `snakemake --cores all` runs all stages in order. Each stage can also be run alone; its log shows the command.
    """


def main() -> None:
    """Run the command line; print one line per expected error, such as a wrong option, and then exit with status 2."""
    logging.getLogger("patebench").addHandler(logging.NullHandler())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # do not fail on a terminal without Greek letters
    try:
        status = cli.main(prog_name="patebench", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as fault:
        click.echo(fault.ctx.get_help(), err=True)
        sys.exit(2)
    except click.Abort:
        click.echo("patebench: stopped", err=True)
        sys.exit(130)
    except (PatebenchError, click.ClickException, OSError, MemoryError) as fault:
        for error in separate(fault) if isinstance(fault, PatebenchError) else [fault]:
            line = " ".join(_message(error).split())
            logging.getLogger("patebench").error(line)
            click.echo(f"patebench: {line}", err=True)
        sys.exit(2)
    sys.exit(status if isinstance(status, int) else 0)


def _message(fault: Exception) -> str:
    match fault:
        case MemoryError():
            return f"memory ran out ({fault or 'none was left'}); give the job more memory"
        case click.UsageError():
            words = fault.format_message().rstrip(".")
            path = fault.ctx.command_path if fault.ctx else "patebench"
            return f"{words[:1].lower()}{words[1:]}; see {path} --help"
        case click.ClickException():
            return fault.format_message()
    return str(fault)
