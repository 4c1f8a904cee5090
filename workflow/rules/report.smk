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
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("collect"),
    shell:
        "patebench {params.command} --log {log:q}"


rule figures:
    input:
        unpack(inputs("figures")),
    output:
        **{**outputs("figures"), "png": shown(outputs("figures")["png"])},
    log:
        logs("figures"),
    benchmark:
        times("figures")
    group:
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("figures"),
    shell:
        "patebench {params.command} --log {log:q}"


rule tables:
    input:
        unpack(inputs("tables")),
    output:
        **{**outputs("tables"), "csv": shown(outputs("tables")["csv"])},
    log:
        logs("tables"),
    benchmark:
        times("tables")
    group:
        "pages"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("tables"),
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
