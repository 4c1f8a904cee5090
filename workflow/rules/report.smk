# Records of every ensemble, and from them figures, tables, the manifest and the page.

import json

from patebench.reporting.figures import FIGURES
from patebench.reporting.tables import TABLES

PUBLISHED = "config/published.csv"


rule collect:
    input:
        unpack(PLAN.collect_inputs),
        ensemble="<results>/{dataset}/{split}/{ensemble}/ensemble.json",
        votes="<results>/{dataset}/{split}/{ensemble}/votes.npz",
        truth="<results>/{dataset}/{split}/truth.npz",
    output:
        "<results>/{dataset}/{split}/{ensemble}/collected.json",
    log:
        "<logs>/collect/{dataset}/{split}/{ensemble}.log",
    benchmark:
        "<benchmarks>/collect/{dataset}/{split}/{ensemble}.tsv"
    group:
        "records"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        releases=lambda wildcards, input: words({name: input.get(name, []) for name in PLAN.COLLECTED}),
        stream="{dataset}/{split}/{ensemble}",
    shell:
        "patebench collect --ensemble {input.ensemble} --votes {input.votes} --truth {input.truth}"
        " {params.releases} --stream {params.stream} --out {output} --log {log}"


for name in FIGURES:

    rule:
        name:
            f"figure_{name.replace('-', '_')}"
        input:
            collected=PLAN.collected(),
            baselines=PLAN.baseline_files(),
            audits=PLAN.audit_files(),
            published=PUBLISHED,
        output:
            png=report(
                f"<page>/figures/{name}.png",
                caption=f"../../report/figures/{name}.rst",
                category="Figures",
                labels={"figure": name},
            ),
            pdf=f"<page>/figures/{name}.pdf",
        log:
            f"<logs>/figure/<run>/{name}.log",
        benchmark:
            f"<benchmarks>/figure/<run>/{name}.tsv"
        group:
            "pages"
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=10,
        params:
            figure=name,
            records=lambda wildcards, input: words(
                {name: input.get(name, []) for name in ("collected", "baselines", "audits")}
            ),
        shell:
            "patebench figure {params.figure} {params.records} --published {input.published}"
            " --png {output.png} --pdf {output.pdf} --log {log}"


for name in TABLES:

    rule:
        name:
            f"table_{name.replace('-', '_')}"
        input:
            collected=PLAN.collected(),
            baselines=PLAN.baseline_files(),
            audits=PLAN.audit_files(),
            published=PUBLISHED,
        output:
            csv=report(
                f"<page>/tables/{name}.csv",
                caption=f"../../report/tables/{name}.rst",
                category="Tables",
                labels={"table": name},
            ),
            markdown=f"<page>/tables/{name}.md",
            latex=f"<page>/tables/{name}.tex",
        log:
            f"<logs>/table/<run>/{name}.log",
        benchmark:
            f"<benchmarks>/table/<run>/{name}.tsv"
        group:
            "pages"
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=10,
        params:
            table=name,
            records=lambda wildcards, input: words(
                {name: input.get(name, []) for name in ("collected", "baselines", "audits")}
            ),
        shell:
            "patebench table {params.table} {params.records} --published {input.published}"
            " --csv {output.csv} --markdown {output.markdown} --latex {output.latex} --log {log}"


rule manifest:
    input:
        figures=expand("<page>/figures/{figure}.png", figure=FIGURES),
        tables=expand("<page>/tables/{table}.csv", table=TABLES),
    output:
        "<page>/manifest.json",
    log:
        "<logs>/manifest/<run>.log",
    benchmark:
        "<benchmarks>/manifest/<run>.tsv"
    group:
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=10,
    params:
        config=json.dumps(config, sort_keys=True),
        benchmarks=f"{CONFIG.results}/benchmarks",
    shell:
        "patebench manifest --config {params.config:q} --benchmarks {params.benchmarks} --out {output} --log {log}"


rule report:
    input:
        figures=expand("<page>/figures/{figure}.png", figure=FIGURES),
        tables=expand("<page>/tables/{table}.csv", table=TABLES),
        manifest="<page>/manifest.json",
        captions=[
            *expand("report/figures/{figure}.rst", figure=FIGURES),
            *expand("report/tables/{table}.rst", table=TABLES),
        ],
    output:
        "<page>/report.html",
    log:
        "<logs>/report/<run>.log",
    benchmark:
        "<benchmarks>/report/<run>.tsv"
    group:
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=10,
    params:
        pages=lambda wildcards, input: words({"figures": input.figures, "tables": input.tables}),
    shell:
        "patebench report {params.pages} --manifest {input.manifest} --captions report" " --out {output} --log {log}"
