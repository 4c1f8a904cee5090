"""Stage `name_clusters`: label clusters of the public pool by true labels, and measure the accuracy.

In practice, the true labels of the pool are unknown. The accuracy is a reference for methods that label clusters by
private data. This stage uses no private data, so ε = 0.
"""

import logging
from pathlib import Path
from typing import Annotated

import numpy as np

from patebench.artefacts.reading import check_pool_protection, check_together, read_encoder, read_samples
from patebench.cli.command import OutputFile, stage_command, threads
from patebench.core.class_accuracy import class_accuracy
from patebench.core.files import read_arrays, write_json
from patebench.core.formats import FEATURES, POOL, QUERIES, TRUTH

log = logging.getLogger("patebench")

#: Statement in the result.
_STATEMENT = (
    "Clusters were named by true labels of public samples, for comparison. A release cannot use these labels. The "
    "result does not depend on any private record."
)


def run(
    *,
    pool: Annotated[Path, "Public pool."],
    truth: Annotated[Path, "True labels of the pool."],
    test: Annotated[Path, "Test set."],
    features: Annotated[Path, "Features of the pool."],
    encoder: Annotated[Path, "Encoder that computed the features."],
    selected: Annotated[Path, "Queries whose clusters are named."],
    out: Annotated[OutputFile, "Output file with the result."],
) -> None:
    """Label clusters of the pool by true labels, and measure the accuracy of these labels on the test set.

    There is one cluster per selected query. Its centre is the mean of the pool samples that are nearer to the query
    than to any other query. Each sample of the pool and of the test set is then assigned to the cluster with the
    nearest centre. The label of a cluster is the most frequent true label of the pool samples in the cluster. If there
    are as many clusters as classes, the best one-to-one assignment of labels is measured too.
    """
    from patebench.features.cells import centres, nearest
    from patebench.features.query_clusters import majority, one_to_one

    samples, answers, test_set = read_arrays(pool, POOL), read_arrays(truth, TRUTH), read_samples(test, "test")
    known, asked = read_arrays(features, FEATURES), read_arrays(selected, QUERIES)
    check_together(pool=samples, truth=answers, features=known, queries=asked)
    check_pool_protection(samples)
    vectors, classes, clusters = known["vectors"], int(samples.meta["classes"]), len(asked["queries"])
    means = centres(vectors, asked["queries"])
    in_pool = nearest(vectors, means)
    in_test = nearest(read_encoder(encoder, samples).features(test_set["x"]), means)
    names = majority(in_pool, answers["y"], clusters, classes)
    matched_accuracy: float | None = None
    if clusters == classes:
        matching = one_to_one(in_pool, answers["y"], classes)
        matched_accuracy = float(np.mean(matching[in_test] == test_set["y"]))
    reached = {
        **class_accuracy(test_set["y"], names[in_test], test_set.meta["class_names"]),
        "accuracy_pool": float(np.mean(names[in_pool] == answers["y"])),
        "matched_accuracy": matched_accuracy,
    }
    log.info("%d clusters, named by true labels: accuracy %.2f%% on the test set", clusters, 100 * reached["accuracy"])
    result = {
        "pool": samples.digest,
        "truth": answers.digest,
        "test": test_set.digest,
        "selected": asked.digest,
        "dataset": test_set.meta["dataset"],
        "split": test_set.meta["split"],
        "seed": test_set.meta["seed"],
        "clusters": clusters,
        **reached,
        "statement": _STATEMENT,
    }
    write_json(out, "name_clusters", result)


command = stage_command(run, threads)
