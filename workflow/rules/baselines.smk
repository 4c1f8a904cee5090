# What is compared with students of released labels: models that are private themselves, and what is not private.


rule distil:
    input:
        unpack(inputs("distil")),
    output:
        **outputs("distil"),
    log:
        logs("distil"),
    benchmark:
        times("distil")
    wildcard_constraints:
        **PLAN.constraints("distil"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=120,
    params:
        command=command("distil"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"


rule train_petdl:
    input:
        unpack(inputs("train_petdl")),
    output:
        **outputs("train_petdl"),
    log:
        logs("train_petdl"),
    benchmark:
        times("train_petdl")
    wildcard_constraints:
        **PLAN.constraints("train_petdl"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=120,
    params:
        command=command("train_petdl"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"


rule train_baseline:
    input:
        unpack(inputs("train_baseline")),
    output:
        **outputs("train_baseline"),
    log:
        logs("train_baseline"),
    benchmark:
        times("train_baseline")
    wildcard_constraints:
        **PLAN.constraints("train_baseline"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=120,
    params:
        command=command("train_baseline"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"


rule name_clusters:
    input:
        unpack(inputs("name_clusters")),
    output:
        **outputs("name_clusters"),
    log:
        logs("name_clusters"),
    benchmark:
        times("name_clusters")
    wildcard_constraints:
        **PLAN.constraints("name_clusters"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        mem_mb=memory(4000),
        runtime=20,
    params:
        command=command("name_clusters"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"


rule train_dpsgd:
    input:
        unpack(inputs("train_dpsgd")),
    output:
        **outputs("train_dpsgd"),
    log:
        logs("train_dpsgd"),
    benchmark:
        times("train_dpsgd")
    wildcard_constraints:
        **PLAN.constraints("train_dpsgd"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=240,
    params:
        command=command("train_dpsgd"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"


rule train_private_knn:
    input:
        unpack(inputs("train_private_knn")),
    output:
        **outputs("train_private_knn"),
    log:
        logs("train_private_knn"),
    benchmark:
        times("train_private_knn")
    wildcard_constraints:
        **PLAN.constraints("train_private_knn"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=240,
    params:
        command=command("train_private_knn"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"
