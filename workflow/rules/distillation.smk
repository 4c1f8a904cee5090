# What the teachers' probabilities would teach beyond labels. Not private: it reads what no student sees.


rule distil:
    input:
        votes="<results>/{dataset}/{split}/{ensemble}/votes.npz",
        pool="<results>/{dataset}/{split}/pool.npz",
        test="<results>/{dataset}/{split}/test.npz",
    output:
        "<results>/{dataset}/{split}/{ensemble}/distillation/{learner}/distillation.json",
    log:
        "<logs>/distil/{dataset}/{split}/{ensemble}/{learner}.log",
    benchmark:
        "<benchmarks>/distil/{dataset}/{split}/{ensemble}/{learner}.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=120,
    params:
        options=lambda wildcards: words(PLAN.distillation(wildcards).options()),
    shell:
        "patebench distil --votes {input.votes} --pool {input.pool} --test {input.test} {params.options}"
        " --threads {threads} --out {output} --log {log}"
