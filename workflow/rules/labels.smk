# Select queries, label them, compute ε of the labels, and audit the mechanisms.


rule extract_features:
    input:
        pool="<results>/<split>/pool.npz",
        network=known(RUN.own_files, SPLIT),  # the file of the user's own encoder, also in the options
    output:
        features="<results>/<split>/features.npz",
        encoder="<results>/<split>/encoder.npz",
    log:
        "<logs>/extract_features/<split>.log",
    benchmark:
        "<benchmarks>/extract_features/<split>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=30,
    params:
        options=options(f"{SPLIT}/features.npz"),
    shell:
        "patebench extract_features --pool {input.pool:q} {params.options}"
        " --out {output.features:q} --encoder {output.encoder:q} --threads {threads} --log {log:q}"


# Select queries before any teacher votes.
rule select_queries:
    input:
        pool="<results>/<split>/pool.npz",
        features=used(RUN.uses_features, f"{SELECTION}/queries.npz", "<results>/<split>/features.npz"),
    output:
        "<results>/<selection>/queries.npz",
    log:
        "<logs>/select_queries/<selection>.log",
    benchmark:
        "<benchmarks>/select_queries/<selection>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=60,
    params:
        known=each("features", "labels", "predictions"),
        options=options(f"{SELECTION}/queries.npz"),
    shell:
        "patebench select_queries --pool {input.pool:q} {params.known} {params.options}"
        " --out {output:q} --threads {threads} --log {log:q}"


# Select the queries of a round, given the labels and the student of the previous round.
use rule select_queries as select_queries_in_round with:
    input:
        pool="<results>/<split>/pool.npz",
        features=used(RUN.uses_features, f"{ROUND}/queries.npz", "<results>/<split>/features.npz"),
        labels=expand("<results>/<student>/{rounds}/labels.npz", rounds=round_before),
        predictions=expand("<results>/<student>/{rounds}/predictions.npz", rounds=round_before),
    output:
        "<results>/<round>/queries.npz",
    log:
        "<logs>/select_queries/<round>.log",
    benchmark:
        "<benchmarks>/select_queries/<round>.tsv"
    params:
        options=options(f"{ROUND}/queries.npz"),


rule aggregate:
    input:
        votes="<results>/<ensemble>/votes.npz",
    output:
        once("<results>/<labels>/labels.npz"),
    log:
        "<logs>/aggregate/<labels>.log",
    benchmark:
        "<benchmarks>/aggregate/<labels>.tsv"
    wildcard_constraints:
        noise=PLAIN_NOISE,
    retries: DRAW_RETRIES
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(3000),
        runtime=10,
    params:
        rounds=each("selected", "earlier"),
        options=options(f"{LABELS}/labels.npz"),
    shell:
        "patebench aggregate --votes {input.votes:q} {params.rounds} {params.options} --out {output:q} --log {log:q}"


# Label the queries of a round and append the labels to those of the previous round. RUN.chunks contains a round if the
# teachers vote in it; otherwise the votes are those of the ensemble.
use rule aggregate as aggregate_in_round with:
    input:
        votes=used(RUN.chunks, ROUND, "<results>/<round>/votes.npz", otherwise="<results>/<ensemble>/votes.npz"),
        selected="<results>/<round>/queries.npz",
        earlier=expand("<results>/<student>/{rounds}/labels.npz", rounds=round_before),
    output:
        once("<results>/<round>/labels.npz"),
    log:
        "<logs>/aggregate/<round>.log",
    benchmark:
        "<benchmarks>/aggregate/<round>.tsv"
    params:
        options=options(f"{ROUND}/labels.npz"),


rule account:
    input:
        votes="<results>/<ensemble>/votes.npz",
        labels="<results>/<labels>/labels.npz",
    output:
        "<results>/<labels>/bounds.json",
    log:
        "<logs>/account/<labels>.log",
    benchmark:
        "<benchmarks>/account/<labels>.tsv"
    retries: DRAW_RETRIES
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        mem_mb=memory(3000),
        runtime=10,
    params:
        selected=each("selected"),
        options=options(f"{LABELS}/bounds.json"),
    shell:
        "patebench account --votes {input.votes:q} --labels {input.labels:q} {params.selected} {params.options}"
        " --out {output:q} --threads {threads} --log {log:q}"


use rule account as account_in_round with:
    input:
        votes=used(RUN.chunks, ROUND, "<results>/<round>/votes.npz", otherwise="<results>/<ensemble>/votes.npz"),
        labels="<results>/<round>/labels.npz",
        selected=expand("<results>/<student>/{rounds}/queries.npz", rounds=rounds_so_far),
    output:
        "<results>/<round>/bounds.json",
    log:
        "<logs>/account/<round>.log",
    benchmark:
        "<benchmarks>/account/<round>.tsv"
    params:
        options=options(f"{ROUND}/bounds.json"),


# Estimate lower bounds on ε of mechanisms. An audit needs only the numbers of teachers and classes; all seeds share it.
rule audit:
    input:
        samples=used(RUN.audited_votes, AUDIT, [], otherwise="<results>/<data>/private.npz"),
        votes=known(RUN.audited_votes, AUDIT),
    output:
        "<results>/<audit>/audit.json",
    log:
        "<logs>/audit/<audit>.log",
    benchmark:
        "<benchmarks>/audit/<audit>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        classes=each("samples", "votes"),
        options=options(f"{AUDIT}/audit.json"),
    shell:
        "patebench audit {params.classes} {params.options} --out {output:q} --log {log:q}"
