# Check the configuration, and define the folders of all artefacts and the functions that rules use.

import json
import os
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from patebench.config import load, validate
from patebench.core.spelling import check_passed_on, shell_words
from patebench.core.errors import PatebenchError, separate


envvars:
    "PATH",


# Put the commands of this environment first, even if it is not activated.
os.environ.update(PATH=os.pathsep.join([os.path.dirname(sys.executable), *os.get_exec_path()]))

# Used by envs/patebench.yaml to find the package and its pinned requirements.
os.environ.update(PATEBENCH_HOME=ROOT)


# Published values and captions are in the folder of the Snakefile, not in that of the run.
PUBLISHED, CAPTIONS = (os.path.relpath(f"{ROOT}/{path}") for path in ("config/published.csv", "report"))

# RUN is the expanded configuration: targets, and facts on each job by its folder. Its attributes are described in
# workflow/patebench/config/run.py.
try:
    check_passed_on([str(workflow.main_snakefile), *map(str, workflow.configfiles)])
    check_passed_on(str(value) for value in workflow.config_settings.config.values() if isinstance(value, str))
    for file in workflow.configfiles:
        load(file)  # refuses duplicate keys, which Snakemake accepts
    RUN = validate(config, files=workflow.is_main_process)
except PatebenchError as fault:
    raise WorkflowError("\n".join(map(str, separate(fault)))) from None

# The total budget of all releases. It is not a parameter of a rule, because it does not change any labels.
os.environ.update(RUN.ledger_environment())

# Folders below the results, with one wildcard per component. Example, the labels of the second round of queries:
#
#   digits/seed-0_pool-400/teachers-50_iid_mlp/gnmax/sigma-5/supervised_mlp/round-0_random-100/round-1_random-100/labels.npz
#   {dataset}/{split}/{ensemble}/{mechanism}/{noise}/{student}/{rounds}/labels.npz
#
# A pathvar is the whole folder: <split> is {dataset}/{split}, and <round> ends with {rounds}. The wildcard constraints
# are at the end of the Snakefile.
DATA = "{dataset}"
SPLIT = f"{DATA}/{{split}}"
ENSEMBLE = f"{SPLIT}/{{ensemble}}"
LABELS = f"{ENSEMBLE}/{{mechanism}}/{{noise}}"
STUDENT = f"{LABELS}/{{student}}"
ROUND = f"{STUDENT}/{{rounds}}"
SELECTION = f"{SPLIT}/queries/{{selection}}"
DISTILLATION = f"{ENSEMBLE}/distillation/{{training}}"
PETDL = f"{ENSEMBLE}/petdl/{{petdl}}"
BASELINE = f"{SPLIT}/baseline/{{training}}"
DPSGD = f"{SPLIT}/dpsgd/{{dpsgd}}"
PRIVATE_KNN = f"{SPLIT}/private-knn/{{private_knn}}"
ON_FEATURES = f"{SPLIT}/on-features/{{on_features}}"
AUDIT = f"{DATA}/audit/{{teachers}}/{{mechanism}}/{{noise}}"

# Votes come from `import_votes` if the ensemble is imported, else from `join_votes`.
IMPORTED = r"teachers-\d+_imported_[^/]+"

# Labels come from `secure_open` if the noise setting ends with the number of aggregators, else from `aggregate`.
SECURE_NOISE = r"[^/]+_secure-\d+"
PLAIN_NOISE = rf"(?!{SECURE_NOISE}/)[^/]+"


pathvars:
    results=RUN.results,
    pages=RUN.pages,
    logs=f"{RUN.results}/logs",
    benchmarks=f"{RUN.results}/benchmarks",
    run=RUN.label,
    data=DATA,
    split=SPLIT,
    ensemble=ENSEMBLE,
    labels=LABELS,
    student=STUDENT,
    round=ROUND,
    selection=SELECTION,
    distillation=DISTILLATION,
    petdl=PETDL,
    baseline=BASELINE,
    dpsgd=DPSGD,
    private_knn=PRIVATE_KNN,
    on_features=ON_FEATURES,
    audit=AUDIT,


onstart:
    for line in RUN.warnings:
        print(f"warning: {line}", file=sys.stderr)


