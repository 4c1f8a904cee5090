# Students see the public pool and the released labels, and nothing else of what came before.


rule student:
    input:
        pool="<results>/{dataset}/{split}/pool.npz",
        labels="<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/labels.npz",
        test="<results>/{dataset}/{split}/test.npz",
    output:
        "<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{student}/student.json",
    log:
        "<logs>/student/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{student}.log",
    benchmark:
        "<benchmarks>/student/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{student}.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=60,
    params:
        options=lambda wildcards: words(PLAN.student(wildcards).options()),
    shell:
        "patebench student --pool {input.pool} --labels {input.labels} --test {input.test}"
        " {params.options} --threads {threads} --out {output} --log {log}"
