# Train teachers, one job per chunk, and join their votes into one matrix.


rule train_teachers:
    input:
        private="<results>/<data>/private.npz",
        partition="<results>/<ensemble>/partition.npz",
        pool="<results>/<split>/pool.npz",
        test="<results>/<split>/test.npz",
        selected=expand("<results>/<split>/queries/{selection}/queries.npz", selection=known(RUN.selections, ENSEMBLE)),
        features=used(RUN.uses_features, f"{ENSEMBLE}/votes.npz", "<results>/<split>/features.npz"),
        encoder=used(RUN.uses_encoder, f"{ENSEMBLE}/votes.npz", "<results>/<split>/encoder.npz"),
    output:
        "<results>/<ensemble>/chunks/{chunk}.npz",
    log:
        "<logs>/train_teachers/<ensemble>/{chunk}.log",
    benchmark:
        "<benchmarks>/train_teachers/<ensemble>/{chunk}.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=240,
    params:
        public=each("selected", "features", "encoder"),
        options=options(f"{ENSEMBLE}/chunks/{{chunk}}.npz"),
    shell:
        "patebench train_teachers --private {input.private:q} --partition {input.partition:q} --pool {input.pool:q}"
        " --test {input.test:q} {params.public} {params.options} --out {output:q} --threads {threads} --log {log:q}"


rule join_votes:
    input:
        partition="<results>/<ensemble>/partition.npz",
        pool="<results>/<split>/pool.npz",
        truth="<results>/<split>/truth.npz",
        test="<results>/<split>/test.npz",
        chunk=expand("<results>/<ensemble>/chunks/{chunk}.npz", chunk=known(RUN.chunks, ENSEMBLE)),
    output:
        votes="<results>/<ensemble>/votes.npz",
        summary="<results>/<ensemble>/ensemble.json",
    log:
        "<logs>/join_votes/<ensemble>.log",
    benchmark:
        "<benchmarks>/join_votes/<ensemble>.tsv"
    retries: DRAW_RETRIES
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(4000),
        runtime=10,
    params:
        chunks=each("chunk", "earlier"),
    shell:
        "patebench join_votes --partition {input.partition:q} --pool {input.pool:q} --truth {input.truth:q}"
        " --test {input.test:q} {params.chunks} --out {output.votes:q} --summary {output.summary:q} --log {log:q}"


# Import votes from a file instead of training teachers. A plain table of votes has no pool.
rule import_votes:
    input:
        votes=known(RUN.own_files, ENSEMBLE),
        pool=used(RUN.without_pool, ENSEMBLE, [], otherwise="<results>/<split>/pool.npz"),
        truth=used(RUN.without_pool, ENSEMBLE, [], otherwise="<results>/<split>/truth.npz"),
    output:
        votes="<results>/<ensemble>/votes.npz",
        summary="<results>/<ensemble>/ensemble.json",
    log:
        "<logs>/import_votes/<ensemble>.log",
    benchmark:
        "<benchmarks>/import_votes/<ensemble>.tsv"
    wildcard_constraints:
        ensemble=IMPORTED,
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        samples=each("pool", "truth"),
        options=options(f"{ENSEMBLE}/votes.npz"),
    shell:
        "patebench import_votes --votes {input.votes:q} {params.samples} {params.options}"
        " --out {output.votes:q} --summary {output.summary:q} --log {log:q}"


ruleorder: import_votes > join_votes


# Train teachers that vote only on the queries of one round.
use rule train_teachers as train_teachers_in_round with:
    input:
        private="<results>/<data>/private.npz",
        partition="<results>/<ensemble>/partition.npz",
        pool="<results>/<split>/pool.npz",
        test="<results>/<split>/test.npz",
        selected=expand("<results>/<student>/{rounds}/queries.npz", rounds=rounds_so_far),
        features="<results>/<split>/features.npz",
        encoder="<results>/<split>/encoder.npz",
    output:
        "<results>/<round>/chunks/{chunk}.npz",
    log:
        "<logs>/train_teachers/<round>/{chunk}.log",
    benchmark:
        "<benchmarks>/train_teachers/<round>/{chunk}.tsv"
    params:
        options=options(f"{ROUND}/chunks/{{chunk}}.npz"),


use rule join_votes as join_votes_in_round with:
    input:
        partition="<results>/<ensemble>/partition.npz",
        pool="<results>/<split>/pool.npz",
        truth="<results>/<split>/truth.npz",
        test="<results>/<split>/test.npz",
        chunk=expand("<results>/<round>/chunks/{chunk}.npz", chunk=known(RUN.chunks, ROUND)),
        earlier=expand("<results>/<student>/{rounds}/votes.npz", rounds=round_before),
    output:
        votes="<results>/<round>/votes.npz",
        summary="<results>/<round>/ensemble.json",
    log:
        "<logs>/join_votes/<round>.log",
    benchmark:
        "<benchmarks>/join_votes/<round>.tsv"
