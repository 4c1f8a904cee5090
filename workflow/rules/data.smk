# Load data sets, divide the public samples into pool and test set, and divide the private samples among the teachers.


rule data:
    input:
        sources=known(RUN.own_files, DATA),  # the user's own files, also in the options; a change reruns the job
    output:
        private="<results>/<data>/private.npz",
        public="<results>/<data>/public.npz",
    log:
        "<logs>/data/<data>.log",
    benchmark:
        "<benchmarks>/data/<data>.tsv"
    conda:
        "../../envs/patebench.yaml"
    threads: lambda wildcards: 4 if wildcards.dataset in RUN.encoded_datasets else 1
    resources:
        mem_mb=memory(10000),
        runtime=30,
        # Not a parameter, so that moving the data to another folder does not rerun any job.
        access=RUN.access_options(),
    params:
        options=options(f"{DATA}/private.npz"),
    shell:
        "patebench data {wildcards.dataset} {params.options} --private {output.private:q} --public {output.public:q}"
        " {resources.access} --threads {threads} --log {log:q}"


rule split:
    input:
        public="<results>/<data>/public.npz",
        # Needed only with `protects: labels`, where the pool consists of private samples.
        private=used(RUN.label_splits, SPLIT, "<results>/<data>/private.npz"),
    output:
        pool="<results>/<split>/pool.npz",
        truth="<results>/<split>/truth.npz",
        test="<results>/<split>/test.npz",
    log:
        "<logs>/split/<split>.log",
    benchmark:
        "<benchmarks>/split/<split>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(8000),
        runtime=10,
    params:
        private=each("private"),
        options=options(f"{SPLIT}/pool.npz"),
    shell:
        "patebench split --public {input.public:q} {params.private} {params.options}"
        " --pool-out {output.pool:q} --truth-out {output.truth:q} --test-out {output.test:q} --log {log:q}"


rule partition:
    input:
        private="<results>/<data>/private.npz",
        public="<results>/<data>/public.npz",
        owners=known(RUN.own_files, ENSEMBLE),  # the user's file with the owner of each sample, also in the options
    output:
        "<results>/<ensemble>/partition.npz",
    log:
        "<logs>/partition/<ensemble>.log",
    benchmark:
        "<benchmarks>/partition/<ensemble>.tsv"
    conda:
        "../../envs/patebench.yaml"
    resources:
        mem_mb=memory(4000),
        runtime=10,
    params:
        options=options(f"{ENSEMBLE}/partition.npz"),
    shell:
        "patebench partition --private {input.private:q} --public {input.public:q} {params.options}"
        " --out {output:q} --log {log:q}"
