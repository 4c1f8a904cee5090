# Students see the public pool and the released labels, and nothing else of what came before.


rule train_student:
    input:
        unpack(inputs("train_student")),
    output:
        **outputs("train_student"),
    log:
        logs("train_student"),
    benchmark:
        times("train_student")
    wildcard_constraints:
        **PLAN.constraints("train_student"),
    conda:
        "../../envs/patebench.yaml"
    threads: 1
    resources:
        gpu=1,
        mem_mb=memory(4000),
        runtime=60,
    params:
        command=command("train_student"),
    shell:
        "patebench {params.command} --threads {threads} --log {log:q}"
