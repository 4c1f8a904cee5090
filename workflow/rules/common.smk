# The checked configuration, the plan that it makes, and the words that all rules use.

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from patebench.config import load, validate
from patebench.core.errors import PatebenchError
from patebench.core.locks import clear_stale_locks
from patebench.plan import shell as words


envvars:
    "PATH",


# The commands of this environment come first, also where it was not activated.
os.environ.update(PATH=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()]))

# Where envs/patebench.yaml finds the package and its pins.
os.environ.update(PATEBENCH_HOME=str(workflow.basedir))

# After a SIGKILL or a power cut the next run just continues.
clear_stale_locks(Path(".snakemake"))

try:
    for file in workflow.configfiles:
        load(file)  # Snakemake's own reader lets a key that is given twice pass
    CONFIG = validate(config)
except PatebenchError as fault:
    raise WorkflowError(str(fault)) from None

PLAN = CONFIG.plan()


def memory(mb):
    """Memory of a job; where a profile retries failed jobs, each attempt asks for as much again."""
    return lambda wildcards, attempt: mb * attempt


def once(path):
    """A release is made once, as drawing it anew spends as much privacy again: it is protected, and never removed."""
    return protected(update(path)) if CONFIG.mode == "release" else path


pathvars:
    results=CONFIG.results,
    page=CONFIG.pages,
    run=CONFIG.run,
    logs=f"{CONFIG.results}/logs",
    benchmarks=f"{CONFIG.results}/benchmarks",


wildcard_constraints:
    **PLAN.wildcard_constraints(),
