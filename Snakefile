# patebench: teacher ensembles from private data to labelled ε, as one DAG.
#
#   data ─► partition ─► train_teachers ═► join_votes ─► aggregate ─► account ─► collect ─► report
#     │                    ▲ (many jobs)   (one job)      ▲  │                      ▲
#     └─► split ─┬─────────┘                              │  └► train_student ──────┘
#                └► extract_features ─► select_queries ───┘
#
# All stages, and the rounds of queries: docs/explanation/design.md.
#
# `snakemake --cores all` runs config/config.yaml; `--configfile config/papers/….yaml` a paper's experiments.

from snakemake.utils import min_version

min_version("9.27")

# The folder of this file, also where workflow/Snakefile includes it.
ROOT = str(workflow.current_basedir)

# Not unconditional: Snakemake would merge this one into a --configfile of the user's.
if "experiments" not in config:

    configfile: f"{ROOT}/config/config.yaml"


report: "report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/teachers.smk"
include: "workflow/rules/labels.smk"
include: "workflow/rules/secure.smk"
include: "workflow/rules/students.smk"
include: "workflow/rules/baselines.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        rules.report.output,
        rules.manifest.output,


# Global constraints come after the rules: they reach only wildcards that are there by then.
wildcard_constraints:
    dataset=r"[^/]+",
    split=r"seed-[^/]+",
    ensemble=r"teachers-[^/]+",
    mechanism=r"[^/]+",
    noise=r"[^/]+",
    student=r"[^/]+",
    rounds=r"round-\d+_[^/]+(/round-\d+_[^/]+)*",
    chunk=r"\d+-\d+",
    aggregator=r"\d+",
    selection=r"[^/]+",
    training=r"[^/]+",
    petdl=r"[^/]+",
    dpsgd=r"[^/]+",
    private_knn=r"[^/]+",
    teachers=r"teachers-\d+",
