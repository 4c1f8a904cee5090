# Secure aggregation: each party is a job that sees only its own files.

if PLAN.aggregators:

    # A chunk of teachers cuts its noisy votes into shares and puts one file into the folder of each aggregator.
    rule secure_share:
        input:
            unpack(inputs("secure_share")),
        output:
            out=temp(outputs("secure_share")["out"]),
        log:
            logs("secure_share"),
        benchmark:
            times("secure_share")
        wildcard_constraints:
            **PLAN.constraints("secure_share"),
        group:
            "numbers"
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=30,
        params:
            command=command("secure_share"),
        shell:
            "patebench {params.command} --log {log:q}"

    # An aggregator sums what it got. The sum may be published, so in a release it is made once.
    rule secure_sum:
        input:
            unpack(inputs("secure_sum")),
        output:
            **once(outputs("secure_sum")),
        log:
            logs("secure_sum"),
        benchmark:
            times("secure_sum")
        wildcard_constraints:
            **PLAN.constraints("secure_sum"),
        group:
            "numbers"
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=10,
        params:
            command=command("secure_sum"),
        shell:
            "patebench {params.command} --log {log:q}"

    # Anybody adds the published sums up: noisy counts and labels.
    rule secure_open:
        input:
            unpack(inputs("secure_open")),
        output:
            **once(outputs("secure_open")),
        log:
            logs("secure_open"),
        benchmark:
            times("secure_open")
        wildcard_constraints:
            **PLAN.constraints("secure_open"),
        group:
            "numbers"
        conda:
            "../../envs/patebench.yaml"
        resources:
            mem_mb=memory(2000),
            runtime=10,
        params:
            command=command("secure_open"),
        shell:
            "patebench {params.command} --log {log:q}"
