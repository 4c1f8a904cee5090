# The checked configuration, the plan that it makes, and the words that all rules use.
#
# What a stage reads and makes is declared once, in workflow/patebench/plan/jobs.py: a rule asks for it by the stage's name.

import os
import subprocess
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from patebench.config import load, validate
from patebench.core.errors import PatebenchError
from patebench.core.locks import record_run
from patebench.plan.words import check_handed_on
from patebench.plan.words import shell as quoted
from patebench.plan.words import words
from patebench.stages.manifest import shown_no_more


envvars:
    "PATH",


# The commands of this environment come first, also where it was not activated.
os.environ.update(PATH=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()]))

# Where envs/patebench.yaml finds the package and its pins.
os.environ.update(PATEBENCH_HOME=ROOT)


def unlock():
    """Remove Snakemake's locks of this folder, as a user would; no Snakefile has to be read for that."""
    words = ["--unlock", "--snakefile", os.devnull, "--profile=none", "--workflow-profile=none"]
    command = [sys.executable, "-m", "snakemake", *words, "--shared-fs-usage=none"]
    subprocess.run(command, capture_output=True, check=False)


# After a SIGKILL or a power cut the next run on the same host just continues. Jobs take no locks.
if workflow.is_main_process:
    try:
        for line in record_run(Path(".snakemake", "patebench"), unlock, forget="--unlock" in sys.argv):
            print(f"patebench: {line}", file=sys.stderr)
    except PatebenchError as fault:
        raise WorkflowError(str(fault)) from None

# What papers print and captions lie beside the Snakefile, wherever the run's own folder is.
HOME = os.path.relpath(ROOT)

try:
    check_handed_on([str(workflow.main_snakefile), *map(str, workflow.configfiles)])
    check_handed_on(str(value) for value in workflow.config_settings.config.values() if isinstance(value, str))
    for file in workflow.configfiles:
        load(file)  # Snakemake's own reader lets a key that is given twice pass
    CONFIG = validate(config)
    PLAN = CONFIG.plan(HOME)
except PatebenchError as fault:
    raise WorkflowError(str(fault)) from None


# The only one: of several Snakemake runs the last alone.
onstart:
    # Its limit on jobs in a second wakes Snakemake's scheduler every second, once more for every job that is done: after
    # 300 jobs that takes a third of a core from those that run. Jobs here are few and long, and need no such limit.
    workflow.scheduler.job_rate_limiter = None
    for line in CONFIG.warnings:
        print(f"warning: {line}", file=sys.stderr)
    if dropped := shown_no_more(Path(CONFIG.pages), CONFIG.experiments):
        print(dropped, file=sys.stderr)


# What all releases may cost together. Not a parameter of a rule, as labels are the same whatever others may cost.
os.environ.update(CONFIG.ledger_environment())


def inputs(stage):
    """All that a job reads or waits for."""
    return lambda wildcards: PLAN.inputs(PLAN.find(stage, wildcards))


def outputs(stage):
    """The patterns of what a stage makes."""
    return PLAN.outputs(stage)


def logs(stage):
    return PLAN.place(stage, "logs", "log", CONFIG.run)


def times(stage):
    return PLAN.place(stage, "benchmarks", "tsv", CONFIG.run)


def command(stage):
    """The command of a job, but for its log and its threads."""
    return lambda wildcards: PLAN.shell(PLAN.find(stage, wildcards))


def memory(mb):
    """Memory of a job; where a profile retries failed jobs, each attempt asks for as much again."""
    return lambda wildcards, attempt: mb * attempt


def once(files):
    """A release is made once, as drawing it anew spends as much privacy again: it is protected, and never removed."""
    if CONFIG.mode != "release":
        return files
    return {name: protected(update(path)) for name, path in files.items()}


def numbers(stage):
    """The group of jobs that only count; those of a round wait for students, so they stand alone."""
    return lambda wildcards: None if PLAN.find(stage, wildcards).rounds else "numbers"


def shown(files):
    """Figures or tables as Snakemake's own report shows them, each with its caption, if it has a file."""
    found = []
    for file in map(Path, files):
        kind, caption = file.parent.name, file.with_suffix(".rst").name
        words = {"category": kind.capitalize(), "labels": {"name": file.stem}}
        if Path(ROOT, "report", kind, caption).is_file():
            words["caption"] = f"../../report/{kind}/{caption}"
        found.append(report(str(file), **words))
    return found
