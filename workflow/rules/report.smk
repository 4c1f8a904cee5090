# Records of every ensemble, and from them figures, tables, rows for other programs, the manifest and the page.

from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES

#: What figures, tables and rows are made of: records, and the values that papers print.
RECORDS = {kind: RUN.paths(kind) for kind in ("collected", "baselines", "audits", "models")}

#: The files of the page to publish, by option; none without a release.
RELEASED = RUN.released()


rule collect:
    input:
        ensemble="<results>/<ensemble>/ensemble.json",
        votes="<results>/<ensemble>/votes.npz",
        truth="<results>/<split>/truth.npz",
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
        records=each("labels", "bounds", "students", "distilled"),
    shell:
        "patebench collect --ensemble {input.ensemble:q} --votes {input.votes:q} --truth {input.truth:q}"
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
    params:
        records=each("labels", "bounds", "students"),


rule figures:
    input:
        **RECORDS,
        published=PUBLISHED,
    output:
        png=shown("figures", FIGURES),
        pdf=[f"<pages>/figures/{name}.pdf" for name in FIGURES],
    log:
        "<logs>/figures/<run>.log",
    benchmark:
        "<benchmarks>/figures/<run>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        records=each("collected", "baselines", "audits", "models"),
        copies=copies,
        out=each_output("png", "pdf"),
    shell:
        "patebench figures {params.records} --published {input.published:q} {params.copies} {params.out} --log {log:q}"


rule tables:
    input:
        **RECORDS,
        published=PUBLISHED,
    output:
        csv=shown("tables", TABLES),
        markdown=[f"<pages>/tables/{name}.md" for name in TABLES],
        latex=[f"<pages>/tables/{name}.tex" for name in TABLES],
    log:
        "<logs>/tables/<run>.log",
    benchmark:
        "<benchmarks>/tables/<run>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        records=each("collected", "baselines", "audits", "models"),
        copies=copies,
        out=each_output("csv", "markdown", "latex"),
    shell:
        "patebench tables {params.records} --published {input.published:q} {params.copies} {params.out} --log {log:q}"


rule rows:
    input:
        **RECORDS,
        published=PUBLISHED,
    output:
        "<pages>/rows.json",
    log:
        "<logs>/rows/<run>.log",
    benchmark:
        "<benchmarks>/rows/<run>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        records=each("collected", "baselines", "audits", "models"),
        copies=copies,
    shell:
        "patebench rows {params.records} --published {input.published:q} {params.copies} --out {output:q} --log {log:q}"


rule manifest:
    input:
        figures=rules.figures.output.png,
        tables=rules.tables.output.csv,
        rows="<pages>/rows.json",
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
        config=json.dumps(RUN.written, sort_keys=True),
        benchmarks=f"{RUN.results}/benchmarks",
    shell:
        "patebench manifest --config {params.config:q} --benchmarks {params.benchmarks:q} --out {output:q} --log {log:q}"


# Of releases a second page shows only what may be published. It is made of released labels and public files alone.
rule report:
    input:
        **RELEASED,
        figures=rules.figures.output.png,
        tables=rules.tables.output.csv,
        manifest="<pages>/manifest.json",
    output:
        **({"publishable": "<pages>/publishable.html"} if RELEASED else {}),
        out="<pages>/report.html",
    log:
        "<logs>/report/<run>.log",
    benchmark:
        "<benchmarks>/report/<run>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=10,
    params:
        shown=each("figures", "tables"),
        released=each("labels", "bounds", "students", "pools"),
        publishable=each_output("publishable"),
        captions=CAPTIONS,
        citation=CITATION,
    shell:
        "patebench report {params.shown} --manifest {input.manifest:q} --captions {params.captions:q}"
        " --citation {params.citation:q} {params.released} {params.publishable} --out {output.out:q} --log {log:q}"
