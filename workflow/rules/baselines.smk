# What the private data give without privacy.


rule baseline:
    input:
        private="<results>/{dataset}/private.npz",
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
        options=lambda wildcards: words(PLAN.baseline(wildcards).options()),
    shell:
        "patebench baseline --private {input.private} --test {input.test} {params.options}"
        " --threads {threads} --out {output} --log {log}"
