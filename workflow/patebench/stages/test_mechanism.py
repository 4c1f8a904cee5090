"""Command `test-mechanism`: test whether a mechanism, such as your own, satisfies its interface."""

import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Annotated

import click

from patebench.audit.conformance import Conformance
from patebench.cli.command import CLASSES, SEED, Json, parameter_values, stage_command
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
    teachers: Annotated[int, "Number of teachers.", click.IntRange(min=2)] = 20,
    classes: Annotated[int, "Number of classes.", CLASSES] = 3,
    delta: Annotated[float, "δ of every ε."] = 1e-5,
    settings: AuditParameters,
    seed: Annotated[int, "Base seed.", SEED] = 0,
    as_json: Json,
) -> None:
    """Test whether the mechanism NAME satisfies its interface.

    Labels and probabilities are checked on several tables of votes. Frequencies of released labels are compared with
    the stated probabilities. A measured lower bound on ε is compared with the stated ε. For parameters that are left
    out, the values in the mechanism's `example` are used. The exit status is 1 if the mechanism breaks a promise, which
    is a requirement of the interface.
    """
    check_size_of_delta(Mode.SEEDED, teachers, delta)
    mechanism = make_mechanism(name, {**MECHANISMS.load(name).example, **parameters})
    streams = partial(generator, seed, "test-mechanism")
    conformance = Conformance(name, mechanism, teachers, classes, delta, settings.runs, settings.confidence, streams)
    checks = []
    for check in conformance.checks():
        checks.append(check)
        if not as_json:
            click.echo(f"{_WORDS[check.kept]:7} {check.what}: {check.seen}")
    broken = sum(check.kept is False for check in checks)
    if as_json:
        rows = [{"what": check.what, "kept": check.kept, "seen": check.seen} for check in checks]
        facts = {"mechanism": name, "noise": mechanism.slug, "checks": rows}
        click.echo(json.dumps(facts, indent=1, ensure_ascii=False))
    else:
        click.echo(f"{name} {mechanism.slug}: {plural(len(checks), 'promise')}, {broken or 'none'} broken")
    sys.exit(1 if broken else 0)


command = stage_command(run, click.Argument(["name"]), parameter_values, cls=MechanismCommand)