# Write the errors in the logs of failed jobs to a file; `make` shows them last.
onerror:
    printed = "".join(Path(each).read_text(encoding="utf-8") for each in ([log] if isinstance(log, str) else log))
    logs = map(Path, re.findall(r"^ *log: (.+) \(check log file", printed, re.MULTILINE))
    faults = [each.read_text(encoding="utf-8").rpartition(" ERROR ")[2] for each in logs if each.is_file()]
    Path(".snakemake", "failed.txt").write_text(
        "".join(f"patebench: {fault}" for fault in faults), encoding="utf-8"
    )


def options(file):
    """Return a function that writes the command-line options of the job whose first output is `file`.

    `file` is a path below the results, with wildcards. Example: --mechanism gnmax --sigma 5 --seed 0 … for
    f"{LABELS}/labels.npz" and the wildcards of …/gnmax/sigma-5/labels.npz. `snakemake -np FILE` shows the options of
    FILE. The function reads only wildcards, because Snakemake reruns a job after a change of a parameter only if that
    does not depend on inputs or outputs.
    """
    return lambda wildcards: RUN.command_options(file.format(**wildcards))


def each(*names):
    """Return a function that writes one option per file of the named inputs, such as --chunk a --chunk b.

    Names that are not inputs of the rule are skipped.
    """

    def write(wildcards, input):
        named = {name: input.get(name, []) for name in names}
        return shell_words({name: [files] if isinstance(files, str) else files for name, files in named.items()})

    return write


def known(table, folder):
    """Return a function that looks up a job's folder in `table`, and returns an empty list if it is missing.

    Example: RUN.chunks is {"digits/seed-0_pool-400/teachers-50_iid_mlp": ["0-24", "25-49"], …}.
    """
    return lambda wildcards: table.get(folder.format(**wildcards), [])


def used(users, user, file, otherwise=()):
    """Return the input `file` if `user`, the file or folder of a job, is among `users`, else `otherwise`.

    Example: RUN.uses_encoder is {"digits/seed-0_pool-400/dpsgd/linear_epsilon-2_delta-1e-05/dpsgd.json", …}.
    """
    return branch(lambda wildcards: user.format(**wildcards) in users, then=file, otherwise=otherwise)


def gathered(kind, folder):
    """Return the folders below an ensemble that `collect` reads, of `kind` "labels", "students" or "distilled".

    Example for "labels": "gnmax/sigma-5" and "gnmax/sigma-5/supervised_mlp/round-0_random-100". Rounds with their own
    votes are not included; `collect_in_round` reads them.
    """
    return lambda wildcards: list(RUN.gathered[folder.format(**wildcards)].get(kind, ()))


def rounds_so_far(wildcards):
    """Return all rounds up to the job's round, such as ["r1", "r1/r2"] for a job of "r1/r2"."""
    parts = wildcards.rounds.split("/")
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def round_before(wildcards):
    """Return a list of the previous round, such as ["r1"] for a job of "r1/r2" and [] for a job of "r1"."""
    return rounds_so_far(wildcards)[-2:-1]


def memory(mb):
    """Return a function that computes a job's memory in MB: `mb` times the number of the attempt."""
    return lambda wildcards, attempt: mb * attempt


def once(file):
    """Return the output `file`, protected in release mode from a second draw, which would cost its ε again.

    With `update`, a failed job does not remove the file. With `protected`, no later job overwrites the file.
    """
    return protected(update(file)) if RUN.mode == "release" else file


#: Automatic retries of a job that draws labels: none in release mode, since a retry may spend ε again; otherwise, as the
#: command line or the profile states. Snakemake retries a group of jobs as often as any of its jobs, so rules that a
#: profile might group with draws have the same number.
DRAW_RETRIES = 0 if RUN.mode == "release" else None


def shown(kind, names):
    """Return the files of figures or tables for Snakemake's report, with captions from report/<kind>/<name>.rst."""
    files = []
    for name in names:
        words = {"category": kind.capitalize(), "labels": {"name": name}}
        if Path(ROOT, "report", kind, f"{name}.rst").is_file():
            words["caption"] = f"../../report/{kind}/{name}.rst"
        files.append(report(f"<pages>/{kind}/{name}.{'png' if kind == 'figures' else 'csv'}", **words))
    return files
