# patebench: private learning with teacher ensembles, from private data to ε and accuracy, as one DAG.
#
#   data ─► partition ─► train_teachers ═► join_votes ─► aggregate ─► account ─► collect ─► report
#     │                    ▲ (many jobs)   (one job)      ▲  │                      ▲
#     └─► split ─┬─────────┘                              │  └► train_student ──────┘
#                └► extract_features ─► select_queries ───┘
#
# docs/explanation/design.md describes all stages and the rounds of queries.
#
# `snakemake --cores all` runs config/config.yaml; with `--configfile config/papers/….yaml`, the experiments of a paper.

from snakemake.utils import min_version

min_version("9.27")

# The folder of this file, also if workflow/Snakefile includes it.
ROOT = str(workflow.current_basedir)

# Conditional, because Snakemake would merge this configuration into the user's --configfile.
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


# Global constraints come after the rules, because they apply only to wildcards that are already defined.
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
    on_features=r"[^/]+",
    teachers=r"teachers-\d+",
