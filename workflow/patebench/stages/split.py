"""The stage `split`: the public samples become the student's pool and the test set."""

import logging
from pathlib import Path

from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, write_arrays
from patebench.core.formats import POOL, SAMPLES, TRUTH
from patebench.core.seeds import generator
from patebench.data.split import check_apart, content, divide
from patebench.plan.parameters import SplitParameters
from patebench.stages.command import file_option, parameter_options, seeded, stage_command
from patebench.stages.reading import read_samples

log = logging.getLogger("patebench")


def run(
    *,
    private: Path,
    public: Path,
    parameters: SplitParameters,
    seed: int,
    stream: str,
    pool_out: Path,
    truth_out: Path,
    test_out: Path,
) -> None:
    """Shuffle the public samples into the student's pool and the test set.

    A public sample that equals a private one byte for byte is left out, and so is a test sample that equals one of the
    pool. How many were left out is logged and recorded as `removed_duplicates` beside the truth (in the private data)
    and in the test set (in the pool). `row` is the position in the public data.
    """
    ours, others = read_samples(private, "private"), read_samples(public, "public")
    _check_partners(ours, others)
    x, y, secret = others["x"], others["y"], content(ours["x"])
    parts = divide(secret, content(x), parameters.pool, parameters.test, generator(seed, stream, "split"))
    check_apart(private=secret, pool=content(x[parts.pool]), test=content(x[parts.test]))
    name, names = others.meta["dataset"], list(others.meta["class_names"])
    log.info("%s: %d queries and %d test samples", name, len(parts.pool), len(parts.test))
    log.info("%s: left out %d public samples that are private, %d in the pool", name, parts.in_private, parts.in_pool)
    common = {"dataset": name, "classes": len(names), "class_names": names, "seed": seed}
    common |= {"split": parameters.model_dump()}
    digest = write_arrays(pool_out, POOL, {"x": x[parts.pool], "row": parts.pool}, {**common, "public": others.digest})
    truth_facts = {"pool": digest, "classes": len(names), "removed_duplicates": parts.in_private}
    write_arrays(truth_out, TRUTH, {"y": y[parts.pool]}, truth_facts)
    test_facts = {**common, "role": "test", "pool": digest, "removed_duplicates": parts.in_pool}
    write_arrays(test_out, SAMPLES, {"x": x[parts.test], "y": y[parts.test], "row": parts.test}, test_facts)


def _check_partners(private: Artefact, public: Artefact) -> None:
    for entry in ("dataset", "classes", "class_names"):
        public.require(entry, private.meta[entry], str(private.path))
    if (private["x"].dtype, private["x"].shape[1:]) != (public["x"].dtype, public["x"].shape[1:]):
        raise ArtefactError(public.path, f"its samples have another shape or dtype than those of {private.path}")


command = stage_command(
    run,
    file_option("private", "Private samples, which the public ones must not repeat."),
    file_option("public", "Public samples to divide."),
    parameter_options(SplitParameters),
    seeded,
    file_option("pool-out", "Where the pool goes."),
    file_option("truth-out", "Where the true labels of the pool go."),
    file_option("test-out", "Where the test set goes."),
)
