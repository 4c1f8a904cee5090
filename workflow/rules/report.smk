# Collect the records of every ensemble, and write the manifest, figures, tables, rows and the report page.

from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES

# Only figures and tables for which this run has content.
SHOWN_FIGURES, SHOWN_TABLES = RUN.with_content(FIGURES), RUN.with_content(TABLES)
# Inputs of the publishable page; empty without a release.
RELEASED = RUN.released()


rule collect:
    input:
        ensemble="<results>/<ensemble>/ensemble.json",
        votes="<results>/<ensemble>/votes.npz",
        truth=used(RUN.without_pool, ENSEMBLE, [], otherwise="<results>/<split>/truth.npz"),
        labels=expand("<results>/<ensemble>/{below}/labels.npz", below=gathered("labels", ENSEMBLE)),
        bounds=expand("<results>/<ensemble>/{below}/bounds.json", below=gathered("labels", ENSEMBLE)),
        students=expand("<results>/<ensemble>/{below}/student.json", below=gathered("students", ENSEMBLE)),
        distilled=expand("<results>/<ensemble>/{below}/distillation.json", below=gathered("distilled", ENSEMBLE)),
    output:
        "<results>/<ensemble>/collected.json",
    log:
        "<logs>/collect/<ensemble>.log",
    benchmark:
        "<benchmarks>/collect/<ensemble>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        records=each("truth", "labels", "bounds", "students", "distilled"),
    shell:
        "patebench collect --ensemble {input.ensemble:q} --votes {input.votes:q}"
        " {params.records} --out {output:q} --log {log:q}"


use rule collect as collect_in_round with:
    input:
        ensemble="<results>/<round>/ensemble.json",
        votes="<results>/<round>/votes.npz",
        truth="<results>/<split>/truth.npz",
        labels="<results>/<round>/labels.npz",
        bounds="<results>/<round>/bounds.json",
        students="<results>/<round>/student.json",
    output:
        "<results>/<round>/collected.json",
    log:
        "<logs>/collect/<round>.log",
    benchmark:
        "<benchmarks>/collect/<round>.tsv"


rule manifest:
    input:
        **RUN.record_files(),
    output:
        "<pages>/manifest.json",
    log:
        "<logs>/manifest/<run>.log",
    benchmark:
        "<benchmarks>/manifest/<run>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=10,
    params:
        config=json.dumps(config, sort_keys=True, default=str),
        benchmarks=f"{RUN.results}/benchmarks",
    shell:
        "patebench manifest --config {params.config:q} --benchmarks {params.benchmarks:q} --out {output:q} --log {log:q}"


# The manifest lists the records, so that the command stays short. A release has a second page, made only from released
# labels and public files.
rule report:
    input:
        **RUN.record_files(),
        **RELEASED,
        manifest="<pages>/manifest.json",
        published=PUBLISHED,
    output:
        **({"publishable": "<pages>/publishable.html"} if RELEASED else {}),
        rows="<pages>/rows.json",
        png=shown("figures", SHOWN_FIGURES),
        pdf=[f"<pages>/figures/{name}.pdf" for name in SHOWN_FIGURES],
        csv=shown("tables", SHOWN_TABLES),
        markdown=[f"<pages>/tables/{name}.md" for name in SHOWN_TABLES],
        latex=[f"<pages>/tables/{name}.tex" for name in SHOWN_TABLES],
        out="<pages>/report.html",
    log:
        "<logs>/report/<run>.log",
    benchmark:
        "<benchmarks>/report/<run>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=20,
    params:
        captions=CAPTIONS,
    shell:
        "patebench report --manifest {input.manifest:q} --published {input.published:q}"
        " --captions {params.captions:q} --out {output.out:q} --log {log:q}"
