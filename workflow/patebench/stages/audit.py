"""Stage `audit`: audit one mechanism with one setting of its noise, one number of teachers and one of classes."""

import json
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click

from patebench.artefacts.votes_file import read_source, report_sizes
from patebench.audit import audit_text
from patebench.audit.runs import AuditSetting
from patebench.audit.verdict import run_audit
from patebench.cli.command import CLASSES, COUNT, SEED, Json, OutputFile, mechanism, show_on_terminal, stage_command
from patebench.cli.mechanism_options import MechanismCommand
from patebench.config.parameters import AuditParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import read_facts, write_json
from patebench.core.formats import SAMPLES
from patebench.core.seeds import Mode, generator
from patebench.mechanisms.base import make_mechanism
from patebench.release.conditions import check_size_of_delta

#: Option to audit a configuration instead of a mechanism.
ADJACENCY = "--adjacency"


def run(
    *,
    mechanism: str,
    parameters: Mapping[str, float],
    teachers: Annotated[int | None, "Number of teachers; checked against --votes if given.", COUNT],
    classes: Annotated[int | None, "Number of classes.", CLASSES],
    votes: Annotated[Path | None, "File of votes from which to read the numbers of teachers and classes."],
    samples: Annotated[Path | None, "File of samples from which to read the number of classes."],
    queries: Annotated[Sequence[int], "Number of queries to audit together; repeat for several numbers.", COUNT] = (),
    delta: Annotated[float, "δ of every ε."],
    settings: AuditParameters,
    seed: Annotated[int, "Base seed.", SEED] = 0,
    stream: Annotated[str, "Name of the random stream."] = "audit",
    out: Annotated[OutputFile | None, "Output file [default: print a table]."],
    as_json: Json = False,
) -> None:
    """Compute lower bounds on the ε of a mechanism from neighbouring votes, and compare them with the stated ε.

    A single query is always audited. For each number given as --queries, this many queries together are audited too.
    Noise depends only on --seed and --stream. Without --out, the exit status is 1 if a lower bound exceeds a stated ε.
    """
    facts: dict[str, Any] = {"dataset": ""}
    if votes is not None:
        source, table = read_source(votes, classes is not None, classes, teachers)
        report_sizes(source, table)
        teachers, classes, facts = table.teachers, table.classes, {"dataset": source.meta.get("dataset", "")}
    if teachers is None:
        raise PatebenchError("the number of teachers is missing; give --teachers or --votes")
    if classes is None and samples is None:
        raise PatebenchError("the number of classes is missing; give one of --votes, --classes and --samples")
    if classes is not None and samples is not None:
        given = "--classes" if votes is None else "--votes"
        raise PatebenchError(f"the number of classes is given by both {given} and --samples; leave one of them out")
    checked = make_mechanism(mechanism, parameters)
    check_size_of_delta(Mode.SEEDED, teachers, delta)
    facts = read_facts(samples, SAMPLES) if samples else {**facts, "classes": classes}
    streams = partial(generator, seed, stream)
    size = teachers, int(facts["classes"])
    audited = run_audit(
        AuditSetting(mechanism, checked, *size, delta, settings.runs, settings.confidence, streams), queries
    )
    if out is not None:
        write_json(out, "audit", {"dataset": str(facts["dataset"]), **audited.to_json()})
        return
    if as_json:
        click.echo(json.dumps(audited.to_json(), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        show_on_terminal(audit_text.render(audited))
    sys.exit(1 if audited.violated else 0)


class _Command(MechanismCommand):
    """Command that audits a mechanism or, with --adjacency, the stages of a configuration."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if any(word.partition("=")[0] == ADJACENCY for word in args):
            from patebench.stages.adjacency import command as adjacency

            return adjacency.make_context(info_name, args, parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


command = stage_command(
    run,
    *mechanism,
    click.Option(
        [ADJACENCY], metavar="CONFIG", expose_value=False,
        help="Audit a configuration instead, by rerunning its stages on changed private data; see --adjacency CONFIG"
        " --help.",
    ),
    cls=_Command,
)  # fmt: skip
