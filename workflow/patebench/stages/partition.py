"""The stage `partition`: the private samples are dealt to the teachers."""

import logging
from pathlib import Path
from typing import Annotated

import click
import numpy as np

from patebench.artefacts.reading import read_samples
from patebench.cli.command import stage_command
from patebench.config.parameters import PartitionParameters
from patebench.core.errors import ArtefactError
from patebench.core.files import Artefact, write_arrays
from patebench.core.formats import PARTITION
from patebench.core.seeds import derive, generator
from patebench.data.dataset import OWN_DATA
from patebench.data.division import content, records
from patebench.data.partitions import (
    NOBODY,
    PARTITIONS,
    Deal,
    check_disjoint,
    check_every_class,
    check_filled,
    check_teachers,
    deals_people,
    pack,
    read_owners,
)

log = logging.getLogger("patebench")


def run(
    *,
    private: Annotated[Path, "Private samples."],
    public: Annotated[Path, "Public samples, which no shard may hold."],
    teachers: int | None,
    parameters: PartitionParameters,
    seed: int,
    stream: str,
    out: Annotated[Path, "Where the shards go."],
    empty: bool = False,
) -> None:
    """Deal the private samples to the teachers.

    A private sample that equals a public one byte for byte belongs to no teacher; how many these are is logged and
    recorded as `left_out`. Recorded is as well which change of the private data alters one shard at most (`protects`).
    With the strategy "owners" the number of teachers is that of the owners, and need not be given. A shard that lacks a
    class is refused with --every-class, and one without a sample unless --empty allows it, for teachers that then keep
    silent.
    """
    strategy = PARTITIONS.load(parameters.strategy)
    samples, others = read_samples(private, "private"), read_samples(public, "public")
    _check_partners(samples, others)
    deal = Deal(
        y=samples["y"],
        rows=samples["row"],
        classes=samples.meta["classes"],
        rng=generator(seed, stream, "partition"),
        key=derive(seed, stream, "partition").to_bytes(8, "little"),
        teachers=teachers,
        share=parameters.share,
        owners=samples.arrays.get("owner") if parameters.owners is None else read_owners(Path(parameters.owners)),
    )
    # Whose a sample is comes first: one that is left out must not move any other.
    assignment = strategy(deal)
    count = teachers or int(assignment.max()) + 1
    known = np.isin(content(samples["x"]), content(others["x"]))
    left_out = int(known.sum())
    if left_out == len(known):
        raise ArtefactError(
            private,
            f"each of its {left_out} samples is in {public} as well, so no teacher would have one",
            f"give private samples that the public part does not show; {OWN_DATA}",
        )
    assignment = np.where(known, NOBODY, assignment)
    indices, offsets = pack(assignment, count)
    sizes = np.diff(offsets)
    if not empty:
        if deals_people(parameters.strategy) and deal.owners is not None:
            check_teachers(count, len(deal.y), len(np.unique(deal.owners)))
        check_filled(sizes, left_out)
    check_disjoint(indices, offsets, len(samples["y"]), empty=empty)
    if parameters.every_class:
        check_every_class(assignment[~known], samples["y"][~known], samples.meta["class_names"])
    facts = {
        "private": samples.digest,
        "records": records(samples["x"], samples["y"]),
        "public": others.digest,
        "samples": len(samples["y"]),
        "left_out": left_out,
        "teachers": count,
        "strategy": parameters.slug,
        "protects": PARTITIONS.fact(parameters.strategy, "protects"),
        "protection": PARTITIONS.fact(parameters.strategy, "protection"),
    }
    if empty:
        facts["empty"] = True
    write_arrays(out, PARTITION, {"indices": indices, "offsets": offsets}, facts)
    log.info("%d teachers (%s): shards of %d to %d samples", count, parameters.slug, sizes.min(), sizes.max())
    log.info("left out %d private samples that are public as well", left_out)


def _check_partners(private: Artefact, public: Artefact) -> None:
    for entry in ("dataset", "classes", "class_names"):
        public.require(entry, private.meta[entry], str(private.path))
    if (private["x"].dtype, private["x"].shape[1:]) != (public["x"].dtype, public["x"].shape[1:]):
        raise ArtefactError(public.path, f"its samples have another shape or dtype than those of {private.path}")


command = stage_command(
    run,
    click.option("--teachers", type=int, default=None, help="Number of shards."),
    click.option("--empty", is_flag=True, help="Allow shards without a sample, for teachers that then keep silent."),
)
