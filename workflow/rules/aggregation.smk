# One job per mechanism and noise setting: noisy labels for the whole pool.


rule aggregate:
    input:
        votes="<results>/{dataset}/{split}/{ensemble}/votes.npz",
    output:
        once("<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/labels.npz"),
    log:
        "<logs>/aggregate/{dataset}/{split}/{ensemble}/{mechanism}/{noise}.log",
    benchmark:
        "<benchmarks>/aggregate/{dataset}/{split}/{ensemble}/{mechanism}/{noise}.tsv"
    wildcard_constraints:
        noise=PLAN.noises(secure=False),
    group:
        "numbers"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        options=lambda wildcards: words(PLAN.release(wildcards).options()),
    shell:
        "patebench aggregate --votes {input.votes} {params.options} --out {output} --log {log}"
