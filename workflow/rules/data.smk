# From a data set's name to private samples, the public pool and the test set.


rule data:
    input:
        lambda wildcards: PLAN.data(wildcards).inputs,
    output:
        private="<results>/{dataset}/private.npz",
        public="<results>/{dataset}/public.npz",
    log:
        "<logs>/data/{dataset}.log",
    benchmark:
        "<benchmarks>/data/{dataset}.tsv"
    group:
        "data"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(8000),
        runtime=30,
        # Not a parameter: data that moved to another folder are the same data, and no reason to train again.
        access=words(CONFIG.access_options()),
    params:
        options=lambda wildcards: words(PLAN.data(wildcards).options()),
    shell:
        "patebench data {wildcards.dataset} {resources.access} {params.options}"
        " --private {output.private} --public {output.public} --log {log}"


rule split:
    input:
        private="<results>/{dataset}/private.npz",
        public="<results>/{dataset}/public.npz",
    output:
        pool="<results>/{dataset}/{split}/pool.npz",
        truth="<results>/{dataset}/{split}/truth.npz",
        test="<results>/{dataset}/{split}/test.npz",
    log:
        "<logs>/split/{dataset}/{split}.log",
    benchmark:
        "<benchmarks>/split/{dataset}/{split}.tsv"
    group:
        "data"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(8000),
        runtime=10,
    params:
        options=lambda wildcards: words(PLAN.split(wildcards).options()),
    shell:
        "patebench split --private {input.private} --public {input.public} {params.options}"
        " --pool-out {output.pool} --truth-out {output.truth} --test-out {output.test} --log {log}"
