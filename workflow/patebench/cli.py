"""The command line: one sub-command per stage, nothing else.

Stages are imported inside their commands, so that asking for help or counting votes never waits for torch.
"""

import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from patebench import __version__
from patebench.budgets.options import MechanismCommand
from patebench.core.errors import PatebenchError
from patebench.core.logfile import LogFile

FILE = click.Path(path_type=Path)


class Assignment(click.ParamType[tuple[str, Any]]):
    """A KEY=VALUE pair; the value becomes a number when `number` is set."""

    name = "key=value"

    def __init__(self, number: bool) -> None:
        self.number = number

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        key, equals, text = str(value).partition("=")
        if not key or not equals:
            self.fail(f"'{value}' is not of the form key=value", param, ctx)
        if not self.number:
            return key, text
        try:
            return key, float(text)
        except ValueError:
            self.fail(f"'{text}' is not a number (in '{value}')", param, ctx)


class TeacherRange(click.ParamType[tuple[int, int]]):
    """FIRST-LAST, both included."""

    name = "first-last"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        first, dash, last = str(value).partition("-")
        if not (first.isdecimal() and dash and last.isdecimal()):
            self.fail(f"'{value}' is not of the form first-last, such as 0-24", param, ctx)
        return int(first), int(last)


def out_file(*names: str, **settings: Any) -> Callable[..., Any]:
    return click.option(*names, type=FILE, required=True, **settings)


def in_file(*names: str, **settings: Any) -> Callable[..., Any]:
    return click.option(*names, type=FILE, required=True, **settings)


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Every stage can write a log."""
    return click.option(
        "--log", type=FILE, expose_value=False, callback=_log_to, is_eager=True, help="Write plain log lines here."
    )(command)


def seeded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Stages that draw random numbers name their stream."""
    seed = click.option("--seed", type=click.IntRange(min=0), required=True, help="Base seed of the experiment.")
    stream = click.option("--stream", required=True, help="Name of the random stream: the artefact's place in results.")
    return seed(stream(command))


