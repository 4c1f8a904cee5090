# Secure aggregation: each party is a job that reads only its own files.

AGGREGATORS = [i + 1 for i in range(RUN.aggregators or 0)]

if AGGREGATORS:

    # A chunk of teachers splits its noisy votes into shares and writes one file to the folder of each aggregator.
    rule secure_share:
        input:
            chunk="<results>/<ensemble>/chunks/{chunk}.npz",
        output:
            out=temp([f"<results>/<labels>/secure/aggregator-{i}/{{chunk}}.npz" for i in AGGREGATORS]),
        log:
            "<logs>/secure_share/<labels>/{chunk}.log",
        benchmark:
            "<benchmarks>/secure_share/<labels>/{chunk}.tsv"
        retries: DRAW_RETRIES
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=30,
        params:
            options=options(f"{LABELS}/secure/aggregator-1/{{chunk}}.npz"),
            out=lambda wildcards, output: shell_words({"out": output.out}),
        shell:
            "patebench secure_share --chunk {input.chunk:q} {params.options} {params.out} --log {log:q}"

    # An aggregator sums the shares that it received. The sum may be published, so a release makes it only once.
    rule secure_sum:
        input:
            shares=expand(
                "<results>/<labels>/secure/aggregator-{aggregator}/{chunk}.npz",
                chunk=known(RUN.chunks, ENSEMBLE),
                allow_missing=True,
            ),
        output:
            once("<results>/<labels>/secure/aggregator-{aggregator}/sum.npz"),
        log:
            "<logs>/secure_sum/<labels>/{aggregator}.log",
        benchmark:
            "<benchmarks>/secure_sum/<labels>/{aggregator}.tsv"
        retries: DRAW_RETRIES
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=10,
        params:
            shares=each("shares"),
        shell:
            "patebench secure_sum {params.shares} --out {output:q} --log {log:q}"

    # Anyone can add up the published sums to get the noisy counts and the labels.
    rule secure_open:
        input:
            sums=[f"<results>/<labels>/secure/aggregator-{i}/sum.npz" for i in AGGREGATORS],
        output:
            labels=once("<results>/<labels>/labels.npz"),
            counts=once("<results>/<labels>/noisy_counts.npz"),
        log:
            "<logs>/secure_open/<labels>.log",
        benchmark:
            "<benchmarks>/secure_open/<labels>.tsv"
        wildcard_constraints:
            noise=SECURE_NOISE,
        retries: DRAW_RETRIES
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=10,
        params:
            sums=each("sums"),
        shell:
            "patebench secure_open {params.sums} --labels {output.labels:q} --counts {output.counts:q} --log {log:q}"
