# What mechanisms lose at least, searched for and measured: no votes are needed, so all seeds share an audit.


rule audit:
    input:
        samples="<results>/{dataset}/private.npz",
    output:
        "<results>/{dataset}/audit/teachers-{teachers}/{mechanism}/{noise}/audit.json",
    log:
        "<logs>/audit/{dataset}/teachers-{teachers}/{mechanism}/{noise}.log",
    benchmark:
        "<benchmarks>/audit/{dataset}/teachers-{teachers}/{mechanism}/{noise}.tsv"
    group:
        "audits"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        options=lambda wildcards: words(PLAN.audit(wildcards).options()),
    shell:
        "patebench audit --samples {input.samples} {params.options} --out {output} --log {log}"
