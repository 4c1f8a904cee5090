# Train models to compare with students of released labels: private models, and models without privacy.


rule distil:
    input:
        votes="<results>/<ensemble>/votes.npz",
        pool="<results>/<split>/pool.npz",
        test="<results>/<split>/test.npz",
    output:
        "<results>/<distillation>/distillation.json",
    log:
        "<logs>/distil/<distillation>.log",
    benchmark:
        "<benchmarks>/distil/<distillation>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=120,
    params:
        options=options(f"{DISTILLATION}/distillation.json"),
    shell:
        "patebench distil --votes {input.votes:q} --pool {input.pool:q} --test {input.test:q} {params.options}"
        " --out {output:q} --threads {threads} --log {log:q}"


rule train_petdl:
    input:
        ensemble="<results>/<ensemble>/ensemble.json",
        votes="<results>/<ensemble>/votes.npz",
        chunk=expand("<results>/<ensemble>/chunks/{chunk}.npz", chunk=known(RUN.chunks, ENSEMBLE)),
        pool="<results>/<split>/pool.npz",
        test="<results>/<split>/test.npz",
    output:
        "<results>/<petdl>/petdl.json",
    log:
        "<logs>/train_petdl/<petdl>.log",
    benchmark:
        "<benchmarks>/train_petdl/<petdl>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=120,
    params:
        chunks=each("chunk"),
        options=options(f"{PETDL}/petdl.json"),
    shell:
        "patebench train_petdl --ensemble {input.ensemble:q} --votes {input.votes:q} {params.chunks} --pool {input.pool:q}"
        " --test {input.test:q} {params.options} --out {output:q} --threads {threads} --log {log:q}"


rule train_baseline:
    input:
        private="<results>/<data>/private.npz",
        test="<results>/<split>/test.npz",
    output:
        "<results>/<baseline>/baseline.json",
    log:
        "<logs>/train_baseline/<baseline>.log",
    benchmark:
        "<benchmarks>/train_baseline/<baseline>.tsv"
    wildcard_constraints:
        training=r"(?!truth-\d+_)[^/]+",
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=120,
    params:
        samples=each("private", "pool", "truth"),
        options=options(f"{BASELINE}/baseline.json"),
    shell:
        "patebench train_baseline {params.samples} --test {input.test:q} {params.options}"
        " --out {output:q} --threads {threads} --log {log:q}"


# Train a model on true labels of the pool instead of private data.
use rule train_baseline as train_baseline_on_truth with:
    input:
        pool="<results>/<split>/pool.npz",
        truth="<results>/<split>/truth.npz",
        test="<results>/<split>/test.npz",
    wildcard_constraints:
        training=r"truth-\d+_[^/]+",


rule name_clusters:
    input:
        pool="<results>/<split>/pool.npz",
        truth="<results>/<split>/truth.npz",
        test="<results>/<split>/test.npz",
        features="<results>/<split>/features.npz",
        encoder="<results>/<split>/encoder.npz",
        selected="<results>/<selection>/queries.npz",
    output:
        "<results>/<selection>/naming.json",
    log:
        "<logs>/name_clusters/<selection>.log",
    benchmark:
        "<benchmarks>/name_clusters/<selection>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        mem_mb=memory(4000),
        runtime=20,
    shell:
        "patebench name_clusters --pool {input.pool:q} --truth {input.truth:q} --test {input.test:q}"
        " --features {input.features:q} --encoder {input.encoder:q} --selected {input.selected:q}"
        " --out {output:q} --threads {threads} --log {log:q}"


rule train_dpsgd:
    input:
        private="<results>/<data>/private.npz",
        pool="<results>/<split>/pool.npz",
        test="<results>/<split>/test.npz",
        encoder=used(RUN.uses_encoder, f"{DPSGD}/dpsgd.json", "<results>/<split>/encoder.npz"),
    output:
        "<results>/<dpsgd>/dpsgd.json",
    log:
        "<logs>/train_dpsgd/<dpsgd>.log",
    benchmark:
        "<benchmarks>/train_dpsgd/<dpsgd>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=240,
    params:
        public=each("encoder"),
        options=options(f"{DPSGD}/dpsgd.json"),
    shell:
        "patebench train_dpsgd --private {input.private:q} --pool {input.pool:q} --test {input.test:q} {params.public}"
        " {params.options} --out {output:q} --threads {threads} --log {log:q}"


rule train_private_knn:
    input:
        private="<results>/<data>/private.npz",
        pool="<results>/<split>/pool.npz",
        truth="<results>/<split>/truth.npz",
        test="<results>/<split>/test.npz",
        encoder="<results>/<split>/encoder.npz",
    output:
        "<results>/<private_knn>/private_knn.json",
    log:
        "<logs>/train_private_knn/<private_knn>.log",
    benchmark:
        "<benchmarks>/train_private_knn/<private_knn>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=240,
    params:
        options=options(f"{PRIVATE_KNN}/private_knn.json"),
    shell:
        "patebench train_private_knn --private {input.private:q} --pool {input.pool:q} --truth {input.truth:q}"
        " --test {input.test:q} --encoder {input.encoder:q} {params.options}"
        " --out {output:q} --threads {threads} --log {log:q}"


rule train_on_features:
    input:
        private="<results>/<data>/private.npz",
        pool="<results>/<split>/pool.npz",
        truth="<results>/<split>/truth.npz",
        test="<results>/<split>/test.npz",
        encoder="<results>/<split>/encoder.npz",
    output:
        "<results>/<on_features>/on_features.json",
    log:
        "<logs>/train_on_features/<on_features>.log",
    benchmark:
        "<benchmarks>/train_on_features/<on_features>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=240,
    params:
        options=options(f"{ON_FEATURES}/on_features.json"),
    shell:
        "patebench train_on_features --private {input.private:q} --pool {input.pool:q} --truth {input.truth:q}"
        " --test {input.test:q} --encoder {input.encoder:q} {params.options}"
        " --out {output:q} --threads {threads} --log {log:q}"
