# Secure aggregation: each party is a job that sees only its own files.

AGGREGATORS = range(1, (CONFIG.aggregators or 0) + 1)


if CONFIG.aggregators:

    # A chunk of teachers cuts its noisy votes into shares and puts one file into the folder of each aggregator.
    rule secure_share:
        input:
            "<results>/{dataset}/{split}/{ensemble}/chunks/{first}-{last}.npz",
        output:
            temp(
                expand(
                    "<results>/{{dataset}}/{{split}}/{{ensemble}}/{{mechanism}}/{{noise}}/"
                    "secure/aggregator-{aggregator}/{{first}}-{{last}}.npz",
                    aggregator=AGGREGATORS,
                )
            ),
        log:
            "<logs>/secure_share/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{first}-{last}.log",
        benchmark:
            "<benchmarks>/secure_share/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{first}-{last}.tsv"
        wildcard_constraints:
            noise=PLAN.noises(secure=True),
        group:
            "numbers"
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=30,
        params:
            options=lambda wildcards: words(PLAN.release(wildcards).share_options()),
            out=lambda wildcards, output: words({"out": list(output)}),
        shell:
            "patebench secure-share --chunk {input} {params.options} {params.out} --log {log}"

    # An aggregator sums what it got. The sum may be published, so in a release it is made once.
    rule secure_sum:
        input:
            PLAN.share_files,
        output:
            once("<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/secure/aggregator-{aggregator}/sum.npz"),
        log:
            "<logs>/secure_sum/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{aggregator}.log",
        benchmark:
            "<benchmarks>/secure_sum/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/{aggregator}.tsv"
        wildcard_constraints:
            noise=PLAN.noises(secure=True),
            aggregator=r"\d+",
        group:
            "numbers"
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=10,
        shell:
            "patebench secure-sum {input} --out {output} --log {log}"

    # Anybody adds the published sums up: noisy counts and labels.
    rule secure_open:
        input:
            expand(
                "<results>/{{dataset}}/{{split}}/{{ensemble}}/{{mechanism}}/{{noise}}/"
                "secure/aggregator-{aggregator}/sum.npz",
                aggregator=AGGREGATORS,
            ),
        output:
            labels=once("<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/labels.npz"),
            counts=once("<results>/{dataset}/{split}/{ensemble}/{mechanism}/{noise}/noisy_counts.npz"),
        log:
            "<logs>/secure_open/{dataset}/{split}/{ensemble}/{mechanism}/{noise}.log",
        benchmark:
            "<benchmarks>/secure_open/{dataset}/{split}/{ensemble}/{mechanism}/{noise}.tsv"
        wildcard_constraints:
            noise=PLAN.noises(secure=True),
        group:
            "numbers"
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=10,
        shell:
            "patebench secure-open {input} --labels {output.labels} --counts {output.counts} --log {log}"
