"""The command `test-mechanism`: whether a mechanism, mostly one of a user's own, keeps what its interface promises."""

import json
import sys
from collections.abc import Mapping
from functools import partial

import click

from patebench.audit.conformance import Check, Conformance
from patebench.cli.command import parameter_options, parameter_values, stage_command
from patebench.cli.mechanism_options import MechanismCommand
from patebench.config.parameters import AuditParameters
from patebench.core.seeds import Mode, generator
from patebench.core.text import plural
from patebench.mechanisms import MECHANISMS
from patebench.mechanisms.base import make_mechanism
from patebench.release.conditions import check_size_of_delta

_WORDS = {True: "kept", False: "BROKEN", None: "—"}


def run(
    *,
    name: str,
    parameters: Mapping[str, float],
    teachers: int,
    classes: int,
    delta: float,
    settings: AuditParameters,
    seed: int,
    as_json: bool,
) -> None:
    """Test whether the mechanism NAME keeps what its interface promises.

    Labels and probabilities are looked at on votes of several sorts, what is drawn is compared with the probabilities,
    and what is lost with the bounds. Its parameters are those of its `example`, unless others are given. Exit status 1
    if a promise is broken.
    """
    check_size_of_delta(Mode.SEEDED, teachers, delta)
    made = make_mechanism(name, {**MECHANISMS.load(name).example, **parameters})
    streams = partial(generator, seed, "test-mechanism")
    asked = Conformance(name, made, teachers, classes, delta, settings.runs, settings.confidence, streams)
    checks = []
    for check in asked.checks():
        checks.append(check)
        if not as_json:
            click.echo(_line(check))
    broken = sum(check.kept is False for check in checks)
    if as_json:
        told = [{"what": each.what, "kept": each.kept, "seen": each.seen} for each in checks]
        click.echo(json.dumps({"mechanism": name, "noise": made.slug, "checks": told}, indent=1, ensure_ascii=False))
    else:
        click.echo(f"{name} {made.slug}: {plural(len(checks), 'promise')}, {broken or 'none'} broken")
    sys.exit(1 if broken else 0)


def _line(check: Check) -> str:
    return f"{_WORDS[check.kept]:7} {check.what}: {check.seen}"


command = stage_command(
    run,
    click.argument("name"),
    parameter_values,
    click.option("--teachers", type=click.IntRange(min=2), default=20, show_default=True, help="Of so many teachers."),
    click.option("--classes", type=click.IntRange(min=2), default=3, show_default=True, help="Among so many classes."),
    click.option("--delta", type=float, default=1e-5, show_default=True, help="δ of every ε."),
    parameter_options(AuditParameters, "settings"),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Base seed."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    cls=MechanismCommand,
)
