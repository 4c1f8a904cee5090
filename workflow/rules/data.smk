# From a data set's name to private samples, the public pool and the test set, and who owns which private sample.


rule data:
    input:
        unpack(inputs("data")),
    output:
        **outputs("data"),
    log:
        logs("data"),
    benchmark:
        times("data")
    wildcard_constraints:
        **PLAN.constraints("data"),
    group:
        "data"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(8000),
        runtime=30,
        # Not a parameter: data that moved to another folder are the same data, and no reason to train again.
        access=quoted(words(CONFIG.access_options()), Path()),
    params:
        command=command("data"),
    shell:
        "patebench {params.command} {resources.access} --log {log:q}"


rule split:
    input:
        unpack(inputs("split")),
    output:
        **outputs("split"),
    log:
        logs("split"),
    benchmark:
        times("split")
    wildcard_constraints:
        **PLAN.constraints("split"),
    group:
        "data"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(8000),
        runtime=10,
    params:
        command=command("split"),
    shell:
        "patebench {params.command} --log {log:q}"


rule partition:
    input:
        unpack(inputs("partition")),
    output:
        **outputs("partition"),
    log:
        logs("partition"),
    benchmark:
        times("partition")
    wildcard_constraints:
        **PLAN.constraints("partition"),
    group:
        "data"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(4000),
        runtime=10,
    params:
        command=command("partition"),
    shell:
        "patebench {params.command} --log {log:q}"
