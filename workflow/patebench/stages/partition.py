"""Stage `partition`: divide the private samples among the teachers."""

import logging
from pathlib import Path
from typing import Annotated

import click
import numpy as np

from patebench.artefacts.reading import check_partners, read_samples
from patebench.cli.command import OutputFile, stage_command
from patebench.config.parameters import PartitionParameters
from patebench.core.errors import ArtefactError, PatebenchError, located
from patebench.core.files import write_arrays
from patebench.core.formats import PARTITION
from patebench.core.seeds import derive, generator
from patebench.data.dataset import OWN_DATA, check_numbers
from patebench.data.division import digest_owners, digest_records, hash_samples, order_by_content
from patebench.data.partitions import (
    LABELS,
    NOBODY,
    PARTITIONS,
    PROTECTS_LABEL,
    Change,
    PartitionInputs,
    assigns_people,
    check_disjoint,
    check_every_class,
    check_filled,
    check_keeps_people,
    check_teachers,
    pack,
    protected,
    read_owners,
)

log = logging.getLogger("patebench")


def run(
    *,
    private: Annotated[Path, "Private samples."],
    public: Annotated[Path, "Public samples, which must not occur in a shard."],
    teachers: Annotated[int | None, "Number of shards."],
    parameters: PartitionParameters,
    seed: int,
    stream: str,
    out: Annotated[OutputFile, "Output file with the shards."],
    empty: Annotated[bool, "Allow shards without samples, for teachers that may abstain."] = False,
    protects: Annotated[str | None, "Protect only labels, as in the stage split.", click.Choice([LABELS])] = None,
) -> None:
    """Divide the private samples among the teachers.

    Private samples that equal a sample in --public byte for byte are assigned to no teacher; their number is logged and
    stored as `left_out`. The metadata of the output lists the changes of the private data, such as an added record,
    that alter at most one shard. With the strategy "owners", there is one teacher per owner, and --teachers is not
    needed. Without --empty, a shard without samples is an error. With --every-class, a shard that lacks a class is an
    error too.

    With --protects labels, only the labels of the samples in --private are private. The stage split draws the pool from
    the same samples, so a sample can be both in the pool and in a shard. Each shard must contain one record. Before
    they are assigned, the records are sorted by a hash of the samples, because their order in the file may depend on
    labels.
    """
    strategy = PARTITIONS.load(parameters.strategy)
    if protects is not None and Change.REPLACE not in PARTITIONS.fact(parameters.strategy, "protects"):
        line = (
            f"with '{parameters.strategy}', a changed label may move other records to another shard, so"
            " --protects labels is not possible; leave --strategy out"
        )
        raise PatebenchError(line, code="labels", where="--strategy")
    samples, others = read_samples(private, "private"), read_samples(public, "public")
    check_partners(samples, others)
    inputs = PartitionInputs(
        y=samples["y"],
        rows=samples["row"],
        classes=samples.meta["classes"],
        rng=generator(seed, stream, "partition"),
        key=derive(seed, stream, "partition").to_bytes(8, "little"),
        teachers=teachers,
        share=parameters.share,
        owners=samples.arrays.get("owner") if parameters.owners is None else read_owners(Path(parameters.owners)),
    )
    if parameters.owners is not None and inputs.owners is not None and "owner" in samples.arrays:
        check_numbers("owners", inputs.owners, len(inputs.y))
        with located("--owners"):
            check_keeps_people(samples["owner"], inputs.owners)
    people = inputs.owners if assigns_people(parameters.strategy) else None
    # Assign all samples before leaving some out, so that a left-out sample does not move others to another shard.
    assignment = strategy(inputs)
    if protects is not None:
        assignment[order_by_content(samples.arrays)] = assignment.copy()
    count = teachers or int(assignment.max()) + 1
    known = np.isin(hash_samples(samples["x"]), hash_samples(others["x"]))
    left_out = int(known.sum())
    if left_out == len(known):
        raise ArtefactError(
            private,
            f"all of its {left_out} samples also occur in {public}, so no teacher would have a sample",
            f"give private samples that are not in the public part; {OWN_DATA}",
        )
    assignment = np.where(known, NOBODY, assignment)
    indices, offsets = pack(assignment, count)
    sizes = np.diff(offsets)
    if not empty:
        if people is not None:
            check_teachers(count, len(inputs.y), len(np.unique(people)))
        check_filled(sizes, left_out)
    check_disjoint(indices, offsets, len(samples["y"]), empty=empty)
    if parameters.every_class:
        check_every_class(assignment[~known], samples["y"][~known], samples.meta["class_names"])
    if protects is not None and sizes.max() > 1:
        fix = f"use {len(known)} teachers and leave --strategy out"
        line = f"private labels need one record per teacher, but a shard has {sizes.max()}; {fix}"
        raise PatebenchError(line, code="labels", where="--teachers")
    records = samples.arrays.get("images", samples["x"])
    changes, protection = protected(parameters.strategy, samples.meta.get("own_rows", False))
    facts = {
        "private": samples.digest,
        "records": digest_records(records, samples["y"]),
        "public": others.digest,
        "samples": len(samples["y"]),
        "left_out": left_out,
        "teachers": count,
        "strategy": parameters.slug,
        "protects": [Change.LABEL] if protects else changes,
        "protection": PROTECTS_LABEL if protects else protection,
    }
    if people is not None:
        facts["owners"] = digest_owners(records, samples["y"], people, samples["row"])
    if empty:
        facts["empty"] = True
    write_arrays(out, PARTITION, {"indices": indices, "offsets": offsets}, facts)
    log.info("%d teachers (%s): shards of %d to %d samples", count, parameters.slug, sizes.min(), sizes.max())
    log.info("left out %d private samples that are also public", left_out)


command = stage_command(run)