def drawn(command: Callable[..., Any]) -> Callable[..., Any]:
    """Stages whose noise protects name its stream, to be drawn again, or draw for good from the operating system."""
    options = (
        click.option("--seed", type=click.IntRange(min=0), default=None, help="Base seed of the experiment."),
        click.option("--stream", default=None, help="Name of the random stream: the artefact's place in results."),
        click.option("--release", is_flag=True, help="Draw discrete noise from the operating system, once, for good."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def threaded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Stages that call torch may use several processors."""
    number = click.IntRange(min=1)
    return click.option(
        "--threads", type=number, default=1, show_default=True, expose_value=False, callback=_use_threads
    )(command)


def learning(command: Callable[..., Any], *, named: bool = True) -> Callable[..., Any]:
    """Stages that train something name the model and how; where they need not be `named`, the data's shape decides."""
    options = (
        click.option("--model", required=named, help="What is trained, e.g. small-cnn, paper-cnn, logistic."),
        click.option("--recipe", required=named, help="How it is trained: paper, modern, fast or plain."),
        click.option("--epochs", type=int, default=None, help="Passes over the data, instead of the default."),
        threaded,
    )
    for option in reversed(options):
        command = option(command)
    return command


approaching = partial(learning, named=False)


def _log_to(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    logger = logging.getLogger("patebench")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if value is not None:
        logger.addHandler(LogFile(value))
        logger.info("patebench %s: %s", __version__, " ".join(sys.argv[1:]))


def _use_threads(ctx: click.Context, param: click.Parameter, value: int) -> int:
    # Read by OpenMP when torch is first imported, which happens later, inside the stage.
    os.environ["OMP_NUM_THREADS"] = str(value)
    return value


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="patebench")
def cli() -> None:
    """Private learning with teacher ensembles, measured: one command per stage of the workflow.

    `snakemake --cores all` runs them all in order; each can also be run alone, as its log shows.
    """


@cli.command()
@click.argument("name")
@click.option("--root", type=FILE, default="data", show_default=True, help="Where downloaded data sets lie.")
@click.option("--download/--no-download", default=True, show_default=True, help="Fetch what is missing.")
@click.option("--option", "options", type=Assignment(number=False), multiple=True, help="A loader's option: key=value.")
@out_file("--private", help="Where the private samples go.")
@out_file("--public", help="Where the public samples go.")
@common
def data(name: str, root: Path, download: bool, options: list[tuple[str, str]], private: Path, public: Path) -> None:
    """Load the data set NAME and write its private and public samples."""
    from patebench.data.stage import make_data

    make_data(name, root, dict(options), download, private, public)


@cli.command()
@in_file("--private", help="Private samples, which the public ones must not repeat.")
@in_file("--public", help="Public samples to divide.")
@click.option("--pool", type=click.IntRange(min=1), required=True, help="How many samples the student may see.")
@click.option("--test", type=click.IntRange(min=1), default=None, help="How many to test on [default: the rest].")
@seeded
@out_file("--pool-out")
@out_file("--truth-out")
@out_file("--test-out")
@common
def split(**arguments: Any) -> None:
    """Shuffle the public samples into the student's pool and the test set."""
    from patebench.data.stage import split as run

    run(**arguments)


@cli.command()
@in_file("--private", help="Private samples.")
@click.option("--teachers", type=int, default=None, help="Number of shards.")
@click.option("--strategy", default="iid", show_default=True, help="iid, skew or owners.")
@click.option("--share", type=float, default=None, help="skew: share of each shard that comes from one label.")
@click.option("--owners", type=FILE, default=None, help="owners: .npy with the owner of each private sample.")
@click.option("--need-every-class", is_flag=True, help="Refuse a shard that lacks a class.")
@seeded
@out_file("--out")
@common
def partition(**arguments: Any) -> None:
    """Deal the private samples to the teachers."""
    from patebench.data.stage import partition as run

    run(**arguments)


@cli.command()
@in_file("--private")
@in_file("--partition")
@in_file("--pool")
@in_file("--test")
@click.option("--teachers", type=TeacherRange(), required=True, help="Which teachers, e.g. 0-24.")
@learning
@seeded
@out_file("--out", help="Where the votes go.")
@click.option("--weights", type=FILE, default=None, help="Keep each teacher's weights in this folder.")
@click.option(
    "--soft",
    type=click.FloatRange(min=0, min_open=True),
    multiple=True,
    help="Also sum the teachers' probabilities of the pool at this temperature, for distillation.",
)
@common
def teach(teachers: tuple[int, int], **arguments: Any) -> None:
    """Train a chunk of teachers and write their votes on pool and test set."""
    from patebench.teachers.chunk import teach as run

    run(first=teachers[0], last=teachers[1], **arguments)


@cli.command()
@in_file("--partition")
@in_file("--pool")
@in_file("--truth")
@in_file("--test")
@click.argument("chunks", nargs=-1, required=True, type=FILE)
@out_file("--out", help="Where the vote matrix goes.")
@out_file("--summary", help="Where accuracies and gaps go.")
@common
def votes(**arguments: Any) -> None:
    """Join CHUNKS into one vote matrix and describe the ensemble."""
    from patebench.teachers.votes import join

    join(**arguments)


BUDGET = click.option("--budget", type=float, default=None, help="Stop answering before this ε (at --delta) is spent.")
MECHANISM = (
    click.option("--mechanism", required=True, help="lnmax, gnmax, …"),
    click.option(
        "--parameter", "parameters", type=Assignment(number=True), multiple=True, help="Of the mechanism: sigma=40."
    ),
)


@cli.command()
@in_file("--votes")
@MECHANISM[0]
@MECHANISM[1]
@BUDGET
@click.option("--delta", type=float, default=None, help="δ of the budget.")
@drawn
@out_file("--out", help="Where the released labels go.")
@common
def aggregate(votes: Path, mechanism: str, parameters: list[tuple[str, float]], **arguments: Any) -> None:
    """Release the label of every query by a mechanism at one noise setting."""
    from patebench.mechanisms.stage import aggregate as run

    run(votes, mechanism, dict(parameters), **arguments)


@cli.command("secure-share")
@in_file("--chunk", help="The votes of a chunk of teachers, who run this.")
@MECHANISM[0]
@MECHANISM[1]
@click.option("--teachers", type=click.IntRange(min=1), required=True, help="How many teachers there are in all.")
@drawn
@out_file("--out", multiple=True, help="Where an aggregator's shares go; repeat for each aggregator.")
@common
def secure_share(parameters: list[tuple[str, float]], **arguments: Any) -> None:
    """Cut noisy votes into shares, one for each aggregator."""
    from patebench.secure.stage import share

    share(parameters=dict(parameters), **arguments)


@cli.command("secure-sum")
@click.argument("share_files", nargs=-1, required=True, type=FILE)
@out_file("--out", help="Where the sum goes, which may be published.")
@common
def secure_sum(**arguments: Any) -> None:
    """Sum the SHARE_FILES that one aggregator got, and runs this."""
    from patebench.secure.stage import add

    add(**arguments)


@cli.command("secure-open")
@click.argument("sum_files", nargs=-1, required=True, type=FILE)
@out_file("--labels", help="Where the released labels go.")
@out_file("--counts", help="Where the noisy counts go.")
@common
def secure_open(**arguments: Any) -> None:
    """Add the published SUM_FILES of all aggregators up to noisy counts and labels."""
    from patebench.secure.stage import open_sums

    open_sums(**arguments)


@cli.command()
@in_file("--votes")
@MECHANISM[0]
@MECHANISM[1]
@click.option("--queries", type=click.IntRange(min=1), multiple=True, required=True, help="State ε for the first T.")
@click.option("--delta", type=float, required=True)
@BUDGET
@drawn
@out_file("--out", help="Where the bounds go.")
@common
def account(votes: Path, mechanism: str, parameters: list[tuple[str, float]], queries: list[int], **rest: Any) -> None:
    """State every bound on ε that a release at one noise setting has."""
    from patebench.mechanisms.stage import account as run

    run(votes, mechanism, dict(parameters), list(queries), **rest)


@cli.command()
@MECHANISM[0]
@MECHANISM[1]
@click.option("--teachers", type=click.IntRange(min=1), required=True, help="Audit for votes of so many teachers.")
@click.option("--classes", type=click.IntRange(min=2), default=None, help="Among so many classes.")
@click.option("--samples", type=FILE, default=None, help="Or among as many classes as these samples have.")
@click.option("--queries", type=click.IntRange(min=1), multiple=True, help="Also audit the first T queries together.")
@click.option("--delta", type=float, required=True)
@click.option("--runs", type=click.IntRange(min=1000), default=100_000, show_default=True, help="On each data set.")
@click.option("--confidence", type=float, default=0.999, show_default=True, help="Of each ε found by runs.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Base seed.")
@click.option("--stream", default="audit", show_default=True, help="Name of the random stream.")
@click.option("--out", type=FILE, default=None, help="Write the audit here [default: a table on the terminal].")
@common
def audit(
    parameters: list[tuple[str, float]], classes: int | None, samples: Path | None, out: Path | None, **arguments: Any
) -> None:
    """Look for two adjacent data sets that a mechanism tells apart better than its bounds on ε say.

    One query is always audited.
    """
    from patebench.audit import show, stage

    if (classes is None) == (samples is None):
        raise PatebenchError("give the number of classes, either with --classes or with --samples")
    dataset, number = stage.task(samples) if samples else ("", classes or 0)
    result = stage.audit(parameters=dict(parameters), classes=number, **arguments)
    if out is None:
        _print(show.shown(result))
    else:
        stage.write(result, dataset, out)


@cli.command()
@in_file("--pool")
@threaded
@seeded
@out_file("--out", help="Where the features go.")
@common
def features(**arguments: Any) -> None:
    """Learn features of the pool without a label, by which a student can choose what it asks."""
    from patebench.students.ask import describe

    describe(**arguments)


@cli.command()
@in_file("--pool")
@click.option("--labels", type=FILE, default=None, help="Labels of the rounds before, if any.")
@click.option("--beliefs", type=FILE, default=None, help="What the student made of them.")
@click.option("--features", type=FILE, default=None, help="Features of the pool, for prototypes.")
@click.option("--strategy", required=True, help="random, prototypes, least-confident, binary-experts or siamese.")
@click.option("--method", required=True, help="How the student learns.")
@click.option("--queries", type=click.IntRange(min=1), required=True, help="How many samples to ask for.")
@approaching
@seeded
@out_file("--out", help="Where the queries go.")
@common
def ask(method: str, model: str | None, recipe: str | None, epochs: int | None, **arguments: Any) -> None:
    """Choose which samples of the pool a student asks its teachers for in one round."""
    from patebench.students.ask import ask as run
    from patebench.students.lesson import Approach

    run(approach=Approach(method=method, model=model, recipe=recipe, epochs=epochs), **arguments)


@cli.command()
@in_file("--votes")
@in_file("--asked", help="The queries of this round.")
@click.option("--before", type=FILE, default=None, help="Labels of the rounds before, if any.")
@MECHANISM[0]
@MECHANISM[1]
@seeded
@out_file("--out", help="Where the labels of all rounds so far go.")
@common
def answer(parameters: list[tuple[str, float]], **arguments: Any) -> None:
    """Release labels for the queries of one round."""
    from patebench.mechanisms.rounds import answer as run

    run(parameters=dict(parameters), **arguments)


@cli.command()
@in_file("--votes")
@click.option("--asked", type=FILE, multiple=True, required=True, help="The queries of each round, in order.")
@MECHANISM[0]
@MECHANISM[1]
@click.option("--queries", type=click.IntRange(min=1), required=True, help="How many they are together.")
@click.option("--delta", type=float, required=True)
@out_file("--out", help="Where the bounds go.")
@common
def charge(parameters: list[tuple[str, float]], **arguments: Any) -> None:
    """State every bound on ε of all queries that a student asked, round after round."""
    from patebench.mechanisms.rounds import charge as run

    run(parameters=dict(parameters), **arguments)


@cli.command()
@click.option("--method", required=True, help="How the student learns, e.g. supervised, gan, vat, consistency.")
@in_file("--pool")
@in_file("--labels")
@in_file("--test")
@click.option("--queries", type=click.IntRange(min=1), required=True, help="Learn from the first T queries.")
@click.option("--beliefs", type=FILE, default=None, help="Write what the student thinks of the whole pool here.")
@click.option("--hold-out", type=float, default=0.0, help="Keep this share of the labels back, to compare approaches.")
@approaching
@seeded
@out_file("--out")
@common
def student(method: str, model: str | None, recipe: str | None, epochs: int | None, **arguments: Any) -> None:
    """Train a student on released labels and measure it on the test set.

    An interrupted training goes on from its checkpoint beside OUT when the command is given again.
    """
    from patebench.students.lesson import Approach
    from patebench.students.stage import study

    study(approach=Approach(method=method, model=model, recipe=recipe, epochs=epochs), **arguments)


@cli.command()
@in_file("--votes")
@in_file("--pool")
@in_file("--test")
@click.option(
    "--samples", type=click.IntRange(min=1), multiple=True, required=True, help="Learn from the first so many."
)
@learning
@seeded
@out_file("--out")
@common
def distil(**arguments: Any) -> None:
    """Train networks on plain labels and on the teachers' probabilities, without privacy, and measure them."""
    from patebench.baselines.distillation import distil as run

    run(**arguments)


@cli.command()
@click.option("--private", type=FILE, help="All private samples; or else --pool, --truth and --queries.")
@click.option("--pool", type=FILE, help="The public pool.")
@click.option("--truth", type=FILE, help="True labels of the pool.")
@click.option("--queries", type=click.IntRange(1), help="How many of those to learn from.")
@in_file("--test")
@learning
@seeded
@out_file("--out")
@common
def baseline(**arguments: Any) -> None:
    """Train a model without privacy: on all private data, or on true labels of the pool."""
    from patebench.baselines.non_private import baseline as run

    run(**arguments)


@cli.command()
@in_file("--ensemble", help="What the votes stage says of the ensemble.")
@in_file("--votes")
@in_file("--truth", help="True labels of the pool.")
@click.option("--labels", multiple=True, type=FILE, help="Released labels; repeat for each release.")
@click.option("--bounds", multiple=True, type=FILE, help="Bounds; repeat for each release.")
@click.option("--students", multiple=True, type=FILE, help="Results of students; repeat for each.")
@click.option("--answers", multiple=True, type=FILE, help="Labels after a round; repeat for each round.")
@click.option("--charges", multiple=True, type=FILE, help="Bounds after a round; repeat for each.")
@click.option("--askers", multiple=True, type=FILE, help="Results of students after a round; repeat for each.")
@click.option("--distilled", multiple=True, type=FILE, help="Results of distillation; repeat for each.")
@click.option("--stream", required=True, help="The ensemble's place in results: dataset/split/ensemble.")
@out_file("--out")
@common
def collect(stream: str, **arguments: Any) -> None:
    """Gather everything known of one ensemble into one file of flat records."""
    from patebench.reporting.collect import collect as run
    from patebench.reporting.collect import stream_facts

    run(facts=stream_facts(stream), **arguments)


RECORDS = (
    click.option("--collected", multiple=True, type=FILE, help="Records of an ensemble; repeat for each."),
    click.option("--baselines", multiple=True, type=FILE, help="Results of baselines; repeat for each."),
    click.option("--audits", multiple=True, type=FILE, help="Audits of mechanisms; repeat for each."),
    in_file("--published", help="Values that the papers print (CSV)."),
)


def records(command: Callable[..., Any]) -> Callable[..., Any]:
    """Stages that read records read published values beside them."""
    for option in reversed(RECORDS):
        command = option(command)
    return command


@cli.command()
@click.argument("name")
@records
@out_file("--png")
@out_file("--pdf")
@common
def figure(**arguments: Any) -> None:
    """Draw the figure NAME."""
    from patebench.reporting.figures import draw_figure

    draw_figure(**arguments)


@cli.command()
@click.argument("name")
@records
@out_file("--csv")
@out_file("--markdown")
@out_file("--latex")
@common
def table(**arguments: Any) -> None:
    """Write the table NAME."""
    from patebench.reporting.tables import write_table

    write_table(**arguments)


@cli.command()
@click.option("--config", required=True, help="The configuration, as JSON.")
@click.option("--benchmarks", type=FILE, required=True, help="Folder of Snakemake's benchmark files.")
@out_file("--out")
@common
def manifest(config: str, benchmarks: Path, out: Path) -> None:
    """Write down versions, commit, hardware, configuration, seeds and times."""
    import json

    from patebench.config import validate
    from patebench.reporting.manifest import write_manifest

    try:
        written = json.loads(config)
    except json.JSONDecodeError as fault:
        raise PatebenchError(f"--config is not valid JSON ({fault}); the workflow passes its own") from None
    checked = validate(written)
    write_manifest(written, checked.seeds, benchmarks, checked.jobs(), out, checked.plan().modes())


@cli.command()
@click.option("--figures", multiple=True, type=FILE, help="Figures (PNG), in order of appearance.")
@click.option("--tables", multiple=True, type=FILE, help="Tables (CSV), in order of appearance.")
@in_file("--manifest")
@click.option("--captions", type=FILE, required=True, help="Folder of captions (.rst).")
@out_file("--out")
@common
def report(**arguments: Any) -> None:
    """Write the page that shows everything."""
    from patebench.reporting.report import write_report

    write_report(**arguments)


def answering(command: Callable[..., Any]) -> Callable[..., Any]:
    """Commands that answer a question on the terminal, for one mechanism, in words or as JSON."""
    options = (
        click.option("--mechanism", required=True, help="lnmax, gnmax, …"),
        click.option("--delta", type=float, required=True),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
        common,
    )
    for option in reversed(options):
        command = option(command)
    return command


@cli.command(cls=MechanismCommand)
@click.argument("file", type=FILE)
@click.option("--queries", type=click.IntRange(min=1), default=None, help="Account for the first N [default: all].")
@click.option("--votes", is_flag=True, help="FILE holds votes (teachers × queries), not counts (queries × classes).")
@click.option("--classes", type=click.IntRange(min=2), default=None, help="Number of classes, with --votes.")
@click.option("--sanitise", is_flag=True, help="Also draw sanitised bounds: each draw is a release of its own.")
@answering
def epsilon(file: Path, votes: bool, as_json: bool, **arguments: Any) -> None:
    """State every bound on ε of releasing labels for the votes in FILE (.npy, or votes.npz).

    FILE holds counts (queries × classes) or, with --votes, votes (teachers × queries).
    """
    from patebench.budgets import show
    from patebench.budgets.epsilon import epsilon as run

    result = run(file, labels=votes, **arguments)
    _print(show.as_json(result) if as_json else show.account(result))


@cli.command(cls=MechanismCommand)
@click.option("--epsilon", type=float, required=True, help="The target, kept whatever the votes are.")
@click.option("--queries", type=click.IntRange(min=1), default=None, help="Find the noise for this many queries.")
@click.option("--classes", type=click.IntRange(min=2), default=None, help="Number of classes, where the cost needs it.")
@click.option("--teachers", type=click.IntRange(min=1), default=None, help="Number of teachers, where it needs that.")
@answering
def calibrate(as_json: bool, **arguments: Any) -> None:
    """Find the least noise for a number of queries, or the most queries at a given noise, for a target (ε, δ).

    With --queries, leave out the parameter to find; without, give them all.
    """
    from patebench.budgets import show
    from patebench.budgets.calibrate import solve

    result = solve(**arguments)
    _print(show.as_json(result) if as_json else show.calibration(result))


def _print(words: Any) -> None:
    """Words as they are, tables as wide as the terminal, or wide enough where there is none."""
    if isinstance(words, str):
        click.echo(words)
        return
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 120, highlight=False, markup=False).print(words)


@cli.command("check")
@click.argument("place", type=FILE, default="results")
@common
def check_results(place: Path) -> None:
    """Check every artefact below PLACE: its checksum, and that it belongs to what it was made from.

    One line for each fault, and exit status 1 if there is any. PLACE is a folder or a file [default: results].
    """
    from patebench.reporting.check import check

    found = check(place)
    for line in found.faults:
        click.echo(line)
    if found.leftovers:
        click.echo(f"{len(found.leftovers)} files left by killed jobs, which may be deleted: {found.leftovers[0]}, …")
    click.echo(f"{place}: {found.artefacts} artefacts, {len(found.faults) or 'no'} faults")
    sys.exit(1 if found.faults else 0)


@cli.group()
def config() -> None:
    """Look at configurations."""


@config.command("check")
@click.argument("file", type=FILE)
def check_config(file: Path) -> None:
    """Check the configuration FILE, and say what it makes."""
    from patebench.config import load, validate

    artefacts = validate(load(file)).plan().artefacts()
    made = ", ".join(f"{stage} {len(files)}" for stage, files in artefacts.items())
    click.echo(f"{file}: sound; files by stage: {made}")


def main() -> None:
    """Run the command line; a fault that the user can mend is one line and exit status 2."""
    logging.getLogger("patebench").addHandler(logging.NullHandler())
    try:
        cli()
    except (PatebenchError, OSError, MemoryError) as fault:
        line = " ".join(str(fault).split())
        if isinstance(fault, MemoryError):
            line = f"not enough memory; give the job more ({line or 'none was left'})"
        logging.getLogger("patebench").error(line)
        click.echo(f"patebench: {line}", err=True)
        sys.exit(2)
