# What all private data give without privacy, and what true labels of the pool would give.


rule baseline:
    input:
        unpack(PLAN.baseline_inputs),
        test="<results>/{dataset}/{split}/test.npz",
    output:
        "<results>/{dataset}/{split}/baseline/{learner}/baseline.json",
    log:
        "<logs>/baseline/{dataset}/{split}/{learner}.log",
    benchmark:
        "<benchmarks>/baseline/{dataset}/{split}/{learner}.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=120,
    params:
        samples=lambda wildcards: words(PLAN.baseline_inputs(wildcards)),
        options=lambda wildcards: words(PLAN.baseline(wildcards).options()),
    shell:
        "patebench baseline {params.samples} --test {input.test} {params.options}"
        " --threads {threads} --out {output} --log {log}"
