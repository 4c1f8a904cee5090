"""Stage `import_votes`: import votes from a file instead of training teachers."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np

from patebench.artefacts.reading import may_abstain
from patebench.artefacts.votes_file import NO_POOL, read_source
from patebench.cli.command import COUNT, SEED, OutputFile, stage_command
from patebench.config.parameters import ImportParameters, SplitParameters
from patebench.core.errors import PatebenchError
from patebench.core.files import read_arrays, write_arrays, write_json
from patebench.core.formats import POOL, TRUTH, VOTES, WEIGHTS
from patebench.stages.join_votes import describe_votes

#: Name of the partition of imported votes, and text that states what ε protects.
_PARTITION = "imported"
_PROTECTION = "the votes of one teacher, which are published"


def run(
    *,
    votes: Annotated[Path, "File of votes: of `export_votes`, or a table (.npy, .npz or CSV) with --classes."],
    parameters: ImportParameters,
    teachers: Annotated[int, "Number of teachers in the file.", COUNT],
    out: Annotated[OutputFile, "Output file with the vote matrix."],
    summary: Annotated[OutputFile, "Output file that describes the ensemble."],
    pool: Annotated[Path | None, "Public pool; its samples are the queries."] = None,
    truth: Annotated[Path | None, "True labels of the pool."] = None,
    dataset: Annotated[str | None, "Name of the data set, for a table of votes."] = None,
    seed: Annotated[int, "Base seed, for a table of votes.", SEED] = 0,
) -> None:
    """Import the votes in a file for mechanisms, accountants and audits, without training.

    If `export_votes` wrote the file, give --pool, the pool on which the teachers voted, and --truth, the true labels of
    the pool. If the file is a table of votes, give --dataset and --classes. The queries of a table are unknown samples
    of --dataset, so the accuracy of labels is unknown. No release can be drawn from imported votes, because they are
    treated as published.
    """
    is_table = parameters.classes is not None
    if {pool is None, truth is None, dataset is not None} != {is_table}:
        line = (
            "the options fit neither a table of votes nor a file of export_votes; give --classes and --dataset for a"
            " table, or --pool and --truth for a file of export_votes"
        )
        raise PatebenchError(line, code="options")
    source, matrix = read_source(votes, True, parameters.classes, teachers)
    kept = ("abstentions", "neighbours", "weighted", "teachers")
    meta: dict[str, Any] = {name: source.meta[name] for name in kept if name in source.meta}
    meta |= {"classes": matrix.classes, "test": None, "chunks": [], "imported": source.digest}
    meta |= {"partition": _PARTITION, "partition_rule": _PARTITION, "protects": [], "protection": _PROTECTION}
    stored = {name: source[name] for name in ("votes", "queries", *WEIGHTS) if name in source.arrays}
    arrays = stored or {"votes": np.asarray(matrix.matrix)}
    about: dict[str, Any] = {"dataset": dataset, "seed": seed, "class_names": list(map(str, range(matrix.classes)))}
    about["split"] = SplitParameters(pool=matrix.queries).model_dump()
    quality: dict[str, Any] = {}
    if pool is not None and truth is not None:
        queries, answers = read_arrays(pool, POOL), read_arrays(truth, TRUTH)
        for part in (answers, source):
            part.require("pool", queries.digest, str(pool))
        about = {name: queries.meta[name] for name in about}
        truths = answers["y"][arrays["queries"]] if "queries" in arrays else answers["y"]
        names, abstentions = about["class_names"], may_abstain(source)
        quality = describe_votes(arrays, teachers, truths, truths, names, abstentions=abstentions)
    meta |= {"dataset": about["dataset"], "pool": NO_POOL if is_table else source.meta["pool"]}
    about |= {"teachers": teachers, "partition": _PARTITION, "classes": matrix.classes, "imported": source.digest}
    about |= {"model": parameters.name, "recipe": "", "epochs": None}
    about["queries"] = matrix.queries if "queries" in arrays else None
    write_json(summary, "join_votes", {"votes": write_arrays(out, VOTES, arrays, meta), **about, **quality})


command = stage_command(run)
