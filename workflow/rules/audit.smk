# What mechanisms lose at least, searched for and measured: no votes are needed, so all seeds share an audit.


rule audit:
    input:
        unpack(inputs("audit")),
    output:
        **outputs("audit"),
    log:
        logs("audit"),
    benchmark:
        times("audit")
    wildcard_constraints:
        **PLAN.constraints("audit"),
    group:
        "audits"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(2000),
        runtime=10,
    params:
        command=command("audit"),
    shell:
        "patebench {params.command} --log {log:q}"
