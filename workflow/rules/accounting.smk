# Every bound on ε that a release has, each a record of what it means.


rule account:
    input:
        votes="<results>/{dataset}/{split}/{ensemble}/votes.npz",
    output:
        "<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/bounds.json",
    log:
        "<logs>/account/{dataset}/{split}/{ensemble}/{mechanism}/{noise}.log",
    benchmark:
        "<benchmarks>/account/{dataset}/{split}/{ensemble}/{mechanism}/{noise}.tsv"
    group:
        "numbers"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        options=lambda wildcards: words(PLAN.account(wildcards).options()),
    shell:
        "patebench account --votes {input.votes} {params.options} --out {output} --log {log}"
