# Records of every ensemble, and from them figures, tables, rows for other programs, the manifest and the page.


rule collect:
    input:
        unpack(inputs("collect")),
    output:
        **outputs("collect"),
    log:
        logs("collect"),
    benchmark:
        times("collect")
    wildcard_constraints:
        **PLAN.constraints("collect"),
    group:
        "records"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("collect"),
    shell:
        "patebench {params.command} --log {log:q}"


rule figure:
    input:
        unpack(inputs("figure")),
    output:
        **{
            **outputs("figure"),
            "png": report(
                outputs("figure")["png"],
                caption="../../report/result.rst",
                category="Figures",
                labels={"figure": "{figure}"},
            ),
        },
    log:
        logs("figure"),
    benchmark:
        times("figure")
    wildcard_constraints:
        **PLAN.constraints("figure"),
    group:
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("figure"),
        caption=caption("figures", "figure"),
    shell:
        "patebench {params.command} --log {log:q}"


rule table:
    input:
        unpack(inputs("table")),
    output:
        **{
            **outputs("table"),
            "csv": report(
                outputs("table")["csv"],
                caption="../../report/result.rst",
                category="Tables",
                labels={"table": "{table}"},
            ),
        },
    log:
        logs("table"),
    benchmark:
        times("table")
    wildcard_constraints:
        **PLAN.constraints("table"),
    group:
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("table"),
        caption=caption("tables", "table"),
    shell:
        "patebench {params.command} --log {log:q}"


rule rows:
    input:
        unpack(inputs("rows")),
    output:
        **outputs("rows"),
    log:
        logs("rows"),
    benchmark:
        times("rows")
    group:
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("rows"),
    shell:
        "patebench {params.command} --log {log:q}"


rule manifest:
    input:
        unpack(inputs("manifest")),
    output:
        **outputs("manifest"),
    log:
        logs("manifest"),
    benchmark:
        times("manifest")
    group:
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=10,
    params:
        command=command("manifest"),
    shell:
        "patebench {params.command} --log {log:q}"


rule report:
    input:
        unpack(inputs("report")),
    output:
        **outputs("report"),
    log:
        logs("report"),
    benchmark:
        times("report")
    group:
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(1000),
        runtime=10,
    params:
        command=command("report"),
    shell:
        "patebench {params.command} --log {log:q}"
