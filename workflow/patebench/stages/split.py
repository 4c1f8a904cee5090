"""Stage `split`: divide the public samples into the student's pool and the test set."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from patebench.artefacts.reading import check_partners, read_samples
from patebench.cli.command import OutputFile, stage_command
from patebench.config.parameters import SplitParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import write_arrays
from patebench.core.formats import POOL, SAMPLES, TRUTH
from patebench.core.seeds import generator
from patebench.data.division import check_pool_and_test, divide, hash_samples, order_by_content, shift_images
from patebench.features import data_seen

log = logging.getLogger("patebench")


def run(
    *,
    public: Annotated[Path, "Public samples."],
    private: Annotated[Path | None, "Samples with private labels, for --protects labels."] = None,
    parameters: SplitParameters,
    seed: int,
    stream: str,
    pool_out: Annotated[OutputFile, "Output file with the pool."],
    truth_out: Annotated[OutputFile, "Output file with the true labels of the pool."],
    test_out: Annotated[OutputFile, "Output file with the test set."],
) -> None:
    """Shuffle the public samples into the student's pool and the test set.

    Test samples that equal a pool sample byte for byte are left out. The number of such samples is logged and stored in
    the test set as `removed_duplicates`. The array `row` of each output contains positions in --public. A shift of
    images (--pool-shift) changes only the pool.

    With --protects labels, the pool is drawn from --private instead. In this file, the samples are public and only the
    labels are private. Before the pool is drawn, the samples are sorted by a hash that does not depend on labels. The
    array `row` of the pool contains positions in the sorted order, not in --public. Identical samples in --private are
    an error. The labels of the pool are written only to the file of true labels.
    """
    samples = read_samples(public, "public")
    if (private is not None) != (parameters.protects is not None):
        raise PatebenchError("only one of --private and --protects is given; give both or neither", code="labels")
    source = samples if private is None else read_samples(private, "private")
    check_partners(source, samples)
    if private is not None:
        order = order_by_content(source.arrays)
        source = replace(source, arrays={name: values[order] for name, values in source.arrays.items()})
    x, hashes = samples["x"], hash_samples(samples["x"])
    queries = hashes if private is None else hash_samples(source["x"])
    training = None if private is None else queries
    parts = divide(hashes, parameters.pool, parameters.test, generator(seed, stream, "split"), training)
    check_pool_and_test(queries[parts.pool], hashes[parts.test])
    name, names = samples.meta["dataset"], list(samples.meta["class_names"])
    log.info("%s: %d queries and %d test samples", name, len(parts.pool), len(parts.test))
    log.info("%s: left out %d test samples that are also in the pool", name, parts.in_pool)
    common = {"dataset": name, "classes": len(names), "class_names": names, "seed": seed}
    common |= {"split": parameters.model_dump()}
    if of_features := data_seen(*str(samples.meta.get("features", "")).split(",")):
        common["split"]["encoder_data"] = of_features
    pool = {"x": shift_images(source["x"][parts.pool], parameters.pool_shift), "row": parts.pool}
    held_out = {"x": x[parts.test], "y": samples["y"][parts.test], "row": parts.test}
    if "images" in samples.arrays and "images" in source.arrays:
        pool["images"], held_out["images"] = source["images"][parts.pool], samples["images"][parts.test]
    digest = write_arrays(pool_out, POOL, pool, {**common, "public": samples.digest})
    write_arrays(truth_out, TRUTH, {"y": source["y"][parts.pool]}, {"pool": digest, "classes": len(names)})
    test_facts = {**common, "role": "test", "pool": digest, "removed_duplicates": parts.in_pool}
    write_arrays(test_out, SAMPLES, held_out, test_facts)


command = stage_command(run)
