# Disjoint shards, one job per chunk of teachers, and the vote matrix that joins them.


rule partition:
    input:
        private="<results>/{dataset}/private.npz",
        owners=lambda wildcards: PLAN.ensemble(wildcards).partition.inputs,
    output:
        "<results>/{dataset}/{split}/{ensemble}/partition.npz",
    log:
        "<logs>/partition/{dataset}/{split}/{ensemble}.log",
    benchmark:
        "<benchmarks>/partition/{dataset}/{split}/{ensemble}.tsv"
    group:
        "data"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(4000),
        runtime=10,
    params:
        options=lambda wildcards: words(PLAN.ensemble(wildcards).partition_options()),
    shell:
        "patebench partition --private {input.private} {params.options} --out {output} --log {log}"


rule teach:
    input:
        private="<results>/{dataset}/private.npz",
        partition="<results>/{dataset}/{split}/{ensemble}/partition.npz",
        pool="<results>/{dataset}/{split}/pool.npz",
        test="<results>/{dataset}/{split}/test.npz",
    output:
        "<results>/{dataset}/{split}/{ensemble}/chunks/{first}-{last}.npz",
    log:
        "<logs>/teach/{dataset}/{split}/{ensemble}/{first}-{last}.log",
    benchmark:
        "<benchmarks>/teach/{dataset}/{split}/{ensemble}/{first}-{last}.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=240,
    params:
        options=lambda wildcards: words(PLAN.chunk(wildcards).options()),
        weights=lambda wildcards: words(PLAN.weights_options(wildcards)),
    shell:
        "patebench teach --private {input.private} --partition {input.partition}"
        " --pool {input.pool} --test {input.test} {params.options} {params.weights}"
        " --threads {threads} --out {output} --log {log}"


rule votes:
    input:
        partition="<results>/{dataset}/{split}/{ensemble}/partition.npz",
        pool="<results>/{dataset}/{split}/pool.npz",
        truth="<results>/{dataset}/{split}/truth.npz",
        test="<results>/{dataset}/{split}/test.npz",
        chunks=PLAN.chunk_files,
    output:
        votes="<results>/{dataset}/{split}/{ensemble}/votes.npz",
        summary="<results>/{dataset}/{split}/{ensemble}/ensemble.json",
    log:
        "<logs>/votes/{dataset}/{split}/{ensemble}.log",
    benchmark:
        "<benchmarks>/votes/{dataset}/{split}/{ensemble}.tsv"
    group:
        "numbers"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(4000),
        runtime=10,
    shell:
        "patebench votes --partition {input.partition} --pool {input.pool} --truth {input.truth} --test {input.test}"
        " --out {output.votes} --summary {output.summary} --log {log} {input.chunks}"
