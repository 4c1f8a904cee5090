# Empirical lower bounds on the ε of mechanisms: no votes are needed, so all seeds share an audit.


rule audit:
    input:
        samples="<results>/<data>/private.npz",
    output:
        "<results>/<audit>/audit.json",
    log:
        "<logs>/audit/<audit>.log",
    benchmark:
        "<benchmarks>/audit/<audit>.tsv"
    group:
        "audits"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        options=options,
    shell:
        "patebench audit --samples {input.samples:q} {params.options} --out {output:q} --log {log:q}"
