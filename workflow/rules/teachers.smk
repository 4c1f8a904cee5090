# One job per chunk of teachers, and the vote matrix that joins them.


rule train_teachers:
    input:
        unpack(inputs("train_teachers")),
    output:
        **outputs("train_teachers"),
    log:
        logs("train_teachers"),
    benchmark:
        times("train_teachers")
    wildcard_constraints:
        **PLAN.constraints("train_teachers"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=240,
    params:
        command=command("train_teachers"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"


rule join_votes:
    input:
        unpack(inputs("join_votes")),
    output:
        **outputs("join_votes"),
    log:
        logs("join_votes"),
    benchmark:
        times("join_votes")
    wildcard_constraints:
        **PLAN.constraints("join_votes"),
    group:
        numbers("join_votes")
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(4000),
        runtime=10,
    params:
        command=command("join_votes"),
    shell:
        "patebench {params.command} --log {log:q}"
