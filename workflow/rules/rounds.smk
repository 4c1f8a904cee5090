# Students that ask in rounds: what they know already → what they ask → the answers to that → what they know then.
# `ask` and `learn` see public files alone; only what was asked is released, and only that is charged.


rule features:
    input:
        "<results>/{dataset}/{split}/pool.npz",
    output:
        "<results>/{dataset}/{split}/features.npz",
    log:
        "<logs>/features/{dataset}/{split}.log",
    benchmark:
        "<benchmarks>/features/{dataset}/{split}.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        mem_mb=memory(4000),
        runtime=30,
    params:
        options=lambda wildcards: words(PLAN.split(wildcards).features_options()),
    shell:
        "patebench features --pool {input} {params.options} --threads {threads} --out {output} --log {log}"


rule ask:
    input:
        unpack(PLAN.ask_inputs),
        pool="<results>/{dataset}/{split}/pool.npz",
    output:
        "<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}/queries.npz",
    log:
        "<logs>/ask/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}.log",
    benchmark:
        "<benchmarks>/ask/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        mem_mb=memory(4000),
        runtime=60,
    params:
        known=lambda wildcards, input: words({name: input.get(name) for name in ("features", "labels", "beliefs")}),
        options=lambda wildcards: words(PLAN.round(wildcards).ask_options()),
    shell:
        "patebench ask --pool {input.pool} {params.known} {params.options} --threads {threads}"
        " --out {output} --log {log}"


rule answer:
    input:
        votes="<results>/{dataset}/{split}/{ensemble}/votes.npz",
        asked="<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}/queries.npz",
        before=PLAN.answered_before,
    output:
        "<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}/labels.npz",
    log:
        "<logs>/answer/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}.log",
    benchmark:
        "<benchmarks>/answer/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        before=lambda wildcards, input: words({"before": input.before}),
        options=lambda wildcards: words(PLAN.round(wildcards).answer_options()),
    shell:
        "patebench answer --votes {input.votes} --asked {input.asked} {params.before} {params.options}"
        " --out {output} --log {log}"


rule charge:
    input:
        votes="<results>/{dataset}/{split}/{ensemble}/votes.npz",
        asked=PLAN.all_asked,
    output:
        "<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}/bounds.json",
    log:
        "<logs>/charge/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}.log",
    benchmark:
        "<benchmarks>/charge/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        asked=lambda wildcards, input: words({"asked": input.asked}),
        options=lambda wildcards: words(PLAN.round(wildcards).account_options()),
    shell:
        "patebench charge --votes {input.votes} {params.asked} {params.options} --out {output} --log {log}"


rule learn:
    input:
        pool="<results>/{dataset}/{split}/pool.npz",
        labels="<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}/labels.npz",
        test="<results>/{dataset}/{split}/test.npz",
    output:
        student="<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}/student.json",
        beliefs="<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}/beliefs.npz",
    log:
        "<logs>/learn/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}.log",
    benchmark:
        "<benchmarks>/learn/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{rounds}.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        mem_mb=memory(4000),
        runtime=60,
    params:
        options=lambda wildcards: words(PLAN.round(wildcards).learn_options()),
    shell:
        "patebench student --pool {input.pool} --labels {input.labels} --test {input.test} {params.options}"
        " --threads {threads} --out {output.student} --beliefs {output.beliefs} --log {log}"
