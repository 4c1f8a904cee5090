# Labels of a set of queries, the whole pool or what rounds selected, and what each set costs.


rule extract_features:
    input:
        unpack(inputs("extract_features")),
    output:
        **outputs("extract_features"),
    log:
        logs("extract_features"),
    benchmark:
        times("extract_features")
    wildcard_constraints:
        **PLAN.constraints("extract_features"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=30,
    params:
        command=command("extract_features"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"


rule select_queries:
    input:
        unpack(inputs("select_queries")),
    output:
        **outputs("select_queries"),
    log:
        logs("select_queries"),
    benchmark:
        times("select_queries")
    wildcard_constraints:
        **PLAN.constraints("select_queries"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=60,
    params:
        command=command("select_queries"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"


rule aggregate:
    input:
        unpack(inputs("aggregate")),
    output:
        **once(outputs("aggregate")),
    log:
        logs("aggregate"),
    benchmark:
        times("aggregate")
    wildcard_constraints:
        **PLAN.constraints("aggregate"),
    group:
        numbers("aggregate")
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("aggregate"),
    shell:
        "patebench {params.command} --log {log:q}"


rule account:
    input:
        unpack(inputs("account")),
    output:
        **outputs("account"),
    log:
        logs("account"),
    benchmark:
        times("account")
    wildcard_constraints:
        **PLAN.constraints("account"),
    group:
        numbers("account")
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("account"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"
