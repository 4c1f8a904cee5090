# Train students, which read only the public pool, its features and the released labels.


rule train_student:
    input:
        pool="<results>/<split>/pool.npz",
        labels="<results>/<labels>/labels.npz",
        test="<results>/<split>/test.npz",
        features=used(RUN.uses_features, f"{STUDENT}/student.json", "<results>/<split>/features.npz"),
        encoder=used(RUN.uses_encoder, f"{STUDENT}/student.json", "<results>/<split>/encoder.npz"),
    output:
        student="<results>/<student>/student.json",
        predictions="<results>/<student>/predictions.npz",
    log:
        "<logs>/train_student/<student>.log",
    benchmark:
        "<benchmarks>/train_student/<student>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=60,
    params:
        public=each("features", "encoder"),
        options=options(f"{STUDENT}/student.json"),
    shell:
        "patebench train_student --pool {input.pool:q} --labels {input.labels:q} --test {input.test:q} {params.public}"
        " {params.options} --out {output.student:q} --predictions {output.predictions:q}"
        " --threads {threads} --log {log:q}"


use rule train_student as train_student_in_round with:
    input:
        pool="<results>/<split>/pool.npz",
        labels="<results>/<round>/labels.npz",
        test="<results>/<split>/test.npz",
        features=used(RUN.uses_features, f"{ROUND}/student.json", "<results>/<split>/features.npz"),
        encoder=used(RUN.uses_encoder, f"{ROUND}/student.json", "<results>/<split>/encoder.npz"),
    output:
        student="<results>/<round>/student.json",
        predictions="<results>/<round>/predictions.npz",
    log:
        "<logs>/train_student/<round>.log",
    benchmark:
        "<benchmarks>/train_student/<round>.tsv"
    params:
        options=options(f"{ROUND}/student.json"),
