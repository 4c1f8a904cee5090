"""The stage `split`: the public samples become the student's pool and the test set."""

import logging
from pathlib import Path
from typing import Annotated

from patebench.artefacts.reading import read_samples
from patebench.cli.command import stage_command
from patebench.config.parameters import SplitParameters
from patebench.core.files import write_arrays
from patebench.core.formats import POOL, SAMPLES, TRUTH
from patebench.core.seeds import generator
from patebench.data.division import check_apart, content, divide, shifted

log = logging.getLogger("patebench")


def run(
    *,
    public: Annotated[Path, "Public samples to divide."],
    parameters: SplitParameters,
    seed: int,
    stream: str,
    pool_out: Annotated[Path, "Where the pool goes."],
    truth_out: Annotated[Path, "Where the true labels of the pool go."],
    test_out: Annotated[Path, "Where the test set goes."],
) -> None:
    """Shuffle the public samples into the student's pool and the test set.

    A test sample that equals one of the pool byte for byte is left out; how many were is logged and recorded in the
    test set as `removed_duplicates`. `row` is the position in the public data. The private data are not read: pool and
    test set may be shown, and would tell of them. With a shift the pool, and it alone, is changed as if from elsewhere.
    """
    samples = read_samples(public, "public")
    x, y = samples["x"], samples["y"]
    parts = divide(content(x), parameters.pool, parameters.test, generator(seed, stream, "split"))
    check_apart(content(x[parts.pool]), content(x[parts.test]))
    name, names = samples.meta["dataset"], list(samples.meta["class_names"])
    log.info("%s: %d queries and %d test samples", name, len(parts.pool), len(parts.test))
    log.info("%s: left out %d public samples that are in the pool as well", name, parts.in_pool)
    common = {"dataset": name, "classes": len(names), "class_names": names, "seed": seed}
    common |= {"split": parameters.model_dump()}
    pool = shifted(x[parts.pool], parameters.pool_shift)
    digest = write_arrays(pool_out, POOL, {"x": pool, "row": parts.pool}, {**common, "public": samples.digest})
    write_arrays(truth_out, TRUTH, {"y": y[parts.pool]}, {"pool": digest, "classes": len(names)})
    test_facts = {**common, "role": "test", "pool": digest, "removed_duplicates": parts.in_pool}
    write_arrays(test_out, SAMPLES, {"x": x[parts.test], "y": y[parts.test], "row": parts.test}, test_facts)


command = stage_command(run)
